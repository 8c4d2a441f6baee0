"""Tasks: the built-in ones, a user's own, the words of a label, and the check that a protected word survived."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.captions import describe
from counterfactory.engine.pocket.world import KINDS, sample_scene
from counterfactory.engine.tasks.task import Task, broken_word, builtin_task, label_words, load_task

FILE = 'name = "birds"\nsentence = "name the bird"\nprotect = ["bird", "wing tips"]\nprotect_label = true\n'


def test_the_built_in_tasks_protect_the_label() -> None:
    assert builtin_task("classification").protected("fire_truck") == ("fire truck",)
    assert builtin_task("classification").protected(None) == ()
    segmentation = builtin_task("segmentation").protected("car")
    assert segmentation == builtin_task("segmentation").protect
    assert {"car", "nobody", "sidewalk"} <= set(segmentation)


def test_another_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(CounterfactoryError, match="did you mean 'segmentation'"):
        builtin_task("segmentaton")
    with pytest.raises(CounterfactoryError, match="classification, segmentation"):
        builtin_task("xyz")


def test_a_task_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text(FILE)
    task = load_task(path)
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
        ("n01440764", ()),
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
    assert broken_word(before, after, words) == broken


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_a_vehicle_that_changes_its_kind_is_always_found(seed: int, old: str, new: str) -> None:
    rng = np.random.default_rng(seed)
    caption = describe(sample_scene(rng), rng)
    edited = caption.replace(f" {old} ", f" {new} ").replace(f" {old}.", f" {new}.")
    assert (broken_word(caption, edited, KINDS) is None) == (caption == edited)


@settings(max_examples=40)
@given(st.text(), st.text(), st.lists(st.text(min_size=1)))
def test_an_unchanged_caption_breaks_nothing_either_way(before: str, after: str, words: list[str]) -> None:
    assert broken_word(before, before, words) is None
    assert broken_word(before, after, words) == broken_word(after, before, words)
