"""Tasks: the built-in ones, a user's own, the words of a label, and the check that a protected word survived."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.english.label_names import label_words
from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.engine.english.nouns import load_nouns
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.tasks.task import Task, builtin_task
from counterfactory.engine.tasks.user_task import load_task

FILE = 'name = "birds"\nsentence = "name the bird"\nprotect = ["bird", "wing tips"]\nprotect_label = true\n'


def test_classification_protects_the_label_and_names_the_set_s_classes() -> None:
    task = builtin_task("classification", ["bus", "fire_truck", "n02084071", "bus"])
    assert task == Task("classification", "tell which of these the image shows: bus, fire truck, dog", (), True)
    assert task.protected("fire_truck") == ("fire truck",)
    assert task.protected(None) == ()
    assert builtin_task("classification").sentence == "tell what the image shows"


def test_of_many_classes_the_sentence_says_the_kind_and_each_source_s_own() -> None:
    breeds = [f"n0{number}" for number in range(2099267, 2113978) if f"n0{number}" in load_nouns()]
    breeds = [key for key in breeds if load_nouns()[key].definition]
    assert len(breeds) > 50
    task = builtin_task("classification", breeds)
    assert task.sentence == f"tell which of {len(breeds)} kinds of dog the image shows: here it is {{label}}"
    assert task.sentence_for("n02099601").endswith("kinds of dog the image shows: here it is golden retriever")
    assert task.sentence_for(None).endswith("here it is its label")
    at_most = builtin_task("classification", breeds[:20])
    assert at_most.sentence.count(", ") == 19
    mixed = builtin_task("classification", [*breeds, "bus", "n00000000"])
    assert "kinds of thing the" in mixed.sentence


def test_segmentation_and_detection_name_the_classes_that_are_shown() -> None:
    segment = builtin_task("segmentation", ["car", "traffic light", "void", "TrafficLight"])
    assert segment.sentence == "segment the image into car, traffic light"
    assert not segment.protect_label
    assert {"car", "taxi", "stoplight"} <= set(segment.protect)
    assert "void" not in segment.protect
    detect = builtin_task("detection", ["car", "dog"])
    assert (detect.name, detect.sentence) == ("detection", "find and box every car, dog")
    assert not detect.protect_label
    assert builtin_task("detection", ["n01440764 tench, Tinca tinca"]).sentence == "find and box every tench"
    assert builtin_task("segmentation").sentence == "segment the image into its classes"
    assert builtin_task("detection").sentence == "find and box every object of its classes"


def test_the_street_tasks_are_the_pocket_model_s_sentences() -> None:
    assert street_task("classification").sentence == "classify the vehicle in the image"
    assert street_task("classification").protected("bus") == ("bus",)
    segmentation = street_task("segmentation")
    assert segmentation.protected("car") == segmentation.protect
    assert {"car", "nobody", "sidewalk"} <= set(segmentation.protect)
    assert street_task("detection") == replace(segmentation, name="detection")
    with pytest.raises(
        CounterfactoryError, match="the pocket models know no task 'detecton'; did you mean 'detection'"
    ):
        street_task("detecton")


def test_another_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(CounterfactoryError, match="did you mean 'segmentation'"):
        builtin_task("segmentaton")
    with pytest.raises(CounterfactoryError, match="classification, segmentation, detection"):
        builtin_task("xyz")


def test_a_task_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text(FILE)
    task = load_task(path).task
    assert task == Task("birds", "name the bird", ("bird", "wing tips"), True)
    assert task.protected("Bird") == ("bird", "wing tips")
    assert task.protected("001.Black_footed_Albatross") == ("bird", "wing tips", "Black footed Albatross")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("protect_label = true\n", "", "key 'protect_label' is missing"),
        ("protect =", "protects =", "unknown key 'protects'; did you mean 'protect'"),
        ("protect_label = true", "protect_label = 1", "'protect_label' should be true or false, found 1"),
        ('["bird", "wing tips"]', '"bird"', "'protect' should be a list, each item text, found 'bird'"),
        ('"wing tips"', "3", r"'protect\[1\]' should be text, found 3"),
        ('"wing tips"', '" - "', "no letters or digits"),
        ('"name the bird"', '" "', "sentence is empty"),
        ('"birds"', '"birds', "not valid TOML"),
    ],
)
def test_a_wrong_task_file_is_named_with_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "task.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(CounterfactoryError, match=message) as caught:
        load_task(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("bus", ("bus",)),
        ("fire_truck", ("fire truck",)),
        ("n01440764 tench, Tinca tinca", ("tench", "Tinca tinca")),
        ("n01440764_tench", ("tench",)),
        ("n01440764", ("tench", "Tinca tinca")),
        ("n00000000", ()),
        ("001.Black_footed_Albatross", ("Black footed Albatross",)),
        ("crane (bird)", ("crane",)),
        ("7", ("7",)),
        ("50.5", ("50.5",)),
        (" , ", ()),
        ("", ()),
        ("mail truck,  mail_truck", ("mail truck",)),
        ("n1 road", ("n1 road",)),
        ("Bäckerei", ("Bäckerei",)),
    ],
)
def test_the_words_of_a_label(label: str, words: tuple[str, ...]) -> None:
    assert label_words(label) == words


@pytest.mark.parametrize(
    ("before", "after", "words", "broken"),
    [
        ("a red car at night", "a blue car at night", ["car"], None),
        ("a red car", "a red bus", ["car"], "car"),
        ("a red bus", "a red car", ["car"], "car"),
        ("a red Car.", "a CAR, red", ["car"], None),
        ("a car", "two cars", ["car"], "car"),
        ("a car", "a car among cars", ["car"], "car"),
        ("a car", "a car and a car", ["car"], "car"),
        ("a car", "a car on red carpet with a scar", ["car"], None),
        ("trees on both sides", "a tree on one side", ["trees"], "trees"),
        ("a street", "a street with a tree", ["trees"], "trees"),
        ("a street with a bus", "a street with buses", ["bus"], "bus"),
        ("a lady", "ladies", ["lady"], "lady"),
        ("a red fire truck", "a yellow fire-truck", ["fire truck"], None),
        ("a red fire truck", "a fire in a truck", ["fire truck"], "fire truck"),
        ("a tinca tinca", "a perch", ["tench", "Tinca tinca"], "Tinca tinca"),
        ("the car's lights", "the lights", ["car"], "car"),
        ("car car", "car", ["car"], "car"),
        ("a car", "a bus", [], None),
        ("a car", "a bus", ["bus", "car"], "bus"),
        ("eine B\u00e4ckerei", "eine Ba\u0308ckerei", ["b\u00e4ckerei"], None),
        ("c++ (sign)", "a sign", ["c++"], "c++"),
        ("", "", ["car"], None),
        ("a cap", "a cap, capes", ["cap"], None),
        ("grass, gras", "grass", ["grass"], None),
    ],
)
def test_a_broken_word(before: str, after: str, words: list[str], broken: str | None) -> None:
    assert changed_protected_word(before, after, words) == broken


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.sampled_from(EMBEDDED.kinds), st.sampled_from(EMBEDDED.kinds))
def test_a_vehicle_that_changes_its_kind_is_always_found(seed: int, old: str, new: str) -> None:
    rng = np.random.default_rng(seed)
    caption = EMBEDDED.describe(EMBEDDED.sample(rng), rng)
    edited = caption.replace(f" {old} ", f" {new} ").replace(f" {old}.", f" {new}.")
    assert (changed_protected_word(caption, edited, EMBEDDED.kinds) is None) == (caption == edited)


@settings(max_examples=40)
@given(st.text(), st.text(), st.lists(st.text(min_size=1)))
def test_an_unchanged_caption_breaks_nothing_either_way(before: str, after: str, words: list[str]) -> None:
    assert changed_protected_word(before, before, words) is None
    assert changed_protected_word(before, after, words) == changed_protected_word(after, before, words)
