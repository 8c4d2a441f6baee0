"""Whether an edit from one colour to another shows in the pixels: where the source had the old colour, has the picture
the new one? No network is asked.

Colours are those that have basic terms in English (Berlin & Kay 1969). A pixel's colour is the term whose focal colour
is likeliest, by distance in CIELAB. Light and air change every colour of a scene, and edits change light and air; so
each picture is first seen by its own: what haze adds to all of it is taken away (as the dark channel shows it, He et
al. 2009), and its mean is brought to grey (Buchsbaum 1980).

Of a source it is asked where the old colour is: connected pixels, large enough to be a thing. Of a picture, how likely
these have the new colour; of several things that had the old colour the one that has most of the new, since an edit
speaks of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ..edit import Edit
from ..tasks.difference import words_of
from .validity import by_type

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
# Of regions of a source, where in its pixels they lie, int64 each.
Regions = tuple[NDArray[np.int64], ...]

# A focal colour of each term, RGB.
_FOCAL: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {
        "black": (20, 20, 22),
        "white": (245, 245, 245),
        "grey": (128, 128, 128),
        "red": (200, 25, 35),
        "green": (30, 140, 60),
        "blue": (40, 80, 200),
        "yellow": (240, 210, 50),
        "orange": (240, 125, 25),
        "brown": (120, 75, 40),
        "pink": (240, 150, 180),
        "purple": (130, 60, 160),
    }
)
_SAME_AS: Mapping[str, str] = MappingProxyType({"gray": "grey", "violet": "purple", "golden": "yellow"})
# The spread of a term around its focal colour, in CIELAB, and what lightness counts against hue: light changes it more.
_SPREAD, _LIGHTNESS = 12.0, 0.5
# Pictures are looked at this high or wide at most; things are no smaller than this share of their pixels.
_SIDE, _LEAST_SHARE = 128, 0.0025
# How likely a pixel of the old colour has to be that colour: the surest that there are.
_SURE = (0.3, 0.1, 0.03)
# The share of the darkest levels' haze that is taken away, and the grey that the mean is brought to.
_HAZE, _DARKEST, _GREY = 0.9, 0.01, 150.0
_LEVELS = 32  # of a channel, in the table of colours


class Change(NamedTuple):
    """An edit's old colour and its new one, terms of `_FOCAL`."""

    old: str
    new: str


def colour_change(edit: Edit) -> Change | None:
    """The colours of an edit that puts one in another's place; None of any other edit."""
    old, new = ([_term(word.same) for word in words_of(text)] for text in (edit.keyword, edit.alternative))
    named = [[term for term in terms if term] for terms in (old, new)]
    if [len(terms) for terms in named] != [1, 1] or named[0] == named[1]:
        return None
    return Change(named[0][0], named[1][0])


def find_colour(source: Pixels, colour: str) -> Regions:
    """Where a source, uint8 RGB [H, W, 3], has a colour: its things of it, none where nothing is of it."""
    numbers = _numbers(source)
    likely = _table()[_place(colour)][numbers]
    for sure in _SURE:
        count, parts, stats, _ = cv2.connectedComponentsWithStats((likely > sure).astype(np.uint8), connectivity=8)
        large = np.flatnonzero(stats[1:count, cv2.CC_STAT_AREA] >= _LEAST_SHARE * numbers.size) + 1
        if len(large):
            return tuple(np.flatnonzero(parts == part) for part in large.tolist())
    return ()


def recolouring(picture: Pixels, edits: Sequence[Edit], had: Callable[[str], Regions]) -> dict[str, float]:
    """How likely a picture, uint8 RGB [H, W, 3], has the edits' new colours where its source `had` the old ones:
    "recoloured" of the worst edit, "recoloured_TYPE" of the worst of a type. Nothing where no edit is of colours that
    the source has.
    """
    changes = [(edit.type, change) for edit in edits if (change := colour_change(edit))]
    asked = [(type_, change.new, regions) for type_, change in changes if (regions := had(change.old))]
    if not asked:
        return {}
    numbers = _numbers(picture).ravel()
    likely = [_likeliest(numbers, regions, new) for _, new, regions in asked]
    return {"recoloured": min(likely), **by_type("recoloured", [type_ for type_, *_ in asked], likely)}


def _likeliest(numbers: NDArray[np.int64], regions: Regions, colour: str) -> float:
    """How likely the region that shows most of a colour is of it, by the numbers of all pixels' colours."""
    likely = _table()[_place(colour)]
    return round(max(float(likely[numbers[region]].mean(dtype=np.float64)) for region in regions), 6)


def _numbers(picture: Pixels) -> NDArray[np.int64]:
    """The colour of each pixel by its number in `_table`, in the picture's own light, int64 [h, w]."""
    height, width = picture.shape[:2]
    scale = min(1.0, _SIDE / max(height, width))
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    levels = np.arange(256, dtype=np.float32)
    found = np.zeros(picture.shape[:2], np.int64)
    for channel in range(3):
        plane = np.ascontiguousarray(picture[..., channel])
        counts = np.bincount(plane.ravel(), minlength=256)
        darkest = int(np.searchsorted(np.cumsum(counts), _DARKEST * plane.size, side="right"))
        clear = np.maximum(levels - _HAZE * darkest, 0)
        mean = float(counts @ clear) / plane.size
        seen = np.clip(clear * (_GREY / max(mean, 1.0)), 0, 255)
        found = found * _LEVELS + (seen * ((_LEVELS - 1) / 255)).round().astype(np.int64)[plane]
    return found


@cache
def _table() -> Floats:
    """How likely each colour of 32 levels a channel is each term, float32 [terms, 32768]."""
    level = np.linspace(0, 1, _LEVELS, dtype=np.float32)
    colours = np.stack(np.meshgrid(level, level, level, indexing="ij"), axis=-1).reshape(1, -1, 3)
    focal = np.array([list(_FOCAL.values())], np.float32) / 255
    ours, theirs = (cv2.cvtColor(some, cv2.COLOR_RGB2LAB)[0] for some in (colours, focal))
    weight = np.array([_LIGHTNESS, 1, 1], np.float32)
    distances = ((ours[None] * weight - theirs[:, None] * weight) ** 2).sum(axis=2)
    powers = np.exp(-(distances - distances.min(axis=0)).astype(np.float64) / (2 * _SPREAD**2))
    # To four digits, so that processors that round otherwise agree.
    return np.asarray((powers / powers.sum(axis=0)).round(4), np.float32)


def _place(colour: str) -> int:
    return list(_FOCAL).index(colour)


def _term(word: str) -> str | None:
    term = _SAME_AS.get(word, word)
    return term if term in _FOCAL else None
