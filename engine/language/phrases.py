"""Phrases of captions as far as rules need to know English: what one begins with, and where a caption says one.

Nothing here is an answer's form (language/grammar.py), and no model is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# The small words that an edit may exchange, the longer ones first.
HEADS = ("during the", "in the", "at the", "by the", "a", "an", "the", "at", "in", "on", "during", "by")
# What a phrase of a place, a time or a manner begins with, and what names a thing.
PREPOSITIONS = (
    *("in", "at", "on", "with", "during", "under", "by", "near", "beside", "behind", "against", "from", "after"),
    *("before", "next", "seen", "above", "over", "among", "through", "without", "surrounded", "covered"),
)
ARTICLES = ("a", "an", "the", "some", "one", "two", "three", "its", "his", "her", "their")
# Words that begin something else than the noun of the words before them.
_SMALL = frozenset(
    re.findall("[a-z]+", "a an the and or but of at in on by during is are was were with to for near from that which")
)
# A word begins here, and ends: apostrophes and hyphens join words.
_BEGINS, _ENDS = re.compile(r"(?<![^\W_])(?<![^\W_]['\u2019-])"), re.compile(r"(?![^\W_])(?!['\u2019-][^\W_])")
_BEFORE_IT = tuple(f"{head} " for head in HEADS)


def phrase_class(words: str) -> str:
    """What a phrase begins with: "place" for a preposition ("in the rain"), "article" ("a dog"), else "bare"."""
    first = words.casefold().split(" ")[0]
    return "place" if first in PREPOSITIONS else "article" if first in ARTICLES else "bare"


def goes_on(keyword: str, alternative: str) -> bool:
    """Whether an alternative is its keyword with more words after it."""
    return alternative.casefold().startswith(f"{keyword.casefold()} ")


@dataclass(frozen=True)
class Mention:
    """Where a caption says a keyword: characters [start, end), the small word before it included. `same` says that it
    speaks of the same thing as the keyword's first mention, and so changes with it; else it may.
    """

    start: int
    end: int
    same: bool


def find_mentions(caption: str, keywords: Sequence[str]) -> list[list[Mention]]:
    """Where each keyword's edit goes: the first place that no other keyword takes, then its other places; no two
    overlap.

    The "red" of "a red bus" is not that of "a red car": before two different nouns a keyword may mean two things.
    Raises ValueError for a keyword that has no place.
    """
    first: list[tuple[int, int]] = []
    for keyword in keywords:
        place = next((place for _, place in _places(caption, keyword) if _apart(place, first)), None)
        if place is None:
            raise ValueError(f"{keyword!r} does not stand in {caption!r} beside the other keywords")
        first.append(place)
    all_mentions, taken = [], list(first)
    for keyword, place in zip(keywords, first, strict=True):
        mentions, noun = list[Mention](), _noun_after(caption, place)
        for headed, bare in _places(caption, keyword):
            others = [other for other in taken if other != place or bare != place]
            if bare != place and not _apart(bare, others):
                continue
            wide = headed if _apart(headed, others) else bare
            another = _noun_after(caption, bare)
            mention = Mention(*wide, None in (noun, another) or noun == another)
            mentions.insert(0 if bare == place else len(mentions), mention)
            taken.append(wide)
        all_mentions.append(mentions)
    return all_mentions


def _places(caption: str, keyword: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a caption says a keyword, as whole words: with the small words before it, which may change, and without."""
    text, wanted = caption.lower(), keyword.lower()
    if len(text) != len(caption) or len(wanted) != len(keyword):  # of a few letters, such as a dotted I
        text, wanted = caption, keyword
    places, start = list[tuple[int, int, int]](), text.find(wanted)
    while start >= 0:
        if _ENDS.match(caption, start + len(wanted)):
            heads = [(start - len(head), i) for i, head in enumerate(_BEFORE_IT) if text.endswith(head, 0, start)]
            begins = [*heads, (start, len(HEADS))]
            places += [(place, i, start) for place, i in begins if _BEGINS.match(caption, place)]
        start = text.find(wanted, start + 1)
    unique, free = list[tuple[tuple[int, int], tuple[int, int]]](), 0
    for place, _, start in sorted(places):  # the first, with what it stands behind before what stands alone
        if place >= free:
            free = start + len(wanted)
            unique.append(((place, free), (start, free)))
    return unique


def _apart(place: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return all(place[1] <= start or end <= place[0] for start, end in others)


def _noun_after(caption: str, place: tuple[int, int]) -> str | None:
    """The next word, unless it is a small one."""
    match = re.match(r" ([^\W_]+)", caption[place[1] :])
    word = match.group(1).casefold() if match else ""
    return word if word and word not in _SMALL else None
