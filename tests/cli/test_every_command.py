"""Every command has a file in which its options are seen to arrive; see wiring.py."""

from __future__ import annotations

from pathlib import Path

from wiring import options_by_command

# Commands whose options are tried elsewhere, with what they do.
ELSEWHERE = {"demo", "doctor", "predicts", "rehearse", "retrain", "setup"}


def test_no_command_is_without_a_file() -> None:
    files = {file.stem.split("_")[1] for file in Path(__file__).parent.glob("test_*_options.py")}
    assert files == options_by_command().keys() - ELSEWHERE
