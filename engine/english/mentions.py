"""Mentions of things in captions: the forms of a word, how many are said to be there, and whether an edit broke one.

Pure functions of text. Forms may hold words that do not exist ("caimen"), which match nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as a text, with spaces between them."""
    return frozenset(text.split())


# Endings of plurals that take no s; a compound has its last word's ("firemen", "grandchildren").
_IRREGULAR = (
    *(("person", "people"), ("child", "children"), ("man", "men"), ("mouse", "mice"), ("louse", "lice")),
    *(("goose", "geese"), ("foot", "feet"), ("tooth", "teeth"), ("ox", "oxen"), ("die", "dice")),
    *((f"{vowel}f", f"{vowel}ves") for vowel in ("ea", "oa", "el", "al", "ol", "ie", "ar", "oo")),
    *(("ife", "ives"), ("us", "i"), ("eau", "eaux"), ("ix", "ices"), ("ex", "ices")),
)
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_QUANTITIES = {
    **{word: word for word in (*_NUMBERS, "dozen", "couple", "pair", "several", "many", "few", "no", "both")},
    **{str(number): word for number, word in enumerate(_NUMBERS, start=2)},
    "multiple": "several",
    "numerous": "many",
    "dozens": "dozen",
    "hundreds": "hundreds",
}
_MARKS = ".,;:!?()"
# What ends the way back from a noun to its number: another noun phrase begins here.
_BETWEEN = word_set(
    "a an the this that these those his her its their one and or but with in on at by from to near behind beside "
    "under over is are was were"
) | frozenset(_MARKS)
_REACH = 7  # tokens before a noun: "two large old mud-covered red cars"


def normalise(text: str) -> str:
    """Casefolded words separated by single spaces; everything but letters and digits is dropped."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text).casefold()))


def distinct(values: Iterable[str], key: Callable[[str], str] = str.casefold) -> tuple[str, ...]:
    """`values` in order, the first of those that `key` makes equal; without it case is ignored."""
    first: dict[str, str] = {}
    for value in values:
        first.setdefault(key(value), value)
    return tuple(first.values())


def longest_phrases(
    words: Sequence[T], most: int, join: Callable[[Sequence[T]], str], known: Callable[[str], bool]
) -> Iterator[str]:
    """The known phrases of up to `most` neighbouring words, in order: at each word the longest, none within another."""
    at = 0
    while at < len(words):
        for end in range(min(at + most, len(words)), at, -1):
            if known(phrase := join(words[at:end])):
                yield phrase
                break
        at = end


@lru_cache(maxsize=1 << 16)  # a set's labels are looked for in every caption
def forms(word: str) -> tuple[str, ...]:
    """A normalised word or phrase, its plurals, and the singulars that it would be the plural of, if any."""
    hissing = r"(s|x|z|ch|sh|o)"
    plural = word + "es" if re.search(hissing + "$", word) else re.sub(r"(?<=[^aeiou])y$", "ie", word) + "s"
    if re.search(hissing + "es$", word):
        singular = word[:-2]
    else:
        singular = re.sub(r"ies$", "ys", word)[:-1] if re.search(r"..[^s]s$", word) else word
    candidates = [word, plural, singular]
    for single, many in _IRREGULAR:
        if word.endswith(single):
            candidates.append(word.removesuffix(single) + many)
        if word.endswith(many):
            candidates.append(word.removesuffix(many) + single)
    return tuple(dict.fromkeys(candidates))


def changed_protected_word(caption_before: str, caption_after: str, words: Sequence[str]) -> str | None:
    """The first of `words` that an edit removed or added, or whose number it changed, or None.

    Counts whole words, ignoring case; "-" and "_" count as spaces. Singular and plural are counted separately: "car" is
    broken when "a car" becomes "two cars", when it is removed, and when another car or cars are added; and it is when
    "two cars" become "three cars".
    """
    before, after = _read(caption_before), _read(caption_after)
    return next((word for word in words if before.counts(word) != after.counts(word)), None)


def mentioned(caption: str, words: Iterable[str]) -> tuple[str, ...]:
    """Those of `words` that `caption` holds, in any form."""
    tokens = _read(caption)
    return tuple(word for word in words if tokens.counts(word))


def quantities(caption: str, words: Iterable[str]) -> frozenset[int]:
    """Where the words begin in `caption` (characters) that say how many there are of one of `words`."""
    tokens = _read(caption)
    places = (tokens.number(at) for word in words for form in forms(normalise(word)) for at in tokens.places(form))
    return frozenset(tokens.starts[place] for place in places if place is not None)


@dataclass(frozen=True)
class _Tokens:
    """A text's words and marks: casefolded, with the character that each begins at, and the words' places by word."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    words: tuple[int, ...]
    at: Mapping[str, Sequence[int]]

    def places(self, phrase: str) -> Iterator[int]:
        """Where a normalised phrase begins among the tokens; marks between its words do not count."""
        parts = phrase.split()
        for first in self.at.get(parts[0], ()) if parts else ():
            part = self.words[first : first + len(parts)]
            if [self.tokens[place] for place in part] == parts:
                yield part[0]

    def number(self, at: int) -> int | None:
        """The place of the token that says how many there are of the noun that begins at token `at`."""
        for place in range(at - 1, max(at - 1 - _REACH, -1), -1):
            if self.tokens[place] in _QUANTITIES:
                return place
            if self.tokens[place] in _BETWEEN:
                return None
        return None

    def counts(self, word: str) -> Counter[tuple[str, str]]:
        """How often each form of a word is there, by the number that is said of it."""
        counts = Counter[tuple[str, str]]()
        for form in forms(normalise(word)):
            for at in self.places(form):
                number = self.number(at)
                counts[form, "" if number is None else _QUANTITIES[self.tokens[number]]] += 1
        return counts


@lru_cache(maxsize=64)  # a caption is compared with all of its variants
def _read(text: str) -> _Tokens:
    text = unicodedata.normalize("NFC", text)
    matches = list(re.finditer(r"[^\W_]+|[.,;:!?()]", text))
    tokens = tuple(token.group().casefold() for token in matches)
    words = tuple(place for place, token in enumerate(tokens) if token not in _MARKS)
    at: dict[str, list[int]] = {}
    for number, place in enumerate(words):
        at.setdefault(tokens[place], []).append(number)
    return _Tokens(tokens, tuple(token.start() for token in matches), words, at)
