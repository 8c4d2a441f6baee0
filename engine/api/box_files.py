"""Files of a detector's boxes: COCO's results, files of COCO's whose annotations have scores, and what a pipeline of
Hugging Face's gives for pictures; read to the boxes of each picture of a suite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import read_json
from ..judging.answer_census import weigh
from ..judging.box_census import SHARE, TIMES, BoxEvidence
from ..judging.detections import SeenBox
from ..judging.predictions import find_rows
from ..sources.boxes import BoxForm
from ..sources.labels import label_text
from ..suite import PictureRow
from .options import Warn

_SHOWN = 80  # letters of a wrong result in an error
_ROUNDED = 1e-3  # a score of 1.0000001 is 1


def json_boxes(path: Path, rows: Sequence[PictureRow], warn: Warn) -> tuple[dict[str, tuple[SeenBox, ...]], BoxForm]:
    """The boxes, by `file_name`, of COCO's results: a list of dicts of `image_id` (a picture's name, or the number of
    the table's row from 0), `category_id` (a number or a name), `bbox` (x, y, width, height) and `score`; of a file of
    COCO's whose annotations have scores; or of a pipeline of Hugging Face's for object detection: for each picture its
    list of dicts of `label`, `score` and `box`. And the form that the numbers were read by. Pictures without one have
    none.

    Raises CounterfactoryError for a file that is none of these.
    """
    form: BoxForm = "sizes"
    listed = read_json(path)
    if isinstance(listed, Mapping) and isinstance(listed.get("annotations"), list):
        listed = _annotated(listed)
    elif isinstance(listed, Mapping) and listed:
        some = {picture: some if isinstance(some, list) else [some] for picture, some in listed.items()}
        listed, form = [_as_result(picture, one) for picture, boxes in some.items() for one in boxes], "corners"
    if not isinstance(listed, list):
        raise CounterfactoryError(
            f"{path} is no list of COCO's results: dicts of image_id, category_id, bbox and score"
        )
    results = [_result(one, f"{path}, result {number}") for number, one in enumerate(listed)]
    of_image = _rows_of(str(path), rows, results, warn)
    strangers = [image for image, _ in results if image not in of_image]
    if results and len(strangers) == len(results):
        raise CounterfactoryError(
            f"{path} names no picture of the suite, the first is {strangers[0]!r}: image_id is a file_name of "
            "metadata.parquet, or the number of its row"
        )
    if strangers:
        warn(f"{path}: {len(strangers)} boxes are of no picture of the suite, such as {strangers[0]!r}: not counted")
    boxes = _by_picture(results, of_image, rows)
    variants = [row.file_name for row in rows if row.kind == "variant" and row.accepted]
    if variants and any(boxes.values()) and not any(boxes[name] for name in variants):
        raise CounterfactoryError(
            f"{path} has no box of any of the {len(variants)} variants, and has of other pictures: ask the model about "
            f"all of the suite's, such as {variants[0]}"
        )
    return boxes, form


def _result(one: Any, where: str) -> tuple[str, SeenBox]:
    """The image and the box of a result. Raises CounterfactoryError."""
    try:
        x, y, width, height = map(float, one["bbox"])
        sure, label = float(one["score"]), one["category_id"]
        image, name = one.get("file_name", one.get("image_id")), label_text(label)
        if isinstance(label, bool) or name is None:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CounterfactoryError(
            f"{where}: image_id, category_id, bbox (x, y, width, height) and score (0 to 1) are needed, found "
            f"{str(one)[:_SHOWN]}"
        ) from error
    if not math.isfinite(x + y + width + height) or min(width, height) < 0:
        raise CounterfactoryError(f"{where}: bbox is x, y, width, height in pixels, found {one['bbox']}")
    if not 0 <= sure <= 1 + _ROUNDED:
        percent = "; divide percent by 100" if 1 < sure <= 100 else ""
        raise CounterfactoryError(f"{where}: score (0 to 1) is needed, found {one['score']}{percent}")
    return label_text(image) or "", SeenBox(x, y, x + width, y + height, min(sure, 1.0), name)


def _rows_of(
    name: str, rows: Sequence[PictureRow], results: Sequence[tuple[str, SeenBox]], warn: Warn
) -> dict[str, int]:
    """The row of each image that is a picture of the suite. Numbers are those of rows from 0, unless by another count
    more of them are a picture's, or the boxes lie where they should.
    """
    images = dict.fromkeys(image for image, _ in results)
    numbers = {image: int(image) for image in images if image.isascii() and image.isdigit()}
    named = find_rows((image for image in images if image not in numbers), rows)
    if not numbers:
        return named
    stems = {int(stem): i for i, row in enumerate(rows) if (stem := _digits(row)) is not None}
    orders = {
        "the rows of metadata.parquet": range(len(rows)),
        "its originals": [i for i, row in enumerate(rows) if row.kind == "original"],
        "its accepted rows": [i for i, row in enumerate(rows) if row.accepted],
        "the pictures in the order of their names": sorted(range(len(rows)), key=lambda i: rows[i].file_name),
    }
    counts = {f"{of} from {first}": dict(enumerate(order, first)) for of, order in orders.items() for first in (0, 1)}
    by = {"the rows of metadata.parquet from 0": {}, "the names of pictures": stems, **counts}
    read = {
        text: named | {image: count[number] for image, number in numbers.items() if number in count}
        for text, count in by.items()
    }
    best = max(read, key=lambda text: len(read[text]))
    upon = {}
    for text, of_image in read.items():
        evidence = BoxEvidence(rows, _by_picture(results, of_image, rows))
        upon[text] = evidence.fit(evidence.numbers)[0]
    most = max(upon, key=lambda text: (upon[text], len(read[text])))
    if weigh(upon[best], upon[most], evidence.count, 0.0, len(read), TIMES, SHARE) == "certain":
        best = most
    if best != next(iter(read)):
        warn(f"{name}: numbers of images are read as {best}, by which {len(read[best])} of {len(images)} are pictures")
    return read[best]


def _digits(row: PictureRow) -> str | None:
    """The name of a picture's file, where it is a number; of an original that of its source."""
    stem = PurePosixPath(row.origin.path if row.kind == "original" else row.file_name).stem
    return stem if stem.isascii() and stem.isdigit() else None


def _by_picture(
    results: Sequence[tuple[str, SeenBox]], of_image: Mapping[str, int], rows: Sequence[PictureRow]
) -> dict[str, tuple[SeenBox, ...]]:
    boxes: dict[str, list[SeenBox]] = {row.file_name: [] for row in rows}
    for image, box in results:
        if image in of_image:
            boxes[rows[of_image[image]].file_name].append(box)
    return {picture: tuple(some) for picture, some in boxes.items()}


def _annotated(file: Mapping[str, Any]) -> list[Any]:
    """The annotations of a file of COCO's as results, by the names of its images and categories."""
    images, categories = (
        {one.get("id"): one.get(name) for one in file.get(key) or () if isinstance(one, Mapping)}
        for key, name in (("images", "file_name"), ("categories", "name"))
    )
    return [
        {
            **one,
            "file_name": images.get(one.get("image_id")),
            "category_id": categories.get(one.get("category_id"), one.get("category_id")),
        }
        for one in file["annotations"]
        if isinstance(one, Mapping)
    ]


def _as_result(picture: str, one: Any) -> Any:
    """A box of a pipeline's as COCO writes it; anything else as it is."""
    try:
        x0, y0, x1, y1 = (float(one["box"][side]) for side in ("xmin", "ymin", "xmax", "ymax"))
        sides = [x0, y0, x1 - x0, y1 - y0]
        return {"image_id": picture, "category_id": one["label"], "bbox": sides, "score": one["score"]}
    except (KeyError, TypeError, ValueError):
        return one
