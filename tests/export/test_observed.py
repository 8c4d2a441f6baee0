"""The report's figures of painted pictures, with a referee that knows the truth: all there, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rendered_truth import TrueReferee, true_finding

from counterfactory.engine.pocket.worlds import STREETS, Drawing, World
from counterfactory.export.pocket.changes import Change
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.observed import (
    Observed,
    as_rendered,
    edit_shares,
    edits_seen,
    layout_confusion,
    layout_kept,
    painted_figures,
)
from counterfactory.export.pocket.pairs import draw_pairs, observe_pairs
from counterfactory.export.pocket.sheet import draw_blocks

STREAM = 79


def pairs_of(world: World, paint: str, count: int = 8) -> tuple[list[Observed], TrueReferee]:
    """Pairs whose pictures are the truth, or the source unchanged."""
    facts = COUNTERFACTS[world.name]
    pairs = draw_pairs(world, facts, STREAM, count, 3)
    known: list[tuple[Any, Drawing]] = [(pair.scene, pair.drawing) for pair in pairs]
    known += [(facts.apply_all(pair.scene, pair.changes), pair.target) for pair in pairs]
    referee: Any = TrueReferee(world, known)
    pictures = [pair.target.picture if paint == "truth" else pair.drawing.picture for pair in pairs]
    return observe_pairs(pairs, pictures, referee), referee


def test_a_perfect_painter_reaches_every_figure_and_an_idle_one_none() -> None:
    observed, referee = pairs_of(STREETS, "truth")
    figures = painted_figures(observed, referee)  # type: ignore[arg-type]
    shares = {name: figures[name] for name in figures if name.endswith("_success")}
    assert set(shares.values()) == {1.0}
    assert figures["referee_truth"].items() >= shares.items()
    assert set(figures["referee_source"].values()) == {0.0}
    assert figures["layout_miou"] > 0.98
    assert figures["variants_measured"] == len(observed)
    idle, _ = pairs_of(STREETS, "source")
    assert set(edit_shares(idle).values()) == {0.0}
    assert layout_kept(idle)["layout_miou"] == 1


def street(**seen: Any) -> Observed:
    """A street with two vehicles whose picture the referee sees as another one."""
    scene = next(s for s in (STREETS.scene(STREAM, i) for i in range(50)) if len(s.vehicles) == 2)
    drawing = STREETS.draw(scene)
    truth = true_finding(STREETS, scene, drawing)
    return Observed("a", scene, drawing, seen.pop("edits"), drawing.picture, replace(truth, **seen), None)


def painted(colours: Sequence[str]) -> NDArray[np.uint8]:
    """A map of colours in which the vehicles have these."""
    one = street(edits=())
    values = np.zeros((128, 128), np.uint8)
    for number, colour in enumerate(colours, 1):
        values[one.drawing.objects == number] = STREETS.object_words["colour"].index(colour)
    return values


def test_shares_are_of_the_changes_that_have_a_judge() -> None:
    scene = {"weather": "foggy", "time": "night"}
    objects = {"colour": painted(["green", "purple"]), "kind": np.zeros((128, 128), np.uint8)}
    asked = ((Change("weather", "foggy"),), (Change("time", "day"),), (Change("material", "glass"),), ())
    one = street(edits=asked, scene=scene, objects=objects)
    two = street(
        edits=((Change("colour", "green", 0), Change("colour", "red", 1)), (Change("weather", "foggy"),)),
        scene=scene,
        objects=objects,
    )
    assert edits_seen([one, two]) == {"weather": [True, True], "time": [False], "colour": [True, False]}
    assert edit_shares([one, two]) == {
        "edit_success": pytest.approx(2 / 3),
        "weather_success": 1.0,
        "time_success": 0.0,
        "colour_success": 0.5,
        "second_colour_success": 0.0,
    }
    assert [one.edit_seen(i) for i in range(4)] == [True, False, None, None]
    assert [two.edit_seen(i) for i in range(2)] == [False, True]
    assert edit_shares([]) == {}


def test_without_a_known_truth_a_picture_is_none_of_the_truths() -> None:
    one = street(edits=((Change("weather", "foggy"),),))
    referee: Any = TrueReferee(STREETS, [(one.scene, one.drawing)])
    assert as_rendered([one], referee) == []
    figures = painted_figures([one], referee)
    assert figures["referee_truth"] == {}
    assert figures["edits_measured"] == {"weather": 1}


def test_layout_is_of_the_source_s_mask_and_the_referee_s() -> None:
    stays = street(edits=((Change("weather", "foggy"),),), mask=np.zeros((128, 128), np.uint8))
    counts = layout_confusion([stays])
    assert counts.sum() == 128 * 128
    assert counts[:, 0].sum() == 128 * 128
    assert layout_kept([stays])["layout_iou_by_class"]["sky"] == pytest.approx((stays.drawing.mask == 0).mean())
    assert layout_kept([]) == {}


def test_texts_too_long_for_a_tile_go_on_below_and_rows_are_filled_with_white(tmp_path: Any) -> None:
    import cv2

    grey = np.full((64, 64, 3), 100, np.uint8)
    draw_blocks(
        [[(grey, "short"), (grey, "word " * 12 + "\nlast")], [(grey, "")], [(grey, "")]], 2, tmp_path / "s.webp"
    )
    sheet = cv2.imread(str(tmp_path / "s.webp"))
    assert sheet is not None
    strip = 3 * 16 + 3  # two lines of words, and the last
    assert sheet.shape == (2 * (strip + 128), 4 * 128, 3)
    assert (sheet[: strip - 16, 128:256] < 128).any()
    assert (sheet[strip - 16 : strip, 128:256] < 128).any()
    assert (sheet[16:strip, :128] > 200).all(), "a short text ends where it ends"
    assert (sheet[:, 3 * 128 + 8 :] > 245).all(), "a block with fewer tiles"
    assert (sheet[strip + 128 :, 128 + 8 :] > 245).all(), "a row with fewer blocks"
