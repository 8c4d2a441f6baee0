"""Writes engine/tasks/nouns.tsv.gz: the nouns of WordNet 3.0 that a picture can show, with what each is a kind of.

    python -m counterfactory.export.language.nouns DICT INFO OUT

DICT is WordNet 3.0's folder `dict` (/usr/share/wordnet of Debian's wordnet-base), INFO the folder `data/_info` of timm,
whose list of ImageNet-1k's synsets says which nouns keep their definitions, and whose lemmas and definitions have to be
the same. The file is the same whenever it is written.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# WordNet's lexicographer files of what can be seen: animal, artifact, food, place, natural object, person, plant.
_SEEN = frozenset((5, 6, 13, 15, 17, 18, 20))


@dataclass(frozen=True)
class Synset:
    """A noun of WordNet: its lemmas, the number of its lexicographer file, what it is a kind of, and its definition.

    `named` is true of a particular person or place ("Stephen Crane"), which is an instance and no kind.
    """

    lemmas: tuple[str, ...]
    file: int
    parents: tuple[str, ...]
    named: bool
    definition: str


def read_synsets(lines: Iterable[str]) -> dict[str, Synset]:
    """The synsets of WordNet's data.noun by their ids, such as "n02099601"."""
    synsets = {}
    for line in lines:
        if line.startswith(" "):  # the licence
            continue
        data, _, gloss = line.partition(" | ")
        fields = data.split()
        words = int(fields[3], 16)
        lemmas = tuple(fields[4 + 2 * i].replace("_", " ") for i in range(words))
        pointers = [(fields[i], fields[i + 1]) for i in range(5 + 2 * words, len(fields) - 1, 4)]
        parents = tuple(f"n{to}" for symbol, to in pointers if symbol == "@")
        named = any(symbol == "@i" for symbol, _ in pointers)
        synsets[f"n{fields[0]}"] = Synset(lemmas, int(fields[1]), parents, named, gloss.strip())
    return synsets


def table_of(synsets: Mapping[str, Synset], first: Mapping[str, str], definitions: Mapping[str, str]) -> str:
    """The table: a line per noun with its id, its lemmas, what it is a kind of, and its definition or nothing.

    A lemma whose most frequent sense, by `first`, this is has an asterisk.
    """
    kept = {key for key, synset in synsets.items() if synset.file in _SEEN and not synset.named} | definitions.keys()
    above = list(kept)
    while above:
        new = [parent for parent in synsets[above.pop()].parents if parent not in kept]
        kept.update(new)
        above += new
    lines = []
    for key in sorted(kept):
        synset = synsets[key]
        lemmas = ",".join(lemma + "*" * (first.get(lemma.lower()) == key) for lemma in synset.lemmas)
        lines.append("\t".join((key, lemmas, " ".join(synset.parents), definitions.get(key, ""))))
    return "\n".join(lines) + "\n"


def _pairs(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {key: text for key, _, text in (line.partition("\t") for line in lines)}


def write_nouns(dictionary: Path, info: Path, out: Path) -> None:
    """Write the file; see the top of this module. Raises ValueError where the two sources differ."""
    synsets = read_synsets((dictionary / "data.noun").read_text(encoding="latin-1").splitlines())
    index = (dictionary / "index.noun").read_text(encoding="latin-1").splitlines()
    entries = [line.split() for line in index if not line.startswith(" ")]
    first = {fields[0].replace("_", " "): f"n{fields[-int(fields[2])]}" for fields in entries}
    texts = _pairs(info / "imagenet_synset_to_definition.txt")
    classes = (info / "imagenet_synsets.txt").read_text(encoding="utf-8").split()
    definitions = {key: texts[key].strip('"') for key in classes}
    lemmas = _pairs(info / "imagenet_synset_to_lemma.txt")
    for key, definition in definitions.items():
        synset = synsets[key]
        if ", ".join(synset.lemmas) != lemmas[key] or not synset.definition.startswith(definition):
            raise ValueError(f"{key} is {lemmas[key]!r} ({definition}) and not {synset}")
    out.write_bytes(gzip.compress(table_of(synsets, first, definitions).encode(), 9, mtime=0))


if __name__ == "__main__":
    write_nouns(*map(Path, sys.argv[1:4]))
