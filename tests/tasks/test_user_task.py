"""A task file may bring types of edits and interventions: read as their own files are, refused as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.edit_types import EditType
from counterfactory.engine.tasks.task import Task
from counterfactory.engine.tasks.user_task import UserTask, load_task

TASK = """name = "birds"
sentence = "name the bird"
protect = ["bird"]
protect_label = true
"""
VALUES = 'interventions = """\nlens: in soft focus  # mine\nweather: rainy, snowy; time: night"""\n'
TYPES = """[[types]]
name = "lens"
instruction = "how the picture was taken"
place = "end"
caption = "a dog on grass"
examples = [["", "in soft focus"]]
"""
BIRDS = Task("birds", "name the bird", ("bird",), True)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_types_and_interventions_of_a_task_file(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    lens = EditType("lens", "how the picture was taken", "end", (("", "in soft focus"),), "a dog on grass")
    assert load_task(written(file, TASK)) == UserTask(BIRDS, (), None)
    both = load_task(written(file, TASK + VALUES + TYPES))
    assert (both.task, both.types) == (BIRDS, (lens,))
    assert type(both.task) is Task  # its content names random numbers: a file with types is no other task
    assert both.interventions is not None
    assert both.interventions.axes == (
        *(("lens", ("in soft focus",)), ("weather", ("rainy", "snowy")), ("time", ("night",))),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TASK + VALUES, r"task.toml: interventions:1: unknown axis 'lens'; choose from: weather"),
        (TASK + 'interventions = "weathr: rainy"', "interventions:1: unknown axis 'weathr'; did you mean 'weather'"),
        (TASK + 'interventions = ""', "interventions names no axis"),
        (TASK + 'interventions = ["weather: rainy"]', "'interventions' should be text, found"),
        (TASK + "types = []", r"task.toml: it has no \[\[types\]\]"),
        (TASK + TYPES + TYPES, "task.toml: the type 'lens' is there twice"),
        (TASK + TYPES.replace('"end"', '"middle"'), r"'types\[0\].place' cannot be 'middle'"),
        (TASK + TYPES.replace("instruction", "does"), r"unknown key 'types\[0\].does'"),
        (TASK.replace('"birds"', '" "') + TYPES, "task.toml: name is empty"),
    ],
)
def test_what_their_own_files_are_refused_for(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        load_task(written(tmp_path / "task.toml", text))


def test_the_documented_task_file_is_one(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(name = .*?)```", docs, re.DOTALL)
    found = load_task(written(tmp_path / "task.toml", example))
    assert [type_.name for type_ in found.types] == ["lens"]
    assert found.interventions is not None
    assert found.interventions.types == ("weather", "lens")
