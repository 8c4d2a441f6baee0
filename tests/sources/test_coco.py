"""COCO as it lies on the disk: boxes, masks, keypoints, and annotations that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sets import read, reasons, refuse, save, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.shapes import Box, Keypoint
from counterfactory.engine.sources.source import load_mask


def coco(root: Path, **changes: Any) -> Path:
    """Three images of a small COCO, as its val2017 lies on the disk."""
    for i in (1, 2, 3):
        save(root / "val2017" / f"{i:012d}.jpg", i)
    images = [{"id": i, "file_name": f"{i:012d}.jpg", "height": 24, "width": 32} for i in (1, 2, 3)]
    square = [4, 4, 12, 4, 12, 10, 4, 10]
    annotations = [
        {"id": 1, "image_id": 1, "category_id": 18, "bbox": [4, 4, 8, 6], "segmentation": [square], "iscrowd": 0},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": [0, 0, 20, 20], "iscrowd": 0,
         "segmentation": [[0, 0, 20, 0, 20, 20, 0, 20]], "keypoints": [5, 6, 2, 0, 0, 0], "num_keypoints": 1},
        {"id": 3, "image_id": 2, "category_id": 1, "bbox": [0, 0, 4, 24], "iscrowd": 1,
         "segmentation": {"size": [24, 32], "counts": [0, 96, 672]}},
    ]  # fmt: skip
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    content = {"images": images, "annotations": annotations, "categories": categories, **changes}
    return write(root / "annotations" / "instances_val2017.json", json.dumps(content))


def test_coco_s_boxes_masks_and_keypoints(tmp_path: Path) -> None:
    coco(tmp_path)
    found = read(tmp_path)
    first, second, third = found.sources
    assert (found.layout, found.problems) == ("coco", [])
    assert found.notes == [
        "instances_val2017.json: 1 of 3 boxes are marked as crowds (iscrowd 1) and are left out; where they are single "
        "things, as CVAT's brush draws them, set iscrowd to 0"
    ]
    assert found.class_names == {0: "background", 1: "person", 18: "dog"}
    assert found.classes == ["dog", "person"]
    assert first.boxes == (
        Box(4, 4, 12, 10, "dog"),
        Box(0, 0, 20, 20, "person", (Keypoint(5, 6, 2), Keypoint(0, 0, 0))),
    )
    assert (first.classes, second.classes, third.classes) == (("dog", "person"), ("person",), ())
    wanted = np.zeros((24, 32), np.uint8)
    wanted[:20, :20] = 1
    wanted[4:10, 4:12] = 18
    assert (load_mask(first, (24, 32)) == wanted).all()
    assert (load_mask(second, (24, 32)) == (np.arange(32) < 4)).all()
    assert (second.boxes, third.boxes, third.mask_path) == ((), (), None)
    assert first.path == tmp_path / "val2017" / "000000000001.jpg"
    assert read(tmp_path / "annotations" / "instances_val2017.json").sources == found.sources
    moved = coco(tmp_path, annotations=[{"image_id": 1, "category_id": 1, "bbox": [4, 4, 8, 7]}])
    assert read(moved).sources[0].key != first.key
    with pytest.raises(CounterfactoryError, match="the file has changed"):
        load_mask(replace(first, boxes=()), (24, 32))


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ({"category_id": 7}, "annotation 9: category 7 is not among the categories of instances_val2017.json"),
        ({"bbox": [1, 2, 3]}, "annotation 9: bbox should have 4 numbers, found 3"),
        ({"bbox": [1, "x", 3, 4]}, "annotation 9: bbox should be a list of numbers"),
        ({"bbox": [40, 2, 3, 4]}, "a box (person: x 40 to 43, y 2 to 6) lies outside of the picture, 32 x 24; correct"),
        ({"segmentation": [[1, 2, 3, 4]]}, "annotation 9: a polygon needs three points or more"),
        ({"segmentation": {"size": [9, 9], "counts": [81]}}, "annotation 9: run lengths are for [9, 9], the image is"),
        ({"segmentation": {"size": [24, 32], "counts": [5]}}, "mask: its run lengths cover 5 pixels"),
        ({"segmentation": {"size": [24, 32], "counts": "\x7f"}}, "annotation 9: its run lengths are not COCO's"),
        ({"keypoints": [1, 2]}, "annotation 9: keypoints are not x, y, visibility"),
    ],
)
def test_a_bad_annotation_costs_its_own_image(annotation: dict[str, Any], reason: str, tmp_path: Path) -> None:
    bad = {"id": 9, "image_id": 2, "category_id": 1, "bbox": [1, 2, 3, 4], **annotation}
    coco(tmp_path, annotations=[bad])
    found = read(tmp_path)
    assert [source.name for source in found.sources] == ["000000000001", "000000000003"]
    assert reasons(found)["000000000002.jpg"].startswith(reason)


def test_coco_s_images_are_checked_against_their_files(tmp_path: Path) -> None:
    sizes = {"height": 24, "width": 32}
    images = [
        {"id": 1, "file_name": "000000000001.jpg", "height": 32, "width": 24},
        {"id": 2, "file_name": "000000000002.jpg", **sizes},
        {"id": 2, "file_name": "000000000003.jpg", **sizes},
        {"id": 5, "file_name": "../secret.jpg", **sizes},
        {"id": 6, "file_name": "gone.jpg", **sizes},
        {"file_name": "x"},
    ]
    boxes = [
        {"image_id": 2, "category_id": 1, "bbox": [1, 1, 0, 5]},
        {"image_id": 77, "category_id": 1, "bbox": [0] * 4},
    ]
    coco(tmp_path, images=images, annotations=boxes)
    found = read(tmp_path)
    assert [source.name for source in found.sources] == ["000000000002"]
    assert reasons(found)["000000000001.jpg"] == "is 32 x 24, its annotations are for 24 x 32"
    assert "shares its id 2" in reasons(found)["000000000003.jpg"]
    assert "there is no file" in reasons(found)["gone.jpg"]
    assert len([p for p in found.problems if "file_name below its folder" in p.reason]) == 2
    assert found.notes == [
        "instances_val2017.json: 1 annotations are of images that it does not list",
        "instances_val2017.json: 1 boxes without width or height are left out",
    ]


def test_coco_s_files_that_are_wrong_as_a_whole(tmp_path: Path) -> None:
    file = coco(tmp_path)
    for text, reason in (
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "needs the lists images, annotations, categories"),
        ('{"images": [], "categories": []}', "has no list of annotations"),
        ('{"images": [], "categories": [{"id": "x"}], "annotations": []}', "a category needs a number and a name"),
    ):
        file.write_text(text)
        refuse(reason, file)
    coco(tmp_path, images=[{"id": 1, "file_name": "gone.jpg"}])
    refuse(r"names gone\.jpg, which is in none of", file)
    write(tmp_path / "annotations" / "instances_train2017.json", "{}")
    refuse("2 files of annotations: name one of them as SOURCES", tmp_path)
    coco(tmp_path)
    refuse("coco names its own classes; leave --class-map voc out", file, class_map="voc")
