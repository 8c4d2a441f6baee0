"""True boxes: what counts of them, what their numbers mean, and whose pictures they are of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from counterfactory.engine.suite.metadata import read_metadata

from .sets import save
from .table import Told, Workshop, case

WIDTH, HEIGHT, PICTURES = 96, 64, 4
REFUSED = 2
Four = tuple[float, float, float, float]
# True boxes x0, y0, x1, y1 of picture i, all small, the first of which touches the upper left corner of picture 0.
THINGS: tuple[tuple[Four, ...], ...] = tuple(
    ((6.0 * i, 4.0 * i, 6.0 * i + 12, 4.0 * i + 10), (50.0 + 8 * i, 30.0 + 2 * i, 62.0 + 8 * i, 44.0 + 2 * i))
    for i in range(PICTURES)
)
CROWD: Four = (20, 4, 48, 28)
# What a perfect model says of each picture: boxes, by a class's name.
Seen = Callable[[int], Iterable[tuple[str, Four]]]


def pictures(folder: Path, ending: str = "png") -> None:
    for i in range(PICTURES):
        save(folder / f"{i}.{ending}", np.random.default_rng(i).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))


def size(box: Four) -> list[float]:
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def coco(root: Path, annotations: Sequence[Mapping[str, Any]] = (), **changes: Any) -> None:
    """A car for each thing, as COCO has it, and other annotations; `changes` replace lists of the file."""
    pictures(root / "val")
    cars = [{"image_id": i, "category_id": 3, "bbox": size(box)} for i in range(PICTURES) for box in THINGS[i]]
    listed = [{"id": number, "iscrowd": 0, **one} for number, one in enumerate([*cars, *annotations], start=1)]
    images = [{"id": i, "file_name": f"{i}.png", "height": HEIGHT, "width": WIDTH} for i in range(PICTURES)]
    content = {"images": images, "annotations": listed, "categories": [{"id": 3, "name": "car"}], **changes}
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_val.json").write_text(json.dumps(content))


def voc(root: Path, boxes: Callable[[int], Iterable[str]]) -> None:
    """Pascal VOC's files, whose objects have these texts after their names."""
    pictures(root / "JPEGImages")
    (root / "Annotations").mkdir()
    for i in range(PICTURES):
        objects = "".join(f"<object><name>car</name>{text}</object>" for text in boxes(i))
        about = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height></size>"
        (root / "Annotations" / f"{i}.xml").write_text(f"<annotation>{about}{objects}</annotation>")


def bndbox(box: Sequence[float]) -> str:
    sides = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    return "<bndbox>" + "".join(f"<{side}>{number:g}</{side}>" for side, number in sides) + "</bndbox>"


def yolo(root: Path, line: Callable[[Four], Iterable[Sequence[float]]]) -> None:
    """YOLO's files, with lines of shares for each thing."""
    pictures(root / "images")
    (root / "labels").mkdir()
    (root / "data.yaml").write_text("names: [car]\n")
    for i in range(PICTURES):
        lines = (" ".join(map(str, numbers)) for box in THINGS[i] for numbers in line(box))
        (root / "labels" / f"{i}.txt").write_text("".join(f"0 {text}\n" for text in lines))


def cars(i: int) -> Iterable[tuple[str, Four]]:
    return [("car", box) for box in THINGS[i]]


def judge(at: Workshop, seen: Seen = cars, *words: object) -> dict[str, Any]:
    """What comes of a model that sees what it sees, in a suite of the set in "set"."""
    made = at.suite("set", "detection")
    if made.status == REFUSED:
        return {"status": made.status, "said": made.said}
    results = [
        {"image_id": row.file_name, "category_id": name, "bbox": size(box), "score": 0.9}
        for row in read_metadata(at.folder / "suite")
        for name, box in seen(int(row.source.rpartition("/")[2]))
    ]
    (at.folder / "results.json").write_text(json.dumps(results))
    outcome = at.ask("--predictions", "results.json", *words)
    alarms = next((one for one in outcome.data.get("beside", ()) if one["name"] == "false alarms"), None)
    return {
        "status": outcome.status,
        "originals": outcome.score() if outcome.data else None,
        "alarms": alarms and round(100 * alarms["originals"]["value"], 1),
        "said": f"{made.said} {outcome.said}",
    }


RIGHT = {"status": 0, "originals": 100.0, "alarms": 0.0}


@case("25a a crowd's things are found", "facebookresearch/sam3 #585, cocodataset/cocoapi #444", RIGHT)
def a_crowd(at: Workshop) -> Mapping[str, Any]:
    crowds = [{"image_id": i, "category_id": 3, "bbox": size(CROWD), "iscrowd": 1} for i in range(PICTURES)]
    coco(at.folder / "set", crowds)
    return judge(at, lambda i: [*cars(i), ("car", (21, 5, 29, 15)), ("car", (30, 8, 38, 20)), ("car", (39, 9, 46, 26))])


@case("25b a difficult thing is missed", "VOC's development kit, tensorpack PR #984", RIGHT)
def a_difficult_thing_is_missed(at: Workshop) -> Mapping[str, Any]:
    hard = bndbox((21, 5, 48, 28)) + "<difficult>1</difficult>"
    voc(at.folder / "set", lambda i: [*map(bndbox, _from_one(i)), hard])
    return judge(at)


@case("25c a difficult thing is found twice", "VOC's development kit", RIGHT)
def a_difficult_thing_is_found_twice(at: Workshop) -> Mapping[str, Any]:
    hard = bndbox((21, 5, 48, 28)) + "<difficult>1</difficult>"
    voc(at.folder / "set", lambda i: [*map(bndbox, _from_one(i)), hard])
    return judge(at, lambda i: [*cars(i), ("car", CROWD), ("car", (20, 4, 48, 27))])


@case(
    "25d a part of a difficult thing is a false alarm",
    "VOC's development kit",
    {"status": 0, "alarms": 33.3},
)
def a_part_of_a_difficult_thing(at: Workshop) -> Mapping[str, Any]:
    hard = bndbox((21, 5, 48, 28)) + "<difficult>1</difficult>"
    voc(at.folder / "set", lambda i: [*map(bndbox, _from_one(i)), hard])
    return judge(at, lambda i: [*cars(i), ("car", (22, 6, 28, 12))])


@case(
    "25e things drawn by CVAT's brush",
    "cvat-ai/cvat, masks drawn by brush have iscrowd 1",
    RIGHT | {"said": Told("single things")},
)
def all_are_crowds(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", annotations=[])
    file = at.folder / "set" / "annotations" / "instances_val.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"annotations": [one | {"iscrowd": 1} for one in content["annotations"]]}))
    return judge(at)


@case(
    "25f crowds alone are no class",
    "rwightman/efficientdet-pytorch #107",
    RIGHT | {"said": Told("marked as crowds")},
)
def a_class_of_crowds(at: Workshop) -> Mapping[str, Any]:
    crowds = [{"image_id": i, "category_id": 4, "bbox": size(CROWD), "iscrowd": 1} for i in range(PICTURES)]
    named = [{"id": 3, "name": "car"}, {"id": 4, "name": "person"}]
    coco(at.folder / "set", crowds, categories=named)
    return judge(at, lambda i: [*cars(i), ("person", (21, 5, 29, 15))])


def _names(at: Workshop, *names: str) -> tuple[str, str]:
    (at.folder / "names.txt").write_text("\n".join(names))
    return "--classes", "names.txt"


@case(
    "27a classes that the set does not label",
    "cocodataset/cocoapi #55, AlexeyAB/darknet #3487",
    RIGHT | {"said": Told(r"\b\d+ boxes of 2 classes that the set does not label are not counted, such as person")},
)
def classes_that_the_set_does_not_label(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set")
    more = [("person", (2, 40, 10, 60)), ("person", (12, 40, 20, 60)), ("dog", (22, 40, 30, 60))]
    return judge(at, lambda i: [*cars(i), *more], *_names(at, "person", "car", "dog"))


@case("27b a class that the set names and no picture shows", "cocodataset/cocoapi #55", {"alarms": 33.3})
def a_class_that_the_set_names(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", categories=[{"id": 3, "name": "car"}, {"id": 4, "name": "person"}])
    return judge(at, lambda i: [*cars(i), ("person", (2, 40, 10, 60))], *_names(at, "person", "car", "dog"))


@case(
    "27c a class that nobody knows", "rizavelioglu/fashionfail #2", {"status": REFUSED, "said": Told("'Cars'.*'car'")}
)
def a_class_that_nobody_knows(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set")
    return judge(at, lambda i: [("Cars", box) for _, box in cars(i)])


def _of_images(change: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [{"id": change(i), "file_name": f"{i}.png", "height": HEIGHT, "width": WIDTH} for i in range(PICTURES)]


@case("35a ids that pandas made floats", "cocodataset/cocoapi #689", RIGHT)
def ids_are_floats(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", images=_of_images(float))
    return judge(at)


@case("35b ids that are text", "cvat-ai/cvat #298", RIGHT)
def ids_are_text(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", images=_of_images(str), categories=[{"id": "3", "name": "car"}])
    return judge(at)


@case("35c categories that are floats", "pylabel-project/pylabel #46", RIGHT)
def categories_are_floats(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", categories=[{"id": 3.0, "name": "car"}])
    return judge(at)


@case(
    "35d ids of another list",
    "cvat-ai/cvat #298",
    {"status": REFUSED, "said": Told("none of 8 annotations is of an image that it lists.*image_id 0.*'0.png'")},
)
def ids_of_another_list(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", images=_of_images(lambda i: f"{i}.png"))
    return judge(at)


@case("truth a doubled lines of YOLO", "ultralytics/yolov5 #2640", RIGHT | {"said": Told("8 boxes are there again")})
def doubled_lines(at: Workshop) -> Mapping[str, Any]:
    yolo(at.folder / "set", lambda box: [_shares(box)] * 2)
    return judge(at)


@case("truth b doubled annotations of COCO", "merged exports", RIGHT | {"said": Told("8 boxes are there again")})
def doubled_annotations(at: Workshop) -> Mapping[str, Any]:
    coco(
        at.folder / "set",
        [{"image_id": i, "category_id": 3, "bbox": size(box)} for i in range(PICTURES) for box in THINGS[i]],
    )
    return judge(at)


@case("truth c doubled objects of VOC", "merged exports", RIGHT | {"said": Told("8 boxes are there again")})
def doubled_objects(at: Workshop) -> Mapping[str, Any]:
    voc(at.folder / "set", lambda i: [*map(bndbox, _from_one(i))] * 2)
    return judge(at)


def _shares(box: Four) -> list[float]:
    x0, y0, x1, y1 = box
    return [(x0 + x1) / 2 / WIDTH, (y0 + y1) / 2 / HEIGHT, (x1 - x0) / WIDTH, (y1 - y0) / HEIGHT]


def _from_one(i: int) -> list[Four]:
    return [(x0 + 1, y0 + 1, x1, y1) for x0, y0, x1, y1 in THINGS[i]]


@case("truth d VOC from 1", "VOC's development kit", RIGHT)
def from_one(at: Workshop) -> Mapping[str, Any]:
    voc(at.folder / "set", lambda i: map(bndbox, _from_one(i)))
    return judge(at)


@case(
    "truth e VOC from 0", "facebookresearch/detectron #227", RIGHT | {"said": Told("pixels from 0, up to their ends")}
)
def from_zero(at: Workshop) -> Mapping[str, Any]:
    voc(at.folder / "set", lambda i: map(bndbox, THINGS[i]))
    return judge(at)


@case(
    "truth f VOC from 0, with the last pixel",
    "boxes made of masks by their least and largest pixels",
    RIGHT | {"said": Told("pixels from 0, with the last one")},
)
def from_zero_to_the_last(at: Workshop) -> Mapping[str, Any]:
    edge = (WIDTH - 12.0, HEIGHT - 10.0, float(WIDTH), float(HEIGHT))
    voc(at.folder / "set", lambda i: [bndbox((x0, y0, x1 - 1, y1 - 1)) for x0, y0, x1, y1 in (*THINGS[i], edge)])
    return judge(at, lambda i: [*cars(i), ("car", edge)])


@case("truth g VOC between pixels", "cvat-ai/cvat, its export to VOC", RIGHT | {"said": Told("between pixels")})
def between_pixels(at: Workshop) -> Mapping[str, Any]:
    def moved(box: Four) -> Four:
        return box[0] + 1.5, box[1] + 2.25, box[2] + 1.5, box[3] + 2.25

    voc(at.folder / "set", lambda i: [bndbox(moved(box)) for box in THINGS[i]])
    return judge(at, lambda i: [("car", moved(box)) for box in THINGS[i]])


# Turned by 90 degrees about its middle.
def _turned(box: Four) -> Four:
    x, y, width, height = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0], box[3] - box[1]
    return x - height / 2, y - width / 2, x + height / 2, y + width / 2


LONG: Four = (60, 10, 90, 18)
SLANTED: Four = (75 - 38 / 8**0.5, 14 - 38 / 8**0.5, 75 + 38 / 8**0.5, 14 + 38 / 8**0.5)  # LONG by 45 degrees


@case("truth h CVAT's rotation", "cvat-ai/cvat #1680", RIGHT | {"said": Told("4 boxes are turned")})
def rotation(at: Workshop) -> Mapping[str, Any]:
    turns = ({"attributes": {"occluded": False, "rotation": 45.0}}, {"rotation": 90}, {"attributes": {"rotation": 0.0}})
    boxes = [(0, LONG, turns[0]), (1, LONG, turns[0]), (2, LONG, turns[1]), (3, LONG, turns[1]), (0, CROWD, turns[2])]
    more = [{"image_id": i, "category_id": 3, "bbox": size(box), **turn} for i, box, turn in boxes]
    coco(at.folder / "set", more)
    first = {0: [("car", SLANTED), ("car", CROWD)], 1: [("car", SLANTED)]}
    return judge(at, lambda i: [*cars(i), *first.get(i, [("car", _turned(LONG))])])


@case("truth i robndbox", "labelImg2, roLabelImg", RIGHT | {"said": Told("4 boxes are turned")})
def robndbox(at: Workshop) -> Mapping[str, Any]:
    turned = "<robndbox><cx>75</cx><cy>14</cy><w>30</w><h>8</h><angle>0.785398163</angle></robndbox>"
    voc(at.folder / "set", lambda i: [*map(bndbox, THINGS[i]), f"<type>robndbox</type>{turned}"])
    return judge(at, lambda i: [*cars(i), ("car", SLANTED)])


@case(
    "truth j YOLO's turned boxes",
    "ultralytics, OBB labels",
    RIGHT | {"said": Told("8 lines have four points.*upright")},
)
def four_points(at: Workshop) -> Mapping[str, Any]:
    def corners(box: Four) -> list[float]:
        x0, y0, x1, y1 = box
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        return [x / WIDTH, y0 / HEIGHT, x1 / WIDTH, y / HEIGHT, x / WIDTH, y1 / HEIGHT, x0 / WIDTH, y / HEIGHT]

    yolo(at.folder / "set", lambda box: [corners(box)])
    return judge(at)


@case(
    "truth k reversed corners", "labelImg, boxes drawn from below", RIGHT | {"said": Told("8 of 8 boxes are reversed")}
)
def reversed_corners(at: Workshop) -> Mapping[str, Any]:
    # Of which no size would lie in the pictures.
    right = [tuple(WIDTH - n if i % 2 == 0 else HEIGHT - n for i, n in enumerate(box)) for box in THINGS[0]]
    voc(at.folder / "set", lambda i: [bndbox([n - 3 * i for n in box]) for box in right])
    return judge(
        at,
        lambda i: [("car", tuple(box[k] - 3 * i - (k > 1) for k in (2, 3, 0, 1))) for box in right],  # type: ignore[misc]
    )


@case(
    "truth l one box has its corners reversed",
    "labelImg, boxes drawn from below",
    {"status": 0, "originals": 100.0, "said": Told("has its corners reversed")},
)
def one_reversed_box(at: Workshop) -> Mapping[str, Any]:
    wrong = bndbox((60, 40, 52, 30))
    voc(at.folder / "set", lambda i: [*map(bndbox, _from_one(i)), *([wrong] if i == 3 else [])])
    return judge(at)


@case(
    "truth m y before x",
    "Matterport's Mask R-CNN, TensorFlow",
    {"status": REFUSED, "said": Told("y0, x0, y1, x1 they fit")},
)
def y_before_x(at: Workshop) -> Mapping[str, Any]:
    wide = [(x, y, x + 12.0, y + 8.0) for x in range(10, 82, 24) for y in (5, 45)]
    voc(at.folder / "set", lambda i: [bndbox((y0, x0, y1, x1)) for x0, y0, x1, y1 in wide])
    return judge(at)


@case(
    "truth n panoptic segments",
    "cocodataset/panopticapi",
    {"status": REFUSED, "said": Told("panoptic.*segments_info.*instances_")},
)
def panoptic(at: Workshop) -> Mapping[str, Any]:
    coco(at.folder / "set", annotations=[])
    file = at.folder / "set" / "annotations" / "instances_val.json"
    segments = [{"image_id": i, "file_name": f"{i}.png", "segments_info": []} for i in range(PICTURES)]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"annotations": segments}))
    return judge(at)


@case("truth o a box without a size", "labelImg, clicks", RIGHT | {"said": Told("1 boxes without width or height")})
def a_flat_box(at: Workshop) -> Mapping[str, Any]:
    voc(at.folder / "set", lambda i: [*map(bndbox, _from_one(i)), *([bndbox((31, 5, 30, 40))] if i == 0 else [])])
    return judge(at)
