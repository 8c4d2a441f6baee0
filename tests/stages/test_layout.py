"""The layout's score: outlines where the mask changes its class."""

from __future__ import annotations

import numpy as np
import pytest

from counterfactory.engine.stages.check import layout
from counterfactory.engine.stages.check.layout import outlined_share


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


def test_small_pictures_are_not_enlarged(monkeypatch: pytest.MonkeyPatch) -> None:
    image, mask = (array[::2, ::2] for array in scene(31, 80))
    noisy = np.roll(image, 1, axis=1) + np.random.default_rng(0).integers(0, 40, image.shape, np.uint8)
    found = outlined_share(noisy, mask)
    monkeypatch.setattr(layout, "_SHORT_SIDE", 64)
    assert outlined_share(noisy, mask) == found
    monkeypatch.setattr(layout, "_SHORT_SIDE", 32)
    assert outlined_share(noisy, mask) != found


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
