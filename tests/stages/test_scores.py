"""Scores of pictures by hand: CLIP's, those of pixels, and layout."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.stages.check.clip_scores import edit_scores, label_score, score
from counterfactory.engine.stages.check.quality import (
    distance,
    look_at_source,
    outlined_share,
    quality_scores,
    thumbnail,
)
from counterfactory.engine.stages.classes import Classes

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


# Sound pictures and faulty ones, told by their pixels.


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


# Layout: outlines where the mask changes its class.


def scene(left: int, right: int, size: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A box on flat ground, as a picture and as a mask; sides in pixels of a picture of 128."""
    scale = size // 128
    mask = np.zeros((size, size), np.uint8)
    mask[40 * scale : 90 * scale, left * scale : right * scale] = 3
    image = np.where(mask[..., None] == 3, np.uint8(200), np.uint8(60)).repeat(3, axis=2)
    return np.ascontiguousarray(image), mask


@pytest.mark.parametrize("size", [128, 512])
def test_a_picture_that_keeps_its_outlines_agrees_at_any_size(size: int) -> None:
    image, mask = scene(30, 80, size)
    assert outlined_share(image, mask) > 0.9
    moved, _ = scene(30, 70, size)
    # Of four sides of 50, one is lost and two are 10 shorter.
    assert outlined_share(moved, mask) == pytest.approx(1 - 70 / 200, abs=0.06)
    assert outlined_share(np.full_like(image, 90), mask) == 0.0


def test_a_pixel_beside_is_near_and_two_are_not() -> None:
    image, mask = scene(30, 80)
    shares = [outlined_share(np.roll(image, shift, axis=(0, 1)), mask) for shift in range(-3, 4)]
    assert min(shares[3:5]) > 0.9
    assert max(shares[:2] + shares[6:]) < 0.1


def test_outlines_of_a_large_picture_may_lie_a_little_to_either_side() -> None:
    image, mask = scene(30, 80, 1024)
    for shift in (-4, 4):  # half a pixel of the size that pictures are looked at
        for at in range(0, 8, 2):
            moved, where = np.roll(image, at + shift, axis=(0, 1)), np.roll(mask, at, axis=(0, 1))
            assert outlined_share(moved, where) > 0.9


def test_texture_that_is_finer_than_the_look_has_no_outlines() -> None:
    image, mask = scene(30, 80, 1024)
    image[:] = 60
    image[:, ::7] = 200
    assert outlined_share(image, mask) == 0.0


def test_fog_and_night_keep_their_outlines() -> None:
    image, mask = scene(30, 80)
    fog, night = (image * 0.1 + 200).astype(np.uint8), (image * 0.12).astype(np.uint8)
    assert min(outlined_share(fog, mask), outlined_share(night, mask)) > 0.9


def test_any_mask_is_compared_by_where_it_changes() -> None:
    image, mask = scene(30, 80)
    share = outlined_share(image, mask)
    coloured = np.where(mask[..., None] == 3, np.array([0, 7, 9], np.uint8), np.array([0, 7, 8], np.uint8))
    assert outlined_share(image, coloured) == share
    assert outlined_share(image, mask.astype(np.uint16) * 300) == share
    assert outlined_share(image, np.zeros_like(mask)) == 1.0


# Classes of labels.


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["bus", "car", "bus", "fire_truck"], ("bus", "car", "fire truck")),
        (["n01440764 tench, Tinca tinca", "car"], ("car", "tench, Tinca tinca")),
        (["bus", "bus", None], ()),
        ([None, None], ()),
        ([], ()),
        (["0", "17", "n01440764"], ()),
        (["0", "car", "bus", None], ("bus", "car")),
    ],
)
def test_classes_are_what_labels_name(labels: list[str | None], names: tuple[str, ...]) -> None:
    classes = Classes(labels)
    assert classes.names == names
    for label in labels:
        index = classes.index(label)
        assert index is None or label is None or names[index].split(",")[0] in label.replace("_", " ")
        assert (index is None) == (not names or label in (None, "0"))
