"""What a model's scores of classes are, told once of all that it gave: probabilities as they are, or logits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .outputs import ModelAnswer, ScoreAnswer

# How far outside of 0..1 a probability may be, and how far from 1 a sum of them: int8 steps are 1/256, a class each.
_OUTSIDE = 1 / 128
_OFF = 0.03


@dataclass(frozen=True)
class ScoreScale:
    """`least` and `most` are the sums of a picture's probabilities; both None of logits."""

    least: float | None = None
    most: float | None = None

    def probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """The probabilities [C] that scores [C] say: themselves, or the softmax of logits."""
        values = scores.astype(np.float64)
        if self.least is not None:
            return values.clip(0, 1)
        shares = np.exp(values - values.max())
        return np.asarray(shares / shares.sum())

    @property
    def text(self) -> str:
        """What the scores are, as a sentence goes on."""
        if self.least is None or self.most is None:
            return "scores are logits, whose softmax is taken"
        if self.least >= 1 - _OFF and self.most <= 1 + _OFF:
            return "scores are probabilities"
        return f"scores are probabilities, each class by itself: sums from {self.least:.2g} to {self.most:.2g}"


def tell_scale(answers: Iterable[ModelAnswer]) -> ScoreScale:
    """Probabilities where all scores of all answers lie within 0..1, and not all are 0; else logits."""
    scores = [answer.scores for answer in answers if isinstance(answer, ScoreAnswer)]
    if not scores or any(one.min() < -_OUTSIDE or one.max() > 1 + _OUTSIDE for one in scores):
        return ScoreScale()
    sums = [float(one.sum(dtype=np.float64)) for one in scores]
    return ScoreScale(min(sums), max(sums)) if any(sums) else ScoreScale()
