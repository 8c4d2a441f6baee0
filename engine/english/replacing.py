"""Replaces words of a caption by rule: no language model chooses the small words.

It serves edits whose words fit where they go (menus.py): a phrase for a phrase, a word before a thing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..language.phrases import find_mentions, goes_on

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
