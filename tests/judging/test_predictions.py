"""Tables of a user's own answers: what is taken, what is refused, and to which picture each belongs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from picture_rows import control_row, original_row, picture_row
from refusing import refusal

from counterfactory.engine.judging.evaluation import Unanswered
from counterfactory.engine.judging.predictions import (
    Prediction,
    RowPredictions,
    find_rows,
    find_unanswered,
    load_predictions,
    match_predictions,
    read_predictions,
)
from counterfactory.engine.suite import PictureRow

ANSWER = '{"image": "a", "prediction": "b"}'
# What programs write where there is no answer.
NOTHING = ("", "nan", "NaN", "None", "null", "NULL", "<NA>")
ROWS = [
    original_row(file_name="originals/bus/1/o.png", source="bus/1"),
    control_row(file_name="images/bus/1/c.png", source="bus/1"),
    picture_row(file_name="images/bus/1/a.png", source="bus/1"),
    picture_row(file_name="images/bus/1/b.png", source="bus/1", reason="too dark"),
]


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("p.csv", b"image,label\na,b\n", "found: image, label"),
        ("p.csv", b"id,prediction\na,b\n", "found: id, prediction"),
        ("p.csv", b"image,prediction\n", "p.csv holds no predictions; write the columns image and prediction$"),
        ("p.csv", b"image,prediction\na,x\na,y\n", "second, different prediction for a"),
        ("p.jsonl", b"{", "p.jsonl:1 is not valid JSON"),
        ("p.jsonl", b'{"image": "a", "prediction": 3.5}', r"as text or a whole number; found \{.*3\.5\}$"),
        ("p.jsonl", b'{"image": "a", "prediction": true}', "as text or a whole number"),
        ("p.jsonl", b'{"image": 3, "prediction": "a"}', "an image, as text"),
        ("p.jsonl", b'{"image": "", "prediction": "a"}', "an image, as text"),
        *(("p.csv", f"image,prediction\nc,{word}\n".encode(), "p.csv holds no predictions") for word in NOTHING),
        ("p.jsonl", b'{"image": "a", "prediction": NaN}', "p.jsonl holds no predictions"),
        ("p.jsonl", b'{"image": "a", "prediction": null}', "p.jsonl holds no predictions"),
        ("p.jsonl", b'{"image": "a", "prediction": [{"label": "a"}]}', "p.jsonl:1 needs a list of dicts of label and"),
        ("p.jsonl", b'{"image": "a", "prediction": ["a"]}', "p.jsonl:1 needs a list of dicts of label and score"),
    ],
)
def test_tables_that_are_refused(name: str, data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with refusal(told):
        load_predictions(tmp_path / name)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_of_any_kind_has_the_same_answers(suffix: str, tmp_path: Path) -> None:
    rows = [{"file_name": "a", "prediction": "x", "p_true": 0.25}, {"file_name": "b", "prediction": "3", "p_true": 1}]
    file = tmp_path / f"p.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist([{**row, "p_true": float(row["p_true"])} for row in rows]), file)
    elif suffix == "csv":
        file.write_text("file_name,prediction,p_true\na,x,0.25\nb,3,1\n")
    else:
        file.write_text("\n".join(map(json.dumps, rows)))
    table = load_predictions(file)
    assert table.answers == {"a": Prediction("x", true=0.25), "b": Prediction("3", true=1.0)}
    assert table.ignored == ()


def test_what_a_model_gives_the_true_label_is_a_measure_of_its_own() -> None:
    answers = {row.file_name: Prediction("bus", 0.5, true=0.25) for row in ROWS}
    matched = match_predictions(answers, ROWS)
    assert matched.measures(ROWS) == {"p(true)": [0.25] * 4}, "in the place of confidence"


def test_a_parquet_without_answers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    for column in ("image", "prediction"):
        pq.write_table(pa.table({column: ["a"]}), file)
        with refusal(rf"needs the columns image and prediction .found: {column}.$"):
            load_predictions(file)
    no_text = pa.array([b"\xff"]).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"image": ["a"], "prediction": no_text}), file)
    with refusal(r"cannot be read: .*UTF"):
        load_predictions(file)
    pq.write_table(pa.table({"image": ["a", ""], "prediction": ["b", "c"]}), file)
    with refusal(r"p\.parquet:2: every row needs an image"):
        load_predictions(file)
    file.write_bytes(b"no table")
    with refusal("cannot be read"):
        load_predictions(file)


def match(answers: dict[str, str], rows: list[PictureRow]) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    """The labels by row, and the strangers."""
    found = match_predictions({image: Prediction(label) for image, label in answers.items()}, rows)
    return found.labels, found.unmatched


@pytest.mark.parametrize(
    "original",
    [
        *("bus/1", "bus/1.png", "bus/1.jpeg", "originals/bus/1/o.png", "./bus/1", "bus\\1.png"),
        *("/data/photos/bus/1.jpg", "photos/bus/1", "suite/originals/bus/1/o.png", "C:\\s\\originals\\bus\\1\\o.png"),
    ],
)
def test_originals_are_named_by_file_or_by_source_with_or_without_suffix_and_folders(original: str) -> None:
    answers = {original: "car", "images/bus/1/a.png": "bus", "unknown.png": "x"}
    assert match(answers, ROWS) == (("car", None, "bus", None), ("unknown.png",))


@pytest.mark.parametrize("before", ["", "/home/me/suite/", "suite/", "./", "../suite/", "D:\\suite\\"])
def test_folders_may_stand_before_a_file_of_the_suite(before: str) -> None:
    answers = {before + row.file_name: str(i) for i, row in enumerate(ROWS)}
    assert match(answers, ROWS) == (("0", "1", "2", "3"), ())


def test_a_source_s_name_elsewhere_is_another_picture_and_may_look_like_a_file() -> None:
    """Two sets may call their pictures alike: which is meant has to be plain."""
    rows = [ROWS[2], *(original_row(i, source=f"{i}", origin=replace(ROWS[0].origin, path=f"{i}.jpg")) for i in (1, 2))]
    answers = {rows[0].file_name: "bus", "/val/1.jpg": "a", "/val/2.jpg": "b"}
    assert match(answers, rows) == (("bus", "a", "b"), ())
    both = answers | {"/train/1.jpg": "c"}
    assert match(both, rows) == (("bus", None, None), ("/val/1.jpg", "/val/2.jpg", "/train/1.jpg"))
    bare = {rows[0].file_name: "bus", "1": "a", "2.jpg": "b", "/train/1.jpg": "c"}
    assert match(bare, rows) == (("bus", "a", "b"), ("/train/1.jpg",))
    row = original_row(source="bus/1", origin=replace(ROWS[0].origin, path="Bus/IMG 1.JPG"))
    assert match({"Bus/IMG 1.JPG": "car"}, [row]) == (("car",), ())
    rows = [original_row(source="bus/1.5", label="bus")]
    assert match({"bus/1.5": "car"}, rows) == (("car",), ())


def test_a_picture_with_two_different_predictions_is_refused() -> None:
    answers = {"images/bus/1/a.png": "bus", "bus/1": "car", "originals/bus/1/o.png": "bus"}
    told = (
        r"^originals/bus/1/o\.png has two different predictions, as bus/1 and as originals/bus/1/o\.png: leave one out$"
    )
    with refusal(told):
        match(answers, ROWS)
    assert match(answers | {"bus/1": "bus"}, ROWS)[0] == ("bus", None, "bus", None)


@given(st.text(max_size=12))
@example(".")
@example("/")
@example("..")
@example("\0")
def test_any_text_may_be_a_stranger(name: str) -> None:
    assert match({"images/bus/1/a.png": "bus", name: "y"}, ROWS)[0] == (None, None, "bus", None)


@pytest.mark.parametrize("kind", ["original", "control", "variant"])
def test_pictures_without_answer_are_counted_where_others_of_their_kind_have_one(kind: str) -> None:
    make = {"original": original_row, "control": control_row, "variant": picture_row}[kind]
    rows = [make(7, source="x"), make(8, source="y"), make(9, source="z", reason="too dark"), make(10, source="w")]
    assert find_unanswered(rows, [False] * 4) == find_unanswered(rows, [True, True, False, True]) == ()
    lacking = find_unanswered(rows, [True, False, False, False])
    assert lacking == (Unanswered(kind, 2, 3, rows[1].file_name),)
    others = [ROWS[0], ROWS[1], ROWS[2]]
    assert find_unanswered([*others, *rows], [True] * 3 + [False] * 4)[0].kind == kind
    assert [lack.kind for lack in find_unanswered([*others, *others], [True] * 3 + [False] * 3)] == [
        *("variant", "control", "original")
    ]


def test_a_suite_whose_variants_have_no_answer_is_refused() -> None:
    rows = [*ROWS, picture_row(3)]
    assert match({"images/bus/1/a.png": "bus"}, rows)[0] == (None, None, "bus", None, None)
    with refusal(r"^2 of 2 variants have no prediction, the first is images/bus/1/a"):
        match({"bus/1": "bus"}, rows)
    with refusal(r"1 of 1 variants have no .* images/bus/1/a\.png; name pictures as in metadata\.parquet's file_name$"):
        match({"images/bus/1/b.png": "bus"}, ROWS)
    with refusal(r"1 of 1 variants .* images/.*, where the table has 1\.png; name"):
        match({"1.png": "bus", "2.png": "bus"}, ROWS)


@pytest.mark.parametrize(
    ("name", "text", "read", "ignored"),
    [
        ("p.csv", "image,prediction,split,id\na,b,test,1\n", Prediction("b"), ("split", "id")),
        ("p.CSV", "\ufeffprediction,image,confidence\nb,a,0.25\nb,a,0.25\n", Prediction("b", 0.25), ()),
        ("p.csv", "image,prediction,probability\na,b,1\n", Prediction("b", 1.0), ()),
        ("p.csv", "image,prediction\na,Ko\u0308fferli\n", Prediction("K\xf6fferli"), ()),
        ("p.csv", "image,prediction\na,none\n", Prediction("none"), ()),
        ("p.jsonl", '{"image": "a", "prediction": 3.0, "top5": [3, 4.0]}', Prediction("3", None, ("3", "4")), ()),
        ("p.csv", "image,prediction,confidence\na,b,\n", Prediction("b"), ()),
        ("p.csv", "image,prediction,prediction_2,prediction_3\na,b,c,d\n", Prediction("b", None, ("b", "c", "d")), ()),
        ("p.csv", "image,prediction,prediction_2,prediction_5\na,b,c,\n", Prediction("b", None, ("b", "c")), ()),
        ("p.csv", "image,prediction,prediction_6\na,b,c\n", Prediction("b"), ("prediction_6",)),
        ("p.csv", "image,prediction,top5\na,b,c | b|d\n", Prediction("b", None, ("c", "b", "d")), ()),
        ("p.jsonl", '{"image": "a", "prediction": 3, "top5": [3,2,1,5,4]}', Prediction("3", None, tuple("32154")), ()),
        ("p.jsonl", '{"image": "a", "prediction": "b", "confidence": 0}', Prediction("b", 0.0), ()),
        ("p.jsonl", '{"image": "a", "prediction": "b", "top5": [], "confidence": null}', Prediction("b"), ()),
        ("p.jsonl", f'{ANSWER[:-1]}, "id": 7}}\n\n{ANSWER[:-1]}, "split": "test"}}', Prediction("b"), ("id", "split")),
    ],
)
def test_what_a_table_says_beside_its_answers(
    name: str, text: str, read: Prediction, ignored: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = load_predictions(tmp_path / name)
    assert found.answers == {"a": read}
    assert found.ignored == ignored


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"confidence": 93}, r"p\.jsonl:1: confidence is what the model gives its prediction, from 0 to 1; found 93$"),
        ({"confidence": -0.1}, "found -0.1"),
        ({"confidence": 1.5}, "from 0 to 1; found 1.5"),
        ({"confidence": True}, "found True"),
        ({"p_true": 1.5}, "p_true is what the model gives the true label, from 0 to 1"),
        ({"confidence": 10**400}, "a whole number of 401 digits$"),
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
    with refusal(told):
        load_predictions(tmp_path / "p.jsonl")


@pytest.mark.parametrize(("length", "shown"), [(158, 158), (159, 156)])
def test_what_is_found_is_shown_up_to_a_length(length: int, shown: int, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(f"image,prediction,confidence\na,b,{'x' * length}\n")
    end = "'" if shown == length else r"\.\.\."
    with refusal(f"; found 'x{{{shown}}}{end}$"):
        load_predictions(tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("column", "called"), [("confidence", "confidence"), ("p_true", "p_true"), ("top5", "likeliest labels")]
)
def test_what_is_beside_some_answers_has_to_be_beside_all(column: str, called: str, tmp_path: Path) -> None:
    for above, below, told in (
        ("1", "", f"p.csv:3 lacks {called}, which rows above have: give all rows, or none$"),
        ("", "1", f"p.csv:3 has {called}, which rows above lack"),
    ):
        (tmp_path / "p.csv").write_text(f"image,prediction,{column}\na,1,{above}\nb,1,{below}\n")
        with refusal(told):
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
    assert RowPredictions((Prediction("car", true=0.5), None), ()).measures(rows[:2]) == {"p(true)": [0.5, None]}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_cell_is_no_answer_to_its_picture_alone(suffix: str, nothing: str | None, tmp_path: Path) -> None:
    rows = [{"image": row.file_name, "prediction": "bus", "confidence": 0.5} for row in ROWS]
    rows[2] |= {"prediction": nothing, "confidence": None}
    file = tmp_path / f"p.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif suffix == "csv":
        lines = (f"{row['image']},{row['prediction'] or ''},{row['confidence'] or ''}" for row in rows)
        file.write_text("\n".join(["image,prediction,confidence", *lines]))
    else:
        file.write_text("\n".join(map(json.dumps, rows)))
    matched = match_predictions(load_predictions(file).answers, [*ROWS[:3], replace(ROWS[3], reason=None)])
    assert matched.labels == ("bus", "bus", None, "bus")


def test_what_a_pipeline_gives_is_read_in_a_table_as_in_a_file(tmp_path: Path) -> None:
    few = [{"label": "car", "score": 0.25}, {"label": "bus", "score": 0.75}]
    many = [{"label": name, "score": 0.5 - 0.0625 * i} for i, name in enumerate("fedcba")]
    for listed, right in (
        (few, Prediction("bus", 0.75)),
        (few[0], Prediction("car", 0.25)),
        (many, Prediction("f", 0.5, ("f", "e", "d", "c", "b"))),
    ):
        rows = [("row 0", {"image": "a", "prediction": listed}), ("row 1", {"image": "b", "prediction": []})]
        assert read_predictions(rows, "p").answers == {"a": right}


def test_answers_to_pictures_of_other_bytes_are_refused(tmp_path: Path) -> None:
    rows = [replace(row, sha256=f"{i:064x}") for i, row in enumerate(ROWS)]
    table = tmp_path / "p.csv"
    for moved in (0, 1):
        lines = [f"{row.file_name},bus,{rows[i - moved].sha256.upper()}" for i, row in enumerate(rows)]
        table.write_text("\n".join(["image,prediction,sha256", *lines, "a stranger,bus,0"]))
        read = load_predictions(table)
        assert read.ignored == ()
        if not moved:
            assert match_predictions(read.answers, rows, read.digests).unmatched == ("a stranger",)
            continue
        with refusal(r"4 of 4 predictions are of other pictures .* sha256: the first is originals/bus/1/o.png"):
            match_predictions(read.answers, rows, read.digests)


def test_a_file_of_the_suite_may_go_by_its_bare_name_where_no_other_has_it() -> None:
    first, second = "0123456789abcdef", "f" * 16
    names = (first, second, second, "bus")
    rows = [picture_row(i, file_name=f"images/{i}/{name}.png") for i, name in enumerate(names)]
    images = [first, f"{first}.png", f"elsewhere/{first}.png", second, f"images/2/{second}.png", "bus"]
    assert find_rows(images, rows) == dict.fromkeys(images[:3], 0) | {images[4]: 2}
