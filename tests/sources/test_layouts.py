"""Published data sets as they lie on the disk: each is recognised by its names, and read as its publisher means it."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from small_sets import labels, read, reasons, refuse, save, save_mask, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.shapes import Box, Keypoint
from counterfactory.engine.sources.source import ImageSettings, load_mask, load_pixels

VAL = "ILSVRC2012_val_{:08d}.JPEG"


def test_imagenet_s_training_images_lie_by_synset(tmp_path: Path) -> None:
    for i in range(11):
        save(tmp_path / f"n{i:08d}" / f"n{i:08d}_1.JPEG", i)
    save(tmp_path / "n0143" / "n0143_1.JPEG", 99)
    found = read(tmp_path)
    assert [source.label for source in found.sources][:2] == ["n00000000", "n00000001"]
    assert found.layout == "folders"
    assert found.notes == ["labels that are no synsets, as the 11 others are: n0143"]


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata.csv", "file_name,split,label\ntrain/a.png,x,cat\n"),
        ("metadata.jsonl", '{"file_name": "train/a.png", "label": "cat", "split": "x"}'),
    ],
)
def test_hugging_face_s_image_folders(name: str, text: str, tmp_path: Path) -> None:
    save(tmp_path / "train" / "a.png")
    write(tmp_path / name, text)
    found = read(tmp_path)
    assert labels(found) == [("train/a", "cat")]
    assert found.notes == [f"{name}: columns that are not used: 'split'"]


def test_webdataset_s_shards(tmp_path: Path) -> None:
    picture, mask = save(tmp_path / "x.jpg").read_bytes(), save_mask(tmp_path / "x.png", (1, 3)).read_bytes()
    shards = tmp_path / "shards"
    shards.mkdir()
    members = {
        "n01/0001.jpg": picture, "n01/0001.cls": b"0\n", "n01/0001.seg.png": mask,
        "0002.jpg": picture, "0002.json": b'{"label": "1", "url": "x"}',
        "0003.txt": b"no picture", "0004.jpg": picture, "0004.cls": b"\xff",
        "0005.jpg": picture, "0005.cls": b"\x1b",
    }  # fmt: skip
    with tarfile.open(shards / "train-000000.tar", "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
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


def test_hugging_face_s_data_sets_on_the_disk(tmp_path: Path) -> None:
    pictures = [Image.open(save(tmp_path / f"{i}.png", i)) for i in range(3)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "objects": [{"bbox": [datasets.Value("float32")], "category": datasets.ClassLabel(names=["nose", "ear"])}],
            "caption": datasets.Value("string"),
        }
    )
    rows = {
        "image": pictures,
        "label": [1, 0, -1],
        "objects": [[{"bbox": [1, 2, 3, 4], "category": 1}], [], []],
        "caption": ["x"] * 3,
    }
    saved = datasets.Dataset.from_dict(rows, features=features)
    saved.save_to_disk(tmp_path / "saved")
    found = read(tmp_path / "saved")
    assert found.layout == "datasets"
    assert labels(found) == [("00000000", "dog"), ("00000001", "cat"), ("00000002", None)]
    assert found.sources[0].boxes == (Box(1, 2, 4, 6, "ear"),)
    assert (load_pixels(found.sources[1], ImageSettings(24, 8, 32)) == np.asarray(pictures[1])).all()
    assert found.notes == ["columns that are not used: 'caption'"]
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(tmp_path / "several")
    refuse("has the splits train, test: name the folder of one of them", tmp_path / "several")


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


def test_a_folder_is_loaded_as_a_set_of_the_hub_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real library: splits, and class folders as ClassLabels. Without a network a sentence says what to do."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for i, place in enumerate(("train/cat", "train/dog", "validation/dog")):
        save(tmp_path / "set" / place / f"{i}.png", i)
    found = read(f"hf:{tmp_path / 'set'}:train")
    assert (found.layout, [source.label for source in found.sources]) == ("datasets", ["cat", "dog"])
    assert [source.label for source in read(f"hf:{tmp_path / 'set'}:validation").sources] == ["dog"]
    refuse(r"has the splits train, validation: name one of them, such as hf:", f"hf:{tmp_path / 'set'}")

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach 'beans' on the Hub\nand more lines")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    reason = "hf:beans:train cannot be opened by datasets: Couldn't reach 'beans' on the Hub; without a network, name a"
    refuse(f"^{reason} folder that save_to_disk wrote elsewhere$", "hf:beans:train")
