"""What is found in a model's input lies in the picture where it was found."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.asking.placement import Placement
from counterfactory.engine.asking.preparation import Preparation
from counterfactory.engine.asking.published_inputs import read_preparation

SIDES = st.integers(60, 200)
WORDS = st.sampled_from(
    [
        *("", "resize=96", "resize=90x150", "resize=80 longest=110", "resize=64x96 keep=fit multiple=1 rounding=down"),
        *("resize=100 crop=90", "resize=100 crop=91x95 offset=floor", "crop=70", "crop=220x250", "resize=60 crop=96"),
        *("letterbox=128", "letterbox=96x160", "resize=96x96 keep=fit pad=96x96 fill=9", "pad=200 fill=1,2,3"),
        *("resize=80x120 keep=cover crop=80x120", "resize=96x96 keep=nearest multiple=14 rounding=nearest"),
        *("middle=0.875 resize=112x112", "middle=1 resize=64x64 antialias=no", "resize=70 multiple=16 rounding=down"),
        *("letterbox=128 scale=255 channels=bgr", "resize=100 crop=96 interpolation=nearest"),
    ]
)
# Colours of four boxes, far from each other in every channel's sum with the ground.
COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255))
GROUND = 40


def marked(height: int, width: int, words: str) -> tuple[NDArray[np.uint8], list[tuple[int, int, int, int]]]:
    """A picture with a box in each corner of what a crop may leave, and the boxes."""
    picture = np.full((height, width, 3), GROUND, np.uint8)
    away = 0.42 if "crop" in words or "middle" in words else 0.06
    side = max(8, round(0.1 * min(height, width)))
    y0, x0 = (
        round(half - away * min(height, width) * 0.5) if away > 0.4 else round(away * 2 * half)
        for half in (height / 2, width / 2)
    )
    boxes = [
        (x0, y0, x0 + side, y0 + side),
        (width - x0 - side, y0, width - x0, y0 + side),
        (x0, height - y0 - side, x0 + side, height - y0),
        (width - x0 - side, height - y0 - side, width - x0, height - y0),
    ]
    for (left, top, right, bottom), colour in zip(boxes, COLOURS, strict=True):
        picture[top:bottom, left:right] = colour
    return picture, boxes


def found(pixels: NDArray[np.float32], colour: tuple[int, int, int]) -> list[int] | None:
    """The box of what is nearer to a colour than to the ground; None where there is nothing."""
    far = np.abs(pixels - np.array(colour, np.float32)).max(axis=2)
    near = far < max(abs(GROUND - part) for part in colour) / 2
    if not near.any():
        return None
    edges = [np.flatnonzero(near.any(axis=axis))[[0, -1]].tolist() for axis in (0, 1)]
    return [edges[0][0], edges[1][0], edges[0][1] + 1, edges[1][1] + 1]


@settings(max_examples=150, deadline=None)
@given(height=SIDES, width=SIDES, words=WORDS)
def test_boxes_that_are_found_in_the_input_are_those_of_the_picture(height: int, width: int, words: str) -> None:
    preparation = read_preparation(words) if words else Preparation()
    if preparation.pad is not None and preparation.resize is None:
        height, width = min(height, 199), min(width, 199)
    picture, boxes = marked(height, width, words)
    pixels = preparation.apply(picture).astype(np.float32)
    if preparation.channels == "bgr":
        pixels = pixels[:, :, ::-1]
    pixels = pixels * (preparation.scale or 1)
    place = preparation.place((height, width))
    assert place.input == pixels.shape[:2]
    inside = 0
    for box, colour in zip(boxes, COLOURS, strict=True):
        seen = found(pixels, colour)
        if seen is None or min(seen[0], seen[1]) < 1 or seen[2] > place.input[1] - 1 or seen[3] > place.input[0] - 1:
            continue  # cut off
        inside += 1
        (back,) = place.corners(np.array([seen]))
        pixel = max(1.0, place.picture[0] / place.scaled[0], place.picture[1] / place.scaled[1])
        assert np.abs(back - box).max() <= pixel, (box, back)
    assert inside or "crop" in words or "middle" in words


@settings(max_examples=100, deadline=None)
@given(height=SIDES, width=SIDES, words=WORDS, coarse=st.sampled_from([1, 4]))
def test_a_map_of_the_input_comes_back_over_what_was_shown(height: int, width: int, words: str, coarse: int) -> None:
    """Of the rows and columns of the picture, drawn in the input by calculation of its own."""
    preparation = read_preparation(words) if words else Preparation()
    place = preparation.place((height, width))
    down, across = place.scaled[0] / height, place.scaled[1] / width
    rows, columns = (np.arange(0, side, coarse) + coarse / 2 for side in place.input)
    y, x = (rows - place.top) / down, (columns - place.left) / across
    upper, left = (y < height / 2)[:, None], (x < width / 2)[None]
    outside = ((y < 0) | (y > height))[:, None] | ((x < 0) | (x > width))[None]
    drawn = np.where(outside, 9, np.where(upper, 0, 2) + np.where(left, 0, 1)).astype(np.uint8)
    back, shown = place.numbers(drawn)
    ys, xs = np.arange(height) + 0.5, np.arange(width) + 0.5
    in_rows = (ys * down + place.top > 0) & (ys * down + place.top < place.input[0])
    in_columns = (xs * across + place.left > 0) & (xs * across + place.left < place.input[1])
    right_shown = in_rows[:, None] & in_columns[None]
    # At an edge that halves a pixel either is right.
    assert (shown != right_shown).sum() <= 2 * (height + width)
    assert abs(place.seen - right_shown.mean()) < 0.05
    # A pixel of the map blurs an edge of the picture by itself.
    blur_y, blur_x = 1 + coarse / down, 1 + coarse / across
    clear = (np.abs(ys - height / 2) > blur_y)[:, None] & (np.abs(xs - width / 2) > blur_x)[None]
    clear &= ((ys > blur_y) & (ys < height - blur_y))[:, None] & ((xs > blur_x) & (xs < width - blur_x))[None]
    right = np.where((ys < height / 2)[:, None], 0, 2) + np.where((xs < width / 2)[None], 0, 1)
    assert (back == right)[shown & clear].all()
    scores, shown_too = place.scores(np.stack([drawn == number for number in range(10)]).astype(np.float32))
    assert np.array_equal(shown, shown_too)
    assert (scores.argmax(axis=0) == right)[shown & clear].all()
    assert not scores[:, ~shown].any()


def test_corners_of_a_whole_picture_are_not_cut_and_those_of_a_part_are() -> None:
    outside = np.array([[-5.0, -5.0, 30.0, 30.0]])
    assert Placement.whole((20, 20)).corners(outside).tolist() == outside.tolist()
    letterboxed = read_preparation("letterbox=40").place((20, 40))
    assert letterboxed.corners([[0, 0, 40, 40]]).tolist() == [[0, 0, 40, 20]]
