"""Scores of pictures, and the verdict that thresholds make of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from checks import changed
from numpy.typing import NDArray
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.check import SCORES, CheckSettings, ValidPart, threshold_names
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.clip_scores import by_type, edit_scores, label_score, score
from counterfactory.engine.stages.check.quality import (
    distance,
    look_at_source,
    outlined_share,
    quality_scores,
    small_outlines,
    thumbnail,
)
from counterfactory.engine.stages.check.verdict import (
    failed_check,
    failing,
    part_probabilities,
    valid_score,
    verdict,
    with_valid,
)
from counterfactory.engine.stages.check.visibility import see_source, visibility_scores
from counterfactory.engine.stages.run import Classes

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
    "intact": (0.1, "parts are black or flat that are not in its source: intact 0.090 is below 0.100"),
    "visible": (0.1, "what is labelled is hardly to be seen any more: visible 0.090 is below 0.100"),
    "sharp": (0.3, "blurred against its source: sharp 0.290 is below 0.300"),
    "changed": (0.1, "nearly the same as its source: changed 0.090 is below 0.100"),
    "distinct": (0.1, "nearly the same as another variant of its source: distinct 0.090 is below 0.100"),
    "in_place": (0.9, "the picture has moved against its source: in_place 0.890 is below 0.900"),
    "aligned": (0.5, "outlines are not its source's: aligned 0.490 is below 0.500"),
    "kept": (0.5, "a colour that no edit names is lost: kept 0.490 is below 0.500"),
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
NOT_OF_ALL |= {"recall", "label", "layout", "in_place", "aligned", "kept", "visible"}
NOT_OF_CONTROLS = {"directional", "edit", "nearer", "changed", "recoloured", "kept"}


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
    wider = lenient.having(max_perplexity=20.0, min_text_caption=-1.0)
    assert wider.strict == lenient.strict | {"max_perplexity": 20.0}


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
    assert len(thresholds) == 31
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
    # What a picture does not have says nothing.
    assert valid_score({"layout": 0.8}, (COLOUR, LABEL, LAYOUT)) == 0.8, "no colour was edited, nothing is labelled"
    alone = pytest.approx(logistic(1 + math.log(3) / 2))
    assert part_probabilities({"edit_colour": 0.75}, (COLOUR,)) == {"colour": alone}
    assert valid_score({"edit": 0.8}, (COLOUR, LABEL, LAYOUT)) is None
    types, of_edits = ["colour", "weather", "colour"], [0.3, 0.9, 0.6]
    assert by_type("edit", types, of_edits) == {"edit_colour": 0.3, "edit_weather": 0.9}, "the worst edit of a type"


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
    colour, label = (reason(**good | {name: 0.01}) or "" for name in ("said_colour", "said_label"))
    assert colour.startswith("'blue bus' does not show in place of 'red bus': valid 0.0"), colour
    assert label.startswith("'bus' may not show any more: valid 0.00"), label
    assert reason(**good | {"layout": 0.2}) == "outlines have left the mask's: valid 0.199 is below 0.500"


def test_the_score_is_the_settings_own() -> None:
    scores = {"layout": 0.8, "valid": 0.1}
    assert with_valid("variant", scores, settings()) == {"layout": 0.8, "valid": 0.8}
    assert with_valid("variant", scores, settings(valid=None, least={})) == {"layout": 0.8}
    assert with_valid("control", scores, settings()) == {"layout": 0.8}


# Scores of pictures by hand: CLIP's, those of pixels, and layout.

# Unit vectors of the plane: source image, source text, variant image, variant text; then the scores.
BY_HAND = {
    # .6 * .8 + .8 * .6; images move by (-.4, .8) and texts by (.8, -.4), each of length sqrt .8: -.64 / .8; .6
    "moves against the text": ((1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (0.8, 0.6), 0.96, -0.8, 0.6, 0.0, 0.16),
    # images move by (-1, 1), texts too
    "moves with the text": ((1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0), 1.0, 1.0, 0.0, 1.0, 1.0),
    # images move by (-1, 1), texts by (1, 1)
    "moves across the text": ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, 1.0), 1.0, 0.0, 0.0, -1.0, 1.0),
    # images move by (-1, 1), texts by (-.2, 1.4) from (.8, -.6): 1.6 / (sqrt 2 * sqrt 2)
    "moves aslant": ((1.0, 0.0), (0.8, -0.6), (0.0, 1.0), (0.6, 0.8), 0.8, 0.8, 0.0, 0.8, 1.4),
    # nothing to compare with: no direction is no likeness
    "does not move": ((0.6, 0.8), (0.0, 1.0), (0.6, 0.8), (1.0, 0.0), 0.6, 0.0, 1.0, 0.8, -0.2),
    "has the same text": ((1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0), -1.0, 0.0, 0.0, 0.0, 0.0),
}


def vectors(worked: tuple[Any, ...]) -> list[np.ndarray]:
    """Source, caption, picture, edited caption, as `score` takes them."""
    return [np.array(worked[i], np.float32) for i in range(4)]


@pytest.mark.parametrize("worked", BY_HAND.values(), ids=BY_HAND)
def test_scores_are_those_worked_by_hand(worked: tuple[Any, ...]) -> None:
    found = score(*vectors(worked))
    assert list(found) == ["image_text", "directional", "image_image", "source_text", "nearer"]
    assert list(found.values()) == pytest.approx(worked[4:], abs=1e-6)  # float32's and the six digits'
    source, caption, picture, edited = vectors(worked)
    longer = score(source, caption, picture, 3 * edited)["image_text"]
    assert longer == pytest.approx(worked[4], abs=1e-6), "likeness does not depend on length"


def test_scores_have_six_digits() -> None:
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, (50, 4))
    units = np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32)
    values = [value for worked in units for value in score(*worked).values()]
    values += [edit_scores(worked[0], [(worked[1], worked[2])], 3.0)[0] for worked in units]
    values += [label_score(worked[:2], worked[2:], 0, 3.0) for worked in units]
    assert all(value == round(value, 6) for value in values)
    assert sum(value != round(value, 5) for value in values) >= 200
    assert all(type(value) is float for value in values)


def plane(*angles: float) -> np.ndarray:
    """Unit vectors [N, 2] at so many degrees."""
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], -1).astype(np.float32)


def test_an_edit_s_score_is_the_share_of_its_text_of_the_two() -> None:
    (picture,), (near, far, opposite) = plane(0), plane(60, 90, 180)
    # cosines 0.5, 0 and -1: the logistic function of scale times their difference
    found = edit_scores(picture, [(near, far), (far, near), (near, near), (opposite, near)], 4.0)
    assert found == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(6))], abs=1e-6)
    assert edit_scores(picture, [], 4.0) == []
    assert edit_scores(picture, [(opposite, near), (near, opposite)], 1e4) == [0.0, 1.0], "no overflow"


def test_a_label_s_score_is_its_probability_less_the_least_of_the_others() -> None:
    classes = plane(0, 90, 180)
    picture, original, control = plane(90, 0, 60)

    def share(angle: float) -> float:
        powers = [math.exp(2 * math.cos(math.radians(angle - at))) for at in (0, 90, 180)]
        return powers[0] / sum(powers)

    assert label_score([picture, original], classes, 0, 2.0) == pytest.approx(share(90) - share(0), abs=1e-6)
    for others in ([original, control], [control, original]):
        assert label_score([picture, *others], classes, 0, 2.0) == pytest.approx(share(90) - share(60), abs=1e-6)
    assert label_score([original, original], classes, 0, 2.0) == 0.0
    assert label_score([original, picture], classes, 1, 2.0) < -0.4, "another class has another share"


# Sound pictures and faulty ones, told by their pixels.

Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module")
def street() -> Pixels:
    return np.asarray(EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(5))).picture)


def scores(picture: Pixels, source: Pixels) -> dict[str, float]:
    return quality_scores(picture, thumbnail(picture), look_at_source(source))


def flat(level: int) -> Pixels:
    return np.full((64, 96, 3), level, np.uint8)


def test_a_copy_is_as_sharp_as_its_source_and_blur_is_told_from_fog(street: Pixels) -> None:
    """Fog takes contrast from all of a picture, blur from its detail."""
    found = scores(street, street)
    assert (found["sharp"], found["changed"]) == (1.0, 0.0)
    assert list(found) == ["sharp", "changed"]
    blurred = np.asarray(cv2.GaussianBlur(street, (0, 0), 2))
    foggy = (street * 0.4 + 110).astype(np.uint8)
    assert scores(blurred, street)["sharp"] < 0.5
    assert scores(foggy, street)["sharp"] > 0.9
    assert scores(street, blurred)["sharp"] == 1.0, "sharper than its source is sharp"
    assert scores(blurred, flat(90)[:, :1].repeat(128, 1).repeat(2, 0))["sharp"] == 1.0, "a plain source"


def test_distances_are_shares_of_the_whole_range() -> None:
    black, white = thumbnail(flat(0)), thumbnail(flat(255))
    assert black.shape == (32, 48, 3)
    assert distance(black, white) == 1.0
    assert distance(black, thumbnail(flat(51))) == 0.2
    assert thumbnail(np.zeros((20, 400, 3), np.uint8)).shape == (20, 400, 3), "small pictures stay as they are"


# Layout: outlines where the mask changes its class.


def share(image: np.ndarray, mask: np.ndarray) -> float:
    return outlined_share(small_outlines(image), mask)


def scene(left: int, right: int, size: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A box on flat ground, as a picture and as a mask; sides in pixels of a picture of 128."""
    scale = size // 128
    mask = np.zeros((size, size), np.uint8)
    mask[40 * scale : 90 * scale, left * scale : right * scale] = 3
    image = np.where(mask[..., None] == 3, np.uint8(200), np.uint8(60)).repeat(3, axis=2)
    return np.ascontiguousarray(image), mask


@pytest.mark.parametrize("size", [128, 512])
def test_a_picture_that_keeps_its_outlines_agrees_at_any_size(size: int) -> None:
    image, mask = scene(30, 80, size)
    assert share(image, mask) > 0.9
    moved, _ = scene(30, 70, size)
    # Of four sides of 50, one is lost and two are 10 shorter.
    assert share(moved, mask) == pytest.approx(1 - 70 / 200, abs=0.06)
    assert share(np.full_like(image, 90), mask) == 0.0


def test_a_pixel_beside_is_near_two_are_not_and_fog_and_night_keep_their_outlines() -> None:
    image, mask = scene(30, 80)
    shares = [share(np.roll(image, shift, axis=(0, 1)), mask) for shift in range(-3, 4)]
    assert min(shares[3:5]) > 0.9
    assert max(shares[:2] + shares[6:]) < 0.1
    fog, night = (image * 0.1 + 200).astype(np.uint8), (image * 0.12).astype(np.uint8)
    assert min(share(fog, mask), share(night, mask)) > 0.9
    # Any mask is compared by where it changes.
    whole = share(image, mask)
    coloured = np.where(mask[..., None] == 3, np.array([0, 7, 9], np.uint8), np.array([0, 7, 8], np.uint8))
    assert share(image, coloured) == share(image, mask.astype(np.uint16) * 300) == whole
    assert share(image, np.zeros_like(mask)) == 1.0


def test_a_pixel_aslant_is_two() -> None:
    """A slanting side that is moved off its own line by a pixel across and a pixel down."""
    mask = np.tril(np.ones((128, 128), np.uint8))
    image = np.where(mask[..., None] == 1, np.uint8(200), np.uint8(60)).repeat(3, axis=2)
    moved = [share(np.ascontiguousarray(np.roll(image, way, axis=(0, 1))), mask) for way in ((0, 0), (1, -1), (-1, 1))]
    assert moved[0] > 0.9
    assert max(moved[1:]) < 0.6, moved


def test_outlines_of_a_large_picture_may_lie_a_little_to_either_side_and_finer_texture_has_none() -> None:
    image, mask = scene(30, 80, 1024)
    for shift in (-4, 4):  # half a pixel of the size that pictures are looked at
        for at in range(0, 8, 2):
            moved, where = np.roll(image, at + shift, axis=(0, 1)), np.roll(mask, at, axis=(0, 1))
            assert share(moved, where) > 0.9
    image[:] = 60
    image[:, ::7] = 200
    assert share(image, mask) == 0.0


# Classes of labels.


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["bus", "car", "bus", "fire_truck"], ("bus", "car", "fire truck")),
        (["n01440764 tench, Tinca tinca", "car"], ("car", "tench, Tinca tinca")),
        ([], ()),
        (["0", "17", "n01440764"], ()),
        (["0", "car", "bus", None], ("bus", "car")),
    ],
)
def test_classes_are_what_labels_name(labels: list[str | None], names: tuple[str, ...]) -> None:
    classes = Classes(labels)
    assert classes.names == names
    for label in labels:
        index = classes.index(label)
        assert index is None or label is None or names[index].split(",")[0] in label.replace("_", " ")
        assert (index is None) == (not names or label in (None, "0"))


@pytest.mark.parametrize("profile", ["a10g", "a10g-fast", "lance", "cpu", "light", "server", "given"])
def test_no_profile_of_photographs_takes_a_picture_that_is_none(profile: str) -> None:
    """Blank, black, burnt-out, the source itself, or another variant again: whatever CLIP makes of it."""
    check = load_profile(profile).check
    noise = np.random.default_rng(3).integers(0, 255, (128, 128, 3), np.uint8)
    source = cv2.GaussianBlur(noise, (0, 0), 4)
    source = np.asarray(cv2.normalize(source, np.zeros_like(source), 0, 255, cv2.NORM_MINMAX), np.uint8)
    look, sight, sound = look_at_source(source), see_source(source, (), None), source // 2 + 50

    def verdict_on(picture: NDArray[np.uint8], distinct: float = 1.0) -> object:
        quality = quality_scores(picture, thumbnail(picture), look) | visibility_scores(picture, sight)
        passing = dict.fromkeys((one.name for one in SCORES), 1.0) | dict.fromkeys(check.most, -1.0)
        return failing(passing | quality | {"distinct": distinct}, check, "variant")

    assert verdict_on(sound) is None
    for level in (0, 110, 255):
        assert verdict_on(np.full_like(source, level)) is not None
    assert verdict_on(source) is not None
    if load_profile(profile).painter_kind in ("diffusion", "inversion"):  # others give each value its picture
        assert verdict_on(sound, distinct=0.0) is not None
