"""Answers of one channel, as binary models give them: a score, or a map of scores, for the second of two classes.

Whether the numbers are probabilities or logits is told once, of all answers: probabilities where none lies outside of
0..1. Then what is above 0.5, or above 0, is of the second class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .outputs import UNSEEN, MapAnswer, ModelAnswer, ScoreAnswer

# How far outside of 0..1 a probability may be: those of half precision and of 8 bits are.
_OUTSIDE = 0.01
# A map's numbers fall into levels between these edges, and two for just 0 and 1: all that has to be kept of it.
_EDGES = (-_OUTSIDE, 0.0, 0.5, 1 + _OUTSIDE)
_ZERO, _ONE = 5, 6
_POSITIVE, _LIKELY, _BEYOND = (2, 3, 4, _ONE), (3, 4, _ONE), (0, 4)


@dataclass(frozen=True)
class OneChannel:
    """What a model's one channel says: `logits`, or probabilities; or `numbers` of classes, all 0 and 1."""

    logits: bool
    numbers: bool = False

    @property
    def text(self) -> str:
        """The rule, as a sentence goes on; "" where none is needed."""
        if self.numbers:
            return ""
        kind, least = ("logits", "0") if self.logits else ("probabilities", "0.5")
        return f"one channel of {kind}: above {least} it is the second of two classes"

    def settle(self, answer: ModelAnswer) -> ModelAnswer:
        """The answer in two classes."""
        if isinstance(answer, MapAnswer) and answer.levels:
            levels = answer.numbers
            second = np.isin(levels, _POSITIVE if self.logits else _LIKELY)
            return MapAnswer.of(np.where(levels == UNSEEN, UNSEEN, second))
        if not isinstance(answer, ScoreAnswer) or len(answer.scores) != 1:
            return answer
        if self.logits:
            return ScoreAnswer(np.array([-answer.scores[0] / 2, answer.scores[0] / 2], np.float32))
        return ScoreAnswer(np.array([1 - answer.scores[0], answer.scores[0]], np.float32))


def tell_channel(answers: Mapping[str, ModelAnswer]) -> OneChannel | None:
    """What one channel says, of all answers together; None where no answer has one."""
    scores = [one.scores for one in answers.values() if isinstance(one, ScoreAnswer) and len(one.scores) == 1]
    maps = [one.numbers for one in answers.values() if isinstance(one, MapAnswer) and one.levels]
    if not scores and not maps:
        return None
    levels = {level for one in maps for level in np.unique(one).tolist()}
    beyond = any(not -_OUTSIDE <= float(one[0]) <= 1 + _OUTSIDE for one in scores) or not levels.isdisjoint(_BEYOND)
    return OneChannel(beyond, bool(maps) and levels <= {_ZERO, _ONE, UNSEEN})


def to_levels(values: NDArray[Any], shown: NDArray[np.bool_]) -> MapAnswer:
    """The map of one channel's values [H, W], of which so many are of what the model was shown."""
    levels = np.select([values == 0, values == 1], [_ZERO, _ONE], np.digitize(values, _EDGES, right=True))
    return MapAnswer.of(np.where(shown, levels, UNSEEN), levels=True)
