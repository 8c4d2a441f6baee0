"""Edits of colours in pixels: drawn scenes whose colours are known, under any light and in haze; and the street world,
where the truth is.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
import skimage.color
import skimage.data
import skimage.measure
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.world import COLOURS
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.stages.check.colours import (
    colour_change,
    find_colour,
    recolouring,
    source_colours,
    term_table,
)

Pixels = NDArray[np.uint8]
RGB = {
    "black": (25, 25, 30),
    "white": (240, 240, 235),
    "red": (190, 30, 40),
    "green": (40, 130, 60),
    "blue": (50, 80, 190),
    "yellow": (235, 205, 60),
    "orange": (235, 130, 40),
    "purple": (125, 60, 150),
}


def scene(*things: str, side: int = 128) -> Pixels:
    """Grey ground under a pale sky, darker and lighter stones on it, and a thing of each colour."""
    image = np.full((side, side, 3), (128, 126, 122), np.uint8)
    image[: side // 3] = (196, 204, 214)
    rng = np.random.default_rng(5)
    for _ in range(60):
        x, y = rng.integers(0, side), rng.integers(side // 3, side)
        level = int(rng.integers(20, 240))
        cv2.rectangle(image, (int(x), int(y)), (int(x) + side // 40, int(y) + side // 40), (level,) * 3, -1)
    for number, thing in enumerate(things):
        left = side * (1 + 4 * number) // 10
        cv2.rectangle(image, (left, side // 2), (left + side // 4, side * 3 // 4), RGB[thing], -1)
    return image


def lit(image: Pixels, light: tuple[float, float, float], haze: float = 0.0) -> Pixels:
    """In another light, behind grey haze of a share."""
    seen = image * np.array(light) * (1 - haze) + 190 * haze
    return seen.clip(0, 255).round().astype(np.uint8)


def look(source: Pixels, picture: Pixels, *edits: Edit) -> dict[str, float]:
    seen = source_colours(source)
    return recolouring(picture, edits, lambda colour: find_colour(seen, colour))


def painted(old: str, new: str, *edits: Edit) -> float:
    return look(scene(old), scene(new), *edits)["recoloured"]


def test_a_change_of_colours_is_one_colour_for_another() -> None:
    for old, new, found in (
        ("red bus", "blue bus", ("red", "blue")),
        ("a Red bus", "a gray bus", ("red", "grey")),
        ("violet", "golden", ("purple", "yellow")),
        ("red", "red and wet", None),
        ("red bus", "a bus", None),
        ("bus", "blue bus", None),
        ("red and white bus", "blue bus", None),
        ("", "in the snow", None),
        ("a redder bus", "a blue bus", None),
    ):
        assert colour_change(Edit("colour", old, new)) == found


@pytest.mark.parametrize("old", RGB)
def test_every_colour_is_told_from_every_other(old: str) -> None:
    for new in RGB.keys() - {old}:
        edit = Edit("colour", old, new)
        assert painted(old, new, edit) > 0.5
        assert painted(old, old, edit) < 0.3
        assert all(painted(old, other, edit) < 0.35 for other in RGB.keys() - {old, new})


@pytest.mark.parametrize("light", [(1.0, 0.78, 0.62), (0.5, 0.55, 0.75), (0.8, 1.0, 0.9)])
@pytest.mark.parametrize("haze", [0.0, 0.5])
@pytest.mark.parametrize(("old", "new"), [("red", "blue"), ("blue", "yellow"), ("green", "red"), ("purple", "green")])
def test_light_and_haze_are_seen_through(light: tuple[float, float, float], haze: float, old: str, new: str) -> None:
    edit, source = Edit("colour", old, new), scene(old)
    assert look(source, lit(scene(new), light, haze), edit)["recoloured"] > 0.4
    assert look(source, lit(scene(old), light, haze), edit)["recoloured"] < 0.25
    assert look(lit(source, light, haze), scene(new), edit)["recoloured"] > 0.4


def test_the_worst_counts_and_types_have_their_own() -> None:
    night, ball = Edit("time", "day", "night"), Edit("subject", "a green ball", "a yellow ball")
    found = look(scene("red", "green"), scene("blue", "purple"), Edit("colour", "red", "blue"), ball, night)
    assert set(found) == {"recoloured", "recoloured_colour", "recoloured_subject"}
    assert found["recoloured_colour"] > 0.5 > 0.2 > found["recoloured_subject"] == found["recoloured"]
    assert look(scene("red"), scene("red"), night) == {}


@given(st.integers(0, 255), st.integers(1, 5), st.integers(1, 5))
def test_flat_and_tiny_pictures_have_an_answer(level: int, height: int, width: int) -> None:
    flat = np.full((height, width, 3), level, np.uint8)
    found = look(flat, flat, Edit("colour", "white", "black"), Edit("colour", "grey", "black"))
    assert all(0 <= value <= 1 for value in found.values())


def test_probabilities_of_a_colour_s_terms_sum_to_one_and_focal_colours_are_theirs() -> None:
    table = term_table()
    assert table.shape == (11, 32**3)
    assert np.allclose(table.sum(axis=0), 1, atol=1e-3)
    pure = {3: (31, 0, 0), 4: (0, 20, 0), 5: (0, 0, 31), 6: (31, 31, 0), 1: (31, 31, 31), 0: (0, 0, 0)}
    assert all(table[:, (r * 32 + g) * 32 + b].argmax() == term for term, (r, g, b) in pure.items())


def test_on_rendered_streets_it_knows_new_colours_from_others() -> None:
    """Any weather and time of day on both sides; of what the truth is, another colour is painted, or none."""
    right, wrong = [], []
    for number in range(40):
        rng = np.random.default_rng((7, number))
        before = STREETS.scene(77, number)
        first = before.vehicles[0]
        new, other = (str(c) for c in rng.permutation([c for c in COLOURS if c != first.colour])[:2])
        after = STREETS.restyle(before, rng)
        source, edit = STREETS.draw(before).picture, Edit("colour", f"{first.colour} car", f"{new} car")
        for colour, into in ((new, right), (first.colour, wrong), (other, wrong)):
            vehicles = (replace(first, colour=colour), *before.vehicles[1:])
            found = look(source, STREETS.draw(replace(after, vehicles=vehicles)).picture, edit)
            into += found.values() if not found else [found["recoloured"]]
    assert len(right) >= 36, "the old colour is found nearly everywhere"
    above = np.array(right)[:, None] > np.array(wrong)
    assert above.mean() > 0.93, "the area under the curve"


def test_on_a_photograph_it_sees_what_was_recoloured() -> None:
    """The suit of an astronaut is orange; in the edited pictures its hue is turned, as scikit-image measures it."""
    photograph = skimage.data.astronaut()
    hues = skimage.color.rgb2hsv(photograph)
    suit = (hues[..., 0] < 0.11) & (hues[..., 1] > 0.5) & (hues[..., 2] > 0.25)

    def turned(by: float) -> Pixels:
        edited = hues.copy()
        edited[..., 0] = np.where(suit, (hues[..., 0] + by) % 1, hues[..., 0])
        return (skimage.color.hsv2rgb(edited) * 255).round().astype(np.uint8)

    edit = Edit("subject", "an orange suit", "a blue suit")
    assert look(photograph, turned(0.58), edit)["recoloured"] > 0.8
    assert look(photograph, turned(0.33), edit)["recoloured"] < 0.1, "green"
    assert look(photograph, photograph, edit)["recoloured"] < 0.1
    places = np.concatenate([region.places for region in find_colour(source_colours(photograph), "orange")])
    small = cv2.resize(suit.astype(np.uint8), (128, 128), interpolation=cv2.INTER_AREA)
    assert small.ravel()[places].mean() > 0.8, "it is the suit that is looked at"


def slow_sight(picture: Pixels) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Numbers of colours, and what lies within outlines, pixel by pixel in NumPy."""
    numbers, steepest = np.zeros(picture.shape[:2], np.int64), np.zeros(picture.shape[:2], np.int64)
    for channel in range(3):
        plane = picture[..., channel].astype(np.float64)
        darkest = np.sort(plane.ravel())[int(0.01 * plane.size)]
        clear = np.maximum(plane - 0.9 * darkest, 0)
        seen = np.round(np.minimum(clear * 150 / max(clear.mean(), 1), 255)).astype(np.int64)
        numbers = numbers * 32 + seen // 8
        padded = np.pad(seen, 1, mode="edge")
        calm = np.median([padded[y : y + seen.shape[0], x : x + seen.shape[1]] for y in range(3) for x in range(3)], 0)
        before = np.pad(calm, ((1, 0), (1, 0)), mode="edge")
        near = [before[y : y + seen.shape[0], x : x + seen.shape[1]] for y in range(2) for x in range(2)]
        steepest = np.maximum(steepest, (np.max(near, 0) - np.min(near, 0)).astype(np.int64))
    return numbers, steepest < 12


def slow_regions(picture: Pixels, colour: str) -> list[tuple[list[int], float]]:
    """Things of a colour, by scikit-image's labels."""
    numbers, within = slow_sight(picture)
    likely = term_table()[list(COLOURS_IN_ORDER).index(colour)][numbers]
    for sure in (0.2, 0.05):
        coloured = likely > np.float32(sure)
        for whole in (False, True):
            parts = skimage.measure.label(coloured if whole else coloured & within, connectivity=2)
            things = [np.flatnonzero(parts == part) for part in range(1, parts.max() + 1)]
            things = [thing for thing in things if len(thing) >= 0.0025 * parts.size]
            if things and (whole or sum(map(len, things)) >= 0.2 * coloured.sum()):
                full = min(0.018 * parts.size, max(map(len, things))) / 2
                return [(thing.tolist(), min(1.0, len(thing) / full)) for thing in things]
    return []


COLOURS_IN_ORDER = ("black", "white", "grey", "red", "green", "blue", "yellow", "orange", "brown", "pink", "purple")


@pytest.mark.parametrize("kind", ["street", "photograph", "noise", "tiny"])
def test_things_are_those_of_a_slow_way(kind: str) -> None:
    rng, found = np.random.default_rng(11), 0
    for number in range(5):
        if kind == "street":
            picture = STREETS.draw(STREETS.scene(78, number)).picture
        elif kind == "photograph":
            y, x = rng.integers(0, 384, 2)
            picture = np.ascontiguousarray(skimage.data.astronaut()[y : y + 128, x : x + 128])
        else:  # soft spots; in the smallest picture a pixel or two are a thing
            side = 20 if kind == "tiny" else 80
            small = rng.integers(0, 256, (side // 5, side // 5, 3), dtype=np.uint8)
            blend = cv2.INTER_LINEAR if number % 2 else cv2.INTER_NEAREST
            picture = cv2.resize(small, (side, side), interpolation=blend)
        seen = source_colours(picture)
        numbers, within = slow_sight(picture)
        assert np.array_equal(seen.numbers, numbers)
        assert np.array_equal(seen.within, within)
        for colour in COLOURS_IN_ORDER:
            things = [(region.places.tolist(), region.weight) for region in find_colour(seen, colour)]
            assert sorted(things) == sorted(slow_regions(picture, colour)), (kind, number, colour)
            found += len(things)
            if things:
                other = STREETS.draw(STREETS.scene(79, number)).picture[: picture.shape[0], : picture.shape[1]]
                shown = slow_sight(other)[0].ravel()
                likely = term_table()[6].astype(np.float64)[shown]
                most = max(likely[places].mean() * weight for places, weight in things)
                edit = Edit("colour", colour if colour != "yellow" else "red", "yellow")
                score = recolouring(other, [edit], lambda _, seen=seen, colour=colour: find_colour(seen, colour))
                assert score["recoloured"] == round(most, 6)
    assert found > 20


@pytest.mark.parametrize("shape", [(384, 256), (256, 384), (129, 128), (300, 2), (2, 300)])
def test_large_pictures_are_looked_at_by_area(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(4)
    large = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
    scale = 128 / max(shape)
    size = (max(1, round(shape[1] * scale)), max(1, round(shape[0] * scale)))
    small = cv2.resize(large, size, interpolation=cv2.INTER_AREA)
    assert np.array_equal(source_colours(large).numbers, slow_sight(small)[0])
