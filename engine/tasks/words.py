"""Words of captions: which of them an edit may replace, by what, and whether a rewritten caption is usable.

Pure functions of text, which check a language model's answers and never ask it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..edit import Edit
from ..language.grammar import Mention, find_mentions, goes_on
from ..language.questions import clean_text
from .difference import WORD, Difference, compare, words_of
from .mentions import broken_word, forms, normalise, quantities

# Small words that follow from their neighbours.
_AGREEING = frozenset(re.findall("[a-z]+", "a an the at in on by during is are was were"))
_MAX_SPAN_CHARS = 60


def spans(caption: str, max_words: int, keep: Sequence[str]) -> list[str]:
    """The word sequences of `caption` that an edit may replace, in order, each once.

    A span has 1 to `max_words` words separated by single spaces, so that it crosses no punctuation, and at least one
    word that is not in `keep` and does not say how many there are of one of them.
    """
    kept = {form for phrase in keep for word in phrase.split() for form in forms(normalise(word))}
    numbers = quantities(caption, keep)
    words = list(WORD.finditer(caption))
    free = [word.start() not in numbers and kept.isdisjoint(normalise(word.group()).split()) for word in words]
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
    """The reason why an edited caption cannot be used, or None if it can.

    Compared word by word (tasks/difference.py): words that no edit changes stay, but for small ones that agree with
    others (a, an, in, on, is, are); what an edit replaces is gone wherever the caption says it of the same thing; and
    what it says instead is there, and nothing else.
    """
    if (word := broken_word(caption, edited, keep)) is not None:
        return f"the edited caption changes {word!r}, which may not change"
    found = compare(caption, edited)
    if not found.changes:
        return "the edited caption says what the caption says"
    said = {word.same for word in words_of(edited)}
    for edit in edits:
        missing = [word.text for word in words_of(edit.alternative) if word.same not in said]
        if missing:
            return f"the edited caption lacks {missing[0]!r} of the edit {_shown(edit)}"
    new = {word.same for edit in edits for word in words_of(edit.alternative)} | _AGREEING
    for added in found.added:
        if added.same not in new:
            return f"the edited caption adds {added.text!r}, which no edit says"
    mentions = find_mentions(caption, [edit.keyword for edit in edits])
    places = [mention for some in mentions for mention in some]
    for gone in found.removed:
        if gone.same not in _AGREEING and not any(m.start <= gone.start and gone.end <= m.end for m in places):
            return f"the edited caption lacks {gone.text!r}, which no edit changes"
    for edit, some in zip(edits, mentions, strict=True):
        once = goes_on(edit.keyword, edit.alternative)
        if not all(_changed(caption, edit, m, found) for m in some[: 1 if once else None] if m.same):
            return f"the edited caption still says {edit.keyword!r} of the edit {_shown(edit)}"
    return None


def _changed(caption: str, edit: Edit, mention: Mention, found: Difference) -> bool:
    """Whether words of the keyword are gone there, or, where the alternative has all of them, others stand beside."""
    first = mention.end - len(edit.keyword)  # the small word before it may change for another's sake
    inside = [word for word in words_of(caption) if first <= word.start and word.end <= mention.end]
    if not set(inside).isdisjoint(found.removed):
        return True
    kept = {word.same for word in words_of(edit.keyword)} <= {word.same for word in words_of(edit.alternative)}
    return kept and any(inside[0].at <= change.at <= inside[-1].at + 1 for change in found.changes if change.added)


def _shown(edit: Edit) -> str:
    return f"{edit.keyword!r} -> {edit.alternative!r}"
