"""YOLO's sets as they lie on the disk: boxes, polygons, keypoints, names, and lines that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_sets import read, reasons, refuse, save, write

from counterfactory.engine.sources.shapes import Box, Keypoint
from counterfactory.engine.sources.source import load_mask


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
        "1 images lie in no folder images/ and are left out",
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
