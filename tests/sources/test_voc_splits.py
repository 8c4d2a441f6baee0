"""Pascal VOC's lists of images, ImageSets/*/*.txt, chosen by --split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_sets import read, save, save_mask, write

from counterfactory.engine.errors import CounterfactoryError


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    for i in range(4):
        save(tmp_path / "JPEGImages" / f"2007_{i:06d}.jpg", i)
        save_mask(tmp_path / "SegmentationClass" / f"2007_{i:06d}.png", (7, 0))
    lists = {
        "Main/val": "2007_000000\n2007_000001\n\n",
        "Main/car_val": "2007_000000  1\n2007_000001 -1\n2007_000002  0\n",
        "Segmentation/val": "2007_000003\n2007_000009\n2007_000008\n",
        "Segmentation/train": "2007_000002\n",
        "Layout/none": "\n",
    }
    for name, text in lists.items():
        write(tmp_path / "ImageSets" / f"{name}.txt", text)
    return tmp_path


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("Main/val", ["000000", "000001"]),
        ("Segmentation/val", ["000003"]),
        ("train", ["000002"]),
        ("car_val", ["000000", "000002"]),
    ],
)
def test_a_split_has_the_images_of_its_list(voc: Path, split: str, names: list[str]) -> None:
    found = read(voc, split=split)
    assert [source.name for source in found.sources] == [f"2007_{name}" for name in names]
    assert found.problems == []
    missing = "2 of the images in Segmentation/val are not in JPEGImages/, the first is 2007_000008"
    assert found.notes == ([missing] if split == "Segmentation/val" else [])
    assert len(read(voc).sources) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "val"}, r"--split val is in several folders of ImageSets/: say Main/val or Segmentation/val"),
        (
            {"split": "test"},
            r"has no list test; there are Layout/none, Main/car_val, Main/val, Segmentation/train, Segm",
        ),
        ({"split": "none"}, "no images found in"),
        ({"split": "train", "labels": Path("x.csv")}, "--split says where labels and masks lie; leave --labels x.csv"),
        (
            {"split": "train", "layout": "yolo"},
            "--split names a list of Pascal VOC's ImageSets/, and .* is no such set",
        ),
    ],
)
def test_splits_that_cannot_be_are_refused(voc: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(CounterfactoryError, match=said):
        read(voc, **options)


def test_other_sets_have_no_such_lists(tmp_path: Path) -> None:
    save(tmp_path / "bus" / "a.png")
    with pytest.raises(CounterfactoryError, match="name the folder of a split as SOURCES, or for the hub hf:ID:SPLIT"):
        read(tmp_path, split="val")
    with pytest.raises(CounterfactoryError, match="name the split behind the data set: hf:beans:val, without --split"):
        read("hf:beans", split="val")
