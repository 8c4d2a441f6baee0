"""What a table of answers may say beside them: confidence, the likeliest labels, and columns that are not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from picture_rows import picture_row

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.predictions import Prediction, RowPredictions, load_predictions


@pytest.mark.parametrize(
    ("name", "text", "read", "ignored"),
    [
        ("p.csv", "image,prediction,split,id\na,b,test,1\n", Prediction("b"), ("split", "id")),
        ("p.csv", "image,prediction,confidence\na,b,0.25\n", Prediction("b", 0.25), ()),
        ("p.csv", "image,prediction,probability\na,b,1\n", Prediction("b", 1.0), ()),
        ("p.csv", "image,prediction,confidence\na,b,\n", Prediction("b"), ()),
        ("p.csv", "image,prediction,prediction_2,prediction_3\na,b,c,d\n", Prediction("b", None, ("b", "c", "d")), ()),
        ("p.csv", "image,prediction,prediction_2,prediction_5\na,b,c,\n", Prediction("b", None, ("b", "c")), ()),
        ("p.csv", "image,prediction,prediction_6\na,b,c\n", Prediction("b"), ("prediction_6",)),
        ("p.csv", "image,prediction,top5\na,b,c | b|d\n", Prediction("b", None, ("c", "b", "d")), ()),
        (
            "p.jsonl",
            '{"image": "a", "prediction": 3, "top5": [3, 2, 1, 5, 4], "confidence": 0, "id": 7}',
            Prediction("3", 0.0, ("3", "2", "1", "5", "4")),
            ("id",),
        ),
        ("p.jsonl", '{"image": "a", "prediction": "b", "top5": [], "confidence": null}', Prediction("b"), ()),
        (
            "p.jsonl",
            '{"image": "a", "prediction": "b", "id": 7}\n{"image": "a", "prediction": "b", "split": "test"}',
            Prediction("b"),
            ("id", "split"),
        ),
    ],
)
def test_what_a_table_says_beside_its_answers(
    name: str, text: str, read: Prediction, ignored: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    found = load_predictions(tmp_path / name)
    assert found.answers == {"a": read}
    assert found.ignored == ignored


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"confidence": 93}, r"p\.jsonl:1: confidence is what the model gives its prediction, from 0 to 1; found 93$"),
        ({"confidence": -0.1}, "found -0.1"),
        ({"confidence": 1.5}, "from 0 to 1; found 1.5"),
        ({"probability": "high"}, "probability is what .* found 'high'"),
        ({"confidence": True}, "found True"),
        ({"confidence": 10**400}, r"found 1000.*\.\.\.$"),
        ({"confidence": [0.5]}, r"found \[0.5\]"),
        ({"confidence": 0.5, "probability": 0.5}, "has confidence and probability: give one"),
        ({"top5": ["c", "d"]}, r"p\.jsonl:1: a prediction .* the prediction 'b' among them .* found .'c', 'd'.$"),
        ({"top5": list("abcdef")}, "are up to 5 labels"),
        ({"top5": ["b", 0.5]}, "are up to 5 labels"),
        ({"top5": "b;c"}, "with . between them.; found 'b;c'"),
        ({"top5": {"b": 1}}, "are up to 5 labels"),
        ({"top5": ["b"], "prediction_2": "c"}, "has top5 and prediction_2: give one"),
        ({"prediction_3": 1.5}, r"are up to 5 labels.* found \['b', 1\.5\]$"),
    ],
)
def test_what_makes_no_sense_beside_an_answer_is_refused(row: dict[str, Any], told: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(json.dumps({"image": "a", "prediction": "b", **row}))
    with pytest.raises(CounterfactoryError, match=told):
        load_predictions(tmp_path / "p.jsonl")


@pytest.mark.parametrize(("length", "shown"), [(158, 158), (159, 156)])
def test_what_is_found_is_shown_up_to_a_length(length: int, shown: int, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(f"image,prediction,confidence\na,b,{'x' * length}\n")
    end = "'" if shown == length else r"\.\.\."
    with pytest.raises(CounterfactoryError, match=f"; found 'x{{{shown}}}{end}$"):
        load_predictions(tmp_path / "p.csv")


@pytest.mark.parametrize(("column", "called"), [("confidence", "confidence"), ("top5", "likeliest labels")])
def test_what_is_beside_some_answers_has_to_be_beside_all(column: str, called: str, tmp_path: Path) -> None:
    for above, below, told in (
        ("1", "", f"p.csv:3 lacks {called}, which rows above have: give all rows, or none$"),
        ("", "1", f"p.csv:3 has {called}, which rows above lack"),
    ):
        (tmp_path / "p.csv").write_text(f"image,prediction,{column}\na,1,{above}\nb,1,{below}\n")
        with pytest.raises(CounterfactoryError, match=told):
            load_predictions(tmp_path / "p.csv")


def test_answers_are_measured_by_what_stands_beside_them() -> None:
    rows = [picture_row(i, label="bus") for i in range(3)]
    answers = (Prediction("car", 0.75, ("car", "bus")), None, Prediction("x", 0.5, ("x", "y", "z")))
    assert RowPredictions(answers, ()).measures(rows) == {
        "top-3 accuracy": [1.0, None, 0.0],
        "confidence": [0.75, None, 0.5],
    }
    assert RowPredictions((Prediction("car"), None), ()).measures(rows[:2]) == {}
    assert RowPredictions((None,), ()).measures(rows[:1]) == {}
