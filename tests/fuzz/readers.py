"""Every reader of bytes that a user, a suite, a data set, a server or a folder of models brings; see `READERS`.

A reader has seeds, good inputs that code makes, and a call, which may answer with a value or with one of its `refuses`:
the sentence for users, and for inner functions the error that their docstrings promise. What once ended otherwise is
kept among `once`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import random
import sqlite3
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutators import mutate_bytes, mutate_json
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from picture_rows import control_row, original_row, picture_row, written
from session_records import costs, session_facts

from counterfactory.engine.api import answers, box_files, model_answers
from counterfactory.engine.asking import model_file, outputs, published_inputs
from counterfactory.engine.cluster.parts import Part, PartHead
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate import measured
from counterfactory.engine.files import arrays, reading, tables
from counterfactory.engine.files.fill import plain, read_toml
from counterfactory.engine.judging import answer_labels, edit_labels, predictions, threshold_curve
from counterfactory.engine.language import questions, token_filter
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models import plan_facts, text_networks
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket import worlds
from counterfactory.engine.profile.profile import PROFILES, Profile, load_profile
from counterfactory.engine.profile.rewrite import LlmSettings
from counterfactory.engine.profile.server import ServerSettings
from counterfactory.engine.review import answer_tables, question_set
from counterfactory.engine.review.answer_book import AnswerBook, Rating
from counterfactory.engine.review.serving import ReviewApp
from counterfactory.engine.review.study_results import SuiteFacts, find_results
from counterfactory.engine.runtime import cuda_norms, onnx_header, plans
from counterfactory.engine.runtime.onnx_file import read_onnx_file
from counterfactory.engine.runtime.session import Port
from counterfactory.engine.server import comfyui, exchange
from counterfactory.engine.sources import (
    class_map,
    coco,
    depth,
    domain,
    edited_pairs,
    imagenet,
    jpeg,
    labelling_tools,
    listing,
    palette,
    pixels,
    real_pictures,
    sampling,
    shapes,
    shards,
    voc,
    yolo,
)
from counterfactory.engine.suite import (
    Suite,
    by_hand,
    contents,
    metadata,
    open_session,
    outcome,
    recorded,
    run_record,
    verdicts,
)
from counterfactory.engine.suite.images import read_png
from counterfactory.engine.suite.ledger import Ledger
from counterfactory.engine.suite.picture_row import PaintedRow, PictureRow
from counterfactory.engine.suite.picture_store import PictureStore
from counterfactory.engine.suite.run_record import RunRecord
from counterfactory.engine.suite.session_record import SessionRecord
from counterfactory.engine.suite.status import FILE as STATUS
from counterfactory.engine.suite.status import RunStatus, read_status
from counterfactory.engine.tasks import user_task
from counterfactory.engine.training import lesson, recipe

Mutate = Callable[..., bytes]
WEIGHTS = Path(worlds.__file__).parent / "weights"
ROWS = [original_row(0), control_row(0), *(picture_row(i) for i in range(3))]
PART = f"{'0' * 64}-{'1' * 16}.part"


def part_rows() -> list[bytes]:
    """What a part says of its rows: two of a stage, and a picture."""
    picture = [True, 1, hashlib.sha256(b"x").hexdigest(), 0]
    return [json.dumps({"caption": {"a": 1, "b": ["c"]}, "suite/files": {"images/a/b.png": picture}}).encode()]


def _packed(rows: bytes) -> bytes:
    head = PartHead(1, "0" * 64, "1" * 64, (), hashlib.sha256(rows).hexdigest())
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for name, data in (("part.json", json.dumps(plain(head))), ("rows.json", rows), ("images/a/b.png", b"x")):
            archive.writestr(name, data)
    return file.getvalue()


def part_file() -> list[bytes]:
    """A whole part."""
    return [_packed(part_rows()[0])]


def read_part(path: Path, repack: bool = False) -> Any:
    """A part, taken into a new suite; or one of these rows."""
    if repack:
        path.write_bytes(_packed(path.read_bytes()))
    with tempfile.TemporaryDirectory() as folder, Part(path, PART) as part, Suite.open(Path(folder)) as suite:
        part.put_into(suite)
        return part.head


@dataclass(frozen=True)
class FuzzedReader:
    """A reader of the file `name`, or of bytes where it has none; see the module."""

    read: Callable[[Path], Any]
    seeds: Callable[[], Sequence[bytes]]
    name: str = "x"
    mutate: Mutate = mutate_bytes
    refuses: tuple[type[Exception], ...] = (CounterfactoryError,)
    once: tuple[bytes, ...] = ()
    place: Callable[[Path], None] = lambda folder: None


def _of(read: Callable[[bytes], Any]) -> Callable[[Path], Any]:
    return lambda path: read(path.read_bytes())


def _text(read: Callable[[str], Any]) -> Callable[[Path], Any]:
    return lambda path: read(path.read_bytes().decode("utf-8", "replace"))


def _json(*values: Any) -> Callable[[], list[bytes]]:
    return lambda: [json.dumps(value).encode() for value in values]


def _texts(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in texts]


def pictures() -> list[bytes]:
    """Small pictures of all formats that are read."""
    rng = np.random.default_rng(0)
    pixels, seeds = Image.fromarray(rng.integers(0, 255, (24, 16, 3)).astype(np.uint8)), []
    for kind, image in (
        *((kind, pixels) for kind in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM")),
        *(("GIF", pixels.convert("P")), ("PNG", pixels.convert("P")), ("PNG", pixels.convert("RGBA"))),
        *(("PNG", Image.fromarray(np.arange(384, dtype=np.uint16).reshape(24, 16))), ("PNG", pixels.convert("1"))),
    ):
        image.save(file := io.BytesIO(), kind)
        seeds.append(file.getvalue())
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels.save(file := io.BytesIO(), "JPEG", exif=exif, progressive=True)
    return [*seeds, file.getvalue()]


def numpy_files() -> list[bytes]:
    seeds = []
    for array in (np.linspace(1, 9, 96).reshape(12, 8), np.ones((8, 8), np.uint16).T, np.array(["bus", "car"])):
        np.save(file := io.BytesIO(), array)
        seeds.append(file.getvalue())
    return seeds


def parquet(table: pa.Table) -> bytes:
    pq.write_table(table, sink := pa.BufferOutputStream(), compression="NONE")
    return bytes(sink.getvalue())


def parquet_answers() -> list[bytes]:
    columns = {"image": [row.file_name for row in ROWS], "prediction": ["bus"] * 5, "confidence": [0.5] * 5}
    return [parquet(pa.table(columns)), parquet(pa.table(columns | {"top5": [["bus", "car"]] * 5}))]


def suite_table() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        data = (written(Path(folder), ROWS) / "metadata.parquet").read_bytes()
    table = pq.read_table(pa.BufferReader(data))
    return [data, parquet(table)]


def run_json() -> list[bytes]:
    session = SessionRecord("a", "2026-01-01", True, session_facts(data={"classes": {"0": "a", "1": "b"}}), (), costs())
    with tempfile.TemporaryDirectory() as folder:
        run_record.write_run(Path(folder), RunRecord((session,)))
        return [(Path(folder) / "run.json").read_bytes()]


def mutate_record(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """A record that was changed and then sealed, as one who means harm would; one of four is not."""
    changed = mutate_json(data, rng, other)
    if rng.randrange(4):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(changed)
            if isinstance(value, dict):
                value.pop("sha256", None)
                return json.dumps(value | {"sha256": contents._seal(value)}).encode()
    return changed


def ledger_file() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger = Ledger(path)
        ledger.put_stages({stage: {f"{i:064x}": value for i in range(9)} for stage, value in LEDGER_ROWS.items()})
        ledger.close()
        return _without_log(path)


def _without_log(path: Path) -> list[bytes]:
    """The bytes of an SQLite file that is whole by itself."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return [path.read_bytes()]


LEDGER_ROWS: dict[str, Any] = {
    "caption": "a red bus",
    "check": {"scores": {"sharp": 0.5}, "edits": [0.5]},
    "suite/open": {"batch": []},
    "suite/files": True,
}
PAINTED = {"image": {"path": "images/bus/1/0123456789abcdef.png", "bytes": 9, "sha256": "a" * 64}, "mask": None}


def read_ledger(path: Path) -> None:
    ledger = Ledger(path)
    try:
        for stage in LEDGER_ROWS:
            ledger.get(stage, [f"{i:064x}" for i in range(9)])
            list(ledger.walk(stage))
    finally:
        ledger.close()


def review_file() -> list[bytes]:
    from reviewing import book_of

    with tempfile.TemporaryDirectory() as folder:
        book = book_of(Path(folder), _study(), "anna")
        book.record([Rating("anna", 1, "label", 1), Rating("anna", 1, "label", 0)])
        book.close()
        return _without_log(book.path)


def _study() -> Any:
    from reviewing import study_of

    return study_of(ROWS, sample=2)


def read_review(path: Path) -> None:
    with contextlib.closing(AnswerBook(path)) as book:
        app = ReviewApp(book, path.parent, ROWS, [])
        for query in ({}, {"at": "1"}):
            app._state("anna", query)
        find_results(book.study, book.ratings(), SuiteFacts(ROWS, {}))
        book.raters  # noqa: B018
        book.undo("anna")


@cache
def _review_client() -> tuple[Any, str]:
    from reviewing import book_of
    from werkzeug.test import Client

    book = book_of(Path(tempfile.mkdtemp()), _study(), "anna")
    return Client(ReviewApp(book, book.path.parent, ROWS, ["h"])), f"/r/{book.raters['anna']}/answer"


def post_review(path: Path) -> None:
    client, address = _review_client()
    headers = {"Host": "h", "Origin": "http://h", "Content-Type": "application/json"}
    answer = client.post(address, data=path.read_bytes(), headers=headers)
    assert answer.status_code in (200, 400, 413), answer.text


def _rows(value: Any) -> Any:
    """A ledger whose every row is the same value, and which keeps nothing."""
    return SimpleNamespace(
        get=lambda stage, keys: dict.fromkeys(keys, value),
        put=lambda *_: None,
        walk=lambda stage: iter(()),
        holds=lambda *_: True,
        place=lambda stage, key: ("a row", "make it anew"),
    )


def open_store(rows: Any) -> None:
    value = rows.get("", [""])[""]
    if isinstance(value, dict):
        rows.get = lambda stage, keys: value
        PictureStore(Path("nowhere"), rows)


def tar_file() -> list[bytes]:
    files = {"a/1.png": pictures()[1], "a/1.json": b'{"label": "bus"}', "b/2.jpg": pictures()[0], "b/2.cls": b"3"}
    with tarfile.open(fileobj=(file := io.BytesIO()), mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return [file.getvalue()]


def put_pictures(*names: str) -> Callable[[Path], None]:
    """Lays pictures into the folder for a set's file to speak of."""

    def place(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(pictures()[0 if name.endswith("jpg") else 1])

    return place


COCO = {
    "images": [{"id": 1, "file_name": "a.jpg", "height": 24, "width": 16}, {"id": 2, "file_name": "b.jpg"}],
    "categories": [{"id": 1, "name": "bus"}, {"id": 7, "name": "car"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 5, 6], "area": 30}
        | {"segmentation": [[1, 1, 5, 1, 5, 6]]},
        {"id": 2, "image_id": 1, "category_id": 7, "bbox": [0, 0, 4, 4], "iscrowd": 0, "keypoints": [1, 1, 2]},
        {"id": 3, "image_id": 2, "category_id": 7, "segmentation": {"counts": [10, 20, 354], "size": [24, 16]}},
    ],
}
VOC = """<?xml version="1.0" encoding="utf-8"?><annotation><size><width>16</width><height>24</height></size>
<object><name>bus</name><difficult>0</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>8</xmax><ymax>9</ymax></bndbox>
</object></annotation>"""
YAML = "path: .\ntrain: images\nnames:\n  0: bus\n  1: car\nkpt_shape: [2, 3]\n"
OPEN_PORT = Port("images", (1, 3, 8, 8), "float32")
SHAPES = {"onnx_sha256": "a" * 64, "profiles": [{"x": {"min": [1, 2], "opt": [2, 2], "max": [4, 2]}}]}
MANIFEST = SHAPES | {"classes": ["AutoencoderTiny"]}
PLAN_KEY = SHAPES | {"precision": "f16", "library": "tensorrt 10", "device": "SM86", "plan_sha256": "b" * 64}
PLAN_KEY |= {"seconds": 3.5, "io_bytes": 100}
CONFIG = {"do_resize": True, "size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": 224, "resample": 3}
CONFIG |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_normalize": True, "rescale_factor": 0.0039}
WORKFLOW = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{image}"}},
    "2": {"class_type": "Edit", "inputs": {"text": "{instruction}", "seed": "{seed}"}},
}
BOXES = [{"image_id": ROWS[0].file_name, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]
PIPELINE = {row.file_name: [{"label": "bus", "score": 0.9}, {"label": "car", "score": 0.1}] for row in ROWS}
DETECTED = {ROWS[0].file_name: [{"label": "bus", "score": 0.9, "box": {"xmin": 1, "ymin": 2, "xmax": 5, "ymax": 6}}]}
RATES = {"version": measured._VERSION, "rates": {"a": {"profile_key": "a", "stages": {}, "plans": {}}}}
SERVER = ServerSettings("http://127.0.0.1:1", "openai", 1024, 16, 30.0, 0, 2, model="x")
OUTCOME = plain(outcome.Outcome(3, 1, 1, 0, {"images/bus/1/0123456789abcdef.png": 9}, (), ()))
ANSWERS = [
    {"scores": base64.b64encode(np.ones(4, "<f4").tobytes()).decode()},
    *({"label": "bus"}, {"map": base64.b64encode(pictures()[1]).decode()}, {"boxes": [[1, 2, 3, 4, 0.5, "bus"]]}),
]


def library_of_latents(path: Path) -> Any:
    return Library(path.parent, None, None, LlmSettings).latents()  # type: ignore[arg-type]


def of_folder(folder: Path) -> Profile:
    """A profile whose networks are in the folder."""
    profile = load_profile("cpu")
    return replace(profile, models=replace(profile.models, folder=str(folder), world="x"))


def put_captioner(folder: Path) -> None:
    (folder / "opt_tokenizer.json").write_bytes((WEIGHTS / "opt_tokenizer.json").read_bytes())
    np.save(folder / "opt_embeddings.npy", np.ones((8, 4), np.float32))


def open_captioner(folder: Path) -> None:
    """Ends at the first network, which is not there."""
    ModelPool(library_of(of_folder(folder)), Meter(lambda progress: None)).blip2()


def put_yolo(folder: Path) -> None:
    put_pictures("images/a.jpg")(folder)
    (folder / "labels").mkdir(exist_ok=True)
    (folder / "data.yaml").write_text("names: [bus, car]\n")


def answer(path: Path) -> None:
    asked = exchange.Exchange(SERVER)
    got = exchange.HttpAnswer(200, "application/json", path.read_bytes(), None, None)
    asked.words(got.body)
    asked.read_json(got)


def workflow(path: Path) -> None:
    settings = replace(SERVER, api="comfyui", model=None, workflow=str(path))
    comfyui._read_workflow(exchange.Exchange(settings))


def rewrite_record(folder: Path) -> None:
    if (record := run_record.read_run(folder)) is not None:
        run_record.write_run(folder, record)


def kept_answer(rows: Any) -> Any:
    from counterfactory.engine.asking.kept_answers import KeptAnswers

    return KeptAnswers(rows, "a").of(["a"])


def outcomes(rows: Any) -> outcome.Outcomes:
    """Those of as much of a suite as they ask for."""
    suite = SimpleNamespace(ledger=rows, holds=lambda files, times: bool(files))
    return outcome.Outcomes(suite, "m")  # type: ignore[arg-type]


def onnx_file() -> list[bytes]:
    from onnx import TensorProto, helper

    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    node, out = helper.make_node("Identity", ["x"], ["y"]), helper.make_value_info("y", port.type)
    return [helper.make_model(helper.make_graph([node], "g", [port], [out])).SerializeToString()]


def norm_files() -> list[bytes]:
    """Norms of groups and of a layer, in islands of f32."""
    from onnx import TensorProto, helper

    make, half = helper.make_node, TensorProto.FLOAT16
    ones = [helper.make_tensor(name, TensorProto.FLOAT, [n], [1.0] * n) for name, n in (("g", 2), ("l", 8))]
    nodes = [
        make("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        make("InstanceNormalization", ["wide", "g", "g"], ["level"], "groups", epsilon=1e-3),
        make("Cast", ["level"], ["narrow"], to=half),
        make("Cast", ["narrow"], ["again"], to=TensorProto.FLOAT),
        make("LayerNormalization", ["again", "l", "l"], ["layer"], axis=-1),
        make("Cast", ["layer"], ["y"], to=half),
    ]
    ports = [helper.make_tensor_value_info(name, half, [1, 2, 8]) for name in "xy"]
    return [helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], ones)).SerializeToString()]


_BAD, _VALUE, _ANSWER = (pixels.UnreadableError,), (ValueError,), (questions.AnswerError,)
_CSV = "image,prediction,confidence\n" + "".join(f"{row.file_name},bus,0.5\n" for row in ROWS)
_JSONL = "".join(
    json.dumps({"image": row.file_name, "prediction": "bus", "top5": ["bus", "car"]}) + "\n" for row in ROWS
)
LESSON = lesson.Lesson(
    *("timm:resnet18", recipe.load_recipe("dillema-resnet18"), ("bus", "car"), (0, 1), (0,), ("0" * 64,)),
    *((lesson.TrainingPicture("/suite", f"originals/{at}.png", at),) for at in range(3)),
)


def _files(*paths: Path) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for path in paths]


def _named(read: Callable[[str], Any]) -> Callable[[Path], Any]:
    """A reader that takes its file by its name."""
    return lambda path: read(str(path))


def _folder(*reads: Callable[[Path], Any], up: int = 0) -> Callable[[Path], Any]:
    """Readers of the folder that the file lies in, or of one above it."""
    return lambda path: [read(path.parents[up]) for read in reads]


def _tree(read: Callable[[Path], Any], name: str, *values: Any, **more: Any) -> FuzzedReader:
    """A reader of values of JSON, which are changed as trees."""
    return FuzzedReader(read, _json(*values), name, mutate_json, **more)


def _plain(read: Callable[[Path], Any], name: str, *texts: str, **more: Any) -> FuzzedReader:
    """A reader of texts."""
    return FuzzedReader(read, _texts(*texts), name, **more)


def _row(read: Callable[[Any], Any], *values: Any) -> FuzzedReader:
    """A reader of a ledger's row, whose JSON was parsed already: a ValueError is of that."""
    asked = _of(lambda data: read(_rows(reading.parse_json(data))))
    return _tree(asked, "x", *values, refuses=(CounterfactoryError, ValueError))


READERS: dict[str, FuzzedReader] = {
    "review": FuzzedReader(read_review, review_file, "review.sqlite"),
    "posted to a review": _tree(
        post_review, "x", {"item": 1, "asked": "label", "value": 1, "note": "a", "seconds": 1.5}
    ),
    "questions of a review": FuzzedReader(
        _named(question_set.load_questions),
        _files(*(Path(question_set.__file__).with_name(f"{name}.toml") for name in question_set.SETS)),
        "x.toml",
    ),
    "answers of a review": _plain(
        *(lambda path: answer_tables.read_answers(path, _study(), []), "x.csv"),
        f"item,image,rater,label,seconds\n,{ROWS[2].file_name},a,yes,1\n,{ROWS[2].file_name},b,0,x\n",
    ),
    "picture": FuzzedReader(_of(pixels.read_picture), pictures, refuses=_BAD),
    "picture size": FuzzedReader(pixels.picture_size, pictures, refuses=_BAD),
    "mask": FuzzedReader(_of(partial(pixels.read_mask, colours=True)), pictures, refuses=_BAD),
    "palette of a mask": FuzzedReader(
        _of(lambda data: (pixels.read_mask(data), pixels.mask_palette(data))), pictures, refuses=_BAD
    ),
    "JPEG": FuzzedReader(
        _of(lambda data: jpeg.damage(data, np.zeros((24, 16, 3), np.uint8))), lambda: [pictures()[0], pictures()[-1]]
    ),
    "PNG of a suite": FuzzedReader(_of(read_png), lambda: pictures()[1:2], refuses=_VALUE),
    "depth": FuzzedReader(_of(depth.read_depth), numpy_files, refuses=_BAD, once=(b"\x93NUMPY\x01\x00\x04\x00'''\n",)),
    "array": FuzzedReader(_of(arrays.parse_array), numpy_files, refuses=_VALUE),
    "array of answers": FuzzedReader(
        lambda path: model_answers.array_answers(path, ROWS[:2], lambda text: None), numpy_files, "x.npy"
    ),
    "COCO": _tree(
        coco.list_coco,
        *("x.json", COCO),
        place=put_pictures("a.jpg", "b.jpg"),
        once=(
            json.dumps({**COCO, "images": [{"id": 1, "file_name": {"a": 1}}]}).encode(),
            json.dumps(COCO).replace("[1, 2, 5, 6]", f"[{'9' * 400}, 2, 5, 6]").encode(),
        ),
    ),
    "YOLO names": FuzzedReader(
        *(_folder(yolo.list_yolo), _texts(YAML, "names: [bus, car]\n"), "data.yaml"),
        place=put_pictures("images/a.jpg"),
        once=tuple(b"names: [!!%s]\n" % tag for tag in (b"timestamp foo", b'int ""', b"bool x", b"float x", b"set x")),
    ),
    "YOLO labels": FuzzedReader(
        *(_folder(yolo.list_yolo, up=1), _texts("0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.5 0.1 0.5 0.5\n"), "labels/a.txt"),
        place=put_yolo,
    ),
    "VOC": FuzzedReader(
        *(_folder(voc.list_voc, up=1), _texts(VOC), "Annotations/a.xml"),
        place=put_pictures("JPEGImages/a.jpg", "Annotations/b.jpg"),
        once=(VOC.replace("utf-8", "x").encode(),),
    ),
    "VOC beside pictures": FuzzedReader(
        *(_folder(voc.list_voc), _texts(VOC), "a.xml"),
        place=put_pictures("a.jpg", "b.jpg"),
    ),
    "labelme": _tree(
        *(_folder(partial(labelling_tools.list_tool, "labelme")), "a.json"),
        {"shapes": [{"label": "bus", "points": [[1, 2], [5, 6]], "shape_type": "rectangle"}], "imageHeight": 24},
        {"shapes": [{"label": "bus", "points": [[1, 2], [5, 6]], "shape_type": "circle"}], "imageWidth": 16},
        place=put_pictures("a.jpg"),
    ),
    "BDD100K": _tree(
        *(_folder(partial(labelling_tools.list_tool, "bdd100k")), "x.json"),
        [{"name": "a.jpg", "labels": [{"category": "bus", "box2d": {"x1": 1, "y1": 2, "x2": 5, "y2": 6}}]}],
        [{"name": "a.jpg", "labels": [{"category": "bus", "poly2d": [{"vertices": [[1, 2], [5, 6], [3, 9]]}]}]}],
        {"name": "a", "frames": [{"objects": [{"category": "bus", "poly2d": [[1, 2, "L"], [5, 6, "L"]]}]}]},
        place=put_pictures("a.jpg"),
    ),
    "CVAT": FuzzedReader(
        _folder(partial(labelling_tools.list_tool, "cvat")),
        _texts(
            '<annotations><image name="a.jpg" width="16" height="24"><box label="bus" xtl="1" ytl="2" xbr="5" ybr="6" '
            'rotation="9"/><polygon label="bus" points="1,2;5,6;3,9"/></image></annotations>'
        ),
        "x.xml",
        place=put_pictures("a.jpg"),
        once=(b"<?xml version='1.0' encoding='x'?><annotations/>",),
    ),
    "KITTI": _plain(
        *(_folder(partial(labelling_tools.list_tool, "kitti")), "a.txt"),
        "Car 0.00 0 -1.58 1.00 2.00 5.00 6.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n" * 2,
        place=put_pictures("a.jpg"),
    ),
    "boxes of a table": FuzzedReader(
        partial(listing.list_table, masks=None),
        _texts(
            '{"image": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "categories": ["bus"], "iscrowd": [0]}}\n'
            '{"image": "b.jpg", "objects": [{"bbox": [1, 2, 3, 4], "category": 1}]}\n'
        ),
        *("x.jsonl", mutate_json),
        place=put_pictures("a.jpg", "b.jpg"),
    ),
    "Mapillary's classes": _tree(
        *(_named(class_map.load_class_map), "x.json"),
        {"labels": [{"name": "a--b", "readable": "B", "evaluate": True}, {"name": "c", "evaluate": False}]},
    ),
    "lists of YOLO": FuzzedReader(
        _folder(partial(yolo.list_yolo, split="val")),
        _texts("./images/a.jpg\nC:\\x\\images\\a.jpg\n"),
        "val.txt",
        place=put_yolo,
    ),
    "VOC's labels": _plain(class_map.label_lines, "x", "# label:color\nbackground:0,0,0::\nbus:128,64,0::\n", "a\nb\n"),
    "shard": FuzzedReader(shards.list_shards, tar_file, "x.tar"),
    "class map": _tree(
        *(_named(class_map.load_class_map), "x.json", {"classes": {"1": "bus", "2 3": "car"}}),
        *({"classes": {"bus": "128 0 0"}}, {"classes": {"0": ["bus", "#ff0000"]}}),
    ),
    "class map of TOML": _plain(_named(class_map.load_class_map), "x.toml", '[classes]\n1 = "bus"\n2 = "car"\n'),
    "names of labels": _tree(
        *(_named(class_map.label_names), "x.json", {"0": "bus", "1": "car"}, ["bus", "car"]),
        {"0": ["n02924116", "bus"]},
    ),
    "palette": _plain(
        *(_named(palette.load_palette), "x.toml"),
        'order = ["road"]\n[classes]\nroad = "128 64 128"\nbus = "#ff0000"\n',
        once=(b'[classes]\nroad = "' + b"9" * 5000 + b' 1 1"\n',),
    ),
    "table of sources": FuzzedReader(
        *(partial(listing.list_table, masks=None), _texts("image,label,mask\na.jpg,bus,\nb.jpg,car,m.png\n"), "x.csv"),
        place=put_pictures("a.jpg", "b.jpg"),
    ),
    "ImageNet's labels": FuzzedReader(
        lambda path: imagenet.list_flat(path.parent, path),
        _texts("bus\ncar\n", "a.jpg 1\nb.jpg 2\n", "ImageId,PredictionString\na,n01440764 1 2 3 4\n"),
        "x.txt",
        place=put_pictures("a.jpg", "b.jpg"),
    ),
    "edited pairs": FuzzedReader(
        _folder(edited_pairs.list_edited),
        _texts(
            '{"original": "a.jpg", "edited": "b.jpg", "edits": [["weather", "sunny", "foggy"]], "caption": "a bus"}\n'
            '{"original": "a.jpg", "edited": "b.jpg", "edits": "weather: sunny -> foggy"}\n'
        ),
        *("pairs.jsonl", mutate_json),
        place=put_pictures("a.jpg", "b.jpg"),
    ),
    "real pictures": _plain(
        *(real_pictures.read_real, "real.csv"),
        "image,label,condition,place\na.jpg,bus,,oslo\nb.jpg,bus,weather: rainy,oslo\n",
        place=put_pictures("a.jpg", "b.jpg"),
    ),
    "recipe": FuzzedReader(_named(recipe.load_recipe), _files(*sorted(recipe.RECIPES.glob("*.toml"))), "x.toml"),
    "lesson": _tree(_folder(lesson.read_lesson), lesson.LESSON, plain(LESSON)),
    "classes": FuzzedReader(_named(sampling.parse_classes), _texts("bus\ncar\n")),
    "run lengths": FuzzedReader(_text(shapes.decode_runs), _texts("PPYo0", "05n02"), refuses=_VALUE),
    "table of CSV": FuzzedReader(lambda path: list(tables.read_table(path, ["image"])), _texts(_CSV), "x.csv"),
    "table of JSONL": FuzzedReader(
        *(lambda path: list(tables.read_table(path, ["image"])), _texts(_JSONL), "x.jsonl", mutate_json),
        once=(b'{"image": ' + b"9" * 5000 + b"}",),
    ),
    "table of Parquet": FuzzedReader(
        lambda path: list(tables.read_table(path, ["image"])), parquet_answers, "x.parquet"
    ),
    "predictions of CSV": FuzzedReader(predictions.load_predictions, _texts(_CSV), "x.csv"),
    "predictions of JSONL": FuzzedReader(predictions.load_predictions, _texts(_JSONL), "x.jsonl", mutate_json),
    "predictions of Parquet": FuzzedReader(predictions.load_predictions, parquet_answers, "x.parquet"),
    "a pipeline's labels": _tree(model_answers.json_predictions, "x.json", PIPELINE),
    "boxes": _tree(lambda path: box_files.json_boxes(path, ROWS, lambda text: None), "x.json", BOXES, DETECTED),
    "names of a model's classes": _plain(
        *(lambda path: answer_labels.read_vocabulary(path.parent, ROWS, path), "x.json"),
        *("bus\ncar\n", '{"0": "bus", "1": "car"}', '{"categories": [{"id": 3, "name": "bus"}]}'),
        '{"id2label": {"0": "bus"}}',
    ),
    "labelmap of TensorFlow": _plain(
        *(answer_labels.read_names, "x.pbtxt"),
        *('item { id: 3 name: "bus" }', "item {\n  name: 'x'\n  id: 6\n  display_name: 'car'\n}\n"),
    ),
    "valid": _plain(
        *(lambda path: threshold_curve.load_valid(path, ROWS), "x.csv"),
        "image,valid\n" + "".join(f"{row.file_name},yes\n" for row in ROWS[2:]),
    ),
    "labelled edits": _plain(
        *(edit_labels.read_labelled, "x.csv"),
        ",".join(edit_labels.COLUMNS) + "\n" + ",".join("1" for _ in edit_labels.COLUMNS) + "\n",
    ),
    "rulings": _plain(by_hand.read_rulings, "x.csv", "image,verdict,reason\na.png,exclude,no\nb.png,accept,\n"),
    "task": _plain(
        *(user_task.load_task, "x.toml", 'sentence = "is there a bus?"\nkeep = ["bus"]\n'),
        'sentence = "x {label}"\n[types]\na = "b"\n',
    ),
    "types": _plain(user_task.load_types, "x.toml", '[types.paint]\nmeaning = "the paint"\nexample = "red"\n'),
    "interventions": _plain(
        user_task.load_interventions, "x", "weather: fog, rain\ntime: night\n", '{"weather": ["fog"]}', "[weather]\n"
    ),
    "profile": FuzzedReader(
        _named(load_profile),
        _files(*(PROFILES / f"{name}.toml" for name in ("light", "pocket-full", "lance"))),
        "x.toml",
    ),
    "TOML": FuzzedReader(read_toml, _texts('a = 1\n[b]\nc = [1.5, "x"]\nd = 2026-01-01\n')),
    "JSON": FuzzedReader(reading.read_json, _json(COCO), "x.json"),
    "preparation": _tree(_named(published_inputs.read_preparation), "preprocessor_config.json", CONFIG),
    "declared preparation": _plain(
        _text(published_inputs.read_preparation),
        "x",
        "resize=256 crop=224 mean=imagenet std=imagenet",
        "resize=3x4 scale=255",
    ),
    "metadata": FuzzedReader(_folder(metadata.read_metadata), suite_table, "metadata.parquet"),
    "verdicts": FuzzedReader(_folder(verdicts.read_verdicts), suite_table, "metadata.parquet"),
    "row of the table": _tree(
        _of(lambda data: PictureRow.from_json(reading.parse_json(data), "a row", "again")),
        *("x", *(row.to_json() for row in ROWS)),
        refuses=(CounterfactoryError, ValueError),
    ),
    "record": FuzzedReader(
        _folder(run_record.read_run, recorded.recorded_classes, recorded.recorded_labels, recorded.recorded_profile),
        *(run_json, "run.json", mutate_record),
        once=(
            run_json()[0].replace(b'"0": "a"', b'"' + b"9" * 5000 + b'": "a"'),
            run_json()[0].replace(b"12.0", b"NaN"),
        ),
    ),
    "written record": FuzzedReader(_folder(rewrite_record), run_json, "run.json", mutate_record),
    "by hand": _tree(
        _folder(by_hand.read_by_hand),
        by_hand.FILE,
        {"pictures": {"images/a.png": {"verdict": "exclude", "reason": "no"}}},
    ),
    "status": _tree(_folder(read_status), STATUS, plain(RunStatus("running", 1.0, 2.0, 9, 3, 1, 2, 0, "core", 0.5))),
    "part": FuzzedReader(read_part, part_file),
    "rows of a part": FuzzedReader(partial(read_part, repack=True), part_rows, mutate=mutate_json),
    "ledger": FuzzedReader(read_ledger, ledger_file, "ledger.sqlite"),
    "open session": _row(
        open_session.load_open_session, plain(SessionRecord("a", "", False, session_facts(), (), costs()))
    ),
    "open batch": _row(open_store, {"adopted": True, "batch": ["images/a/b.png"]}),
    "painted row": _row(
        lambda rows: PaintedRow.from_json(rows.get("", ["a"])["a"], "a row", "again"),
        *(PAINTED, {**PAINTED, "mask": PAINTED["image"], "self_attention": 0.5}),
    ),
    "outcome": _row(lambda rows: outcomes(rows).find([]), {"made_by": "m", **OUTCOME}),
    "rows of an outcome": _row(lambda rows: list(outcomes(rows).rows([[]])), [row.to_json() for row in ROWS]),
    "kept answer": _row(kept_answer, *ANSWERS),
    "plan key": _tree(
        *(lambda path: plans.read_key(path.with_suffix("")), "a.plan.json", PLAN_KEY),
        place=lambda folder: (folder / "a.plan").write_bytes(b"") and None,
    ),
    "manifest": _tree(
        *(lambda path: plans.read_exported(path.parents[2], "a"), "onnx/a/manifest.json", MANIFEST),
        once=(json.dumps({**MANIFEST, "profiles": [3]}).encode(), b'{"onnx_sha256": 1e999, "profiles": [[]]}'),
    ),
    "facts": _tree(
        *(plan_facts.load_facts, "facts.json"),
        [{"name": "vae", "flops": 1e9, "weight_bytes": 10, "cache_bytes": 0, "more": 1}],
    ),
    "latents": _tree(library_of_latents, "latent.json", {"channels": 4, "factor": 8}),
    "words": _tree(
        text_networks.MaskVocabulary.read, "x.json", {"mask": "[MASK]", "token": 3, "words": {"red": 4, "bus": 5}}
    ),
    "rates": _tree(measured._entries, "x.json", RATES),
    "tokenizer": FuzzedReader(token_filter.load_tokenizer, _files(WEIGHTS / "clip_tokenizer.json"), "t.json"),
    "vocabulary": FuzzedReader(
        lambda path: token_filter.read_vocabulary(path, 0), _files(WEIGHTS / "llm" / "tokenizer.json"), "tokenizer.json"
    ),
    "answer about words": _tree(_text(questions.read_keywords), "x", [["weather", "rain"]], refuses=_ANSWER),
    "answer with words": _tree(_text(questions.read_alternatives), "x", ["fog", "snow"], refuses=_ANSWER),
    "answer with a caption": _tree(_text(questions.read_caption), "x", "a bus in fog", refuses=_ANSWER),
    "server's answer": _tree(
        *(answer, "x", {"data": [{"b64_json": "aaaa"}]}, {"error": {"message": "no"}}),
        refuses=(CounterfactoryError, exchange.PictureRefusedError),
    ),
    "workflow": _tree(workflow, "x.json", WORKFLOW),
    "output of a model": _tree(
        *(_of(lambda data: outputs.from_json(reading.parse_json(data))), "x", *ANSWERS),
        refuses=(ValueError, TypeError, IndexError, OSError),
    ),
    "names of a model's numbers": _plain(lambda path: answers.class_names(path, path.parent), "x.txt", "bus\ncar\n"),
    "list of VOC": FuzzedReader(
        *(_folder(partial(voc.list_voc, split="val"), up=2), _texts("a\nb -1\n"), "ImageSets/Main/val.txt"),
        place=put_pictures("JPEGImages/a.jpg", "Annotations/b.jpg"),
    ),
    "world": FuzzedReader(
        _folder(lambda folder: domain.world_of(of_folder(folder))),
        *(_files(WEIGHTS / "world_streets.json"), "world_x.json", mutate_json),
    ),
    "tokens of the captioner": _tree(
        *(_folder(open_captioner), "opt_tokens.json", {"bos": [2, 0], "eos": 2}, {"bos": 0, "eos": 2}),
        place=put_captioner,
    ),
    "embeddings of the captioner": FuzzedReader(
        _folder(open_captioner), numpy_files, "opt_embeddings.npy", place=put_captioner
    ),
    "ONNX": FuzzedReader(onnx_header.read_ports, onnx_file, "x.onnx"),
    "ONNX of a user": FuzzedReader(read_onnx_file, onnx_file, "x.onnx"),
    "what a model says of itself": _plain(
        lambda path: model_file._published(path.with_name("x.xml"), SimpleNamespace(metadata={}), OPEN_PORT),  # type: ignore[arg-type]
        "metadata.yaml",
        "names: {0: bus, 1: car}\ntask: detect\nimgsz: [8, 8]\nstride: 32\nbatch: 1\n",
        "names: [bus]\ntask: [1]\nimgsz: x\n",
    ),
    "norms in ONNX": FuzzedReader(cuda_norms.norms_for_cuda, norm_files, "x.onnx"),
}
