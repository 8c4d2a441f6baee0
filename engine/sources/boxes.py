"""What the four numbers of a set's boxes mean, judged by all of them before any is clipped.

Every layout says what they are, and files do otherwise. One box tells little, a set tells it: read rightly, boxes have
two sides and lie in their pictures, and an `area` is that of its box.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, get_args

from ..errors import CounterfactoryError
from .corners import CornerOrigin
from .shapes import Box

BoxForm = Literal["sizes", "corners", "centres"]
FORMS: tuple[BoxForm, ...] = get_args(BoxForm)
_WORDS = {
    "sizes": "x, y, width, height",
    "corners": "two corners (x0, y0, x1, y1)",
    "centres": "a middle and a size (x, y, width, height)",
}
# Other orders of corners, with the places of x0, y0, x1, y1.
_ORDERS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"y0, x0, y1, x1": (1, 0, 3, 2), "x0, x1, y0, y1": (0, 2, 1, 3)}
)
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
    """Counts a set's boxes as they were read, by `form`, which the user may have said. `where` names the set, `origin`
    tells which pixels corners name, where a layout has counted pixels; `turned` boxes have the upright one around them.
    """

    where: str
    form: BoxForm
    of_user: bool = False
    relative: bool = False
    count: int = 0
    turned: int = 0
    origin: CornerOrigin = field(default_factory=CornerOrigin)
    _read: int = 0
    _reversed: int = 0
    _shares: int = 0
    _leaving: int = 0
    _lost: int = 0
    _flat: int = 0
    _first: dict[str, str] = field(default_factory=dict)
    _doubled: int = 0
    _fitting: Counter[str] = field(default_factory=Counter)
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
        self._read += 1
        self._reversed += box.x1 < box.x0 or box.y1 < box.y0
        if isinstance(area, int | float) and not isinstance(area, bool) and area > 0:
            self._with_area += 1
            for form in FORMS:
                other = box_of(numbers, form, label)
                sides = other.x1 - other.x0, other.y1 - other.y0
                self._areas[form] += min(sides) > 0 and abs(sides[0] * sides[1] - area) <= _CLOSE * area
        return box

    def around(self, points: Sequence[float], label: str) -> Box:
        """The upright box around a turned one, by its corners x, y, x, y, ..."""
        self.turned += 1
        return Box(min(points[::2]), min(points[1::2]), max(points[::2]), max(points[1::2]), label)

    def turn(self, box: Box, degrees: float) -> Box:
        """The upright box around one that is turned about its middle."""
        if not degrees % 180:
            return box
        along, across = (abs(of(math.radians(degrees))) for of in (math.cos, math.sin))
        width, height, x, y = box.x1 - box.x0, box.y1 - box.y0, (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        right, down = (along * width + across * height) / 2, (across * width + along * height) / 2
        return self.around((x - right, y - down, x + right, y + down), box.label)

    def settle(self, name: str, boxes: Iterable[Box], size: tuple[int, int]) -> list[Box]:
        """The boxes of a picture of `size` (height, width), in its pixels and not yet clipped, as the set means them:
        each once, and none without width or height. From any thread, once all of the set are read.
        """
        listed = [self._moved(box) for box in boxes]
        once = list(dict.fromkeys(listed))
        kept = [box for box in once if box.x0 != box.x1 and box.y0 != box.y1]
        with self._lock:
            self._flat += len(once) - len(kept)
            if len(once) < len(listed):
                self._doubled += len(listed) - len(once)
                self._first["doubled"] = min(self._first.get("doubled", name), name)
            for box in kept:
                self._count(name, box, size)
        return [_swapped(box) if self._swaps else box for box in kept]

    def _moved(self, box: Box) -> Box:
        first, last = self.origin.shift if self.form == "corners" else self.origin.shift[:1] * 2
        if self._swaps and self.origin.count:  # the last corner was read as the first
            first, last = last + 1, first - 1
        if not (first or last):
            return box
        return replace(box, x0=box.x0 + first, y0=box.y0 + first, x1=box.x1 + last, y1=box.y1 + last)

    @property
    def _swaps(self) -> bool:
        """Whether the corners of the set are reversed, which those of a few boxes may be by mistake."""
        return self._read > 0 and self._reversed >= _FIT * self._read

    def _count(self, name: str, box: Box, size: tuple[int, int]) -> None:
        numbers = _numbers_of(box, self.form)
        self.count += 1
        self._shares += not self.relative and min(numbers) >= -1 and max(numbers) <= 1
        self._fitting.update(form for form in FORMS if _fits(box_of(numbers, form, ""), size))
        # Shares were multiplied by the sides of their places.
        for order, places in () if self.relative else _ORDERS.items():
            self._fitting[order] += _fits(box_of([numbers[place] for place in places], "corners", ""), size)
        box = _swapped(box) if self._swaps else box
        if not _fits(box, size):
            self._leaving += 1
            self._lost += _lost(box, size)
            self._first["leaving"] = min(self._first.get("leaving", name), name)

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
        wrong = self.count if self._swaps else self._lost
        if wrong < max(1, _WRONG * self.count):
            return
        seen = f"{max(wrong, self._leaving)} of {self.count} boxes leave their pictures or have no sides"
        told = FORMS if self.count >= _FEW else FORMS[:1] if self.form == "corners" else FORMS[1:2]
        if forms := [form for form in told if form != self.form and self._fitting[form] >= _FIT * self.count]:
            raise self._other(forms, seen)
        if orders := [order for order in _ORDERS if self._fitting[order] >= _FIT * self.count >= _FIT * _FEW]:
            raise CounterfactoryError(
                f"{self.where}: read as {_WORDS[self.form]}, {seen}; as {' or '.join(orders)} they fit: write them as "
                f"{_WORDS[self.form]}, or say --boxes {self.form} to have them as they are"
            )

    def _other(self, forms: Sequence[BoxForm], seen: str) -> CounterfactoryError:
        better = " or ".join(_WORDS[form] for form in forms)
        say = " or ".join(f"--boxes {form}" for form in forms)
        return CounterfactoryError(
            f"{self.where}: read as {_WORDS[self.form]}, {seen}; as {better} they fit: say {say}, or --boxes "
            f"{self.form} to have them as they are"
        )

    def notes(self) -> list[str]:
        """Sentences on what the boxes are taken for, and where some leave their pictures."""
        notes = self.origin.notes()
        if self._swaps:
            notes.append(f"the corners of {self._reversed} of {self._read} boxes are reversed, and are swapped")
        if self.turned:
            notes.append(f"{self.turned} boxes are turned: the upright box around each is taken")
        if self._doubled:
            first = self._first["doubled"]
            notes.append(
                f"{self._doubled} boxes are there again, of the same class and numbers, the first in {first}; "
                "each counts once"
            )
        if self._flat:
            notes.append(f"{self._flat} boxes without width or height are left out")
        if self._leaving:
            share = f"({100 * self._leaving / self.count:.0f} %)"
            notes.append(
                f"{self._leaving} of {self.count} boxes {share} leave their pictures and are clipped, {self._lost} of "
                f"them by more than {100 * _MUCH:.0f} % of their area; the first is in {self._first['leaving']}"
            )
        return notes


def _swapped(box: Box) -> Box:
    """With its corners in order."""
    (x0, x1), (y0, y1) = sorted((box.x0, box.x1)), sorted((box.y0, box.y1))
    return replace(box, x0=x0, y0=y0, x1=x1, y1=y1)


def is_marked(value: object) -> bool:
    """Whether a mark of a thing, such as `iscrowd`, is set: a number, a truth value, or a text of either."""
    return str(value).strip().lower() in ("1", "1.0", "true")


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
    return [f"{marked}: what a model sees there is neither right nor wrong; where they are single things, set it to 0"]
