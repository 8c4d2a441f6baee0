"""The nouns of WordNet 3.0 that a picture can show, with what each is a kind of: "golden retriever" is a kind of "dog".

WordNet (Fellbaum 1998; Princeton University, its licence is in docs/tasks.md) numbers its nouns as ImageNet does, so
that a folder "n02099601" has words. The file beside this module is written by export/language/nouns.py, which checks it
against timm's ImageNetInfo.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .mentions import forms, normalise, word_set

FILE = Path(__file__).with_name("nouns.tsv.gz")
# Nouns that say nothing about a thing: entity, physical entity, object, whole, thing, artifact, instrumentality, living
# thing, organism, causal agent, matter, substance, commodity, consumer goods, durables, covering, article, creation,
# product, natural object, abstraction, group, way, psychological feature, part, relation, solid, container (a car is
# one to WordNet), system.
_GENERAL = word_set(
    "n00001740 n00001930 n00002684 n00003553 n00002452 n00021939 n03575240 n00004258 n00004475 n00007347 n00020827 "
    "n00019613 n03076708 n03093574 n03257877 n03122748 n00022903 n03129123 n04007894 n00019128 n00002137 n00031264 "
    "n04564698 n00023100 n13809207 n00031921 n15046900 n00020090 n03094503 n04377057"
)
_PLANTS, _FOODS = ("n11", "n12", "n13"), "n07"


@dataclass(frozen=True)
class Noun:
    """One meaning. `common` are the lemmas whose most frequent meaning this is; `parents` are ids of what it is a kind
    of; the 1,000 classes of ImageNet-1k have a `definition`, others an empty one.
    """

    lemmas: tuple[str, ...]
    common: frozenset[str]
    parents: tuple[str, ...]
    definition: str

    def is_called(self, lemma: str) -> bool:
        """Whether one of its lemmas is enough to mean it."""
        return lemma in self.common or " " in lemma or any(other.endswith(f" {lemma}") for other in self.lemmas)


@dataclass(frozen=True)
class Nouns:
    """The table's lines by their ids, such as "n02099601"; by each lemma as `normalise` writes it, the ids of its
    meanings, and the most frequent of them where it can be seen.
    """

    lines: Mapping[str, str]
    meanings: Mapping[str, tuple[str, ...]]
    common: Mapping[str, str]

    def __contains__(self, key: object) -> bool:
        return key in self.lines

    def __getitem__(self, key: str) -> Noun:
        """The noun of that id. Raises KeyError for one that there is not."""
        marked, parents, definition = self.lines[key].split("\t")
        lemmas = tuple(marked.replace("*", "").split(","))
        common = frozenset(lemma[:-1] for lemma in marked.split(",") if lemma.endswith("*"))
        return Noun(lemmas, common, tuple(parents.split()), definition)

    def senses(self, words: str) -> tuple[str, ...]:
        """The ids that a label's words may mean, singular or plural: the most frequent meaning alone where it can be
        seen, else all that can; a plant's name is its fruit's too. None for words that are not in the table.
        """
        for form in forms(normalise(words)):
            if ids := self.meanings.get(form):
                common = self.common.get(form)
                if common is None:
                    return ids
                eaten = (key for key in ids if common.startswith(_PLANTS) and key.startswith(_FOODS))
                return (common, *eaten)
        return ()

    def common_sense(self, words: str) -> str | None:
        """The most frequent meaning of singular or plural words, if it can be seen."""
        return next((self.common[form] for form in forms(normalise(words)) if form in self.common), None)

    def above(self, ids: Iterable[str]) -> tuple[str, ...]:
        """All that the nouns are kinds of, the nearest first, but for what says nothing ("object")."""
        parents: dict[str, None] = {}
        level = [parent for key in ids for parent in self[key].parents]
        while level:
            fresh = [key for key in dict.fromkeys(level) if key not in parents and key not in _GENERAL]
            parents.update(dict.fromkeys(fresh))
            level = [parent for key in fresh for parent in self[key].parents]
        return tuple(parents)

    def kinds(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Words for all that the nouns are kinds of, the nearest first. A word stands for its most frequent meaning
        ("toy" is no dog), or for a phrase that ends in it ("instrument" is a musical instrument).
        """
        nouns = (self[key] for key in self.above(ids))
        return tuple(dict.fromkeys(lemma for noun in nouns for lemma in noun.lemmas if noun.is_called(lemma)))


@cache  # a fifth of a second, and the same for every label
def load_nouns() -> Nouns:
    """The table that comes with the package."""
    lines, meanings, common = dict[str, str](), dict[str, tuple[str, ...]](), dict[str, str]()
    for line in gzip.decompress(FILE.read_bytes()).decode().splitlines():
        key, _, rest = line.partition("\t")
        lines[key] = rest
        for marked in rest.partition("\t")[0].split(","):
            lemma = marked.removesuffix("*")
            name = lemma.casefold() if lemma.isalpha() else normalise(lemma)
            meanings[name] = (*meanings.get(name, ()), key)
            if marked.endswith("*"):
                common[name] = key
    return Nouns(lines, meanings, common)
