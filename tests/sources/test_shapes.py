"""Outlines and run lengths cover what COCO's tools say; small things lie on top in masks; boxes follow their pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterfactory.engine.sources import shapes
from counterfactory.engine.sources.pixels import fit_mask
from counterfactory.engine.sources.shapes import Box, DrawnMask, Keypoint, Shape, cover, fit_boxes, outline

# pycocotools 2.0.11, mask.encode of np.add.outer(np.arange(9) ** 2, 3 * np.arange(11) ** 2) % 7 < 3.
COUNTS = "0210011N0033OMM10O0000010O00133MM011N0011N0033OMM10O00"


def test_coco_s_compressed_runs() -> None:
    mask = np.add.outer(np.arange(9) ** 2, 3 * np.arange(11) ** 2) % 7 < 3
    assert (cover(Shape(1, runs=shapes.decode_runs(COUNTS)), 9, 11) == mask).all()
    long = np.zeros((700, 900), bool)
    long[:, 3:800] = True
    assert (cover(Shape(1, runs=shapes.decode_runs("dQ2\\jPa0`[T2")), 700, 900) == long).all()


@pytest.mark.parametrize("text", ["\x2f", "P", "ooooooooooooo", "0N", "é"])
def test_text_that_is_no_run_lengths(text: str) -> None:
    with pytest.raises(ValueError, match="run length"):
        shapes.decode_runs(text)


@given(st.lists(st.tuples(st.floats(-5, 45), st.floats(-5, 35)), min_size=3, max_size=8))
@settings(max_examples=50, deadline=None)
def test_an_outline_holds_the_pixels_whose_centres_it_holds(points: list[tuple[float, float]]) -> None:
    """The oracle asks for each centre alone, by the angle that the outline turns around it."""
    height, width = 30, 40
    made = cover(Shape(1, (outline([n for point in points for n in point]),)), height, width)
    for y, x in np.random.default_rng(0).integers(0, (height, width), (15, 2)).tolist():
        crossings = 0
        for (x0, y0), (x1, y1) in zip(points, [*points[1:], points[0]], strict=True):
            if (y0 <= y + 0.5) != (y1 <= y + 0.5):
                crossings += x0 + (y + 0.5 - y0) / (y1 - y0) * (x1 - x0) <= x + 0.5
        assert made[y, x] == (crossings % 2 == 1)


def test_smaller_things_lie_on_larger_ones_and_several_outlines_are_one_thing() -> None:
    big, small = outline([0, 0, 8, 0, 8, 8, 0, 8]), outline([2, 2, 4, 2, 4, 4, 2, 4])
    wanted = np.full((10, 10), 9)
    wanted[:8, :8] = 1
    wanted[2:4, 2:4] = 2
    for order in ((Shape(1, (big,)), Shape(2, (small,))), (Shape(2, (small,)), Shape(1, (big,)))):
        assert (DrawnMask(order, 9).draw(10, 10) == wanted).all()
    two = DrawnMask((Shape(3, (outline([0, 0, 1, 0, 1, 1, 0, 1]), small)),), 0).draw(10, 10)
    assert (two[0, 0], two[3, 3], two.sum()) == (3, 3, 3 * 5)


def test_shares_of_a_picture_are_scaled_to_it() -> None:
    half = Shape(300, (outline([0, 0, 0.5, 0, 0.5, 1, 0, 1]),))
    made = DrawnMask((half,), 0, relative=True).draw(4, 10)
    assert (made.tolist(), made.dtype) == ([[300] * 5 + [0] * 5] * 4, np.uint16)
    assert DrawnMask((half,), 0).digest() != DrawnMask((half,), 0, relative=True).digest()


def test_runs_for_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="its run lengths cover 9 pixels, the picture has 12"):
        DrawnMask((Shape(1, runs=shapes.pack_runs([4, 5])),), 0).draw(3, 4)
    with pytest.raises(ValueError, match="negative or too large"):
        shapes.pack_runs([-1])


LENGTHS = st.integers(8, 60)


@given(LENGTHS, LENGTHS, LENGTHS, LENGTHS, st.data())
@example(24, 32, 24, 24, None)
@settings(max_examples=150, deadline=None)
def test_a_box_lies_where_its_pixels_lie(height: int, width: int, h: int, w: int, data: st.DataObject | None) -> None:
    """The oracle draws the box, and lets the mask's own crop say which pixels are left of it."""
    x0, y0, x1, y1 = 2, 3, 30, 20
    if data is not None:
        x0, y0 = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
        x1, y1 = data.draw(st.integers(x0 + 1, width)), data.draw(st.integers(y0 + 1, height))
    drawn = np.zeros((height, width), np.uint8)
    drawn[y0:y1, x0:x1] = 1
    kept, dropped = fit_boxes([Box(x0, y0, x1, y1, "car")], height, width, (h, w))
    assert len(kept) + len(dropped) == 1
    rows, columns = np.nonzero(fit_mask(drawn, (h, w)))
    for box in kept:
        # A pixel belongs to a box when its centre does.
        centres = np.arange(max(h, w)) + 0.5
        inside_x, inside_y = (centres > box.x0) & (centres < box.x1), (centres > box.y0) & (centres < box.y1)
        wanted_x, wanted_y = np.flatnonzero(inside_x[:w]), np.flatnonzero(inside_y[:h])
        if not rows.size or not min(wanted_x.size, wanted_y.size):  # so thin that no pixel's centre need be in it
            assert min(wanted_x.size, wanted_y.size) <= 1
            continue
        for found, wanted in ((columns, wanted_x), (rows, wanted_y)):
            assert abs(found.min() - wanted[0]) <= 1
            assert abs(found.max() - wanted[-1]) <= 1


@given(st.integers(0, 40))
def test_a_box_goes_when_too_little_of_it_is_seen(x0: int) -> None:
    """40 x 20 cropped to its middle 20 x 20, columns 10 to 30: the share by counting pixels, 0.3 as documented."""
    column = np.arange(x0, x0 + 10)
    seen = float(((column >= 10) & (column < 30)).mean())
    kept, dropped = fit_boxes([Box(x0, 0, x0 + 10, 20, "car")], 20, 40, (20, 20))
    assert bool(kept) == (seen >= 0.3)
    assert dropped == (() if kept else (Box(x0, 0, x0 + 10, 20, "car"),))


def test_boxes_and_their_keypoints_are_scaled_and_clipped_and_keep_their_order() -> None:
    boxes = [Box(8, 2, 16, 10, "a"), Box(0, 0, 40, 20, "all"), Box(0, 0, 5, 5, "gone"), Box(12, 0, 14, 2, "b")]
    kept, dropped = fit_boxes(boxes, 20, 40, (40, 40))
    assert kept == (Box(0, 4, 12, 20, "a"), Box(0, 0, 40, 40, "all"), Box(4, 0, 8, 4, "b"))
    assert dropped == (boxes[2],)
    points = (Keypoint(12, 5, 2), Keypoint(9, 5, 2), Keypoint(29.5, 19.5, 1), Keypoint(30, 5, 1), Keypoint(12, 20, 2))
    ((box,), _) = fit_boxes([Box(5, 0, 40, 20, "person", points)], 20, 40, (40, 40))
    outside = Keypoint(0, 0, 0)
    assert box.keypoints == (Keypoint(4, 10, 2), outside, Keypoint(39, 39, 1), outside, outside)
