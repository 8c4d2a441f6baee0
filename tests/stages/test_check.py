"""The verdict that thresholds make of scores, and the settings that hold them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from checks import changed
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.check import CheckSettings, ValidPart, threshold_names
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.clip_scores import by_type
from counterfactory.engine.stages.check.verdict import (
    failed_check,
    part_probabilities,
    valid_score,
    verdict,
    with_valid,
)

GOOD = {"image_text": 0.25, "directional": -0.5, "image_image": 0.5, "edit": 0.6, "label": -0.25, "layout": 0.75}
SETTINGS = CheckSettings(4, "a photo of a {label}", 100.0).having(**{f"min_{name}": GOOD[name] for name in GOOD})


def row(**scores: float) -> Any:
    return picture_row(scores=GOOD | scores)


def set_least(name: str, least: float) -> CheckSettings:
    changes: dict[str, Any] = {f"min_{name}": least}
    return changed(SETTINGS, **changes)


# The least value of a score, and what is said of the picture that has 0.01 less.
REASONS = {
    "image_text": (0.25, "unlike its caption: image_text 0.240 is below 0.250"),
    "directional": (-0.5, "changed otherwise than its caption: directional -0.510 is below -0.500"),
    "image_image": (0.5, "unlike its source: image_image 0.490 is below 0.500"),
    "edit": (0.6, "'snowy' does not show in place of 'dry': edit 0.590 is below 0.600"),
    "label": (-0.25, "'bus' may not show any more: label -0.260 is below -0.250"),
    "layout": (0.75, "outlines have left the mask's: layout 0.740 is below 0.750"),
    "source_text": (0.2, "the source does not show its caption: source_text 0.190 is below 0.200"),
    "nearer": (0.0, "nearer to the caption than to the edited one: nearer -0.010 is below 0.000"),
    "spread": (0.1, "hardly anything but one grey level: spread 0.090 is below 0.100"),
    "exposed": (0.1, "mostly black or white: exposed 0.090 is below 0.100"),
    "sharp": (0.3, "blurred against its source: sharp 0.290 is below 0.300"),
    "changed": (0.1, "nearly the same as its source: changed 0.090 is below 0.100"),
    "distinct": (0.1, "nearly the same as another variant of its source: distinct 0.090 is below 0.100"),
    "recoloured": (0.5, "'snowy' does not show in place of 'dry': recoloured 0.490 is below 0.500"),
    "said_edits": (0.5, "the captioner does not see all that was edited: said_edits 0.490 is below 0.500"),
    "said_label": (0.5, "'bus' may not show any more: said_label 0.490 is below 0.500"),
    "agreement": (0.5, "'bus' may not show any more: agreement 0.490 is below 0.500"),
    "ensemble": (0.5, "'bus' may not show any more: ensemble 0.490 is below 0.500"),
    "boxes": (0.5, "boxes have lost what they show: boxes 0.490 is below 0.500"),
    "miou": (0.5, "what the referee sees has left the mask: miou 0.490 is below 0.500"),
    "recall": (0.5, "a class of the mask is hardly to be seen: recall 0.490 is below 0.500"),
}
NOT_OF_ALL = {*("distinct", "recoloured", "said_edits", "said_label", "agreement", "ensemble", "boxes", "miou")}
NOT_OF_ALL |= {"recall", "label", "layout"}
NOT_OF_CONTROLS = {"directional", "edit", "nearer", "changed", "recoloured"}


@pytest.mark.parametrize("name", REASONS)
def test_a_score_below_its_minimum_is_the_reason_and_without_a_minimum_it_is_not_asked_for(name: str) -> None:
    least, reason = REASONS[name]
    held, rest = set_least(name, least), {other: value for other, value in GOOD.items() if other != name}
    assert verdict(row(**{name: least}), held) is None
    assert verdict(row(**{name: least - 0.01}), held) == reason
    assert verdict(row(**{name: -2.0}), held.having(**{f"min_{name}": None})) is None
    assert (verdict(control_row(scores=rest | {name: -2.0}), held) is None) == (name in NOT_OF_CONTROLS)
    if name in NOT_OF_CONTROLS:
        assert verdict(control_row(scores=rest), held) is None
    if name in NOT_OF_ALL:
        assert verdict(picture_row(scores=rest), held) is None, "it has none where it makes no sense"
    else:
        with pytest.raises(KeyError, match=name):
            verdict(picture_row(scores=rest), held)


def test_the_first_score_that_fails_is_named_and_what_can_be_named_first() -> None:
    order = ["edit", "label", "layout", "image_text", "directional", "image_image"]
    bad = dict.fromkeys(GOOD, -1.0)
    for name in order:
        assert f"{name} -1.000 is below" in (verdict(picture_row(scores=bad), SETTINGS) or "")
        bad[name] = 1.0
    assert verdict(picture_row(scores=bad), SETTINGS) is None
    assert verdict(original_row(scores={}), SETTINGS) is None


def test_thresholds_that_can_reject_something() -> None:
    lenient = CheckSettings(1, "{label}", 1.0).having(
        min_image_text=-1, min_directional=-1, min_image_image=-0.99, min_edit=0, min_label=-1, min_layout=0.01
    )
    assert lenient.strict == {"min_layout": 0.01, "min_image_image": -0.99}
    assert lenient.having(max_perplexity=20.0, min_text_caption=-1.0).strict == {
        "min_layout": 0.01,
        "min_image_image": -0.99,
        "max_perplexity": 20.0,
    }
    assert len(SETTINGS.strict) == 6
    for name in SETTINGS.strict:
        assert SETTINGS.having(**{name: None}).strict == {k: v for k, v in SETTINGS.strict.items() if k != name}


def test_reasons_name_the_check() -> None:
    for name in GOOD:
        assert failed_check(verdict(row(**{name: -1.0}), SETTINGS) or "") == name
    odd = Edit("weather", "dry: edit 0.1 is below 0.2", "a sign: 'open'\nlayout")
    reason = verdict(replace(row(edit=0.3), edits=(odd,), edit_scores=(0.3,)), SETTINGS)
    assert failed_check(reason or "") == "edit"
    assert failed_check("reads badly: perplexity 30.5 is above 20.000") == "perplexity"
    assert failed_check("somebody's own words") == "somebody's own words"


def test_the_edit_that_shows_least_is_named() -> None:
    edits = (Edit("weather", "dry", "snowy"), Edit("colour", "red", "blue"), Edit("time", "day", "night"))
    one = replace(row(edit=0.3), edits=edits, edit_scores=(0.5, 0.3, 0.9))
    assert verdict(one, SETTINGS) == "'blue' does not show in place of 'red': edit 0.300 is below 0.600"
    dull = replace(one, scores=GOOD | {"recoloured": 0.2}, edit_scores=(0.5, 0.8, 0.4))
    colours = set_least("recoloured", 0.3)
    assert verdict(dull, colours) == "'blue' does not show in place of 'red': recoloured 0.200 is below 0.300"
    alike = replace(one, edit_scores=(0.5, 0.3, 0.3))
    assert verdict(alike, SETTINGS) == verdict(one, SETTINGS), "of equal ones the first"
    added, removed = Edit("weather", "", "in the snow"), Edit("object", "the dog", "")
    for edit, said in ((added, "'in the snow' does not show"), (removed, "'the dog' still shows")):
        bad = replace(row(edit=0.3), edits=(edit,), edit_scores=(0.3,))
        assert verdict(bad, SETTINGS) == f"{said}: edit 0.300 is below 0.600"


def test_thresholds_decide_no_score() -> None:
    thresholds = {name: 1.0 if "text" in name or name.startswith("max_") else 0.5 for name in threshold_names()}
    assert len(thresholds) == 28
    parts = (ValidPart("label", ("said_label",), (1.0,), 0.5),)
    assert changed(SETTINGS, **thresholds, valid=parts).measures == SETTINGS.measures
    others: dict[str, Any] = {"batch": 5, "label_prompt": "a {label}", "logit_scale": 10.0}
    assert all(changed(SETTINGS, **{name: value}).measures != SETTINGS.measures for name, value in others.items())


# The score "valid": a product of logistic parts, by hand.


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
