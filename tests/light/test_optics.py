"""What light edits are made of, against what others compute: sRGB, scattering, kernels, noise, JPEG, fields, skies."""

from __future__ import annotations

import io

import numpy as np
import pytest
import skimage.data
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage, signal

from counterfactory.engine.light import camera
from counterfactory.engine.light.grain import Grain, add_grain, grain
from counterfactory.engine.light.sky import detect_sky
from counterfactory.engine.light.view import Field, View, Window, encode, luminance, open_view
from counterfactory.engine.light.weather import scatter

Pixels = NDArray[np.uint8]
Doubles = NDArray[np.float64]


def linear(picture: Pixels) -> Doubles:
    values = picture / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def srgb(light: Doubles) -> Doubles:
    """IEC 61966-2-1, 0 to 255."""
    light = light.clip(0, 1)
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def rendered(view: View) -> Doubles:
    return view.rows(0, view.height).astype(np.float64)


def test_bytes_survive_linear_light_whatever_the_dither() -> None:
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], 3, axis=2)
    view = open_view(ramp, None)
    np.testing.assert_allclose(rendered(view), linear(ramp), rtol=1e-6)
    for dither in (0, 128, 255):
        assert np.array_equal(encode(view.rows(0, 256), np.full(ramp.shape, dither, np.uint8)), ramp)


def test_dither_rounds_to_the_mean() -> None:
    light = np.full((256, 1, 3), 0.0421, np.float32)
    dither = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], 3, axis=2)
    encoded = encode(light.copy(), dither)
    assert np.ptp(encoded) == 1
    assert encoded.mean() == pytest.approx(float(srgb(np.array(0.0421))), abs=0.01)


def test_air_scatters_as_koschmieder_says() -> None:
    rng = np.random.default_rng(3)
    light, depth = rng.random((9, 7, 3)), rng.random((9, 7)) * 4
    air = (0.7, 0.72, 0.8)
    for colours in ((0.8, 1.0, 1.3), (1.0, 1.0, 1.0)):
        passed = np.exp(-depth[..., None] * np.array(colours))
        expected = light * passed + np.array(air) * (1 - passed)
        seen = scatter(light.astype(np.float32), depth.astype(np.float32), air, colours)
        np.testing.assert_allclose(seen, expected, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(radius=st.floats(0.1, 20))
def test_a_disc_is_round_symmetric_and_of_sum_one(radius: float) -> None:
    kernel = camera.disc(radius).astype(np.float64)
    assert kernel.sum() == pytest.approx(1, abs=1e-5)
    for other in (kernel.T, kernel[::-1], kernel[:, ::-1]):
        np.testing.assert_allclose(other, kernel, atol=1e-9)
    middle = len(kernel) // 2
    y, x = np.indices(kernel.shape) - middle
    away = np.hypot(x, y)
    assert not kernel[away > max(radius, 0.5) + 0.71].any()
    if radius > 2:
        np.testing.assert_allclose(kernel[away < radius - 0.71], 1 / (np.pi * radius**2), rtol=0.05)


def test_focus_blurs_linear_light_by_a_disc() -> None:
    picture = np.asarray(skimage.data.chelsea()[:120, :160] // 2, np.uint8)  # no highlights, which are blurred as more
    view = open_view(picture, None)
    radius = 0.022 * 120
    seen = rendered(camera.out_of_focus(view, 1.0))
    kernel = camera.disc(radius).astype(np.float64)
    expected = np.stack([ndimage.convolve(linear(picture)[..., i], kernel, mode="nearest") for i in range(3)], axis=2)
    np.testing.assert_allclose(seen, expected, atol=1e-5)


def test_a_large_disc_is_blurred_on_a_smaller_picture_and_lies_where_it_should() -> None:
    moved = []
    y, x = np.indices((600, 601))
    # Blocks that are blurred as one lie differently to each of these.
    for at in range(296, 302):
        dot = np.zeros((600, 601, 3), np.uint8)
        dot[296:304, at : at + 8] = 200
        seen = rendered(camera.out_of_focus(open_view(dot, None), 1.0))[..., 1]
        total = seen.sum()
        assert total == pytest.approx(linear(dot)[..., 1].sum(), rel=0.01)
        middle = (seen * y).sum() / total, (seen * x).sum() / total
        moved.append((middle[0] - 299.5, middle[1] - at - 3.5))
        # A disc's second moment is r^2 / 2, a square's a^2 / 6.
        spread = (seen * ((y - middle[0]) ** 2 + (x - middle[1]) ** 2)).sum() / total
        assert np.sqrt(2 * (spread - 8**2 / 6)) == pytest.approx(0.022 * 600, rel=0.06)
    assert np.abs(moved).max() < 0.15
    assert abs(np.mean([across for _, across in moved])) < 0.02


@settings(max_examples=40, deadline=None)
@given(length=st.floats(0.5, 90), angle=st.floats(-1.5, 1.5))
@example(length=19.875, angle=1.125)  # where rounding each step by itself would make it two pixels shorter
def test_motion_is_a_line_symmetric_and_of_sum_one(length: float, angle: float) -> None:
    dot = np.zeros((201, 201, 3), np.float32)
    dot[100, 100] = 1
    line = camera.Line.of(length, angle).blur(dot)[..., 0].astype(np.float64)
    assert line.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(line, line[::-1, ::-1], atol=1e-7)
    y, x = np.nonzero(line)
    weights = line[y, x]
    along = (x - 100) * np.cos(angle) + (y - 100) * np.sin(angle)
    off = (y - 100) * np.cos(angle) - (x - 100) * np.sin(angle)
    assert np.sqrt((weights * off**2).sum()) < 1.1
    assert np.sqrt(12 * (weights * along**2).sum()) == pytest.approx(length, abs=max(1.8, 0.06 * length))


def test_noise_has_the_variance_of_light_and_sensor() -> None:
    levels = np.array([0.0, 0.1, 0.3, 0.6])
    light = np.repeat(levels.astype(np.float32), 250)[None, :, None] * np.ones((1000, 1, 3), np.float32)
    view = View(1000, 1000, lambda top, bottom: light[top:bottom].copy(), light[::10, ::10])
    noise = grain(view, np.random.default_rng(1))
    fine = Grain(noise.seed, noise.normals, 1.0, None)
    noisy = add_grain(light, fine, Window(1000, 1000, 0, 1000), 0.02, 0.03)
    for i, level in enumerate(levels):
        part = noisy[:, 250 * i : 250 * (i + 1), 1]
        assert part.mean() == pytest.approx(level, abs=0.002)
        assert part.std() == pytest.approx(np.sqrt(0.02 * level + 0.03**2), rel=0.02)
    assert abs(np.corrcoef(noisy[:, :249, 1].ravel(), noisy[:, 1:250, 1].ravel())[0, 1]) < 0.01


def test_noise_is_the_same_by_any_rows_and_repeats_nowhere() -> None:
    view = open_view(np.zeros((300, 50, 3), np.uint8), None)
    noise = grain(view, np.random.default_rng(1))
    whole = noise.at(Window(300, 50, 0, 300))
    for top, bottom in ((0, 64), (10, 100), (250, 300)):
        assert np.array_equal(noise.at(Window(300, 50, top, bottom)), whole[top:bottom])
    blocks = whole[:256].reshape(4, 64, 50, 3)
    assert max(abs(np.corrcoef(blocks[i].ravel(), blocks[j].ravel())[0, 1]) for i, j in ((0, 1), (1, 2), (0, 3))) < 0.05


def test_compression_is_jpegs() -> None:
    picture = np.asarray(skimage.data.coffee()[:200, :304], np.uint8)
    view = camera.compressed(open_view(picture, None), 1.0)
    # The same tables: libjpeg's, of quality 6, and half the resolution of colours.
    Image.fromarray(picture).save(data := io.BytesIO(), "JPEG", quality=6, subsampling="4:2:0")
    expected = np.asarray(Image.open(data), np.float64)
    difference = np.abs(srgb(rendered(view)) - expected)
    assert difference.mean() < 0.5
    assert np.abs(expected - picture).mean() > 5


def test_a_large_picture_is_compressed_smaller() -> None:
    picture = np.asarray(skimage.data.astronaut(), np.uint8).repeat(4, axis=0).repeat(4, axis=1)
    seen = srgb(rendered(camera.compressed(open_view(picture, None), 1.0)))
    small = open_view(np.asarray(skimage.data.astronaut(), np.uint8), None)
    expected = srgb(rendered(camera.compressed(small, 1.0)))
    means = seen.reshape(512, 4, 512, 4, 3).mean(axis=(1, 3))
    assert np.abs(means - expected).mean() < 3


@pytest.mark.parametrize("size", [(40, 60), (7, 9), (300, 17), (1, 1)])
def test_fields_lie_where_they_should(size: tuple[int, int]) -> None:
    """A map's values are those of its pixels' middles, and every strip reads the same ones."""
    height, width = size
    values = np.add.outer(np.linspace(0, 2, 30), np.linspace(0, 1, 20)).astype(np.float32)
    field = Field(values)
    whole = field.at(Window(height, width, 0, height))
    assert whole.shape == size
    for top in range(0, height, 3):
        np.testing.assert_allclose(field.at(Window(height, width, top, height)), whole[top:], atol=1e-6)
    if min(size) >= 7:
        y = ((np.arange(height) + 0.5) / height * 30 - 0.5).clip(0, 29) / 29 * 2
        x = ((np.arange(width) + 0.5) / width * 20 - 0.5).clip(0, 19) / 19
        np.testing.assert_allclose(whole, np.add.outer(y, x), atol=0.04)


def test_the_small_picture_keeps_the_light_of_a_large_one() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (900, 3700, 3), np.uint8)
    view = open_view(picture, None)
    assert min(view.small.shape[:2]) == 192
    np.testing.assert_allclose(view.small.mean(axis=(0, 1)), linear(picture).mean(axis=(0, 1)), rtol=0.02)
    ramp = np.repeat(np.linspace(0, 255, 4000).round().astype(np.uint8)[:, None, None], 900, axis=1).repeat(3, axis=2)
    rows = luminance(open_view(ramp, None).small).mean(axis=1)
    centres = (np.arange(len(rows)) + 0.5) / len(rows)
    smooth = np.interp(centres, (np.arange(4000) + 0.5) / 4000, linear(ramp[:, 0])[:, 0])
    np.testing.assert_allclose(rows, smooth, atol=0.01)


def test_a_sky_is_what_is_blue_above_and_not_what_stands_before_it() -> None:
    picture = np.zeros((200, 300, 3), np.uint8)
    picture[:120] = (120, 160, 230)
    picture[120:] = (70, 90, 40)
    picture[40:160, 100:140] = (150, 60, 40)
    picture[60:100, 200:201] = (30, 25, 20)
    noise = np.random.default_rng(0).integers(-3, 4, picture.shape)
    view = open_view(np.asarray((picture + noise).clip(0, 255), np.uint8), None)
    sky = detect_sky(view)
    assert sky is not None
    assert sky.horizon == pytest.approx(0.6, abs=0.02)
    assert sky.area == pytest.approx(0.6 - 80 * 40 / 60000, abs=0.03)
    own = sky.at(Window(200, 300, 0, 200))
    assert own.matte[5:110, :90].min() > 0.9
    assert own.matte[125:].max() < 0.1
    assert own.matte[50:110, 105:135].max() < 0.1
    assert own.matte[65:95, 200].max() < 0.2
    left = own.removed(view.rows(0, 200))
    assert left[5:110, :90].max() < 0.06
    np.testing.assert_allclose(left[130:], view.rows(130, 200), atol=0.02)


@pytest.mark.parametrize("name", ["coffee", "chelsea", "grass", "brick"])
def test_what_has_no_sky(name: str) -> None:
    image = np.asarray(getattr(skimage.data, name)(), np.uint8)
    assert detect_sky(open_view(image if image.ndim == 3 else np.dstack([image] * 3), None)) is None


@pytest.mark.parametrize(("length", "angle"), [(3.0, 0.4), (30.0, 0.0), (41.0, -0.5)])
def test_motion_is_what_scipy_makes_of_the_line(length: float, angle: float) -> None:
    picture = np.random.default_rng(0).random((60, 90)).astype(np.float32)
    line = camera.Line.of(length, angle)
    dot = np.zeros((101, 101, 3), np.float32)
    dot[50, 50] = 1
    kernel = line.blur(dot)[..., 0].astype(np.float64)
    expected = signal.convolve(np.pad(picture, 50, mode="edge"), kernel, mode="valid")
    inside = slice(line.halo, 60 - line.halo), slice(28, -28)
    seen = line.blur(np.dstack([picture] * 3))[..., 1]
    np.testing.assert_allclose(seen[inside], expected[inside], atol=1e-5)
