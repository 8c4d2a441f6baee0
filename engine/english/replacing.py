"""Replaces words of a caption by rule, and undoes edits of an edited caption one at a time.

`write_by_rule` serves edits whose words fit where they go (menus.py): a phrase for a phrase, a word before a thing. A
picture is compared with both texts of `undo_edits` to see whether it shows that edit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..edit import Edit
from ..language.phrases import find_mentions, goes_on
from .additions import apply_by_rule, undo_by_rule

# Written with a vowel and said with a consonant, or the other way about.
_SAID_OTHERWISE = re.compile(r"(?:uni|use|eu|one\b|hour|honest|heir)", re.IGNORECASE)


def write_by_rule(caption: str, changes: Sequence[tuple[str, str]]) -> str:
    """The caption with each keyword replaced by its alternative wherever it speaks of the same thing; "a" and "an"
    agree with what follows them now, and a caption that began with a capital still does.

    Raises ValueError for a keyword that has no place which the others leave free.
    """
    spots: list[tuple[int, int, str]] = []
    by_keyword = find_mentions(caption, [keyword for keyword, _ in changes])
    for (keyword, alternative), mentions in zip(changes, by_keyword, strict=True):
        wanted = mentions[: 1 if goes_on(keyword, alternative) else None]
        spots += [(mention.end - len(keyword), mention.end, alternative) for mention in wanted if mention.same]
    text = caption
    for start, end, new in sorted(spots, reverse=True):
        before = agree(text[:start], new)
        shown = new[:1].upper() + new[1:] if text[start : start + 1].isupper() and not before.strip() else new
        text = before + shown + text[end:]
    return text


def agree(before: str, after: str) -> str:
    """`before` with the article at its end as `after` wants it: "a " before "old dog" is "an "."""
    match = re.search(r"(?<![^\W_])([Aa])(n?)( )$", before)
    if match is None or not after[:1].isalpha():
        return before
    vowel = after[0].casefold() in "aeiou"
    if _SAID_OTHERWISE.match(after):
        vowel = not vowel
    return f"{before[: match.start()]}{match.group(1)}{'n' * vowel} "


def undo_edits(caption: str, edited: str, edits: Sequence[Edit]) -> list[tuple[str, str]]:
    """For each edit, two texts that differ in it alone: with all edits made, and with all others made.

    Where the edited caption is the caption's own words but for its edits, the first text is the edited caption. Where
    the language model changed more, both are made of the caption, each keyword replaced by its alternative wherever
    it speaks of the same thing: words that changed beyond the edits say nothing of one of them. What was added is taken
    out as it was put in, by rule. Edits together with one that removes words, and edits whose keywords overlap, are not
    told apart: each gets the caption with all of them, and with none.
    """
    added = [edit for edit in edits if edit.kind == "add"]
    bare = edited
    for edit in reversed(added):
        bare = undo_by_rule(bare, edit)
    others = _undo_replaced(caption, bare, [edit for edit in edits if edit.kind != "add"])
    whole = others[0][0] if others else bare
    without, pairs = iter(others), list[tuple[str, str]]()
    for edit in edits:
        if edit.kind == "add":
            undone = apply_by_rule(whole, [other for other in added if other is not edit])
        else:
            undone = apply_by_rule(next(without)[1], added)
        pairs.append((apply_by_rule(whole, added), undone))
    return pairs


def _undo_replaced(caption: str, edited: str, edits: Sequence[Edit]) -> list[tuple[str, str]]:
    """The same for edits that replace or remove words."""
    together = [(edited, caption)] * len(edits)
    if any(edit.kind == "remove" for edit in edits):
        return together
    try:
        places = find_mentions(caption, [edit.keyword for edit in edits])
    except ValueError:
        return together
    spots = sorted(
        (mention.start, mention.end, i, mention.same)
        for i, (edit, mentions) in enumerate(zip(edits, places, strict=True))
        for mention in mentions[: 1 if goes_on(edit.keyword, edit.alternative) else None]
    )
    ends, starts = [0, *(end for _, end, *_ in spots)], [*(start for start, *_ in spots), len(caption)]
    unchanged = [caption[end:start] for end, start in zip(ends, starts, strict=True)]
    old = [caption[start:end] for start, end, *_ in spots]
    # A small word before the keyword stays before the alternative.
    new = [
        words[: -len(edits[i].keyword)] + edits[i].alternative if same else words
        for words, (*_, i, same) in zip(old, spots, strict=True)
    ]

    def text(undone: int | None) -> str:
        words = [before if i == undone else after for before, after, (*_, i, _) in zip(old, new, spots, strict=True)]
        return unchanged[0] + "".join(word + rest for word, rest in zip(words, unchanged[1:], strict=True))

    if text(None) != edited:  # what rules write needs no search
        pattern = re.escape(unchanged[0])
        for words, rest, (*_, i, same) in zip(old, unchanged[1:], spots, strict=True):
            # The alternative, with small words before it and a word of the keyword after it; or what stood there, where
            # it may speak of another thing.
            region = rf"(?:\S+ ){{0,2}}?{re.escape(edits[i].alternative)}(?: \S+)?"
            pattern += f"({region if same else f'{region}|{re.escape(words)}'}){re.escape(rest)}"
        if match := re.fullmatch(pattern, edited, re.IGNORECASE):
            new = list(match.groups())

    return [(text(None), text(i)) for i in range(len(edits))]
