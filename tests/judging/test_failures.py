"""Lists of what a model fails on: who is on them, in which order, and beside which other answers."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.detections import SeenBox, evaluate_boxes
from counterfactory.engine.judging.evaluate import evaluate_masks
from counterfactory.engine.judging.failures import label_failures, mask_failures
from counterfactory.engine.judging.predictions import Prediction
from counterfactory.engine.sources.shapes import Box

CONTROL = control_row(0)
EDITS = (Edit("weather", "dry", "snowy"), Edit("object", "", "a dog"), Edit("object", "a bus", ""))
ROWS = [
    original_row(0),
    CONTROL,
    picture_row(0, control=CONTROL.file_name, edits=EDITS, edited_caption='A "red" bus, at night.'),
    picture_row(1, control=CONTROL.file_name),
    picture_row(2, control=CONTROL.file_name, reason="too dark"),
    picture_row(3),
]


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_wrong_answers_are_listed_the_surest_first() -> None:
    sure = (0.9, 0.6, 0.5, 0.8, 1.0, 0.7)
    labels = ("bus", "car", "car", "tram", "car", "bus")
    text = label_failures(ROWS, [Prediction(*pair) for pair in zip(labels, sure, strict=True)])
    assert "\r" not in text
    found = read(text)
    assert [row["file_name"] for row in found] == [ROWS[i].file_name for i in (3, 1, 2)]
    assert found[2] == {
        "file_name": ROWS[2].file_name,
        "kind": "variant",
        "source": "bus/0000",
        "label": "bus",
        "edits": "weather: dry -> snowy; object: (nothing) -> a dog; object: a bus -> (nothing)",
        "edited_caption": 'A "red" bus, at night.',
        "prediction": "car",
        "confidence": "0.5",
        "original_prediction": "bus",
        "control_prediction": "car",
    }
    hesitant = [None, Prediction("tram", 0.0), Prediction("car", 0.5), Prediction("car", 0.25), None, None]
    found = read(label_failures(ROWS, hesitant))
    order = [(row["file_name"], row["confidence"]) for row in found]
    assert order == [(ROWS[i].file_name, sure) for i, sure in ((2, "0.5"), (3, "0.25"), (1, "0.0"))]
    unsure = read(label_failures(ROWS, [None, None, Prediction("car"), Prediction("tram"), None, None]))
    given = ("prediction", "confidence", "original_prediction", "control_prediction")
    assert [[row[name] for name in given] for row in unsure] == [["car", "", "", ""], ["tram", "", "", ""]]


def test_variants_whose_masks_are_worse_than_the_control_s_are_listed_by_their_fall() -> None:
    def counts(right: int) -> np.ndarray:
        return np.array([[right, 8 - right], [0, 8]], np.int64)

    answers = [counts(8), counts(6), counts(5), counts(2), counts(0), counts(3)]
    found = read(mask_failures(ROWS, evaluate_masks(ROWS, answers, ("sky", "road"))))
    assert [row["file_name"] for row in found] == [ROWS[3].file_name, ROWS[2].file_name]
    assert (found[0]["miou"], found[0]["original_miou"], found[0]["control_miou"]) == ("0.4107", "1.0000", "0.7750")
    same = [counts(8), counts(6), counts(6), counts(7), None, counts(3)]
    assert read(mask_failures(ROWS, evaluate_masks(ROWS, same, ("sky", "road")))) == []
    bare = [row for row in ROWS if row.kind != "control"]
    evaluation = evaluate_masks(bare, [counts(8), counts(6), counts(8), None, None], ("sky", "road"))
    fallen = read(mask_failures(bare, evaluation))
    assert [(row["file_name"], row["control_miou"]) for row in fallen] == [(ROWS[2].file_name, "")]


def test_variants_of_which_less_is_found_are_listed_by_recall() -> None:
    rows = [replace(row, boxes=(Box(0, 0, 8, 8, "bus"),)) for row in ROWS[:3]]
    seen = {row.file_name: [SeenBox(0, 0, 8, 8, 1.0, "bus")] * (row.kind != "variant") for row in rows}
    (found,) = read(mask_failures(rows, evaluate_boxes(rows, seen)))
    assert (found["recall"], found["original_recall"], found["control_recall"]) == ("0.0000", "1.0000", "1.0000")


def test_a_picture_without_a_label_has_an_empty_one_and_captions_are_as_they_were_written() -> None:
    row = picture_row(label=None, edited_caption="A bus.\r\nIt waits.")
    counts = [np.array([[right, 8 - right], [0, 8]], np.int64) for right in (8, 4)]
    rows = [original_row(label=None), row]
    (found,) = read(mask_failures(rows, evaluate_masks(rows, counts, ("sky", "road"))))
    assert (found["label"], found["edited_caption"]) == ("", "A bus.\r\nIt waits.")


def test_no_cell_is_a_formula_for_a_spreadsheet() -> None:
    words = ("=1+1", "+1", "-1", "@x", "\tx", "x=1")
    rows = [picture_row(i, label=word, edited_caption=word) for i, word in enumerate(words)]
    found = read(label_failures(rows, [Prediction(f"-{word}") for word in words]))
    assert [row["label"] for row in found] == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "x=1"]
    assert all(row["prediction"].startswith("'-") and row["edited_caption"] == row["label"] for row in found)
