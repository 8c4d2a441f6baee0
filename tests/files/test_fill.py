"""The strict filling of frozen dataclasses from TOML, which profiles and task files rest on."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.fill import fill, read_toml


@dataclass(frozen=True)
class Brush:
    width: float
    hard: bool = True


@dataclass(frozen=True)
class Studio:
    name: str
    steps: int
    kind: Literal["ddim", "unipc"]
    scales: tuple[float, ...]
    size: tuple[int, int]
    brush: Brush
    spare: tuple[Brush, ...]
    note: str | None
    extra: Brush | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, found {self.steps}")


FILE = """
name = "x"
steps = 20
kind = "unipc"
scales = [1, 0.5]
size = [3, 4]
spare = [{ width = 2, hard = false }]
[brush]
width = 1
hard = true
"""


def filled(text: str) -> Studio:
    return fill(Studio, tomllib.loads(text), "studio.toml")


def test_fields_are_filled_in_their_types() -> None:
    studio = filled(FILE)
    assert studio == Studio("x", 20, "unipc", (1.0, 0.5), (3, 4), Brush(1.0), (Brush(2.0, False),), None, None)
    assert type(studio.brush.width) is float
    assert filled('note = ""\n' + FILE + "[extra]\nwidth = 3.5\nhard = false").extra == Brush(3.5, False)
    assert filled('note = ""\n' + FILE).note == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 20", "step = 20", "unknown key 'step'; did you mean 'steps'?"),
        ("steps = 20", "", "key 'steps' is missing (a whole number)"),
        ("steps = 20", "steps = 20.0", "'steps' should be a whole number, found 20.0"),
        ("steps = 20", "steps = 0", "steps must be at least 1, found 0"),
        ('name = "x"', "name = 1", "'name' should be text, found 1"),
        ('kind = "unipc"', 'kind = "unipcc"', "'kind' cannot be 'unipcc'; did you mean 'unipc'?"),
        ('kind = "unipc"', "kind = 1", "'kind' cannot be 1; choose from: ddim, unipc"),
        ('kind = "unipc"', "", "key 'kind' is missing (one of 'ddim', 'unipc')"),
        ("scales = [1, 0.5]", "scales = 1", "'scales' should be a list, each item a finite number, found 1"),
        ("scales = [1, 0.5]", 'scales = [1, "2"]', "'scales[1]' should be a finite number, found '2'"),
        ("scales = [1, 0.5]", "scales = [nan]", "'scales[0]' should be a finite number, found nan"),
        ("scales = [1, 0.5]", f"scales = [1{'0' * 400}]", "'scales[0]' should be a finite number"),
        ("size = [3, 4]", "size = [3]", "'size' should be a list of 2: a whole number, a whole number, found [3]"),
        ("hard = true", "", "key 'brush.hard' is missing (true or false)"),
        ("hard = true", "hard = true\nwidht = 2", "unknown key 'brush.widht'; did you mean 'brush.width'?"),
        ("hard = true", "hard = true\nzz = 2", "unknown key 'brush.zz'; choose from: width, hard"),
        ("hard = false", "soft = 1, hard = false", "unknown key 'spare[0].soft'"),
        ("[brush]\nwidth = 1\nhard = true", "brush = 1", "'brush' should be a table, found 1"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(CounterfactoryError) as caught:
        filled(FILE.replace(old, new))
    assert str(caught.value).startswith("studio.toml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["n is below 0", "[inner] n is below 0"])
def test_an_error_of_a_nested_range_names_its_table_once(text: str) -> None:
    @dataclass(frozen=True)
    class Positive:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise ValueError(text)

    outer = dataclasses.make_dataclass("Outer", [("inner", Positive)], frozen=True)
    with pytest.raises(CounterfactoryError, match=r"^f\.toml: \[inner\] n is below 0$"):
        fill(outer, {"inner": {"n": -1}}, "f.toml")


def test_a_field_that_toml_cannot_hold_is_the_programmers_error() -> None:
    for hint in (bytes, dict[str, int], int | str):
        cls = dataclasses.make_dataclass("Odd", [("field", hint)], frozen=True)
        with pytest.raises(TypeError, match="fill"):
            fill(cls, {"field": 1}, "f.toml")


KEYS = st.sampled_from([field.name for field in dataclasses.fields(Studio)]) | st.text(max_size=5)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats()
VALUES = PLAIN | st.text(max_size=4) | st.lists(st.integers(), max_size=3)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, VALUES))
def test_any_table_is_filled_or_refused_in_one_sentence(table: dict[str, Any]) -> None:
    with pytest.raises(CounterfactoryError, match=r"^f\.toml: "):
        fill(Studio, table, "f.toml")  # a brush is never among these values, so it cannot be filled


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n")
    assert read_toml(path) == {"a": 1}
    for data, reason in ((b"a = ", "is not valid TOML: "), (b"a = '\xff'", "is not UTF-8 text")):
        path.write_bytes(data)
        with pytest.raises(CounterfactoryError, match=rf"f\.toml {reason}"):
            read_toml(path)
    for missing in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(CounterfactoryError, match=f"cannot read {missing}"):
            read_toml(missing)
