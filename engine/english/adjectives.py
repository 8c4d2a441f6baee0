"""Where a word stands that an edit brings to a thing: "a small brown dog", not "a brown small dog".

English says of a thing its size first, then its state, its pattern, its colour and its stuff. Of words that are in none
of these tables nothing is known, and what is brought goes right before the thing.
"""

from __future__ import annotations

import re

from ..language.phrases import find_mentions

_SIZES = "small little tiny large big huge giant long short tall"
_STATES = "old new young dirty clean wet dry dusty muddy shiny worn damp stained rusty broken"
_PATTERNS = "spotted striped checkered"
_COLOURS = "red green blue yellow orange purple pink brown black white gray grey silver golden gold tan beige"
_STUFFS = "wooden metal leather plastic glass stone brick steel concrete paper cloth"
_RANKS = {
    word: rank for rank, words in enumerate((_SIZES, _STATES, _PATTERNS, _COLOURS, _STUFFS)) for word in words.split()
}
_LAST = max(_RANKS.values())
# Of a colour: "light brown" stays together.
_SHADES = "light|dark|bright|pale|deep"


def in_order(caption: str, old: str, new: str) -> tuple[str, str]:
    """A (words of the caption, words in their place) pair with words that `new` puts before `old` moved before those
    that follow them in English: of "a brown dog" ("dog", "small dog") is ("brown dog", "small brown dog").
    """
    word = new.removesuffix(f" {old}")
    rank = _rank(word)
    if not old or word == new or rank is None:
        return old, new
    follower = f"(?:(?:{_SHADES}) )?(?:{'|'.join(other for other, behind in _RANKS.items() if behind > rank)})"
    end = find_mentions(caption, [old])[0][0].end - len(old)
    match = re.search(
        rf"(?<![^\W_])(?<![^\W_]-){follower}(?:(?:,? and |,? ){follower})* $", caption[:end], re.IGNORECASE
    )
    if rank == _LAST or match is None:
        return old, new
    before = match.group()
    return before + old, f"{word} {before[0].lower()}{before[1:]}{old}"


def _rank(word: str) -> int | None:
    """Where a word stands among adjectives; "snow-covered" says a state."""
    return 1 if re.search(r"-(?:covered|soaked|hidden|painted|splattered)$", word) else _RANKS.get(word)
