"""A user's own types of edits, read from their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.edit_types import EditType
from counterfactory.engine.tasks.interventions import parse_interventions
from counterfactory.engine.tasks.user_task import load_types

LENS = """[[types]]
name = "lens"
instruction = "how the picture was taken"
place = "end"
caption = "a dog on grass"
examples = [["", "in soft focus"], ["on grass", "on blurred grass"]]
"""


def test_a_file_s_types(tmp_path: Path) -> None:
    file = tmp_path / "types.toml"
    file.write_text(LENS + LENS.replace('"lens"', '"mood 2"'), encoding="utf-8")
    examples = (("", "in soft focus"), ("on grass", "on blurred grass"))
    assert load_types(file) == tuple(
        EditType(name, "how the picture was taken", "end", examples, "a dog on grass") for name in ("lens", "mood 2")
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("types = []", r"types.toml: it has no \[\[types\]\]$"),
        (LENS + LENS, "the type 'lens' is there twice$"),
        (LENS.replace('"lens"', '"Lens"'), "a type's name is in small letters, found 'Lens'$"),
        (LENS.replace('"on grass", "on', '"on sand", "on'), "replaces 'on sand' by 'on blurred grass'"),
        (LENS.replace('"end"', '"middle"'), "'types\\[0\\].place' cannot be 'middle'|place"),
        (LENS.replace("instruction", "does"), "unknown key"),
    ],
)
def test_files_that_say_no_type_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "types.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CounterfactoryError, match=problem):
        load_types(file)


def test_values_may_be_of_a_user_s_type() -> None:
    assert parse_interventions("lens: soft, sharp", "x", ("lens",)).axes == (("lens", ("soft", "sharp")),)
    with pytest.raises(CounterfactoryError, match="unknown axis 'lens'"):
        parse_interventions("lens: soft", "x")


def test_the_pocket_model_takes_no_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import cv2
    import numpy as np

    file = tmp_path / "types.toml"
    file.write_text(LENS, encoding="utf-8")
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "photos" / "dog" / "1.png"), np.zeros((64, 64, 3), np.uint8))
    assert main(["plan", str(tmp_path / "photos"), "--types", str(file), "--allow-out-of-domain"]) == 2
    assert "knows the types that it was trained on and no others" in capsys.readouterr().err
