"""What strangers write: text of any editor, tables, JSON, NumPy's arrays, Parquet's footers: read alike, or refused."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.arrays import parse_array
from counterfactory.engine.files.parquet_footer import chunk_sizes, footer_bytes
from counterfactory.engine.files.reading import number_lines, parse_json, read_json
from counterfactory.engine.files.tables import read_table
from counterfactory.engine.judging.predictions import load_predictions
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.tasks.user_task import load_interventions, load_task

# Python's splitlines() ends a line at each of these; no editor does, and JSON and TOML allow them in text.
NOT_LINE_ENDS = ["\u2028", "\u2029", "\u0085"]
ENDS = ["\n", "\r\n", "\r"]


def write(path: Path, lines: list[str], end: str, mark: str, last: str) -> Path:
    path.write_bytes((mark + end.join(lines) + last).encode())
    return path


def as_written(test: Callable[..., None]) -> Callable[..., None]:
    """The ways in which editors write the same lines: their ends, a byte order mark, an end after the last line."""
    for name, values in (("end", ENDS), ("mark", ["", "\ufeff"]), ("last", ["", "\n"])):
        test = pytest.mark.parametrize(name, values, ids=ascii)(test)
    return test


def labels_of(table: Path) -> dict[str, str]:
    return {image: answer.label for image, answer in load_predictions(table).answers.items()}


@as_written
def test_predictions(end: str, mark: str, last: str, tmp_path: Path) -> None:
    table = write(tmp_path / "p.csv", ["image,prediction", "bus/1,bus", "car/2, fire truck"], end, mark, last)
    assert labels_of(table) == {"bus/1": "bus", "car/2": "fire truck"}
    rows = [json.dumps({"image": image, "prediction": image[:3]}) for image in ("bus/1", "car/2")]
    assert labels_of(write(tmp_path / "p.jsonl", rows, end, mark, last)) == {"bus/1": "bus", "car/2": "car"}


@as_written
def test_tasks_and_interventions(end: str, mark: str, last: str, tmp_path: Path) -> None:
    lines = ['name = "mine"', 'sentence = "find the dog"', 'protect = ["dog"]', "protect_label = false"]
    assert load_task(write(tmp_path / "t.toml", lines, end, mark, last)).task.protect == ("dog",)
    file = write(tmp_path / "axes.txt", ["weather: rainy, snowy", "time: night"], end, mark, last)
    assert load_interventions(file).axes == (("weather", ("rainy", "snowy")), ("time", ("night",)))


@pytest.mark.parametrize("character", NOT_LINE_ENDS, ids=ascii)
def test_a_line_separator_inside_text_ends_no_line(character: str, tmp_path: Path) -> None:
    assert list(number_lines(f"a{character}b\n\nc\n")) == [(1, f"a{character}b"), (2, ""), (3, "c"), (4, "")]
    label = f"fire{character}truck"
    rows = [{"image": "a.png", "prediction": label}, {"image": f"b{character}.png", "prediction": "bus"}]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    answers = labels_of(write(tmp_path / "p.jsonl", lines, "\n", "", ""))
    assert answers == {"a.png": label, f"b{character}.png": "bus"}
    table = write(tmp_path / "p.csv", ["image,prediction", f"a.png,{label}"], "\n", "", "")
    assert labels_of(table) == {"a.png": label}

    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    lines = ["", json.dumps({"image": "a.png", "label": label}, ensure_ascii=False)]
    sources, problems = find_sources(write(tmp_path / "l.jsonl", lines, "\n", "", ""))
    if character == "\u0085":  # a terminal would obey it, so no label may hold it
        assert [(one.name, one.reason[:24]) for one in problems] == [("l.jsonl:2", "holds control characters")]
    else:
        assert [source.label for source in sources] == [label]

    lines = ['name = "mine"', f'sentence = "find{character}dogs"', "protect = []", "protect_label = true"]
    assert load_task(write(tmp_path / "t.toml", lines, "\n", "", "")).task.sentence == f"find{character}dogs"
    file = write(tmp_path / "axes.txt", [f"weather: light{character}rain", "zzz: x"], "\n", "", "")
    with pytest.raises(CounterfactoryError, match=r"axes\.txt:2: unknown axis"):
        load_interventions(file)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        *(("p.csv", load_predictions), ("p.jsonl", load_predictions), ("t.toml", load_task)),
        *(("p.toml", lambda path: load_profile(str(path))), ("axes.txt", load_interventions)),
    ],
)
def test_files_that_cannot_be_read_are_one_sentence(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(CounterfactoryError, match=re.escape(name)):
        read(path)
    path.write_bytes(b"image,\xff")
    with pytest.raises(CounterfactoryError, match=r"is not UTF-8 text \(byte 6\); save it as UTF-8"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *(("t.csv", text, "is empty; its first line names the columns: a,b") for text in ("", "\n1,2\n")),
        ("t.csv", "b\n1\n", r"has no column 'a' \(found: b\)"),
        ("t.csv", "a\n1\n", r"has no column 'b' or 'c' \(found: a\)"),
        ("t.csv", "a,c,a\n1,2,3\n", "names a column twice: a$"),
        ("t.csv", 'a,b\n"1,2\n', "is not valid CSV"),
        ("t.csv", "a,b\n1," + "x" * 200_000, "is not valid CSV: field larger than field limit"),
        ("t.txt", "a,b\n", "tables are .csv, .tsv, .jsonl and .parquet files"),
    ],
)
def test_tables_that_are_wrong_as_a_whole(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(CounterfactoryError, match=message):
        list(read_table(tmp_path / name, ["a", ("b", "c")]))


@pytest.mark.parametrize(
    ("name", "mark"), [("t.csv", ","), ("t.csv", ";"), ("t.csv", "\t"), ("t.TSV", "\t"), ("t.tsv", ",")]
)
def test_the_header_tells_what_parts_fields(name: str, mark: str, tmp_path: Path) -> None:
    table = tmp_path / name
    table.write_text(f'"c"{mark} a \r\n"1,5;2"{mark}x\r\n', encoding="utf-8-sig")
    assert list(read_table(table, [("b", "a")])) == [(2, {"c": "1,5;2", "a": "x"})]
    table.write_text("a\n1,5;2\n" if mark != "," else "a\n1;2\n")
    assert [row for _, row in read_table(table, ["a"])] == [
        {"a": "1;2"} if mark == "," else "has 2 fields where the first line names 1"
    ]


def test_rows_that_are_wrong_by_themselves(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('a,b\n1,2\n\n , \n1,2,3\n"x\ny"\n 3 , 4 \n', encoding="utf-8")
    wide = "has 3 fields where the first line names 2"
    expected = [(2, {"a": "1", "b": "2"}), (5, wide), (7, {"a": "x\ny"}), (8, {"a": "3", "b": "4"})]
    assert list(read_table(table, ["a"])) == expected
    table = tmp_path / "t.jsonl"
    table.write_text('{"a": 1}\n{"a":\n[1]\n' + "[" * 100_000 + '\n{"a": " x "}', encoding="utf-8")
    found = [row if isinstance(row, dict) else row[:17] for _, row in read_table(table, ["a"])]
    assert found == [{"a": 1}, "is not valid JSON", "is not a JSON obj", "is not valid JSON", {"a": " x "}]
    assert [number for number, _ in read_table(table, ["a"])] == [1, 2, 3, 4, 5]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_what_json_writes_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode(), float) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *((text, f"{text} is not a finite number") for text in ("NaN", "1e999")),
        ('{"a": [-Infinity]}', "-Infinity is not a finite number"),
        *(("9" * count, f"a whole number of {count} digits") for count in (301, 5000)),
        *((text, "more than 100 deep") for text in ("[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101)),
        *(("[" * 100_000, "more than 100 deep"), ("{", "Expecting"), (b"\xff", "can't decode")),
    ],
)
def test_what_few_programs_can_hold_is_refused(text: str | bytes, told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told):
        parse_json(text)
    (tmp_path / "x.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CounterfactoryError, match=r"x\.json is not .*"):
        read_json(tmp_path / "x.json")


def test_a_depth_of_a_hundred_and_numbers_by_float_pass() -> None:
    assert parse_json("[" * 100 + "]" * 100)
    assert parse_json("9" * 300) == int("9" * 300)
    assert math.isnan(parse_json("NaN", float))
    assert parse_json("1e999", float) == math.inf


def test_arrays_are_what_numpy_wrote() -> None:
    for array in (np.ones((2, 3)), np.zeros((0, 4), "f4"), np.arange(6).reshape(3, 2).T, np.array("x")):
        np.save(file := io.BytesIO(), array)
        read = parse_array(file.getvalue())
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype


@pytest.mark.parametrize(
    "header",
    [b"{", b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }", b"(" * 300, b"\x00", b"'" * 9],
)
def test_broken_headers_are_refused_whatever_python_s_parser_says(header: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_array(b"\x93NUMPY\x01\x00" + len(header + b"\n").to_bytes(2, "little") + header + b"\n")


TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=40)


@given(TEXTS, st.integers(1, 9), st.sampled_from(["none", "zstd"]), st.booleans())
def test_sizes_are_pyarrow_s(texts: list[str | None], group: int, compression: str, checksums: bool) -> None:
    lists = [[number, -number] if number % 3 else None for number in range(len(texts))]
    nested = [{"a": number * 10**12, "b": [str(number)] * (number % 3)} for number in range(len(texts))]
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    columns = {"t": (texts, pa.string()), "n": (lists, pa.list_(pa.int64())), "s": (nested, struct)}
    table = pa.table({name: pa.array(*of) for name, of in columns.items()})
    options = {"compression": compression, "write_page_checksum": checksums, "store_schema": checksums}
    pq.write_table(table, file := io.BytesIO(), row_group_size=group, **options)
    data = file.getvalue()
    facts = pq.ParquetFile(io.BytesIO(data)).metadata
    chunks = [[facts.row_group(i).column(j) for j in range(facts.num_columns)] for i in range(facts.num_row_groups)]
    expected = [[(one.num_values, one.total_uncompressed_size) for one in group] for group in chunks]
    assert chunk_sizes(data[-footer_bytes(data[-8:]) :]) == expected


@pytest.mark.parametrize("cut", [0, 1, 8, 40])
def test_a_footer_that_ends_early_is_named(cut: int) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), file := io.BytesIO())
    tail = file.getvalue()[-footer_bytes(file.getvalue()[-8:]) :]
    damaged = tail[: len(tail) - 8 - cut] + bytes([0x8C] * 12) + tail[-8:] if cut else b"PAR1"
    with pytest.raises(ValueError, match="damaged"):
        chunk_sizes(damaged)
