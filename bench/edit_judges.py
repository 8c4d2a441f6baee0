"""What is thought of an edited caption, by other means than the engine's own check: whether it still names its label,
whether the change is of the type that was asked, and whether it reads like the caption that it was made of.

The judges are weak, so each is tried on cases whose answer is known, and the bench prints how it did.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.english.label_names import label_words, synset_of
from counterfactory.engine.english.nouns import load_nouns

Floats = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Floats]
_PHRASES = Path(__file__).with_name("edit_phrases.toml")

_IRREGULAR = {"men": "man", "women": "woman", "people": "person", "children": "child", "feet": "foot", "teeth": "tooth"}
_IRREGULAR |= {"mice": "mouse", "geese": "goose", "knives": "knife", "wolves": "wolf"}
_IRREGULAR |= {"leaves": "leaf", "halves": "half"}
# A caption beside a label: nothing of these says what the thing is.
_VAGUE = frozenset(re.findall("[a-z]+", "thing object unit whole matter substance person body part artifact structure"))


def stem(word: str) -> str:
    """A word in small letters and in the singular, roughly."""
    word = re.sub(r"['\u2019]s?$", "", word.casefold())
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if re.search(r"(?:s|x|z|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def stems(text: str) -> list[str]:
    return [stem(word) for word in re.findall(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?", text)]


def words_of_label(label: str) -> frozenset[str]:
    """Last words of all that WordNet calls the label, and of what it is a kind of."""
    nouns, names = load_nouns(), list(label_words(label))
    level = [key] if (key := synset_of(label)) and key in nouns else [k for name in names for k in nouns.senses(name)]
    while level:
        names += [lemma for key in level for lemma in nouns[key].lemmas]
        level = [parent for key in level for parent in nouns[key].parents]
    return frozenset(stem(name.split(" ")[-1]) for name in names) - _VAGUE


@dataclass(frozen=True)
class LabelJudge:
    """Says whether a label is as true of an edited caption as of its caption: as often named, by lemmas and hypernyms;
    and not less alike to the sentence encoder by more than `most_lost`, a difference of cosines.
    """

    encode: Encode
    most_lost: float

    def keeps(self, rows: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Whether each (label, caption, edited caption) keeps its label, by both."""
        lost = zip(rows, self.lost(rows), strict=True)
        return [same_names(*row) and fell <= self.most_lost for row, fell in lost]

    def lost(self, rows: Sequence[tuple[str, str, str]]) -> list[float]:
        """By how much the cosine of label and caption falls."""
        named = [(", ".join(label_words(label)), old, new) for label, old, new in rows]
        texts = list(dict.fromkeys(text for row in named for text in row))
        at = dict(zip(texts, self.encode(texts), strict=True))
        return [float(at[name] @ at[old] - at[name] @ at[new]) for name, old, new in named]


def same_names(label: str, caption: str, edited: str) -> bool:
    """Whether both texts name the label equally often, by any of its words."""
    names = words_of_label(label)
    return Counter(w for w in stems(caption) if w in names) == Counter(w for w in stems(edited) if w in names)


def phrases(table: str) -> dict[str, tuple[str, ...]]:
    """What edits of each type say, from edit_phrases.toml: `known` to the judge, or those that it is `tried` on."""
    found = tomllib.loads(_PHRASES.read_text(encoding="utf-8"))[table]
    return {type_: tuple(said.split("; ")) for type_, said in found.items()}


@dataclass(frozen=True)
class TypeJudge:
    """Says which types the words of an edit are most alike, by the examples that it knows."""

    encode: Encode

    def ranked(self, texts: Sequence[str]) -> list[list[str]]:
        """The types of each text, the likeliest first: by the mean of its two nearest examples of each."""
        known = {type_: self.encode(some) for type_, some in phrases("known").items()}
        found = self.encode(texts)
        table = np.stack([np.sort(found @ some.T, axis=1)[:, -2:].mean(1) for some in known.values()])
        return [[list(known)[i] for i in np.argsort(-column, kind="stable")] for column in table.T]

    def held_out(self, first: int) -> float:
        """The share of examples that it does not know whose type is among the `first` that it names."""
        asked = [(type_, text) for type_, some in phrases("tried").items() for text in some]
        ranked = self.ranked([text for _, text in asked])
        return float(np.mean([type_ in found[:first] for (type_, _), found in zip(asked, ranked, strict=True)]))


def changed_words(keyword: str, alternative: str) -> str:
    """What an edit says, without words of the keyword that stay: "red" of "dog" -> "red dog"."""
    if alternative.endswith(f" {keyword}"):
        return alternative.removesuffix(f" {keyword}")
    same = f" {keyword}".casefold()
    return alternative[: -len(same)] if alternative.casefold().endswith(same) else alternative


def only_changes(caption: str, edited: str, keyword: str, alternative: str) -> bool:
    """Whether all words that differ are the edit's, but for a, an, is, are and that."""
    small = {"a", "an", "is", "are", "that"}
    old, new = stems(caption), stems(edited)
    gone, come = set[str](), set[str]()
    for kind, i, j, p, q in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            gone.update(old[i:j])
            come.update(new[p:q])
    return gone <= small | set(stems(keyword)) and come <= small | set(stems(alternative)) | set(stems(keyword))
