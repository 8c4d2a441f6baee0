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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# How far looks of copies, and half of the neighbours in a sequence, are apart at most.
_COPY, _NEAR = 0.15, 0.35
# Bits that have to be set in two looks for them to say anything: of a grey picture none is.
_TOLD = 16
# Frames that a neighbour has to be nearer than, in how many pairs of neighbours, by how many standard errors.
_FURTHER, _SHARE, _SURE = range(4, 13), 0.8, 3.1
# Pairs of neighbours that say it by their order, and by being alike.
_ENOUGH, _FEW = 12, 3
# Pictures of which every two are compared, neighbours by name; and rows at a time.
_MOST, _ROWS = 20_000, 512
# Of a larger picture not every pixel is looked at, but so many across and down, at least.
_SIDE = 256
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
class Member:
    """A source: its `name`, its path `file` in its set, its `look`, b"" where nobody looked, and its row's `cells`."""

    name: str
    file: str
    look: bytes = b""
    cells: Mapping[str, object] = field(default_factory=dict)


def look_of(picture: NDArray[np.uint8]) -> bytes:
    """The look, 16 bytes, of uint8 RGB [H, W, 3] at any size."""
    step = max(1, min(picture.shape[:2]) // _SIDE)
    grey = Image.fromarray(np.ascontiguousarray(picture[::step, ::step])).convert("L")
    across, down = (np.asarray(grey.resize(size, Image.Resampling.BOX)) for size in ((9, 8), (8, 9)))
    return np.packbits([across[:, 1:] > across[:, :-1], down[1:] > down[:-1]]).tobytes()


def find_sequences(pictures: Sequence[Member]) -> dict[str, str]:
    """The name of the sequence, by that of the picture, of each that is in one."""
    labels, names = np.arange(len(pictures)), dict[int, str]()

    def join(places: Sequence[int]) -> None:
        if len(together := np.unique(labels[list(places)])) > 1:
            labels[np.isin(labels, together)] = together[0]

    drives = defaultdict[str, list[int]](list)
    for place, one in enumerate(pictures):
        if match := next(filter(None, (form.search(one.file) for form in _PUBLISHED)), None):
            drives[match[1]].append(place)
            names[place] = match[1]
    looks = np.frombuffer(b"".join(one.look or bytes(16) for one in pictures), np.uint8).reshape(-1, 16)
    runs = list(_true_runs([place for place in range(len(pictures)) if place not in names], pictures, looks))
    names |= {place: run.name for run in runs for place in run.places}
    order = np.array(sorted(range(len(pictures)), key=lambda place: pictures[place].file), np.int64)
    alike = (copies for at in range(0, len(order), _MOST) for copies in _copies(order[at : at + _MOST], looks))
    for places in (*drives.values(), *(run.places for run in runs), *alike):
        join(places)
    members = defaultdict[int, list[int]](list)
    for place, label in enumerate(labels.tolist()):
        members[label].append(place)
    several = [places for places in members.values() if len(places) > 1]
    called = [next((names[p] for p in places if p in names), pictures[places[0]].file) for places in several]
    return {pictures[p].name: name for places, name in zip(several, called, strict=True) for p in places}


@dataclass(frozen=True)
class _Run:
    """Pictures whose names differ in a counter, in its order: `form` is a name with # for its numbers, `near` how far
    neighbours are apart, and `far` frames further on.
    """

    name: str
    form: str
    places: tuple[int, ...]
    near: tuple[float, ...]
    far: tuple[float, ...]

    @classmethod
    def of(cls, name: str, form: str, numbered: Iterable[tuple[int, int]], looks: NDArray[np.uint8]) -> _Run:
        """That of places with their numbers."""
        places = tuple(place for _, place in sorted(numbered))
        bits = np.unpackbits(looks[list(places)], axis=1).astype(np.float32)
        far = [d for lag in _FURTHER if lag < len(bits) for d in _apart(bits[lag:], bits[:-lag]).tolist()]
        return cls(name, form, places, tuple(_apart(bits[1:], bits[:-1]).tolist()), tuple(far))


def _true_runs(places: Sequence[int], pictures: Sequence[Member], looks: NDArray[np.uint8]) -> Iterator[_Run]:
    """The runs that look like sequences: of files in a folder, or across folders, as where these are classes."""
    across, within = list[_Run](), list[_Run]()
    for (form, name), folders in _numbered(places, pictures).items():
        order = [
            folder for _, folder in sorted((number, folder) for folder, run in folders.items() for number, _ in run)
        ]
        turns, count = sum(a != b for a, b in pairwise(order)), len({n for run in folders.values() for n, _ in run})
        if len(folders) > 1 and count == len(order) and turns >= 2 * len(folders):
            across.append(_Run.of(name, form, (one for run in folders.values() for one in run), looks))
        within += [_Run.of(f"{folder}/{name}".lstrip("/"), form, run, looks) for folder, run in folders.items()]
    whole = list(_sequences(across))
    taken = {place for run in whole for place in run.places}
    yield from whole
    yield from _sequences([run for run in within if taken.isdisjoint(run.places)])


def _numbered(
    places: Sequence[int], pictures: Sequence[Member]
) -> dict[tuple[str, str], dict[str, list[tuple[int, int]]]]:
    """By the form of names, and names with * for the counter, the numbers and places of pictures by their folders."""
    alike = defaultdict[str, list[tuple[str, list[str], int]]](list)
    for place in places:
        folder, _, name = pictures[place].file.rpartition("/")
        parts = re.split(r"([0-9]{1,18})", name.rpartition(".")[0] or name)
        alike["#".join(parts[::2])].append((folder, parts, place))
    runs = defaultdict[tuple[str, str], dict[str, list[tuple[int, int]]]](lambda: defaultdict(list))
    for form, members in alike.items():
        # The last number that is not the same in all of them counts; what others differ in is another run.
        numbers = range(1, len(members[0][1]), 2)
        at = max((k for k in numbers if len({parts[k] for _, parts, _ in members}) > 1), default=0)
        for folder, parts, place in members if at else ():
            runs[form, "".join([*parts[:at], "*", *parts[at + 1 :]])][folder].append((int(parts[at]), place))
    return runs


def _sequences(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Those of the runs that are sequences: short ones by all of their form."""
    forms = defaultdict[str, list[_Run]](list)
    for run in runs:
        forms[run.form].append(run)
    for some in forms.values():
        together = _is_sequence([d for run in some for d in run.near], [d for run in some for d in run.far])
        for run in some:
            if len(run.places) > 1 and (_is_sequence(run.near, run.far) if len(run.near) >= _ENOUGH else together):
                yield run


def _is_sequence(neighbours: Sequence[float], further: Sequence[float]) -> bool:
    count = len(neighbours)
    if count >= _FEW and np.median(neighbours) <= _NEAR:
        return True
    if count < _ENOUGH or not further:
        return False
    nearer = float((np.array(neighbours) < np.median(further)).sum())
    return nearer >= _SHARE * count and 2 * nearer - count >= _SURE * count**0.5


def _apart(first: Bits, second: Bits) -> NDArray[np.float64]:
    """How far looks [N, 128] are apart, 0..1: [N]; 1 where they say nothing."""
    both, either = (first * second).sum(axis=1), np.maximum(first, second).sum(axis=1)
    return np.where(either < _TOLD, 1.0, 1 - both / np.maximum(either, 1))


def _copies(places: NDArray[np.int64], looks: NDArray[np.uint8]) -> Iterator[list[int]]:
    """For each of the places that has copies behind it, itself and those."""
    bits = np.unpackbits(looks[places], axis=1).astype(np.float32)
    count = bits.sum(axis=1)
    for start in range(0, len(bits), _ROWS):
        both = bits[start : start + _ROWS] @ bits[start:].T
        either = count[start : start + _ROWS, None] + count[None, start:] - both
        near = np.triu((either >= _TOLD) & (either - both <= _COPY * either), 1)
        for row in np.flatnonzero(near.any(axis=1)):
            yield [int(places[start + row]), *places[start + np.flatnonzero(near[row])].tolist()]
