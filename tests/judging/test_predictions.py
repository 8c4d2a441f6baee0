"""Tables of a user's own answers: what is taken, what is refused, and to which picture each belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
from variant_rows import variant_row

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.predictions import load_predictions, match_predictions

ROWS = [
    variant_row(file_name="images/bus/1/a.png", source="bus/1"),
    variant_row(file_name="images/bus/1/b.png", source="bus/1", reason="too dark"),
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", "image,prediction\nbus/1,bus\nimages/bus/1/a.png,car\n"),
        ("p.csv", "\ufeffprediction,image,confidence\nbus,bus/1,0.9\ncar,images/bus/1/a.png,0.8\n"),
        ("p.jsonl", '{"image": "bus/1", "prediction": "bus"}\n\n{"image": "images/bus/1/a.png", "prediction": "car"}'),
        ("p.CSV", "image,prediction\nbus/1,bus\nbus/1,bus\nimages/bus/1/a.png,car\n"),
    ],
)
def test_tables_that_are_taken(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert load_predictions(tmp_path / name) == {"bus/1": "bus", "images/bus/1/a.png": "car"}


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("p.csv", b"", "is empty; its first line names the columns: image,prediction"),
        ("p.csv", b"image,label\na,b\n", "found: image, label"),
        ("p.csv", b"image,prediction\n", "holds no predictions"),
        ("p.csv", b"image,prediction\na\n", "p.csv:2"),
        ("p.csv", b"image,prediction\na,x\na,y\n", "second, different prediction for a"),
        ("p.csv", b"image,prediction\n\xff,x\n", "not UTF-8"),
        ("p.jsonl", b"{", "p.jsonl:1 is not valid JSON"),
        ("p.jsonl", b"[1]", "not a JSON object"),
        ("p.jsonl", b'{"image": "a", "prediction": 3}', "as text"),
        ("p.txt", b"a,b", ".csv and .jsonl"),
        ("p.csv", b"image,prediction\na,tench, Tinca tinca\n", "has 3 fields where the first line names 2"),
        (None, b"", "cannot read"),
    ],
)
def test_tables_that_are_refused(name: str | None, data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / (name or "missing.csv")
    if name:
        path.write_bytes(data)
    with pytest.raises(CounterfactoryError, match=told):
        load_predictions(path)


@pytest.mark.parametrize("original", ["bus/1", "bus/1.png", "bus/1.jpeg"])
def test_originals_are_named_with_or_without_suffix(original: str) -> None:
    answers = {original: "car", "images/bus/1/a.png": "bus", "unknown": "x"}
    assert match_predictions(answers, ROWS) == (["bus", ""], {"bus/1": ("bus", "car")})


def test_a_variant_without_answer_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match=r"1 of 2 variants have no prediction, .* images/bus/1/a\.png"):
        match_predictions({"images/bus/1/b.png": "bus"}, ROWS)


def test_a_source_s_own_name_may_look_like_a_suffix() -> None:
    rows = [variant_row(file_name="v.png", source="bus/1.5", label="bus")]
    assert match_predictions({"v.png": "bus", "bus/1.5": "car"}, rows)[1] == {"bus/1.5": ("bus", "car")}


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"; name variants as in metadata\.parquet's file_name$"):
        match_predictions({}, ROWS)
    (tmp_path / "p.csv").write_text("image,prediction\n")
    with pytest.raises(CounterfactoryError, match=r"holds no predictions; write the columns image and prediction$"):
        load_predictions(tmp_path / "p.csv")
