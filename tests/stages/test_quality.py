"""Sound pictures and faulty ones, told by their pixels."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.stages.check.quality import distance, look_at_source, quality_scores, thumbnail

Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module")
def street() -> Pixels:
    return np.asarray(EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(5))).picture)


def scores(picture: Pixels, source: Pixels) -> dict[str, float]:
    return quality_scores(picture, thumbnail(picture), look_at_source(source))


def flat(level: int) -> Pixels:
    return np.full((64, 96, 3), level, np.uint8)


def test_a_copy_is_as_sharp_as_its_source_and_no_other_picture(street: Pixels) -> None:
    found = scores(street, street)
    assert (found["sharp"], found["changed"]) == (1.0, 0.0)
    assert list(found) == ["sharp", "spread", "exposed", "changed"]
    assert found["spread"] > 0.2
    assert found["exposed"] > 0.9


def test_blur_is_told_from_fog(street: Pixels) -> None:
    """Fog takes contrast from all of a picture, blur from its detail."""
    blurred = np.asarray(cv2.GaussianBlur(street, (0, 0), 2))
    foggy = (street * 0.4 + 110).astype(np.uint8)
    assert scores(blurred, street)["sharp"] < 0.5
    assert scores(foggy, street)["sharp"] > 0.9
    assert scores(street, blurred)["sharp"] == 1.0, "sharper than its source is sharp"
    assert scores(blurred, flat(90)[:, :1].repeat(128, 1).repeat(2, 0))["sharp"] == 1.0, "a plain source"


@pytest.mark.parametrize("level", [0, 127, 255])
def test_a_blank_frame_has_no_spread(level: int) -> None:
    found = scores(flat(level), flat(60))
    assert found["spread"] == 0.0
    assert found["exposed"] == (1.0 if level == 127 else 0.0)
    noisy = flat(level).copy()
    noisy[0, :90] = 255 - level  # fewer than two of a hundred pixels
    assert scores(noisy, flat(60))["spread"] == 0.0


def test_levels_near_the_ends_are_clipped_where_all_channels_are() -> None:
    half = flat(100).copy()
    half[:16] = 4
    half[16:32] = 251
    assert scores(half, flat(60))["exposed"] == 0.5
    assert scores(half, flat(60))["spread"] == round(247 / 255, 6)
    half[:16, :, 1] = 5
    half[16:32, :, 2] = 250
    assert scores(half, flat(60))["exposed"] == 1.0


def test_distances_are_shares_of_the_whole_range() -> None:
    black, white = thumbnail(flat(0)), thumbnail(flat(255))
    assert black.shape == (32, 48, 3)
    assert distance(black, white) == 1.0
    assert distance(black, thumbnail(flat(51))) == 0.2
    assert thumbnail(np.zeros((20, 400, 3), np.uint8)).shape == (20, 400, 3), "small pictures stay as they are"


def test_noise_of_painting_counts_little_and_another_colour_much(street: Pixels) -> None:
    noise = np.random.default_rng(0).normal(0, 8, street.shape)
    noisy = np.clip(street + noise, 0, 255).astype(np.uint8)
    other = street[..., ::-1].copy()
    assert distance(thumbnail(street), thumbnail(noisy)) < 0.02 < distance(thumbnail(street), thumbnail(other))
