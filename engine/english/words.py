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
from .mentions import broken_word, forms, normalise, quantities
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


def says_any(words: Sequence[str], text: str) -> bool:
    """Whether a text holds one of the words."""
    return not {word.casefold() for word in words}.isdisjoint(word.same for word in words_of(text))


def allowed_alternatives(
    found: Sequence[str], keyword: str, keep: Sequence[str], avoid: Sequence[str] = ()
) -> tuple[str, ...]:
    """The model's alternatives, each once, without those that contain the keyword or a word of `avoid`, or would change
    a word of `keep`.
    """
    usable = [value.strip() for value in found if not says_any(avoid, value)]
    same = keyword.casefold()
    return distinct([v for v in usable if v and same not in v.casefold() and not broken_word(keyword, v, keep)])


def phrases(caption: str, max_words: int, keep: Sequence[str]) -> list[str]:
    """The spans of `caption` that can stand alone and hold no word of `keep`: none ends in "the" or "on", or begins
    with "and" or "is".
    """
    kept = {word.casefold() for word in kept_words(caption, keep)}
    found = [(span, span.casefold().split()) for span in spans(caption, max_words, keep)]
    return [
        span
        for span, words in found
        if words[-1] not in _OPEN_END and words[0] not in _NO_BEGINNING and kept.isdisjoint(words)
    ]


def kept_words(caption: str, keep: Sequence[str]) -> tuple[str, ...]:
    """The words of a caption, each once, that no edit may remove: more may stand beside them."""
    kept = [word for phrase in keep for word in phrase.split()]
    return distinct([word.text for word in words_of(caption) if broken_word(word.text, "", kept) is not None])


def removable(caption: str, found: Sequence[str]) -> list[str]:
    """Those of the spans that leave a sentence when they go: "with a ball" before a comma, "and", "on" or the end."""
    end = r"(?=\s*(?:[.,;:!?]|$)|\s(?:and|in|at|on|by|with|under|near|during)\b)"
    return [s for s in found if phrase_class(s) == "place" and re.search(rf"(?<![^\W_]){re.escape(s)}{end}", caption)]


def allowed_proposals(
    pairs: Sequence[tuple[str, str]], caption: str, keep: Sequence[str], avoid: Sequence[str]
) -> list[tuple[str, str]]:
    """The (span, words in its place) pairs that change something and may be made, each once.

    Out are those that touch a word of `keep`, hold a word of `avoid`, say one twice, add only what the caption says, or
    put before a word what cannot describe it ("with a dog").
    """
    said = {word.same for word in words_of(caption)}
    usable: dict[tuple[str, str], tuple[str, str]] = {}
    for old, new in ((old.strip(), new.strip()) for old, new in pairs):
        words = [word.same for word in words_of(new) if word.same not in _OPEN_END]
        beside = not old or new.startswith(f"{old} ") or new.endswith(f" {old}")
        fresh = set(words) - (said if beside else {word.same for word in words_of(old)})
        repeated = len(words) > len(set(words))
        before = new.removesuffix(f" {old}").casefold().split() if new.endswith(f" {old}") else []
        loose = any(word in _OPEN_END or phrase_class(word) == "place" for word in before)
        broken = broken_word(old or caption, new if old else f"{caption}. {new}", keep)
        if (fresh or not new) and not (repeated or loose or broken or says_any(avoid, new)):
            usable.setdefault((old.casefold(), new.casefold()), (old, new))
    return list(usable.values())


def says_again(old: str, new: str, caption: str) -> bool:
    """Whether what stands in the place of `old`, or beside it, names a thing that the caption says already: a second
    "blimp" over a blimp, whatever the label is.
    """
    nouns = load_nouns()
    brought = {word.same for word in words_of(new)} - {word.same for word in words_of(old)}
    return any(nouns.senses(word) for word in brought & {word.same for word in words_of(caption)})


def check_edited_caption(caption: str, edited: str, edits: Sequence[Edit], keep: Sequence[str]) -> str | None:
    """The reason why an edited caption cannot be used, or None if it can.

    Compared word by word (difference.py): words that no edit changes stay, but for small ones that agree with
    others (a, an, in, on, is, are); what an edit replaces is gone wherever the caption says it of the same thing; and
    what it says instead is there, and nothing else, nor elsewhere. A caption that is what rules write is in order.
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
    wrong = _what_else(caption, edited, edits, found)
    return None if wrong is not None and written_by_rule(caption, edited, edits) else wrong


def _what_else(caption: str, edited: str, edits: Sequence[Edit], found: Difference) -> str | None:
    """What an edited caption seems to change beside its edits, word by word, or to leave of what they replace."""
    new = {word.same for edit in edits for word in words_of(edit.alternative)} | AGREEING
    for added in found.added:
        if added.same not in new:
            return f"the edited caption adds {added.text!r}, which no edit says"
    replaced = [edit for edit in edits if edit.keyword]
    mentions = find_mentions(caption, [edit.keyword for edit in replaced])
    places = [mention for some in mentions for mention in some]
    for gone in found.removed:
        if gone.same not in AGREEING and not any(m.start <= gone.start and gone.end <= m.end for m in places):
            return f"the edited caption lacks {gone.text!r}, which no edit changes"
    for edit, some in zip(replaced, mentions, strict=True):
        once = goes_on(edit.keyword, edit.alternative)
        if not all(_changed(caption, edit, m, found) for m in some[: 1 if once else None] if m.same):
            return f"the edited caption still says {edit.keyword!r} of the edit {_shown(edit)}"
    if (word := misplaced(caption, edited, edits)) is not None:
        return f"the edited caption says {word!r} where no edit puts it"
    return None


def _changed(caption: str, edit: Edit, mention: Mention, found: Difference) -> bool:
    """Whether words of the keyword are gone there, or, where the alternative has all of them, others stand beside."""
    first = mention.end - len(edit.keyword)  # the small word before it may change for another's sake
    inside = [word for word in words_of(caption) if first <= word.start and word.end <= mention.end]
    if not set(inside).isdisjoint(found.removed):
        return True
    kept = {word.same for word in words_of(edit.keyword)} <= {word.same for word in words_of(edit.alternative)}
    return kept and any(_beside(change, inside[0].at, inside[-1].at) for change in found.changes)


def _beside(change: Change, first: int, last: int) -> bool:
    """Whether words were added beside the caption's words number `first` to `last`; the article before those may have
    changed with them ("a dog" is "an old dog").
    """
    if first <= change.at <= last + 1:
        return bool(change.added)
    said = [word for word in change.added if word.same not in AGREEING]
    return bool(said) and change.at + len(change.removed) == first


def _shown(edit: Edit) -> str:
    return f"{edit.keyword!r} -> {edit.alternative!r}"
