"""What the four numbers of a model's boxes mean, judged by all of them against the true boxes before any figure.

Files and models have two corners or a corner and a size, y before x, shares of the picture, and pixels of the model's
input or of the source's file. Read wrongly, good boxes lie on nothing; a bad detector's do by every reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sources.boxes import FORMS, BoxForm
from ..suite import PictureRow
from .answer_census import Pairs, weigh
from .detections import OVERLAP, SURE, SeenBox

# (height, width) of a picture, by its file_name.
Sizes = Callable[[str], tuple[int, int]]
Floats = NDArray[np.float64]

# Pictures, one of a source, and boxes of each that are held against the truths.
_PICTURES, _BOXES = 200, 20
# Below so many corners are no pixels; so many different boxes, or so much overlap, are no single box that fits by luck.
_SHARE, _VARIED, _CLOSE = 1.5, 3, 0.9
# A picture is this long at least where shares are told from pixels.
_TOLD = 4
# Sides of inputs that models are trained with, in pixels, and what shares are counted to by models that write text.
_SIDES = (1000, 224, 256, 299, 300, 320, 384, 400, 416, 448, 480, 512, 550, 600, 608, 640, 672, 720, 736, 768, 800)
_LARGE = (864, 896, 960, 1024, 1120, 1152, 1280, 1333, 1344, 1408, 1536, 1920)
_WORDS = {"corners": "two corners", "sizes": "a corner and a size", "centres": "a middle and a size"}


@dataclass(frozen=True)
class _Pictures:
    """Of boxes, a row each: (width, height) of the pictures [N, 2], and of the parts of the sources' files that these
    show, the first corner [N, 2] and the size [N, 2].
    """

    size: Floats
    corner: Floats
    crop: Floats

    @classmethod
    def of(cls, rows: Sequence[PictureRow], sizes: Sequence[tuple[int, int]]) -> _Pictures:
        crops = [(row.crop.left, row.crop.top, row.crop.width, row.crop.height) for row in rows]
        crop = np.array(crops, np.float64).reshape(-1, 4)
        return cls(np.array(sizes, np.float64).reshape(-1, 2)[:, ::-1], crop[:, :2], crop[:, 2:])


# The scale [N, 2] that numbers are to be multiplied by, and what is then to be added [N, 2].
Scale = Callable[[_Pictures], tuple[Any, Any]]


@dataclass(frozen=True)
class BoxReading:
    """One meaning of four numbers: their `form`, `swapped` where y is before x, and the unit, with what to call it."""

    form: BoxForm
    swapped: bool
    unit: str
    scale: Scale

    @property
    def text(self) -> str:
        """What the numbers are by this reading."""
        return f"{_WORDS[self.form]}, {'y before x, ' if self.swapped else ''}in {self.unit}"

    def corners(self, numbers: Floats, of: _Pictures) -> Floats:
        """Corners [N, 4] in the pictures' pixels."""
        first, second = (part[:, ::-1] if self.swapped else part for part in (numbers[:, :2], numbers[:, 2:]))
        if self.form == "centres":
            first = first - second / 2
        last = second if self.form == "corners" else first + second
        scale, more = self.scale(of)
        return np.hstack([first * scale + more, last * scale + more])


def _readings(form: BoxForm) -> Iterator[BoxReading]:
    """All, the one that is given first, and the likelier before others."""
    forms = sorted(FORMS, key=lambda one: one != form)
    for (unit, scale), swapped, one in product(_units(), (False, True), forms):
        yield BoxReading(one, swapped, unit, scale)
    for side, one in product((*_SIDES, *_LARGE), forms[:1] if form == "centres" else (form, "centres")):
        for unit, scale in _inputs(float(side)):
            yield BoxReading(one, False, unit, scale)


def _units() -> tuple[tuple[str, Scale], ...]:
    return (
        ("pixels", lambda of: (1.0, 0.0)),
        ("shares of the picture", lambda of: (of.size, 0.0)),
        ("thousandths of the picture", lambda of: (of.size / 1000, 0.0)),
        ("the pixels of the sources' files", lambda of: (of.size / of.crop, -of.corner * of.size / of.crop)),
    )


def _inputs(side: float) -> Iterator[tuple[str, Scale]]:
    """Ways to bring a picture to an input whose side is known."""

    def padded(of: _Pictures) -> tuple[Any, Any]:
        scale = of.size.max(axis=1, keepdims=True) / side
        return scale, (of.size - scale * side) / 2

    yield f"pixels of an input of {side:.0f} x {side:.0f}", lambda of: (of.size / side, 0.0)
    yield f"pixels of an input of {side:.0f} x {side:.0f} with even borders", padded
    yield (
        f"pixels of the picture scaled to a longer side of {side:.0f}",
        lambda of: (of.size.max(axis=1, keepdims=True) / side, 0.0),
    )
    yield (
        f"pixels of the picture scaled to a shorter side of {side:.0f}",
        lambda of: (of.size.min(axis=1, keepdims=True) / side, 0.0),
    )


class BoxEvidence:
    """The answers to one picture of each source, its original first, held against the true boxes: pairs of a true box
    and a seen one of its picture.
    """

    def __init__(self, rows: Sequence[PictureRow], answers: Mapping[str, Sequence[SeenBox]]) -> None:
        order = sorted((row for row in rows if row.accepted and row.boxes), key=lambda row: row.kind != "original")
        first = {row.source: row for row in reversed(order) if row.file_name in answers}
        self.rows = [first[source] for source in sorted(first)][:_PICTURES]
        self._truths = [(row, box) for row in self.rows for box in row.boxes]
        best = {row.file_name: sorted(answers[row.file_name], key=lambda box: -box.score)[:_BOXES] for row in self.rows}
        pairs = [(k, row, box) for k, (row, _) in enumerate(self._truths) for box in best[row.file_name]]
        self._place = np.array([k for k, _, _ in pairs], np.intp)
        self._rows, self._boxes = [row for _, row, _ in pairs], [box for _, _, box in pairs]
        truths = np.array([(box.x0, box.y0, box.x1, box.y1) for _, box in self._truths], np.float64).reshape(-1, 4)
        self._truth = truths[self._place]

    @property
    def count(self) -> int:
        """How many true boxes there are."""
        return len(self._truths)

    @cached_property
    def numbers(self) -> Floats:
        """The seen boxes' corners [N, 4], as they are."""
        return _corners(self._boxes)

    def found(self, corners: Floats) -> tuple[int, bool]:
        """How many true boxes have a seen one upon them, and whether these differ, or fit as no chance has it."""
        overlap = _overlaps(self._truth, corners)
        best = np.zeros(self.count)
        np.maximum.at(best, self._place, overlap)
        upon = overlap >= OVERLAP
        varied = len(np.unique(self.numbers[upon].round(3), axis=0)) >= _VARIED
        hits = best[best >= OVERLAP]
        return hits.size, varied or (hits.size > 0 and float(hits.mean()) >= _CLOSE)

    def pictures(self, sizes: Sizes) -> _Pictures:
        """The pictures of the seen boxes."""
        known = {row.file_name: sizes(row.file_name) for row in self.rows}
        return _Pictures.of(self._rows, [known[row.file_name] for row in self._rows])

    def labels(self) -> Pairs:
        """Of each true box that has a seen one upon it, the label, and what the seen one is called."""
        best: dict[int, tuple[float, str]] = {}
        overlaps = _overlaps(self._truth, self.numbers)
        for place, overlap, box in zip(self._place.tolist(), overlaps.tolist(), self._boxes, strict=True):
            if overlap >= OVERLAP and overlap > best.get(place, (0.0, ""))[0]:
                best[place] = overlap, box.label
        return [(self._truths[place][1].label, label) for place, (_, label) in best.items()]


def settle_boxes(
    name: str,
    rows: Sequence[PictureRow],
    answers: Mapping[str, tuple[SeenBox, ...]],
    form: BoxForm,
    sizes: Sizes,
) -> tuple[dict[str, tuple[SeenBox, ...]], tuple[str, ...]]:
    """The boxes in the pictures' pixels, with sentences on what their numbers are; `form` is what they were read by."""
    evidence = BoxEvidence(rows, answers)
    own = evidence.found(evidence.numbers)[0]
    if not evidence.numbers.size or 2 * own > evidence.count:
        return dict(answers), ()
    of = evidence.pictures(sizes)
    readings = list(_readings(form))
    numbers = _as_form(evidence.numbers, form)
    shares = np.abs(evidence.numbers).max() <= 2 * _SHARE and (np.abs(numbers) <= _SHARE).all()
    shares = bool(shares and of.size.min() >= _TOLD)
    if shares:
        readings = [one for one in readings if one.unit.startswith("shares")]
    found = [evidence.found(one.corners(numbers, of)) for one in readings]
    best = max(range(len(readings)), key=lambda i: found[i][0])
    reading, (most, differ) = readings[best], found[best]
    outside = 10 * _outside(evidence.numbers, of) >= len(numbers) > 50 * _outside(reading.corners(numbers, of), of)
    certainty = weigh(own, most, evidence.count, 0.0, len(readings), impossible=outside)
    seen = f"as {reading.text} {most} of {evidence.count} true boxes are found, as they are {own}"
    if shares or (certainty == "certain" and differ):
        why = "all lie within 0 to 1" if shares and not most else seen
        return _read_by(reading, rows, answers, form, sizes), (f"{name}: boxes are read as {reading.text}: {why}",)
    if certainty == "none" or not differ:
        return dict(answers), ()
    return dict(answers), (f"warning: {name}: {seen}, and they are too few to tell: check what the boxes' numbers are",)


def box_notes(name: str, answers: Mapping[str, Sequence[SeenBox]]) -> tuple[str, ...]:
    """Warnings of a detector that sees nothing, is sure of nothing, or sees the same in every picture."""
    counts, scores = [len(boxes) for boxes in answers.values()], [b.score for some in answers.values() for b in some]
    if not any(counts):
        return (f"warning: {name} has no box in any of {len(counts)} pictures",)
    if max(scores) < SURE:
        told = f"the score {max(scores):.2g} is the highest, and recall and effects are of boxes of {SURE} or more"
        return (f"warning: {name}: {told}",)
    if len(counts) > 1 and len({tuple(boxes) for boxes in answers.values()}) == 1:
        return (f"warning: {name} has the same boxes in all {len(counts)} pictures",)
    return ()


def _read_by(
    reading: BoxReading,
    rows: Sequence[PictureRow],
    answers: Mapping[str, tuple[SeenBox, ...]],
    form: BoxForm,
    sizes: Sizes,
) -> dict[str, tuple[SeenBox, ...]]:
    read = dict(answers)
    for row in rows:
        if some := answers.get(row.file_name):
            of = _Pictures.of([row] * len(some), [sizes(row.file_name)] * len(some))
            corners = reading.corners(_as_form(_corners(some), form), of).tolist()
            places = [dict(zip(("x0", "y0", "x1", "y1"), one, strict=True)) for one in corners]
            read[row.file_name] = tuple(replace(box, **place) for box, place in zip(some, places, strict=True))
    return read


def _as_form(corners: Floats, form: BoxForm) -> Floats:
    """The numbers [N, 4] that were read as boxes of a form."""
    return np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]]) if form == "sizes" else corners


def _corners(boxes: Sequence[SeenBox]) -> Floats:
    return np.array([(box.x0, box.y0, box.x1, box.y1) for box in boxes], np.float64).reshape(-1, 4)


def _outside(corners: Floats, of: _Pictures) -> int:
    """How many boxes have no sides, or less than half of their area in their pictures."""
    sides = (corners[:, 2:] - corners[:, :2]).clip(0)
    within = (corners[:, 2:].clip(0, of.size) - corners[:, :2].clip(0, of.size)).clip(0)
    return int((within.prod(axis=1) <= sides.prod(axis=1) / 2).sum())


def _overlaps(truths: Floats, corners: Floats) -> Floats:
    """The intersection over union [N] of boxes with true ones, both corners [N, 4]."""
    first, last = np.maximum(truths[:, :2], corners[:, :2]), np.minimum(truths[:, 2:], corners[:, 2:])
    both = (last - first).clip(0).prod(axis=1)
    areas = [(one[:, 2:] - one[:, :2]).clip(0).prod(axis=1) for one in (truths, corners)]
    return np.asarray(both / np.maximum(areas[0] + areas[1] - both, 1e-9))
