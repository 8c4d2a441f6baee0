"""What the four numbers of a set's boxes mean, judged by all of them before any is clipped.

Every layout says what they are, and files do otherwise. One box tells little, a set tells it: read rightly, boxes have
two sides and lie in their pictures, and an `area` is that of its box.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from ..errors import CounterfactoryError
from .shapes import Box

BoxForm = Literal["sizes", "corners", "centres"]
FORMS: tuple[BoxForm, ...] = get_args(BoxForm)
_WORDS = {
    "sizes": "x, y, width, height",
    "corners": "two corners (x0, y0, x1, y1)",
    "centres": "a middle and a size (x, y, width, height)",
}
# Annotators round: a pixel beyond the edge is no box elsewhere.
_EDGE = 1.0
# Of its area: what a clipped box can lose without meaning something else.
_MUCH = 0.1
# Of a set's boxes: how many read wrongly make a set that is read wrongly, how many another reading has to fit, and how
# many have to lie within 0 to 1 to be shares.
_WRONG, _FIT, _SHARES = 0.1, 0.98, 0.9
# A true box that leaves its picture to the right fits as a middle and a size, so that few boxes show nothing; it fits
# as two corners only where it begins nearer to the edge than it is long.
_FEW = 10
_CLOSE = 0.01


def box_of(numbers: Sequence[float], form: BoxForm, label: str) -> Box:
    """The box that four numbers of a form describe."""
    x, y, c, d = numbers
    if form == "centres":
        return Box(x - c / 2, y - d / 2, x + c / 2, y + d / 2, label)
    return Box(x, y, x + c, y + d, label) if form == "sizes" else Box(x, y, c, d, label)


def _numbers_of(box: Box, form: BoxForm) -> tuple[float, float, float, float]:
    """The four numbers that `box_of` made a box of."""
    if form == "corners":
        return box.x0, box.y0, box.x1, box.y1
    width, height = box.x1 - box.x0, box.y1 - box.y0
    if form == "sizes":
        return box.x0, box.y0, width, height
    return box.x0 + width / 2, box.y0 + height / 2, width, height


def _fits(box: Box, size: tuple[int, int]) -> bool:
    inside = box.x0 >= -_EDGE and box.y0 >= -_EDGE and box.x1 <= size[1] + _EDGE and box.y1 <= size[0] + _EDGE
    return inside and box.x0 < box.x1 and box.y0 < box.y1


def _lost(box: Box, size: tuple[int, int]) -> bool:
    """Whether a picture of `size` shows too little of a box."""
    width = min(box.x1, size[1]) - max(box.x0, 0)
    height = min(box.y1, size[0]) - max(box.y0, 0)
    return box.x0 >= box.x1 or box.y0 >= box.y1 or max(width, 0) * max(height, 0) < (1 - _MUCH) * box.area


@dataclass
class BoxCensus:
    """Counts a set's boxes as they were read, by `form`, which the user may have said. `where` names the set."""

    where: str
    form: BoxForm
    of_user: bool = False
    relative: bool = False
    count: int = 0
    _shares: int = 0
    _leaving: int = 0
    _lost: int = 0
    _first: str | None = None
    _fitting: Counter[BoxForm] = field(default_factory=Counter)
    _areas: Counter[BoxForm] = field(default_factory=Counter)
    _with_area: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, where: object, layouts: BoxForm, named: BoxForm | None, *, relative: bool = False) -> BoxCensus:
        """An empty census of a layout's form, or the one that the user says."""
        return cls(str(where), named or layouts, named is not None, relative)

    def read(self, numbers: Sequence[float], label: str, area: object = None) -> Box:
        """The box of four numbers, whose `area` the set may give."""
        box = box_of(numbers, self.form, label)
        if isinstance(area, int | float) and not isinstance(area, bool) and area > 0:
            self._with_area += 1
            for form in FORMS:
                other = box_of(numbers, form, label)
                sides = other.x1 - other.x0, other.y1 - other.y0
                self._areas[form] += min(sides) > 0 and abs(sides[0] * sides[1] - area) <= _CLOSE * area
        return box

    def add(self, name: str, boxes: Iterable[Box], size: tuple[int, int]) -> None:
        """The boxes of a picture of `size` (height, width), in its pixels, before they are clipped. From any thread."""
        for box in boxes:
            numbers = _numbers_of(box, self.form)
            fitting = [form for form in FORMS if _fits(box_of(numbers, form, ""), size)]
            with self._lock:
                self.count += 1
                self._shares += not self.relative and min(numbers) >= -1 and max(numbers) <= 1
                self._fitting.update(fitting)
                if self.form not in fitting:
                    self._leaving += 1
                    self._lost += _lost(box, size)
                    self._first = min(self._first or name, name)

    def refuse(self) -> None:
        """Raises CounterfactoryError where the set's boxes are shares in a layout of pixels, or mean another form."""
        if self.count and self._shares >= _SHARES * self.count:
            raise CounterfactoryError(
                f"{self.where}: the numbers of {self._shares} of {self.count} boxes lie between 0 and 1, as shares of "
                "a picture do, and this layout has pixels: multiply them by the pictures' widths and heights"
            )
        if self.of_user:
            return
        if (by_area := self._areas["corners"]) >= _SHARES * max(1, self._with_area) and not self._areas[self.form]:
            raise self._other(["corners"], f"the area of {by_area} of {self._with_area} boxes is another")
        told = FORMS if self.count >= _FEW else FORMS[:1] if self.form == "corners" else FORMS[1:2]
        forms = [form for form in told if form != self.form and self._fitting[form] >= _FIT * self.count]
        if forms and self._lost >= max(1, _WRONG * self.count):
            raise self._other(forms, f"{self._leaving} of {self.count} boxes leave their pictures or have no sides")

    def _other(self, forms: Sequence[BoxForm], seen: str) -> CounterfactoryError:
        better = " or ".join(_WORDS[form] for form in forms)
        say = " or ".join(f"--boxes {form}" for form in forms)
        return CounterfactoryError(
            f"{self.where}: read as {_WORDS[self.form]}, {seen}; as {better} they fit: say {say}, or --boxes "
            f"{self.form} to have them as they are"
        )

    def notes(self) -> list[str]:
        """A sentence where boxes leave their pictures."""
        if not self._leaving:
            return []
        share = f"({100 * self._leaving / self.count:.0f} %)"
        return [
            f"{self._leaving} of {self.count} boxes {share} leave their pictures and are clipped, {self._lost} of them "
            f"by more than {100 * _MUCH:.0f} % of their area; the first is in {self._first}"
        ]


def crowds_are_things(crowds: int, count: int) -> bool:
    """Whether what is marked as crowds is single things: COCO marks one in a hundred, CVAT what was drawn by brush."""
    return 2 * crowds > count


def crowd_note(where: str, crowds: int, count: int) -> list[str]:
    """A sentence on annotations that are marked as crowds, if there are any."""
    if not crowds:
        return []
    marked = f"{where}: {crowds} of {count} boxes are marked as crowds (iscrowd 1)"
    if crowds_are_things(crowds, count):
        return [f"{marked}, as CVAT marks what is drawn by brush: they are taken for single things"]
    return [f"{marked} and are left out; where they are single things, as CVAT's brush draws them, set iscrowd to 0"]
