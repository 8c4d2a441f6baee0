"""Every command has tests in which its options are seen to arrive; see wiring.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wiring import options_by_command

# Commands whose options are tried elsewhere, with what they do.
ELSEWHERE = {"demo", "doctor", "predicts", "rehearse", "retrain", "setup"}


def test_no_command_is_without_its_cases() -> None:
    texts = [file.read_text() for file in Path(__file__).parent.glob("test_*_options.py")]
    tried = {name for text in texts for name in re.findall(r'^test_.* = arrival\("(\w+)"\)$', text, re.M)}
    assert tried == options_by_command().keys() - ELSEWHERE


@pytest.mark.parametrize("command", ["predicts", "retrain"])
def test_an_option_that_is_tried_elsewhere_is_tried(command: str) -> None:
    text = Path(__file__).with_name(f"test_{command}.py").read_text()
    options = options_by_command()[command] - {"SUITE", "--json"}
    assert [name for name in sorted(options) if f'"{name}"' not in text] == []
