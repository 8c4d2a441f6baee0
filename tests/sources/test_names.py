"""Names of classes come from the set's own files, never from another set's, and the file is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image
from small_sets import noise, read, reasons, refuse, save, save_mask, write

from counterfactory.engine.sources.class_map import load_class_map
from counterfactory.engine.sources.source import load_mask

LABELMAP = "# label:color_rgb:parts:actions\nbackground:0,0,0::\nsky:128,0,0::\nroad:0,128,0::\n"
COLOURS = np.array([(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0)], np.uint8)
NUMBERS = np.repeat(np.arange(3, dtype=np.uint8), 8)[:, None].repeat(32, 1)


def voc(root: Path, files: Mapping[str, str], masks: Sequence[Any] = (NUMBERS,)) -> Path:
    """A set in VOC's folders with further files."""
    for i, mask in enumerate(masks):
        save(root / "JPEGImages" / f"{i}.jpg", i)
        (root / "SegmentationClass").mkdir(exist_ok=True)
        (mask if isinstance(mask, Image.Image) else Image.fromarray(mask)).save(root / "SegmentationClass" / f"{i}.png")
    for name, text in files.items():
        write(root / name, text)
    return root


def with_palette(numbers: Any, palette: Any) -> Image.Image:
    image = Image.fromarray(np.asarray(numbers, np.uint8), mode="P")
    image.putpalette(np.asarray(palette, np.uint8).ravel().tolist())
    return image


@pytest.mark.parametrize(
    ("file", "text", "mask"),
    [
        ("labelmap.txt", LABELMAP, COLOURS[NUMBERS]),
        ("labelmap.txt", LABELMAP, NUMBERS),
        ("labelmap.txt", LABELMAP, with_palette(NUMBERS, COLOURS)),
        ("labelmap.txt", LABELMAP, with_palette(np.array([2, 0, 1])[NUMBERS], COLOURS[[1, 2, 0]])),
        ("class_names.txt", "_background_\nsky\nroad\n", NUMBERS),
        ("labels.txt", "__ignore__\n_background_\nsky\nroad\n", NUMBERS),
        ("labels.txt", "ground\nsky: blue\nroad\n", NUMBERS),
    ],
)
def test_names_in_the_folder_of_a_set_like_voc(file: str, text: str, mask: Any, tmp_path: Path) -> None:
    found = read(voc(tmp_path, {file: text}, [mask]))
    names = ["ground", "sky: blue", "road"] if text.startswith("ground") else ["background", "sky", "road"]
    assert (found.problems, found.class_names) == ([], dict(enumerate(names)))
    assert found.contents[-1] == f"names of classes: {tmp_path / file}"
    np.testing.assert_array_equal(load_mask(found.sources[0], (24, 32)), NUMBERS)


def test_voc_s_own_names_are_said_and_of_two_files_the_first_counts(tmp_path: Path) -> None:
    assert read(voc(tmp_path, {})).contents[-1] == "names of classes: the class map voc"
    files = {"labelmap.txt": LABELMAP, "class_names.txt": "_background_\nsky\nroad\n"}
    assert read(voc(tmp_path, files)).notes == []
    write(tmp_path / "class_names.txt", "_background_\nroad\nsky\n")
    assert read(tmp_path).notes == ["labelmap.txt names other classes than class_names.txt, and it counts"]


BOX = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
ANNOTATION = f"<annotation><object><name>forklift</name>{BOX}</object></annotation>"


@pytest.mark.parametrize(
    ("files", "mask", "reason"),
    [
        ({"Annotations/0.xml": ANNOTATION}, NUMBERS, "boxes name forklift"),
        ({}, NUMBERS + 20, "0.png holds 21"),
        ({}, with_palette(NUMBERS, COLOURS[::-1]), "the palette of 0.png is another one"),
    ],
)
def test_voc_s_names_are_not_used_where_something_contradicts_them(
    files: dict[str, str], mask: Any, reason: str, tmp_path: Path
) -> None:
    found = read(voc(tmp_path, files, [mask]))
    assert (found.problems, found.class_names) == ([], {})
    (note,) = found.notes
    assert note.startswith(f"masks go by their numbers, since {reason}, and VOC's names are other: name them in ")
    assert found.contents[0].startswith("masks hold ")


def test_cvat_s_labelmap_is_a_class_map_too(tmp_path: Path) -> None:
    found = load_class_map(str(write(tmp_path / "labelmap.txt", LABELMAP + "ignored:224,224,192::\n")))
    assert found.names == {0: "background", 1: "sky", 2: "road"}
    assert found.apply(np.array([[[0, 128, 0], [224, 224, 192]]], np.uint8)).tolist() == [[2, 255]]
    write(tmp_path / "labelmap.txt", "a:0,0,0::\nb:0,0,0::\n")
    refuse("gives two classes one colour", voc(tmp_path, {}))


def yolo(root: Path, files: Mapping[str, str], inside: str = "") -> Path:
    """A set of one picture, with one box of class 1, and files of names by their paths."""
    place = root / inside
    save(place / "images" / "a.png")
    write(place / "labels" / "a.txt", "1 0.5 0.5 0.5 0.5\n")
    for name, text in files.items():
        write(root / name, text)
    return place


OWN = "names: [bus, car]\n"
FOREIGN = "path: ../datasets/coco8\ntrain: images/train\nnames: [person, bicycle]\n"


@pytest.mark.parametrize(
    ("files", "file"),
    [
        ({"set/classes.txt": "bus\ncar\n", "coco8.yaml": FOREIGN}, "set/classes.txt"),
        ({"set/labels/classes.txt": "bus\ncar\n"}, "set/labels/classes.txt"),
        ({"set/obj.names": "bus\ncar\n"}, "set/obj.names"),
        ({"set/data.yaml": OWN, "coco8.yaml": FOREIGN}, "set/data.yaml"),
        ({"set/data.yaml": "nc: 2\nnames: {0: bus, 1: car}\n", "set/args.yaml": "task: detect\n"}, "set/data.yaml"),
        ({"set/a.yaml": OWN, "set/b.yml": OWN, "set/classes.txt": "bus\ncar\n"}, "set/a.yaml"),
        ({"set/data.yaml": OWN, "set/hyp.yaml": "lr0: 0.1\nnc: 80\n"}, "set/data.yaml"),
        ({"mine.yaml": f"path: set\n{OWN}", "coco8.yaml": FOREIGN}, "mine.yaml"),
        ({"mine.yaml": f"train: set/images\n{OWN}"}, "mine.yaml"),
        ({"mine.yaml": f"train: [other/images, set/images]\n{OWN}"}, "mine.yaml"),
        ({"mine.yaml": f"val: ../set/images\n{OWN}"}, "mine.yaml"),
        ({"mine.yaml": f"path: /content/set\ntrain: images\n{OWN}"}, "mine.yaml"),
        ({"mine.yaml": f"path: ../datasets/set\n{OWN}"}, "mine.yaml"),
        ({"mine.yaml": f"path: set\n{OWN}", "broken.yaml": "names: [{{ a }}\n"}, "mine.yaml"),
    ],
)
def test_names_of_a_yolo_set(files: dict[str, str], file: str, tmp_path: Path) -> None:
    found = read(yolo(tmp_path, files, "set"))
    assert (found.layout, found.sources[0].classes) == ("yolo", ("car",))
    assert found.contents == [f"names of classes: {tmp_path / file}"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"coco8.yaml": FOREIGN}, r"add one; .*coco8\.yaml is another set's, since its path, train and val do not"),
        ({"coco8.yaml": "names: [a, b]\n"}, r"coco8\.yaml is another set's"),
        ({"coco8.yaml": "path: .\ntrain: images\nnames: [a, b]\n"}, r"coco8\.yaml is another set's"),
        (
            {"set/data.yaml": "nc: 2\n"},
            r"no YAML file with the classes' names, such as data\.yaml, or classes\.txt",
        ),
        (
            {"set/args.yaml": "names: [zebra, giraffe]\n", "set/data.yaml": OWN},
            r"2 files name other classes: .*args\.yaml \(zebra, giraffe\), .*data\.yaml \(bus, car\); remove the wrong",
        ),
        ({"set/classes.txt": "zebra\ncar\n", "set/data.yaml": OWN}, r"2 files name other classes"),
        ({"a.yaml": f"path: set\n{OWN}", "b.yaml": "path: set\nnames: [zebra]\n"}, r"2 files name other classes"),
        ({"set/data.yaml": "names: [bus\n"}, r"data\.yaml is not valid YAML"),
    ],
)
def test_names_that_cannot_be_told_are_refused(files: dict[str, str], said: str, tmp_path: Path) -> None:
    refuse(said, yolo(tmp_path, files, "set"))


def test_masks_in_labels_beside_a_list_of_names_are_no_yolo(tmp_path: Path) -> None:
    root = tmp_path / "set"
    save(root / "images" / "a.png")
    save_mask(root / "labels" / "a.png", (1, 2))
    write(root / "classes.txt", "bus\ncar\n")
    write(tmp_path / "other.yaml", OWN)
    assert read(root).layout == "folders"
    write(root / "labels" / "a.txt", "1 0.5 0.5 0.5 0.5\n")
    assert read(root).layout == "yolo"


def test_a_yaml_can_be_named_where_several_differ(tmp_path: Path) -> None:
    root = yolo(tmp_path, {"args.yaml": "names: [zebra, giraffe]\n", "data.yaml": OWN})
    found = read(root / "data.yaml")
    assert (found.sources[0].classes, found.contents) == (("car",), [f"names of classes: {root / 'data.yaml'}"])


@pytest.mark.parametrize(
    ("columns", "image", "mask"),
    [
        *((("image", "mask"), "image", "mask"), (("image", "annotation"), "image", "annotation")),
        *((("pixel_values", "label"), "pixel_values", "label"), (("GT", "image"), "image", "GT")),
        (("image", "labelImage"), "image", "labelImage"),
        (("image", "depth", "segmentation_mask"), "image", "segmentation_mask"),
        *((("image", "edited_image"), "image", None), (("before", "after"), "before", None)),
        *((("image", "target"), "image", None), (("image", "conditioning_image"), "image", None)),
        (("mask",), "mask", None),
    ],
)
def test_a_second_picture_is_a_mask_by_its_name(
    columns: tuple[str, ...], image: str, mask: str | None, tmp_path: Path
) -> None:
    pictures = {name: noise(i) if name == image else NUMBERS + i for i, name in enumerate(columns)}
    features = datasets.Features(dict.fromkeys(columns, datasets.Image()))
    rows = {name: [Image.fromarray(picture)] for name, picture in pictures.items()}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "saved")
    found = read(tmp_path / "saved")
    (source,) = found.sources
    assert reasons(found) == {}
    assert source.size == (24, 32)
    assert (source.mask_path is None) == (mask is None)
    if mask is not None:
        np.testing.assert_array_equal(load_mask(source, source.size), pictures[mask])
    unused = [repr(name) for name in columns if name not in (image, mask)]
    assert found.notes == ([f"columns that are not used: {', '.join(unused)}"] if unused else [])
