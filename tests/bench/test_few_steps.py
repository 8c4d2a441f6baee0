"""Student against teacher: what is painted by whom, how sure a difference is, and what is held against a student."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from few_steps import Difference, distance, faults, jackknifed, kernel, profiles_of

from counterfactory.engine.profile.profile import load_profile


def test_student_and_teacher_are_those_of_the_folder(tmp_path: Path) -> None:
    found = profiles_of(Namespace(weights=tmp_path, rows=2, profile="pocket"))
    pocket = load_profile("pocket-full").paint
    assert {name: profile.paint.rows_per_variant for name, profile in found.items()} == {
        "teacher": pocket.rows_per_variant,
        "student": 2,
        "untaught": 2,
    }
    assert [found[name].paint.denoiser for name in ("teacher", "student", "untaught")] == [
        *("denoiser", "denoiser_few_int8", "denoiser")
    ]
    assert found["teacher"].paint == pocket
    assert {profile.models.path for profile in found.values()} == {tmp_path}


def test_or_those_of_a_profile_with_a_teacher() -> None:
    found = profiles_of(Namespace(weights=None, rows=2, profile="a10g-fast"))
    assert found["teacher"].paint == load_profile("a10g").paint
    assert found["student"].paint == load_profile("a10g-fast").paint
    assert found["untaught"].paint == replace(load_profile("a10g-fast").paint, denoiser="denoiser")
    with pytest.raises(SystemExit, match="profile pocket-full has no teacher: name a student's folder with --weights"):
        profiles_of(Namespace(weights=None, rows=2, profile="pocket-full"))


def test_an_interval_is_that_of_scenes() -> None:
    """Variants of a scene are alike, so that twice as many of them tell no more."""
    random = np.random.default_rng(0)
    of_scene = random.standard_normal(200)
    scenes = np.repeat(np.arange(200), 3)
    values = of_scene[scenes] + 0.01 * random.standard_normal(600)
    found = jackknifed(lambda chosen: {"mean": float(values[chosen].mean())}, scenes)["mean"]
    assert found.value == pytest.approx(values.mean())
    assert (found.low + found.high) / 2 == pytest.approx(found.value)
    known = 2 * 1.96 * of_scene.std() / 200**0.5
    assert 0.6 * known < found.high - found.low < 1.6 * known
    few = jackknifed(lambda chosen: {"mean": float(values[:9][chosen].mean())}, scenes[:9])["mean"]
    assert few.low < few.value < few.high


def test_what_some_groups_cannot_tell_is_left_out() -> None:
    scenes = np.arange(10)

    def measures(chosen: np.ndarray) -> dict[str, float]:
        return {"all": 1.0} | ({"first": 1.0} if chosen[0] else {})

    assert list(jackknifed(measures, scenes)) == ["all"]


def test_every_scene_is_left_out_once_and_whole() -> None:
    scenes, seen = np.repeat(np.arange(45), 2), []

    def note(chosen: np.ndarray) -> dict[str, float]:
        seen.append(chosen)
        return {"one": 0.0}

    jackknifed(note, scenes)
    whole, parts = seen[-1], seen[:-1]
    assert whole.all()
    assert len(parts) == 20
    assert (sum(~part for part in parts) == 1).all()
    assert all((part[::2] == part[1::2]).all() for part in parts)


@pytest.mark.parametrize(
    ("name", "found", "is_fault"),
    [
        ("edit_success", (-0.009, -0.03, 0.0), False),
        ("edit_success", (-0.011, -0.03, 0.01), True),
        ("layout_miou", (-0.02, -0.03, -0.01), True),
        ("layout_miou", (0.02, 0.01, 0.03), False),
        ("object_success", (-0.02, -0.03, -0.01), True),
        ("weather_success", (-0.5, -0.6, -0.4), False),  # of few variants; edit_success has them as well
        ("sharpness", (-0.02, -0.05, 0.01), False),
        ("sharpness", (-0.02, -0.03, -0.01), True),
        ("sharpness", (0.02, 0.01, 0.03), False),
        ("kid", (0.02, -0.01, 0.05), False),
        ("kid", (0.02, 0.01, 0.05), True),
        ("kid", (-0.02, -0.05, -0.01), False),
    ],
)
def test_a_point_less_seen_or_surely_less_like_the_truth_is_a_fault(
    name: str, found: tuple[float, float, float], is_fault: bool
) -> None:
    nothing = dict.fromkeys(("sharpness", "kid", "weather_success"), Difference(0, -1, 1))
    assert faults(nothing | {name: Difference(*found)}) == ([name] if is_fault else [])


def test_the_distance_is_kids_between_different_scenes() -> None:
    random = np.random.default_rng(1)
    x, y = random.standard_normal((12, 5)), random.standard_normal((12, 5)) + 0.3
    alone = np.arange(12)
    found = distance(kernel(x, x), kernel(x, y), kernel(y, y), alone)

    def k(a: np.ndarray, b: np.ndarray) -> float:
        return float((a @ b / 5 + 1) ** 3)

    others = [(i, j) for i in range(12) for j in range(12) if i != j]
    by_hand = np.mean([k(x[i], x[j]) + k(y[i], y[j]) - 2 * k(x[i], y[j]) for i, j in others])
    assert found == pytest.approx(by_hand)
    # A painter that copies the truth is at no distance, however alike the variants of one scene are.
    twice = np.repeat(random.standard_normal((40, 5)), 2, axis=0)
    scenes = np.repeat(np.arange(40), 2)
    same = kernel(twice, twice)
    assert distance(same, same, same, scenes) == pytest.approx(0)
    assert distance(same, same, same, scenes) == distance(same, same, same, np.repeat(scenes[::2], 2))
