"""Sets of streets as they lie on the disk: Cityscapes, SHIFT and CamVid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sets import read, reasons, refuse, save, save_mask

from counterfactory.engine.sources.source import load_mask


def test_cityscapes_pairs_and_class_numbers(tmp_path: Path) -> None:
    for i, stem in enumerate(("train/aachen/aachen_000000_000019", "val/ulm/ulm_000001_000019", "val/ulm/ulm_2")):
        save(tmp_path / "leftImg8bit" / f"{stem}_leftImg8bit.png", i)
        for kind in ("labelIds", "color", "instanceIds"):
            if i < 2:
                save_mask(tmp_path / "gtFine" / f"{stem}_gtFine_{kind}.png", (7, 26 if i else 4))
    found = read(tmp_path)
    assert found.layout == "cityscapes"
    assert [note.partition(":")[0] for note in found.notes] == [
        "pictures of several splits are taken, 1 in train, 1 in val"
    ]
    assert [(s.name, s.classes) for s in found.sources] == [
        ("leftImg8bit/train/aachen/aachen_000000_000019_leftImg8bit", ("road",)),
        ("leftImg8bit/val/ulm/ulm_000001_000019_leftImg8bit", ("car", "road")),
    ]
    assert np.unique(load_mask(found.sources[0], (24, 32))).tolist() == [7, 255]
    assert list(reasons(found).values()) == ["has no mask gtFine/val/ulm/ulm_2_gtFine_labelIds.png"]


def test_shift_s_masks_lie_in_the_same_folder_or_in_the_sequence_s(tmp_path: Path) -> None:
    """As it was unpacked: front/img/SEQUENCE and front/semseg/SEQUENCE; or all in one folder."""
    front = tmp_path / "discrete" / "images" / "val" / "front"
    for i, sequence in enumerate(("007b-4e72", "00a1-ffff")):
        save(front / "img" / sequence / "00000010_img_front.jpg", i)
        save_mask(front / "semseg" / sequence / "00000010_semseg_front.png", ((10, 9, 9, 255), (13, 1, 2, 255)))
    save(front / "img" / "007b-4e72" / "00000020_img_front.jpg", 7)
    found = read(tmp_path)
    assert (found.layout, found.class_names[10]) == ("shift", "vehicle")
    assert [s.classes for s in found.sources] == [("sky", "vehicle")] * 2
    assert {s.mask_path.parent.name for s in found.sources if s.mask_path} == {"007b-4e72", "00a1-ffff"}
    assert "has no mask 00000020_semseg_front.png" in next(iter(reasons(found).values()))
    flat = tmp_path / "flat"
    save(flat / "00000010_img_front.jpg", 3)
    save_mask(flat / "00000010_semseg_front.png", ((7, 0, 0), (3, 0, 0)))
    (source,) = read(flat).sources
    assert source.classes == ("road",)
    assert np.unique(load_mask(source, (24, 32))).tolist() == [7, 255]


@pytest.mark.parametrize(
    ("images", "masks", "ending", "values"),
    [
        ("train", "trainannot", "", (8, 11)),
        ("test", "test_labels", "_L", ((64, 0, 128), (0, 0, 0))),
        ("701_StillsRaw_full", "LabeledApproved_full", "_L", ((64, 0, 128), (0, 0, 0))),
    ],
)
def test_camvid_in_its_forms(images: str, masks: str, ending: str, values: Any, tmp_path: Path) -> None:
    save(tmp_path / images / "0016E5_00390.png")
    save(tmp_path / images / "0016E5_00391.png", 1)
    save_mask(tmp_path / masks / f"0016E5_00390{ending}.png", values)
    found = read(tmp_path)
    (source,) = found.sources
    assert (found.layout, source.classes, source.label) == ("camvid", ("car",), None)
    assert found.class_names[int(load_mask(source, (24, 32))[0, 0])] == "car"
    assert load_mask(source, (24, 32))[-1, 0] == 255
    assert f"has no mask with the stem 0016E5_00391{ending}" in reasons(found)[f"{images}/0016E5_00391.png"]
    for folder in ("val", "val_labels", "valannot"):
        (tmp_path / folder).mkdir()
    refuse("has two forms of CamVid; move one of them out", tmp_path)
