"""Boxes in files beside pictures: labelImg, Kaggle's VOC, CVAT, labelme, KITTI, BDD100K, Hugging Face, YOLO's lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_sets import read, reasons, refuse, save, save_mask, write

from counterfactory.engine.sources.companions import Companions
from counterfactory.engine.sources.shapes import Box

CAR = Box(4, 5, 12, 15, "car")
HEIGHT, WIDTH = 24, 32


def voc_xml(name: str = "car") -> str:
    """VOC counts pixels from 1."""
    corners = "".join(f"<{side}>{n}</{side}>" for side, n in zip(("xmin", "ymin", "xmax", "ymax"), (5, 6, 12, 15)))  # noqa: B905
    return f"<annotation><object><name>{name}</name><bndbox>{corners}</bndbox></object></annotation>"


def labelme(**changes: Any) -> str:
    shape = {"label": "car", "points": [[4, 5], [12, 15]], "shape_type": "rectangle", **changes}
    picture = {"imageData": "aaaa", "imagePath": "..\\x.png", "imageHeight": HEIGHT, "imageWidth": WIDTH}
    return json.dumps({"version": "5.4", "shapes": [shape], **picture})


def frame(name: str, **changes: Any) -> dict[str, Any]:
    label = {"category": "car", "box2d": {"x1": 4, "y1": 5, "x2": 12, "y2": 15}, **changes}
    return {"name": name, "labels": [label, {"category": "lane", "poly2d": [{"vertices": [[0, 0], [9, 9]]}]}]}


def cvat(*names: str, more: str = "") -> str:
    images = "".join(
        f'<image id="0" name="{name}" width="{WIDTH}" height="{HEIGHT}">'
        f'<box label="car" xtl="4" ytl="5" xbr="12" ybr="15" z_order="0"><attribute name="a">x</attribute></box>{more}'
        "</image>"
        for name in names
    )
    return f'<?xml version="1.0"?><annotations><version>1.1</version><meta/>{images}</annotations>'


BDD = "labels/bdd100k_labels_images_val.json"
KITTI = "car 0.00 0 -1.58 4.00 5.00 12.00 15.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n"
YOLO = f"0 {8 / WIDTH} {10 / HEIGHT} {8 / WIDTH} {10 / HEIGHT}\n"
ROWS = '{"file_name": "%s", "objects": {"bbox": [[4, 5, 8, 10]], "categories": ["car"]}}\n'
# Where a picture lies, the files of the set, and the layout that they are.
SETS: dict[str, tuple[str, dict[str, str], str]] = {
    "labelImg": ("a.png", {"a.xml": voc_xml()}, "voc"),
    "Kaggle's VOC": ("images/a.png", {"annotations/a.xml": voc_xml()}, "voc"),
    "pets": ("images/a.png", {"annotations/xmls/a.xml": voc_xml(), "annotations/list.txt": "a 1 1 1\n"}, "voc"),
    "DAWN": ("Fog/a.png", {"Fog/Fog_PASCAL_VOC/a.xml": voc_xml(), "Fog/Fog_YOLO_darknet/a.txt": YOLO}, "voc"),
    "VOC within JPEGImages": ("JPEGImages/a.png", {"JPEGImages/a.xml": voc_xml()}, "voc"),
    "Roboflow's VOC": ("train/a_png.rf.0f.png", {"train/a_png.rf.0f.xml": voc_xml()}, "voc"),
    "labelImg's YOLO": ("a.png", {"a.txt": YOLO, "classes.txt": "car\n"}, "yolo"),
    "CVAT's YOLO": (
        "obj_train_data/a.png",
        {
            "obj_train_data/a.txt": YOLO, "obj.names": "car\n", "train.txt": "data/obj_train_data/a.png\n",
            "obj.data": "classes = 1\ntrain = data/train.txt\nnames = data/obj.names\nbackup = backup/\n",
        },
        "yolo",
    ),
    "Darknet": ("data/obj/a.png", {"data/obj/a.txt": YOLO, "data/obj.names": "car\n"}, "yolo"),
    "Roboflow's Darknet": ("train/a.png", {"train/a.txt": YOLO, "train/_darknet.labels": "car\n"}, "yolo"),
    "YOLO within images": ("images/a.png", {"images/a.txt": YOLO, "classes.txt": "car\n"}, "yolo"),
    "labelme": ("a.png", {"a.json": labelme()}, "labelme"),
    "labelme elsewhere": ("images/train/a.png", {"labels/train/a.json": labelme()}, "labelme"),
    "labelme backwards": ("a.png", {"a.json": labelme(points=[[12, 5], [4, 15]])}, "labelme"),
    "labelme's polygon": (
        "a.png", {"a.json": labelme(points=[[4, 5], [12, 7], [9, 15]], shape_type="polygon")}, "labelme",
    ),
    "labelme's circle": ("a.png", {"a.json": labelme(points=[[8, 10], [8, 14]], shape_type="circle")}, "labelme"),
    "KITTI": ("training/image_2/a.png", {"training/label_2/a.txt": KITTI}, "kitti"),
    "TAO's KITTI": ("images/a.png", {"labels/a.txt": KITTI}, "kitti"),
    "BDD100K": ("images/100k/val/a.png", {BDD: json.dumps([frame("a.png")])}, "bdd100k"),
    "Scalabel": ("images/a.png", {"det.json": json.dumps({"frames": [frame("a.png")], "config": {}})}, "bdd100k"),
    "BDD100K by picture": (
        "images/a.png",
        {"labels/a.json": json.dumps({"name": "a", "frames": [{"objects": frame("")["labels"]}]})},
        "bdd100k",
    ),
    "CVAT": ("images/a.png", {"annotations.xml": cvat("a.png")}, "cvat"),
    "Hugging Face": ("a.png", {"metadata.jsonl": ROWS % "a.png"}, "folders"),
    "Hugging Face, things": (
        "train/a.png",
        {"metadata.jsonl": '{"file_name": "train/a.png", "objects": [{"bbox": [4, 5, 8, 10], "category": "car"}]}\n'},
        "folders",
    ),
}  # fmt: skip


def packed(root: Path, name: str) -> Path:
    picture, files, _ = SETS[name]
    save(root / picture)
    for file, text in files.items():
        write(root / file, text)
    return root


@pytest.mark.parametrize("name", SETS)
def test_boxes_beside_pictures_are_read(name: str, tmp_path: Path) -> None:
    found = read(packed(tmp_path, name), task="detection")
    (source,) = found.sources
    boxes = [Box(round(b.x0, 6), round(b.y0, 6), round(b.x1, 6), round(b.y1, 6), b.label) for b in source.boxes]
    wanted = Box(4, 6, 12, 14, "car") if name == "labelme's circle" else CAR
    assert (found.layout, source.label, boxes, found.problems) == (SETS[name][2], None, [wanted], [])
    assert source.path == tmp_path / SETS[name][0]
    if SETS[name][2] != "folders":
        assert read(tmp_path, layout=SETS[name][2]).sources == found.sources


@pytest.mark.parametrize(("name", "file"), [("BDD100K", BDD), ("CVAT", "annotations.xml")])
def test_a_file_that_lists_pictures_can_be_named(name: str, file: str, tmp_path: Path) -> None:
    found = read(packed(tmp_path, name) / file)
    assert [source.boxes for source in found.sources] == [(CAR,)]


def test_other_tasks_see_class_folders_and_masks(tmp_path: Path) -> None:
    for i, name in enumerate(("bus/a", "car/b")):
        save(tmp_path / f"{name}.png", i)
        write(tmp_path / f"{name}.xml", voc_xml())
    assert [source.label for source in read(tmp_path, task="classification").sources] == ["bus", "car"]
    assert [source.label for source in read(tmp_path).sources] == ["bus", "car"]
    assert [source.boxes for source in read(tmp_path, task="detection").sources] == [(CAR,), (CAR,)]
    cvats = packed(tmp_path / "cvat", "CVAT's YOLO")
    refuse("classification needs labels .*--layout folders", cvats, task="classification")


def test_masks_and_pictures_without_a_file_are_none(tmp_path: Path) -> None:
    packed(tmp_path, "Kaggle's VOC")
    save_mask(tmp_path / "masks" / "a.png", (0, 1))
    save(tmp_path / "images" / "b.png", 3)
    found = read(tmp_path, task="detection")
    assert [source.name for source in found.sources] == ["images/a"]
    assert found.notes[-1] == "1 pictures have no .xml file, the first is images/b.png"


def test_kitti_s_other_cameras_and_splits_have_no_labels_and_dont_care_is_ignored(tmp_path: Path) -> None:
    for folder in ("training/image_2", "training/image_3", "testing/image_2"):
        save(tmp_path / folder / "000000.png")
    region = "DontCare -1 -1 -10 0.5 1.5 3.5 4.5 -1 -1 -1 -1000 -1000 -1000 -10\n"
    write(tmp_path / "training/label_2/000000.txt", KITTI.strip() + " 0.9\n" + region)
    found = read(tmp_path, task="detection")
    (source,) = found.sources
    assert source.name == "training/image_2/000000"
    assert source.boxes == (CAR, Box(0.5, 1.5, 3.5, 4.5, "", ignored="crowd"))
    assert "2 pictures have no boxes of kitti" in found.notes[-1]


def test_turned_boxes_of_cvat_and_outlines(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png")
    more = (
        '<box label="bus" xtl="10" ytl="4" xbr="20" ybr="10" rotation="90.0"/>'
        '<polygon label="bus" points="1.0,2.0;3.0,2.5;2.0,7.0"/><polyline label="bus" points="0,0;5,5"/>'
    )
    write(tmp_path / "annotations.xml", cvat("images/a.png", more=more))
    found = read(tmp_path, task="detection")
    assert found.sources[0].boxes[0] == CAR
    assert found.sources[0].boxes[2] == Box(1, 2, 3, 7, "bus")
    turned = found.sources[0].boxes[1]
    assert (turned.x0, turned.y0, turned.x1, turned.y1) == pytest.approx((12, 2, 18, 12))
    assert any("turned" in note for note in found.notes)


def test_outlines_of_bdd100k_stand_for_themselves_without_boxes(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    parts = [{"vertices": [[4, 5], [8, 6], [5, 15]], "closed": True}, {"vertices": [[9, 9], [12, 9], [10, 12]]}]
    write(tmp_path / "seg.json", json.dumps([{"name": "a.png", "labels": [{"category": "car", "poly2d": parts}]}]))
    assert read(tmp_path, task="detection").sources[0].boxes == (CAR,)


@pytest.mark.parametrize(
    ("name", "file", "text", "reason"),
    [
        ("labelme", "a.json", labelme()[:-9], "a.json"),
        ("labelme", "a.json", labelme(points=[[4, 5]]), "two points"),
        ("labelme", "a.json", labelme(points=[[4, "x"], [5, 6]]), "x"),
        ("labelme", "a.json", labelme(points=[[4, float("nan")], [5, 6]]), "nan"),
        ("labelme", "a.json", labelme(label=7), "label should be text"),
        ("labelme", "a.json", labelme(label="a\x1b"), "label should be text"),
        ("labelme", "a.json", labelme().replace('"points"', '"dots"'), "lacks 'points'"),
        ("labelme", "a.json", labelme().replace(": 24", ": 1000000000"), "annotations are for"),
        ("KITTI", "training/label_2/a.txt", KITTI + "Car 1\n", "two points"),
        ("BDD100K", BDD, json.dumps([frame("a.png", box2d={"x1": 1})]), "lacks 'y1'"),
        ("CVAT", "annotations.xml", cvat("a.png", more="<box/>"), "label should be text"),
        ("CVAT", "annotations.xml", cvat("a.png").replace("</image>", "<track/></image>"), "tracks of a video"),
        ("Hugging Face", "metadata.jsonl", ROWS.replace("[4, 5, 8, 10]", "[4, 5]") % "a.png", "four numbers"),
        ("Hugging Face", "metadata.jsonl", ROWS.replace('"car"', '"car", "bus"') % "a.png", "differ in length"),
    ],
)  # fmt: skip
def test_a_bad_file_or_record_costs_its_picture(name: str, file: str, text: str, reason: str, tmp_path: Path) -> None:
    root = packed(tmp_path, name)
    write(root / file, text)
    found = read(root, layout=SETS[name][2] if SETS[name][2] != "folders" else None)
    assert [source for source in found.sources if source.boxes] == []
    assert any(reason in f"{problem.name} {problem.reason}" for problem in found.problems), found.problems


def test_bytes_that_are_no_text_and_entities_that_grow(tmp_path: Path) -> None:
    root = packed(tmp_path, "labelme")
    save(root / "b.png", 1)
    (root / "b.json").write_bytes(b'{"shapes": [\xff')
    save(root / "c.png", 2)
    write(root / "c.json", labelme())
    found = read(root, task="detection")
    assert [source.name for source in found.sources] == ["a", "c"]
    assert "b.json" in reasons(found)
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    text = f'<!DOCTYPE x [<!ENTITY e0 "lol">{entities}]>' + cvat("a.png").partition("?>")[2].replace("car", "&e11;")
    (tmp_path / "cvat").mkdir()
    save(tmp_path / "cvat" / "a.png")
    write(tmp_path / "cvat" / "annotations.xml", text)
    found = read(tmp_path / "cvat", layout="cvat")
    assert "annotations.xml" in reasons(found)


def test_two_records_of_one_picture_and_pictures_of_one_name(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    for folder in ("b", "c"):
        save(tmp_path / folder / "d.png")
    write(
        tmp_path / "all.json",
        json.dumps([frame("a.png"), frame("a.png"), frame("c/d.png"), frame("e.png"), frame("d.png")]),
    )
    found = read(tmp_path, task="detection")
    assert [source.name for source in found.sources] == ["a", "c/d"]
    assert "as another file or line does" in reasons(found)["a.png"]
    assert "no picture e" in reasons(found)["e.png"]
    assert "b/d.png and c/d.png" in reasons(found)["d.png"]


@pytest.mark.parametrize(
    ("file", "picture", "named"),
    [
        ("a.xml", "a.png", ""), ("a.jpg.json", "a.jpg", ""), ("ann/a.json", "img/a.png", ""),
        ("ds/ann/a.xml", "ds/img/a.png", ""), ("labels/train/a.txt", "images/train/a.png", ""),
        ("label_2/a.txt", "image_2/a.png", ""), ("x.json", "deep/er/a.png", "a.png"),
        ("x.json", "b/a.png", "C:\\b\\a.jpg"),
    ],
)  # fmt: skip
def test_which_picture_a_file_is_about(file: str, picture: str, named: str) -> None:
    strangers = ["other/z.png", "a/b.png"]
    assert Companions([*strangers, picture]).picture_of(file, named) == picture


@pytest.mark.parametrize(
    ("file", "picture"),
    [
        ("labels/train/a.txt", "images/val/a.png"), ("train/a.txt", "test/a.png"), ("label_2/a.txt", "image_3/a.png"),
        ("training/label_2/a.txt", "testing/image_2/a.png"), ("p/q/r/a.txt", "s/t/a.png"), ("b.txt", "a.png"),
    ],
)  # fmt: skip
def test_which_it_is_not(file: str, picture: str) -> None:
    with pytest.raises(ValueError, match="no picture"):
        Companions([picture]).picture_of(file)


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png")
    write(tmp_path / "labels" / "a.txt", YOLO)
    write(tmp_path / "images" / "a.json", '{"objects": []}')
    write(tmp_path / "train.csv", "ImageID,XMin\n")
    told = (
        r"detection needs boxes, .* 1 \.json files .*images/a\.json; 1 \.txt files .*labels/a\.txt; 1 \.csv .*train\."
    )
    refuse(rf"{told}csv.*YOLO with the classes' names.*labelme", tmp_path, task="detection")


def test_what_no_source_has_is_said_before_files_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    for task in ("classification", "segmentation", "detection"):
        refuse(f"{task} needs .*, and no source has one", tmp_path, task=task)


LISTED = {"train": "0", "val": "1", "test": "2"}


@pytest.mark.parametrize(
    ("entries", "lists"),
    [
        ({name: f"{name}.txt" for name in LISTED}, dict.fromkeys(LISTED, "./images/{}.png")),
        ({name: f"{name}.txt" for name in LISTED}, dict.fromkeys(LISTED, "/home/me/set/images/{}.png")),
        (
            {name: [f"lists/{name}.txt"] for name in LISTED},
            {f"lists/{name}": "D:\\set\\images\\{}.png" for name in LISTED},
        ),
        ({}, dict.fromkeys(LISTED, "data/images/{}.png")),
    ],
)  # fmt: skip
def test_yolo_s_lists_are_splits(entries: dict[str, Any], lists: dict[str, str], tmp_path: Path) -> None:
    for number in LISTED.values():
        save(tmp_path / "images" / f"{number}.png", int(number))
        write(tmp_path / "labels" / f"{number}.txt", YOLO)
    write(tmp_path / "data.yaml", json.dumps({"names": ["car"], **entries}))
    for name, line in lists.items():
        write(tmp_path / f"{name}.txt", line.format(LISTED[name.rpartition("/")[2]]) + "\n")
    for split, number in LISTED.items():
        assert [source.name for source in read(tmp_path, split=split).sources] == [f"images/{number}"]
    found = read(tmp_path)
    assert len(found.sources) == 3
    assert any("--split train or val or test" in note for note in found.notes)
    refuse("has no split dev; there are train, val, test", tmp_path, split="dev")


def test_yolo_s_folders_are_splits(tmp_path: Path) -> None:
    for i, folder in enumerate(("train", "val")):
        save(tmp_path / folder / "images" / "a.png", i)
        write(tmp_path / folder / "labels" / "a.txt", YOLO)
    write(tmp_path / "data.yaml", "names: [car]\ntrain: ../train/images\nval: val/images\n")
    assert [source.name for source in read(tmp_path, split="val").sources] == ["val/images/a"]
    assert [source.name for source in read(tmp_path, split="train").sources] == ["train/images/a"]
    found = read(tmp_path)
    assert not any("--split" in note for note in found.notes), "the folders say it"


def test_split_of_another_layout_says_what_the_layout_is(tmp_path: Path) -> None:
    packed(tmp_path / "bdd", "BDD100K")
    save(tmp_path / "plain" / "a.png")
    refuse("is read as folders; name the folder of a split", tmp_path / "plain", split="val")
