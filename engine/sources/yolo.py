"""YOLO: images/ beside labels/, a text file for each image, and the classes' names in a YAML file (Ultralytics) or in
classes.txt (Label Studio). Darknet, CVAT and labelImg write the text files beside the images.

A line is a class and a box, a class and a polygon, or a class, a box and keypoints, all in shares of the picture. An
image without a text file shows nothing of the classes.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ..errors import CounterfactoryError, list_some
from ..files.disk_list import DiskList
from ..files.reading import number_lines, read_text
from .boxes import BoxCensus, BoxForm
from .class_map import BACKGROUND, VOID, named_classes
from .companions import Companions, heads
from .listing import Entry, Listing, contents, entry_of, finish, folders_in, image_files, is_file, is_folder
from .shapes import Box, DrawnMask, Keypoint, Shape, outline

_SUFFIXES = (".yaml", ".yml")
_LISTS = ("classes.txt", "obj.names", "_darknet.labels")
_SPLITS = ("train", "val", "valid", "test")
# A class and a box, or more.
_LINE = re.compile(rb"\s*\d+(?:[ \t]+-?[0-9.]+(?:e-?\d+)?){4,}[ \t]*\r?(?:\n|\Z)")
# Labels may lie a fraction of a pixel beyond the edge, where their writer rounded.
_SLACK = 1e-3
_ABOUT_CLASSES = re.compile(r"\b(names|nc)\b[\"']?\s*:")
# Names by number, and how many keypoints of how many numbers a line has.
_Names = tuple[dict[int, str], tuple[int, int]]
# Outlines may go on beyond the edge; a keypoint's visibility of 2 lies farther.
_BEYOND = 0.5
# So many points that lie in boxes by chance are none that outlines have.
_POINTS, _POSED, _FAR = 6, 0.9, 0.3
_REACH = 0.6
_POSE = "; keypoints are read where the YAML file says kpt_shape"


def is_yolo(root: Path) -> bool:
    """Whether it is a YAML file, or a folder with one and with labels/ beside images/."""
    if root.is_file():
        return root.suffix.lower() in _SUFFIXES
    labels = _labels_of(root.absolute())
    folders = [folder for folder in (root, *folders_in(root)) if is_folder(folder / "images")]
    places = [*(folder / "labels" for folder in folders), labels or root / "labels"]
    own = _own_folders(root)
    if not any(map(is_folder, places)):
        return bool(_lists(own) or _yaml_files(own)) and any(map(_LINE.match, heads(root, ".txt")))
    if any("names" in read_text(path) for path in _yaml_files(own)):
        return True
    # Other sets have such lists too, beside labels/ of masks, and other projects such files above.
    texts = (path for place in places for path in place.rglob("*.txt"))
    return bool(_yaml_files([*own, *_above(root)]) or _lists(own)) and any(path.name not in _LISTS for path in texts)


@dataclass
class _LabelLines:
    """Reads the lines of a set and counts what they are: `posed` are those that are read as outlines and could be boxes
    with keypoints, of `posed_points` points in all, and `far` those that would be odd outlines; `marked` says that one
    has visibilities. `lengths` are the counts of numbers of outlines.
    """

    census: BoxCensus
    names: Mapping[int, str]
    keypoints: tuple[int, int]
    background: int
    boxes: int = 0
    posed: int = 0
    posed_points: int = 0
    far: int = 0
    marked: bool = False
    lengths: Counter[int] = field(default_factory=Counter)

    def read(self, entry: Entry, labels: Path) -> Entry:
        """The entry with what its text file `labels` says. Raises ValueError for a line that cannot be used."""
        if not is_file(labels):
            return entry
        boxes, shapes = [], []
        for number, line in number_lines(read_text(labels)):
            if not (text := line.strip()):
                continue
            where = f"{labels.name}:{number}"
            try:
                values = [float(word) for word in text.split()]
            except ValueError:
                values = [math.nan]
            if not all(map(math.isfinite, values)):
                dota = "; in DOTA's lines corners in pixels come first" if len(text.split()) > 8 else ""
                raise ValueError(f"{where}: {text[:60]!r} is not a class and numbers{dota}")
            if values[0] not in self.names:
                raise ValueError(f"{where}: class {values[0]:g} is not one of the {len(self.names)} names")
            if not all(-_SLACK <= value <= 1 + _SLACK for value in values[1:5]):
                raise ValueError(f"{where}: coordinates are shares of the picture, from 0 to 1, found {text[:60]!r}")
            kind, rest = int(values[0]), values[1:]
            if len(rest) == 4 or (self.keypoints[0] and len(rest) == 4 + self.keypoints[0] * self.keypoints[1]):
                # x, y and, where they have three numbers, visibility.
                points = [rest[i : i + self.keypoints[1]] for i in range(4, len(rest), self.keypoints[1] or 1)]
                labelled = tuple(Keypoint(p[0], p[1], int(p[2]) if len(p) > 2 else 2) for p in points)
                self.boxes += 1
                boxes.append(replace(self.census.read(rest[:4], self.names[kind]), keypoints=labelled))
            elif len(rest) >= 6 and len(rest) % 2 == 0:
                self.lengths[len(rest)] += 1
                pose, far = _pose(rest)
                self.posed += pose > 0
                self.posed_points += pose
                self.far += far
                self.marked |= pose > 1 and len(rest) == 4 + 3 * pose and (pose > 2 or 2 in rest[6::3])
                if not all(-_BEYOND <= value <= 1 + _BEYOND for value in rest):
                    self.posed_points += _POINTS * (pose > 0)  # a visibility of 2 is no share
                    raise ValueError(f"{where}: an outline's points are shares of the picture, from 0 to 1{_POSE}")
                xs, ys = rest[::2], rest[1::2]
                boxes.append(Box(min(xs), min(ys), max(xs), max(ys), self.names[kind]))
                shapes.append(Shape(kind, (outline(rest),)))
            else:
                fifth = ", a fifth is a score or a turn" if len(rest) == 5 else ""
                raise ValueError(
                    f"{where}: {len(rest)} numbers after the class are no box and no polygon{fifth}{_POSE}"
                )
        alone = shapes and len(shapes) == len(boxes)
        mask = DrawnMask(tuple(shapes), self.background, relative=True) if alone else None
        return replace(entry, mask=mask, boxes=tuple(boxes), relative=True)

    def refuse_poses(self, file: Path) -> None:
        """Raises CounterfactoryError where all outlines are as long as each other and look like keypoints."""
        posed = self.posed >= _POSED * self.lengths.total() and self.far >= _FAR * self.lengths.total()
        if len(self.lengths) == 1 and (self.marked or (posed and self.posed_points >= _POINTS)):
            (length,) = self.lengths
            shapes = " or ".join(f"[{(length - 4) // n}, {n}]" for n in (2, 3) if (length - 4) % n == 0)
            raise CounterfactoryError(
                f"{file}: lines with {length} numbers after the class look like a box and keypoints rather than an "
                f"outline: add kpt_shape: {shapes} to the file"
            )

    def notes(self) -> Iterator[str]:
        """Sentences on outlines among boxes, and on those of four points."""
        outlines = self.lengths.total()
        if outlines and self.boxes:
            yield (
                f"{outlines} of {outlines + self.boxes} lines are outlines among boxes: the box around each is taken, "
                "and a picture with both has no mask"
            )
        elif set(self.lengths) == {8}:
            yield f"all {outlines} lines have four points, as turned boxes have: upright boxes around them are taken"


def list_yolo(root: Path, split: str | None = None, form: BoxForm | None = None) -> Listing:
    """The images of a folder, or of a YAML file's own, that lie in images/ beside labels/ or have a text file, of a
    `split` those that it lists; `form` is that of boxes that are not YOLO's. Raises CounterfactoryError without names
    of classes or such a split, and for keypoints that the file says nothing of.
    """
    folder = root.parent if root.is_file() else root
    file, (names, keypoints) = (root, _read_names(root)) if root.is_file() else _find_names(root)
    files, problems = image_files(folder)
    splits = _splits(folder, file)
    if split is not None:
        files = _of_split(folder, splits, split, files)
    class_map = named_classes(str(file), names)
    background = next(number for number, name in class_map.names.items() if name == BACKGROUND)
    lines = _LabelLines(BoxCensus.of(folder, "centres", form, relative=True), names, keypoints, background)
    listing, others = Listing("yolo", problems, class_map, tuple(names.values()), boxes=lines.census), 0
    strays = DiskList(name for name in files if _text_file(folder, name) is None)
    of_stray = Companions(strays).files(folder, ".txt") if strays else {}
    for relative in files:
        path = folder / of_stray[relative] if relative in of_stray else _text_file(folder, relative)
        if path is None:
            others += 1
            continue
        try:
            listing.entries.append(lines.read(entry_of(folder, relative), path))
        except (ValueError, CounterfactoryError) as error:
            listing.skip(relative, str(error))
    lines.refuse_poses(file)
    listing.notes += lines.notes()
    if others:
        listing.notes.append(f"{others} images have no text file, in labels/ or beside them, and are left out")
    if split is None and len(lists := [name for name in splits if any(map(_is_list, splits[name]))]) > 1:
        listing.notes.append(f"the pictures of all splits are taken: --split {' or '.join(lists)} takes those of one")
    return finish(listing)


def _text_file(folder: Path, relative: str) -> Path | None:
    """Where the labels of a picture in images/ lie or would lie, None where there is no labels/ beside that."""
    image = folder.absolute() / relative
    labels = _labels_of(image.parent)
    if labels is None or not is_folder(labels):
        return None
    return labels / image.relative_to(labels.with_name("images")).with_suffix(".txt")


def _is_list(end: str) -> bool:
    return end.lower().endswith(".txt")


def _splits(folder: Path, file: Path) -> dict[str, list[str]]:
    """Where the pictures of each split are, by the YAML file or by lists such as train.txt: folders and lists."""
    content = _load(file) if file.suffix.lower() in _SUFFIXES else {}
    listed = {name: content.get(name) or [f"{name}.txt"] * is_file(folder / f"{name}.txt") for name in _SPLITS}
    return {name: list(map(str, of if isinstance(of, list) else [of])) for name, of in listed.items() if of}


def _of_split(folder: Path, splits: Mapping[str, Sequence[str]], split: str, files: Sequence[str]) -> DiskList[str]:
    """The pictures that a split lists, or that lie in its folder, wherever its writer had them."""
    if split not in splits:
        there = f"there are {', '.join(splits)}" if splits else "neither a YAML file nor a list such as val.txt has any"
        raise CounterfactoryError(f"{folder} has no split {split}; {there}")
    known, listed, inside = set(files), set[str](), list[str]()
    for end in splits[split]:
        lists = [path for path in (folder / end, folder / Path(end).name) if _is_list(end) and is_file(path)]
        inside += [] if lists else [f"/{end.replace('../', '').removeprefix('./').strip('/')}/"]
        for line in _list_of(lists[0]) if lists else ():
            parts = line.replace("\\", "/").split("/")
            listed.update(known & {"/".join(parts[at:]) for at in range(len(parts))})
    return DiskList(name for name in files if name in listed or any(part in f"/{name}" for part in inside))


def _labels_of(path: Path) -> Path | None:
    """labels/ beside the last images/ that a path is or lies in."""
    at = max((at for at, part in enumerate(path.parts) if part == "images"), default=None)
    return None if at is None else Path(*path.parts[:at], "labels")


def _own_folders(root: Path) -> list[Path]:
    """The folder of the set, from below images/ up to the one that holds it."""
    labels = _labels_of(root.absolute())
    above = [] if labels is None else [path for path in root.absolute().parents if path.is_relative_to(labels.parent)]
    return [root, *above]


def _yaml_files(folders: Iterable[Path]) -> list[Path]:
    """The YAML files in the folders that say something of classes."""
    files = [path for folder in folders for path in contents(folder) if path.suffix.lower() in _SUFFIXES]
    return [path for path in files if is_file(path) and _is_about_classes(path)]


def _is_about_classes(path: Path) -> bool:
    try:
        return _ABOUT_CLASSES.search(read_text(path)) is not None
    except CounterfactoryError as error:
        if isinstance(error.__cause__, OSError):  # another's, in a folder above
            return False
        raise


def _lists(folders: Iterable[Path]) -> list[Path]:
    """The lists of names, a line each, that Label Studio and labelImg write into a set or among its labels."""
    places = [
        place
        for folder in folders
        for inner in ("", "labels", "labels/*/", "*/")
        for place in sorted(folder.glob(inner) if inner else [folder])
    ]
    return [place / name for place in dict.fromkeys(places) for name in _LISTS if is_file(place / name)]


def _above(root: Path) -> list[Path]:
    """The three folders above the set."""
    return list(_own_folders(root)[-1].absolute().parents)[:3]


def _find_names(root: Path) -> tuple[Path, _Names]:
    """The file that names a folder's classes, in it or above it. Raises CounterfactoryError for none or several."""
    own = _own_folders(root)
    named = [(path, _read_names(path)) for path in _yaml_files(own) if "names" in _load(path)]
    named += [(path, (dict(enumerate(_list_of(path))), (0, 0))) for path in _lists(own)]
    above = [] if named else _yaml_files(_above(root))
    named += [(path, _read_names(path)) for path in above if _leads(path, own[-1])]
    if not named:
        elsewhere = f"; {above[0]} is another set's, since its path, train and val do not lead here" if above else ""
        needed = f"no YAML file with the classes' names, such as data.yaml, or classes.txt: add one{elsewhere}"
        raise CounterfactoryError(f"{root} has {needed}")
    if others := [path for path, (names, _) in named if names != named[0][1][0]]:
        shown = ", ".join(f"{path} ({list_some(list(names.values()), 3)})" for path, (names, _) in named)
        advice = "remove the wrong ones, or name the YAML as SOURCES"
        raise CounterfactoryError(f"{len(others) + 1} files name other classes: {shown}; {advice}")
    return named[0]


def _leads(file: Path, here: Path) -> bool:
    """Whether a YAML file has names, and its pictures are in the folder `here`: from its own folder or from its `path`,
    also where the set has moved; Roboflow's "../train/images" is beside the file.
    """
    try:
        content = _load(file)
    except CounterfactoryError:  # another project's, such as a template
        return False
    path, listed = content.get("path"), [content.get(split) for split in ("train", "val", "test")]
    ends = [end for value in listed for end in (value if isinstance(value, list) else [value]) if isinstance(end, str)]
    bases = [file.parent]
    if isinstance(path, str) and path.strip():
        bases += [file.parent / path, here if Path(path).name == here.absolute().name else file.parent]
        ends = ends or [""]
    ends += [end.removeprefix("../") for end in ends]
    led = [(base / end).resolve() for base in bases for end in ends]
    return "names" in content and any(end.is_relative_to(here.resolve()) for end in led)


class _Loader(yaml.BaseLoader):
    """YAML of texts, lists and tables alone, without aliases: nine in a row stand for more than memory holds."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read, write out what they stand for")
        return super().compose_node(parent, index)


def _load(path: Path) -> Mapping[str, Any]:
    """What a YAML file holds, its numbers as texts: a class may be called "no" or 3. Raises CounterfactoryError."""
    try:
        content = yaml.load(read_text(path), _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CounterfactoryError(f"{path} is not valid YAML: {str(error).splitlines()[0]}") from error
    return content if isinstance(content, dict) else {}


def _list_of(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def _read_names(path: Path) -> _Names:
    """The classes' names by number, and how many keypoints of how many numbers a line has, 0 where it has none."""
    content = _load(path)
    names = content.get("names")
    if isinstance(names, list):
        names = {str(number): name for number, name in enumerate(names)}
    listed = list(names.items()) if isinstance(names, dict) else []
    named = {_whole(number, VOID): name for number, name in listed}
    if not named or None in named or len(named) < len(listed) or not all(isinstance(n, str) for n in named.values()):
        raise CounterfactoryError(f"{path}: names should be a list of names, or numbers below {VOID} and names")
    shape = content.get("kpt_shape", ["0", "0"])
    points = [_whole(number, 1001) for number in shape] if isinstance(shape, list) else []
    if len(points) != 2 or points[0] is None or points[1] is None:
        raise CounterfactoryError(f"{path}: kpt_shape should be two whole numbers, found {reprlib.repr(shape)}")
    return {number: name.strip() for number, name in named.items() if number is not None}, (points[0], points[1])


def yaml_names(path: Path) -> dict[int, str]:
    """The classes' names by number in a YAML file. Raises CounterfactoryError for one that has none."""
    return _read_names(path)[0]


def _whole(text: object, below: int) -> int | None:
    """The whole number from 0 on, `below` another, that a text is; None for any other."""
    number = int(text) if isinstance(text, str) and re.fullmatch("[0-9]{1,9}", text) else below
    return number if number < below else None


def _pose(numbers: Sequence[float]) -> tuple[int, bool]:
    """How many points numbers have that could be those of a box, x, y, width, height, before them: about within it, or
    0, 0 for none; 0 where one lies elsewhere. And whether an outline would have its second point far from the others.
    """
    x, y, width, height = numbers[:4]
    rest = numbers[4:]
    step = 3 if not len(rest) % 3 and all(value in (0, 1, 2) for value in rest[2::3]) else 2
    points = list(zip(rest[::step], rest[1::step], strict=True))
    inside = [abs(px - x) <= _REACH * width and abs(py - y) <= _REACH * height for px, py in points]
    held = [at or point == (0, 0) for at, point in zip(inside, points, strict=True)]
    (x0, x1), (y0, y1) = ((min(values), max(values)) for values in zip((x, y), *points, strict=True))
    far = abs(2 * width - x0 - x1) > 2 * (x1 - x0) or abs(2 * height - y0 - y1) > 2 * (y1 - y0)
    return len(points) if all(held) and any(inside) else 0, far
