"""Words of captions: which of them an edit may replace, by what, and whether a rewritten caption is usable.

Pure functions of text, which check a language model's answers and never ask it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..edit import Edit
from ..language.questions import clean_text
from .task import broken_word

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_MAX_SPAN_CHARS = 60


def spans(caption: str, max_words: int, keep: Sequence[str]) -> list[str]:
    """The word sequences of `caption` that an edit may replace, in order, each once.

    A span has 1 to `max_words` words separated by single spaces, so that it crosses no punctuation, and at least one
    word that is not in `keep`.
    """
    kept = [word for phrase in keep for word in phrase.split()]
    words = list(_WORD.finditer(caption))
    free = [broken_word(word.group(), "", kept) is None for word in words]
    found: dict[str, None] = {}
    for first in range(len(words)):
        for last in range(first, min(first + max_words, len(words))):
            if last > first and caption[words[last - 1].end() : words[last].start()] != " ":
                break
            span = caption[words[first].start() : words[last].end()]
            if any(free[first : last + 1]) and len(span) <= _MAX_SPAN_CHARS:
                found[span] = None
    return list(found)


def drop_overlapping(caption: str, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The (type, keyword) pairs without those that overlap an earlier one in `caption`, in the caption's order."""
    placed: list[tuple[int, int, str, str]] = []
    named: set[str] = set()
    for type_, keyword in pairs:
        if keyword.casefold() in named:
            continue
        for found in re.finditer(rf"(?<!\w){re.escape(keyword)}(?!\w)", caption):
            if all(found.end() <= start or end <= found.start() for start, end, _, _ in placed):
                placed.append((found.start(), found.end(), type_, keyword))
                named.add(keyword.casefold())
                break
    return [(type_, keyword) for _, _, type_, keyword in sorted(placed)]


def distinct(values: Sequence[str]) -> tuple[str, ...]:
    """`values` in order, without repetitions; case is ignored."""
    first: dict[str, str] = {}
    for value in values:
        first.setdefault(value.casefold(), value)
    return tuple(first.values())


def allowed_values(values: Sequence[str], keyword: str, keep: Sequence[str]) -> tuple[str, ...]:
    """The user's values that would change something (not "night" for "at night") and contain no word of `keep`."""
    usable = []
    for value in map(clean_text, values):
        repeats = re.search(rf"(?<!\w){re.escape(value.casefold())}(?!\w)", keyword.casefold())
        names = [word for word in keep if broken_word("", value, (word,)) and broken_word(keyword, value, (word,))]
        if value and not repeats and not names:
            usable.append(value)
    return distinct(usable)


def allowed_alternatives(found: Sequence[str], keyword: str, keep: Sequence[str]) -> tuple[str, ...]:
    """The model's alternatives, each once, without those that contain the keyword or would change a word of `keep`."""
    usable = [value.strip() for value in found]
    same = keyword.casefold()
    return distinct([v for v in usable if v and same not in v.casefold() and not broken_word(keyword, v, keep)])


def check_edited_caption(caption: str, edited: str, edits: Sequence[Edit], keep: Sequence[str]) -> str | None:
    """The reason why an edited caption cannot be used, or None if it can."""
    if (word := broken_word(caption, edited, keep)) is not None:
        return f"the edited caption changes {word!r}, which may not change"
    words = [word.casefold() for word in _WORD.findall(edited)]
    if words == [word.casefold() for word in _WORD.findall(caption)]:
        return "the edited caption says what the caption says"
    for edit in edits:
        missing = [word for word in _WORD.findall(edit.alternative) if word.casefold() not in words]
        if missing:
            return f"the edited caption lacks {missing[0]!r} of the edit {edit.keyword!r} -> {edit.alternative!r}"
    return None
