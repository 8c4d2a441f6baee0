"""Changes of scenes' facts in either world: true to captions, outlines, and a referee that knows the truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rendered_truth import true_finding

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.wide.facts import facts_of, read_facts
from counterfactory.engine.pocket.wide.scene import CLASSES, Person, Scene, Thing, Vehicle
from counterfactory.engine.pocket.worlds import STREETS, WIDE, World
from counterfactory.export.pocket.changes import THING_PIXELS, Change, is_seen
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.pairs import Pair, draw_pairs

STREAM = 77  # of no training and no judge
MOVING = ("object", "kind", "size", "person", "pose")


@pytest.fixture(scope="module", params=[STREETS, WIDE], ids=lambda world: world.name)
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
    if world is WIDE:
        names["subject"] = sum(names.pop(name, 0) for name in MOVING[1:])
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
        if not any(change.name in MOVING for change in pair.changes):
            moved = (pair.target.mask != pair.drawing.mask).mean()
            assert moved == 0 or (world is STREETS and moved < 0.02)  # there snow lies on roofs


def test_scenes_are_told_alike_and_each_caption_states_in_what_they_differ() -> None:
    facts, scene = COUNTERFACTS[WIDE.name], replace(WIDE.scene(STREAM, 0), weather="clear", time="day", domain="photo")
    others = [replace(scene, weather="snowy"), replace(scene, time="night")]
    said = facts.describe_alike(scene, others, lambda one, rng: WIDE.describe(one, rng, True), (1,))
    assert said is not None
    read = [read_facts(caption) for caption in said]
    assert [(facts.weather, facts.time) for facts in read] == [("clear", "day"), ("snowy", "day"), ("clear", "night")]
    assert len({caption.split(" ")[0] for caption in said}) == 1, "in the same words"
    drawn_by_pencil = replace(scene, domain="sketch")
    at_sunset = replace(drawn_by_pencil, time="sunset")  # which a pencil does not show
    assert (
        facts.describe_alike(drawn_by_pencil, [at_sunset], lambda one, rng: WIDE.describe(one, rng, True), (1,)) is None
    )


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


def thing_scene() -> Scene:
    return next(
        scene
        for scene in (WIDE.scene(STREAM, i) for i in range(50))
        if scene.things and scene.things[0].kind == "dog" and not any(t.kind == "bench" for t in scene.things)
    )


def test_a_small_object_is_there_from_some_pixels_on_and_the_old_one_must_be_gone() -> None:
    scene = thing_scene()
    finding = true_finding(WIDE, scene, WIDE.draw(scene))
    nothing = np.zeros((128, 128), np.uint8)

    def seen(bench: int, dog: int, was: str | None) -> bool | None:
        mask = nothing.copy()
        mask.ravel()[:bench], mask.ravel()[bench : bench + dog] = CLASSES.index("bench"), CLASSES.index("dog")
        return is_seen(Change("object", "bench", 1, was), replace(finding, mask=mask), nothing)

    assert (seen(THING_PIXELS, 0, "dog"), seen(THING_PIXELS - 1, 0, "dog")) == (True, False)
    assert (seen(500, THING_PIXELS, "dog"), seen(500, THING_PIXELS - 1, "dog")) == (False, True)
    assert seen(500, 500, None) is True
    assert is_seen(Change("object", "palm"), finding, nothing) is None


def test_an_object_that_shows_no_pixel_has_no_judge() -> None:
    scene = WIDE.scene(STREAM, 0)
    finding, nothing = true_finding(WIDE, scene, WIDE.draw(scene)), np.zeros((128, 128), np.uint8)
    assert is_seen(Change("colour", "red", 0), finding, nothing) is None


def test_a_new_thing_takes_the_old_ones_place_or_finds_its_own() -> None:
    scene, facts = thing_scene(), COUNTERFACTS["wide"]
    number = len(scene.vehicles) + len(scene.people)
    after = facts.apply(scene, Change("object", "bench", number, "dog"))
    old, new = scene.things[0], after.things[0]
    assert isinstance(new, Thing)
    assert (new.kind, new.side, new.offset, new.z) == ("bench", old.side, old.offset, old.z)
    assert facts.apply(scene, Change("object", "bench", number, "dog")) == after
    added = facts.apply(scene, Change("object", "bench"))
    assert len(added.things) in (len(scene.things), len(scene.things) + 1)


def test_what_no_picture_shows_is_not_asked_for() -> None:
    """A pencil has no colours: a change of them beside the domain "sketch" would be seen by nobody."""
    facts = COUNTERFACTS["wide"]
    scene = replace(WIDE.scene(STREAM, 1), domain="photo")
    drawn = facts.draw_some(scene, ("colour", "domain", "weather"), 2, np.random.default_rng(5))
    if drawn.get("domain") == Change("domain", "sketch"):
        assert "colour" not in drawn
    sketch = replace(scene, domain="sketch")
    for seed in range(5):
        assert set(facts.draw_some(sketch, ("colour", "weather"), 2, np.random.default_rng(seed))) == {"weather"}
    assert facts.seen(sketch) == facts_of(sketch, seen=True)


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


_CAPTION = (
    "a photo of a large red lorry behind a van on a misty street at dusk by the sea, seen from above. "
    "a man in red waving and a woman are on the sidewalk. beside the road are a dog and a green bench."
)


@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (("weather", "misty", "wet"), Change("weather", "rainy")),
        (("time", "at dusk", "after dark"), Change("time", "night")),
        (("background", "by the sea", "in front of mountains"), Change("background", "mountains")),
        (("domain", "a photo", "an oil painting"), Change("domain", "painting")),
        (("colour", "red lorry", "blue"), Change("colour", "blue", 1)),
        (("colour", "red lorry", "blue lorry"), Change("colour", "blue", 1)),
        (("adjective", "large", "little"), Change("size", "small", 1)),
        (("colour", "in red", "in black"), Change("clothes", "black", 2)),
        (("subject", "waving", "strolling"), Change("pose", "walking", 2)),
        (("subject", "woman", "kid"), Change("person", "child", 3)),
        (("object", "dog", "road sign"), Change("object", "traffic sign", 4, "dog")),
        (("colour", "green", "white"), Change("paint", "white", 5)),
        (("colour", "Red Lorry", "Blue"), Change("colour", "blue", 1)),
        # Not of the world, not of the caption, not another value, of outlines that nobody draws, no replacement.
        (("weather", "misty", "stormy"), None),
        (("weather", "snowy", "clear"), None),
        (("time", "at dusk", "at sunset"), None),
        (("camera", "seen from above", "from a low camera"), None),
        (("object", "", "a bicycle"), None),
    ],
)
def test_edits_of_wide_captions_are_read_as_changes(edit: tuple[str, str, str], change: Change | None) -> None:
    scene = wide_scene()
    found = COUNTERFACTS["wide"].read(scene, _CAPTION.capitalize(), Edit(*edit))
    assert found == (() if change is None else (change,))
    if change is not None:
        assert COUNTERFACTS["wide"].apply(scene, change) != scene


def wide_scene() -> Scene:
    """What the caption says: a van before a large red truck, two people, two things."""
    return replace(
        WIDE.scene(STREAM, 0),
        weather="foggy",
        time="sunset",
        background="coast",
        domain="photo",
        vehicles=(Vehicle("van", "medium", "blue", 0, 6.0), Vehicle("truck", "large", "red", 1, 9.0)),
        people=(Person("man", "waving", "red", 1, 0.5, 7.0), Person("woman", "standing", "blue", -1, 0.5, 8.0)),
        things=(Thing("dog", "brown", 1, 0.2, 6.5, 1), Thing("bench", "green", -1, 0.2, 7.5, 1)),
    )


def test_an_edit_of_what_the_scene_has_not_or_has_twice_asks_for_nothing_known() -> None:
    scene, read = wide_scene(), COUNTERFACTS["wide"].read
    edit = Edit("colour", "red lorry", "blue lorry")
    assert read(replace(scene, vehicles=scene.vehicles[:1]), _CAPTION, edit) == ()
    assert read(replace(scene, vehicles=(scene.vehicles[1],) * 2), _CAPTION, edit) == ()
    after = COUNTERFACTS["wide"].apply(scene, Change("paint", "white", 5))
    assert [thing.colour for thing in after.things] == ["brown", "white"]
    after = COUNTERFACTS["wide"].apply(scene, Change("clothes", "black", 2))
    assert [person.colour for person in after.people] == ["black", "blue"]


@pytest.mark.parametrize(
    ("world", "caption", "wrong"),
    [
        (STREETS, "a {v.colour} {v.kind} on a {s.weather} street at night.", "weather"),
        (WIDE, "a photo of a {v.kind} on a street in the fog.", "weather"),
    ],
    ids=["streets", "wide"],
)
def test_facts_of_captions_are_checked_one_by_one(world: World, caption: str, wrong: str) -> None:
    facts = COUNTERFACTS[world.name]
    scene = world.scene(STREAM, 2)
    scene = replace(scene, weather="foggy", time="night", vehicles=scene.vehicles[:1])
    if world is WIDE:
        scene = replace(scene, domain="photo")
    text = caption.format(v=scene.vehicles[0], s=scene)
    right = dict(facts.check(text, scene))
    assert right["weather"] is True
    assert right["kind"] is True
    assert right["time"] is (True if world is STREETS else None)  # a wide caption may leave it unsaid
    assert dict(facts.check(text, replace(scene, weather="clear")))[wrong] is False
    two = replace(scene, vehicles=scene.vehicles * 2)
    answers = [answer for name, answer in facts.check(text, two) if name == "kind"]
    assert answers == ([True, False] if world is STREETS else [False, False])


def test_worlds_say_what_their_referees_tell_apart() -> None:
    assert STREETS.vocabulary.scene["weather"] == ("clear", "cloudy", "foggy", "rainy", "snowy")
    assert WIDE.vocabulary.scene["background"] == ("city", "forest", "mountains", "coast")
    assert "van" in WIDE.vocabulary.objects["kind"]
    assert "traffic light" in WIDE.vocabulary.classes
