"""Outlines and run lengths cover what COCO's own tools say; drawn masks keep small things on top."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.sources.shapes import DrawnMask, Shape, cover, decode_runs, outline, pack_runs

# pycocotools 2.0.11, mask.encode of np.add.outer(np.arange(9) ** 2, 3 * np.arange(11) ** 2) % 7 < 3.
COUNTS = "0210011N0033OMM10O0000010O00133MM011N0011N0033OMM10O00"


def test_coco_s_compressed_runs() -> None:
    mask = np.add.outer(np.arange(9) ** 2, 3 * np.arange(11) ** 2) % 7 < 3
    assert (cover(Shape(1, runs=decode_runs(COUNTS)), 9, 11) == mask).all()
    long = np.zeros((700, 900), bool)
    long[:, 3:800] = True
    assert (cover(Shape(1, runs=decode_runs("dQ2\\jPa0`[T2")), 700, 900) == long).all()


@pytest.mark.parametrize("text", ["\x2f", "P", "ooooooooooooo", "0N", "é"])
def test_text_that_is_no_run_lengths(text: str) -> None:
    with pytest.raises(ValueError, match="run length"):
        decode_runs(text)


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
    for shapes in ((Shape(1, (big,)), Shape(2, (small,))), (Shape(2, (small,)), Shape(1, (big,)))):
        assert (DrawnMask(shapes, 9).draw(10, 10) == wanted).all()
    two = DrawnMask((Shape(3, (outline([0, 0, 1, 0, 1, 1, 0, 1]), small)),), 0).draw(10, 10)
    assert (two[0, 0], two[3, 3], two.sum()) == (3, 3, 3 * 5)


def test_shares_of_a_picture_are_scaled_to_it() -> None:
    half = Shape(300, (outline([0, 0, 0.5, 0, 0.5, 1, 0, 1]),))
    made = DrawnMask((half,), 0, relative=True).draw(4, 10)
    assert (made.tolist(), made.dtype) == ([[300] * 5 + [0] * 5] * 4, np.uint16)
    assert DrawnMask((half,), 0).digest() != DrawnMask((half,), 0, relative=True).digest()


def test_runs_for_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="its run lengths cover 9 pixels, the picture has 12"):
        DrawnMask((Shape(1, runs=pack_runs([4, 5])),), 0).draw(3, 4)
    with pytest.raises(ValueError, match="negative or too large"):
        pack_runs([-1])
