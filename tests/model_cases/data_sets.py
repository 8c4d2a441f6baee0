"""Sets of pictures: what brings their labels, boxes and masks is found and read right, or named."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from counterfactory.engine.suite import read_metadata

from .sets import save
from .table import Outcome, Told, Workshop, case

HEIGHT, WIDTH = 48, 64
SYNSETS = ("n01440764", "n01443537")
KITTI = "Car 0.00 0 -1.58 8.00 10.00 40.00 30.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n"
VOC = (
    "<annotation><size><width>64</width><height>48</height><depth>3</depth></size><object><name>car</name><bndbox>"
    "<xmin>9</xmin><ymin>11</ymin><xmax>40</xmax><ymax>30</ymax></bndbox></object></annotation>"
)
YOLO = "0 0.375 0.4166666667 0.5 0.4166666667\n"
RECTANGLE = {"label": "car", "points": [[8, 10], [40, 30]], "shape_type": "rectangle"}
FRAME = {"labels": [{"category": "car", "box2d": {"x1": 8, "y1": 10, "x2": 40, "y2": 30}}]}
CAR = [(8.0, 10.0, 40.0, 30.0)]


def photograph(path: Path, seed: int) -> None:
    """Noise under a bright third."""
    pixels = np.random.default_rng(seed).integers(20, 60, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    pixels[:, :20] += 120
    save(path, pixels)


def photographs(root: Path, names: Iterable[str]) -> None:
    for seed, name in enumerate(names):
        photograph(root / name, seed)


def files(root: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def originals(at: Workshop, outcome: Outcome) -> list[Any]:
    return [] if outcome.status else [row for row in read_metadata(at.folder / "suite") if row.kind == "original"]


def truths(at: Workshop, task: str, *words: object, source: str = "set") -> Mapping[str, Any]:
    """What a suite of the set is judged by: labels, boxes without and with their classes."""
    outcome = at.suite(source, task, *words)
    rows = originals(at, outcome)
    boxes = {tuple(round(side, 3) for side in (b.x0, b.y0, b.x1, b.y1)) for row in rows for b in row.boxes}
    return {
        "status": outcome.status,
        "sources": len(rows),
        "labels": sorted({str(row.label) for row in rows}),
        "boxes": sorted(boxes),
        "classes": sorted({box.label for row in rows for box in row.boxes}),
        "said": outcome.said,
    }


def boxed(name: str, source: str, pictures: tuple[str, str], texts: Mapping[str, str], *words: object) -> None:
    """A report about boxes in files beside two pictures."""

    @case(name, source, {"status": 0, "sources": 2, "boxes": CAR, "classes": ["car"]})
    def find(at: Workshop) -> Mapping[str, Any]:
        photographs(at.folder / "set", pictures)
        files(at.folder / "set", texts)
        return truths(at, "detection", *words)


def each(*names: str, text: str) -> dict[str, str]:
    return dict.fromkeys(names, text)


boxed(
    "34a Kaggle's VOC", "soumenpramanik/Convert-Pascal-VOC-to-COCO #4", ("images/0.png", "images/1.png"),
    each("annotations/0.xml", "annotations/1.xml", text=VOC),
)  # fmt: skip
boxed("34b labelImg", "labelImg's default", ("0.png", "1.png"), each("0.xml", "1.xml", text=VOC))
boxed(
    "34c labelme", "labelme's default", ("0.png", "1.png"),
    each("0.json", "1.json", text=json.dumps({"shapes": [RECTANGLE], "imageHeight": HEIGHT, "imageWidth": WIDTH})),
)  # fmt: skip
boxed(
    "34d CVAT's YOLO 1.1", "cvat-ai/cvat #8046, #9433", ("obj_train_data/0.png", "obj_train_data/1.png"),
    each("obj_train_data/0.txt", "obj_train_data/1.txt", text=YOLO)
    | {"obj.names": "car\n", "obj.data": "classes = 1\n", "train.txt": "data/obj_train_data/0.png\n"},
)  # fmt: skip
boxed(
    "34h labelImg's YOLO", "labelImg, pressed on PascalVOC", ("0.png", "1.png"),
    each("0.txt", "1.txt", text=YOLO) | {"classes.txt": "car\nbus\n"},
)  # fmt: skip
boxed(
    "34g BDD100K", "BDD100K's labels", ("images/100k/val/0.png", "images/100k/val/1.png"),
    {"labels/bdd100k_labels_images_val.json": json.dumps([{"name": f"{i}.png", **FRAME} for i in range(2)])},
)  # fmt: skip
boxed(
    "34i CVAT for images", "cvat-ai/cvat, its default export", ("images/0.png", "images/1.png"),
    {
        "annotations.xml": "<annotations>" + "".join(
            f'<image id="{i}" name="{i}.png" width="64" height="48">'
            '<box label="car" xtl="8" ytl="10" xbr="40" ybr="30"/></image>' for i in range(2)
        ) + "</annotations>",
    },
)  # fmt: skip
boxed(
    "34j DAWN as packed", "Kenk and Hassaballah 2020", ("Fog/0.png", "Fog/1.png"),
    each("Fog/Fog_PASCAL_VOC/0.xml", "Fog/Fog_PASCAL_VOC/1.xml", text=VOC)
    | each("Fog/Fog_YOLO_darknet/0.txt", "Fog/Fog_YOLO_darknet/1.txt", text="2 0.5 0.5 0.1 0.1\n"),
)  # fmt: skip
boxed(
    "34f Hugging Face's folder", "docs of datasets, object detection", ("0.png", "1.png"),
    {
        "metadata.jsonl": "".join(
            json.dumps({"file_name": f"{i}.png", "objects": {"bbox": [[8, 10, 32, 20]], "categories": ["car"]}}) + "\n"
            for i in range(2)
        ),
    },
)  # fmt: skip


@case("34e KITTI", "KITTI's object set", {"status": 0, "sources": 1, "boxes": CAR, "classes": ["Car"]})
def kitti(at: Workshop) -> Mapping[str, Any]:
    """Another camera and the test pictures have no labels."""
    photographs(
        at.folder / "set", (f"{name}/0.png" for name in ("training/image_2", "training/image_3", "testing/image_2"))
    )
    files(at.folder / "set", {"training/label_2/0.txt": KITTI})
    return truths(at, "detection")


@case(
    "34k CVAT's folder is no label", "cvat-ai/cvat PR #1151", {"status": 2, "said": Told("classification needs labels")}
)
def cvat_as_classes(at: Workshop) -> Mapping[str, Any]:
    photographs(at.folder / "set", ("obj_train_data/0.png", "obj_train_data/1.png"))
    files(at.folder / "set", each("obj_train_data/0.txt", text=YOLO) | {"obj.names": "car\n"})
    return truths(at, "classification")


@case(
    "34l files that are not read are named", "Datumaro, Supervisely, OpenImages",
    {"status": 2, "said": Told(r"2 \.json files .*ann/0\.png\.json.*boxes\.csv.*labelme")},
)  # fmt: skip
def not_read(at: Workshop) -> Mapping[str, Any]:
    photographs(at.folder / "set", ("img/0.png", "img/1.png"))
    thing = json.dumps({"objects": [{"classTitle": "car", "points": {"exterior": [[8, 10], [40, 30]]}}]})
    files(at.folder / "set", each("ann/0.png.json", "ann/1.png.json", text=thing) | {"boxes.csv": "ImageID,XMin\n"})
    return truths(at, "detection")


def masks_of(at: Workshop, mask: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Outcome:
    """A suite of pictures whose object, an eighth of each, a function makes a mask of."""
    seen = np.zeros((HEIGHT, WIDTH), np.uint8)
    seen[8:32, 8:24] = 1
    for i in range(3):
        photograph(at.folder / "set" / "images" / f"{i}.png", i)
        save(at.folder / "set" / "masks" / f"{i}.png", mask(seen))
    return at.suite("set", "segmentation")


COLOURS = np.array([[0, 0, 0, 255], [200, 30, 60, 255]], np.uint8)
ALPHA = {
    "31a coloured with an opaque alpha": (
        lambda seen: COLOURS[seen], {"status": 0, "said": Told("colour 200 30 60 12.5 %")},
    ),
    "31b the object in alpha alone": (
        lambda seen: np.array([[0, 0, 0, 0], [0, 0, 0, 255]], np.uint8)[seen],
        {"status": 0, "said": Told("object 12.5 %")},
    ),
    "31c grey with an opaque alpha": (
        lambda seen: np.dstack([255 * seen, np.full_like(seen, 255)]), {"status": 0, "said": Told("object 12.5 %")},
    ),
    "31d grey, the object in alpha alone": (
        lambda seen: np.dstack([np.zeros_like(seen), 255 * seen]), {"status": 0, "said": Told("object 12.5 %")},
    ),
    "31e colours before a clear background": (
        lambda seen: (COLOURS * [[1, 1, 1, 0], [1, 1, 1, 1]])[seen].astype(np.uint8),
        {"status": 0, "said": Told("colour 200 30 60 12.5 %")},
    ),
    "31f half transparent": (
        lambda seen: (COLOURS - [[0, 0, 0, 100], [0, 0, 0, 0]])[seen].astype(np.uint8),
        {"status": 2, "said": Told("alpha")},
    ),
    "31g smoothed alpha": (
        lambda seen: np.dstack([np.zeros((HEIGHT, WIDTH, 3), np.uint8), smoothed(seen)]),
        {"status": 2, "said": Told("smooth")},
    ),
}  # fmt: skip


def smoothed(seen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    small = Image.fromarray(255 * seen).resize((16, 12), Image.Resampling.BILINEAR)
    return np.asarray(small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


def _alpha(name: str) -> None:
    mask, right = ALPHA[name]

    @case(name, "Visual-Behavior/aloception-oss PR #99", right)
    def find(at: Workshop) -> Mapping[str, Any]:
        outcome = masks_of(at, mask)
        return {"status": outcome.status, "said": outcome.said}


for _name in ALPHA:
    _alpha(_name)


def levelled(name: str, source: str, levels: tuple[Iterable[str], ...], right: Mapping[str, Any]) -> None:
    """A report about pictures in folders within folders."""

    @case(name, source, right)
    def find(at: Workshop) -> Mapping[str, Any]:
        photographs(at.folder / "set", (f"{'/'.join(parts)}/0.png" for parts in product(*levels)))
        return truths(at, "classification")


ROBUSTNESS = "hendrycks/robustness, ImageNet-C/test.py"
levelled("32a ImageNet-C's fog", ROBUSTNESS, ("13", SYNSETS), {"labels": [*SYNSETS], "said": Told("1, 3, which are")})
levelled("32b ImageNet-C", ROBUSTNESS, (["fog", "snow"], "13", SYNSETS), {"labels": [*SYNSETS]})
levelled("32c CIFAR-10-C", ROBUSTNESS, (["fog"], "12", "0123"), {"labels": ["0", "1", "2", "3"]})
levelled("32d CIFAR-10", ROBUSTNESS, ("0123",), {"labels": ["0", "1", "2", "3"]})
levelled("32e cameras", "a rig", (["cam_1", "cam_2"], ["bus", "car"]), {"labels": ["bus", "car"]})
levelled("32f views below classes", "a turntable", (["bus", "car"], ["left", "right"]), {"labels": ["bus", "car"]})
levelled("32g domains", "Office-31", (["amazon", "webcam"], ["bike", "mug", "pen"]), {"labels": ["bike", "mug", "pen"]})
levelled(
    "32h nothing tells", "two towns", (["bus", "car"], ["london", "paris"]),
    {"status": 2, "said": Told("nothing tells .*--layout folders")},
)  # fmt: skip


@case("32i flat ImageNet", "EliSchwartz/imagenet-sample-images", {"labels": [*SYNSETS], "sources": 2})
def flat(at: Workshop) -> Mapping[str, Any]:
    photographs(at.folder / "set", ("n01440764_tench.JPEG", "n01443537_18.JPEG"))
    return truths(at, "classification")


def tarred(path: Path, members: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


@case(
    "36 keys that begin anew in each shard",
    "webdataset #157, clip-retrieval #32",
    {"sources": 6, "labels": ["bus", "car"]},
)
def shards(at: Workshop) -> Mapping[str, Any]:
    for number, label in enumerate(("bus", "car")):
        members = dict[str, bytes]()
        for i in range(3):
            photograph(at.folder / "x.png", 3 * number + i)
            members |= {f"{i:06d}.png": (at.folder / "x.png").read_bytes(), f"{i:06d}.cls": label.encode()}
        tarred(at.folder / "set" / f"shard-{number:06d}.tar", members)
    return truths(at, "classification")


@case("D1 thumbnails of a file server", "Synology's @eaDir", {"sources": 2, "labels": ["bus", "car"]})
def thumbnails(at: Workshop) -> Mapping[str, Any]:
    photographs(
        at.folder / "set", ("bus/0.png", "car/0.png", "bus/@eaDir/0.png/SYNOPHOTO_THUMB_M.png", "__MACOSX/a.png")
    )
    return truths(at, "classification")


@case("D2 YOLO's lists", "ultralytics' val.txt", {"status": 0, "sources": 1})
def yolo_lists(at: Workshop) -> Mapping[str, Any]:
    photographs(at.folder / "set", ("images/0.png", "images/1.png"))
    files(
        at.folder / "set",
        each("labels/0.txt", "labels/1.txt", text=YOLO) | {"data.yaml": "names: [car]\nval: val.txt\n"},
    )
    files(at.folder / "set", {"val.txt": "./images/1.png\n", "train.txt": "./images/0.png\n"})
    return truths(at, "detection", "--split", "val")


@case("D3 pose labels without kpt_shape", "ultralytics' pose", {"status": 2, "said": Told(r"kpt_shape: .*\[4, 3\]")})
def poses(at: Workshop) -> Mapping[str, Any]:
    photographs(at.folder / "set", ("images/0.png", "images/1.png"))
    files(at.folder / "set", {
        "data.yaml": "names: [car]\n", "labels/0.txt": "0 0.5 0.5 0.4 0.4 0.5 0.5 2 0.4 0.6 1 0 0 0 0.6 0.6 1\n",
        "labels/1.txt": "0 0.5 0.5 0.4 0.4 0.5 0.5 1 0.4 0.6 1 0.55 0.4 1 0 0 0\n",
    })  # fmt: skip
    return truths(at, "detection")


@case("D4 tables with tabs and semicolons", "spreadsheets", {"first": ["bus", "car"], "second": ["bus", "car"]})
def tables(at: Workshop) -> Mapping[str, Any]:
    photographs(at.folder / "set", ("0.png", "1.png"))
    labels = []
    for name, mark in (("labels.tsv", "\t"), ("labels.csv", ";")):
        files(at.folder, {name: f"image{mark}label\n0.png{mark}bus\n1.png{mark}car\n"})
        labels.append(truths(at, "classification", "--labels", name)["labels"])
    return {"first": labels[0], "second": labels[1]}
