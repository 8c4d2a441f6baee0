"""A detector is judged as pycocotools judges it, whichever pictures are chosen; recall and false alarms by hand."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from picture_rows import control_row, original_row, picture_row
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.detections import SeenBox, evaluate_boxes
from counterfactory.engine.judging.evaluation import MeanScore, Side
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow

KINDS = ("bus", "car", "person")
TYPES = ("time", "weather")


def scene(sources: int, seed: int) -> tuple[list[PictureRow], dict[str, list[SeenBox]]]:
    """Rows of a suite with boxes, and a detector that shifts boxes, misses some, mistakes some and invents others."""
    random = np.random.default_rng(seed)
    rows: list[PictureRow] = []
    for source in range(sources):
        things = tuple(
            Box(x, y, x + w, y + h, str(random.choice(KINDS)))
            for x, y, w, h in random.uniform(5, 60, (random.integers(0, 4), 4)).tolist()
        )
        rows += [original_row(source, boxes=things), control_row(source, boxes=things)]
        for number in range(3):
            edits = tuple(Edit(kind, "", "x") for kind in random.choice(TYPES, 1 + number % 2, replace=False).tolist())
            name = f"images/{source}/{number}.png"
            rows.append(picture_row(3 * source, file_name=name, edits=edits, boxes=things))
    seen: dict[str, list[SeenBox]] = {}
    for row in rows:
        boxes = seen.setdefault(row.file_name, [])
        for box in row.boxes:
            if random.random() < 0.8:
                x0, y0, x1, y1 = (v + random.normal(0, 4) for v in (box.x0, box.y0, box.x1, box.y1))
                label = box.label if random.random() < 0.85 else str(random.choice((*KINDS, "dog")))
                boxes.append(SeenBox(x0, y0, max(x1, x0 + 1), max(y1, y0 + 1), random.random(), label))
        for x, y in random.uniform(0, 60, (random.integers(0, 3), 2)).tolist():
            boxes.append(SeenBox(x, y, x + 20, y + 20, random.random(), str(random.choice(KINDS))))
    return rows, seen


def oracle(rows: Sequence[PictureRow], seen: dict[str, list[SeenBox]]) -> list[float]:
    """AP, AP50 and AR by pycocotools alone, with all its settings as they are."""
    numbers = {name: i for i, name in enumerate(KINDS, start=1)}

    def entry(i: int, image: int, box: Any, **more: float) -> dict[str, Any]:
        w, h = box.x1 - box.x0, box.y1 - box.y0
        return {"id": i, "image_id": image, "category_id": numbers[box.label], "bbox": [box.x0, box.y0, w, h],
                "area": w * h, "iscrowd": 0, **more}  # fmt: skip

    truths = [(i, box) for i, row in enumerate(rows, 1) for box in row.boxes]
    results = [(i, box) for i, row in enumerate(rows, 1) for box in seen[row.file_name] if box.label in numbers]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": i} for i in range(1, len(rows) + 1)],
            "categories": [{"id": i, "name": name} for name, i in numbers.items()],
            "annotations": [entry(k, *pair) for k, pair in enumerate(truths, 1)],
        }
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes([entry(0, i, box, score=box.score) for i, box in results]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [evaluation.stats[i] for i in (0, 1, 8)]


@pytest.mark.parametrize("seed", range(4))
def test_ap_is_pycocotools_s_on_every_part_of_a_suite(seed: int) -> None:
    rows, seen = scene(15, seed)
    judged = evaluate_boxes(rows, seen)
    ap50, ar = judged.measures[:2]
    for kind, side, more in (
        ("original", judged.originals, (ap50.originals, ar.originals)),
        ("control", judged.controls, (ap50.controls, ar.controls)),
        ("variant", judged.variants, (ap50.variants, ar.variants)),
    ):
        some = [row for row in rows if row.kind == kind]
        assert [side.score.value, *(one.value for one in more)] == pytest.approx(oracle(some, seen), abs=1e-9)
        assert side.score.count == len(some)
        for name, value in side.by_class.items():
            alone = [replace(row, boxes=tuple(box for box in row.boxes if box.label == name)) for row in some]
            assert value == pytest.approx(oracle(alone, seen)[0], abs=1e-9)
    assert [score.name for score in judged.boxes] == ["time", "weather", "time: x", "weather: x"]
    for score in judged.boxes:
        some = [row for row in rows if row.kind == "variant" and score.name.partition(":")[0] in row.edit_types]
        assert [score.ap, score.ap50, score.ar] == pytest.approx(oracle(some, seen), abs=1e-9)


def test_recall_and_false_alarms_of_a_picture() -> None:
    things = (Box(0, 0, 10, 10, "bus"), Box(20, 20, 40, 40, "car"))
    rows = [control_row(boxes=things), picture_row(0, boxes=things), picture_row(1, boxes=things, number=1)]
    rows.append(picture_row(2, boxes=(Box(0, 0, 10, 10, "person"),), reason="too dark"))
    sure = [SeenBox(0, 0, 10, 10, 0.9, "bus"), SeenBox(20, 20, 40, 39, 0.5, "car")]
    seen = {
        rows[0].file_name: sure,
        # Too unsure, of another class, of no class of the suite: one of two found, two of three false.
        rows[1].file_name: [
            sure[0],
            SeenBox(20, 20, 40, 40, 0.4, "car"),
            SeenBox(20, 20, 40, 40, 0.9, "bus"),
            SeenBox(1, 1, 9, 9, 0.9, "dog"),
        ],
        rows[2].file_name: [],
    }
    judged = evaluate_boxes(rows, seen)
    assert judged.outcomes == {rows[0].file_name: 1, rows[1].file_name: 0.5, rows[2].file_name: 0}
    assert judged.effects.measure == "recall"
    assert [one.name for one in judged.measures] == ["AP50", "AR", "false alarms"]
    false = judged.measures[2]
    assert (false.originals, false.controls) == (MeanScore(0, None), MeanScore(1, 0))
    assert false.variants == MeanScore(2, pytest.approx(1 / 3))
    (effect,) = judged.effects.by_type
    assert effect.value == pytest.approx(-0.75)
    assert (judged.measure, judged.classes) == ("AP", ("bus", "car", "person"))
    assert judged.originals == Side(MeanScore(0, None), dict.fromkeys(judged.classes), ())
    assert judged.controls.by_class["person"] is None, "nobody was shown one"
    assert judged.measures[0].controls == MeanScore(1, pytest.approx(1))
    assert judged.measures[0].effects.by_type == ()
    assert (false.effects.measure, false.effects.by_type[0].value) == ("false alarms", pytest.approx(1 / 3))
    told = r"^2 of 2 variants have no boxes, the first is images/\S+; name pictures as metadata\.parquet does$"
    with refusal(told):
        evaluate_boxes(rows, {rows[0].file_name: sure})


def test_blind_and_perfect_detectors_and_what_does_not_count() -> None:
    rows, _ = scene(8, 1)
    blind = evaluate_boxes(rows, {row.file_name: [] for row in rows})
    assert blind.variants.score.value == 0
    flat = [SeenBox(5, 5, 5, 20, 1.0, "bus"), SeenBox(5, 5, 20, 5, 1.0, "bus")]  # without an area they are none
    perfect = {row.file_name: [SeenBox(b.x0, b.y0, b.x1, b.y1, 0.9, b.label) for b in row.boxes] for row in rows}
    perfect = {name: [*flat, *boxes] for name, boxes in perfect.items()}
    judged = evaluate_boxes(rows, perfect)
    assert judged.variants.score.value == pytest.approx(1)
    assert set(judged.outcomes.values()) == {1}
    assert {row.file_name for row in rows if not row.boxes}.isdisjoint(judged.outcomes), "nothing to find, no recall"
    rows, seen = scene(6, 2)
    rows[1] = replace(rows[1], reason="too dark")
    rows[2] = picture_row(0, file_name=rows[2].file_name, boxes=rows[2].boxes, reason="it was not seen")
    del seen[rows[3].file_name]
    judged = evaluate_boxes(rows, seen)
    assert (judged.variants.score.count, judged.excluded, judged.excluded_controls, judged.sources) == (16, 1, 1, 6)
    assert {one.name: one.rejected for one in judged.rejections if one.rejected} == {"weather": 1, "weather: snowy": 1}
    assert [(lack.kind, lack.count) for lack in judged.unanswered] == [("variant", 1)]


def test_a_suite_without_boxes_and_a_missing_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with refusal(r"^this suite has no boxes"):
        evaluate_boxes([picture_row()], {})
    rows, seen = scene(2, 3)
    for name in ("pycocotools", "pycocotools.coco"):
        monkeypatch.setitem(sys.modules, name, None)
    with refusal(r"pip install 'counterfactory\[detection\]'"):
        evaluate_boxes(rows, seen)
