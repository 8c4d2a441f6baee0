"""Sharpness and KID by hand: plain loops, no scene on both sides, none twice on one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rendered_truth import true_finding

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.export.pocket import likeness
from counterfactory.export.pocket.changes import Change
from counterfactory.export.pocket.likeness import (
    describe_extractor,
    kid,
    likeness_figures,
    polynomial_mmd,
    scaled,
    sharpness,
)
from counterfactory.export.pocket.observed import Observed

Features = NDArray[np.float64]


def mmd_by_loops(x: Features, y: Features) -> float:
    """The definition, pair by pair."""

    def k(a: Features, b: Features) -> float:
        return (sum(float(p) * float(q) for p, q in zip(a, b, strict=True)) / len(a) + 1) ** 3

    within = [np.mean([k(a, b) for a, b in combinations(side, 2)]) for side in (x, y)]
    return float(within[0] + within[1] - 2 * np.mean([k(a, b) for a, b in product(x, y)]))


def test_the_discrepancy_is_that_of_plain_loops() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 5)), rng.normal(0.4, 1.5, size=(6, 5))
    assert polynomial_mmd(x, y) == pytest.approx(mmd_by_loops(x, y), rel=1e-10)


def test_the_estimate_is_unbiased() -> None:
    """E k(x, x') of independent normal vectors of mean m: with s = x.x'/d the moments give it by hand, d = 1:
    E (xy + 1)^3 = E x^3 E y^3 + 3 E x^2 E y^2 + 3 E x E y + 1."""

    def moments(mean: float) -> Features:
        return np.array([mean**3 + 3 * mean, mean**2 + 1, mean])

    def expected(a: float, b: float) -> float:
        cubes, squares, means = moments(a) * moments(b)
        return float(cubes + 3 * squares + 3 * means + 1)

    truth = expected(0, 0) + expected(0.5, 0.5) - 2 * expected(0, 0.5)
    rng = np.random.default_rng(1)
    found = [polynomial_mmd(rng.normal(0, 1, (40, 1)), rng.normal(0.5, 1, (40, 1))) for _ in range(1500)]
    error = np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found) - truth) < 4 * error
    assert truth > 10 * error


def test_a_subset_has_a_scene_once_and_on_one_side(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[int]]] = []

    def remember(x: Features, y: Features) -> float:
        seen.append((x[:, 0].astype(int).tolist(), y[:, 0].astype(int).tolist()))
        return float(len(seen))

    monkeypatch.setattr(likeness, "polynomial_mmd", remember)
    monkeypatch.setattr(likeness, "_SUBSET_SIZE", 3)
    scenes = np.repeat(np.arange(7), 3)
    rows = np.arange(21)[:, None]
    mean, spread = kid(rows, rows, scenes)
    assert len(seen) == 100
    assert mean == pytest.approx(50.5)
    assert spread == pytest.approx(np.std(np.arange(1, 101)))
    for left, right in seen:
        assert len(left) == len(right) == 3
        assert len({row // 3 for row in left + right}) == 6
    assert len({row for left, _ in seen for row in left}) == 21
    again = kid(rows, rows, scenes)
    assert len(seen) == 200
    assert seen[:100] == seen[100:]
    assert again[1] == spread


def test_the_floor_is_nothing_and_another_distribution_is_far() -> None:
    rng = np.random.default_rng(2)
    true, scenes = rng.normal(size=(120, 8)), np.arange(120)
    floor, _ = kid(true, true, scenes)
    assert abs(floor) < 0.02
    assert kid(true + 1, true, scenes)[0] > 20 * abs(floor)
    with pytest.raises(CounterfactoryError, match="two scenes or more each, got 3 in all"):
        kid(true[:3], true[:3], scenes[:3])
    assert np.isfinite(kid(true[:4], true[:4], scenes[:4])[0])


def test_features_are_scaled_to_a_mean_square_of_one() -> None:
    unit = np.eye(4, dtype=np.float32)
    assert (scaled(unit) ** 2).mean() == pytest.approx(1.0)
    assert scaled(unit).dtype == np.float64


def test_sharpness_is_the_mean_absolute_laplacian() -> None:
    dot = np.zeros((5, 5, 3), np.uint8)
    dot[2, 2] = 100
    # The dot itself is 400 off, each of its four neighbours 100.
    assert sharpness([dot]) == pytest.approx((400 + 4 * 100) / 25)
    assert sharpness([dot, np.zeros_like(dot)]) == pytest.approx(800 / 50)


def test_an_extractor_is_named_with_its_weights(tmp_path: Path) -> None:
    (tmp_path / "clip_image.bin").write_bytes(b"one")
    first = describe_extractor(tmp_path)
    assert first.startswith("pocket CLIP image encoder (clip_image.bin 7692c3ad3540)")
    (tmp_path / "clip_image.bin").write_bytes(b"two")
    assert describe_extractor(tmp_path) != first


def picture_features(pictures: Sequence[NDArray[np.uint8]]) -> Features:
    return np.stack([p.reshape(16, 8, 16, 8, 3).mean((1, 3)).ravel()[:64] / 64 for p in pictures])


def observed(count: int, paint: str) -> list[Observed]:
    found = []
    for index in range(count):
        scene = STREETS.scene(78, index)
        drawing, target = STREETS.draw(scene), STREETS.draw(STREETS.restyle(scene, np.random.default_rng(index)))
        picture = {"truth": target.picture, "source": drawing.picture, "grey": np.full_like(target.picture, 128)}[paint]
        finding = true_finding(STREETS, scene, drawing)
        edits = ((Change("weather", "foggy"),),)
        found.append(Observed(f"{index}", scene, drawing, edits, picture, finding, target))
    return found


def test_figures_hold_pictures_against_the_truth_and_the_sources() -> None:
    def same(shown: Sequence[NDArray[np.uint8]]) -> Sequence[NDArray[np.uint8]]:
        return shown

    ideal = likeness_figures(observed(8, "truth"), picture_features, same)
    assert ideal["kid"] == ideal["kid_floor"] == ideal["kid_reconstructed"]
    assert ideal["sharpness_truth"] == 1
    assert (ideal["kid_variants"], ideal["kid_scenes"]) == (8, 8)
    idle = likeness_figures(observed(8, "source"), picture_features, same)
    assert idle["sharpness"] == 1
    assert idle["kid"] == idle["kid_sources"] != idle["kid_floor"]
    blank = likeness_figures(observed(8, "grey"), picture_features, same)
    assert (blank["sharpness"], blank["sharpness_truth"]) == (0, 0)
    assert likeness_figures(observed(3, "truth"), picture_features, same) == {}
