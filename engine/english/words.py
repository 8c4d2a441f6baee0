"""Words of captions: which of them an edit may replace, by what, and in which order adjectives stand.

Pure functions of text, which check a language model's answers and never ask it. The `random_` ones are what LANCE-R
(arXiv 2305.19164) draws from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..language.phrases import find_mentions, phrase_class
from ..language.questions import clean_text
from .difference import WORD, words_of
from .mentions import changed_protected_word, distinct, forms, normalise, quantities, word_set
from .nouns import load_nouns

# What no phrase ends with, and what none begins with.
_OPEN_END = word_set(
    "a an the some its his her their of and or but in at on by with during under near is are was were to"
)
_NO_BEGINNING = word_set("of and or but is are was were to that which")
_MAX_SPAN_CHARS = 60
# Words that say how others belong together, or how many there are: replacing one edits nothing that is pictured.
_STOP = word_set(
    "a an the this that these those some any each every no not all both few more most other another such same own "
    "i me my we us our you your he him his she her it its they them their who whom whose which what where when why "
    "how is am are was were be been being has have had having do does did doing can could may might must shall "
    "should will would and but or nor if then than so as because while until about above across after against "
    "along among around at before behind below beneath beside between beyond by down during for from in inside "
    "into near next of off on onto out outside over past through to toward towards under up upon with within "
    "without there here also just only very too again once one two three four five six seven eight nine ten many "
    "much several lot lots"
)
_FEWEST_LETTERS = 3
# English says of a thing its size first, then its state, its pattern, its colour and its stuff.
_SIZES = "small little tiny large big huge giant long short tall"
_STATES = "old new young dirty clean wet dry dusty muddy shiny worn damp stained rusty broken"
_PATTERNS = "spotted striped checkered"
_COLOURS = "red green blue yellow orange purple pink brown black white gray grey silver golden gold tan beige"
_STUFFS = "wooden metal leather plastic glass stone brick steel concrete paper cloth"
_ORDER = (_SIZES, _STATES, _PATTERNS, _COLOURS, _STUFFS)
_RANKS = {word: rank for rank, words in enumerate(_ORDER) for word in words.split()}
_LAST = max(_RANKS.values())
# Of a colour: "light brown" stays together.
_SHADES = "light|dark|bright|pale|deep"


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


def allowed_values(values: Sequence[str], keyword: str, keep: Sequence[str]) -> tuple[str, ...]:
    """The user's values that would change something (not "night" for "at night") and contain no word of `keep`."""
    usable = []
    for value in map(clean_text, values):
        repeats = re.search(rf"(?<!\w){re.escape(value.casefold())}(?!\w)", keyword.casefold())
        others = ("", keyword)
        names = any(all(changed_protected_word(old, value, (word,)) for old in others) for word in keep)
        if value and not repeats and not names:
            usable.append(value)
    return distinct(usable)


def says_any(words: Sequence[str], text: str) -> bool:
    """Whether a text holds one of the words."""
    return not {word.casefold() for word in words}.isdisjoint(word.same for word in words_of(text))


def allowed_alternatives(
    alternatives: Sequence[str], keyword: str, keep: Sequence[str], avoid: Sequence[str] = ()
) -> tuple[str, ...]:
    """The alternatives, each once, without the keyword or a word of `avoid`, that change no word of `keep`."""
    usable = [value.strip() for value in alternatives if not says_any(avoid, value)]
    others = [value for value in usable if value and keyword.casefold() not in value.casefold()]
    return distinct([value for value in others if not changed_protected_word(keyword, value, keep)])


def phrases(caption: str, max_words: int, keep: Sequence[str]) -> list[str]:
    """The spans of `caption` that can stand alone and hold no word of `keep`: none ends in "the", none begins "is"."""
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
    return distinct([word.text for word in words_of(caption) if changed_protected_word(word.text, "", parts)])


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
    """Whether `new` brings a thing that the caption names already: a second "blimp" over a blimp."""
    nouns = load_nouns()
    brought = {word.same for word in words_of(new)} - {word.same for word in words_of(old)}
    return any(nouns.senses(word) for word in brought & {word.same for word in words_of(caption)})


def in_order(caption: str, old: str, new: str) -> tuple[str, str]:
    """A (words of the caption, words in their place) pair with words that `new` puts before `old` moved before those
    that follow them in English: of "a brown dog" ("dog", "small dog") is ("brown dog", "small brown dog").
    """
    word = new.removesuffix(f" {old}")
    # "snow-covered" says a state.
    state = re.search(r"-(?:covered|soaked|hidden|painted|splattered)$", word)
    rank = _RANKS["old"] if state else _RANKS.get(word)
    if not old or word == new or rank is None:
        return old, new
    follower = f"(?:(?:{_SHADES}) )?(?:{'|'.join(other for other, behind in _RANKS.items() if behind > rank)})"
    end = find_mentions(caption, [old])[0][0].end - len(old)
    followers = rf"(?<![^\W_])(?<![^\W_]-){follower}(?:(?:,? and |,? ){follower})* $"
    match = re.search(followers, caption[:end], re.IGNORECASE)
    if rank == _LAST or match is None:
        return old, new
    before = match.group()
    return before + old, f"{word} {before[0].lower()}{before[1:]}{old}"


def random_words(caption: str, keep: Sequence[str]) -> list[str]:
    """The words of a caption, each once, that are no stop words and hold no word of `keep`."""
    fixed = {word.casefold() for word in kept_words(caption, keep)}
    return [word for word in spans(caption, 1, keep) if _is_content(word) and word.casefold() not in fixed]


def blank(caption: str, word: str) -> tuple[str, str]:
    """What stands before a word of a caption and after it, where it stands first. Raises ValueError without it."""
    first = next((candidate for candidate in words_of(caption) if candidate.text == word), None)
    if first is None:
        raise ValueError(f"{caption!r} has no word {word!r}")
    return caption[: first.start], caption[first.end :]


def random_alternatives(
    alternatives: Sequence[str], word: str, caption: str, keep: Sequence[str], avoid: Sequence[str]
) -> tuple[str, ...]:
    """The words that may stand in the place of one: new to the caption, no stop words, and allowed as other edits."""
    present = {candidate.same for candidate in words_of(caption)}
    new = [candidate for candidate in alternatives if _is_content(candidate) and candidate.casefold() not in present]
    return allowed_alternatives(new, word, keep, avoid)


def _is_content(word: str) -> bool:
    return word.isalpha() and len(word) >= _FEWEST_LETTERS and word.casefold() not in _STOP
