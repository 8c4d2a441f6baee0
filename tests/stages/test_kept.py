"""Colours that a caption names and no edit does: drawn scenes whose colours are known, under any light; and the street
world, where the truth is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.world import COLOURS, TIMES, WEATHERS, Scene
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.colours import source_colours
from counterfactory.engine.stages.check.kept import find_things, kept_score

Pixels = NDArray[np.uint8]
RGB = {
    "black": (25, 25, 30),
    "white": (240, 240, 235),
    "red": (190, 30, 40),
    "green": (40, 130, 60),
    "blue": (50, 80, 190),
    "yellow": (235, 205, 60),
    "orange": (245, 130, 20),
    "purple": (125, 60, 150),
}
NIGHT, BLUE = Edit("time", "by day", "at night"), Edit("colour", "a red bus", "a blue bus")
LEAST = load_profile("pocket").check.least["kept"]


def scene(*things: str, light: Sequence[float] = (1, 1, 1), haze: float = 0.0, side: int = 128) -> Pixels:
    """Grey ground under a pale sky with a square of each colour, the first of them the largest."""
    image = np.full((side, side, 3), (128, 126, 122), np.float64)
    image[: side // 3] = (196, 204, 214)
    for number, thing in enumerate(things):
        left = side * (1 + 4 * number) // 12
        end = (left + side // (4 + number), side * 3 // 4)
        cv2.rectangle(image, (left, side // 2), end, RGB[thing], -1)
    return (image * light * (1 - haze) + 190 * haze).clip(0, 255).round().astype(np.uint8)


def kept(source: Pixels, picture: Pixels, caption: str, *edits: Edit, mask: NDArray[np.uint8] | None = None) -> object:
    things = find_things(source_colours(source), mask)
    return kept_score(picture, caption, edits, lambda: things).get("kept")


@given(
    colours=st.permutations([name for name in RGB if name != "orange"]),
    light=st.tuples(*[st.floats(0.6, 1.0)] * 3),
    haze=st.floats(0, 0.3),
)
@settings(max_examples=40, deadline=None, derandomize=True)  # what fails is known, and stands below
def test_a_colour_is_kept_in_any_light_and_another_is_not(
    colours: list[str], light: tuple[float, float, float], haze: float
) -> None:
    first, second, other = colours[:3]
    assume({second, other} != {"blue", "purple"})  # beside red, one is taken for the other in a bluer light
    source, caption = scene(first, second), f"a {first} bus and a {second} car"
    same, turned = (scene(first, thing, light=light, haze=haze) for thing in (second, other))
    high, low = kept(source, same, caption, NIGHT), kept(source, turned, caption, NIGHT)
    assert isinstance(high, float)
    assert isinstance(low, float)
    assert low < high, "in its own light, however odd"
    if min(light) > 0.85 and haze < 0.1:
        assert low < LEAST < high


@pytest.mark.xfail(strict=True, reason="a tenth less light moves this green to a colour that is green by 0.59 alone")
@pytest.mark.parametrize("things", [("green", "white"), ("yellow", "green")])
def test_green_is_kept_in_a_little_less_light(things: tuple[str, str]) -> None:
    source, caption = scene(*things), f"a {things[0]} bus and a {things[1]} car"
    score = kept(source, scene(*things, light=(0.895, 0.895, 1.0)), caption, NIGHT)
    assert isinstance(score, float)
    assert score > LEAST


def test_what_no_edit_names_is_held_to_its_colour() -> None:
    for before, after, caption, edits, lost in (
        (("red", "green"), ("blue", "green"), "a red bus and a green car", (BLUE,), False),
        (("red", "green"), ("blue", "blue"), "a red bus and a green car", (BLUE,), True),
        (("red", "green"), ("red", "blue"), "a red bus and a green car", (), True),
        (("red", "red"), ("blue", "red"), "a red bus and a red car", (BLUE,), False),
        (("red", "red"), ("red", "blue"), "a red car and a red bus", (BLUE,), False),
        (("red", "red"), ("blue", "blue"), "a red bus and a red car", (BLUE,), True),
        (("red", "blue"), ("blue", "red"), "a red bus and a blue car", (BLUE,), True),
        (("black", "white"), ("black", "yellow"), "a black bus and a white car", (NIGHT,), True),
        (("black", "white"), ("purple", "white"), "a black bus and a white car", (NIGHT,), True),
        # By lamplight orange looks yellow, and yellow does not look orange.
        (("red", "orange"), ("red", "yellow"), "a red bus and an orange car", (NIGHT,), False),
        (("red", "orange"), ("red", "yellow"), "a red bus and an orange car", (), True),
        (("red", "yellow"), ("red", "orange"), "a red bus and a yellow car", (NIGHT,), True),
    ):
        found = kept(scene(*before), scene(*after), caption, *edits)
        assert isinstance(found, float)
        assert (found < LEAST) is lost


def test_nothing_is_said_where_no_colour_is_to_be_kept() -> None:
    sketch = Edit("domain", "a photo", "a sketch")
    for caption, edits in (("a bus and a car on a road", ()), ("a red bus", (BLUE,)), ("a red bus", (sketch,))):
        assert kept(scene("red", "blue"), scene("green", "green"), caption, *edits) is None


def test_a_thing_at_the_border_counts_where_there_is_no_other_and_not_where_a_mask_says_it_is_no_thing() -> None:
    source, picture = scene("red"), scene("red")
    source[:20], picture[:20] = RGB["blue"], RGB["yellow"]
    assert kept(source, picture, "a red bus under a blue roof") == pytest.approx(0, abs=0.05)
    mask = np.zeros((128, 128), np.uint8)
    assert kept(source, picture, "a red bus under a blue roof", mask=mask) is None, "one part, at the border"
    cv2.rectangle(mask, (10, 60), (45, 100), 255, -1)
    assert kept(source, picture, "a red bus under a blue roof", mask=mask) == pytest.approx(1, abs=0.01)
    for coloured in ([mask, mask * 0, mask // 2], [mask * 0, mask * 0, mask]):
        assert kept(source, picture, "a red bus under a blue roof", mask=np.dstack(coloured)) == pytest.approx(
            1, abs=0.01
        )


def test_a_place_is_of_one_thing() -> None:
    things = find_things(source_colours(scene("red", "blue")), None)
    places = np.concatenate([thing.places for thing in things])
    assert len(places) == len(set(places.tolist())) <= 128 * 128


def test_what_looks_otherwise_than_its_name_may_look_as_its_name_says() -> None:
    """An orange thing that its source's light turned yellow, and its picture's light turns back."""
    source, picture = scene("red", "orange"), scene("red", "orange")
    yellowish = np.where((source == RGB["orange"]).all(axis=2, keepdims=True), np.uint8([245, 170, 30]), source)
    things = find_things(source_colours(yellowish), None)
    assert kept(yellowish, picture, "an orange car") == pytest.approx(1, abs=0.05), [t.terms for t in things]


def described(scene: Scene) -> str:
    return EMBEDDED.describe(scene, np.random.default_rng(0))


def test_streets_keep_their_colours_in_weather_and_at_night_and_one_that_turns_is_seen() -> None:
    same, turned = [], []
    for number in range(60):
        scene = EMBEDDED.scene(79, number)
        if scene.weather == "foggy" or scene.time == "night":
            continue
        rng = np.random.default_rng(number)
        after = replace(scene, weather=WEATHERS[rng.integers(5)], time=TIMES[rng.integers(3)])
        *rest, last = scene.vehicles
        colour = next(c for c in COLOURS if c not in {v.colour for v in scene.vehicles})
        drawn, wrong = (
            EMBEDDED.draw(s) for s in (scene, replace(after, vehicles=(*rest, replace(last, colour=colour))))
        )
        for found, picture in ((same, EMBEDDED.draw(after)), (turned, wrong)):
            found.append(kept(drawn.picture, picture.picture, described(scene), NIGHT, mask=drawn.mask))
    assert np.mean([value is None or value >= LEAST for value in same]) > 0.8
    assert np.mean([value is not None and value < LEAST for value in turned]) > 0.8
