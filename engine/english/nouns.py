"""The nouns of WordNet 3.0 that a picture can show, with what each is a kind of: "golden retriever" is a kind of "dog".

WordNet (Fellbaum 1998; Princeton University, its licence is in docs/tasks.md) numbers its nouns as ImageNet does, so
that a folder "n02099601" has words. The file beside this module is written by export/language/nouns.py, which checks it
against timm's ImageNetInfo.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..files.reading import read_bytes
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
# WordNet's ids are in the order of its files: those of persons, gods among them, and those of places.
_PERSON, _PERSONS, _PLACES = "n00007846", ("n09483738", "n11408415"), ("n08489497", "n09178597")
# A word that may be a person or a thing is the thing in a picture's label ("hot dog", "toaster", "tiger"), whatever
# WordNet puts first, but for these: most are a person three times or more in the texts that it counted, or are parts
# that stand for one.
_PEOPLE = word_set(
    "adult angler antagonist baby bastard batter bishop boss camper character client coach collector conductor diner "
    "diver driver elder face family fighter figure fisher florist governor graduate granny guard guest guide guy hand "
    "head hero host hunter individual jockey kid killer king knight leader lumberjack mamma man master mate member "
    "model nanny neighbor neighbour offspring operator orphan pa painter pastor pilot pirate pitcher planner porter "
    "redhead relative runner sailor schoolmaster secretary sitter soldier speaker spectator survivor trainer tramp "
    "twin viewer walker witch worker"
) | {"old maid", "old man", "old woman"}


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
        seen, else all that can, but for persons and places among things; a plant's name is its fruit's too. A class of
        ImageNet goes before a person of its name. None for words that are not in the table.
        """
        for form in forms(normalise(words)):
            if ids := self.meanings.get(form):
                common = self.common.get(form)
                if common is None:
                    return ids
                if _is_person(common) and (class_ := self._class_called(form, ids)):
                    return (class_,)
                eaten = (key for key in ids if common.startswith(_PLANTS) and key.startswith(_FOODS))
                return (common, *eaten)
        return ()

    def _class_called(self, form: str, ids: Sequence[str]) -> str | None:
        things = (key for key in ids if not _is_person(key) and self[key].definition)
        return next((key for key in things if self[key].lemmas[0] == form), None)

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


def _is_person(key: str) -> bool:
    return key == _PERSON or _PERSONS[0] <= key < _PERSONS[1]


@cache  # an eighth of a second, and the same for every label
def load_nouns() -> Nouns:
    """The table that comes with the package."""
    lines, meanings, common = dict[str, str](), dict[str, tuple[str, ...]](), dict[str, str]()
    for line in gzip.decompress(read_bytes(FILE)).decode().splitlines():
        key, _, rest = line.partition("\t")
        lines[key] = rest
        for marked in rest.partition("\t")[0].split(","):
            lemma = marked.removesuffix("*")
            name = lemma.casefold() if lemma.replace(" ", "").isalpha() else normalise(lemma)
            meanings[name] = (*meanings[name], key) if name in meanings else (key,)
            if lemma is not marked:
                common[name] = key
    for name, ids in meanings.items():
        if len(ids) == 1 or name in _PEOPLE:
            continue
        first, things = common.get(name), [key for key in ids if not _is_person(key)]
        if first is None:
            things = [key for key in things if not _PLACES[0] <= key < _PLACES[1]]
        elif _is_person(first):
            # The classes of ImageNet, which alone have a definition, before others: "hot dog" is no frankfurter.
            things = [key for key in things if not lines[key].endswith("\t")] or things
        else:
            continue
        if things:
            meanings[name] = tuple(things)
            if common.pop(name, None) and len(things) == 1:
                common[name] = things[0]
    return Nouns(lines, meanings, common)
