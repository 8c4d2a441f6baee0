"""Answers as a set: what their numbers stand for, what is missing of them, and what is no answer at all. Pictures are
held by pixels, so that a model can say what is true of each, and say it in another way than the suite does.
"""

from __future__ import annotations

import atexit
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import yaml
from PIL import Image

from counterfactory.engine.judging.answer_census import COCO
from counterfactory.engine.suite import PictureRow
from counterfactory.engine.suite.metadata import read_metadata

from .sets import classified, save
from .table import Outcome, Told, Workshop, case, working_in

REFUSED = 2
THINGS = {"car": 3, "bus": 6, "truck": 8}
NAMES = list(THINGS)
NUMBERED = [str(number) for number in range(12)]
Rows = Sequence[PictureRow]
Four = tuple[float, float, float, float]
# A box x0, y0, x1, y1 of a picture of (height, width) in another form.
Form = Callable[[Four, int, int], Iterable[float]]

TRUTH = """
import numpy as np
from PIL import Image
from counterfactory.engine.suite.metadata import read_metadata
from pathlib import Path
def pixels(name): return np.asarray(Image.open(Path("suite") / name).convert("RGB"))
TRUTH = {pixels(row.file_name).tobytes(): row for row in read_metadata(Path("suite"))}
def rows(pictures): return [TRUTH[one.tobytes()] for one in pictures]
NAMES = ["car", "bus", "truck"]
"""


def things(root: Path, count: int = 8) -> None:
    """COCO's layout of pictures 96 x 64 with a car, a bus and a truck at other places in each; the first has no bus."""
    images, annotations = [], []
    for i in range(count):
        save(root / "val" / f"{i}.png", np.random.default_rng(i).integers(0, 256, (64, 96, 3), dtype=np.uint8))
        images.append({"id": i + 1, "file_name": f"{i}.png", "width": 96, "height": 64})
        rng = np.random.default_rng(100 + i)
        columns = rng.permutation(3).tolist()
        for place, number in enumerate(THINGS.values()):
            if i or number != THINGS["bus"]:
                x, y, width, height = (int(rng.integers(*ends)) for ends in ((0, 14), (2, 34), (10, 16), (14, 28)))
                box = [30 * columns[place] + x, y, width, height]
                one = {"id": len(annotations) + 1, "image_id": i + 1, "category_id": number, "bbox": box, "iscrowd": 0}
                annotations.append({**one, "area": box[2] * box[3]})
    categories = [{"id": number, "name": name} for name, number in THINGS.items()]
    (root / "annotations").mkdir(parents=True)
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "annotations" / "instances_val.json").write_text(json.dumps(content))


def squares(root: Path, nothing: int = 0) -> None:
    """Square pictures and masks of 0 to 3 in patches that no turn leaves as they are, of which `nothing` makes less."""
    for i in range(4):
        save(root / "images" / f"{i}.png", np.random.default_rng(i).integers(0, 256, (64, 64, 3), dtype=np.uint8))
        mask = np.zeros((64, 64), np.uint8)
        mask[4 : 40 - nothing, 2:20], mask[44:60, 2 : 50 - nothing], mask[2:14, 30:62] = 1, 2, 3
        save(root / "masks" / f"{i}.png", np.roll(mask, i, axis=1))


def numbered(root: Path) -> None:
    classified(root, 1, NUMBERED)


def named(*classes: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        classified(root, 4, classes)

    return make


MAKERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "things": (things, "detection"),
    "squares": (squares, "segmentation"),
    "nothing": (lambda root: squares(root, 26), "segmentation"),
    "numbered": (numbered, "classification"),
    "thirds": (named("bus", "car", "truck"), "classification"),
    "dogs": (named("Boston_bull", "tabby_cat", "fire_truck"), "classification"),
    "cased": (named("Bus", "car", "Truck"), "classification"),
    "two": (named("bus", "car"), "classification"),
    "six": (lambda root: classified(root, 2), "classification"),
}


@cache
def suite_of(kind: str) -> Path:
    """A suite that cases share."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make, task = MAKERS[kind]
    with working_in(folder) as workshop:
        make(folder / "set")
        assert not workshop.suite("set", task, *["--allow-ungrounded"][: task == "classification"]).status
    return folder


def open_suite(at: Workshop, kind: str) -> Rows:
    """The rows of a shared suite, in the folder of the case."""
    shutil.copytree(suite_of(kind), at.folder, dirs_exist_ok=True)
    return read_metadata(at.folder / "suite")


def facts(outcome: Outcome) -> dict[str, Any]:
    kinds = ("originals", "controls", "variants")
    return {"status": outcome.status, "said": outcome.said} | {kind: outcome.score(kind) for kind in kinds}


RIGHT = {"status": 0, "originals": 100.0, "variants": 100.0}


def pixels_of(box: Four, height: int, width: int) -> Four:
    return box


def sizes_of(box: Four, height: int, width: int) -> Four:
    return box[0], box[1], box[2] - box[0], box[3] - box[1]


def results(rows: Rows, form: Form = sizes_of, category: Callable[[str], Any] = str, **more: Any) -> list[Any]:
    """What is true of the pictures as COCO's results."""
    return [
        {
            "image_id": row.file_name,
            "category_id": category(box.label),
            "bbox": list(form((box.x0, box.y0, box.x1, box.y1), 64, 96)),
            "score": 0.9,
            **more,
        }
        for row in rows
        for box in row.boxes
    ]


# Boxes: what the four numbers are.

FORMS: dict[str, Form] = {
    "corners": pixels_of,
    "middles": lambda box, h, w: ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0], box[3] - box[1]),
    "y first": lambda box, h, w: (box[1], box[0], box[3], box[2]),
    "y first and sizes": lambda box, h, w: (box[1], box[0], box[3] - box[1], box[2] - box[0]),
    "shares": lambda box, h, w: (box[0] / w, box[1] / h, box[2] / w, box[3] / h),
    "shares of middles": lambda box, h, w: (
        (box[0] + box[2]) / 2 / w, (box[1] + box[3]) / 2 / h, (box[2] - box[0]) / w, (box[3] - box[1]) / h,
    ),
    "thousandths, y first": lambda box, h, w: (
        1000 * box[1] / h, 1000 * box[0] / w, 1000 * box[3] / h, 1000 * box[2] / w,
    ),
}  # fmt: skip


def in_form(name: str, form: Form) -> None:
    @case(f"18 boxes in a file: {name}", "huggingface/transformers; cocodataset/cocoapi; forum threads", RIGHT)
    def file(at: Workshop) -> Mapping[str, Any]:
        rows = open_suite(at, "things")
        (at.folder / "results.json").write_text(json.dumps(results(rows, form)))
        return facts(at.ask("--predictions", "results.json"))

    @case(f"18 boxes of a callable: {name}", "pytorch/vision #2740; ultralytics forum threads", RIGHT)
    def model(at: Workshop) -> Mapping[str, Any]:
        open_suite(at, "things")
        at.module(
            "seen",
            f"{TRUTH}\nfrom model_cases.given_answers import FORMS\ndef model(pictures):\n"
            f"    form = FORMS[{name!r}]\n"
            "    return [dict(boxes=[list(form((b.x0, b.y0, b.x1, b.y1), 64, 96)) for b in row.boxes], scores=[0.9] * "
            "len(row.boxes), labels=[b.label for b in row.boxes]) for row in rows(pictures)]",
        )
        return facts(at.ask("--model", "seen:model"))


for _name, _form in FORMS.items():
    in_form(_name, _form)


@case(
    "18 boxes in the pixels of an input of 640",
    "ultralytics/yolov5 #1277",
    {"status": REFUSED, "said": Told("640 x 640.*pictures' own pixels")},
)
def boxes_of_an_input(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")

    def scaled(box: Four, height: int, width: int) -> list[float]:
        sides = (width, height, width, height)
        return [part * 640 / side for part, side in zip(sizes_of(box, height, width), sides, strict=True)]

    (at.folder / "results.json").write_text(json.dumps(results(rows, scaled)))
    return facts(at.ask("--predictions", "results.json"))


@case("18 a detector that is bad", "none", {"status": 0, "originals": 0.0, "corrected": False})
def a_bad_detector(at: Workshop) -> Mapping[str, Any]:
    rows, rng = open_suite(at, "things"), np.random.default_rng(0)

    def anywhere(box: Four, height: int, width: int) -> list[float]:
        return [*(rng.uniform(0, 0.6, 2) * (width, height)), *(rng.uniform(0.05, 0.3, 2) * (width, height))]

    (at.folder / "results.json").write_text(json.dumps(results(rows, anywhere)))
    outcome = at.ask("--predictions", "results.json")
    return facts(outcome) | {"corrected": "read so" in outcome.said or "too few" in outcome.said}


# Boxes: what is no number of a box.

for _broken, _told in (
    ({"score": 97.5}, "score.*97.5.*percent"),
    ({"bbox": [1, 2, float("nan"), 4]}, "NaN"),
    ({"bbox": [1, 2, -3, 4]}, "result 0: bbox"),
    ({"score": None}, "result 0"),
    ({"category_id": None}, "result 0"),
):

    def broken(changes: Mapping[str, Any], told: str) -> None:
        @case(f"22 a result of {json.dumps(changes)}", "no thread", {"status": REFUSED, "said": Told(told)})
        def find(at: Workshop) -> Mapping[str, Any]:
            rows = open_suite(at, "things")
            (at.folder / "results.json").write_text(json.dumps(results(rows, **changes)))
            return facts(at.ask("--predictions", "results.json"))

    broken(_broken, _told)


@case("22 scores that are rounded above 1", "no thread", RIGHT)
def rounded_scores(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")
    (at.folder / "results.json").write_text(json.dumps(results(rows, score=1.0000001)))
    return facts(at.ask("--predictions", "results.json"))


# Boxes: what numbers of classes are of.

DECLARED = "def model(pictures):\n    return [dict(boxes=[[b.x0, b.y0, b.x1, b.y1] for b in row.boxes], scores=[0.9] * len(row.boxes), labels=[NUMBER[b.label] for b in row.boxes]) for row in rows(pictures)]\n"  # noqa: E501


@case("18a labels counted from one", "pytorch/vision #1952", {**RIGHT, "said": Told("counted from 1|set's own")})
def from_one(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "things")
    numbers = "NUMBER = {name: number for number, name in enumerate(NAMES, 1)}\n"
    at.module("seen", f"{TRUTH}{numbers}{DECLARED}model.classes = NAMES")
    return facts(at.ask("--model", "seen:model"))


@case("18b labels counted from one, the last class unseen", "airctic/icevision #661", RIGHT)
def from_one_of_four(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "things")
    numbers = "NUMBER = {name: number for number, name in enumerate(NAMES, 1)}\n"
    at.module("seen", f"{TRUTH}{numbers}{DECLARED}model.classes = [*NAMES, 'tram']")
    return facts(at.ask("--model", "seen:model"))


@case("18c labels counted from zero", "no thread", RIGHT)
def from_zero(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "things")
    numbers = "NUMBER = {name: number for number, name in enumerate(NAMES)}\n"
    at.module("seen", f"{TRUTH}{numbers}{DECLARED}model.classes = NAMES")
    return facts(at.ask("--model", "seen:model"))


@case("18d COCO's 80 from a model without names", "open-mmlab/mmdetection #2361", RIGHT)
def eighty(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "things")
    at.module("seen", f"{TRUTH}NUMBER = dict(car=2, bus=5, truck=7)\n{DECLARED}")
    return facts(at.ask("--model", "seen:model"))


def coco_names(folder: Path) -> Path:
    """The 80 names of COCO, a line each."""
    (folder / "coco.names").write_text("\n".join(COCO))
    return folder / "coco.names"


def yaml_of(folder: Path) -> Path:
    (folder / "data.yaml").write_text(yaml.safe_dump({"names": {number: name for name, number in THINGS.items()}}))
    return folder / "data.yaml"


def config_of(folder: Path) -> Path:
    names = {str(number): name for name, number in THINGS.items()}
    (folder / "config.json").write_text(json.dumps({"model_type": "detr", "id2label": names}))
    return folder / "config.json"


def pbtxt_of(folder: Path) -> Path:
    items = (
        f"item {{\n  id: {number}\n  name: '/m/{number}'\n  display_name: \"{name}\"\n}}\n"
        for name, number in THINGS.items()
    )
    (folder / "labelmap.pbtxt").write_text("".join(items))
    return folder / "labelmap.pbtxt"


CLASSES: dict[str, Callable[[Path], Path | None]] = {
    "nothing": lambda folder: None,
    "coco.names": coco_names,
    "the set's own file": lambda folder: folder / "set" / "annotations" / "instances_val.json",
    "YAML": yaml_of,
    "id2label": config_of,
    "pbtxt": pbtxt_of,
}


def by_classes(name: str, write: Callable[[Path], Path | None]) -> None:
    @case(f"22 COCO's categories and {name}", "facebookresearch/detr #444; IDEA-Research/DINO #46", RIGHT)
    def find(at: Workshop) -> Mapping[str, Any]:
        rows, file = open_suite(at, "things"), write(at.folder)
        (at.folder / "results.json").write_text(json.dumps(results(rows, category=THINGS.__getitem__)))
        return facts(at.ask("--predictions", "results.json", *([] if file is None else ["--classes", file])))


for _name, _write in CLASSES.items():
    by_classes(_name, _write)


@case("22 numbers of classes as texts", "no thread", RIGHT)
def text_numbers(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")
    (at.folder / "results.json").write_text(json.dumps(results(rows, category=lambda name: str(THINGS[name]))))
    return facts(at.ask("--predictions", "results.json"))


# Boxes: which pictures they are of.


def numbering(first: int) -> Callable[[Rows, PictureRow], Any]:
    return lambda rows, row: rows.index(row) + first


IMAGES: dict[str, Callable[[Rows, PictureRow], Any]] = {
    "rows from 0": numbering(0),
    "rows from 1": numbering(1),
    "rows from 1, as texts": lambda rows, row: str(rows.index(row) + 1),
    "rows from 0, as floats": lambda rows, row: float(rows.index(row)),
    "stems": lambda rows, row: Path(row.file_name).stem,
    "bare names": lambda rows, row: Path(row.file_name).name,
    "paths elsewhere": lambda rows, row: f"/home/me/{row.file_name}",
    "the order of names": lambda rows, row: sorted(one.file_name for one in rows).index(row.file_name),
    "accepted rows": lambda rows, row: [one for one in rows if one.accepted].index(row) if row.accepted else 10_000,
}


def by_images(name: str, image: Callable[[Rows, PictureRow], Any], last: bool = True) -> None:
    @case(f"21 {name}{'' if last else ', the last without boxes'}", "cocodataset/cocoapi #497", RIGHT)
    def find(at: Workshop) -> Mapping[str, Any]:
        rows = open_suite(at, "things")
        some = rows if last else [row for row in rows if row.file_name != rows[-1].file_name]
        listed = [one for row in some for one in results([row], image_id=image(rows, row))]
        (at.folder / "results.json").write_text(json.dumps(listed))
        outcome = facts(at.ask("--predictions", "results.json"))
        return outcome if last else outcome | {"variants": 100.0}


for _name, _image in IMAGES.items():
    by_images(_name, _image)
by_images("rows from 1", numbering(1), last=False)


@case("21 results of the set itself, by its own numbers", "none", {"status": REFUSED, "said": Told("no box of any of")})
def of_the_set(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")
    originals = [row for row in rows if row.kind == "original"]
    listed = [one for i, row in enumerate(originals, 1) for one in results([row], image_id=i)]
    (at.folder / "results.json").write_text(json.dumps(listed))
    return facts(at.ask("--predictions", "results.json"))


@case("21 ultralytics' predictions.json", "ultralytics #6438", RIGHT)
def ultralytics(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")
    number_of = {name: number for number, name in enumerate(NAMES, 1)}
    listed = [
        one for row in rows for one in results([row], category=number_of.__getitem__, image_id=Path(row.file_name).stem)
    ]
    (at.folder / "predictions.json").write_text(json.dumps(listed))
    return facts(at.ask("--predictions", "predictions.json"))


@case("21 a file of COCO's whose annotations have scores", "voxel51/fiftyone #1541", RIGHT)
def annotated(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")
    listed = [
        one for i, row in enumerate(rows) for one in results([row], category=THINGS.__getitem__, image_id=100 + i)
    ]
    images = [{"id": 100 + i, "file_name": Path(row.file_name).name} for i, row in enumerate(rows)]
    categories = [{"id": number, "name": name} for name, number in THINGS.items()]
    content = {"images": images, "annotations": listed, "categories": categories}
    (at.folder / "predictions.json").write_text(json.dumps(content))
    return facts(at.ask("--predictions", "predictions.json"))


# A detector that sees nothing.

BLIND = {"status": 0, "originals": 0.0, "variants": 0.0, "said": Told("no box in any")}


@case("20a an empty list", "cocodataset/cocoapi #675", BLIND)
def empty_results(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "things")
    (at.folder / "results.json").write_text("[]")
    return facts(at.ask("--predictions", "results.json"))


for _kind, _nothing in (
    ("dicts", "dict(boxes=[], scores=[], labels=[])"),
    ("lists", "[]"),
    ("arrays of six", "np.zeros((0, 6))"),
):

    def blind(kind: str, nothing: str) -> None:
        @case(f"20 a callable that gives {kind} of nothing", "open-mmlab/mmdetection #1637", BLIND)
        def find(at: Workshop) -> Mapping[str, Any]:
            open_suite(at, "things")
            at.module("blind", f"import numpy as np\ndef model(pictures): return [{nothing} for _ in pictures]")
            return facts(at.ask("--model", "blind:model"))

    blind(_kind, _nothing)


@case("20d a detector that is sure of nothing", "no thread", {**RIGHT, "said": Told("0.3 is its highest")})
def unsure(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "things")
    (at.folder / "results.json").write_text(json.dumps(results(rows, score=0.3)))
    return facts(at.ask("--predictions", "results.json"))


# Labels and scores.


def scores_of(rows: Rows, order: Sequence[str]) -> Any:
    """Scores [N, C] of a model that is right, its classes in an order."""
    return np.eye(len(order))[[order.index(str(row.label)) for row in rows]]


def saved(at: Workshop, scores: Any, *words: object) -> dict[str, Any]:
    np.save(at.folder / "scores.npy", scores)
    return facts(at.ask("--predictions", "scores.npy", *words))


@case("23 float16 that overflowed", "none", {"status": REFUSED, "said": Told("infinite in .* float16.*float32")})
def overflowed(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    scores = (1e6 * scores_of(rows, ["bus", "car", "truck"])).astype(np.float32)
    with np.errstate(over="ignore"):
        return saved(at, scores.astype(np.float16))


@case("23b one row of NaN", "none", {"status": 0, "originals": 100.0, "said": Told("NaN or infinite in 1 of")})
def one_row(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    scores = scores_of(rows, ["bus", "car", "truck"])
    scores[0, 1] = np.nan
    return saved(at, scores)


@case("23c an archive of arrays", "none", {"status": REFUSED, "said": Told("numpy.save")})
def archived(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    np.savez(at.folder / "scores.npz", scores=scores_of(rows, ["bus", "car", "truck"]))
    return facts(at.ask("--predictions", "scores.npz"))


@case("24a scores of numbered folders by their numbers", "pytorch/vision #714", {**RIGHT, "said": Told("ImageFolder")})
def by_numbers(at: Workshop) -> Mapping[str, Any]:
    return saved(at, scores_of(open_suite(at, "numbered"), NUMBERED))


@case("24b scores of numbered folders in ImageFolder's order", "modestyachts/ImageNetV2 #10", RIGHT)
def by_folders(at: Workshop) -> Mapping[str, Any]:
    return saved(at, scores_of(open_suite(at, "numbered"), sorted(NUMBERED)))


@case("24c numbers of numbered folders", "CSAILVision/places365 #22", RIGHT)
def numbers(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "numbered")
    return saved(at, np.array([int(str(row.label)) for row in rows]))


@case("24d numbers in ImageFolder's order", "NVIDIA/DIGITS #665", {**RIGHT, "said": Told("labels in their order")})
def numbers_of_folders(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "numbered")
    return saved(at, np.array([sorted(NUMBERED).index(str(row.label)) for row in rows]))


@case("24e scores that tell nothing", "none", {"status": REFUSED, "said": Told("--classes imagefolder")})
def neither(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "numbered")
    return saved(at, np.random.default_rng(0).random((len(rows), 12)))


@case("24f the same, which the user settles", "none", {"status": 0, "said": Told("ImageFolder")})
def settled(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "numbered")
    return saved(at, np.random.default_rng(0).random((len(rows), 12)), "--classes", "imagefolder")


@case("24g a background before the classes of a list", "TF's 1,001 classes", {**RIGHT, "said": Told("from 1")})
def with_background(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    (at.folder / "names.txt").write_text("bus\ncar\ntruck\n")
    return saved(at, scores_of(rows, ["background", "bus", "car", "truck"]), "--classes", "names.txt")


@case("24h a background before the labels", "pytorch/vision #1952", {**RIGHT, "said": Told("from 1")})
def with_background_alone(at: Workshop) -> Mapping[str, Any]:
    return saved(at, scores_of(open_suite(at, "thirds"), ["background", "bus", "car", "truck"]))


@case("24i numbers from one, by a list", "no thread", {**RIGHT, "said": Told("counted from 1")})
def listed_from_one(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    (at.folder / "names.txt").write_text("bus\ncar\ntruck\n")
    answers = np.array([1 + ["bus", "car", "truck"].index(str(row.label)) for row in rows])
    return saved(at, answers, "--classes", "names.txt")


@case("24j folders in the order of their letters without case", "no thread", {**RIGHT, "said": Told("without case")})
def without_case(at: Workshop) -> Mapping[str, Any]:
    return saved(at, scores_of(open_suite(at, "cased"), ["Bus", "car", "Truck"]))


@case("24k an order of nobody", "no thread", {"status": 0, "said": Told("another order.*--classes FILE")})
def another_order(at: Workshop) -> Mapping[str, Any]:
    return saved(at, scores_of(open_suite(at, "thirds"), ["truck", "bus", "car"]))


@case("24l two classes the other way round", "no thread", {"status": 0, "originals": 0.0, "said": Told("swapped")})
def the_other_way_round(at: Workshop) -> Mapping[str, Any]:
    return saved(at, scores_of(open_suite(at, "two"), ["car", "bus"]))


@case("24m a constant answer", "no thread", {"status": 0, "originals": 33.3, "said": Told("'car' to all 12")})
def constant(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    return saved(at, np.tile([0.1, 0.8, 0.1], (len(rows), 1)))


@case("24n a model that guesses", "none", {"status": 0, "corrected": False})
def guesses(at: Workshop) -> Mapping[str, Any]:
    rows, rng = open_suite(at, "thirds"), np.random.default_rng(3)
    outcome = saved(at, rng.random((len(rows), 3)))
    return outcome | {"corrected": "are read by" in outcome["said"] or "too few" in outcome["said"]}


@case("24o six pictures, all answers from one", "none", {**RIGHT, "said": Told("from 1")})
def six_from_one(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "six")
    (at.folder / "names.txt").write_text("bus\ncar\ntruck\n")
    answers = np.array([1 + ["bus", "car", "truck"].index(str(row.label)) for row in rows])
    return saved(at, answers, "--classes", "names.txt")


SPELLED = {
    "spaces": lambda label: label.replace("_", " "),
    "capitals": lambda label: label.upper().replace("_", "-"),
    "synsets": lambda label: f"n020{len(label):05} {label.replace('_', ' ')}",
    "synsets with lines": lambda label: f"n020{len(label):05}_{label}",
}


def by_spelling(name: str, spell: Callable[[str], str]) -> None:
    @case(f"7 labels in {name}", "newcomer's table", {**RIGHT, "said": Told("another spelling")})
    def find(at: Workshop) -> Mapping[str, Any]:
        rows = open_suite(at, "dogs")
        lines = [f"{row.file_name},{spell(str(row.label))}" for row in rows]
        (at.folder / "answers.csv").write_text("\n".join(["image,prediction", *lines]))
        return facts(at.ask("--predictions", "answers.csv"))


for _name, _spell in SPELLED.items():
    by_spelling(_name, _spell)


# One picture without an answer.

MISSING = {"status": 0, "originals": 100.0, "variants": 100.0, "said": Told("1 has no answer")}
NOTHING: dict[str, Any] = {"an empty cell": "", "None": None, "NaN": float("nan"), "an empty list": []}


def without(name: str, nothing: Any) -> None:
    @case(f"19 {name} in JSONL", "pandas tables and pipelines, no thread", MISSING)
    def find(at: Workshop) -> Mapping[str, Any]:
        rows = open_suite(at, "thirds")
        cells = [nothing if number == 1 else row.label for number, row in enumerate(rows)]
        lines = [
            json.dumps({"image": row.file_name, "prediction": cell}) for row, cell in zip(rows, cells, strict=True)
        ]
        (at.folder / "answers.jsonl").write_text("\n".join(lines))
        return facts(at.ask("--predictions", "answers.jsonl"))


for _name, _cell in NOTHING.items():
    without(_name, _cell)


@case("19b a callable that returns None", "pandas tables and pipelines, no thread", {"status": 0, "originals": 100.0})
def abstains(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "thirds")
    at.module("net", f"{TRUTH}\ndef model(p): return [row.label if n else None for n, row in enumerate(rows(p))]")
    return facts(at.ask("--model", "net:model"))


@case("19c what a pipeline returns", "pandas tables and pipelines, no thread", RIGHT)
def pipeline(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "thirds")
    listed = "[dict(label=row.label, score=0.9), dict(label='tram', score=0.1)]"
    at.module("net", f"{TRUTH}\ndef model(p): return [{listed} for row in rows(p)]")
    return facts(at.ask("--model", "net:model"))


@case("19d answers to pictures of another run", "no thread", {"status": REFUSED, "said": Told("sha256")})
def other_bytes(at: Workshop) -> Mapping[str, Any]:
    rows = open_suite(at, "thirds")
    lines = [f"{row.file_name},{row.label},{'0' * 64}" for row in rows]
    (at.folder / "answers.csv").write_text("\n".join(["image,prediction,sha256", *lines]))
    return facts(at.ask("--predictions", "answers.csv"))


# Maps.


def masks(at: Workshop, rows: Rows, answer: Callable[[Any], Any]) -> dict[str, Any]:
    """What a folder of answers comes to, each made of the true mask."""
    for row in rows:
        truth = np.asarray(Image.open(at.folder / "suite" / str(row.mask)))
        save(at.folder / "answers" / row.file_name, np.ascontiguousarray(answer(truth)))
    return facts(at.ask("--predictions", "answers"))


TURNS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "transposed": (np.transpose, "transposed"),
    "upside down": (np.flipud, "upside down"),
    "spread over grey": (lambda mask: mask * 85, "0 to 255"),
    "from 0": (lambda mask: np.where(mask, mask - 1, 0).astype(np.uint8), "numbers from 0"),
    "from 1": (lambda mask: mask + 1, "counted from 1"),
}


def turned(name: str, turn: Callable[[Any], Any], told: str, kind: str = "squares") -> None:
    @case(f"33 maps {name} of {kind}", "open-mmlab/mmsegmentation #1509", {"status": REFUSED, "said": Told(told)})
    def find(at: Workshop) -> Mapping[str, Any]:
        return masks(at, open_suite(at, kind), turn)


for _name, (_turn, _told) in TURNS.items():
    turned(_name, _turn, _told)
    turned(_name, _turn, _told, "nothing")


@case("33 a model that sees nothing", "open-mmlab/mmsegmentation #278", {"status": 0, "said": Told("every pixel")})
def blind_maps(at: Workshop) -> Mapping[str, Any]:
    return masks(at, open_suite(at, "squares"), np.zeros_like)


@case("33 a model that is bad", "none", {"status": 0, "accused": False})
def bad_maps(at: Workshop) -> Mapping[str, Any]:
    rng = np.random.default_rng(0)
    outcome = masks(at, open_suite(at, "squares"), lambda mask: rng.integers(0, 4, mask.shape).astype(np.uint8))
    return outcome | {"accused": "look like" in outcome["said"]}


@case("07 maps of a part of each picture", "transformers #20255", {**RIGHT, "said": Told("looked at 50 %")})
def half_seen(at: Workshop) -> Mapping[str, Any]:
    def left(mask: Any) -> Any:
        seen = mask.astype(np.uint16)
        seen[32:] = 65_534
        return seen

    return masks(at, open_suite(at, "squares"), left)


@case("33 a model is called by its name", "no thread", {"status": REFUSED, "said": Told("seen:model has numbers")})
def called_by_name(at: Workshop) -> Mapping[str, Any]:
    open_suite(at, "squares")
    masked = "np.asarray(Image.open(Path('suite') / row.mask)) + 1"
    at.module("seen", f"{TRUTH}\ndef model(p): return np.stack([{masked} for row in rows(p)])")
    outcome = facts(at.ask("--model", "seen:model"))
    return outcome | ({} if "/tmp" not in outcome["said"] else {"status": "names a folder"})
