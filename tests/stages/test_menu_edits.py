"""Edits of a profile without a language model: what its painter can show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rewriting import SETTINGS, Scripted, source, wanted_of

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.light.menu import EXCLUSIVE, MENU
from counterfactory.engine.profile.painter import Painter
from counterfactory.engine.stages.rewrite.caption_edits import CaptionEdits, Questions, draft_of
from counterfactory.engine.stages.rewrite.menu_edits import find_choices
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
