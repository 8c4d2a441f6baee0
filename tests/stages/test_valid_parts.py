"""The score "valid": a product of logistic parts, by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from picture_rows import picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.check import CheckSettings, ValidPart, evidence
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.clip_scores import by_type
from counterfactory.engine.stages.check.verdict import part_probabilities, valid_score, verdict, with_valid

COLOUR = ValidPart("colour", ("said_colour", "edit_colour"), (1.0, 0.5), 1.0)
LABEL = ValidPart("label", ("said_label", "label"), (2.0, 3.0), -1.0)
LAYOUT = ValidPart("layout", ("layout",), (1.0,), 0.0)


def settings(**changes: Any) -> CheckSettings:
    free = load_profile("pocket-lance").check
    for name in free.strict:
        free = free.having(**{name: None})
    return replace(free, **{"valid": (COLOUR, LABEL, LAYOUT), "least": {"valid": 0.5}, **changes})


def logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.mark.parametrize(
    ("name", "score", "entered"),
    [
        ("said_colour", 0.75, math.log(3)),
        ("edit", 0.5, 0.0),
        ("said_label", 1.0, 6.0),
        ("said_label", 0.0, -6.0),
        ("label", -0.25, -0.25),
        ("directional", 0.3, 0.3),
        ("nearer", 0.1, 0.1),
        ("image_text", 0.2, 0.2),
        ("image_image", 0.9, 0.9),
        ("source_text", 0.4, 0.4),
    ],
)
def test_shares_enter_by_their_log_odds_and_all_else_as_it_is(name: str, score: float, entered: float) -> None:
    assert evidence(name, score) == pytest.approx(entered)


def test_a_variant_is_as_valid_as_all_of_its_parts() -> None:
    scores = {"said_colour": 0.75, "edit_colour": 0.5, "said_label": 0.5, "label": -0.5, "layout": 0.8}
    parts = part_probabilities(scores, (COLOUR, LABEL, LAYOUT))
    colour, label = logistic(1 + math.log(3)), logistic(-2.5)
    assert parts == pytest.approx({"colour": colour, "label": label, "layout": 0.8})
    assert valid_score(scores, (COLOUR, LABEL, LAYOUT)) == round(colour * label * 0.8, 6)


def test_what_a_picture_does_not_have_says_nothing() -> None:
    assert valid_score({"layout": 0.8}, (COLOUR, LABEL, LAYOUT)) == 0.8, "no colour was edited, nothing is labelled"
    assert part_probabilities({"edit_colour": 0.75}, (COLOUR,)) == {
        "colour": pytest.approx(logistic(1 + math.log(3) / 2))
    }
    assert valid_score({"edit": 0.8}, (COLOUR, LABEL, LAYOUT)) is None


def test_the_worst_edit_of_a_type_is_the_type_s() -> None:
    types, scores = ["colour", "weather", "colour"], [0.3, 0.9, 0.6]
    assert by_type("edit", types, scores) == {"edit_colour": 0.3, "edit_weather": 0.9}


def test_the_least_probable_part_is_the_reason() -> None:
    row = picture_row(
        label="bus",
        edits=(Edit("colour", "red bus", "blue bus"), Edit("weather", "dry", "wet")),
        edit_scores=(0.4, 0.1),
        scores={"edit": 0.1, "image_text": 0.5, "image_image": 0.5, "directional": 0.5},
    )

    def reason(**scores: float) -> str | None:
        held = with_valid("variant", {**row.scores, **scores}, settings())
        return verdict(replace(row, scores=held), settings())

    good = {"said_colour": 0.99, "edit_colour": 0.4, "said_label": 0.99, "label": 0.0, "layout": 0.9}
    assert reason(**good) is None
    said = reason(**good | {"said_colour": 0.01})
    assert said is not None
    assert said.startswith("'blue bus' does not show in place of 'red bus': valid 0.0"), said
    said = reason(**good | {"said_label": 0.01})
    assert said is not None
    assert said.startswith("'bus' may not show any more: valid 0.00"), said
    assert reason(**good | {"layout": 0.2}) == "outlines have left the mask's: valid 0.199 is below 0.500"


def test_the_score_is_the_settings_own() -> None:
    scores = {"layout": 0.8, "valid": 0.1}
    assert with_valid("variant", scores, settings()) == {"layout": 0.8, "valid": 0.8}
    assert with_valid("variant", scores, settings(valid=None, least={})) == {"layout": 0.8}
    assert with_valid("control", scores, settings()) == {"layout": 0.8}


def test_parts_of_what_the_captioner_reads_need_its_second_look() -> None:
    profile = load_profile("pocket-lance")
    said = replace(LABEL, scores=("said_label",), weights=(1.0,))
    with pytest.raises(ValueError, match=r"\[check\] valid: .*said_label, needs \[check\] recaption = true"):
        replace(profile, check=replace(profile.check, valid=(LAYOUT, said)))
    assert replace(profile, check=replace(profile.check, valid=(LAYOUT, said), recaption=True)).check.recaption
    assert replace(profile, check=replace(profile.check, valid=(LAYOUT,))).check.valid == (LAYOUT,)
