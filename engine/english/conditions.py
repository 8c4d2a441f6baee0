"""What a label says of the weather, the time, the light or the sharpness of a picture: another one makes it false.

Any word of a label counts ("dry_road", "NightScene"), but not as a part of a thing's name: of a phrase that WordNet
knows ("snow leopard", "day lily"), before an animal or a plant ("dusky robin"), as a noun before another thing ("fog
lamp"), or of a colour ("dark blue").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from ..files.fill import read_toml
from .label_names import label_words
from .mentions import forms, word_set
from .nouns import load_nouns

_FILE = Path(__file__).with_name("conditions.toml")
_LONGEST = 4  # words of a thing's name
# Ids of WordNet's natural phenomena ("rain cloud"), and of artifacts and foods. Animals and plants; and those of
# artifacts that a noun before them describes ("night bus"): conveyances, structures and roads.
_PHENOMENA, _MADE, _FOODS = ("n11408415", "n11529"), ("n0267", "n0463"), "n07"
_ALIVE, _DESCRIBED = {"n00015388", "n00017222"}, {"n03100490", "n04341686", "n04096066"}


class _Lexicon(NamedTuple):
    """The types of edits by word, which of the words are adjectives, and lists of other words by their names."""

    types: Mapping[str, frozenset[str]]
    adjectives: frozenset[str]
    around: Mapping[str, frozenset[str]]


@cache
def _lexicon() -> _Lexicon:
    table = read_toml(_FILE)
    types = {
        form: frozenset(of.split())
        for kind in ("adjectives", "nouns")
        for of, words in table[kind].items()
        for word in words.split()
        for form in (forms(word) if kind == "nouns" else (word,))
    }
    adjectives = word_set(" ".join(table["adjectives"].values()))
    return _Lexicon(types, adjectives, {name: word_set(words) for name, words in table["around"].items()})


@lru_cache(maxsize=1 << 15)  # sources share labels
def conditions_of(label: str) -> frozenset[str]:
    """The types of edits that would make a label false: "time" and "light" of "night_scene", none of "nightingale"."""
    apart = re.sub(r"\bn\d{8}(?![^\W_])|(?<=[a-z])(?=[A-Z])", " ", label)
    phrases = [re.findall(r"[^\W\d_]+", part.casefold()) for part in re.split("[,;()/]", apart)]
    if not any(phrases):
        phrases = [words.casefold().split() for words in label_words(label)]
    return frozenset(type_ for words in phrases for at in range(len(words)) for type_ in _types_at(words, at))


def _types_at(words: Sequence[str], at: int) -> frozenset[str]:
    """What a word of a phrase says, with those behind it ("day time"), alone, or by the first part of it."""
    table = _lexicon()
    for end in range(min(at + 3, len(words)), at, -1):
        joined = "".join(words[at:end])
        first = joined if joined in table.types else _first_part(joined) if end == at + 1 else None
        if first is not None:
            named = _is_named(words, at, end, first not in table.adjectives)
            return frozenset() if named else table.types[first]
    return frozenset()


def _first_part(word: str) -> str | None:
    """The word of the table that a compound begins with, where the rest is one as well, or a word for a scene."""
    types, _, around = _lexicon()
    if word in around["others"] or load_nouns().senses(word):
        return None
    known = types.keys() | around["scenes"]
    ends = (end for end in range(3, len(word) - 2) if word[:end] in types and not known.isdisjoint(forms(word[end:])))
    return next((word[:end] for end in ends), None)


def _is_named(words: Sequence[str], start: int, end: int, noun: bool) -> bool:
    """Whether words of a phrase are a part of a thing's name."""
    nouns, around, rest = load_nouns(), _lexicon().around, words[end:]
    for first in range(max(0, end - _LONGEST), start + 1):
        for last in range(max(end, first + end - start + 1), min(len(words), first + _LONGEST) + 1):
            keys = nouns.senses(" ".join(words[first:last]))
            if keys and not any(_PHENOMENA[0] <= key < _PHENOMENA[1] for key in (*keys, *nouns.above(keys))):
                return True
    if not rest or rest[0] in around["small"]:
        return False
    if rest[0] in around["colours"]:
        return not noun
    keys = nouns.senses(rest[-1])
    above = {*keys, *nouns.above(keys)}
    if not above.isdisjoint(_ALIVE):
        return noun or words[start] in around["kinds"]
    artifact = keys[:1] and (_MADE[0] <= keys[0] < _MADE[1] or keys[0].startswith(_FOODS))
    return bool(noun and artifact and above.isdisjoint(_DESCRIBED) and rest[-1] not in around["scenes"])
