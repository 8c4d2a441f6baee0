"""Which pictures are frames of one sequence, or copies of each other, by their names and by what they look like.

A name with a counter says little: photographs are numbered, too. So pictures are looked at. `look_of` is a difference
hash of 128 bits, whether each of 8 x 8 places is darker than the next to its right, and below (Krawetz, "Kind of like
that", 2013). Two looks differ by the share of bits, of those set in either, that are set in one: 0.69 in the median of
499,500 pairs of photographs of ImageNet, 0.28 at least. Files whose names differ in one number are a run. It is a
sequence where neighbours look nearly alike, or where they are certainly nearer to each other than to frames further on,
which no class of photographs has, however alike they are. Short runs are judged together with those that are named
like them. Copies are found whatever they are called; and names that say the drive, as their publishers gave them, are
taken at their word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# How far looks of copies, and half of the neighbours in a sequence, are apart at most.
_COPY, _NEAR = 0.1, 0.35
# Bits that have to be set in two looks for them to say anything: of a grey picture none is.
_TOLD = 16
# Frames that a neighbour has to be nearer than, in how many pairs of neighbours, by how many standard errors.
_FURTHER, _SHARE, _SURE = range(4, 13), 0.8, 3.1
# Pairs of neighbours that say it by their order, and by being alike.
_ENOUGH, _FEW = 12, 3
# Pictures of which every two are compared, neighbours by name; and rows at a time.
_MOST, _ROWS = 20_000, 512
# The pixels that a look is made of, across and down, are some.
_SIDE = 128
_PUBLISHED = tuple(
    re.compile(rf"(?:^|/){name}")
    for name in (
        r"([a-z]+)_00\d{4}_\d{6}(?:_leftImg8bit)?\.",  # Cityscapes: aachen_000000_000019_leftImg8bit.png
        r"(0001TP|0006R0|0016E5|Seq05VD)_f?\d+\.",  # CamVid
        r"(\d{4}_\d\d_\d\d_drive_\d{4})_",  # KITTI's raw data
        r"([0-9a-f]{4}-[0-9a-f]{4})/\d{8}_img_",  # SHIFT
        r"([0-9a-f]{8}-[0-9a-f]{8})-\d{7}\.",  # BDD100K's tracking
        r"(n\d{3}-\d{4}(?:-\d\d){5}[+-]\d{4})__CAM_",  # nuScenes
    )
)
Bits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A picture's path as its set has it, and its look, b"" where nobody looked."""

    file: str
    look: bytes


def look_of(picture: NDArray[np.uint8]) -> bytes:
    """The look, 16 bytes, of uint8 RGB [H, W, 3] at any size."""
    step = max(1, min(picture.shape[:2]) // _SIDE)
    grey = Image.fromarray(np.ascontiguousarray(picture[::step, ::step])).convert("L")
    across, down = (np.asarray(grey.resize(size, Image.Resampling.BOX)) for size in ((9, 8), (8, 9)))
    return np.packbits([across[:, 1:] > across[:, :-1], down[1:] > down[:-1]]).tobytes()


def find_sequences(pictures: Sequence[SeenFile]) -> dict[int, str]:
    """The name of the sequence of each picture, by its place, that is in one."""
    labels, names = np.arange(len(pictures)), dict[int, str]()

    def join(places: Sequence[int], name: str | None = None) -> None:
        if name is not None:
            names.update(dict.fromkeys(places, name))
        if len(together := np.unique(labels[list(places)])) > 1:
            labels[np.isin(labels, together)] = together[0]

    for name, places in _published(pictures).items():
        join(places, name)
    named = set(names)
    looks = np.frombuffer(b"".join(one.look or bytes(16) for one in pictures), np.uint8).reshape(-1, 16)
    runs = _runs([place for place in range(len(pictures)) if place not in named], pictures)
    for run in _true_runs(runs, looks):
        join(run.places, run.name)
    order = np.array(sorted(range(len(pictures)), key=lambda place: pictures[place].file), np.int64)
    for start in range(0, len(order), _MOST):
        for places in _copies(order[start : start + _MOST], looks):
            join(places)
    members = defaultdict[int, list[int]](list)
    for place, label in enumerate(labels.tolist()):
        members[label].append(place)
    groups = [places for places in members.values() if len(places) > 1]
    first = {id(places): next((names[p] for p in places if p in names), pictures[places[0]].file) for places in groups}
    return {place: first[id(places)] for places in groups for place in places}


def _published(pictures: Sequence[SeenFile]) -> dict[str, list[int]]:
    drives = defaultdict[str, list[int]](list)
    for place, one in enumerate(pictures):
        for form in _PUBLISHED:
            if match := form.search(one.file):
                drives[match[1]].append(place)
                break
    return drives


@dataclass(frozen=True)
class _Run:
    """Pictures whose names differ in a counter, in its order: `form` is a name with # for its numbers."""

    name: str
    form: str
    places: tuple[int, ...]


def _runs(places: Sequence[int], pictures: Sequence[SeenFile]) -> Iterator[_Run]:
    alike = defaultdict[tuple[str, str], list[tuple[list[str], int]]](list)
    for place in places:
        folder, _, name = pictures[place].file.rpartition("/")
        parts = re.split(r"([0-9]+)", name.rpartition(".")[0] or name)
        alike[folder, "#".join(parts[::2])].append((parts, place))
    for (folder, form), members in alike.items():
        # The last number that is not the same in all of them counts; what others differ in is another run.
        at = max((k for k in range(1, len(members[0][0]), 2) if len({parts[k] for parts, _ in members}) > 1), default=0)
        by_rest = defaultdict[str, list[tuple[int, int]]](list)
        for parts, place in members if at else ():
            by_rest["".join([*parts[:at], "*", *parts[at + 1 :]])].append((int(parts[at]), place))
        for rest, run in by_rest.items():
            yield _Run(f"{folder}/{rest}".lstrip("/"), form, tuple(place for _, place in sorted(run)))


def _true_runs(runs: Iterator[_Run], looks: NDArray[np.uint8]) -> Iterator[_Run]:
    """The runs that look like sequences."""
    forms = defaultdict[str, list[tuple[_Run, list[float], list[float]]]](list)
    for run in runs:
        bits = _bits(looks[list(run.places)])
        further = [_apart(bits[lag:], bits[:-lag]) for lag in _FURTHER if lag < len(bits)]
        neighbours = _apart(bits[1:], bits[:-1]).tolist()
        forms[run.form].append((run, neighbours, np.concatenate([[], *further]).tolist()))
    for of_form in forms.values():
        together = _is_sequence([d for _, near, _ in of_form for d in near], [d for _, _, far in of_form for d in far])
        for run, near, far in of_form:
            if len(run.places) > 1 and (_is_sequence(near, far) if len(near) >= _ENOUGH else together):
                yield run


def _is_sequence(neighbours: Sequence[float], further: Sequence[float]) -> bool:
    count = len(neighbours)
    if count >= _FEW and np.median(neighbours) <= _NEAR:
        return True
    if count < _ENOUGH or not further:
        return False
    nearer = float((np.array(neighbours) < np.median(further)).sum())
    return nearer >= _SHARE * count and 2 * nearer - count >= _SURE * count**0.5


def _bits(looks: NDArray[np.uint8]) -> Bits:
    return np.unpackbits(looks, axis=1).astype(np.float32)


def _apart(first: Bits, second: Bits) -> NDArray[np.float64]:
    """How far looks [N, 128] are apart, 0..1: [N]; 1 where they say nothing."""
    both, either = (first * second).sum(axis=1), np.maximum(first, second).sum(axis=1)
    return np.where(either < _TOLD, 1.0, 1 - both / np.maximum(either, 1))


def _copies(places: NDArray[np.int64], looks: NDArray[np.uint8]) -> Iterator[list[int]]:
    """For each of the places that has copies behind it, itself and those."""
    bits = _bits(looks[places])
    count = bits.sum(axis=1)
    for start in range(0, len(bits), _ROWS):
        both = bits[start : start + _ROWS] @ bits[start:].T
        either = count[start : start + _ROWS, None] + count[None, start:] - both
        near = np.triu((either >= _TOLD) & (either - both <= _COPY * either), 1)
        for row in np.flatnonzero(near.any(axis=1)):
            yield [int(places[start + row]), *places[start + np.flatnonzero(near[row])].tolist()]
