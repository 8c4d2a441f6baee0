"""Scores are probabilities or logits, told once of all that a model gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterfactory.engine.asking.outputs import LabelAnswer, ScoreAnswer
from counterfactory.engine.asking.score_scale import tell_scale

LOGITS = np.random.default_rng(3).normal(0, 3, (50, 5))


def softmax(logits: Any) -> Any:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def sigmoid(logits: Any) -> Any:
    return 1 / (1 + np.exp(-logits))


SAME = "scores are probabilities"
GIVEN = {
    "softmax": (softmax(LOGITS), softmax(LOGITS), SAME),
    "softmax in int8": (np.round(softmax(LOGITS) * 256) / 256, np.round(softmax(LOGITS) * 256) / 256, SAME),
    "softmax in f16": (softmax(LOGITS).astype(np.float16), softmax(LOGITS).astype(np.float16), SAME),
    "a little more than 1": ([[1.0000001, 0.0], [0.5, 0.5]], [[1, 0], [0.5, 0.5]], SAME),
    "a little less than 0": ([[1.0, -0.003], [0.5, 0.5]], [[1, 0], [0.5, 0.5]], SAME),
    "sigmoids": (sigmoid(LOGITS), sigmoid(LOGITS), "each class by itself: sums from"),
    "logits": (LOGITS, softmax(LOGITS), "logits"),
    "log-probabilities": (np.log(softmax(LOGITS)), softmax(LOGITS), "logits"),
    "logits, one picture's within 0..1": (
        [[0.2, 0.8], [-3.0, 3.0]],
        softmax(np.array([[0.2, 0.8], [-3, 3]])),
        "logits",
    ),
    "logits of a head of zeros": ([[0.0, 0.0], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]], "logits"),
    "logits of 1000": ([[1000.0, -1000.0]], [[1, 0]], "logits"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_scale_is_of_all_scores(name: str) -> None:
    given, expected, text = GIVEN[name]
    answers = [ScoreAnswer(np.asarray(row, np.float32)) for row in given]
    scale = tell_scale([*answers, LabelAnswer(1)])
    assert text in scale.text
    assert (text == SAME) == (scale.text == SAME)
    probabilities = np.stack([scale.probabilities(one.scores) for one in answers])
    assert np.abs(probabilities - np.asarray(expected, float)).max() < 1e-3
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1
