"""Scores against a table worked by hand, and the verdict that thresholds make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterfactory.engine.stages.check import CheckSettings, Embedded, score, verdict

SETTINGS = CheckSettings(batch=4, min_image_text=0.25, min_directional=-0.5, min_image_image=0.5)
GOOD = {"image_text": 0.25, "directional": -0.5, "image_image": 0.5}

# Unit vectors of the plane: source image, source text, variant image, variant text; then the three scores.
BY_HAND = {
    # .6 * .8 + .8 * .6; images move by (-.4, .8) and texts by (.8, -.4), each of length sqrt .8: -.64 / .8; .6
    "moves against the text": ((1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (0.8, 0.6), 0.96, -0.8, 0.6),
    # images move by (-1, 1), texts too
    "moves with the text": ((1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0), 1.0, 1.0, 0.0),
    # images move by (-1, 1), texts by (1, 1)
    "moves across the text": ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, 1.0), 1.0, 0.0, 0.0),
    # images move by (-1, 1), texts by (-.2, 1.4) from (.8, -.6): 1.6 / (sqrt 2 * sqrt 2)
    "moves aslant": ((1.0, 0.0), (0.8, -0.6), (0.0, 1.0), (0.6, 0.8), 0.8, 0.8, 0.0),
    # nothing to compare with: no direction is no likeness
    "does not move": ((0.6, 0.8), (0.0, 1.0), (0.6, 0.8), (1.0, 0.0), 0.6, 0.0, 1.0),
    "has the same text": ((1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0), -1.0, 0.0, 0.0),
}


def embedded(*rows: tuple[Any, ...]) -> Embedded:
    columns = [np.array([row[i] for row in rows], np.float32) for i in range(4)]
    return Embedded(source_image=columns[0], source_text=columns[1], variant_image=columns[2], variant_text=columns[3])


@pytest.mark.parametrize("row", BY_HAND.values(), ids=BY_HAND)
def test_scores_are_those_worked_by_hand(row: tuple[Any, ...]) -> None:
    (found,) = score(embedded(row))
    assert list(found) == ["image_text", "directional", "image_image"]
    assert list(found.values()) == pytest.approx(row[4:], abs=1e-6)  # float32's and the six digits'


def test_each_row_is_scored_by_itself() -> None:
    rows = list(BY_HAND.values())
    assert score(embedded(*rows)) == [score(embedded(row))[0] for row in rows]


def test_likeness_does_not_depend_on_length() -> None:
    row = BY_HAND["moves aslant"]
    longer = replace(embedded(row), variant_text=3 * np.array([row[3]], np.float32))
    assert score(longer)[0]["image_text"] == pytest.approx(row[4], abs=1e-6)


def test_scores_have_six_digits() -> None:
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, (4, 50))
    vectors = [np.stack([np.cos(a), np.sin(a)], -1).astype(np.float32) for a in angles]
    scores = score(Embedded(*vectors))
    values = [value for row in scores for value in row.values()]
    assert all(value == round(value, 6) for value in values)
    assert sum(value != round(value, 5) for value in values) > 100
    assert all(type(value) is float for value in values)


def test_scores_that_reach_their_minima_pass() -> None:
    assert verdict(GOOD, SETTINGS) is None
    assert verdict(dict.fromkeys(GOOD, 1.0), SETTINGS) is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("image_text", 0.249999, "image_text 0.250 is below 0.250"),
        ("image_text", 0.1, "image_text 0.100 is below 0.250"),
        ("directional", -0.500001, "directional -0.500 is below -0.500"),
        ("image_image", 0.49, "image_image 0.490 is below 0.500"),
    ],
)
def test_a_score_below_its_minimum_is_the_reason(name: str, value: float, reason: str) -> None:
    assert verdict(GOOD | {name: value}, SETTINGS) == reason


def test_the_first_score_that_fails_is_named() -> None:
    assert (verdict(dict.fromkeys(GOOD, -1.0), SETTINGS) or "").startswith("image_text")
    assert (verdict(dict.fromkeys(GOOD, -1.0) | {"image_text": 1.0}, SETTINGS) or "").startswith("directional")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch": 0}, "batch of at least 1, got 0"),
        ({"min_image_text": 1.1}, "min_image_text is a cosine, -1 to 1, got 1.1"),
        ({"min_directional": -1.1}, "min_directional is a cosine, -1 to 1, got -1.1"),
        ({"min_image_image": 2}, "min_image_image is a cosine"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], message: str) -> None:
    CheckSettings(1, -1, -1, -1)
    CheckSettings(1, 1, 1, 1)
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **changed)


def test_a_control_has_no_direction_to_be_held_to() -> None:
    scores = GOOD | {"directional": -1.0}
    assert (verdict(scores, SETTINGS) or "").startswith("directional")
    assert verdict(scores, SETTINGS, "control") is None
    assert (verdict(scores | {"image_text": 0.0}, SETTINGS, "control") or "").startswith("image_text")
    assert (verdict(scores | {"image_image": 0.0}, SETTINGS, "control") or "").startswith("image_image")
    assert verdict({}, SETTINGS, "original") is None
