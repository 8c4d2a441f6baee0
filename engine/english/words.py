"""Words of captions: which of them an edit may replace, by what, and whether a rewritten caption is usable.

Pure functions of text, which check a language model's answers and never ask it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..edit import Edit
from ..language.phrases import Mention, find_mentions, goes_on, phrase_class
from ..language.questions import clean_text
from .difference import WORD, Change, Difference, compare, words_of
from .edit_scope import AGREEING, misplaced, written_by_rule
from .mentions import changed_protected_word, forms, normalise, quantities
from .nouns import load_nouns

# What no phrase ends with, and what none begins with.
_OPEN_END = frozenset(
    re.findall(
        "[a-z]+", "a an the some its his her their of and or but in at on by with during under near is are was were to"
    )
)
_NO_BEGINNING = frozenset(re.findall("[a-z]+", "of and or but is are was were to that which"))
_MAX_SPAN_CHARS = 60


def spans(caption: str, max_words: int, keep: Sequence[str]) -> list[str]:
    """The word sequences of `caption` that an edit may replace, in order, each once.

    A span has 1 to `max_words` words separated by single spaces, so that it crosses no punctuation, and at least one
    word that is not in `keep` and does not say how many there are of one of them.
    """
    fixed = {form for phrase in keep for word in phrase.split() for form in forms(normalise(word))}
    numbers = quantities(caption, keep)
    words = list(WORD.finditer(caption))
    free = [word.start() not in numbers and fixed.isdisjoint(normalise(word.group()).split()) for word in words]
    distinct_spans: dict[str, None] = {}
    for first in range(len(words)):
        for last in range(first, min(first + max_words, len(words))):
            if last > first and caption[words[last - 1].end() : words[last].start()] != " ":
                break
            span = caption[words[first].start() : words[last].end()]
            if any(free[first : last + 1]) and len(span) <= _MAX_SPAN_CHARS:
                distinct_spans[span] = None
    return list(distinct_spans)


def drop_overlapping(caption: str, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The (type, keyword) pairs without those that overlap an earlier one in `caption`, in the caption's order."""
    placed: list[tuple[int, int, str, str]] = []
    named: set[str] = set()
    for type_, keyword in pairs:
        if keyword.casefold() in named:
            continue
        for match in re.finditer(rf"(?<!\w){re.escape(keyword)}(?!\w)", caption):
            if all(match.end() <= start or end <= match.start() for start, end, _, _ in placed):
                placed.append((match.start(), match.end(), type_, keyword))
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
        names = [
            word
            for word in keep
            if changed_protected_word("", value, (word,)) and changed_protected_word(keyword, value, (word,))
        ]
        if value and not repeats and not names:
            usable.append(value)
    return distinct(usable)


def says_any(words: Sequence[str], text: str) -> bool:
    """Whether a text holds one of the words."""
    return not {word.casefold() for word in words}.isdisjoint(word.same for word in words_of(text))


def allowed_alternatives(
    alternatives: Sequence[str], keyword: str, keep: Sequence[str], avoid: Sequence[str] = ()
) -> tuple[str, ...]:
    """The model's alternatives, each once, without those that contain the keyword or a word of `avoid`, or would change
    a word of `keep`.
    """
    usable = [value.strip() for value in alternatives if not says_any(avoid, value)]
    same = keyword.casefold()
    return distinct(
        [v for v in usable if v and same not in v.casefold() and not changed_protected_word(keyword, v, keep)]
    )


def phrases(caption: str, max_words: int, keep: Sequence[str]) -> list[str]:
    """The spans of `caption` that can stand alone and hold no word of `keep`: none ends in "the" or "on", or begins
    with "and" or "is".
    """
    fixed = {word.casefold() for word in kept_words(caption, keep)}
    candidates = [(span, span.casefold().split()) for span in spans(caption, max_words, keep)]
    return [
        span
        for span, words in candidates
        if words[-1] not in _OPEN_END and words[0] not in _NO_BEGINNING and fixed.isdisjoint(words)
    ]


def kept_words(caption: str, keep: Sequence[str]) -> tuple[str, ...]:
    """The words of a caption, each once, that no edit may remove; it may add others before or after them."""
    parts = [word for phrase in keep for word in phrase.split()]
    return distinct(
        [word.text for word in words_of(caption) if changed_protected_word(word.text, "", parts) is not None]
    )


def removable(caption: str, phrases: Sequence[str]) -> list[str]:
    """The phrases that can go and leave a sentence: "with a ball" before a comma, "and", "on" or the end."""
    end = r"(?=\s*(?:[.,;:!?]|$)|\s(?:and|in|at|on|by|with|under|near|during)\b)"
    return [s for s in phrases if phrase_class(s) == "place" and re.search(rf"(?<![^\W_]){re.escape(s)}{end}", caption)]


def allowed_proposals(
    pairs: Sequence[tuple[str, str]], caption: str, keep: Sequence[str], avoid: Sequence[str]
) -> list[tuple[str, str]]:
    """The (span, words in its place) pairs that change something and are allowed, each once.

    Not allowed are pairs that touch a word of `keep`, hold a word of `avoid`, repeat a word, add only words that the
    caption has, or put before a word what cannot describe it ("with a dog").
    """
    present = {word.same for word in words_of(caption)}
    usable: dict[tuple[str, str], tuple[str, str]] = {}
    for old, new in ((old.strip(), new.strip()) for old, new in pairs):
        words = [word.same for word in words_of(new) if word.same not in _OPEN_END]
        adds = not old or new.startswith(f"{old} ") or new.endswith(f" {old}")
        fresh = set(words) - (present if adds else {word.same for word in words_of(old)})
        repeated = len(words) > len(set(words))
        before = new.removesuffix(f" {old}").casefold().split() if new.endswith(f" {old}") else []
        loose = any(word in _OPEN_END or phrase_class(word) == "place" for word in before)
        broken = changed_protected_word(old or caption, new if old else f"{caption}. {new}", keep)
        if (fresh or not new) and not (repeated or loose or broken or says_any(avoid, new)):
            usable.setdefault((old.casefold(), new.casefold()), (old, new))
    return list(usable.values())


def says_again(old: str, new: str, caption: str) -> bool:
    """Whether the words that `new` brings name a thing that the caption names already: a second "blimp" over a blimp,
    whatever the label is.
    """
    nouns = load_nouns()
    brought = {word.same for word in words_of(new)} - {word.same for word in words_of(old)}
    return any(nouns.senses(word) for word in brought & {word.same for word in words_of(caption)})


def check_edited_caption(caption: str, edited: str, edits: Sequence[Edit], keep: Sequence[str]) -> str | None:
    """The reason why an edited caption cannot be used, or None if it can.

    The captions are compared word by word (difference.py). Words that no edit changes must stay, but for small ones
    that agree with others (a, an, in, on, is, are). A replaced keyword must be gone wherever the caption says it of the
    same thing, and its alternative must stand there and nowhere else. A caption that the rules write always passes.
    """
    if (word := changed_protected_word(caption, edited, keep)) is not None:
        return f"the edited caption changes {word!r}, which may not change"
    difference = compare(caption, edited)
    if not difference.changes:
        return "the edited caption says what the caption says"
    present = {word.same for word in words_of(edited)}
    for edit in edits:
        missing = [word.text for word in words_of(edit.alternative) if word.same not in present]
        if missing:
            return f"the edited caption lacks {missing[0]!r} of the edit {_quote(edit)}"
    wrong = _what_else(caption, edited, edits, difference)
    return None if wrong is not None and written_by_rule(caption, edited, edits) else wrong


def _what_else(caption: str, edited: str, edits: Sequence[Edit], difference: Difference) -> str | None:
    """Why an edited caption seems to change more than its edits do, word by word, or less; None if neither."""
    new = {word.same for edit in edits for word in words_of(edit.alternative)} | AGREEING
    for added in difference.added:
        if added.same not in new:
            return f"the edited caption adds {added.text!r}, which no edit says"
    replaced = [edit for edit in edits if edit.keyword]
    mentions = find_mentions(caption, [edit.keyword for edit in replaced])
    places = [mention for places_of_edit in mentions for mention in places_of_edit]
    for gone in difference.removed:
        if gone.same not in AGREEING and not any(m.start <= gone.start and gone.end <= m.end for m in places):
            return f"the edited caption lacks {gone.text!r}, which no edit changes"
    for edit, places_of_edit in zip(replaced, mentions, strict=True):
        once = goes_on(edit.keyword, edit.alternative)
        if not all(_is_changed(caption, edit, m, difference) for m in places_of_edit[: 1 if once else None] if m.same):
            return f"the edited caption still says {edit.keyword!r} of the edit {_quote(edit)}"
    if (word := misplaced(caption, edited, edits)) is not None:
        return f"the edited caption says {word!r} where no edit puts it"
    return None


def _is_changed(caption: str, edit: Edit, mention: Mention, difference: Difference) -> bool:
    """Whether words of the keyword are gone there or, where the alternative has all of them, others are next to it."""
    first = mention.end - len(edit.keyword)  # the small word before it may change for another's sake
    inside = [word for word in words_of(caption) if first <= word.start and word.end <= mention.end]
    if not set(inside).isdisjoint(difference.removed):
        return True
    stays = {word.same for word in words_of(edit.keyword)} <= {word.same for word in words_of(edit.alternative)}
    return stays and any(_added_next_to(change, inside[0].at, inside[-1].at) for change in difference.changes)


def _added_next_to(change: Change, first: int, last: int) -> bool:
    """Whether words were added next to the caption's words number `first` to `last`; the article before those may have
    changed with them ("a dog" is "an old dog").
    """
    if first <= change.at <= last + 1:
        return bool(change.added)
    content = [word for word in change.added if word.same not in AGREEING]
    return bool(content) and change.at + len(change.removed) == first


def _quote(edit: Edit) -> str:
    return f"{edit.keyword!r} -> {edit.alternative!r}"
