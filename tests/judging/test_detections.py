"""A detector is judged as pycocotools judges it, whichever pictures are chosen; recall and false alarms by hand."""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_sets import by_evaluate, by_pycocotools, write_set
from picture_rows import control_row, original_row, picture_row
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging import detections
from counterfactory.engine.judging.detections import SeenBox, evaluate_boxes
from counterfactory.engine.judging.evaluation import Evaluation, MeanScore, Side
from counterfactory.engine.judging.groups import group_rows
from counterfactory.engine.judging.precision import ClassMatches, average_precision
from counterfactory.engine.report.effects_text import evaluation_tables, note_lines
from counterfactory.engine.sources.shapes import Box, Ignored
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
    assert judged.effects.leads_alone
    controls = {row.source: row for row in rows if row.kind == "control"}
    for score in judged.boxes:
        some = [row for row in rows if row.kind == "variant" and (score.name.partition(":")[0],) == row.edit_types]
        assert [score.ap, score.ap50, score.ar] == pytest.approx(oracle(some, seen), abs=1e-9)
        # A source's control is there as often as its variants of the edit are.
        beside, answers = repeated([controls[row.source] for row in some], seen)
        assert score.before == pytest.approx(oracle(beside, answers)[0], abs=1e-9)
        assert score.change is not None
        assert score.change.value == pytest.approx((score.ap or 0) - (score.before or 0), abs=1e-9)


def repeated(
    rows: Sequence[PictureRow], seen: dict[str, list[SeenBox]]
) -> tuple[list[PictureRow], dict[str, list[SeenBox]]]:
    """The rows as pictures of their own, each as often as it is there, with the same answers."""
    copies = [replace(row, file_name=f"{number}/{row.file_name}") for number, row in enumerate(rows)]
    return copies, {copy.file_name: seen[row.file_name] for copy, row in zip(copies, rows, strict=True)}


def sorted_matches(rows: Sequence[PictureRow], seen: dict[str, list[SeenBox]]) -> list[ClassMatches]:
    return detections._Coco(rows, seen, KINDS, KINDS)._sorted


@pytest.mark.parametrize("seed", range(4))
def test_ap_of_drawn_pictures_is_pycocotools_s_of_a_set_that_holds_them_so_often(seed: int) -> None:
    rows, seen = scene(8, seed)
    some = [row for row in rows if row.kind == "variant"]
    draws = np.random.default_rng(seed).multinomial(len(some), np.full(len(some), 1 / len(some)), 4)
    found = average_precision(sorted_matches(some, seen), draws.astype(float))
    for draw, value in zip(draws.tolist(), found, strict=True):
        held = [row for row, count in zip(some, draw, strict=True) for _ in range(count)]
        assert value == pytest.approx(oracle(*repeated(held, seen))[0], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_ap_of_drawn_pictures_ignores_what_is_ignored(seed: int) -> None:
    rows, seen = ignoring(seed)
    rng = np.random.default_rng(seed)
    seen = {name: [replace(box, score=rng.random()) for box in boxes] for name, boxes in seen.items()}
    some = [row for row in rows if row.kind == "original"]
    draw = rng.integers(0, 3, (1, len(some)))
    held, answers = repeated(
        [row for row, count in zip(some, draw[0].tolist(), strict=True) for _ in range(count)], seen
    )
    (value,) = average_precision(sorted_matches(some, seen), draw.astype(float))
    assert value == pytest.approx(evaluate_boxes(held, answers).originals.score.value, abs=1e-9)


def test_ap_of_nothing_is_unknown_and_of_a_blind_model_0() -> None:
    rows, seen = scene(3, 0)
    matches = sorted_matches(rows, {name: [] for name in seen})
    assert np.isnan(average_precision(matches, np.zeros((1, len(rows))))).all()
    assert average_precision(matches, np.ones((2, len(rows)))).tolist() == [0, 0]


def detected(sources: int, lost: float, seed: int = 0) -> Evaluation:
    """A detector that finds 9 things of 10, and by night such a share of these no more; harder sources are harder."""
    rng, rows, seen = np.random.default_rng(seed), list[PictureRow](), dict[str, list[SeenBox]]()
    for number in range(sources):
        boxes = tuple(Box(20.0 * k, 0, 20.0 * k + 15, 15, "bus") for k in range(4))
        night = picture_row(3 * number, file_name=f"n{number}", edits=(Edit("time", "day", "night"),), boxes=boxes)
        rows += [replace(control_row(boxes=boxes), source=night.source, file_name=f"c{number}"), night]
        hard = rng.beta(9, 1)
        for row, share in zip(rows[-2:], (hard, hard * (1 - lost)), strict=True):
            found = [box for box in boxes if rng.random() < share]
            seen[row.file_name] = [SeenBox(b.x0, b.y0, b.x1, b.y1, rng.uniform(0.5, 1), "bus") for b in found]
    return evaluate_boxes(rows, seen)


def test_a_change_of_ap_is_clear_where_there_is_one_and_few_pictures_are_said_to_be_few() -> None:
    (clear, *_) = detected(60, 0.5).boxes
    assert clear.change is not None
    assert clear.change.clear
    assert clear.change.high is not None
    assert clear.change.high < -0.2
    assert clear.change.sources == clear.pictures == 60
    (table,) = (table for table in evaluation_tables(detected(3, 0.5)) if {"edit", "AR"} <= set(table.columns))
    assert {row[1] for row in table.rows} == {"3, few"}
    assert any("few" in note for note in table.notes)
    (table,) = (table for table in evaluation_tables(detected(12, 0.5)) if {"edit", "AR"} <= set(table.columns))
    assert {row[1] for row in table.rows} == {"12"}
    assert "AP of controls" in table.columns
    assert "95 % interval" in table.columns
    assert detected(12, 0.5).boxes == detected(12, 0.5).boxes, "draws are the same"


def test_of_a_few_drives_no_change_of_ap_is_certain() -> None:
    rows, seen = scene(24, 0)
    for drives, known in ((4, False), (8, True)):
        sources = sorted({row.source for row in rows})
        grouped = group_rows(rows, {source: f"drive {k % drives}" for k, source in enumerate(sources)})
        found = [one.change for one in evaluate_boxes(grouped, seen).boxes if ":" not in one.name]
        assert found
        assert all(one is not None and one.sources <= drives and (one.low is not None) is known for one in found)


def test_a_detector_that_loses_nothing_is_seldom_called_worse() -> None:
    found = [detected(24, 0.0, seed).boxes[0].change for seed in range(16)]
    assert sum(one is not None and one.clear for one in found) <= 1


def test_without_a_baseline_there_is_ap_and_no_change() -> None:
    rows, seen = scene(5, 0)
    some = [row for row in rows if row.kind == "variant"]
    judged = evaluate_boxes(some, seen)
    assert judged.boxes
    assert all((one.before, one.change) == (None, None) for one in judged.boxes)
    (table,) = (table for table in evaluation_tables(judged) if {"edit", "AR"} <= set(table.columns))
    assert table.columns == ("edit", "pictures", "AP", "AP50", "AR")


def test_recall_and_false_alarms_of_a_picture() -> None:
    things = (Box(0, 0, 10, 10, "bus"), Box(20, 20, 40, 40, "car"))
    rows = [control_row(boxes=things), picture_row(0, boxes=things), picture_row(1, boxes=things, number=1)]
    rows.append(picture_row(2, boxes=(Box(0, 0, 10, 10, "person"),), reason="too dark"))
    sure = [SeenBox(0, 0, 10, 10, 0.9, "bus"), SeenBox(20, 20, 40, 39, 0.5, "car")]
    seen = {
        rows[0].file_name: sure,
        # Too unsure, of another class, of no class of the set: one of two found, one of two false.
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
    assert false.variants == MeanScore(2, pytest.approx(1 / 4))
    (effect,) = judged.effects.by_type
    assert effect.value == pytest.approx(-0.75)
    assert (judged.measure, judged.classes) == ("AP", ("bus", "car", "person"))
    assert judged.originals == Side(MeanScore(0, None), dict.fromkeys(judged.classes), ())
    assert judged.controls.by_class["person"] is None, "nobody was shown one"
    assert judged.measures[0].controls == MeanScore(1, pytest.approx(1))
    assert judged.measures[0].effects.by_type == ()
    assert (false.effects.measure, false.effects.by_type[0].value) == ("false alarms", pytest.approx(1 / 4))
    told = r"^2 of 2 variants have no boxes, the first is images/\S+; name pictures as metadata\.parquet does$"
    with refusal(told):
        evaluate_boxes(rows, {rows[0].file_name: sure})


def test_blind_and_perfect_detectors_and_what_does_not_count() -> None:
    rows, _ = scene(8, 1)
    blind = evaluate_boxes(rows, {row.file_name: [] for row in rows})
    assert blind.variants.score.value == 0
    flat = [SeenBox(5, 5, 5, 20, 0.5, "bus"), SeenBox(5, 5, 20, 5, 0.5, "bus")]  # found nothing, after all that did
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


def test_what_the_set_does_not_label_counts_in_nothing() -> None:
    """The set names cats, though no picture shows one: a cat is a false alarm, a dog is nothing that it knows of."""
    rows = [original_row(boxes=(Box(0, 0, 10, 10, "bus"),)), picture_row(boxes=(Box(0, 0, 10, 10, "bus"),))]
    sure = SeenBox(0, 0, 10, 10, 0.9, "bus")
    others = [SeenBox(20, 0, 30, 10, 0.9, name) for name in ("dog", "cow", "dog", "cat")]
    seen = {row.file_name: [sure, *others, replace(others[0], score=0.4)] for row in rows}
    judged = evaluate_boxes(rows, seen, named=("bus", "cat"))
    assert judged.classes == ("bus",)
    assert judged.originals.by_class == {"bus": pytest.approx(1)}
    assert judged.originals.score.value == pytest.approx(1)
    assert judged.measures[2].originals.value == 0.5
    assert judged.unlabelled == {"dog": 4, "cow": 2}
    assert list(judged.to_json()["unlabelled"]) == ["dog", "cow"]
    (note,) = (line for line in note_lines(judged) if "does not label" in line)
    assert note.startswith("6 boxes of 2 classes")
    assert note.endswith("such as dog")
    assert evaluate_boxes(rows, seen).measures[2].originals.value == 0


def ignoring(seed: int) -> tuple[list[PictureRow], dict[str, list[SeenBox]]]:
    """A scene with crowds, difficult things and a region of every class, and boxes on them, of few different scores."""
    random = np.random.default_rng(seed)
    rows, seen = scene(12, seed)
    ignored: dict[str, tuple[Box, ...]] = {}
    for row in rows:
        if row.source not in ignored:
            made = [
                Box(x, y, x + w, y + h, str(random.choice([*KINDS, "dog"])), ignored=("crowd", "difficult")[number % 2])
                for number, (x, y, w, h) in enumerate(random.integers(5, 60, (random.integers(0, 5), 4)).tolist())
            ]
            ignored[row.source] = (*made, Box(50, 50, 80, 80, "", ignored="crowd"))
    rows = [replace(row, boxes=(*row.boxes, *ignored[row.source])) for row in rows]
    for row in rows:
        boxes = [replace(box, score=round(box.score, 1)) for box in seen[row.file_name]]
        for box in row.boxes:
            for _ in range(2 if box.ignored else 0):
                x0, y0, x1, y1 = (v + random.normal(0, 2) for v in (box.x0, box.y0, box.x1, box.y1))
                boxes.append(SeenBox(x0, y0, max(x0, x1), max(y0, y1), round(random.random(), 1), box.label or "bus"))
        seen[row.file_name] = boxes
    return rows, seen


def overlap(seen: SeenBox, box: Box) -> float:
    """Of both boxes' area; of a crowd's only what the model's box has."""
    across, down = min(seen.x1, box.x1) - max(seen.x0, box.x0), min(seen.y1, box.y1) - max(seen.y0, box.y0)
    area = (seen.x1 - seen.x0) * (seen.y1 - seen.y0)
    inner = max(0.0, across) * max(0.0, down)
    return inner / (area if box.ignored == "crowd" else area + box.area - inner) if inner else 0.0


def slow_precision(rows: Sequence[PictureRow], seen: dict[str, list[SeenBox]], name: str, least: float) -> float | None:
    """AP of a class at one overlap, box by box: a thing is found once, and what is ignored any number of times."""
    judged: list[tuple[float, bool]] = []
    count = sum(box.label == name for row in rows for box in row.things)
    for row in rows:
        left = [box for box in row.things if box.label == name]
        ignored = [box for box in row.boxes if box.ignored and box.label in (name, "")]
        for box in sorted((one for one in seen[row.file_name] if one.label == name), key=lambda one: -one.score)[:100]:
            best = max(left, key=lambda thing: overlap(box, thing), default=None)
            if best is not None and overlap(box, best) >= least:
                left.remove(best)
                judged.append((box.score, True))
            elif all(overlap(box, region) < least for region in ignored):
                judged.append((box.score, False))
    if not count:
        return None
    judged.sort(key=lambda one: -one[0])
    hits = np.cumsum([right for _, right in judged])
    precision = np.maximum.accumulate((hits / np.arange(1, len(judged) + 1))[::-1])[::-1] if judged else np.zeros(0)
    places = np.searchsorted(hits / count, np.linspace(0, 1, 101), side="left")
    return float(np.mean([precision[place] if place < len(precision) else 0.0 for place in places]))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_ignored_is_neither_hit_nor_alarm(seed: int) -> None:
    rows, seen = ignoring(seed)
    some = [row for row in rows if row.kind == "original"]
    judged = evaluate_boxes(rows, seen)
    overlaps = np.linspace(0.5, 0.95, 10).tolist()
    for name in KINDS:
        wanted = [slow_precision(some, seen, name, least) for least in overlaps]
        assert judged.originals.by_class[name] == pytest.approx(np.mean(wanted), abs=1e-9)
    assert judged.classes == KINDS, "of dogs there are only regions"
    at_half = [slow_precision(some, seen, name, 0.5) for name in KINDS]
    assert judged.measures[0].originals.value == pytest.approx(np.mean([one for one in at_half if one is not None]))


@pytest.mark.parametrize(("mark", "alarms"), [("crowd", (0, 0)), ("difficult", (1 / 2, 2 / 3))])
def test_a_crowd_takes_what_lies_in_it_and_a_difficult_thing_itself(mark: Ignored, alarms: tuple[float, float]) -> None:
    things = (Box(0, 0, 10, 10, "bus"), Box(40, 0, 80, 40, "bus", ignored=mark))
    rows = [original_row(boxes=things), picture_row(boxes=things)]
    # The third box is on the ignored thing again, the fourth and the fifth within it.
    boxes = [(0, 0, 10, 10), (40, 0, 80, 40), (40, 0, 80, 39), (50, 10, 60, 20), (55, 20, 65, 30)]
    seen = [SeenBox(*map(float, box), 0.9, "bus") for box in boxes]
    for some, value in zip((seen[:4], seen), alarms, strict=True):
        judged = evaluate_boxes(rows, {row.file_name: some for row in rows})
        assert judged.measures[2].originals.value == pytest.approx(value)
        assert set(judged.outcomes.values()) == {1}


@pytest.mark.parametrize("seed", range(6))
def test_a_set_in_coco_s_files_has_the_ap_that_pycocotools_gives_it(seed: int, tmp_path: Path) -> None:
    """Crowds, areas of every size, more than 100 boxes of a class, equal scores, pictures with nothing."""
    content, results = write_set(tmp_path, seed)
    assert any(one["iscrowd"] for one in content["annotations"])
    assert max(Counter((one["image_id"], one["category_id"]) for one in results).values()) > 100
    theirs = by_pycocotools(content, results)
    assert by_evaluate(tmp_path) == pytest.approx(theirs, abs=1e-9)
    plain = [one | {"iscrowd": 0} for one in content["annotations"]]
    assert by_pycocotools(content | {"annotations": plain}, results)[0] != pytest.approx(theirs[0], abs=1e-4)
