"""What a user is told, asked for in a word."""

from __future__ import annotations

import pytest

from counterfactory.engine.errors import CounterfactoryError


def refusal(told: str) -> pytest.RaisesExc[CounterfactoryError]:
    """Around what has to end in a CounterfactoryError whose sentence has the pattern."""
    return pytest.raises(CounterfactoryError, match=told)
