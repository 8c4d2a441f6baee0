"""Menus: the edits of each type that a small language model chooses among, where its own words cannot be trusted.

A caption and the words that it keeps make (words of it, words in their place) pairs, each of its type and grammatical
by rule: phrases that end a caption or replace one that says the same, words before the labelled thing, kinds of
picture. So every type has edits on every caption whose labelled thing is a phrase of it. A keyed sample of them is
offered, so that not all captions of a set get the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ..files.fill import read_toml
from ..keys import generator
from .additions import medium_of
from .difference import words_of
from .label_names import named_alike, names_of
from .mentions import forms, longest_phrases, normalise

_FILE = Path(__file__).with_name("phrases.toml")
# Pairs of a type that are offered: a choice, but of so few that a phrase which a model always likes best stays under a
# fifth of its type where 16 are on the menu.
OFFERED = 3
# What ends a phrase: another begins, or nothing follows.
_END = r"(?=\s*(?:[.,;:!?]|$)|\s(?:and|while|as|with|in|at|on|by|near|under|during|that|which|is|are)\b)"
_ARTICLE = r"(?:(?:a|an|the|some|its|his|her|their) )?"
# Places that a phrase names: what something lies on, what it is in.
_SURFACES = (
    "ground grass floor table sand dirt road street rock rocks beach carpet path sidewalk shelf desk counter gravel "
    "snow surface pavement wood concrete soil field"
)
_AREAS = (
    "field grass garden forest desert room kitchen yard street park woods meadow snow sand house store office library "
    "background bathroom zoo jungle city parking-lot"
)
_SIZES = ("small", "large", "tiny", "huge", "little", "big", "old", "dirty", "clean", "shiny", "wet", "spotted")
# Words that say the weather or the time and are on no menu.
_MORE = {
    "weather": ("rain", "snow", "fog", "mist", "storm", "sun", "sunshine", "sunny", "clear"),
    "time": ("afternoon", "day", "daytime", "nighttime"),
}
# Words of one size: another of them changes nothing.
_ALIKE = (frozenset(("small", "little", "tiny")), frozenset(("large", "big", "huge")), frozenset(("dirty", "muddy")))


def menu(type_: str, caption: str, keep: Sequence[str], label: str | None) -> list[tuple[str, str]]:
    """All (words of the caption, words in their place) pairs of a type; the first are empty where the others are added.
    None adds a name of the label: no other dog next to a dog, nor a bicycle next to a mountain bike.
    """
    phrases = _phrases()[type_]
    if type_ == "domain":
        medium = medium_of(caption)
        return [
            (medium, head.removesuffix(" of")) if medium else ("", head)
            for head in phrases["heads"]
            if medium is None or head.removesuffix(" of") != medium.casefold()
        ]
    pairs = _in_place(type_, caption, keep)
    if not pairs and "ends" in phrases:
        pairs = [("", phrase) for phrase in phrases["ends"]]
    elif not pairs:  # words stand before the labelled thing, which loses the capital of a sentence
        for old in kept_phrases(caption, keep):
            host = old[:1].lower() + old[1:] if old[1:2].islower() else old
            pairs += [(old, f"{word} {host}") for word in phrases["words"]]
    present = {word.same for word in words_of(caption)}
    named = None if label is None else names_of(label)
    return [
        (old, new)
        for old, new in pairs
        if not ({word.same for word in words_of(new)} - {word.same for word in words_of(old)} <= present)
        and (named is None or named_alike(old, new, named))
    ]


def offer(pairs: Sequence[tuple[str, str]], key: str) -> list[tuple[str, str]]:
    """A sample of the pairs, in their order, by a key."""
    if len(pairs) <= OFFERED:
        return list(pairs)
    drawn = generator(key, "menu").choice(len(pairs), OFFERED, replace=False)
    return [pairs[at] for at in sorted(int(i) for i in drawn)]


def has_menu(type_: str) -> bool:
    """Whether a type has phrases of its own."""
    return type_ in _phrases()


def kept_phrases(caption: str, keep: Sequence[str]) -> list[str]:
    """The words of `keep` as the caption says them, each once, the longest of overlapping ones, in its order."""
    wanted = {form for word in keep for form in forms(normalise(word)) if form}
    # "horse's" and "horse-drawn" are words of their own.
    whole = r"(?<![^\W_]['\u2019-])[^\W_]+(?!['\u2019-][^\W_])"
    longest = max((form.count(" ") + 1 for form in wanted), default=1)

    def join(words: Sequence[re.Match[str]]) -> str:
        return caption[words[0].start() : words[-1].end()]

    words = list(re.finditer(whole, caption))
    return list(dict.fromkeys(longest_phrases(words, longest, join, lambda phrase: normalise(phrase) in wanted)))


def _in_place(type_: str, caption: str, keep: Sequence[str]) -> list[tuple[str, str]]:
    """Other words where the caption says something of the type: the phrase that says it, or the word alone."""
    phrases = _phrases()[type_]
    fixed = {part for word in keep for form in forms(normalise(word)) for part in form.split()}
    if type_ == "background":
        on = _spans(rf"\bon (?:top of )?{_ARTICLE}(?:[^\W_]+ )?(?:{_any(_SURFACES.split())}){_END}", caption, fixed)
        inside = _spans(rf"\bin {_ARTICLE}(?:[^\W_]+ )?(?:{_any(_AREAS.split())}){_END}", caption, fixed)
        wall = rf"{_ARTICLE}(?:[^\W_]+ ){{0,2}}(?:background|backdrop|wall){_END}"
        behind = _spans(rf"\b(?:with|against|in front of|on) {wall}", caption, fixed)
        places = [(on, phrases["on"]), (inside, phrases["in"]), (behind, phrases["ends"])]
        return [(old, new) for spans, news in places for old in spans for new in news]
    if type_ in ("weather", "time"):
        words = [*phrases["words"], *_MORE[type_]]
        whole = rf"\b(?:in|at|on|during|under) {_ARTICLE}(?:[^\W_]+ )?(?:{_any(words)})(?: (?:day|sky|weather|time))?"
        if spans := _spans(whole + _END, caption, fixed):
            return [(old, new) for old in spans for new in phrases["ends"]]
        bare = _spans(rf"\b(?:{_any(phrases['words'])})\b", caption, fixed)
        return [(old, new) for old in bare for new in phrases["words"]]
    if type_ in ("colour", "adjective"):
        others = phrases["words"] if type_ == "colour" else _SIZES
        spans = _spans(rf"\b(?:{_any(others)})\b(?= (?!and\b|or\b|of\b)[^\W_]+)", caption, fixed)
        alike = {old: next((group for group in _ALIKE if old.casefold() in group), {old.casefold()}) for old in spans}
        return [(old, new) for old in spans for new in others if new not in alike[old]]
    return []


def _spans(pattern: str, caption: str, fixed: set[str]) -> list[str]:
    """The matches of the pattern, each once, without those that hold a `fixed` word."""
    matches = dict.fromkeys(match.group() for match in re.finditer(pattern, caption, re.IGNORECASE))
    return [span for span in matches if fixed.isdisjoint(normalise(span).split())]


def _any(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in words)


@cache
def _phrases() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return read_toml(_FILE)
