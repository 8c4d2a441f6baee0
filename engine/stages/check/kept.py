"""Whether a picture keeps the colours that its caption names and no edit does. No network is asked.

    kept       how much of its colour a thing still has, of the worst of those things

A caption that says "a red bus and a green car" says two things of the picture; an edit of the bus is no reason for the
car to turn blue. Things are connected pixels of one colour within outlines (colours.py), off the picture's border. The
largest and most solid one of about the named colour is meant. What an edit turned from one colour to another is taken
first: of the things of the old colour, that with most of the new one.

Where the source has a mask, things lie in its parts that are off the border too, so that a street's sky is none.
Without a mask, a thing at the border counts where there is no other. Colours that no caption names may change: nobody
could tell a fault from what an edit of weather or walls is to do. Edits of the domain ("a sketch of ...") change all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ...edit import Edit
from . import colours
from .colours import LARGE, LEAST, TERMS, SourceColours, colour_change, term_table, terms_of
from .quality import Pixels

# How far from a colour's focus, in CIELAB, a thing may look that a caption calls so, by lamplight orange looks yellow;
# and the least that it counts then.
_SPREAD, _FARTHEST = 35.0, 0.1
# What a colour may look like by the light of another time of day: at night two in three orange things look yellow that
# a person still calls orange.
_BY_LAMP = (TERMS.index("orange"), TERMS.index("yellow"))
# A share of a colour below which a thing has no more of it than chance.
_TRACE = 0.02
Doubles = NDArray[np.float64]


class Thing(NamedTuple):
    """A thing of a source: where in its pixels it lies, int64 [N], what share of its box that is, how likely its pixels
    are of each term and how near to each term's focus, 0 to 1 [terms], and whether it lies at the picture's `border`.
    """

    places: NDArray[np.int64]
    solid: float
    terms: Doubles
    near: Doubles
    border: bool


ThingsOf = Callable[[], Sequence[Thing]]


def find_things(source: SourceColours, mask: NDArray[Any] | None) -> tuple[Thing, ...]:
    """The things of a source with its mask of any values, [H, W] or [H, W, C]."""
    numbers, table = source.numbers.ravel(), term_table()
    best = np.where(source.within, colours.likeliest_terms().take(source.numbers), -1)
    inner = np.ones(best.size, bool) if mask is None else _parts_off_border(mask, best.shape).ravel()
    things = []
    for places, border, solid in _pieces(best):
        if mask is not None and (border or inner[places].mean() < 0.5):
            continue
        own = numbers[places]
        middle = np.median(colours.number_colours().take(own, axis=0), axis=0).astype(np.float64)
        near = np.exp(-((middle - colours.focal_colours()) ** 2).sum(axis=1) / (2 * _SPREAD**2))
        things.append(Thing(places, solid, table.take(own, axis=1).mean(axis=1, dtype=np.float64), near, border))
    return tuple(things)


def kept_score(picture: Pixels, caption: str, edits: Sequence[Edit], things_of: ThingsOf) -> dict[str, float]:
    """The score of a picture, uint8 RGB [H, W, 3], of a source with this caption and the things that are asked for
    only where needed; none where the caption names no colour but those that edits are about, or no thing has it.
    """
    named = Counter(terms_of(caption)) - Counter(term for edit in edits for term in terms_of(edit.keyword))
    if not named or any(edit.type == "domain" for edit in edits):
        return {}
    numbers = colours.in_own_light(picture)[0].ravel()
    large, other_light = LARGE * numbers.size, any(edit.type == "time" for edit in edits)
    rest = list(things_of())

    def now(thing: Thing, term: int) -> float:
        """How likely the picture is of a term where the source has the thing."""
        return float(term_table()[term].take(numbers[thing.places]).mean(dtype=np.float64))

    def turned(new: int, thing: Thing) -> float:
        """How much of a new colour a thing has taken; less of a small one."""
        return now(thing, new) * min(1.0, len(thing.places) / large)

    def take(term: int, weight: Callable[[Thing], float]) -> Thing | None:
        """Take what a term means from the rest: the heaviest thing near it, at the border only where no other is."""
        near = [i for i, thing in enumerate(rest) if thing.near[term] > _FARTHEST]
        if not near:
            return None
        return rest.pop(max(near, key=lambda i: (not rest[i].border, rest[i].near[term] ** 2 * weight(rest[i]))))

    for change in filter(None, map(colour_change, edits)):
        old, new = map(TERMS.index, change)
        take(old, partial(turned, new))
    shares = []
    for term in map(TERMS.index, named.elements()):
        if (thing := take(term, lambda thing: thing.solid * len(thing.places))) is not None:
            own = int(thing.terms.argmax())
            # What looks otherwise than its name says by the source's light may look as it says by the picture's.
            as_named = now(thing, term) / (thing.terms[term] if thing.terms[term] > _TRACE else 1.0)
            by_lamp = now(thing, _BY_LAMP[1]) if other_light and own == _BY_LAMP[0] else 0.0
            shares.append(min(1.0, max((now(thing, own) + by_lamp) / thing.terms[own], as_named)))
    return {"kept": round(float(min(shares)), 6)} if shares else {}


def _pieces(values: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], bool, float]]:
    """The large connected pieces of each value from 0 on: places, whether at the border, what share of their box."""
    least = LEAST * values.size
    for value in np.flatnonzero(np.bincount(values[values >= 0]) >= least):
        _, parts, stats, _ = cv2.connectedComponentsWithStats((values == value).view(np.uint8), connectivity=8)
        at_border = _at_border(stats, values.shape)
        for part in range(1, len(stats)):
            x, y, width, height, area = stats[part].tolist()
            if area >= least:
                own = np.flatnonzero(parts[y : y + height, x : x + width] == part)
                rows, columns = np.divmod(own, width)
                yield (rows + y) * values.shape[1] + columns + x, bool(at_border[part]), area / (width * height)


def _parts_off_border(mask: NDArray[Any], size: tuple[int, ...]) -> NDArray[np.bool_]:
    """Where a mask's connected parts of one value lie off its border, bool of another size."""
    small = cv2.resize(mask, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT).reshape(*size, -1).astype(np.int64)
    values = small @ (1 << 16 * np.arange(small.shape[2]))  # one number a colour
    off = np.zeros(size, bool)
    for value in np.unique(values):
        _, parts, stats, _ = cv2.connectedComponentsWithStats((values == value).view(np.uint8), connectivity=8)
        at_border = _at_border(stats, size)
        at_border[0] = True  # pixels of other values
        off |= ~at_border[parts]
    return off


def _at_border(stats: NDArray[np.int32], size: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether pieces, by their statistics from OpenCV, lie at the border of a picture."""
    x, y, width, height = stats[:, :4].T
    return np.asarray((x == 0) | (y == 0) | (x + width == size[1]) | (y + height == size[0]))
