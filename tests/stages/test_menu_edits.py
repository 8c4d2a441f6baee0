"""Edits of a profile without a language model: what its painter can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from rewriting import SETTINGS, Scripted, rewrite, source, wanted_of

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.light.menu import EXCLUSIVE, MENU, STILL
from counterfactory.engine.profile.painter import Painter
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import CaptionEdits, Questions, draft_of
from counterfactory.engine.stages.rewrite.menu_edits import find_choices, in_turns
from counterfactory.engine.tasks.choose import Choice
from counterfactory.engine.tasks.user_task import Interventions

ALL = ("weather", "colour", "time", "camera", "light")


def draft(
    label: str | None,
    types: tuple[str, ...],
    painter: Painter = "light",
    classes: tuple[str, ...] = (),
    **wanted: object,
) -> CaptionEdits:
    request = replace(wanted_of(9, (1, 1)), **wanted)  # type: ignore[arg-type]
    found = draft_of(replace(source("1", label), classes=classes), f"a photo of a {label}", request.task, None)
    settings = replace(SETTINGS, types=types)
    find_choices([found], Questions(settings, request, Scripted(), PlainPrompts()), painter)
    return found


@pytest.mark.parametrize(("painter", "types"), [("light", set(MENU)), ("server", set(MENU) - {"camera"})])
def test_only_the_painter_of_light_spoils_the_camera(painter: Painter, types: set[str]) -> None:
    found = draft("dog", ALL, painter)
    assert {choice.type: choice.alternatives for choice in found.choices} == {type_: MENU[type_] for type_ in types}
    assert {choice.keyword for choice in found.choices} == {""}
    assert (found.exclusive, found.problem) == (EXCLUSIVE, None)


def test_no_picture_has_the_sun_by_night_or_in_clouds_or_two_veils() -> None:
    sunless, veils = {"at dusk", "at night", "overcast", "rainy", "snowy"}, {"foggy", "hazy", "rainy", "snowy"}
    for sun, others in (("in glare", sunless | veils), ("at sunset", {"overcast", "rainy", "snowy"})):
        assert {value for pair in EXCLUSIVE if sun in pair for value in pair} == {sun, *others}
    assert frozenset(("at night", "snowy")) not in EXCLUSIVE
    # A variant changes a type once, so that two of one type never meet.
    assert veils <= set(MENU["weather"])
    assert {"at sunset", "at dusk", "at night"} == set(MENU["time"])


def test_what_never_meets_is_known_in_any_words() -> None:
    values = Interventions((("time", ("night", "morning")), ("light", ("glare",)), ("weather", ("fog", "in the rain"))))
    for painter in ("server", "light"):
        named = values if painter == "server" else Interventions((("time", ("night",)), *values.axes[1:]))
        found = draft("dog", ("weather",), painter, interventions=named)
        words = {choice.type: choice.alternatives for choice in found.choices}
        (glare,) = words["light"]
        others = (*words["weather"], words["time"][0])
        assert found.exclusive == {frozenset((glare, other)) for other in others}


def test_what_would_make_the_label_false_or_is_to_be_avoided_is_left_out() -> None:
    (time,) = draft("dog", ("time",), avoid=("night",)).choices
    assert time.alternatives == tuple(phrase for phrase in MENU["time"] if "night" not in phrase)
    snowy = tuple(phrase for phrase in MENU["weather"] if phrase != "snowy")
    for label, classes in (("snow leopard", ()), (None, ("car", "snow leopard"))):
        (weather,) = draft(label, ("weather",), classes=classes).choices
        assert weather.alternatives == snowy
    night = draft("night", ("time", "colour"))
    assert (night.choices, night.problem) == ([], "its label 'night' is what every edit that is left would change")


def test_a_user_s_values_are_phrases_and_what_light_cannot_show_is_for_other_painters() -> None:
    values = Interventions((("weather", (MENU["weather"][0], "sandstorm")), ("colour", ("red",))))
    found = draft("dog", ("weather",), "server", interventions=values)
    assert [(choice.type, choice.alternatives) for choice in found.choices] == [
        ("weather", (MENU["weather"][0], "in a sandstorm")),
        ("colour", ("red",)),
    ]
    with pytest.raises(
        CounterfactoryError, match=r"^'weather: sandstorm' is nothing that .* it knows .*weather: "
    ) as refused:
        draft("dog", ("weather",), interventions=values)
    assert str(refused.value).endswith("; other profiles paint more (counterfactory doctor lists them)")


VALUES = [value for values in MENU.values() for value in values]


def values_taken(sources: Sequence[Source], variants: int = 5, **wanted: object) -> dict[str, list[str]]:
    """The values of each source's variants, by its name, as `light` has them by default."""
    asked, settings = replace(wanted_of(variants, (1, 1)), **wanted), replace(SETTINGS, types=ALL)  # type: ignore[arg-type]
    turned = list(in_turns(sources, asked, ALL, "light"))
    find = partial(find_choices, questions=Questions(settings, asked, Scripted(), PlainPrompts()), painter="light")
    texts = [f"a photo of a {one.label}" for one in turned]
    results = rewrite(turned, texts, settings, asked, Scripted(), PlainPrompts(), find=find)
    of = zip(turned, results, strict=True)
    return {one.name: [edit.alternative for v in result.variants for edit in v.edits] for one, result in of}


def spread(taken: Iterable[list[str]]) -> int:
    """By how much the most frequent value is ahead of the least frequent."""
    counts = Counter(value for values in taken for value in values)
    return max(counts.values()) - min(counts.get(value, 0) for value in VALUES)


@pytest.mark.parametrize("count", [3, 14, 23, 40])
@pytest.mark.parametrize("variants", [1, 3, 5, 14])
def test_each_value_rests_on_as_many_sources_as_can_be(count: int, variants: int) -> None:
    taken = values_taken([source(f"{i}", "dog" if i % 2 else "cat") for i in range(count)], variants)
    assert {len(set(values)) for values in taken.values()} == {variants}
    assert spread(taken.values()) <= 2


def test_values_depend_on_no_order_of_files_and_on_no_shard_and_more_variants_keep_those_that_are_there() -> None:
    sources = [source(f"{i}", ("dog", "cat", "sunny")[i % 3]) for i in range(31)]
    taken = values_taken(sources)
    shuffled = Random(1).sample(sources, len(sources))
    assert values_taken(shuffled) == taken
    assert {name: values[:5] for name, values in values_taken(sources, 9).items()} == taken
    turned = list(in_turns(sources, wanted_of(5, (1, 1)), ALL, "light"))
    one_more = in_turns([*sources, source("31", "dog")], wanted_of(5, (1, 1)), ALL, "light")
    moved = sum(one.turn != other.turn for one, other in zip(turned, one_more, strict=False))
    assert moved < 10, "another source moves few"
    assert {one.key: one.turn for one in turned} == {
        one.key: one.turn for one in in_turns(shuffled, wanted_of(5, (1, 1)), ALL, "light")
    }
    assert [one.key for one in turned] == [one.key for one in sources]
    for wanted in (wanted_of(5, (1, 2)), wanted_of(14, (1, 1))):
        assert next(in_turns(sources, wanted, ALL, "light")).turn is None, "nothing is shared out"
    assert all(one.whole_key != other.whole_key for one, other in zip(turned, sources, strict=True))


def test_a_value_that_is_excluded_gives_way_to_others() -> None:
    sources = [source(f"{i}", "sunny" if i % 4 == 0 else "dog") for i in range(56)]
    taken = values_taken(sources)
    sunny = [values for name, values in taken.items() if int(name) % 4 == 0]
    assert {value for values in sunny for value in values} == {*MENU["light"], *MENU["camera"]}
    assert {len(set(values)) for values in sunny} == {5}
    assert spread(values for name, values in taken.items() if int(name) % 4) <= 1
    without = Counter(value for values in values_taken(sources[1:2], avoid=("snowy",)).values() for value in values)
    assert without["snowy"] == 0


@pytest.mark.parametrize("count", [5, 12, 29])
def test_a_users_values_are_spread_in_the_same_way(count: int) -> None:
    named = Interventions((("weather", ("rainy", "foggy", "snowy")), ("time", ("at night", "at dusk"))))
    sources = [source(f"{i}", "dog") for i in range(count)]
    taken = values_taken(sources, 2, interventions=named)
    counts = Counter(value for values in taken.values() for value in values)
    assert len(counts) == 5
    assert max(counts.values()) - min(counts.values()) <= 2
    assert values_taken(Random(2).sample(sources, count), 2, interventions=named) == taken
    both = values_taken(sources, 2, interventions=named, edits=(2, 2))
    assert all(len(values) == 4 for values in both.values())


def test_more_variants_than_values_repeat_those_that_chance_decides_and_no_others() -> None:
    taken = values_taken([source(f"{i}", "dog") for i in range(14)], 20)
    for values in taken.values():
        counts = Counter(values)
        assert len(values) == 20
        assert {counts[value] for value in STILL} == {1}
        assert sorted(counts.values()) == [1] * 8 + [2] * 6
    (values,) = values_taken([source("1", "dog")], 4, interventions=Interventions((("weather", ("hazy",)),))).values()
    assert values == ["hazy"]


@pytest.mark.parametrize(
    ("label", "classes", "types"),
    [("sunny", (), {"colour"}), (None, ("wet road",), {"colour", "time"}), ("bus", (), ...)],
)
def test_whoever_finds_edits_none_changes_what_a_label_says(
    label: str | None, classes: tuple[str, ...], types: object
) -> None:
    def find(drafts: Sequence[CaptionEdits]) -> None:
        for one in drafts:
            one.choices += [Choice(of, "", ("x", "y", "z")) for of in ("weather", "time", "colour")]

    asked = wanted_of(9, (1, 1))
    of = replace(source("1", label), classes=classes)
    (result,) = rewrite([of], ["a photo"], SETTINGS, asked, Scripted(), PlainPrompts(), find=find)
    found = {edit.type for variant in result.variants for edit in variant.edits}
    assert found == ({"weather", "time", "colour"} if types is ... else types)
