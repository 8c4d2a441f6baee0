"""What the masks of a data set hold: counted while each is read, and said in sentences before anything is painted.

Numbers mean what a class map says, and look like any others when they are wrong. So the classes and the share that
counts for nothing are said, and what cannot be numbers of classes is refused: palettes in another order per file, edges
that were smoothed. The pixels are not kept, only how many there are of each number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError, list_some
from ..files.disk_list import DiskList, repeated
from .class_map import BACKGROUND, VOID, ClassMap, colour_name, load_class_map, pack_colour
from .pixels import count_numbers

# Black and white, which nobody named; no caption can be asked to speak of an "object".
UNNAMED: Mapping[int, str] = MappingProxyType({0: BACKGROUND, 1: "object"})
_BLACK_WHITE = "masks of black and white"
# What editors write for white, in 8 and in 16 bits.
WHITE = frozenset((VOID, 65_535))
_KINDS = {frozenset({1}): "ones", **dict.fromkeys((frozenset({white}) for white in WHITE), "whites")}
_SHOWN = 5
_MOST_COLOURS = 4096
# More numbers than a set of classes without names is likely to have, most of them in less than a thousandth.
_MANY, _RARE = 64, 1e-3
_MOSTLY_VOID, _NEARLY_ALL, _GREY = 0.5, 0.9, range(64, VOID)
# An edge that was smoothed has strays: pixels whose number lies between those of opposite neighbours. Of the pixels at
# the edges of drawn, rendered and enlarged masks at most 2 % are strays, of those that were resized by interpolation,
# blurred or saved as JPEG 15 to 90 %. A class for the borders of things has as many, but is one.
_STRAYS, _STRAY_NUMBERS, _LEAST_EDGE, _LEAST_NUMBERS, _MIDDLE = 0.15, 3, 40, 5, 1024


@dataclass(frozen=True)
class MaskFacts:
    """What one mask holds: pixels by number, or by colour (red << 16 | green << 8 | blue) where it has `colours`;
    `channels` are those in its file. `palette` has the colours of the numbers that occur, empty without a palette.
    `smoothed` says that its edges are those of a smoothed mask or of a photograph; `digest` names it, empty for a
    mask that other pictures may share: one number, or stripes.
    """

    counts: Mapping[int, int]
    channels: int = 1
    colours: bool = False
    palette: Mapping[int, int] = field(default_factory=dict)
    smoothed: bool = False
    digest: str = ""


def examine_mask(mask: NDArray[Any], palette: NDArray[np.uint8] | None, digest: str = "") -> MaskFacts:
    """The facts of a mask as it is in its file, [H, W] or [H, W, 3] with the `palette` [N, 3] of its numbers."""
    channels = 1 if mask.ndim == 2 else mask.shape[2]
    if channels > 1 and (mask == mask[..., :1]).all():
        mask = mask[..., 0]
    if mask.ndim == 2:
        counts, digest = _count(mask), digest if (mask != mask[:1]).any() and (mask != mask[:, :1]).any() else ""
        colours = [] if palette is None else palette.tolist()
        used = {number: pack_colour(*colours[number]) for number in counts if number < len(colours)}
        return MaskFacts(counts, channels, False, used, _is_smoothed(mask), digest)
    red, green, blue = (mask[..., channel].astype(np.int32) for channel in range(3))
    # A weighted sum keeps the order along a mixture of two colours.
    smoothed = _is_smoothed(3 * red + 5 * green + 7 * blue)
    return MaskFacts(_count_runs(pack_colour(red, green, blue)), channels, True, {}, smoothed, digest)


def count_classes(numbers: NDArray[Any], digest: str = "") -> MaskFacts:
    """The facts of a mask of class numbers, which nobody saved."""
    return MaskFacts(_count(numbers), digest=digest)


def white_as_object(class_map: ClassMap | None) -> ClassMap | None:
    """The map by which white is an object before a black background, with the names of a map that names classes 0 and 1
    and does not say what 255 is; None for another map.
    """
    if class_map is None:
        where, names = _BLACK_WHITE, dict(UNNAMED)
    elif set(class_map.names) == {0, 1} and set(class_map.numbers) == {0, 1, VOID} and not class_map.void_given:
        where, names = class_map.where, dict(class_map.names)
    else:
        return None
    return ClassMap(where, names, {0: 0, 1: 1} | dict.fromkeys(WHITE, 1), {})


@dataclass
class MaskTally:
    """The facts of a set's masks together. `class_map` is the set's, None without one."""

    class_map: ClassMap | None
    counts: Counter[int] = field(default_factory=Counter)
    masks: int = 0
    coloured: int = 0
    in_channels: int = 0
    drawn: bool = False
    _kinds: set[str] = field(default_factory=set)
    _smoothed: list[str] = field(default_factory=list)
    _palette: dict[int, tuple[int, str]] = field(default_factory=dict)
    _number_of: dict[int, int] = field(default_factory=dict)
    _clash: str | None = None
    _pictures: DiskList[tuple[str, str, str]] = field(default_factory=DiskList)

    def add(self, name: str, picture: str, file: str | None, facts: MaskFacts) -> None:
        """Adds the mask in a `file`, None for another place, of the picture `name` with the digest `picture`."""
        self.masks += 1
        self.coloured += facts.colours
        self.in_channels += facts.channels > 1
        if len(self.counts) < _MOST_COLOURS or not facts.colours:
            self.counts.update(facts.counts)
        if shown := frozenset(facts.counts) - {0}:
            self._kinds.add(_KINDS.get(shown, "others"))
        if facts.smoothed:
            self._smoothed.append(name)
        self._add_palette(name, facts.palette)
        if same := facts.digest[:16] or file:
            self._pictures.append((same, name, picture))

    def _shared(self) -> Iterator[tuple[str, str]]:
        """Names of two pictures that have one mask, the first of these and each other one."""
        hashes, first = repeated(same for same, _, _ in self._pictures), dict[str, tuple[str, str]]()
        for same, name, picture in self._pictures if hashes else ():
            if hash(same) in hashes:
                earlier, its_picture = first.setdefault(same, (name, picture))
                if its_picture != picture:
                    yield earlier, name

    def _add_palette(self, name: str, palette: Mapping[int, int]) -> None:
        for number, colour in palette.items():
            first, where = self._palette.setdefault(number, (colour, name))
            at = self._number_of.setdefault(colour, number)
            if first == colour or self._clash is not None:
                continue
            # With a map by numbers a colour of its own is a matter of taste, a colour that moved is not.
            moved = at != number or self._number_of.get(first, number) != number or first in palette.values()
            if self.class_map is None or moved:
                one, other = colour_name(first), colour_name(colour)
                self._clash = f"{number} is {one} in the mask of {where} and {other} in the mask of {name}"

    @property
    def black_and_white(self) -> bool:
        """Whether the masks hold 0 and white, and nothing else."""
        return not (self.coloured or self.drawn) and {0} < set(self.counts) <= {0, *WHITE}

    def refuse(self) -> None:
        """Raises CounterfactoryError where the numbers cannot be those of classes."""
        if self._clash is not None:
            raise CounterfactoryError(
                f"the palettes of the masks differ: {self._clash}, so that one number is several classes; say which "
                "class each colour is by --class-map with a map by colours, or save all masks with one palette"
            )
        if self.class_map is not None or self.drawn:
            return
        total, ends = self.counts.total(), sum(self.counts[number] for number in (0, *WHITE))
        between = set(self.counts) - {0, *WHITE}
        nearly_all = ends > self.counts[0] > 0 and total > ends > _NEARLY_ALL * total
        if nearly_all and len(between) > 1 and between & set(_GREY):
            raise CounterfactoryError(
                f"masks are black and white with {len(between)} numbers between in {100 - 100 * ends / total:.1f} % of "
                "their pixels, as smoothing leaves them; save them without, or say by --class-map what each number is"
            )
        if 2 * len(self._smoothed) > self.masks:
            what = "colours" if self.coloured else "numbers"
            raise CounterfactoryError(
                f"{_smoothed(self._smoothed)} of {self.masks}: they hold {len(self.counts)} {what}, most of them at "
                "edges alone; save masks as they were drawn and resize them by nearest neighbour, or say by "
                "--class-map what each is"
            )

    def contents(self) -> Iterator[str]:
        """Sentences on what the masks hold, and where names come from."""
        if not self.masks:
            return
        if self.coloured:
            shares = _listed({colour_name(value): n for value, n in self.counts.items()}, "colours")
            which = "masks" if self.coloured == self.masks else f"{self.coloured} of {self.masks} masks"
            yield (
                f"{which} are colour-coded: {shares}; no answers can be judged by them before --class-map says which "
                "class each colour is"
            )
            return
        classes, void = self._classes()
        total = sum(classes.values()) + void
        nothing = f"{100 * void / total:.1f} % of the pixels count for nothing" if void else "every pixel counts"
        white = VOID if self.class_map is None else self.class_map.numbers.get(VOID, VOID)
        as_class = "" if white == VOID else f"; white is class {white}"
        if self.class_map is not None and self.class_map.where == _BLACK_WHITE:
            as_class += " (--class-map names it, or says that it counts for nothing)"
        yield f"masks hold {_listed(classes, 'classes', total) if classes else 'no class'}; {nothing}{as_class}"
        if len(classes) < 2:
            only = f"{next(iter(classes))} alone" if classes else "nothing"
            yield f"masks show {only}, so no model can be judged by them; --class-map says which numbers are classes"

    def notes(self) -> Iterator[str]:
        """Sentences on what looks wrong."""
        if self._smoothed:
            yield f"{_smoothed(self._smoothed)}: numbers at edges that are of neither side are classes to a model"
        if shared := list(self._shared()):
            first, second = shared[0]
            yield f"masks that are those of another picture too: {len(shared)}, as of {first} and {second}"
        if self.coloured or not self.masks:
            return
        if self.in_channels and self.class_map is None:
            yield "masks have their numbers in three channels; name them by --class-map, so that answers can be judged"
        total = sum(self.counts.values())
        rare = sum(count < _RARE * total for count in self.counts.values())
        if self.class_map is None and len(self.counts) > _MANY and 2 * rare > len(self.counts):
            yield (
                f"masks hold {len(self.counts)} numbers, {rare} of them in less than 0.1 % of the pixels: numbers of "
                "single things, depth or smoothed edges are no classes; --class-map says what each number is"
            )
        if self._kinds == {"ones", "whites"}:
            yield (
                "some masks hold 0 and 1, others 0 and 255, which counts for nothing; save all alike, or only those of "
                "255, which is a class then"
            )
        (classes, void), trained = self._classes(), self._train_ids()
        if (len(classes) > 1 and void > _MOSTLY_VOID * total) or trained:
            where = "255" if self.class_map is None else self.class_map.where
            cause = "if the masks have other numbers than that, say by --class-map what they are"
            if trained:
                cause = "the numbers look like trainIds: --class-map cityscapes-trainids"
            yield f"{100 * void / total:.1f} % of the masks' pixels count for nothing by {where}; {cause}"

    def _classes(self) -> tuple[Counter[str], int]:
        """Pixels by the name of a class, and those that count for nothing."""
        by_name = Counter[str]()
        numbers, names = (self.class_map.numbers, self.class_map.names) if self.class_map is not None else ({}, {})
        for value, count in self.counts.items():
            if (number := numbers.get(value, value)) != VOID:
                by_name[names.get(number, str(number))] += count
        return by_name, self.counts.total() - by_name.total()

    def _train_ids(self) -> bool:
        """Whether masks under Cityscapes' labelIds hold numbers of its trainIds alone, some of which mean nothing."""
        trained = load_class_map("cityscapes-trainids")
        return (
            self.class_map is not None
            and self.class_map.numbers == load_class_map("cityscapes").numbers
            and set(self.counts) <= set(trained.numbers)
            and any(self.class_map.numbers[value] == VOID for value in self.counts if value != VOID)
        )


def _is_smoothed(mask: NDArray[Any]) -> bool:
    """Whether the middle of a mask [H, W] of numbers below 65,536 has many strays at its edges, of several numbers: it
    was resized by interpolation, blurred, anti-aliased or saved as JPEG.
    """
    top, left_edge = (max(0, (side - _MIDDLE) // 2) for side in mask.shape)
    mask = mask[top : top + _MIDDLE, left_edge : left_edge + _MIDDLE]
    middle, left, right, up, down = mask[1:-1, 1:-1], mask[1:-1, :-2], mask[1:-1, 2:], mask[:-2, 1:-1], mask[2:, 1:-1]
    edges = int(((middle != left) | (middle != right) | (middle != up) | (middle != down)).sum())
    if edges < _LEAST_EDGE:
        return False
    strays = np.zeros(middle.shape, bool)
    for before, after in ((left, right), (up, down)):
        strays |= ((before < middle) & (middle < after)) | ((before > middle) & (middle > after))
    of_strays, of_all = np.bincount(middle[strays]), np.bincount(mask.ravel())
    if (count := int(strays.sum())) < _STRAYS * edges or np.count_nonzero(of_all) < _LEAST_NUMBERS:
        return False
    several = (of_strays >= 0.05 * count).sum() >= _STRAY_NUMBERS
    return bool(several or (2 * of_strays > of_all[: of_strays.size]).sum() >= _STRAY_NUMBERS)


def _count(mask: NDArray[Any]) -> dict[int, int]:
    counts = count_numbers(mask)
    return {number: int(counts[number]) for number in np.flatnonzero(counts).tolist()}


def _count_runs(packed: NDArray[np.int32]) -> dict[int, int]:
    """As `_count` for large values: regions have few runs, and sorting every pixel takes ten times as long."""
    flat = packed.ravel()
    starts = np.concatenate(([0], np.flatnonzero(flat[1:] != flat[:-1]) + 1))
    if 4 * starts.size > flat.size:
        values, counts = np.unique(flat, return_counts=True)
    else:
        values, at = np.unique(flat[starts], return_inverse=True)
        counts = np.bincount(at, weights=np.diff(np.append(starts, flat.size))).astype(np.int64)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _listed(counts: Mapping[str, int], what: str, total: int | None = None) -> str:
    """The largest with their shares."""
    whole = total or sum(counts.values())
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {100 * count / whole:.1f} %" for name, count in largest[:_SHOWN])
    return shown + (f" and {len(largest) - _SHOWN} more {what}" if len(largest) > _SHOWN else "")


def _smoothed(names: list[str]) -> str:
    look = "masks look" if len(names) > 1 else "mask looks"
    return f"{len(names)} {look} smoothed, or like photographs ({list_some(names, 2)})"
