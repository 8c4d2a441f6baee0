"""COCO: one JSON file with images, annotations and categories (cocodataset.org/#format-data), as Roboflow, CVAT and
Label Studio write it too: boxes, keypoints, and a mask drawn from polygons or run lengths. A crowd is ignored, unless
nearly everything is marked as one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError, list_some
from ..files.reading import read_json
from .blobs import printable, read_blob, unprintable
from .boxes import BoxCensus, BoxForm, crowd_note, crowds_are_things, is_marked
from .class_map import BACKGROUND, VOID, named_classes
from .labels import whole_number
from .listing import Entry, Listing, cells_of, finish, folders_in, is_file
from .pixels import UnreadableError, read_picture
from .shapes import Box, DrawnMask, Keypoint, Shape, decode_runs, outline, pack_runs

_NAMED = re.compile(r"(instances_.*|_annotations\.coco)\.json", re.DOTALL)
_IN_ANNOTATIONS = re.compile(r"(instances|person_keypoints|lvis)_.*\.json", re.DOTALL)
_OF_SPLIT = "_annotations.coco.json"
_LOOKED_AT = 20
# Pictures that are opened where two folders hold the names of an annotation file.
_OPENED = 5
_MOST, _DIGITS = 60_000, 10
_SIDES = 4


def is_coco(root: Path) -> bool:
    """Whether it is a JSON file, or a folder with one that is named as COCO's are."""
    return root.suffix.lower() == ".json" and root.is_file() if not root.is_dir() else bool(_candidates(root))


def _candidates(root: Path) -> list[Path]:
    files = [*_matching(root, _NAMED), *_matching(root / "annotations", _IN_ANNOTATIONS)]
    return sorted({*files, *(folder / _OF_SPLIT for folder in folders_in(root) if is_file(folder / _OF_SPLIT))})


def _matching(folder: Path, names: re.Pattern[str]) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as children:
        return [Path(entry) for entry in children if names.fullmatch(entry.name)]
    return []


def list_coco(root: Path, form: BoxForm | None = None) -> Listing:
    """The images of an annotation file, or of the only one in a folder, whose boxes are of another `form` than COCO's.
    Raises CounterfactoryError for several files or none, one that is not COCO's, and images that are nowhere.
    """
    files = _candidates(root) if root.is_dir() else [root]
    if len(files) != 1:
        several = f"{len(files)} files of annotations: name one of them as SOURCES, such as {files[0]}" if files else ""
        raise CounterfactoryError(f"{root} has {several or 'no file of annotations, annotations/instances_*.json'}")
    return _Annotations(files[0], form).listing()


class _Annotations:
    """The content of a file of annotations."""

    def __init__(self, path: Path, form: BoxForm | None) -> None:
        self._path, content = path, read_json(path, number=float)
        lists = [content.get(key) if isinstance(content, dict) else None for key in ("images", "categories")]
        if not all(isinstance(values, list) and all(isinstance(item, dict) for item in values) for values in lists):
            needs = "it needs the lists images, annotations, categories"
            raise CounterfactoryError(f"{path} is no file of COCO's: {needs}")
        self._images: list[Mapping[str, Any]] = _named(path, content["images"])
        if not isinstance(annotations := content.get("annotations"), list):
            says = "it says what the images are, not what is seen"
            raise CounterfactoryError(f"{path} has no list of annotations; {says}")
        if any(isinstance(one, dict) and "segments_info" in one for one in annotations):
            says = "holds panoptic segments (segments_info), which lie in PNG files, and no boxes of things"
            raise CounterfactoryError(f"{path} {says}: name the instances_*.json of the same pictures")
        self._of_image: dict[str | None, list[Any]] = {}
        for annotation in annotations:
            image = annotation.get("image_id") if isinstance(annotation, dict) else None
            self._of_image.setdefault(_id(image), []).append(annotation)
        self._names = self._categories(content["categories"])
        self._boxes = BoxCensus.of(path, "sizes", form)
        crowds = [is_marked(one.get("iscrowd")) for one in annotations if isinstance(one, dict) and one.get("bbox")]
        self._boxed, self._boxless, self._crowds = len(crowds), len(annotations) - len(crowds), sum(crowds)
        named = {_number(number, self._names): name for number, name in self._names.items()}
        self._class_map = named_classes(str(path), named)
        self._background = next(n for n, name in self._class_map.names.items() if name == BACKGROUND)

    def _categories(self, categories: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        names: dict[int, str] = {}
        for category in categories:
            number, name = _whole(category.get("id")), category.get("name")
            if number is None or number >= _MOST or not isinstance(name, str) or unprintable(name):
                raise CounterfactoryError(f"{self._path}: a category needs a number and a name, found {category!r:.80}")
            if names.setdefault(number, name.strip()) != name.strip():
                raise CounterfactoryError(f"{self._path}: category {number} is both {names[number]!r} and {name!r}")
        if not names:
            raise CounterfactoryError(f"{self._path} has no categories")
        return names

    def listing(self) -> Listing:
        """The images as entries."""
        class_names = tuple(name for name in self._class_map.names.values() if name != BACKGROUND)
        listing = Listing("coco", class_map=self._class_map, class_names=class_names, boxes=self._boxes)
        folder = self._folder(listing)
        names, numbers = set[str](), set[str | None]()
        for image in self._images:
            name, number = image.get("file_name"), _id(image.get("id"))
            leaves = Path(str(name)).is_absolute() or ".." in Path(str(name)).parts
            if not isinstance(name, str) or number is None or leaves or unprintable(name):
                reason = f"an image needs an id and a file_name below its folder, found {image!r:.80}"
                listing.skip(self._path.name, reason)
                continue
            try:
                if name in names or number in numbers:
                    raise ValueError(f"is listed twice, or shares its id {number} with another image; keep one")
                listing.entries.append(self._entry(folder, name, number, image))
            except ValueError as error:
                listing.skip(name, str(error))
            names.add(name)
            numbers.add(number)
        self._note_strangers(listing, numbers)
        if self._boxless:
            listing.notes.append(f"{self._path.name}: {self._boxless} annotations have no bbox, and give no box")
        if any("neg_category_ids" in image for image in self._images):
            says = "are labelled for some classes each (neg_category_ids): LVIS's own AP leaves boxes of others out"
            listing.notes.append(f"{self._path.name}: pictures {says}, which count as false alarms here")
        listing.notes += crowd_note(self._path.name, self._crowds, self._boxed)
        return finish(listing)

    def _note_strangers(self, listing: Listing, numbers: Collection[str | None]) -> None:
        """Raises CounterfactoryError where no annotation is of an image that is listed."""
        groups = [group for image, group in self._of_image.items() if image not in numbers]
        strangers, count = sum(map(len, groups)), sum(map(len, self._of_image.values()))
        if strangers and strangers == count:
            image = groups[0][0].get("image_id") if isinstance(groups[0][0], dict) else None
            ids = f"the first has the image_id {image!r:.40}, the first image the id {self._images[0].get('id')!r:.40}"
            raise CounterfactoryError(f"{self._path}: none of {count} annotations is of an image that it lists; {ids}")
        if strangers:
            listing.notes.append(f"{self._path.name}: {strangers} annotations are of images that it does not list")

    def _folder(self, listing: Listing) -> Path:
        """Where the images lie: COCO's own places, beside the annotations or above them. Of several that hold the
        names it is the one whose pictures have the sizes, then that of the split, and the listing says so.
        """
        here, split = self._path.parent, self._path.stem.rpartition("_")[2]
        places = [here, here / split, here.parent / split, here / "images" / split, here.parent / "images" / split]
        places += [here / "images", here.parent, here.parent / "images"]
        named = [image for image in self._images[:_LOOKED_AT] if isinstance(image.get("file_name"), str)]
        held = {place: [image for image in named if is_file(place / image["file_name"])] for place in places}
        held = {place: images for place, images in held.items() if images}
        if not held:
            if not named:
                return here
            name, looked = printable(named[0]["file_name"]), ", ".join(map(str, dict.fromkeys(places)))
            raise CounterfactoryError(f"{self._path} names {name}, which is in none of {looked}")
        if len(held) == 1:
            return next(iter(held))
        folder = max(held, key=lambda place: (_of_size(place, held[place][:_OPENED]), len(held[place])))
        others = ", ".join(str(place) for place in held if place != folder)
        taken = f"its images are taken from {folder}; {others} has files of these names too"
        listing.notes.append(f"{self._path.name}: {taken}")
        return folder

    def _entry(self, folder: Path, name: str, number: str | None, image: Mapping[str, Any]) -> Entry:
        """Raises ValueError for an annotation that cannot be used."""
        height, width = image.get("height"), image.get("width")
        size = (height, width) if type(height) is int and type(width) is int else None
        boxes, shapes = [], []
        for annotation in self._of_image.get(number, ()):
            try:
                box, shape = self._thing(annotation, size)
            except (ValueError, TypeError) as error:
                which = annotation.get("id", "?") if isinstance(annotation, dict) else "?"
                raise ValueError(f"annotation {which}: {error}") from error
            boxes += [] if box is None else [box]
            shapes += [] if shape is None else [shape]
        if size is not None and isinstance(unsure := image.get("not_exhaustive_category_ids"), list):  # LVIS's
            labels = (name for number, name in self._names.items() if number in unsure)
            boxes += [Box(0.0, 0.0, float(size[1]), float(size[0]), label, ignored="crowd") for label in labels]
        # Boxes alone make no mask: it would be all background.
        mask = DrawnMask(tuple(shapes), self._background) if shapes else None
        cells = cells_of(image)
        return Entry(name, printable(name), f"{folder}/{name}", None, mask, tuple(boxes), size, cells=cells)

    def _thing(self, annotation: Mapping[str, Any], size: tuple[int, int] | None) -> tuple[Box | None, Shape | None]:
        number = _whole(annotation.get("category_id"))
        if number is None or number not in self._names:
            says = f"category_id {annotation['category_id']!r:.40}" if "category_id" in annotation else "no category_id"
            raise ValueError(f"{says}; {self._path.name} has the categories {list_some([*map(str, self._names)], 5)}")
        shape = _shape(_number(number, self._names), annotation.get("segmentation"), size)
        if not annotation.get("bbox"):
            return None, shape
        box = self._box(annotation, self._names[number])
        if is_marked(annotation.get("iscrowd")) and not crowds_are_things(self._crowds, self._boxed):
            box = replace(box, ignored="crowd")
        points = _numbers(annotation.get("keypoints") or [], "keypoints")
        if len(points) % 3:
            raise ValueError("keypoints are not x, y, visibility")
        triples = zip(points[::3], points[1::3], points[2::3], strict=True)
        keypoints = tuple(Keypoint(px, py, int(visibility)) for px, py, visibility in triples)
        return replace(box, keypoints=keypoints), shape

    def _box(self, annotation: Mapping[str, Any], label: str) -> Box:
        """The upright box, around one that is turned: CVAT writes a `rotation`."""
        if len(numbers := _numbers(annotation["bbox"], "bbox")) != _SIDES:
            raise ValueError(f"bbox should have 4 numbers, found {len(numbers)}: of a turned box write one around it")
        box, attributes = self._boxes.read(numbers, label, annotation.get("area")), annotation.get("attributes")
        other = attributes.get("rotation") if isinstance(attributes, dict) else None
        (degrees,) = _numbers([annotation.get("rotation", other) or 0], "rotation")
        if degrees and isinstance(lines := annotation.get("segmentation"), list) and lines:
            # Of some writers `bbox` is the box before it was turned, of others the one around the outline.
            return self._boxes.around([number for line in lines for number in _numbers(line, "polygon")], label)
        return self._boxes.turn(box, degrees)


def _named(path: Path, images: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The images, those of LVIS by the ends of their `coco_url`: with the folder, where they lie in one."""
    ends = [str(image.get("coco_url", "")).rpartition("//")[2].split("/")[-2:] for image in images]
    if any("file_name" in image for image in images) or not all(len(end) == 2 for end in ends):
        return images
    bases = [base / inner for base in (path.parent, path.parent.parent) for inner in ("", "images")]
    first = 0 if any(is_file(base.joinpath(*end)) for base in bases for end in ends[:_LOOKED_AT]) else 1
    return [{**image, "file_name": "/".join(end[first:])} for image, end in zip(images, ends, strict=True)]


def _of_size(folder: Path, images: Sequence[Mapping[str, Any]]) -> int:
    """How many pictures of a folder have the size that the annotations say."""
    count = 0
    for image in images:
        with suppress(UnreadableError):
            picture = read_picture(read_blob(f"{folder}/{image['file_name']}"))
            count += picture.shape[:2] == (image.get("height"), image.get("width"))
    return count


def _number(category: int, names: Mapping[int, str]) -> int:
    """A category's number in masks: its own, or one more where the set uses what marks pixels that do not count."""
    return category + 1 if VOID in names and category >= VOID else category


def _shape(number: int, segmentation: object, size: tuple[int, int] | None) -> Shape | None:
    if not segmentation:
        return None
    if isinstance(segmentation, dict):
        runs = segmentation.get("counts")
        if size is not None and segmentation.get("size") != list(size):
            raise ValueError(f"run lengths are for {segmentation.get('size')}, the image is {list(size)}")
        if isinstance(runs, str):
            return Shape(number, runs=decode_runs(runs))
        if isinstance(runs, list) and all(type(run) is int for run in runs):
            return Shape(number, runs=pack_runs(runs))
        raise ValueError("segmentation has neither text nor a list of run lengths")
    if not isinstance(segmentation, list):
        raise ValueError("segmentation is neither polygons nor run lengths")
    outlines = [_numbers(points, "polygon") for points in segmentation]
    if any(len(points) % 2 or len(points) < 6 for points in outlines):
        raise ValueError("a polygon needs three points or more, x and y each")
    return Shape(number, tuple(outline(points) for points in outlines))


def _id(value: object) -> str | None:
    """An id as text: pandas makes 1.0 of 1, and converters "1"; None for what is none."""
    return whole_number(str(value).strip()) if type(value) in (int, float, str) else None


def _whole(value: object) -> int | None:
    """The whole number from 0 on that an id is, also as a float or a text; None for any other."""
    text = _id(value) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None


def _numbers(values: object, what: str) -> list[float]:
    if not isinstance(values, list) or not all(type(v) in (int, float) and math.isfinite(v) for v in values):
        raise ValueError(f"{what} should be a list of numbers, found {values!r:.60}")
    return [float(value) for value in values]
