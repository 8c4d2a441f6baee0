"""Pascal VOC as it lies on the disk: boxes, masks and lists of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_sets import read, reasons, refuse, save, save_mask, write

from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import load_mask


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
        ({"split": "train", "layout": "yolo"}, "--split names a list of Pascal VOC's ImageSets/, and .* is no such"),
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
