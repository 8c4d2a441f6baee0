"""Files of labels that lie beside pictures: which picture each is about, by its name and by how near it lies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from ..files.disk_list import DiskList
from ..files.reading import open_file
from .aside import leave_aside
from .blobs import printable
from .class_folders import SPLIT
from .listing import SUFFIXES, Listing, file_stem, image_files

_KINDS = (".xml", ".json", ".txt", ".csv")
# Files of a kind that are opened in a folder to tell what they are, how much of each, and folders that are entered.
_OPENED, _HEAD, _ENTERED = 10, 1 << 18, 20
# Names of folders that may differ between a picture's path and its file's.
_APART = 3


class Companions:
    """The pictures of a set by what files beside them are called; all paths have "/"."""

    def __init__(self, pictures: Iterable[str]) -> None:
        self._by_stem: dict[str, list[str]] = {}
        for picture in pictures:
            self._by_stem.setdefault(_stem(picture), []).append(picture)

    def picture_of(self, file: str, named: str = "") -> str:
        """The picture that a file is about: the nearest of its name, or of what is `named` in it. Raises ValueError
        where there is none, or several are as near.
        """
        pictures = self._by_stem.get(_stem(named or file), [])
        if named:
            places = [(-_shared_end(named, picture), picture) for picture in pictures]
        else:
            places = [(far, picture) for picture in pictures if (far := _distance(file, picture)) <= _APART]
        nearest = [picture for far, picture in sorted(places) if far == min(places)[0]]
        if not nearest:
            raise ValueError(f"there is no picture {printable(_stem(named or file))} that it could be about")
        if len(nearest) > 1:
            raise ValueError(f"several pictures are called so, {' and '.join(map(printable, nearest[:2]))}")
        return nearest[0]

    def files(self, root: Path, suffix: str) -> dict[str, str]:
        """The nearest file below `root` with the suffix about each picture that has one."""
        nearest: dict[str, str] = {}
        for file in image_files(root, suffixes=(suffix,))[0]:
            with suppress(ValueError):
                picture = self.picture_of(file)
                if _distance(file, picture) < _distance(nearest.get(picture, "/////"), picture):
                    nearest[picture] = file
        return nearest


def companion_files(root: Path, pictures: DiskList[str], suffix: str, listing: Listing) -> dict[str, str]:
    """The files below `root` about its pictures, by these; masks, thumbnails and pictures without one are noted."""
    left, listing.notes = leave_aside(root, pictures)
    files = Companions(left).files(root, suffix)
    listing.note_first([picture for picture in left if picture not in files], f"pictures have no {suffix} file")
    return files


def _stem(path: str) -> str:
    """A file's name without its suffix, and without the picture's where that is kept: "a" of "a.jpg.json"."""
    stem = file_stem(path.replace("\\", "/").rpartition("/")[2])
    return file_stem(stem) if stem.lower().endswith(tuple(SUFFIXES)) else stem


def _shared_end(one: str, other: str) -> int:
    """How many folders two paths end in alike."""
    pairs = zip(one.replace("\\", "/").split("/")[-2::-1], other.split("/")[-2::-1], strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _distance(file: str, picture: str) -> int:
    """How many folders of two paths differ: label_2 and image_2 are two, folders of other splits or numbers no pair."""
    one, other = file.split("/")[:-1], picture.split("/")[:-1]
    for at in (0, -1):
        while one and other and one[at] == other[at]:
            del one[at], other[at]
    numbers = [re.findall(r"\d+$", part) for part in (*one[-1:], *other[-1:])]
    strange = len(numbers) == 2 and [] not in numbers and numbers[0] != numbers[1]
    strange |= all(any(map(SPLIT.fullmatch, parts)) for parts in (one, other))
    return _APART + 1 if strange else len(one) + len(other)


def heads(root: Path, suffix: str) -> Iterator[bytes]:
    """The beginnings of some files with a suffix below a folder, or of a file."""
    walk = os.walk(root) if root.is_dir() else [(str(root.parent), list[str](), [root.name])]
    for folder, inner, names in walk:
        inner[:] = sorted(name for name in inner if name[0] not in ".@_#")[:_ENTERED]
        for name in sorted(name for name in names if name.lower().endswith(suffix))[:_OPENED]:
            with suppress(OSError), open_file(Path(folder, name)) as file:
                yield file.read(_HEAD)


def companion_notes(root: Path) -> list[str]:
    """Sentences on files below a folder that may hold labels, and are not read."""
    companions, notes = Companions(image_files(root)[0]), list[str]()
    for suffix in _KINDS:
        if files := sorted(companions.files(root, suffix).values()):
            notes.append(f"{len(files)} {suffix} files have pictures' names, the first is {printable(files[0])}")
        elif others := image_files(root, suffixes=(suffix,))[0]:
            notes.append(f"{len(others)} {suffix} files lie there, the first is {printable(others[0])}")
    formats = "VOC, YOLO with the classes' names, COCO, labelme, CVAT, KITTI and BDD100K (docs/data.md)"
    return [*notes, f"files beside pictures are read in the formats {formats}"]
