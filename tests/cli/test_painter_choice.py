"""Which painter a command takes where nobody names a profile, and what its first line says of that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.test_known_world import add_photographs
from command_line import Command
from conftest import Street

from counterfactory.engine.api import read_inputs
from counterfactory.engine.suite import read_metadata

pytestmark = pytest.mark.usefixtures("shared_answers")


def painter_line(err: str) -> str:
    """The first line that is no progress."""
    return next(line for line in err.splitlines() if line.split()[0] not in ("read", "masks"))


def test_photographs_are_painted_with_light_and_the_first_line_says_why(tmp_path: Path, run: Command) -> None:
    add_photographs(tmp_path / "photos" / "images", 3)
    status, _, err = run("generate", tmp_path / "photos", "--out", tmp_path / "suite", "--variants", "2")
    assert status == 0
    line = painter_line(err)
    assert line.startswith(
        "painter    light changes the weather and the light of any photograph, by rule: 3 of 3 sources"
    )
    assert "--profile cpu" in line
    assert "a10g" in line
    rows = read_metadata(tmp_path / "suite")
    assert {row.painter for row in rows} == {None, "light"}
    assert all(row.known_world for row in rows), "what pocket knows is nothing to light"
    assert "meaningless" not in err


def test_streets_are_painted_by_the_models_that_know_them(street: Street, run: Command) -> None:
    status, out, err = run("plan", street.root, "--first", "1", "--json")
    assert status == 0
    assert painter_line(err).startswith("painter    pocket paints rendered streets anew")
    types = {edit["type"] for one in json.loads(out)["sources"][0]["variants"] for edit in one["edits"]}
    assert types - {"weather", "time", "light", "camera"}, "pocket edits more than light does"


def test_most_sources_decide(street: Street, run: Command) -> None:
    add_photographs(street.root / "images", 3)
    _, _, err = run("estimate", street.root)
    assert "3 of 6 sources are no rendered streets" in painter_line(err)
    assert painter_line(err).startswith("painter    light")


def test_where_pocket_is_not_installed_light_paints_and_says_what_would(
    street: Street, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_inputs, "installed", lambda module: module != "openvino")
    _, _, err = run("estimate", street.root)
    assert painter_line(err).startswith("painter    light")
    assert "pip install '.[generate]'" in painter_line(err)


@pytest.mark.parametrize("options", [("--profile", "pocket"), ("--allow-out-of-domain",)])
def test_nothing_is_chosen_for_who_says_what_they_want(options: tuple[str, ...], street: Street, run: Command) -> None:
    status, _, err = run("plan", street.root, "--first", "1", *options)
    assert status == 0
    assert "painter    " not in err
