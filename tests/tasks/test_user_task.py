"""A user's own task, types of edits and interventions: what their files accept, and what they are refused for."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_sets import write

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.edit_types import EditType
from counterfactory.engine.tasks.task import Task
from counterfactory.engine.tasks.user_task import (
    MAX_VALUE_CHARS,
    UserTask,
    load_interventions,
    load_task,
    load_types,
    parse_interventions,
)

TASK = 'name = "birds"\nsentence = "name the bird"\nprotect = ["bird", "wing tips"]\nprotect_label = true\n'
BIRDS = Task("birds", "name the bird", ("bird", "wing tips"), True)
VALUES = 'interventions = """\nlens: in soft focus  # mine\nweather: rainy, snowy; time: night"""\n'
LENS = """[[types]]
name = "lens"
instruction = "how the picture was taken"
place = "end"
caption = "a dog on grass"
examples = [["", "in soft focus"], ["on grass", "on blurred grass"]]
"""
TYPE = EditType(
    *("lens", "how the picture was taken", "end", (("", "in soft focus"), ("on grass", "on blurred grass"))),
    "a dog on grass",
)


def test_types_and_interventions_of_a_task_file(tmp_path: Path) -> None:
    assert load_task(write(tmp_path / "task.toml", TASK)) == UserTask(BIRDS, (), None)
    both = load_task(write(tmp_path / "task.toml", TASK + VALUES + LENS))
    assert (both.task, both.types) == (BIRDS, (TYPE,))
    assert type(both.task) is Task  # its content names random numbers: a file with types is no other task
    assert both.interventions is not None
    assert both.interventions.axes == (
        *(("lens", ("in soft focus",)), ("weather", ("rainy", "snowy")), ("time", ("night",))),
    )
    assert BIRDS.protected("Bird") == ("bird", "wing tips")
    assert BIRDS.protected("001.Black_footed_Albatross") == ("bird", "wing tips", "Black footed Albatross")
    types = load_types(write(tmp_path / "types.toml", LENS + LENS.replace('"lens"', '"mood 2"')))
    assert (types[0], [type_.name for type_ in types]) == (TYPE, ["lens", "mood 2"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TASK.replace("protect_label = true\n", ""), "key 'protect_label' is missing"),
        (TASK.replace("protect =", "protects ="), "unknown key 'protects'; did you mean 'protect'"),
        (TASK.replace('"wing tips"', '" - "'), "no letters or digits"),
        (TASK.replace('"name the bird"', '" "'), "sentence is empty"),
        (TASK.replace('"birds"', '"birds'), "not valid TOML"),
        (TASK.replace('"birds"', '" "') + LENS, "name is empty"),
        (TASK + 'interventions = "weathr: rainy"', "interventions:1: unknown axis 'weathr'; did you mean 'weather'"),
        (TASK + 'interventions = ""', "interventions names no axis"),
        # The same of a task's types and of a file of types.
        ("types = []", r"it has no \[\[types\]\]$"),
        (LENS + LENS, "the type 'lens' is there twice$"),
        (LENS.replace('"lens"', '"Lens"'), "a type's name is in small letters, found 'Lens'$"),
        (LENS.replace('"on grass", "on', '"on sand", "on'), "replaces 'on sand' by 'on blurred grass'"),
    ],
)
def test_files_that_say_no_task_or_no_type_are_refused(tmp_path: Path, text: str, message: str) -> None:
    if "sentence" not in text:
        with pytest.raises(CounterfactoryError, match=rf"types\.toml: .*{message}"):
            load_types(write(tmp_path / "types.toml", text))
        text = TASK + text
    with pytest.raises(CounterfactoryError, match=rf"task\.toml.*{message}"):
        load_task(write(tmp_path / "task.toml", text))


def test_the_documented_task_file_is_one(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(name = .*?)```", docs, re.DOTALL)
    found = load_task(write(tmp_path / "task.toml", example))
    assert [type_.name for type_ in found.types] == ["lens"]
    assert found.interventions is not None
    assert found.interventions.types == ("weather", "lens")


def test_the_pocket_model_takes_no_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "types.toml", LENS)
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "photos" / "dog" / "1.png"), np.zeros((64, 64, 3), np.uint8))
    assert main(["plan", str(tmp_path / "photos"), "--types", str(file), "--allow-out-of-domain"]) == 2
    assert "knows the types that it was trained on and no others" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weathr: rainy", r"file:1: unknown axis 'weathr'; did you mean 'weather'\?"),
        ("time: night\nrainy, snowy", r"file:2: found 'rainy, snowy'; write an axis"),
        ("time: night,", r"file:1: an empty value for 'time'"),
        ("time: night,,day", r"file:1: an empty value"),
        ("time: night\ntime: day", r"file:2: axis 'time' is there twice"),
        ("time: night; time: day", r"file:1: axis 'time' is there twice"),
        ("time: night, Night", r"file:1: the value 'Night' is there twice"),
        ("time: at  night, at night", r"file:1: the value 'at night' is there twice"),
        (f"time: {'x' * (MAX_VALUE_CHARS + 1)}", rf"a value of {MAX_VALUE_CHARS + 1} characters .* at most"),
        ('time: a "night"', "holds '\"'"),
        ("weather: rainy time: night", "holds ':'"),
        ("# nothing\n\n ; ;", "file names no axis"),
    ],
)
def test_what_is_refused_and_how(text: str, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        parse_interventions(text, "file")


@settings(max_examples=25)
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
