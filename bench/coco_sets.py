"""Small sets in COCO's files with all that AP has rules for, and a detector's results: crowds, areas of every size,
more boxes than are counted, equal scores, pictures without a thing, classes without one.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from simulated_suites import classes_suite

from counterfactory.engine.api.box_files import json_boxes
from counterfactory.engine.judging.answer_labels import Vocabulary
from counterfactory.engine.judging.detections import evaluate_boxes
from counterfactory.engine.sources.data_set import SetOptions, read_set

_NAMES = ("bus", "car", "person", "dog", "cat")
_PICTURES, _HEIGHT, _WIDTH = 12, 240, 320
# Boxes on one picture, and scores: both are counted only so far.
_CROWDED, _SCORES = 130, 20


def write_set(root: Path, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A set, as its files have it, and results, whose pictures are numbered as the set's."""
    rng = np.random.default_rng(seed)
    images, annotations, results = [], list[dict[str, Any]](), list[dict[str, Any]]()
    for number in range(_PICTURES):
        images.append({"id": number, "file_name": f"{number:03d}.png", "height": _HEIGHT, "width": _WIDTH})
        Image.fromarray(rng.integers(0, 256, (_HEIGHT, _WIDTH, 3), dtype=np.uint8)).save(root / f"{number:03d}.png")
        # Of the last class there are crowds alone.
        for thing in range(int(rng.integers(0, 9)) * (number % 5 > 0)):
            crowd = bool(rng.random() < 0.25)
            kind = int(rng.integers(0, len(_NAMES) - 1)) if not crowd else int(rng.integers(0, len(_NAMES)))
            box = _box(rng)
            # Areas are those of outlines, less than of boxes.
            area = box[2] * box[3] * round(rng.uniform(0.4, 1), 2)
            about = {"id": 100 * number + thing + 1, "image_id": number, "category_id": kind + 1}
            annotations.append({**about, "bbox": box, "area": area, "iscrowd": int(crowd)})
            for _ in range(int(rng.integers(0, 4)) * (1 + 2 * crowd)):
                moved = [round(float(n + rng.normal(0, 0.08) * box[2 + i % 2]), 1) for i, n in enumerate(box)]
                moved[2:] = [max(1.0, side) for side in moved[2:]]
                results.append(_result(rng, number, kind if rng.random() < 0.85 else 0, moved))
        for _ in range(_CROWDED if number == 1 else int(rng.integers(0, 6))):
            results.append(_result(rng, number, 2 * (number != 1), _box(rng)))
    categories = [{"id": place, "name": name} for place, name in enumerate(_NAMES, start=1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "instances_all.json").write_text(json.dumps(content))
    (root / "results.json").write_text(json.dumps(results))
    return content, results


def _box(rng: np.random.Generator) -> list[float]:
    """x, y, width, height, in tenths of pixels: small, medium and large as COCO calls them."""
    width, height = (round(float(side), 1) for side in np.exp(rng.uniform(np.log(6), np.log((300, 220)))))
    corner = (round(float(rng.uniform(0, room)), 1) for room in (_WIDTH - width, _HEIGHT - height))
    return [*corner, width, height]


def _result(rng: np.random.Generator, image: int, kind: int, box: list[float]) -> dict[str, Any]:
    score = round(float(rng.integers(0, _SCORES)) / _SCORES, 2)
    return {"image_id": image, "category_id": kind + 1, "bbox": box, "score": score}


def by_evaluate(root: Path) -> list[float | None]:
    """AP, AP50 and AR of the pictures in a folder that `write_set` wrote, as originals of a suite."""
    sources = read_set(str(root), SetOptions()).sources
    suite, _ = classes_suite(1, len(sources))
    originals = [row for row in suite if row.kind == "original"]
    rows = [replace(row, boxes=source.boxes) for row, source in zip(originals, sources, strict=True)]
    # A suite has variants: the same pictures again, which are answered by nothing.
    more = [replace(row, file_name=f"variant/{row.file_name}", kind="variant") for row in rows]
    numbered = {str(number): name for number, name in enumerate(_NAMES, start=1)}
    words = Vocabulary(_NAMES, frozenset(_NAMES), _NAMES, numbered)
    listed, _ = json_boxes(root / "results.json", rows, print)
    seen = {name: [replace(box, label=words.settle_text(box.label)) for box in some] for name, some in listed.items()}
    seen |= {row.file_name: [] for row in more}
    judged = evaluate_boxes([*rows, *more], seen)
    return [judged.originals.score.value, *(one.originals.value for one in judged.measures[:2])]


def by_pycocotools(content: dict[str, Any], results: list[dict[str, Any]]) -> list[float]:
    """The same by pycocotools alone, from the files, with its settings as they are."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = content
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes([dict(one) for one in results]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(evaluation.stats[place]) for place in (0, 1, 8)]
