"""Boxes follow their pixels: drawn into a mask and cropped with it, or moved by their numbers, they are the same."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterfactory.engine.sources.boxes import Box, Keypoint, fit_boxes
from counterfactory.engine.sources.pixels import fit_mask

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


def test_boxes_are_scaled_clipped_and_keep_their_order() -> None:
    boxes = [Box(8, 2, 16, 10, "a"), Box(0, 0, 40, 20, "all"), Box(0, 0, 5, 5, "gone"), Box(12, 0, 14, 2, "b")]
    kept, dropped = fit_boxes(boxes, 20, 40, (40, 40))
    assert kept == (Box(0, 4, 12, 20, "a"), Box(0, 0, 40, 40, "all"), Box(4, 0, 8, 4, "b"))
    assert dropped == (boxes[2],)


def test_keypoints_move_with_their_box_and_are_unlabelled_outside() -> None:
    points = (Keypoint(12, 5, 2), Keypoint(9, 5, 2), Keypoint(29.5, 19.5, 1), Keypoint(30, 5, 1), Keypoint(12, 20, 2))
    ((box,), _) = fit_boxes([Box(5, 0, 40, 20, "person", points)], 20, 40, (40, 40))
    outside = Keypoint(0, 0, 0)
    assert box.keypoints == (Keypoint(4, 10, 2), outside, Keypoint(39, 39, 1), outside, outside)
