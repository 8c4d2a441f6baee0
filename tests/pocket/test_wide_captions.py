"""Captions of the wider street world: whatever the wording, what is read back is true of the scene."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from counterfactory.engine.pocket.wide import words
from counterfactory.engine.pocket.wide.captions import describe
from counterfactory.engine.pocket.wide.facts import Facts, contradicted, facts_of, read_facts
from counterfactory.engine.pocket.wide.sampling import confuse, sample_scene
from counterfactory.engine.pocket.wide.scene import (
    BACKGROUNDS,
    BENDS,
    CAMERAS,
    DOMAINS,
    MATERIALS,
    PERSON_KINDS,
    POSES,
    SIZES,
    THING_KINDS,
    TIMES,
    VEHICLE_KINDS,
    WEATHERS,
    Scene,
)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [sample_scene(np.random.default_rng((901, i))) for i in range(150)]


def of_size(facts: Facts) -> Facts:
    """The facts, but for the usual size, of which captions do not speak."""
    vehicles = tuple((None if size == "medium" else size, colour, kind) for size, colour, kind in facts.vehicles)
    return replace(facts, vehicles=vehicles)


def test_what_a_caption_states_is_true(scenes: list[Scene]) -> None:
    stated = dict.fromkeys((field.name for field in fields(Facts)), 0)
    for i, scene in enumerate(scenes):
        for seen in (False, True):
            truth = facts_of(scene, seen)
            found = read_facts(describe(truth, np.random.default_rng((1, i))))
            assert contradicted(found, truth) == ()
            assert len(found.vehicles) == len(scene.vehicles)
            assert (found.domain or "photo") == scene.domain
            for name in stated:
                stated[name] += getattr(found, name) not in (None, False, ())
    assert all(count > 20 for count in stated.values())
    assert all(stated[name] < 270 for name in stated if name not in ("vehicles", "domain"))  # facts are left out


def test_a_full_caption_states_all_there_is(scenes: list[Scene]) -> None:
    for i, scene in enumerate(scenes):
        truth = facts_of(scene)
        assert read_facts(describe(truth, np.random.default_rng((2, i)), share=1.0)) == of_size(truth)


def test_nothing_but_vehicles_and_a_strange_domain_must_be_said(scenes: list[Scene]) -> None:
    for i, scene in enumerate(scenes[:40]):
        found = read_facts(describe(facts_of(scene), np.random.default_rng((3, i)), share=0.0))
        kinds = tuple((None, None, v.kind) for v in scene.vehicles)
        assert found == Facts(domain=None if scene.domain == "photo" else scene.domain, vehicles=kinds)


def test_one_wrong_fact_is_found(scenes: list[Scene]) -> None:
    found = 0
    for i, scene in enumerate(scenes):
        other = confuse(scene, np.random.default_rng((4, i)))
        right, wrong = of_size(facts_of(scene)), of_size(facts_of(other))
        if right == wrong:  # walls of another kind, where there are none
            continue
        text = describe(facts_of(other), np.random.default_rng((5, i)), share=1.0)
        silent = replace(right, vehicles=wrong.vehicles) == wrong and [v[1:] for v in right.vehicles] == [
            v[1:] for v in wrong.vehicles
        ]
        if not silent:  # a size that goes unsaid is no error
            found += 1
            assert len(contradicted(read_facts(text), facts_of(scene))) == 1, text
    assert found > 110


def test_words_differ_from_caption_to_caption(scenes: list[Scene]) -> None:
    texts = {describe(facts_of(scenes[0]), np.random.default_rng(i)) for i in range(60)}
    assert len(texts) > 50
    assert describe(facts_of(scenes[0]), np.random.default_rng(7)) == describe(
        facts_of(scenes[0]), np.random.default_rng(7)
    )
    assert max(len(describe(facts_of(s), np.random.default_rng(0)).split()) for s in scenes) < 75


def test_a_sketch_shows_no_colours_and_no_sunset(scenes: list[Scene]) -> None:
    street = next(s for s in scenes if s.people and s.things and s.houses)
    sketch = replace(street, domain="sketch", time="sunset")
    seen = facts_of(sketch, seen=True)
    assert seen.time is seen.material is None
    assert all(colour is None for _, colour, _ in seen.vehicles)
    assert all(row[0] is None for row in (*(seen.people or ()), *seen.things))
    assert facts_of(replace(sketch, time="night"), seen=True).time == "night"
    assert facts_of(replace(sketch, domain="painting"), seen=True) == facts_of(replace(sketch, domain="painting"))
    assert facts_of(sketch).time == "sunset"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", Facts()),
        ("nothing of this world", Facts()),
        ("A Red Car.", Facts(vehicles=((None, "red", "car"),))),
        ("a bus and a big blue lorry", Facts(vehicles=((None, None, "bus"), ("large", "blue", "truck")))),
        ("a bus behind a van", Facts(vehicles=((None, None, "van"), (None, None, "bus")))),
        ("a bus in front of a van", Facts(vehicles=((None, None, "bus"), (None, None, "van")))),
        ("a man in red is walking", Facts(people=(("red", "man", "walking"),))),
        ("a jogging kid and a woman in white", Facts(people=((None, "child", "running"), ("white", "woman", None)))),
        ("nobody is there", Facts(people=())),
        ("a red traffic light and a bike", Facts(things=(("red", "traffic light"), (None, "bicycle")))),
        ("a misty road", Facts(weather="foggy")),
        ("under a clear sky in front of the sea at dusk", Facts(weather="clear", background="coast", time="sunset")),
        ("timber houses and trees", Facts(material="wooden", trees=True)),
        ("a sketch of a road curving left, seen from above", Facts(domain="sketch", bend="left", camera="high")),
        ("a carpet, a brown dogma and a glass of wine", Facts()),
    ],
)  # fmt: skip
def test_reading(text: str, facts: Facts) -> None:
    assert read_facts(text) == facts


STREET = Facts(
    domain="photo", weather="rainy", trees=False, vehicles=(("small", "red", "car"), ("medium", "blue", "bus")),
    people=(("red", "man", "walking"), ("blue", "child", "waving")), things=(("brown", "dog"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (Facts(), ()),
        (Facts(weather="rainy"), ()),
        (Facts(weather="snowy"), ("weather",)),
        (Facts(material="brick"), ("material",)),
        (Facts(trees=True), ("trees",)),
        (Facts(vehicles=((None, None, "car"), (None, "blue", "bus"))), ()),
        (Facts(vehicles=((None, "blue", "bus"), (None, "red", "car"))), ("vehicles",)),
        (Facts(vehicles=((None, "red", "car"),)), ("vehicles",)),
        (Facts(vehicles=(("large", "red", "car"), (None, None, "bus"))), ("vehicles",)),
        (Facts(people=()), ("people",)),
        (Facts(people=((None, "child", None), ("red", "man", None))), ()),
        (Facts(people=(("red", "child", None), (None, "man", None))), ("people",)),
        (Facts(people=((None, "child", None),)), ("people",)),
        (Facts(things=((None, "dog"),)), ()),
        (Facts(things=(("white", "dog"),)), ("things",)),
        (Facts(things=((None, "dog"), (None, "bench"))), ("things",)),
        (Facts(weather="clear", domain="sketch"), ("domain", "weather")),
    ],
)
def test_contradictions(said: Facts, wrong: tuple[str, ...]) -> None:
    assert contradicted(said, STREET) == wrong


def test_people_that_the_truth_does_not_know_cannot_be_stated() -> None:
    assert contradicted(Facts(people=(("red", "man", None),)), Facts()) == ("people",)
    assert contradicted(Facts(people=()), Facts(people=())) == ()


def test_every_value_has_phrases_and_none_is_part_of_anothers() -> None:
    tables = {
        BACKGROUNDS: [words.BACKGROUND_PHRASES], BENDS: [words.BEND_PHRASES], CAMERAS: [words.CAMERA_PHRASES],
        DOMAINS: [words.DOMAIN_PHRASES], MATERIALS: [words.MATERIAL_WORDS], PERSON_KINDS: [words.PERSON_WORDS],
        POSES: [words.POSE_WORDS], SIZES: [words.SIZE_WORDS], THING_KINDS: [words.THING_WORDS],
        TIMES: [words.TIME_PHRASES], VEHICLE_KINDS: [words.VEHICLE_WORDS],
        WEATHERS: [words.WEATHER_WORDS, words.WEATHER_PHRASES],
    }  # fmt: skip
    for values, each in tables.items():
        for table in each:
            assert tuple(table) == values
            for value, phrases in table.items():
                assert phrases or value == "medium"
                for phrase in phrases:
                    assert words.find_value(f"so {phrase} it", table) == value
