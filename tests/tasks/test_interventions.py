"""The user's file of axes and values: what it accepts, what it refuses, and what it says when it does."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.tasks.interventions import MAX_VALUE_CHARS, load_interventions, parse_interventions

VALUES = st.lists(st.sampled_from(["rainy", "at night", "café", "a 50% grey", "x-ray"]), min_size=1, unique=True).map(
    tuple
)
AXES = st.lists(st.sampled_from(EDIT_TYPES), min_size=1, unique=True).flatmap(
    lambda types: st.tuples(*(st.tuples(st.just(t), VALUES) for t in types))
)


@pytest.mark.parametrize(
    "text",
    [
        "weather: rainy, snowy\ntime: night\n",
        "weather: rainy, snowy; time: night",
        "# mine\n\n  Weather :rainy ,  snowy  # wet\r\n;time:night;\r\n",
        "weather: rainy,snowy;;\n\ttime:\tnight",
    ],
)
def test_one_axis_a_line_or_several_with_semicolons(text: str) -> None:
    interventions = parse_interventions(text, "file")
    assert interventions.axes == (("weather", ("rainy", "snowy")), ("time", ("night",)))
    assert interventions.types == ("weather", "time")
    assert interventions.values("weather") == ("rainy", "snowy")
    assert interventions.values("colour") == ()


@settings(max_examples=40)
@given(AXES, st.sampled_from(["\n", ";", " ; ", "\n\n# note; with: signs,\n"]))
def test_what_is_written_is_read(axes: tuple[tuple[str, tuple[str, ...]], ...], between: str) -> None:
    text = between.join(f"{axis}: {', '.join(values)}" for axis, values in axes)
    assert parse_interventions(text, "file").axes == axes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weathr: rainy", r"file:1: unknown axis 'weathr'; did you mean 'weather'\?"),
        ("color: red", r"file:1: unknown axis 'color'; did you mean 'colour'\?"),
        ("time: night\n\nzzz: x", r"file:3: unknown axis 'zzz'; choose from: weather, time"),
        ("time: night\nrainy, snowy", r"file:2: found 'rainy, snowy'; write an axis"),
        ("time:", r"file:1: an empty value for 'time'"),
        ("time: night,", r"file:1: an empty value for 'time'"),
        ("time: night,,day", r"file:1: an empty value"),
        (": night", r"file:1: unknown axis ''"),
        ("time: night\ntime: day", r"file:2: axis 'time' is there twice"),
        ("time: night; time: day", r"file:1: axis 'time' is there twice"),
        ("time: night, Night", r"file:1: the value 'Night' is there twice"),
        ("time: at  night, at night", r"file:1: the value 'at night' is there twice"),
        (f"time: {'x' * (MAX_VALUE_CHARS + 1)}", rf"a value of {MAX_VALUE_CHARS + 1} characters .* at most"),
        ('time: a "night"', "holds '\"'"),
        ("weather: rainy time: night", "holds ':'"),
        ("time: a\\n", r"holds '\\\\'"),
        ("time: a\x00b", r"holds '\\x00'"),
        ("", "file names no axis"),
        ("# nothing\n\n ; ;", "file names no axis"),
    ],
)
def test_what_is_refused_and_how(text: str, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        parse_interventions(text, "file")


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_in_one_sentence(text: str) -> None:
    with contextlib.suppress(CounterfactoryError):
        assert set(parse_interventions(text, "file").types) <= set(EDIT_TYPES)


def test_a_value_may_be_as_long_as_the_error_says() -> None:
    assert parse_interventions(f"time: {'x' * MAX_VALUE_CHARS}", "file").values("time") == ("x" * MAX_VALUE_CHARS,)


def test_files_are_utf8_with_or_without_mark(tmp_path: Path) -> None:
    path = tmp_path / "axes.txt"
    path.write_bytes("\ufeffbackground: café\n".encode())
    assert load_interventions(path).values("background") == ("café",)
    path.write_text("lens: wide")
    assert load_interventions(path, ("lens",)).types == ("lens",)
    with pytest.raises(CounterfactoryError, match=r"axes\.txt:1: unknown axis 'lens'"):
        load_interventions(path)
    path.write_bytes(b"background: caf\xe9\n")
    with pytest.raises(CounterfactoryError, match="not UTF-8"):
        load_interventions(path)
    for missing in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(CounterfactoryError, match="cannot read"):
            load_interventions(missing)
