"""Changes of scenes, and the figures of painted pictures: true to captions, outlines, and a referee that knows the
truth; sharpness and KID by plain loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from rendered_truth import TrueReferee, true_finding

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.export.pocket import likeness
from counterfactory.export.pocket.counterfacts import GROUPS, Change, apply_changes, check_caption, is_seen, read_edit
from counterfactory.export.pocket.likeness import kid, likeness_figures, polynomial_mmd, sharpness
from counterfactory.export.pocket.observed import (
    Observed,
    Pair,
    as_rendered,
    draw_pairs,
    edit_shares,
    edits_seen,
    layout_kept,
    observe_pairs,
    painted_figures,
)
from counterfactory.export.pocket.sheet import draw_blocks

STREAM = 77  # of no training and no judge
Features = NDArray[np.float64]


@pytest.fixture(scope="module")
def drawn() -> list[Pair]:
    return draw_pairs(STREAM, 12, 4)


def test_every_group_comes_about_and_two_changes_in_turn(drawn: list[Pair]) -> None:
    names = Counter("second colour" if c.name == "colour" and c.number else c.name for p in drawn for c in p.changes)
    assert set(names) == set(GROUPS)
    assert names["weather"] < 2 * len(drawn) / len(names)  # groups share
    assert [len(pair.changes) for pair in drawn] == [1, 2, 1, 2] * 12
    asked = [change for pair in drawn if pair.source == "0003" for change in pair.changes]
    assert len(set(asked)) == len(asked)
    again = draw_pairs(STREAM, 2, 4)
    assert [(p.source, p.changes, p.caption) for p in again] == [(p.source, p.changes, p.caption) for p in drawn[:8]]


def test_a_drawn_change_is_in_the_caption_and_in_the_picture_and_nowhere_else(drawn: list[Pair]) -> None:
    judged = 0
    for pair in drawn:
        target = apply_changes(pair.scene, pair.changes)
        assert np.array_equal(EMBEDDED.draw(target).picture, pair.target.picture)
        assert all(right for _, right in check_caption(pair.caption, target)), pair.caption
        for i in range(len(pair.changes)):
            without = apply_changes(pair.scene, [*pair.changes[:i], *pair.changes[i + 1 :]])
            assert not all(right for _, right in check_caption(pair.caption, without)), (pair.changes, pair.caption)
        assert (pair.target.mask != pair.drawing.mask).mean() < 0.02  # snow lies on roofs
        for change in pair.changes:
            after = is_seen(change, true_finding(target, pair.target), pair.target.objects)
            before = is_seen(change, true_finding(pair.scene, pair.drawing), pair.target.objects)
            assert (after, before) == ((None, None) if change.name == "material" else (True, False)), change
            judged += after is not None
    assert judged > 30


def test_edits_of_the_streets_are_read_as_changes() -> None:
    scene = next(s for s in (EMBEDDED.scene(STREAM, i) for i in range(50)) if len(s.vehicles) > 1)
    far = scene.vehicles[1]
    for edit, changes in (
        (Edit("weather", scene.weather, "foggy"), (Change("weather", "foggy"),)),
        (Edit("time", "at night", "at sunset"), (Change("time", "sunset"),)),
        (Edit("background", "brick", "glass"), (Change("material", "glass"),)),
        (Edit("colour", f"{far.colour} {far.kind}", f"green {far.kind}"), (Change("colour", "green", 1),)),
        (Edit("weather", "clear", "stormy"), ()),
        (Edit("colour", "pink car", "green car"), ()),
        (Edit("object", "tree", "lamp"), ()),
    ):
        assert read_edit(scene, edit) == changes


def test_a_fact_that_a_caption_does_not_state_is_wrong() -> None:
    scene = EMBEDDED.scene(STREAM, 2)
    scene = replace(scene, weather="foggy", time="night", vehicles=scene.vehicles[:1])
    text = f"a {scene.vehicles[0].colour} {scene.vehicles[0].kind} on a foggy street at night."
    right = dict(check_caption(text, scene))
    assert (right["weather"], right["kind"], right["time"], right["people"]) == (True, True, True, False)
    assert dict(check_caption(text, replace(scene, weather="clear")))["weather"] is False
    two = replace(scene, vehicles=scene.vehicles * 2)
    assert [answer for name, answer in check_caption(text, two) if name == "kind"] == [True, False]


def test_a_perfect_painter_reaches_every_figure_and_an_idle_one_none(drawn: list[Pair]) -> None:
    pairs = drawn[:32]
    known = [(pair.scene, pair.drawing) for pair in pairs]
    known += [(apply_changes(pair.scene, pair.changes), pair.target) for pair in pairs]
    referee: Any = TrueReferee(known)
    figures = painted_figures(observe_pairs(pairs, [pair.target.picture for pair in pairs], referee), referee)
    shares = {name: figures[name] for name in figures if name.endswith("_success")}
    assert len(shares) == 5
    assert set(shares.values()) == {1.0}
    assert figures["referee_truth"].items() >= shares.items()
    assert set(figures["referee_source"].values()) == {0.0}
    assert figures["layout_miou"] > 0.98
    assert figures["variants_measured"] == len(pairs)
    idle = observe_pairs(pairs, [pair.drawing.picture for pair in pairs], referee)
    assert set(edit_shares(idle).values()) == {0.0}
    assert layout_kept(idle)["layout_miou"] == 1


def street(**seen: Any) -> Observed:
    """A street with two vehicles whose picture the referee sees as another one."""
    scene = next(s for s in (EMBEDDED.scene(STREAM, i) for i in range(50)) if len(s.vehicles) == 2)
    drawing = EMBEDDED.draw(scene)
    edits = seen.pop("edits")
    return Observed("a", scene, drawing, edits, drawing.picture, replace(true_finding(scene, drawing), **seen), None)


def test_shares_are_of_the_changes_that_have_a_judge() -> None:
    scene, colours = {"weather": "foggy", "time": "night"}, np.zeros((128, 128), np.uint8)
    for number, colour in enumerate(("green", "purple"), 1):
        colours[street(edits=()).drawing.objects == number] = EMBEDDED.object_words["colour"].index(colour)
    objects = {"colour": colours, "kind": np.zeros_like(colours)}
    asked = ((Change("weather", "foggy"),), (Change("time", "day"),), (Change("material", "glass"),), ())
    one = street(edits=asked, scene=scene, objects=objects)
    two = street(
        edits=((Change("colour", "green", 0), Change("colour", "red", 1)), (Change("weather", "foggy"),)),
        scene=scene,
        objects=objects,
    )
    assert edits_seen([one, two]) == {
        "weather": [True, True],
        "time": [False],
        "colour": [True],
        "second colour": [False],
    }
    assert edit_shares([one, two]) == {
        "edit_success": pytest.approx(2 / 3),
        "weather_success": 1.0,
        "time_success": 0.0,
        "colour_success": 0.5,
        "second_colour_success": 0.0,
    }
    assert [one.edit_seen(i) for i in range(4)] == [True, False, None, None]
    assert [two.edit_seen(i) for i in range(2)] == [False, True]
    assert is_seen(Change("colour", "red", 0), one.finding, np.zeros((128, 128), np.uint8)) is None, "shows no pixel"
    assert edit_shares([]) == layout_kept([]) == {}


def test_without_a_known_truth_a_picture_is_none_of_the_truths() -> None:
    one = street(edits=((Change("weather", "foggy"),),), mask=np.zeros((128, 128), np.uint8))
    referee: Any = TrueReferee([(one.scene, one.drawing)])
    assert as_rendered([one], referee) == []
    figures = painted_figures([one], referee)
    assert figures["referee_truth"] == {}
    assert figures["edits_measured"] == {"weather": 1}
    assert figures["layout_iou_by_class"]["sky"] == pytest.approx((one.drawing.mask == 0).mean())


def test_texts_too_long_for_a_tile_go_on_below_and_rows_are_filled_with_white(tmp_path: Path) -> None:
    grey, path = np.full((64, 64, 3), 100, np.uint8), tmp_path / "s.webp"
    draw_blocks([[(grey, "short"), (grey, "word " * 12 + "\nlast")], [(grey, "")], [(grey, "")]], 2, path)
    sheet = cv2.imread(str(path))
    assert sheet is not None
    strip = 3 * 16 + 3  # two lines of words, and the last
    assert sheet.shape == (2 * (strip + 128), 4 * 128, 3)
    assert (sheet[: strip - 16, 128:256] < 128).any()
    assert (sheet[strip - 16 : strip, 128:256] < 128).any()
    assert (sheet[16:strip, :128] > 200).all(), "a short text ends where it ends"
    assert (sheet[:, 3 * 128 + 8 :] > 245).all(), "a block with fewer tiles"
    assert (sheet[strip + 128 :, 128 + 8 :] > 245).all(), "a row with fewer blocks"


def test_the_discrepancy_is_that_of_plain_loops() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 5)), rng.normal(0.4, 1.5, size=(6, 5))

    def k(a: Features, b: Features) -> float:
        return (sum(float(p) * float(q) for p, q in zip(a, b, strict=True)) / len(a) + 1) ** 3

    within = [np.mean([k(a, b) for a, b in combinations(side, 2)]) for side in (x, y)]
    wanted = within[0] + within[1] - 2 * np.mean([k(a, b) for a, b in product(x, y)])
    assert polynomial_mmd(x, y) == pytest.approx(wanted, rel=1e-10)
    true, scenes = rng.normal(size=(120, 8)), np.arange(120)
    floor, _ = kid(true, true, scenes)
    assert abs(floor) < 0.02
    assert kid(true + 1, true, scenes)[0] > 20 * abs(floor)


def test_a_subset_has_a_scene_once_and_on_one_side(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[int]]] = []

    def remember(x: Features, y: Features) -> float:
        seen.append((x[:, 0].astype(int).tolist(), y[:, 0].astype(int).tolist()))
        return float(len(seen))

    monkeypatch.setattr(likeness, "polynomial_mmd", remember)
    monkeypatch.setattr(likeness, "_SUBSET_SIZE", 3)
    scenes, rows = np.repeat(np.arange(7), 3), np.arange(21)[:, None]
    mean, spread = kid(rows, rows, scenes)
    assert len(seen) == 100
    assert (mean, spread) == (pytest.approx(50.5), pytest.approx(np.std(np.arange(1, 101))))
    for left, right in seen:
        assert len(left) == len(right) == 3
        assert len({row // 3 for row in left + right}) == 6
    assert len({row for left, _ in seen for row in left}) == 21
    kid(rows, rows, scenes)
    assert seen[:100] == seen[100:]


def test_sharpness_is_the_mean_absolute_laplacian() -> None:
    dot = np.zeros((5, 5, 3), np.uint8)
    dot[2, 2] = 100
    # The dot itself is 400 off, each of its four neighbours 100.
    assert sharpness([dot]) == pytest.approx((400 + 4 * 100) / 25)
    assert sharpness([dot, np.zeros_like(dot)]) == pytest.approx(800 / 50)


def test_pictures_are_held_against_the_truth_and_the_sources(drawn: list[Pair]) -> None:
    pairs = drawn[::4][:8]

    def features(pictures: Sequence[NDArray[np.uint8]]) -> Features:
        return np.stack([p.reshape(16, 8, 16, 8, 3).mean((1, 3)).ravel()[:64] / 64 for p in pictures])

    def figures(pictures: Sequence[NDArray[np.uint8]]) -> dict[str, Any]:
        finding = true_finding(pairs[0].scene, pairs[0].drawing)
        shown = [
            Observed(p.source, p.scene, p.drawing, (), picture, finding, p.target)
            for p, picture in zip(pairs, pictures, strict=False)
        ]
        return likeness_figures(shown, features, lambda same: same)

    ideal = figures([pair.target.picture for pair in pairs])
    assert ideal["kid"] == ideal["kid_floor"] == ideal["kid_reconstructed"]
    assert ideal["sharpness_truth"] == 1
    assert (ideal["kid_variants"], ideal["kid_scenes"]) == (8, 8)
    idle = figures([pair.drawing.picture for pair in pairs])
    assert idle["sharpness"] == 1
    assert idle["kid"] == idle["kid_sources"] != idle["kid_floor"]
    blank = figures([np.full_like(pair.target.picture, 128) for pair in pairs])
    assert (blank["sharpness"], blank["sharpness_truth"]) == (0, 0)
    assert figures([pair.target.picture for pair in pairs[:3]]) == {}
