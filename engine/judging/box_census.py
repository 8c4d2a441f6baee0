"""What the four numbers of a model's boxes mean, judged by all of them against the true boxes before any figure.

Files and models have two corners or a corner and a size, y before x, shares of the picture, and pixels of the source's
file or of the model's input. Read wrongly, good boxes lie on nothing; a bad detector's do by every reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..sources.boxes import BoxForm
from ..suite import PictureRow
from .answer_census import Pairs, weigh
from .detections import OVERLAP, SURE, SeenBox

# (height, width) of a picture, by its file_name.
Sizes = Callable[[str], tuple[int, int]]
Boxes = Mapping[str, tuple[SeenBox, ...]]
Floats = NDArray[np.float64]
# By (width, height) [N, 2] of pictures and the boxes [N, 4] of sources' files that they show: the scale [N, 2] of
# numbers, and what is then added [N, 2].
Scale = Callable[[Floats, Floats], tuple[Any, Any]]

# Pictures, one of a source, and boxes of each that are held against the truths.
_PICTURES, _BOXES = 200, 20
# By the meant reading so many times as much is found, this share of all at least, and boxes lie so well on things.
TIMES, SHARE, _CLOSE = 3, 0.3, 0.7
# Shares go a little beyond 1, and pictures are longer; so many different boxes, or such a fit, are no luck of one box.
_ONE, _LEAST, _VARIED, _LUCKLESS = 1.5, 4, 3, 0.9
_FORMS: Mapping[BoxForm, str] = {"corners": "two corners", "sizes": "a corner and a size", "centres": "middle and size"}
# Sides of inputs that models are trained with, in pixels.
_SIDES = (
    *(224, 256, 299, 300, 320, 384, 400, 416, 448, 480, 512, 550, 600, 608, 640, 672, 720, 736, 768, 800, 832, 864),
    *(896, 960, 1008, 1024, 1120, 1152, 1280, 1333, 1344, 1408, 1536, 1920),
)


@dataclass(frozen=True)
class BoxReading:
    """One meaning of four numbers: their form, `swapped` where y is before x, and the `unit` of the `scale`, which is
    `exact`, or one of an input that only looks like it.
    """

    form: BoxForm
    swapped: bool
    unit: str
    scale: Scale
    exact: bool = True

    @property
    def text(self) -> str:
        """What the numbers are by this reading."""
        return f"{_FORMS[self.form]}, {'y before x, ' if self.swapped else ''}in {self.unit}"

    def corners(self, numbers: Floats, size: Floats, crop: Floats) -> Floats:
        """Corners [N, 4] in the pictures' pixels."""
        first, second = (part[:, ::-1] if self.swapped else part for part in (numbers[:, :2], numbers[:, 2:]))
        first = first - second / 2 if self.form == "centres" else first
        last = second if self.form == "corners" else first + second
        scale, more = self.scale(size, crop)
        return np.hstack([first * scale + more, last * scale + more])


def _readings(form: BoxForm) -> Iterator[BoxReading]:
    """All, the likelier before others."""
    units: dict[str, Scale] = {
        "pixels": lambda size, crop: (1.0, 0.0),
        "shares of the picture": lambda size, crop: (size, 0.0),
        "thousandths of the picture": lambda size, crop: (size / 1000, 0.0),
        "pixels of the sources' files": lambda size, crop: (size / crop[:, 2:], -crop[:, :2] * size / crop[:, 2:]),
    }
    forms = sorted(_FORMS, key=lambda one: one != form)
    for (unit, scale), swapped, one in product(units.items(), (False, True), forms):
        yield BoxReading(one, swapped, unit, scale)
    for side in _SIDES:
        for unit, scale in _inputs(side):
            yield BoxReading(form, False, unit, scale, exact=False)


def _inputs(side: int) -> Iterator[tuple[str, Scale]]:
    """Ways to bring a picture to an input of a side."""

    def padded(size: Floats, crop: Floats) -> tuple[Any, Any]:
        scale = size.max(axis=1, keepdims=True) / side
        return scale, (size - scale * side) / 2

    yield f"pixels of an input of {side} x {side}", lambda size, crop: (size / side, 0.0)
    yield f"pixels of an input of {side} x {side} with even borders", padded
    yield f"pixels of a longer side of {side}", lambda size, crop: (size.max(axis=1, keepdims=True) / side, 0.0)
    yield f"pixels of a shorter side of {side}", lambda size, crop: (size.min(axis=1, keepdims=True) / side, 0.0)


class BoxEvidence:
    """The boxes in one picture of each source, its original first, held against the true boxes: pairs of a true box and
    a seen one of its picture. `numbers` [N, 4] are the seen ones' corners.
    """

    def __init__(self, rows: Sequence[PictureRow], answers: Boxes) -> None:
        ordered = sorted(rows, key=lambda row: row.kind == "original")
        first = {row.source: row for row in ordered if row.accepted and row.things and row.file_name in answers}
        chosen = [first[source] for source in sorted(first)][:_PICTURES]
        self._truths = [(row, box) for row in chosen for box in row.things]
        best = {row.file_name: sorted(answers[row.file_name], key=lambda one: -one.score)[:_BOXES] for row in chosen}
        self.pairs = [(place, row, box) for place, (row, _) in enumerate(self._truths) for box in best[row.file_name]]
        self._place = np.array([place for place, _, _ in self.pairs], np.intp)
        truths = np.array([(box.x0, box.y0, box.x1, box.y1) for _, box in self._truths], np.float64).reshape(-1, 4)
        self._truth, self.numbers = truths[self._place], _corners([box for _, _, box in self.pairs])

    @property
    def count(self) -> int:
        """How many true boxes there are."""
        return len(self._truths)

    def fit(self, corners: Floats) -> tuple[int, float]:
        """How many true boxes have a seen one upon them, and by how much these overlap together."""
        best = np.zeros(self.count)
        np.maximum.at(best, self._place, _overlaps(self._truth, corners))
        return int((best >= OVERLAP).sum()), float(best[best >= OVERLAP].sum())

    def varied(self, corners: Floats) -> bool:
        """Whether those that lie on a true box are several, and no single one that the model always gives."""
        upon = self.numbers[_overlaps(self._truth, corners) >= OVERLAP]
        return len(np.unique(upon.round(3), axis=0)) >= _VARIED

    def labels(self) -> Pairs:
        """Of each true box that has a seen one upon it, the label, and what the seen one is called."""
        best: dict[int, tuple[float, str]] = {}
        overlaps = _overlaps(self._truth, self.numbers).tolist()
        for (place, _, box), overlap in zip(self.pairs, overlaps, strict=True):
            if overlap >= OVERLAP and overlap > best.get(place, (0.0, ""))[0]:
                best[place] = overlap, box.label
        return [(self._truths[place][1].label, label) for place, (_, label) in best.items()]


def settle_boxes(
    name: str, rows: Sequence[PictureRow], answers: Boxes, form: BoxForm, sizes: Sizes
) -> tuple[dict[str, tuple[SeenBox, ...]], tuple[str, ...]]:
    """The boxes in the pictures' pixels, with sentences on what their numbers are; `form` is what they were read by.
    Raises CounterfactoryError for boxes in the pixels of a model's input.
    """
    evidence = BoxEvidence(rows, answers)
    own, _ = evidence.fit(evidence.numbers)
    if not evidence.numbers.size or TIMES * own > evidence.count:
        return dict(answers), ()
    pictures = [row for _, row, _ in evidence.pairs]
    of, numbers = _pictures(pictures, sizes), _numbers(evidence.numbers, form)
    readings, shares = list(_readings(form)), np.abs(numbers).max() <= _ONE and of[0].min() >= _LEAST
    if shares:
        readings = [one for one in readings if one.unit.startswith("shares")]
    fits = [evidence.fit(one.corners(numbers, *of)) for one in readings]
    best = max(range(len(readings)), key=lambda i: fits[i][1])
    reading, (most, overlap) = readings[best], fits[best]
    corners = reading.corners(numbers, *of)
    close = overlap >= _CLOSE * most and (evidence.varied(corners) or overlap >= _LUCKLESS * most)
    outside = 10 * _outside(evidence.numbers, of[0]) >= len(numbers) > 50 * _outside(corners, of[0])
    sure = weigh(own, most, evidence.count, 0.0, len(readings), TIMES, SHARE, impossible=outside)
    seen = f"{name}: boxes are {reading.text}: so {most} of {evidence.count} true boxes are found, as they are {own}"
    if not shares and (sure == "none" or not close):
        return dict(answers), ()
    if not shares and sure == "likely":
        return dict(answers), (f"warning: {seen}, too few to tell: look what the boxes' numbers are",)
    if not reading.exact:
        raise CounterfactoryError(f"{seen}; give them in the pictures' own pixels")
    return _read_by(reading, rows, answers, form, sizes), (f"{seen}; they are read so",)


def box_notes(name: str, answers: Mapping[str, Sequence[SeenBox]]) -> tuple[str, ...]:
    """A warning of a detector that sees nothing, is sure of nothing, or sees the same in every picture."""
    counts, scores = [len(boxes) for boxes in answers.values()], [b.score for some in answers.values() for b in some]
    if not scores:
        return (f"warning: {name} has no box in any of {len(counts)} pictures",)
    if max(scores) < SURE:
        told = f"the score {max(scores):.2g} is its highest, and recall and effects are of boxes of {SURE} or more"
        return (f"warning: {name}: {told}",)
    same = len(counts) > 1 and len(set(map(tuple, answers.values()))) == 1
    return (f"warning: {name} has the same boxes in all {len(counts)} pictures",) if same else ()


def _read_by(
    reading: BoxReading, rows: Sequence[PictureRow], answers: Boxes, form: BoxForm, sizes: Sizes
) -> dict[str, tuple[SeenBox, ...]]:
    read = dict(answers)
    for row in rows:
        if boxes := answers.get(row.file_name):
            of = _pictures([row] * len(boxes), sizes)
            corners = reading.corners(_numbers(_corners(boxes), form), *of).tolist()
            read[row.file_name] = tuple(
                replace(box, x0=x0, y0=y0, x1=x1, y1=y1) for box, (x0, y0, x1, y1) in zip(boxes, corners, strict=True)
            )
    return read


def _pictures(rows: Sequence[PictureRow], sizes: Sizes) -> tuple[Floats, Floats]:
    """(width, height) [N, 2] of pictures, and the boxes [N, 4] of sources' files that they show."""
    known = {name: sizes(name) for name in {row.file_name for row in rows}}
    crops = [(row.crop.left, row.crop.top, row.crop.width, row.crop.height) for row in rows]
    return np.array([known[row.file_name][::-1] for row in rows], np.float64), np.array(crops, np.float64)


def _numbers(corners: Floats, form: BoxForm) -> Floats:
    """The numbers [N, 4] that were read as boxes of a form."""
    return np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]]) if form == "sizes" else corners


def _corners(boxes: Sequence[SeenBox]) -> Floats:
    return np.array([(box.x0, box.y0, box.x1, box.y1) for box in boxes], np.float64).reshape(-1, 4)


def _outside(corners: Floats, size: Floats) -> int:
    """How many boxes have no sides, or half of their area beyond their pictures."""
    within = (corners[:, 2:].clip(0, size) - corners[:, :2].clip(0, size)).clip(0)
    return int((within.prod(axis=1) <= (corners[:, 2:] - corners[:, :2]).clip(0).prod(axis=1) / 2).sum())


def _overlaps(truths: Floats, corners: Floats) -> Floats:
    """The intersection over union [N] of boxes with true ones, both corners [N, 4]."""
    first, last = np.maximum(truths[:, :2], corners[:, :2]), np.minimum(truths[:, 2:], corners[:, 2:])
    both = (last - first).clip(0).prod(axis=1)
    areas = [(one[:, 2:] - one[:, :2]).clip(0).prod(axis=1) for one in (truths, corners)]
    return np.asarray(both / np.maximum(areas[0] + areas[1] - both, 1e-9))
