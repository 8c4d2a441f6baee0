"""Changes of scenes' facts: true to captions, outlines, and a referee that knows the truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rendered_truth import true_finding

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.worlds import STREETS, World
from counterfactory.export.pocket.changes import Change, is_seen
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.pairs import Pair, draw_pairs

STREAM = 77  # of no training and no judge


@pytest.fixture(scope="module", params=[STREETS], ids=lambda world: world.name)
def drawn(request: pytest.FixtureRequest) -> tuple[World, list[Pair]]:
    world: World = request.param
    return world, draw_pairs(world, COUNTERFACTS[world.name], STREAM, 12, 4)


def test_every_group_comes_about_and_two_changes_in_turn(drawn: tuple[World, list[Pair]]) -> None:
    world, pairs = drawn
    names = Counter(
        "second colour" if change.name == "colour" and change.number else change.name
        for pair in pairs
        for change in pair.changes
    )
    assert set(names) == set(COUNTERFACTS[world.name].groups)
    assert names["weather"] < 2 * len(pairs) / len(names)  # groups share
    assert Counter(pair.source for pair in pairs)["0000"] == 4
    assert {len(pair.changes) for pair in pairs} == {1, 2}
    first = [pair for pair in pairs if pair.source == "0003"]
    asked = [change for pair in first for change in pair.changes]
    assert len(set(asked)) == len(asked)


def test_a_drawn_change_is_in_the_picture_and_in_the_caption(drawn: tuple[World, list[Pair]]) -> None:
    world, pairs = drawn
    facts = COUNTERFACTS[world.name]
    for pair in pairs:
        target = facts.apply_all(pair.scene, pair.changes)
        assert np.array_equal(world.draw(target).picture, pair.target.picture)
        assert not facts.contradicts(pair.caption, target), pair.caption
        for without in facts.without_each(pair.scene, pair.changes):
            assert facts.contradicts(pair.caption, without), (pair.changes, pair.caption)
        assert (pair.target.mask != pair.drawing.mask).mean() < 0.02  # snow lies on roofs


def test_scenes_are_told_alike_and_each_caption_states_in_what_they_differ() -> None:
    facts, scene = COUNTERFACTS[STREETS.name], replace(STREETS.scene(STREAM, 0), weather="clear", time="day")
    others = [replace(scene, weather="snowy"), replace(scene, time="night")]
    said = facts.describe_alike(scene, others, lambda one, rng: STREETS.describe(one, rng, True), (1,))
    assert said is not None
    read = [read_facts(caption) for caption in said]
    assert [(facts.weather, facts.time) for facts in read] == [("clear", "day"), ("snowy", "day"), ("clear", "night")]
    assert len({caption.split(" ")[0] for caption in said}) == 1, "in the same words"
    as_ever = [replace(scene, layout_seed=scene.layout_seed + 1)]  # which no caption tells
    assert facts.describe_alike(scene, as_ever, lambda one, rng: STREETS.describe(one, rng, True), (1,)) is None


def test_who_knows_the_truth_sees_changes_where_they_are_and_nowhere_else(drawn: tuple[World, list[Pair]]) -> None:
    world, pairs = drawn
    judged = 0
    for pair in pairs:
        target = COUNTERFACTS[world.name].apply_all(pair.scene, pair.changes)
        for change in pair.changes:
            after = is_seen(change, true_finding(world, target, pair.target), pair.target.objects)
            before = is_seen(change, true_finding(world, pair.scene, pair.drawing), pair.target.objects)
            if change.name == "material":
                assert (after, before) == (None, None)
            else:
                judged += 1
                assert (after, before) == (True, False), change
    assert judged > 30


def test_the_same_pairs_come_of_the_same_scenes(drawn: tuple[World, list[Pair]]) -> None:
    world, pairs = drawn
    again = draw_pairs(world, COUNTERFACTS[world.name], STREAM, 2, 4)
    assert [(p.source, p.changes, p.caption) for p in again] == [(p.source, p.changes, p.caption) for p in pairs[:8]]


def test_an_object_that_shows_no_pixel_has_no_judge() -> None:
    scene = STREETS.scene(STREAM, 0)
    finding, nothing = true_finding(STREETS, scene, STREETS.draw(scene)), np.zeros((128, 128), np.uint8)
    assert is_seen(Change("colour", "red", 0), finding, nothing) is None


def test_edits_of_the_streets_are_read_as_changes() -> None:
    scene = next(s for s in (STREETS.scene(STREAM, i) for i in range(50)) if len(s.vehicles) > 1)
    far = scene.vehicles[1]

    def read(*edit: str) -> tuple[Change, ...]:
        return COUNTERFACTS["streets"].read(scene, "", Edit(*edit))

    assert read("weather", scene.weather, "foggy") == (Change("weather", "foggy"),)
    assert read("time", "at night", "at sunset") == (Change("time", "sunset"),)
    assert read("background", "brick", "glass") == (Change("material", "glass"),)
    assert read("colour", f"{far.colour} {far.kind}", f"green {far.kind}") == (Change("colour", "green", 1),)
    assert read("weather", "clear", "stormy") == ()
    assert read("colour", "pink car", "green car") == ()
    assert read("object", "tree", "lamp") == ()


def test_facts_of_captions_are_checked_one_by_one() -> None:
    facts, scene = COUNTERFACTS[STREETS.name], STREETS.scene(STREAM, 2)
    scene = replace(scene, weather="foggy", time="night", vehicles=scene.vehicles[:1])
    text = f"a {scene.vehicles[0].colour} {scene.vehicles[0].kind} on a foggy street at night."
    right = dict(facts.check(text, scene))
    assert (right["weather"], right["kind"], right["time"]) == (True, True, True)
    assert dict(facts.check(text, replace(scene, weather="clear")))["weather"] is False
    two = replace(scene, vehicles=scene.vehicles * 2)
    assert [answer for name, answer in facts.check(text, two) if name == "kind"] == [True, False]
