"""What an editor is told, edit by edit, and what it is told to keep."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.server.instructions import UNCHANGED, instruction

KEEP = "Keep everything else exactly as and where it is."
STREET = "a red double-decker bus on a sunny street at noon"
DOG = "a photo of a brown dog chasing a ball on the grass"


@pytest.mark.parametrize(
    ("caption", "edit", "sentence"),
    [
        # The weather.
        (STREET, ("weather", "sunny", "foggy"), "Change the weather from sunny to foggy."),
        ("bus on a sunny day", ("weather", "on a sunny day", "rainy"), "Change the weather from a sunny day to rainy."),
        ("Sunny street", ("weather", "Sunny", "misty"), "Change the weather from sunny to misty."),
        ("bus in the rain", ("weather", "in the rain", "in fog"), "Show the same scene in fog instead of in the rain."),
        (DOG, ("weather", "", "foggy"), "Make it look foggy."),
        (DOG, ("weather", "", "fog"), "Show the same scene in the fog."),
        (DOG, ("weather", "", "in foggy weather"), "Show the same scene in foggy weather."),
        ("a bus in the rain", ("weather", "in the rain", ""), "Remove the rain."),
        ("a rainy street", ("weather", "rainy", ""), "Make the street look no longer rainy."),
        # The time, the light, the camera.
        ("a bus by day", ("time", "day", "night"), "Change the time of day from day to night."),
        (STREET, ("time", "at noon", "night"), "Change the time of day from noon to night."),
        (STREET, ("time", "at noon", "late at night"), "Show the same scene late at night instead of at noon."),
        (DOG, ("time", "", "night"), "Make it night."),
        (DOG, ("time", "", "at night"), "Show the same scene at night."),
        (STREET, ("time", "at noon", ""), "Show the same scene, but not at noon."),
        (DOG, ("light", "", "lit from behind"), "Show the same scene lit from behind."),
        (DOG, ("light", "", "with long shadows"), "Add long shadows."),
        ("a dog in dim light", ("light", "dim", "bright"), "Change the light from dim to bright."),
        # Colours and other qualities of things.
        (STREET, ("colour", "red", "blue"), "Make the red double-decker bus blue."),
        ("Two red buses on a road", ("colour", "red buses", "blue buses"), "Make the two red buses blue."),
        (DOG, ("colour", "ball", "yellow ball"), "Make the ball yellow."),
        ("the bus is red", ("colour", "red", "blue"), "Change the colour from red to blue."),
        (DOG, ("adjective", "brown", "spotted"), "Make the brown dog spotted."),
        (DOG, ("adjective", "brown dog", "small brown dog"), "Make the brown dog small."),
        ("a dog is wet", ("adjective", "wet", "dry"), "Make what is wet dry."),
        (DOG, ("subject", "dog", "wet dog"), "Make the dog wet."),
        (DOG, ("subject", "dog", "puppy"), "Turn the dog into a puppy."),
        # Things.
        (DOG, ("object", "ball", "apple"), "Replace the ball with an apple."),
        ("a dog chasing a red ball", ("object", "ball", "frisbee"), "Replace the ball with a frisbee."),
        ("a dog chasing two balls", ("object", "balls", "sticks"), "Replace the two balls with two sticks."),
        ("a dog eats grass", ("object", "grass", "sand"), "Replace the grass with sand."),
        ("a man with his hat", ("object", "hat", "umbrella"), "Replace his hat with his umbrella."),
        ("a dog with a ball", ("object", "with a ball", "with a stick"), "Replace the ball with a stick."),
        ("a dog with a ball", ("object", "with a ball", ""), "Remove the ball."),
        ("a dog next to a bus", ("object", "next to a bus", ""), "Remove the bus."),
        (DOG, ("object", "", "with a red ball"), "Add a red ball."),
        (DOG, ("object", "", "with umbrella"), "Add an umbrella."),
        # The place, the kind of picture, all else.
        (DOG, ("background", "on the grass", "on sand"), "Show the same scene on sand instead of on the grass."),
        (DOG, ("background", "grass", "beach"), "Change the background from the grass to the beach."),
        (DOG, ("background", "", "with mountains in the background"), "Add mountains in the background."),
        (DOG, ("background", "", "in a desert"), "Show the same scene in a desert."),
        (DOG, ("domain", "a photo", "oil painting"), "Turn the photo into an oil painting."),
        (STREET, ("domain", "", "a pencil sketch of"), "Turn the picture into a pencil sketch."),
        (DOG, ("other", "", "with confetti in the air"), "Add confetti in the air."),
        (DOG, ("other", "dog", "dog in a collar"), "Show the dog in a collar."),
        ("cats chasing.", ("other", "chasing", "seeing"), 'Change the picture from "cats chasing" to "cats seeing".'),
        ("a dog", ("other", "sleeping", "running"), 'Show "running" in place of "sleeping".'),
        # A type of the user's own.
        (DOG, ("lens", "", "in soft focus"), "Show the same scene in soft focus."),
        (DOG, ("lens", "on the grass", "on dark grass"), "Show the same scene on dark grass instead of on the grass."),
    ],
)
def test_an_edit_is_told_in_a_sentence(caption: str, edit: tuple[str, str, str], sentence: str) -> None:
    assert instruction(caption, [Edit(*edit)], ()) == f"{sentence} {KEEP}"


def test_what_names_the_label_is_kept_above_all() -> None:
    foggy, blue = Edit("weather", "sunny", "foggy"), Edit("colour", "red", "blue")
    fog, paint = "Change the weather from sunny to foggy.", "Make the red double-decker bus blue."
    where = "exactly as and where it is."
    assert instruction(STREET, [foggy], ["bus"]) == f"{fog} Keep everything else, above all the bus, {where}"
    assert (
        instruction(STREET, [foggy], ["bus", "street", "car", "bus"])
        == f"{fog} Keep everything else, above all the bus, the street and the car, {where}"
    )
    # A thing cannot stay as it is and change its colour.
    kept = "Keep the kind, shape and place of the bus, and everything else, above all the street,"
    assert instruction(STREET, [foggy, blue], ["bus", "street"]) == f"{fog} {paint} {kept} {where}"


def test_a_picture_from_elsewhere_keeps_no_places() -> None:
    above = Edit("camera", "", "seen from above")
    kept = "of the scene, above all the dog, exactly as it is."
    assert instruction(DOG, [above], ["dog"]) == f"Show the same scene seen from above. Keep everything {kept}"
    small = Edit("adjective", "brown", "small")
    assert instruction(DOG, [small, above], ["dog"]) == (
        "Make the brown dog small. Show the same scene seen from above. "
        "Keep the kind and shape of the dog, and everything of the scene exactly as it is."
    )


def test_a_thing_is_added_next_to_the_label() -> None:
    beside = Edit("object", "", "next to a red bicycle")
    assert instruction(DOG, [beside], ["dog"]).startswith("Add a red bicycle next to the dog. ")
    assert instruction(DOG, [beside], ()) == f"Add a red bicycle. {KEEP}"


def test_a_control_changes_nothing() -> None:
    assert instruction(STREET, [], ["bus"]) == UNCHANGED
    assert UNCHANGED.startswith("Return the picture unchanged")


WORDS = st.text("aeinrst AE,'-\n", min_size=1, max_size=20).filter(str.strip)


@given(
    st.sampled_from([*EDIT_TYPES, "lens"]),
    st.one_of(st.just(""), WORDS, st.sampled_from(["a dog", "in the rain", "red", "with", "two cats", "at"])),
    st.one_of(WORDS, st.sampled_from(["a cat", "on sand", "blue", "next to", "a drawing of", "an"])),
    st.sampled_from(["", STREET, DOG, "in the rain a dog, with two cats at dawn."]),
    st.lists(st.sampled_from(["dog", "bus", "red"]), max_size=3),
)
def test_any_edit_is_told_in_one_line(type_: str, old: str, new: str, caption: str, protected: list[str]) -> None:
    told = instruction(caption, [Edit(type_, old, new)], protected)
    assert re.fullmatch(r"[A-Z].*[^ ] Keep [^.]+ it is\.", told), told
    assert not re.search(r"\s\s|\s\.|\n", told), told
    assert all(re.search(rf"\bthe {word}\b", told) for word in protected)
