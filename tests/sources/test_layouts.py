"""Layouts of publishers and of nobody: ImageNet, Cityscapes, SHIFT, CamVid, WebDataset, splits, pairs by a pattern."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from small_sets import encoded, labels, noise, read, reasons, refuse, save, save_mask, write

from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import ImageSettings, load_mask, load_pixels


def test_splits_are_no_classes(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cat" / "1.png")
    save(tmp_path / "val2017" / "dog" / "deep" / "2.png", 1)
    save(tmp_path / "val2017" / "3.png", 2)
    found = read(tmp_path)
    assert labels(found) == [("train/cat/1", "cat"), ("val2017/3", None), ("val2017/dog/deep/2", "dog")]
    several = "pictures of several splits are taken, 1 in train, 2 in val2017: training pictures tell little of a model"
    assert found.notes == ["train, val2017: taken for splits of the set, not for classes", several]
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
        *(("coco", "has no file of annotations"), ("voc", "has no JPEGImages/"), ("cityscapes", "no image in")),
        *(
            ("camvid", "has no folders of CamVid"),
            ("imagenet-val", "has none of ILSVRC2012_validation_ground_truth.txt"),
        ),
        *(("webdataset", "has no .tar files"), ("datasets", "cannot be opened by datasets")),
    ):
        refuse(reason, tmp_path, layout=layout)
    assert read(tmp_path, layout="folders").sources[0].name == "a"


def test_thumbnails_of_file_servers_are_no_sources(tmp_path: Path) -> None:
    for i, name in enumerate(("a.png", "@eaDir/a.png/SYNOPHOTO_THUMB_XL.png", "b/@eaDir/c.png", "b/__MACOSX/c.png")):
        save(tmp_path / name, i)
    save(tmp_path / "b" / ".ipynb_checkpoints" / "d.png", 9)
    assert labels(read(tmp_path)) == [("a", None)]


VAL = "ILSVRC2012_val_{:08d}.JPEG"


def test_imagenet_s_training_images_lie_by_synset(tmp_path: Path) -> None:
    for i in range(11):
        save(tmp_path / f"n{i:08d}" / f"n{i:08d}_1.JPEG", i)
    save(tmp_path / "n0143" / "n0143_1.JPEG", 99)
    found = read(tmp_path)
    assert [source.label for source in found.sources][:2] == ["n00000000", "n00000001"]
    assert found.layout == "folders"
    assert found.notes == ["labels that are no synsets, as the 11 others are: n0143"]


def test_imagenet_s_validation_images_with_the_kit_s_numbers(tmp_path: Path) -> None:
    for i in (1, 2, 4):
        save(tmp_path / "val" / VAL.format(i), i)
    kit = write(tmp_path / "ILSVRC2012_validation_ground_truth.txt", "2\n1\n2\n7\n")
    refuse(r"meta\.mat explains: put meta\.mat beside it, or name another list", tmp_path / "val")
    rows = [(1, "n02119789", 0), (2, "n01440764", 0), (1001, "n00001740", 5)]
    kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("num_children", "O")]
    savemat(tmp_path / "meta.mat", {"synsets": np.array(rows, dtype=kind)[:, None]})
    found = read(tmp_path / "val")
    assert labels(found) == [(f"ILSVRC2012_val_0000000{i}", name) for i, name in ((1, "n01440764"), (2, "n02119789"))]
    assert found.layout == "imagenet-val"
    assert reasons(found) == {
        f"{kit.name}:4": "'7' is no number of the development kit's synsets",
        VAL.format(4): f"{kit.name} says nothing about this image",
    }
    missing = f"1 images of {kit.name} are not in {tmp_path / 'val'}, the first is ILSVRC2012_val_00000003"
    assert found.notes == [missing]
    (tmp_path / "meta.mat").write_bytes(b"MATLAB 5.0 not")
    refuse(r"is not the development kit's meta\.mat", tmp_path / "val")


def test_imagenet_s_validation_images_with_lists_of_names(tmp_path: Path) -> None:
    for i in (1, 2, 3):
        save(tmp_path / VAL.format(i), i)
    names = write(tmp_path / "lists" / "val.txt", f"{VAL.format(1)} n01440764\n{VAL.format(2)}\tgolden retriever\nx\n")
    found = read(tmp_path, labels=names)
    assert [s.label for s in found.sources] == ["n01440764", "golden retriever"]
    assert reasons(found) == {
        "val.txt:3": "'x' is not a name and a label",
        VAL.format(3): "val.txt says nothing about this image",
    }
    stems = [VAL.format(i).removesuffix(".JPEG") for i in (1, 2, 3)]
    told = ("n01440764 2 3 9 11 n01440764 0 0 31 23 ", "n02119789 1 1 5 5", "n02119789 1 1")
    lines = ["ImageId,PredictionString", *(f"{stem},{text}" for stem, text in zip(stems, told, strict=True))]
    write(tmp_path / "LOC_val_solution.csv", "\n".join(lines))
    found = read(tmp_path)
    assert [(s.label, len(s.boxes)) for s in found.sources] == [("n01440764", 2), ("n02119789", 1)]
    assert found.sources[0].boxes[0] == Box(2, 3, 10, 12, "n01440764")
    assert "not made of synset x0 y0 x1 y1" in reasons(found)["LOC_val_solution.csv:4"]


def test_cityscapes_pairs_and_class_numbers(tmp_path: Path) -> None:
    for i, stem in enumerate(("train/aachen/aachen_000000_000019", "val/ulm/ulm_000001_000019", "val/ulm/ulm_2")):
        save(tmp_path / "leftImg8bit" / f"{stem}_leftImg8bit.png", i)
        for kind in ("labelIds", "color", "instanceIds"):
            if i < 2:
                save_mask(tmp_path / "gtFine" / f"{stem}_gtFine_{kind}.png", (7, 26 if i else 4))
    found = read(tmp_path)
    assert found.layout == "cityscapes"
    (note,) = found.notes
    assert note.startswith("pictures of several splits are taken, 1 in train, 1 in val:")
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


def shard(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


def test_keys_that_begin_anew_in_each_shard(tmp_path: Path) -> None:
    pictures = [encoded(noise(i)) for i in range(6)]
    for at in range(2):
        samples = {f"{i:06d}": pictures[3 * at + i] for i in range(3)}
        members = {
            f"{key}.{end}": data for key, png in samples.items() for end, data in (("png", png), ("cls", b"%d" % at))
        }
        shard(tmp_path / f"shard-{at}.tar", members | {f"own{at}/a.png": pictures[at], "twice.png": pictures[0]})
    shard(tmp_path / "shard-2.tar", {"b.png": pictures[0], "x.cls": b"1", "b.jpg": pictures[0], "c.d.png": pictures[1]})
    found = read(tmp_path)
    assert labels(found) == [
        *(("b", None), ("own0/a", None), ("own1/a", None)),
        *((f"shard-0/{i:06d}", "0") for i in range(3)), ("shard-0/twice", None),
        *((f"shard-1/{i:06d}", "1") for i in range(3)), ("shard-1/twice", None),
    ]  # fmt: skip
    assert found.notes[:1] == [
        "4 keys are in several shards, and have the shard's name before them, the first is 000000"
    ]
    assert "another sample of this shard" in reasons(found)["shard-2.tar/b"]
    assert "d.png; a key ends at the first dot" in reasons(found)["shard-2.tar/c"]


def test_webdataset_s_shards(tmp_path: Path) -> None:
    picture, mask = save(tmp_path / "x.jpg").read_bytes(), save_mask(tmp_path / "x.png", (1, 3)).read_bytes()
    (shards := tmp_path / "shards").mkdir()
    members = {
        "n01/0001.jpg": picture, "n01/0001.cls": b"0\n", "n01/0001.seg.png": mask,
        "0002.jpg": picture, "0002.json": b'{"label": "1", "url": "x"}',
        "0003.txt": b"no picture", "0004.jpg": picture, "0004.cls": b"\xff",
        "0005.jpg": picture, "0005.cls": b"\x1b",
    }  # fmt: skip
    shard(shards / "train-000000.tar", members)
    (shards / "train-000001.tar").write_bytes(b"x" * 600)
    found = read(shards)
    assert found.layout == "webdataset"
    assert [(s.name, s.file, s.label) for s in found.sources] == [
        ("0002", "train-000000.tar/0002.jpg", "1"),
        ("n01/0001", "train-000000.tar/n01/0001.jpg", "0"),
    ]
    assert (load_pixels(found.sources[1], ImageSettings(24, 8, 32)) == np.asarray(Image.open(tmp_path / "x.jpg"))).all()
    assert np.unique(load_mask(found.sources[1], (24, 32))).tolist() == [1, 3]
    assert "has no picture among txt" in reasons(found)["train-000000.tar/0003"]
    assert "its .cls cannot be read" in reasons(found)["train-000000.tar/0004"]
    assert reasons(found)["train-000000.tar/0005"] == "its .cls holds no label that can be printed"
    assert "cannot be read as a tar file" in reasons(found)["train-000001.tar"]
