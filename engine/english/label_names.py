"""What a labelled thing may be called in a caption: its label's words, their synonyms, and what it is a kind of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from ..files.fill import read_toml
from .mentions import forms, longest_phrases, normalise
from .nouns import load_nouns

_SYNONYMS = Path(__file__).with_name("synonyms.toml")
_SYNSET = r"n\d{8}\b"
_LONGEST = 5  # words of a phrase


@dataclass(frozen=True)
class Names:
    """`own` are words for the thing itself, `kinds` for what it is a kind of, the nearest first; `nouns` are the ids of
    its meanings, whose own kinds name it too ("woman" names a person). A `definition` is empty where there is none.
    """

    own: tuple[str, ...]
    kinds: tuple[str, ...]
    nouns: frozenset[str]
    definition: str


def label_words(label: str) -> tuple[str, ...]:
    """The words that a label means: "n01440764 tench, Tinca tinca" gives ("tench", "Tinca tinca"), "fire_truck"
    gives ("fire truck",), "n01440764" what WordNet calls it. CUB's "001." and a remark in brackets ("crane (bird)") are
    left out. There are none for a synset that is not a noun of WordNet which can be seen.
    """
    text = re.sub(r"\([^)]*\)", " ", label.replace("_", " "))
    text = re.sub(rf"^\s*(?:{_SYNSET}|\d+\.(?=\s*[^\W\d]))", " ", text)
    parts = text.split(",")
    if not normalise(text) and (synset := synset_of(label)) and synset in load_nouns():
        parts = list(load_nouns()[synset].lemmas)
    words = (" ".join(part.split()) for part in parts)
    return tuple(dict.fromkeys(word for word in words if normalise(word)))


def synset_of(label: str) -> str | None:
    """The WordNet id that a label begins with, such as "n01440764", or None."""
    match = re.match(rf"\s*({_SYNSET})", label.replace("_", " "))
    return match and match.group(1)


def short_name(label: str) -> str:
    """The first of a label's words, or the label itself where it has none."""
    return next(iter(label_words(label)), label)


@lru_cache(maxsize=1 << 15)
def names_of(label: str) -> Names:
    """The names of what a label means. Words that are not in WordNet are a kind of their last: an "Acme sled"."""
    words, nouns, table = class_words(label), load_nouns(), _synonyms()
    synset = synset_of(label)
    if synset is not None and synset in nouns:
        ids: tuple[str, ...] = (synset,)
    else:
        ids = tuple(dict.fromkeys(key for word in words for key in nouns.senses(word)))
    more = [synonym for word in words for synonym in table.get(normalise(word), ())]
    above = nouns.above(ids)
    others = [key for word in more if (key := nouns.common_sense(word)) and key not in above]
    heads = () if ids else tuple(key for word in words for key in nouns.senses(_head(word)))
    kinds = [*(_head(word) for word in words if heads and nouns.senses(_head(word))), *nouns.kinds(ids or heads)]
    # "mug" means a coffee mug, though it is more often what it holds.
    last = {normalise(_head(word)) for key in ids for word in nouns[key].lemmas if " " in word}
    kinds += [lemma for key in above for lemma in nouns[key].lemmas if normalise(lemma) in last]
    lemmas = [lemma for key in ids for lemma in nouns[key].lemmas if nouns[key].is_called(lemma)]
    own = tuple(dict.fromkeys((*words, *lemmas, *more)))
    definition = next((nouns[key].definition for key in ids if nouns[key].definition), "")
    return Names(own, tuple(dict.fromkeys(kinds)), frozenset((*ids, *others)), definition)


def class_words(name: str) -> tuple[str, ...]:
    """A label's words, those of "TrafficLight" apart; none for what no word names ("void")."""
    apart = re.sub(r"(?<=[a-z]{2})(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])", " ", name)
    return tuple(word for word in label_words(apart) if _synonyms().get(normalise(word)) != ())


def ground(caption: str, names: Names) -> tuple[str, ...]:
    """The words of a caption that name the thing, in the caption's order, each once.

    The longest phrase that WordNet knows counts: a "hot dog" names no dog, nor a "bus stop" a bus. Words may be joined
    or apart: "lawnmower" names a lawn mower.
    """
    nouns = load_nouns()
    own = {form for word in (*names.own, *names.kinds) for form in forms(normalise(word))}
    joined = {form.replace(" ", "") for form in own}

    def names_it(phrase: str) -> bool:
        key = nouns.common_sense(phrase)
        narrower = key is not None and not names.nouns.isdisjoint((key, *nouns.above([key])))
        return narrower or phrase.replace(" ", "") in joined

    def is_known(phrase: str) -> bool:
        return names_it(phrase) or (" " in phrase and any(form in nouns.meanings for form in forms(phrase)))

    clauses = (normalise(clause).split() for clause in re.split(r"[.,;:!?()]", caption))
    phrases = (phrase for words in clauses for phrase in longest_phrases(words, _LONGEST, " ".join, is_known))
    return tuple(dict.fromkeys(phrase for phrase in phrases if names_it(phrase)))


def named_alike(old: str, new: str, names: Names) -> bool:
    """Whether two texts name the thing with the same words, so that no second bird joins a hummingbird."""
    return ground(old, names) == ground(new, names)


def _head(phrase: str) -> str:
    """The noun that a phrase is about: "Black footed Albatross" an albatross, "cup of tea" a cup."""
    return phrase.partition(" of ")[0].rpartition(" ")[2]


@cache
def _synonyms() -> Mapping[str, tuple[str, ...]]:
    return {key: tuple(words) for key, words in read_toml(_SYNONYMS).items()}
