"""Layouts that no publisher owns: splits, pairs by a pattern, and what is said where a layout is not there."""

from __future__ import annotations

from pathlib import Path

from small_sets import labels, read, reasons, refuse, save, save_mask


def test_splits_are_no_classes(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cat" / "1.png")
    save(tmp_path / "val2017" / "dog" / "deep" / "2.png", 1)
    save(tmp_path / "val2017" / "3.png", 2)
    found = read(tmp_path)
    assert labels(found) == [("train/cat/1", "cat"), ("val2017/3", None), ("val2017/dog/deep/2", "dog")]
    assert found.notes == [
        "train, val2017: taken for splits of the set, not for classes",
        "pictures of several splits are taken, 1 in train, 2 in val2017: training pictures tell little of a model",
    ]
    save(tmp_path / "trains" / "4.png", 3)
    assert [s.label for s in read(tmp_path).sources] == ["train", "trains", "val2017", "val2017"]


def test_pairs_by_pattern(tmp_path: Path) -> None:
    for i, name in enumerate(("day/1", "day/2", "3")):
        save(tmp_path / f"{name}_img.jpg", i)
    save_mask(tmp_path / "day" / "1_seg.png", (1, 2))
    save_mask(tmp_path / "4_seg.png", (1, 2))
    save(tmp_path / "other.png", 9)
    found = read(tmp_path, pairs="{stem}_img.jpg={stem}_seg.png")
    assert [(s.name, s.mask_path) for s in found.sources] == [("day/1_img", tmp_path / "day" / "1_seg.png")]
    assert reasons(found) == {"3_img.jpg": "has no mask 3_seg.png", "day/2_img.jpg": "has no mask day/2_seg.png"}
    assert found.notes == [
        "1 masks without an image, the first is 4_seg.png",
        "1 files that --pairs does not match, the first is other.png",
    ]
    for pattern, reason in (
        ("{stem}.jpeg={stem}_seg.png", r"no image in .* matches '\{stem\}\.jpeg' of --pairs; the first file there is"),
        ("{stem}_img.jpg={stem}_x.png", r"no mask in .* matches '\{stem\}_x\.png'"),
        ("{stem}_img.jpg", "is no pattern of pairs; write it as IMAGE=MASK"),
        ("a.jpg={stem}.png", "is no pattern of pairs"),
    ):
        refuse(reason, tmp_path, pairs=pattern)
    refuse("--pairs says where labels and masks lie; leave --masks", tmp_path, pairs="{stem}=x", masks=tmp_path)


def test_a_layout_that_is_not_there_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    for layout, reason in (
        ("coco", "has no file of annotations"),
        ("voc", "has no JPEGImages/"),
        ("camvid", "has no folders of CamVid"),
        ("imagenet-val", "has none of ILSVRC2012_validation_ground_truth.txt"),
        ("webdataset", "has no .tar files"),
        ("cityscapes", "no image in"),
        ("datasets", "cannot be opened by datasets"),
    ):
        refuse(reason, tmp_path, layout=layout)
    assert read(tmp_path, layout="folders").sources[0].name == "a"
