"""Claim: `evaluate` finds what one model lost against another and what one relies on, seldom says so where there is
nothing, counts AP as pycocotools does, and its order shows failures soon.

Pairs of models answer simulated suites (`simulated_suites.py`): the second errs elsewhere in a tenth of the pictures,
as often as the first, or in so many points more. A pair counts as broken where `--max-regression 0` says so of any
limit; how many lose certainly more than 2 stands beside it. AP is compared with fresh runs of pycocotools, and of
faster-coco-eval where that is installed, over all parts of a suite, and over sets in COCO's files with crowds
(`coco_sets.py`). Insights are looked for in simulated suites whose
model loses so many points in one class by one type of edit, or by none. `--write` keeps the figures in
docs/evaluation.json. `--orders` measures orders of variants instead (`orders.py`), with models that it trains.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from coco_sets import by_evaluate, by_pycocotools, write_set
from measure import DOCS, bench_parser, finish, show
from simulated_suites import classes_suite, stored, write_rows

import counterfactory as cf
from counterfactory.engine.judging.compare import check_regression, compare
from counterfactory.engine.judging.detections import SeenBox, evaluate_boxes
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.judging.evaluation import BoxScore, Evaluation
from counterfactory.engine.judging.insights import Insight
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow

_FIGURES = DOCS / "evaluation.json"
_DISAGREE, _CLASSES, _BOXED = 0.1, 1000, 40
# In COCO's files.
_SETS = 50
# A class of 50 sources that loses 40 points of 100 by one type of edit.
_SUITES, _INSIGHT_CLASSES, _INSIGHT_SOURCES, _LOST = 100, 3, 150, 0.4
_KINDS = ("bus", "car", "person")
# From a model to what each edit does to it.
_LINES = """
import counterfactory as cf
result = cf.evaluate("suite", "package.module:model")
print(result.effects())
"""


def main() -> None:
    parser = bench_parser(__doc__, write="docs/evaluation.json")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of models (%(default)s)")
    parser.add_argument("--sources", type=int, default=500, help="sources of a suite (%(default)s)")
    parser.add_argument("--points", type=float, default=3.0, help="what the second model lost (%(default)s)")
    parser.add_argument("--orders", action="store_true", help="measure orders of variants instead")
    parser.add_argument("--scenes", type=int, default=160, help="sources of the suite that is ordered (%(default)s)")
    asked = parser.parse_args()
    if asked.orders:
        _measure_orders(asked.scenes, asked.write)
        return
    rows, _ = classes_suite(20, asked.sources)
    lost, alike = (
        np.array([_broken(rows, seed, points / 100) for seed in range(asked.pairs)]) for points in (asked.points, 0.0)
    )
    found = {"found": lost[:, 0], "false_alarms": alike[:, 0], "found_beyond_2": lost[:, 1]}
    figures: dict[str, Any] = {"pairs": asked.pairs, "sources": asked.sources, "points": asked.points}
    figures |= {f"regression_{name}": round(float(of.mean()), 4) for name, of in found.items()}
    figures |= {**_insights(_SUITES), "ap_difference": _ap_difference(), "ap_difference_crowds": _crowds_difference()}
    figures["evaluate_s_10k"] = round(_seconds(10_000), 2)
    figures["lines_to_effects"] = len(_LINES.split("\n")) - 2
    show("Two models, and AP", ("figure", "value"), tuple((name, str(value)) for name, value in figures.items()))
    into = asked.write and _FIGURES
    finish("evaluate finds a planted regression and counts AP as pycocotools does", into=into, **figures)


def _measure_orders(scenes: int, write: bool) -> None:
    from orders import measure_orders  # which trains by torch

    with tempfile.TemporaryDirectory() as temporary:
        figures: dict[str, Any] = measure_orders(Path(temporary), scenes)
    show("How soon failures show", ("order", "APFD"), [(name, str(value)) for name, value in figures.items()])
    into = _FIGURES if write else None
    finish("the order shows failures soon of models that chose nothing", into=into, **figures)


def _insights(suites: int) -> dict[str, float]:
    """How often a class's weakness is the first insight, and how often a model without one has any."""
    rows, _ = classes_suite(_INSIGHT_CLASSES, _INSIGHT_SOURCES)
    named = alarms = 0
    for seed in range(suites):
        first, *_ = (*_clear(rows, seed, _LOST), None)
        named += first is not None and (first.label, first.type) == ("class 0", "time")
        alarms += bool(_clear(rows, seed, 0.0))
    return {"insight_named": named / suites, "insight_false_alarms": alarms / suites}


def _clear(rows: Sequence[PictureRow], seed: int, loss: float) -> list[Insight]:
    rng = np.random.default_rng(seed)
    hardness = {row.source: share for row, share in zip(rows, rng.beta(1, 9, len(rows)), strict=True)}
    weak = [loss * (row.label == "class 0" and "time" in row.edit_types) for row in rows]
    wrong = rng.random(len(rows)) < [max(hardness[row.source], more) for row, more in zip(rows, weak, strict=True)]
    answers = ["another" if fails else row.label for row, fails in zip(rows, wrong, strict=True)]
    return [one for one in evaluate_labels(rows, answers).insights if one.clear]


def _broken(rows: Sequence[PictureRow], seed: int, loss: float) -> list[bool]:
    """Whether a pair breaks --max-regression 0, and 2."""
    rng = np.random.default_rng((seed, round(1e6 * loss)))
    hardness = {row.source: share for row, share in zip(rows, rng.beta(2, 6, len(rows)), strict=True)}
    wrong = np.array([hardness[row.source] for row in rows])
    first = rng.random(len(rows)) >= wrong
    second = np.where(rng.random(len(rows)) < _DISAGREE, rng.random(len(rows)) >= wrong, first)
    second &= rng.random(len(rows)) >= loss / first.mean()
    names = [row.file_name for row in rows]
    one, other = (dict(zip(names, right.astype(float).tolist(), strict=True)) for right in (first, second))
    comparison = compare(rows, one, other, ("first", "second"))
    return [any(one.outcome == "broken" for one in check_regression(comparison, most)) for most in (0.0, 2.0)]


def _ap_difference() -> float:
    """The largest difference of AP, AP50 and AR over the parts of a suite."""
    rows, seen = _boxed()
    judged = evaluate_boxes(rows, seen)
    libraries = ["pycocotools.coco pycocotools.cocoeval COCO COCOeval"]
    if find_spec("faster_coco_eval") is not None:
        libraries.append("faster_coco_eval faster_coco_eval COCO COCOeval_faster")
    most = 0.0
    for library in libraries:
        for some, ours in _parts(rows, judged):
            theirs = _fresh(library.split(), some, seen)
            most = max(most, *(abs((a or 0.0) - b) for a, b in zip(ours, theirs, strict=True)))
    return most


def _crowds_difference() -> float:
    """The largest difference of AP, AP50 and AR over sets in COCO's files."""
    most = 0.0
    for seed in range(_SETS):
        with tempfile.TemporaryDirectory() as folder:
            theirs = by_pycocotools(*write_set(Path(folder), seed))
            ours = by_evaluate(Path(folder))
        most = max(most, *(abs((a or 0.0) - b) for a, b in zip(ours, theirs, strict=True)))
    return most


def _parts(rows: Sequence[PictureRow], judged: Evaluation) -> list[tuple[list[PictureRow], list[float | None]]]:
    def of(score: BoxScore) -> list[float | None]:
        return [score.ap, score.ap50, score.ar]

    ap50, ar = judged.measures[:2]
    originals, variants = ([row for row in rows if row.kind == kind] for kind in ("original", "variant"))
    parts = [(originals, [judged.originals.score.value, ap50.originals.value, ar.originals.value])]
    parts.append((variants, [judged.variants.score.value, ap50.variants.value, ar.variants.value]))
    for one in judged.boxes:
        of_edit = [row for row in variants if one.name in (*row.edit_types, *(edit.value for edit in row.edits))]
        some = [row for row in of_edit if len(row.edits) == 1 or not judged.effects.leads_alone]
        parts.append((some, of(one)))
    return parts


def _boxed() -> tuple[list[PictureRow], dict[str, list[SeenBox]]]:
    """A suite with boxes, and a detector that misses, shifts, mistakes and invents some."""
    rng = np.random.default_rng(0)
    plain, _ = classes_suite(1, _BOXED)

    def drawn_boxes() -> tuple[Box, ...]:
        sides = rng.uniform(5, 60, (rng.integers(1, 5), 4)).tolist()
        return tuple(Box(x, y, x + w, y + h, str(rng.choice(_KINDS))) for x, y, w, h in sides)

    things = {row.source: drawn_boxes() for row in plain}
    rows = [replace(row, boxes=things[row.source]) for row in plain]
    seen: dict[str, list[SeenBox]] = {}
    for row in rows:
        boxes = seen.setdefault(row.file_name, [])
        for box in row.boxes:
            if rng.random() < 0.8:
                x0, y0 = box.x0 + rng.normal(0, 3), box.y0 + rng.normal(0, 3)
                x1, y1 = max(x0 + 1, box.x1 + rng.normal(0, 3)), max(y0 + 1, box.y1 + rng.normal(0, 3))
                label = box.label if rng.random() < 0.9 else str(rng.choice(_KINDS))
                boxes.append(SeenBox(x0, y0, x1, y1, rng.random(), label))
        for x, y in rng.uniform(0, 60, (rng.integers(0, 3), 2)).tolist():
            boxes.append(SeenBox(x, y, x + 20, y + 20, rng.random(), str(rng.choice(_KINDS))))
    return rows, seen


def _fresh(library: Sequence[str], rows: Sequence[PictureRow], seen: Mapping[str, Sequence[SeenBox]]) -> list[float]:
    """AP, AP50 and AR of these pictures alone, by a library with its settings as they are."""
    coco_class = getattr(import_module(library[0]), library[2])
    eval_class = getattr(import_module(library[1]), library[3])

    def entry(number: int, image: int, box: Any) -> dict[str, Any]:
        width, height = box.x1 - box.x0, box.y1 - box.y0
        sides = {"bbox": [box.x0, box.y0, width, height], "area": width * height, "iscrowd": 0}
        return {"id": number, "image_id": image, "category_id": _KINDS.index(box.label) + 1, **sides}

    truths = [(i, box) for i, row in enumerate(rows, 1) for box in row.boxes]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = coco_class()
        coco.dataset = {
            "images": [{"id": i} for i in range(1, len(rows) + 1)],
            "categories": [{"id": i, "name": name} for i, name in enumerate(_KINDS, 1)],
            "annotations": [entry(k, *pair) for k, pair in enumerate(truths, 1)],
        }
        coco.createIndex()
        results = [
            {**entry(0, i, box), "score": box.score} for i, row in enumerate(rows, 1) for box in seen[row.file_name]
        ]
        evaluation = eval_class(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(evaluation.stats[i]) for i in (0, 1, 8)]


def _seconds(pictures: int) -> float:
    """Of one core, to judge so many pictures by the scores of a thousand classes, from the files on."""
    rows, answers = classes_suite(_CLASSES, pictures // 7)
    numbers = {f"class {k}": k for k in range(_CLASSES)}
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (len(rows), _CLASSES)).astype(np.float32)
    scores[np.arange(len(rows)), [numbers[str(answer)] for answer in answers]] += 9
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder)
        write_rows(suite, map(stored, rows))
        np.save(suite / "scores.npy", scores)
        (suite / "names.txt").write_text("\n".join(numbers))
        start = time.process_time()
        cf.evaluate(suite, suite / "scores.npy", classes=suite / "names.txt")
        return time.process_time() - start


if __name__ == "__main__":
    main()
