"""Which Python exports: the one that is asked for, this one, or the one beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from counterfactory.engine.cli.exporting import BESIDE, exporter_python, missing_modules
from counterfactory.engine.errors import CounterfactoryError

LACKED = "no_such_module_anywhere"


def stand_in(path: Path, lacks: str = "") -> Path:
    """A program that says, as a Python does that is asked, which modules it lacks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {lacks}\n")
    path.chmod(0o755)
    return path


def test_this_python_exports_where_it_can(tmp_path: Path) -> None:
    stand_in(tmp_path / BESIDE)
    assert exporter_python(None, ["json"], tmp_path) == sys.executable


def test_the_one_beside_it_exports_where_this_one_cannot(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=f"{sys.executable} lacks {LACKED}: "):
        exporter_python(None, [LACKED], tmp_path)
    beside = stand_in(tmp_path / BESIDE)
    assert exporter_python(None, [LACKED], tmp_path) == str(beside)
    stand_in(beside, "torch onnx")
    with pytest.raises(CounterfactoryError, match=f"{beside} lacks torch, onnx: install them$"):
        exporter_python(None, [LACKED], tmp_path, "install them")


def test_no_other_is_tried_than_the_one_that_is_asked_for(tmp_path: Path) -> None:
    asked = stand_in(tmp_path / "mine", "torch")
    with pytest.raises(CounterfactoryError, match=f"{asked} lacks torch: "):
        exporter_python(asked, [], tmp_path)
    with pytest.raises(CounterfactoryError, match="no Python that runs: name one with torch"):
        missing_modules(str(tmp_path / "none"), [])
