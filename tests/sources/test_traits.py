"""What models know: traits of pictures against slow arithmetic, worlds by their ranges and sums, sources examined."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from small_sets import read

from counterfactory.engine.sources.domain import TRAITS, Domain, Trait, traits_of


def obvious_traits(picture: NDArray[np.uint8]) -> list[float]:
    """The traits pixel by pixel, as their comments say them."""
    height, width = picture.shape[:2]
    rgb = [[[int(c) for c in pixel] for pixel in row] for row in picture]
    grey = [[(299 * r + 587 * g + 114 * b + 500) // 1000 for r, g, b in row] for row in rgb]
    inner = [(y, x) for y in range(1, height - 1) for x in range(1, width - 1)]
    around = [grey[y - 1][x] + grey[y + 1][x] + grey[y][x - 1] + grey[y][x + 1] for y, x in inner]
    laplacian = [abs(4 * grey[y][x] - sides) for (y, x), sides in zip(inner, around, strict=True)]
    ranges = []
    for y, x in product(range(0, height - 3, 4), range(0, width - 3, 4)):
        block = [grey[y + i][x + j] for i in range(4) for j in range(4)]
        ranges.append(max(block) - min(block))
    steps = [(abs(grey[y][x + 1] - grey[y][x - 1]), abs(grey[y + 1][x] - grey[y - 1][x])) for y, x in inner]
    edges = [sorted(step) for step in steps if max(step) > 10]
    colours = Counter(tuple(value // 8 for value in pixel) for row in rgb for pixel in row)
    flat = [value for row in grey for value in row]

    def middle(rows: range, columns: range) -> tuple[list[float], float]:
        part = [rgb[y][x] for y in rows for x in columns]
        median = [float(np.median([pixel[c] for pixel in part])) for c in range(3)]
        return median, float(np.mean([abs(pixel[c] - median[c]) for pixel in part for c in range(3)]))

    _, top = middle(range(height // 8), range(width))
    ground, spread = middle(range(height * 7 // 8, height), range(width * 3 // 10, width * 7 // 10))
    return [
        float(np.log(1 + np.median(laplacian))),
        float(np.log(1 + np.mean(laplacian))),
        sum(found < 4 for found in ranges) / len(ranges),
        sum(found < 12 for found in ranges) / len(ranges),
        sum(sorted(colours.values())[-32:]) / (height * width),
        len(edges) / len(inner),
        sum(small < 0.15 * large for small, large in edges) / max(1, len(edges)),
        float(np.std(flat)),
        float(np.mean(flat)),
        float(np.log(1 + top)),
        float(np.log(1 + spread)),
        sum(ground) / 3,
        max(ground) - min(ground),
        ground[2] - ground[0],
        float(np.median([max(pixel) - min(pixel) for row in rgb for pixel in row])),
    ]


def noisy(height: int, width: int, amount: int) -> NDArray[np.uint8]:
    """A ramp of colour under noise."""
    random = np.random.default_rng(amount)
    ramp = np.linspace(20, 200, height)[:, None, None] + np.array([0, 20, -15])
    return np.asarray((ramp + random.integers(-amount, amount + 1, (height, width, 3))).clip(0, 255), np.uint8)


@pytest.mark.parametrize(
    "picture",
    [
        *(noisy(32, 45, 3), noisy(33, 32, 40), noisy(8, 8, 9)),
        *(np.full((32, 32, 3), value, np.uint8) for value in (0, 255)),
        np.kron(np.eye(3)[:2, None] * 255, np.ones((10, 13, 1))).astype(np.uint8),
    ],
    ids=["soft", "rough", "least", "black", "white", "boxes"],
)
def test_traits_are_what_their_comments_say(picture: NDArray[np.uint8]) -> None:
    assert len(TRAITS) == len(traits_of(picture))
    np.testing.assert_allclose(traits_of(picture), obvious_traits(picture), rtol=1e-6, atol=1e-6)


def world_from(bias: float = 0.0, **changed: tuple[float, float, float]) -> Domain:
    """A world that holds everything but for the changes."""
    traits = [Trait(name, *changed.get(name, (-1e9, 1e9, 0.0))) for name in TRAITS]
    return Domain("anything", "nothing", bias, tuple(traits))


def test_a_world_has_ranges_ends_included_and_a_sum() -> None:
    values = np.zeros(15)
    values[TRAITS.index("light")], values[TRAITS.index("edges")] = 100.0, 0.25
    for low, high, inside in ((100.0, 101.0, True), (99.0, 100.0, True), (100.1, 101.0, False), (99.0, 99.9, False)):
        assert world_from(light=(low, high, 0.0)).holds_traits(values) is inside
    assert world_from(-1.0, edges=(0.0, 1.0, 4.0)).holds_traits(values), "a sum of 0 is enough"
    assert not world_from(-1.01, edges=(0.0, 1.0, 4.0)).holds_traits(values)
    assert not world_from(-1.0, edges=(0.0, 1.0, 4.0), light=(0.0, 200.0, -0.001)).holds_traits(values)

    whole = world_from()
    with pytest.raises(ValueError, match=r"traits should be texture, .* found roughness, .* fit the world anew"):
        replace(whole, traits=whole.traits[1:])


def test_sources_say_whether_they_are_known_where_somebody_looks(tmp_path: Path) -> None:
    for name, value in (("dark", 10), ("light", 250)):
        Image.fromarray(np.full((40, 60, 3), value, np.uint8)).save(tmp_path / f"{name}.png")
    shapes = []

    def examine(picture: NDArray[np.uint8]) -> bool:
        shapes.append(picture.shape)
        return bool(picture.mean() > 100)

    plain, examined = read(tmp_path).sources, read(tmp_path, examine=examine).sources
    assert [source.known_world for source in plain] == [None, None]
    assert [(source.name, source.known_world) for source in examined] == [("dark", False), ("light", True)]
    assert shapes == [(40, 60, 3)] * 2, "it looks at the picture as it is in its file"
    assert examined == plain, "and what it says is in no key"
