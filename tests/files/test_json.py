"""JSON of strangers: a value, or a ValueError that says what is wrong; and arrays of NumPy's files."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.arrays import parse_array
from counterfactory.engine.files.reading import parse_json, read_json

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
        ("NaN", "NaN is not a finite number"),
        ('{"a": [-Infinity]}', "-Infinity is not a finite number"),
        ("1e999", "1e999 is not a finite number"),
        ("9" * 301, "a whole number of 301 digits"),
        ("9" * 5000, "a whole number of 5000 digits"),
        ("[" * 101 + "]" * 101, "more than 100 deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "more than 100 deep"),
        ("[" * 100_000, "more than 100 deep"),
        ("{", "Expecting"),
        (b"\xff", "can't decode"),
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


@pytest.mark.parametrize(
    "array", [np.ones((2, 3)), np.zeros((0, 4), "f4"), np.arange(6).reshape(3, 2).T, np.array("x")]
)
def test_arrays_are_what_numpy_wrote(array: Any) -> None:
    file = io.BytesIO()
    np.save(file, array)
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
