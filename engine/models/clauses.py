"""Captions that end where a clause ends: what a captioner wrote until its tokens ran out, or what is too long to edit.

A text that was cut ends in the middle of a phrase, perhaps of a word. It is cut back: to the last mark behind which a
clause begins, else before the last word that begins one, else before the words that lead nowhere.
"""

from __future__ import annotations

import re

# Behind a mark comes a space or nothing, so that 1,000 and 2.5 stay whole.
_MARK = re.compile(r"[.,;:!?](?=[\"')\]]*(?:\s|$))")
_BEGINS = re.compile(
    r"\s(?:and|or|but|while|with|without|as|where|which|who|that|because|so|near|next to)\s", re.IGNORECASE
)
_LEADS_NOWHERE = re.compile(
    r"(?:an?|the|and|or|but|of|in|on|at|by|to|with|from|for|near|under|over|into|behind|its|his|her|their|this|that|as"
    r"|is|are|was|were|which|who|where|while|some|several|very)",
    re.IGNORECASE,
)
_FEW = 3  # words that a clause has at least


def to_clause(text: str) -> str:
    """A text that was cut, cut back to a clause's end; as it is where it has no more than a few words."""
    ends = [match.start() for match in _MARK.finditer(text)]
    ends += [] if _has_clause(text, ends) else [match.start() for match in _BEGINS.finditer(text)]
    for end in reversed(ends):
        if len(text[:end].split()) >= _FEW:
            return text[:end] + ("." if text[end] == "." else "")
    words = text.split()
    kept = words[:-1]  # which may be half a word
    while kept and _LEADS_NOWHERE.fullmatch(kept[-1]):
        kept.pop()
    return " ".join(kept) if len(kept) >= _FEW else text.strip()


def _has_clause(text: str, ends: list[int]) -> bool:
    return any(len(text[:end].split()) >= _FEW for end in ends)


def shorten(text: str, most: int) -> str:
    """A text of at most `most` characters, the clauses of a longer one that fit."""
    if len(text) <= most:
        return text
    cut = text[: most + 1]  # a mark may stand at the last place, with what shows that it ends there
    kept = to_clause(cut) if len(to_clause(cut)) <= most else to_clause(text[:most])
    return kept if len(kept) <= most else text[:most].rsplit(maxsplit=1)[0]
