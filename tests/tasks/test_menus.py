"""Menus: which edits of each type a small model may choose among for a caption."""

from __future__ import annotations

import re

import pytest

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.english.menus import OFFERED, has_menu, kept_phrases, menu, offer

DOG = "n02084071"


def olds(type_: str, caption: str, *keep: str) -> set[str]:
    return {old for old, _ in menu(type_, caption, keep, None)}


def news(type_: str, caption: str, *keep: str) -> set[str]:
    return {new for _, new in menu(type_, caption, keep, None)}


def test_every_type_has_edits_of_a_caption_that_names_its_thing() -> None:
    for caption in ("A dog.", "A small brown dog is lying on the grass in the rain at night.", "A photo of a dog"):
        for type_ in EDIT_TYPES:
            assert len(menu(type_, caption, ("dog",), DOG)) > 5, (type_, caption)
            assert has_menu(type_)
    assert not has_menu("mine")


@pytest.mark.parametrize(
    ("type_", "caption", "said"),
    [
        ("weather", "a dog in the rain.", {"in the rain"}),
        ("weather", "a sunny garden with a dog", {"sunny"}),
        ("weather", "a dog in the snow bank", {""}),
        ("time", "a dog at night, asleep", {"at night"}),
        ("time", "a night scene of a dog", {"night"}),
        ("background", "a dog on the green grass in a field.", {"on the green grass", "in a field"}),
        ("background", "a dog on top of a table", {"on top of a table"}),
        ("background", "a dog on a table top", {""}),
        ("background", "a dog with a plain white background.", {"with a plain white background"}),
        ("background", "a dog against the wall", {"against the wall"}),
        ("colour", "a brown dog and a Black cat", {"brown", "Black"}),
        ("colour", "a brown and white dog", {"white"}),
        ("adjective", "a small dog", {"small"}),
        ("adjective", "the dog is small", {"dog"}),
        ("adjective", "a striped dog", {"dog"}),
        ("light", "a dog", {""}),
        ("domain", "a dog", {""}),
        ("domain", "A close up of a dog", {"A close up"}),
    ],
)
def test_words_that_say_something_of_the_type_give_way_else_some_are_added(
    type_: str, caption: str, said: set[str]
) -> None:
    assert olds(type_, caption, "dog") == said


def test_what_is_kept_is_not_replaced_and_words_stand_before_all_of_a_name() -> None:
    assert olds("colour", "a black bear", "black bear") == {"black bear"}
    assert olds("background", "a dog on a snowy field", "field", "dog") == {""}
    assert "red soccer ball" in news("colour", "a soccer ball", "soccer ball", "ball")
    assert "dust-covered dog" in news("subject", "Dog on grass", "dog")
    assert "dust-covered SUV" in news("subject", "SUV on grass", "suv")


def test_nothing_names_the_label_or_makes_it_another_thing() -> None:
    bikes = menu("object", "a mountain bike", ("mountain bike",), "mountain bike")
    assert not any("bicycle" in new for _, new in bikes)
    assert any("bicycle" in new for _, new in menu("object", "a dog", ("dog",), DOG))
    bears = {new for _, new in menu("colour", "a bear", ("bear",), "bear")}
    assert "red bear" in bears
    assert bears.isdisjoint({"brown bear", "black bear"}), "kinds of their own"


def test_a_phrase_brings_something_new_and_no_word_for_the_same_size() -> None:
    assert news("adjective", "a little dog", "dog").isdisjoint({"small", "little", "tiny"})
    assert {"big", "old"} <= news("adjective", "a little dog", "dog")
    assert {"small", "clean", "wet"} <= news("adjective", "an Old dog", "dog")
    assert "old" not in news("adjective", "an Old dog", "dog")
    assert "in heavy rain" not in news("weather", "a dog in heavy rain", "dog")
    assert "a painting" not in {new for _, new in menu("domain", "a painting of a dog", ("dog",), None)}
    assert ("a photo", "a painting") in menu("domain", "a photo of a dog", ("dog",), None)
    for phrase in news("camera", "a dog"):
        assert phrase not in news("camera", phrase)
    assert menu("colour", "grass", (), None) == []


@pytest.mark.parametrize(
    ("caption", "keep", "found"),
    [
        ("Two Dogs and a dog", ("dog",), ["Dogs", "dog"]),
        ("a soccer ball by a ball", ("ball", "soccer ball"), ["soccer ball", "ball"]),
        ("a ball by a soccer ball", ("ball", "soccer ball"), ["ball", "soccer ball"]),
        ("a horse's mane, a horse-drawn cart", ("horse",), []),
        ("a cat", (), []),
    ],
)
def test_kept_phrases_are_the_caption_s_own(caption: str, keep: tuple[str, ...], found: list[str]) -> None:
    assert kept_phrases(caption, keep) == found


def test_a_sample_is_keyed_and_in_order() -> None:
    pairs = [("", f"phrase {i}") for i in range(30)]
    some = offer(pairs, "key")
    assert len(some) == OFFERED
    assert some == sorted(some, key=pairs.index)
    assert some == offer(pairs, "key")
    assert [pairs.index(pair) for pair in some] == [1, 13, 29], "the same on every machine, and next year"
    assert some != offer(pairs, "another")
    assert all(len(set(offer(pairs, str(key)))) == OFFERED for key in range(20))
    assert offer(pairs[:OFFERED], "key") == pairs[:OFFERED]
    # What a model always likes best, such as the first on the menu, is a small share of its type.
    pairs = pairs[:16]
    assert sum(offer(pairs, str(key))[0] == pairs[0] for key in range(400)) / 400 < 0.25


def test_phrases_are_plain_words() -> None:
    for type_ in EDIT_TYPES:
        for _, new in menu(type_, "a dog", ("dog",), None):
            assert re.fullmatch(r"[a-z]+(?:[ -][a-z]+)*", new), new
            assert len(new.split()) <= 8
