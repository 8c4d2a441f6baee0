"""Tables of a user's own answers: what is taken, what is refused, and to which picture each belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.predictions import Matched, load_predictions, match_predictions

ROWS = [
    original_row(file_name="originals/bus/1/o.png", source="bus/1"),
    control_row(file_name="images/bus/1/c.png", source="bus/1"),
    picture_row(file_name="images/bus/1/a.png", source="bus/1"),
    picture_row(file_name="images/bus/1/b.png", source="bus/1", reason="too dark"),
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
        ("p.jsonl", b'{"image": "a", "prediction": 3.5}', "as text or a whole number"),
        ("p.jsonl", b'{"image": "a", "prediction": true}', "as text or a whole number"),
        ("p.jsonl", b'{"image": 3, "prediction": "a"}', "an image, as text"),
        ("p.jsonl", b'{"image": "a", "prediction": ""}', "an image, as text"),
        ("p.jsonl", b'{"image": "", "prediction": "a"}', "an image, as text"),
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


def test_class_numbers_are_answers(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"image": "a", "prediction": 281}\n{"image": "b", "prediction": "cat"}')
    assert load_predictions(tmp_path / "p.jsonl") == {"a": "281", "b": "cat"}


@pytest.mark.parametrize("original", ["bus/1", "bus/1.png", "bus/1.jpeg", "originals/bus/1/o.png"])
def test_originals_are_named_by_file_or_by_source_with_or_without_suffix(original: str) -> None:
    answers = {original: "car", "images/bus/1/a.png": "bus", "unknown.png": "x"}
    assert match_predictions(answers, ROWS) == Matched(("car", None, "bus", None), ("unknown.png",))


def test_every_kind_of_picture_gets_its_own_answer() -> None:
    answers = {row.file_name: str(i) for i, row in enumerate(ROWS)}
    assert match_predictions(answers, ROWS) == Matched(("0", "1", "2", "3"), ())


@pytest.mark.parametrize("kind", ["original", "control"])
def test_some_answers_of_a_kind_are_no_answers(kind: str) -> None:
    make = {"original": original_row, "control": control_row}[kind]
    rows = [ROWS[2], make(7, source="x"), make(8, source="y"), make(9, source="z", reason="too dark")]
    answers = {ROWS[2].file_name: "bus"}
    assert match_predictions(answers, rows).answers == ("bus", None, None, None)  # none at all is a choice
    with pytest.raises(CounterfactoryError, match=rf"^1 of 2 {kind}s have no prediction, .*{rows[2].file_name}"):
        match_predictions(answers | {rows[1].file_name: "bus"}, rows)


def test_a_variant_without_answer_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match=r"1 of 1 variants have no prediction, .* images/bus/1/a\.png"):
        match_predictions({"images/bus/1/b.png": "bus"}, ROWS)


def test_a_source_s_own_name_may_look_like_a_suffix() -> None:
    rows = [original_row(source="bus/1.5", label="bus")]
    assert match_predictions({"bus/1.5": "car"}, rows) == Matched(("car",), ())


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"; name pictures as in metadata\.parquet's file_name$"):
        match_predictions({}, ROWS)
    (tmp_path / "p.csv").write_text("image,prediction\n")
    with pytest.raises(CounterfactoryError, match=r"holds no predictions; write the columns image and prediction$"):
        load_predictions(tmp_path / "p.csv")
