"""Values of light and weather that come together, in any picture: light stays in its range from edit to edit, nothing
that is no number becomes a picture, and no block of one is black that was not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from light_sweep import LEVELS, Found, Pixels, Values, draw, new_black, odd_pictures, value_sets
from PIL import Image
from small_sets import noise

import counterfactory as cf
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.light import draw as drawing
from counterfactory.engine.light.draw import draw_light, open_photograph
from counterfactory.engine.light.view import View

PAIRS = [values for values in value_sets(2) if len(values) == 2]
NIGHT_AND_SNOW = (("time", "at night"), ("weather", "snowy"))


def dark(side: int = 480) -> Pixels:
    """Nearly black, with something bright in it: by night, noise goes below black nearly everywhere."""
    picture = np.full((side, side, 3), 8, np.uint8)
    picture[side // 4 : side // 2, side // 4 : side // 2] = (200, 180, 150)
    return picture


@st.composite
def pictures(draw: st.DrawFn) -> Pixels:
    """Of one colour, of two, dark, or of noise; from a pixel up."""
    height, width = draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    colours = draw(st.lists(st.tuples(*[st.integers(0, 255)] * 3), min_size=1, max_size=2))
    chosen = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(colours), (height, width))
    picture = np.array(colours, np.uint8)[chosen]
    return np.minimum(picture, draw(st.sampled_from((255, 12, 1)))).astype(np.uint8)


def watched(monkeypatch: pytest.MonkeyPatch, seen: list[tuple[float, float]]) -> None:
    """Edits tell of the light that they are given, small and at full size."""

    def watch(edit: Callable[..., View]) -> Callable[..., View]:
        def work(view: View, *rest: Any) -> View:
            for pixels in (view.small, view.rows(0, view.height)):
                assert np.isfinite(pixels).all()
                seen.append((float(pixels.min()), float(pixels.max())))
            return edit(view, *rest)

        return work

    monkeypatch.setattr(drawing, "_DRAW", {value: watch(edit) for value, edit in drawing._DRAW.items()})


@settings(max_examples=60)
@given(pictures(), st.sampled_from(value_sets(3)), st.sampled_from(LEVELS), st.integers(0, 9))
def test_no_edit_is_given_light_out_of_its_range(picture: Pixels, values: Values, level: float, seed: int) -> None:
    seen: list[tuple[float, float]] = []
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        watched(patch, seen)
        other = draw_light(open_photograph(picture), values, level, np.random.default_rng(seed))
    assert other.shape == picture.shape
    assert len(seen) == 2 * len(values)
    assert min(low for low, _ in seen) >= 0
    assert max(high for _, high in seen) <= 100


def test_noise_of_the_night_stays_above_black(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    watched(monkeypatch, seen)
    other = draw(open_photograph(dark()), NIGHT_AND_SNOW, 1.0, 7)
    assert seen[0][0] > 0
    assert [low for low, _ in seen[2:]] == [0, 0], "what would have been below"
    assert other is not None
    assert (other.max(axis=2) == 0).mean() < 0.01


def test_the_sun_is_not_where_it_is_darkest() -> None:
    picture = np.full((480, 480, 3), 120, np.uint8)
    picture[320:] = 0
    other = draw(open_photograph(picture), (("time", "at night"), ("light", "in glare")), 1.0, 7)
    assert other is not None
    assert np.argwhere(other.min(axis=2) > 250).max(axis=0)[0] < 240, "the light is above, as what is bright is"


def test_black_blocks_are_counted_where_the_source_has_none() -> None:
    picture = np.full((120, 180, 3), 90, np.uint8)
    broken = picture.copy()
    broken[40:60, 20:60] = 1
    assert (new_black(picture, picture), new_black(picture, broken), new_black(broken, broken)) == (0, 8, 0)
    assert new_black(picture[:3, :2], np.zeros_like(picture[:3, :2])) == 1


def test_pairs_leave_no_black_block_in_a_dark_picture_or_a_photograph() -> None:
    found = Found()
    found.look_at("small and dark", dark(96), PAIRS)
    found.look_at("dark", dark(), [NIGHT_AND_SNOW, (("time", "at dusk"), ("weather", "rainy"))])
    found.look_at("chelsea", np.ascontiguousarray(skimage.data.chelsea()[::2, ::2]), PAIRS[::7])
    assert found.pictures == 3 * (68 + 2 + 10)
    assert (found.black, found.not_finite) == ([], [])


@pytest.mark.slow
def test_no_set_leaves_a_black_block() -> None:
    found = Found()
    names = ("astronaut", "camera", "cell", "coffee", "hubble_deep_field", "moon", "page", "retina", "rocket")
    for name in names:
        image = np.asarray(getattr(skimage.data, name)())
        picture = image if image.ndim == 3 else np.dstack([image] * 3)
        step = max(1, min(picture.shape[:2]) // 240)
        found.look_at(name, np.ascontiguousarray(picture[::step, ::step, :3]), value_sets(3))
    for name, picture in odd_pictures():
        found.look_at(name, picture, value_sets(3))
    assert (found.black, found.not_finite) == ([], [])


def none(view: View, *rest: Any) -> View:
    return view.changed(lambda pixels, window: pixels * np.float32(np.nan))


def below(view: View, *rest: Any) -> View:
    return view.changed(lambda pixels, window: np.log(pixels - 2))


@pytest.mark.parametrize(("edit", "told"), [(none, "'foggy' gives light"), (below, "invalid value encountered in log")])
def test_what_is_no_number_becomes_no_picture(
    edit: Callable[..., View], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(drawing._DRAW, "foggy", edit)
    picture = noise(1, 48, 64)
    with pytest.raises(FloatingPointError, match=told):
        draw_light(open_photograph(picture), [("weather", "foggy"), ("camera", "noisy")], 1.0, np.random.default_rng(0))
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    Image.fromarray(picture).save(tmp_path / "photos" / "dog" / "7.png")
    with pytest.raises(CounterfactoryError, match=told) as stopped:
        cf.generate(
            tmp_path / "photos",
            out=tmp_path / "suite",
            profile="light",
            interventions={"weather": ["foggy"]},
            variants=1,
            warn=lambda _: None,
        )
    assert "dog/7 with foggy" in str(stopped.value)
    assert "--interventions" in str(stopped.value)
