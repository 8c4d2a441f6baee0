"""ImageNet as it lies on the disk: images by synset, and the lists that name validation images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.io import savemat
from small_sets import labels, read, reasons, refuse, save, write

from counterfactory.engine.sources.shapes import Box

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
    kit = tmp_path / "ILSVRC2012_validation_ground_truth.txt"
    kit.write_text("2\n1\n2\n7\n")
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
    first = "the first is ILSVRC2012_val_00000003"
    assert found.notes == [f"1 images of {kit.name} are not in {tmp_path / 'val'}, {first}"]
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
    solution = "ImageId,PredictionString\n" + (
        f"{stems[0]},n01440764 2 3 9 11 n01440764 0 0 31 23 \n{stems[1]},n02119789 1 1 5 5\n{stems[2]},n02119789 1 1\n"
    )
    write(tmp_path / "LOC_val_solution.csv", solution)
    found = read(tmp_path)
    assert [(s.label, len(s.boxes)) for s in found.sources] == [("n01440764", 2), ("n02119789", 1)]
    assert found.sources[0].boxes[0] == Box(2, 3, 10, 12, "n01440764")
    assert "not made of synset x0 y0 x1 y1" in reasons(found)["LOC_val_solution.csv:4"]
