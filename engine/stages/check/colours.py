"""Whether an edit from one colour to another shows in the pixels: does the picture have the new colour where the source
had the old one? No network is asked.

Colours are those that have basic terms in English (Berlin & Kay 1969). A pixel's colour is the term whose focal colour
is likeliest, by distance in CIELAB. Edits change light and air, which change every colour of a scene; so first what
haze adds to all of a picture is taken away (as the dark channel shows it, He et al. 2009), and its mean is brought to
grey (Buchsbaum 1980).

In the source, things of the old colour are connected pixels within outlines, large enough. Of these the one that has
most of the new colour in the picture counts, since an edit speaks of one of them, and small ones less than large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ...edit import Edit
from ...english.difference import words_of
from .clip_scores import by_type
from .quality import Pixels, smaller

Floats = NDArray[np.float32]
Numbers = NDArray[np.uint16]

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
TERMS = tuple(_FOCAL)
_SAME_AS: Mapping[str, str] = MappingProxyType({"gray": "grey", "violet": "purple", "golden": "yellow"})
# The spread of a term around its focal colour, in CIELAB, and what lightness counts against hue: light changes it more.
_SPREAD, _LIGHTNESS = 12.0, 0.5
# Pictures are looked at this high or wide at most. Things are no smaller than the least share of their pixels; in full
# they count from half the size of the largest on, or of the large share.
_SIDE, LEAST, LARGE = 128, 0.0025, 0.018
# How likely a pixel of the old colour has to be that colour; the less where nothing is as likely.
_SURE = (0.2, 0.05)
# An outline has more levels than this between neighbours.
_OUTLINE = 12
# The share of a colour's pixels that has to lie within outlines.
_SMOOTH = 0.2
# The share of the darkest levels' haze that is taken away, and the grey that the mean is brought to.
_HAZE, _DARKEST, _GREY = 0.9, 0.01, 150.0
_BITS = 5  # of a channel, in the table of colours


def colour_change(edit: Edit) -> tuple[str, str] | None:
    """The colours of an edit that puts one in another's place, terms of `_FOCAL`; None of any other edit."""
    old, new = terms_of(edit.keyword), terms_of(edit.alternative)
    return (old[0], new[0]) if len(old) == len(new) == 1 and old != new else None


def terms_of(text: str) -> list[str]:
    """The colours that a text names, in its order."""
    same = (_SAME_AS.get(word.same, word.same) for word in words_of(text))
    return [term for term in same if term in _FOCAL]


class Region(NamedTuple):
    """A thing of a source: where in its pixels it lies, int64, and what it counts, 0 to 1."""

    places: NDArray[np.int64]
    weight: float


class SourceColours(NamedTuple):
    """A source in its own light, [h, w]: the `numbers` of its pixels' colours, and `within`, where no outline is."""

    numbers: Numbers
    within: NDArray[np.bool_]


def source_colours(source: Pixels) -> SourceColours:
    """A source's picture, uint8 RGB [H, W, 3], as colours are looked for in it."""
    numbers, planes = in_own_light(source)
    kernel = np.ones((2, 2), np.uint8)
    steps = [cv2.morphologyEx(cv2.medianBlur(plane, 3), cv2.MORPH_GRADIENT, kernel) for plane in planes]
    outlines = cv2.max(cv2.max(steps[0], steps[1]), steps[2])
    return SourceColours(numbers, np.asarray(outlines) < _OUTLINE)


def find_colour(source: SourceColours, colour: str) -> tuple[Region, ...]:
    """Where a source has a colour: its things of it, none where nothing is of it."""
    likely = term_table()[TERMS.index(colour)].take(source.numbers)
    for sure in _SURE:
        coloured = likely > sure
        for inside in (coloured & source.within, coloured):
            count, parts, stats, _ = cv2.connectedComponentsWithStats(inside.view(np.uint8), connectivity=8)
            areas = stats[:, cv2.CC_STAT_AREA].tolist()
            things = [part for part in range(1, count) if areas[part] >= LEAST * inside.size]
            total = sum(areas[part] for part in things)
            # Where next to nothing of the colour lies within outlines, they are folds and grain, as of cloth.
            if things and (inside is coloured or total >= _SMOOTH * coloured.sum()):
                full = min(LARGE * inside.size, max(areas[part] for part in things)) / 2
                return tuple(Region(np.flatnonzero(parts == p), min(1.0, areas[p] / full)) for p in things)
    return ()


def recolouring(picture: Pixels, edits: Sequence[Edit], had: Callable[[str], Sequence[Region]]) -> dict[str, float]:
    """How likely a picture, uint8 RGB [H, W, 3], has the edits' new colours where its source `had` the old ones:
    "recoloured" of the worst edit, "recoloured_TYPE" of the worst of a type. Nothing where no edit is of colours that
    the source has.
    """
    changes = [(edit.type, *change) for edit in edits if (change := colour_change(edit))]
    targets = [(type_, new, regions) for type_, old, new in changes if (regions := had(old))]
    if not targets:
        return {}
    numbers = in_own_light(picture)[0].ravel()
    likely = []
    for _, new, regions in targets:
        of_new = term_table()[TERMS.index(new)]
        shares = (float(of_new[numbers[r.places]].mean(dtype=np.float64)) * r.weight for r in regions)
        likely.append(round(max(shares), 6))
    return {"recoloured": min(likely), **by_type("recoloured", [type_ for type_, *_ in targets], likely)}


def in_own_light(picture: Pixels) -> tuple[Numbers, list[Pixels]]:
    """A picture at the size that it is looked at, without its haze and with a grey mean in each channel: the number of
    each pixel's colour in `term_table` and `number_colours`, [h, w], and the channels.
    """
    picture = smaller(picture, _SIDE / max(picture.shape[:2]))
    levels, numbers, planes = np.arange(256, dtype=np.float64), np.zeros(picture.shape[:2], np.uint16), list[Pixels]()
    for channel, plane in enumerate(cv2.split(picture)):
        counts = np.bincount(plane.ravel(), minlength=256)
        darkest = int(np.searchsorted(np.cumsum(counts), _DARKEST * plane.size, side="right"))
        clear = np.maximum(levels - _HAZE * darkest, 0)
        mean = float(counts @ clear) / plane.size
        seen = np.minimum(clear * (_GREY / max(mean, 1.0)), 255).round().astype(np.uint8)
        place = (seen >> (8 - _BITS)).astype(np.uint16) << ((2 - channel) * _BITS)
        numbers |= np.asarray(cv2.LUT(plane, place), np.uint16)
        planes.append(np.asarray(cv2.LUT(plane, seen), np.uint8))
    return numbers, planes


@cache
def term_table() -> Floats:
    """How likely each colour of 5 bits a channel is each term, float32 [terms, 32768]."""
    distances = ((number_colours()[None] - focal_colours()[:, None]) ** 2).sum(axis=2)
    powers = np.exp(-(distances - distances.min(axis=0)).astype(np.float64) / (2 * _SPREAD**2))
    # To four digits, so that processors that round otherwise agree.
    return np.asarray((powers / powers.sum(axis=0)).round(4), np.float32)


@cache
def likeliest_terms() -> NDArray[np.int64]:
    """The likeliest term of each colour of 5 bits a channel, [32768]."""
    return np.asarray(term_table().argmax(axis=0))


@cache
def number_colours() -> Floats:
    """Each colour of 5 bits a channel in CIELAB, with what lightness counts, float32 [32768, 3]."""
    level = (np.arange(1 << _BITS, dtype=np.float32) + 0.5) / (1 << _BITS)
    return _lab(np.stack(np.meshgrid(level, level, level, indexing="ij"), axis=-1).reshape(1, -1, 3))


@cache
def focal_colours() -> Floats:
    """The same of each term's focal colour, float32 [terms, 3]."""
    return _lab(np.array([list(_FOCAL.values())], np.float32) / 255)


def _lab(colours: NDArray[Any]) -> Floats:
    return np.asarray(cv2.cvtColor(colours, cv2.COLOR_RGB2LAB)[0] * np.array([_LIGHTNESS, 1, 1], np.float32))
