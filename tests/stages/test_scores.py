"""Scores against a table worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from counterfactory.engine.stages.check.clip_scores import edit_scores, label_score, score

# Unit vectors of the plane: source image, source text, variant image, variant text; then the scores.
BY_HAND = {
    # .6 * .8 + .8 * .6; images move by (-.4, .8) and texts by (.8, -.4), each of length sqrt .8: -.64 / .8; .6
    "moves against the text": ((1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (0.8, 0.6), 0.96, -0.8, 0.6, 0.0, 0.16),
    # images move by (-1, 1), texts too
    "moves with the text": ((1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0), 1.0, 1.0, 0.0, 1.0, 1.0),
    # images move by (-1, 1), texts by (1, 1)
    "moves across the text": ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, 1.0), 1.0, 0.0, 0.0, -1.0, 1.0),
    # images move by (-1, 1), texts by (-.2, 1.4) from (.8, -.6): 1.6 / (sqrt 2 * sqrt 2)
    "moves aslant": ((1.0, 0.0), (0.8, -0.6), (0.0, 1.0), (0.6, 0.8), 0.8, 0.8, 0.0, 0.8, 1.4),
    # nothing to compare with: no direction is no likeness
    "does not move": ((0.6, 0.8), (0.0, 1.0), (0.6, 0.8), (1.0, 0.0), 0.6, 0.0, 1.0, 0.8, -0.2),
    "has the same text": ((1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0), -1.0, 0.0, 0.0, 0.0, 0.0),
}


def vectors(row: tuple[Any, ...]) -> list[np.ndarray]:
    """Source, caption, picture, edited caption, as `score` takes them."""
    return [np.array(row[i], np.float32) for i in range(4)]


@pytest.mark.parametrize("row", BY_HAND.values(), ids=BY_HAND)
def test_scores_are_those_worked_by_hand(row: tuple[Any, ...]) -> None:
    found = score(*vectors(row))
    assert list(found) == ["image_text", "directional", "image_image", "source_text", "nearer"]
    assert list(found.values()) == pytest.approx(row[4:], abs=1e-6)  # float32's and the six digits'


def test_likeness_does_not_depend_on_length() -> None:
    source, caption, picture, edited = vectors(BY_HAND["moves aslant"])
    assert score(source, caption, picture, 3 * edited)["image_text"] == pytest.approx(0.8, abs=1e-6)


def test_scores_have_six_digits() -> None:
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, (50, 4))
    units = np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32)
    values = [value for row in units for value in score(*row).values()]
    values += [edit_scores(row[0], [(row[1], row[2])], 3.0)[0] for row in units]
    values += [label_score(row[:2], row[2:], 0, 3.0) for row in units]
    assert all(value == round(value, 6) for value in values)
    assert sum(value != round(value, 5) for value in values) >= 200
    assert all(type(value) is float for value in values)


def plane(*angles: float) -> np.ndarray:
    """Unit vectors [N, 2] at so many degrees."""
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], -1).astype(np.float32)


def test_an_edit_s_score_is_the_share_of_its_text_of_the_two() -> None:
    (picture,), (near, far, opposite) = plane(0), plane(60, 90, 180)
    # cosines 0.5, 0 and -1: the logistic function of scale times their difference
    found = edit_scores(picture, [(near, far), (far, near), (near, near), (opposite, near)], 4.0)
    assert found == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(6))], abs=1e-6)
    assert edit_scores(picture, [], 4.0) == []
    assert edit_scores(picture, [(opposite, near), (near, opposite)], 1e4) == [0.0, 1.0], "no overflow"


def test_a_label_s_score_is_its_probability_less_the_least_of_the_others() -> None:
    classes = plane(0, 90, 180)
    picture, original, control = plane(90, 0, 60)

    def share(angle: float) -> float:
        powers = [math.exp(2 * math.cos(math.radians(angle - at))) for at in (0, 90, 180)]
        return powers[0] / sum(powers)

    assert label_score([picture, original], classes, 0, 2.0) == pytest.approx(share(90) - share(0), abs=1e-6)
    for others in ([original, control], [control, original]):
        assert label_score([picture, *others], classes, 0, 2.0) == pytest.approx(share(90) - share(60), abs=1e-6)
    assert label_score([original, original], classes, 0, 2.0) == 0.0
    assert label_score([original, picture], classes, 1, 2.0) < -0.4, "another class has another share"
