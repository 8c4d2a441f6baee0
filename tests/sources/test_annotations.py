"""COCO, Pascal VOC and YOLO as they lie on the disk: boxes, masks, keypoints, lists, and annotations that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_sets import read, reasons, refuse, save, save_mask, write

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
    (note,) = found.notes
    assert "1 of 3 boxes are marked as crowds (iscrowd 1)" in note
    assert found.class_names == {0: "background", 1: "person", 18: "dog"}
    assert found.classes == ["dog", "person"]
    person = Box(0, 0, 20, 20, "person", (Keypoint(5, 6, 2), Keypoint(0, 0, 0)))
    assert first.boxes == (Box(4, 4, 12, 10, "dog"), person)
    assert (first.classes, second.classes, third.classes) == (("dog", "person"), ("person",), ())
    wanted = np.zeros((24, 32), np.uint8)
    wanted[:20, :20] = 1
    wanted[4:10, 4:12] = 18
    assert (load_mask(first, (24, 32)) == wanted).all()
    assert (load_mask(second, (24, 32)) == (np.arange(32) < 4)).all()
    assert (second.boxes, second.things) == ((Box(0, 0, 4, 24, "person", ignored="crowd"),), ())
    assert (third.boxes, third.mask_path) == ((), None)
    assert first.path == tmp_path / "val2017" / "000000000001.jpg"
    assert read(tmp_path / "annotations" / "instances_val2017.json").sources == found.sources
    moved = coco(tmp_path, annotations=[{"image_id": 1, "category_id": 1, "bbox": [4, 4, 8, 7]}])
    assert read(moved).sources[0].key != first.key
    with pytest.raises(CounterfactoryError, match="the file has changed"):
        load_mask(replace(first, listed=()), (24, 32))


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ({"category_id": 7}, "annotation 9: category_id 7; instances_val2017.json has the categories 1, 18"),
        ({"category_id": 1.5}, "annotation 9: category_id 1.5; instances"),
        ({"category_id": None}, "annotation 9: category_id None; instances"),
        ({"bbox": [9, 9, 8, 4, 30]}, "annotation 9: bbox should have 4 numbers, found 5"),
        ({"bbox": [9, 9, 8, 4], "rotation": "30"}, "annotation 9: rotation should be a list of numbers"),
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
    named = ((2, "000000000002.jpg"), (2, "000000000003.jpg"), (5, "../secret.jpg"), (6, "gone.jpg"))
    images = [
        {"id": 1, "file_name": "000000000001.jpg", "height": 32, "width": 24},
        *({"id": number, "file_name": name, "height": 24, "width": 32} for number, name in named),
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
    told = ("annotations are of images that it does not list", "boxes without width or height are left out")
    assert [what in note for what, note in zip(told, found.notes, strict=True)] == [True, True]


def test_coco_s_files_that_are_wrong_as_a_whole(tmp_path: Path) -> None:
    file = coco(tmp_path)
    for text, reason in (
        ("{", "is not valid JSON"),
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


@pytest.mark.parametrize(("folder", "named"), [("val2017/", "val2017/000000000001"), ("", "000000000001")])
def test_lvis_names_its_images_by_url(folder: str, named: str, tmp_path: Path) -> None:
    save(tmp_path / folder / "000000000001.jpg")
    images = [
        {"id": 1, "coco_url": "http://images.cocodataset.org/val2017/000000000001.jpg", "height": 24, "width": 32}
    ]
    boxes = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "bus"}]}
    write(tmp_path / "annotations" / "lvis_v1_val.json", json.dumps(content))
    (source,) = read(tmp_path).sources
    assert (source.name, source.boxes) == (named, (Box(1, 2, 4, 6, "bus"),))


def voc_xml(name: str, box: tuple[object, ...], size: tuple[int, int] = (24, 32)) -> str:
    sides = "".join(f"<{side}>{n}</{side}>" for side, n in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    about = f"<size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>"
    return f"<annotation>{about}<object><name>{name}</name><bndbox>{sides}</bndbox></object></annotation>"


def test_voc_s_boxes_and_masks(tmp_path: Path) -> None:
    for i, name in enumerate(("2007_000027", "2007_000032", "2007_000033", "2007_000039", "2007_000042")):
        save(tmp_path / "JPEGImages" / f"{name}.jpg", i)
    write(tmp_path / "Annotations" / "2007_000027.xml", voc_xml("person", (1, 1, 32, 24)))
    write(tmp_path / "Annotations" / "2007_000032.xml", voc_xml("sofa", (5, 3, 12, 10), size=(0, 0)))
    write(tmp_path / "Annotations" / "2007_000033.xml", voc_xml("dog", (5, "x", 12, 10)))
    write(tmp_path / "Annotations" / "2007_000042.xml", "<annotation>")
    mask = Image.fromarray(np.repeat(np.array([[0], [12], [255]], np.uint8), 32, 1).repeat(8, 0))
    mask.putpalette([0] * 36 + [64, 0, 128] + [0] * 726 + [224, 224, 192])
    (tmp_path / "SegmentationClass").mkdir()
    mask.save(tmp_path / "SegmentationClass" / "2007_000027.png")
    found = read(tmp_path)
    first, second = found.sources
    assert found.layout == "voc"
    assert first.boxes == (Box(0, 0, 32, 24, "person"),)
    assert second.boxes == (Box(4, 2, 12, 10, "sofa"),)
    assert (first.classes, second.classes) == (("dog", "person"), ("sofa",))
    assert np.unique(load_mask(first, (24, 32))).tolist() == [0, 12, 255]
    assert found.class_names[12] == "dog"
    assert "ymin should be a number, found 'x'" in reasons(found)["2007_000033.jpg"]
    assert "has neither Annotations/2007_000039.xml nor" in reasons(found)["2007_000039.jpg"]
    assert "2007_000042.xml: no element found" in reasons(found)["2007_000042.jpg"]


LISTS = {
    "Main/val": "2007_000000\n2007_000001\n\n",
    "Main/car_val": "2007_000000  1\n2007_000001 -1\n2007_000002  0\n",
    "Segmentation/val": "2007_000003\n2007_000009\n2007_000008\n",
    "Segmentation/train": "2007_000002\n",
    "Layout/none": "\n",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"split": "Main/val"}, ["000000", "000001"]),
        ({"split": "Segmentation/val"}, ["000003"]),
        ({"split": "train"}, ["000002"]),
        ({"split": "car_val"}, ["000000", "000002"]),
        ({}, ["000000", "000001", "000002", "000003"]),
        ({"split": "val"}, "--split val is in several folders of ImageSets/: say Main/val or Segmentation/val"),
        ({"split": "test"}, "has no list test; there are Layout/none, Main/car_val, Main/val, Segmentation/train"),
        ({"split": "none"}, "no images found in"),
        ({"split": "train", "labels": Path("x.csv")}, "--split says where labels and masks lie; leave --labels x.csv"),
        ({"split": "train", "layout": "yolo"}, "--split names a list .* or a split of YOLO's, and .* is read as yolo;"),
    ],
)
def test_voc_s_lists_of_images(options: dict[str, Any], expected: list[str] | str, tmp_path: Path) -> None:
    for i in range(4):
        save(tmp_path / "JPEGImages" / f"2007_{i:06d}.jpg", i)
        save_mask(tmp_path / "SegmentationClass" / f"2007_{i:06d}.png", (7, 0))
    for name, text in LISTS.items():
        write(tmp_path / "ImageSets" / f"{name}.txt", text)
    if isinstance(expected, str):
        refuse(expected, tmp_path, **options)
        return
    found = read(tmp_path, **options)
    assert ([source.name for source in found.sources], found.problems) == ([f"2007_{name}" for name in expected], [])
    missing = "2 of the images in Segmentation/val are not in JPEGImages/, the first is 2007_000008"
    assert found.notes == ([missing] if options == {"split": "Segmentation/val"} else [])


def test_other_sets_have_no_such_lists(tmp_path: Path) -> None:
    save(tmp_path / "bus" / "a.png")
    refuse("name the folder of a split as SOURCES, or for the hub hf:ID:SPLIT", tmp_path, split="val")
    refuse("name the split behind the data set: hf:beans:val, without --split", "hf:beans", split="val")


def yolo(root: Path, **labels: str) -> Path:
    for i, (name, text) in enumerate(labels.items()):
        save(root / "images" / "train" / f"{name}.jpg", i)
        write(root / "labels" / "train" / f"{name}.txt", text)
    return write(root / "data.yaml", "path: .\nnames:\n  0: person\n  1: car\n").parent


def test_yolo_s_boxes_and_polygons(tmp_path: Path) -> None:
    yolo(tmp_path, a="1 0.5 0.5 0.25 0.5\n0 0.125 0.25 0.25 0.5\n", b="1 0 0 0.5 0 0.5 0.5 0 0.5\n")
    save(tmp_path / "images" / "train" / "empty.jpg", 9)
    save(tmp_path / "stray.jpg", 10)
    found = read(tmp_path)
    a, b, empty = found.sources
    assert (found.layout, found.problems) == ("yolo", [])
    assert a.boxes == (Box(12, 6, 20, 18, "car"), Box(0, 0, 8, 12, "person"))
    assert b.boxes == (Box(0, 0, 16, 12, "car"),)
    wanted = np.full((24, 32), 2)  # no class has this number: it is the background
    wanted[:12, :16] = 1
    assert found.class_names == {0: "person", 1: "car", 2: "background"}
    assert (load_mask(b, (24, 32)) == wanted).all()
    assert (a.mask_path, a.classes, b.classes, empty.boxes) == (None, ("car", "person"), ("car",), ())
    assert found.notes == [
        "1 of 3 lines are outlines among boxes: the box around each is taken, and a picture with both has no mask",
        "1 images have no text file, in labels/ or beside them, and are left out",
    ]
    inner = read(tmp_path / "images" / "train")
    assert [s.boxes for s in inner.sources] == [a.boxes, b.boxes, ()]


def test_yolo_s_keypoints_and_numbers_with_gaps(tmp_path: Path) -> None:
    yolo(tmp_path, a="0 0.5 0.5 0.5 0.5 0.5 0.25 2 0 0 0")
    write(tmp_path / "data.yaml", "names: [person]\nkpt_shape: [2, 3]\n")
    found = read(tmp_path)
    assert found.class_names == {1: "background", 0: "person"}
    assert found.sources[0].boxes == (Box(8, 6, 24, 18, "person", (Keypoint(16, 6, 2), Keypoint(0, 0, 0))),)
    # As COCO's own numbers are, which some converters keep.
    yolo(tmp_path, a="90 0.5 0.5 0.5 0.5\n", b="2 0.5 0.5 0.5 0.5\n")
    write(tmp_path / "data.yaml", "names:\n  1: person\n  90: toothbrush\n")
    found = read(tmp_path)
    assert [s.classes for s in found.sources] == [("toothbrush",)]
    assert found.class_names == {0: "background", 1: "person", 90: "toothbrush"}
    assert reasons(found)["images/train/b.jpg"] == "b.txt:1: class 2 is not one of the 2 names"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2 0.5 0.5 0.1 0.1", "a.txt:2: class 2 is not one of the 2 names"),
        ("0 16 12 8 8", "a.txt:2: coordinates are shares of the picture"),
        ("0 0.5 0.5 x 0.1", "a.txt:2: '0 0.5 0.5 x 0.1' is not a class and numbers"),
        ("0 0.5 0.5 0.1", "a.txt:2: 3 numbers after the class are no box and no polygon"),
        ("0 0.5 0.5 0.1 nan", "a.txt:2: '0 0.5 0.5 0.1 nan' is not a class and numbers"),
    ],
)
def test_a_bad_line_costs_its_own_image(line: str, reason: str, tmp_path: Path) -> None:
    yolo(tmp_path, a=f"0 0.5 0.5 0.1 0.1\n{line}\n", b="")
    found = read(tmp_path)
    assert [source.name for source in found.sources] == ["images/train/b"]
    assert reasons(found)["images/train/a.jpg"].startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("names: 3", "names should be a list"),
        ("names: {300: a}", "numbers below 255"),
        ("a: [", "YAML"),
        ("names: [a]\nkpt_shape: [1]", "kpt_shape should be two whole numbers"),
        ("nothing", "has no YAML file with the classes' names"),
    ],
)
def test_yolo_without_names_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    write(yolo(tmp_path, a="") / "data.yaml", text if text == "nothing" else f"{text}\n# names:\n")
    refuse(reason, tmp_path, layout="yolo")


def test_ids_are_the_same_whatever_their_type(tmp_path: Path) -> None:
    plain = read(coco(tmp_path).parents[1]).sources
    file = tmp_path / "annotations" / "instances_val2017.json"
    about = json.loads(file.read_text())
    for kind in (float, str, lambda number: f" {number}.0"):
        images = [image | {"id": kind(image["id"])} for image in about["images"]]
        categories = [one | {"id": kind(one["id"])} for one in about["categories"]]
        file.write_text(json.dumps(about | {"images": images, "categories": categories}))
        assert [source.boxes for source in read(tmp_path).sources] == [source.boxes for source in plain]
    file.write_text(json.dumps(about | {"images": [image | {"id": f"no {image['id']}"} for image in about["images"]]}))
    refuse("none of 3 annotations is of an image that it lists; .* image_id 1, the first image the id 'no 1'", tmp_path)


def test_panoptic_segments_are_named(tmp_path: Path) -> None:
    coco(tmp_path, annotations=[{"image_id": 1, "file_name": "1.png", "segments_info": [{"id": 3, "category_id": 1}]}])
    refuse(r"panoptic segments \(segments_info\)", tmp_path)


def test_boxes_are_around_what_is_turned(tmp_path: Path) -> None:
    slanted = [14, 6, 20, 12, 14, 18, 8, 12]
    turns = [
        ({"bbox": [10, 4, 8, 4], "rotation": 0}, (10, 4, 18, 8)),
        ({"bbox": [10, 4, 8, 4], "attributes": {"rotation": 180.0}}, (10, 4, 18, 8)),
        ({"bbox": [10, 4, 8, 4], "attributes": {"rotation": -90}}, (12, 2, 16, 10)),
        ({"bbox": [10, 10, 8, 4], "rotation": 45, "segmentation": [slanted]}, (8, 6, 20, 18)),
        ({"bbox": [10, 10, 12, 12], "segmentation": [slanted]}, (10, 10, 22, 22)),
    ]
    coco(tmp_path, annotations=[{"image_id": 1, "category_id": 1, **about} for about, _ in turns])
    found = read(tmp_path)
    assert [(b.x0, b.y0, b.x1, b.y1) for b in found.sources[0].boxes] == [
        pytest.approx(box) for box in dict.fromkeys(box for _, box in turns)
    ]
    assert "2 boxes are turned: the upright box around each is taken" in found.notes


def test_lvis_s_classes_that_are_not_labelled_whole(tmp_path: Path) -> None:
    about = {"id": 1, "file_name": "000000000001.jpg", "height": 24, "width": 32, "neg_category_ids": [1]}
    coco(tmp_path, images=[{**about, "not_exhaustive_category_ids": [18, 99, None]}])
    found = read(tmp_path)
    (source,) = found.sources
    assert source.boxes[2:] == (Box(0, 0, 32, 24, "dog", ignored="crowd"),)
    assert any("neg_category_ids" in note for note in found.notes)
