"""No reader ends otherwise than in a value or a sentence, whatever bytes it is given; `make fuzz` tries for longer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fuzz import fuzz
from readers import READERS

ENGINE = Path(__file__).parents[2] / "engine"
# Inputs of each reader: with as many in each of CI's slow tests all of them together take a core about a minute.
COUNT = 300


@pytest.mark.parametrize("name", READERS)
def test_what_once_was_uncaught_is_a_sentence_now(name: str) -> None:
    """And so are the first few changes."""
    result = fuzz(name, count=len(READERS[name].once) + len(READERS[name].seeds()) + 4)
    assert not result.uncaught


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_every_input_is_a_value_or_a_sentence(name: str) -> None:
    result = fuzz(name, count=COUNT)
    assert result.inputs == COUNT
    assert not result.uncaught
