"""What trained models' answers come to: gains that hold, and those that may not be claimed; without a training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from picture_rows import written
from training_suites import colour_suite, small_recipe

from counterfactory.engine.api import retraining
from counterfactory.engine.api.finished import evaluate
from counterfactory.engine.api.options import Caller
from counterfactory.engine.api.retraining import Drill, Retraining, judge_drill, plan_drill
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.engine.training.lesson import ArmName, answers_of

SILENT = Caller.of(None, lambda _: None)


def answered(drill: Drill, folder: Path, arm: ArmName, seed: int, right: float, kind: str = "") -> None:
    """A model that is right on this share of the pictures, or of those of a kind and on all others."""
    rng = np.random.default_rng((seed, len(arm)))
    place = answers_of(folder, arm, seed)
    place.mkdir(parents=True, exist_ok=True)
    lines = ["image,prediction,confidence"]
    for row in drill.held:
        known = rng.random() < right or (kind and row.kind != kind)
        lines.append(f"{row.file_name},{row.label if known else {'bus': 'car', 'car': 'bus'}[str(row.label)]},0.9")
    (place / "answers.csv").write_text("\n".join(lines))


def outcome(folder: Path, *rights: tuple[float, float], sources: int = 120) -> Retraining:
    """Of models that are right on these shares of variants before and after, a pair for each seed."""
    suite = colour_suite(folder / "suite", sources)
    seeds = tuple(range(len(rights)))
    drill = plan_drill(suite, "m:net", small_recipe(folder), None, 0.5, seeds)
    for seed, (before, after) in enumerate(rights):
        answered(drill, folder / "out", "before", seed, before, "variant")
        answered(drill, folder / "out", "after", seed, after, "variant")
    return judge_drill(drill, folder / "out", SILENT)


def test_a_gain_is_evaluates_own_difference(tmp_path: Path) -> None:
    retraining = outcome(tmp_path, (0.4, 0.95), (0.4, 0.95), (0.4, 0.95))
    originals, variants = retraining.sides
    assert (originals.gap.name, variants.gap.name) == ("originals", "variants")
    assert (originals.gap.first, originals.gap.second, originals.certain) == (1, 1, False)
    scores = [
        [
            evaluate(tmp_path / "suite", tmp_path / "out" / f"{arm}-{k}" / "answers.csv").evaluation.variants.score
            for k in range(3)
        ]
        for arm in ("before", "after")
    ]
    means = [np.mean([score.value for score in of]) for of in scores]
    assert [variants.gap.first, variants.gap.second] == pytest.approx(means)
    assert variants.certain
    assert not variants.harmful
    (night,) = retraining.by_type
    assert night.gap.name == "time"
    assert night.gap.effect.value == variants.gap.effect.value


def test_what_lies_inside_the_interval_is_not_claimed(tmp_path: Path) -> None:
    (_, variants) = outcome(tmp_path, (0.6, 0.66), (0.6, 0.66)).sides
    assert variants.gap.effect.low <= 0
    assert not variants.certain


def test_seeds_that_disagree_take_a_gain_away(tmp_path: Path) -> None:
    (_, variants) = outcome(tmp_path, (0.2, 0.99), (0.2, 0.99), (0.9, 0.6)).sides
    assert variants.gap.effect.value > 0.2
    assert variants.gap.effect.low < 0
    assert not variants.certain


def test_one_seed_claims_nothing(tmp_path: Path) -> None:
    (_, variants) = outcome(tmp_path, (0.01, 0.99)).sides
    assert variants.gap.effect.value > 0.9
    assert (variants.gap.effect.low, variants.gap.effect.high, variants.certain) == (None, None, False)


def test_a_loss_is_said(tmp_path: Path) -> None:
    (_, variants) = outcome(tmp_path, (0.95, 0.4), (0.95, 0.4), (0.95, 0.4)).sides
    assert variants.harmful
    assert not variants.certain


def test_nobody_who_trains_judges(tmp_path: Path) -> None:
    suite = colour_suite(tmp_path / "suite", 20)
    drill = plan_drill(suite, "m:net", small_recipe(tmp_path), None, 0.25, (0,))
    lesson = drill.lesson
    trained = {one.file_name.split("/", 1)[1] for one in (*lesson.originals, *lesson.variants)}
    held = {one.file_name.split("/", 1)[1] for one in lesson.held}
    assert not trained & held
    assert len(trained) + len(held) == 20
    assert (len(lesson.originals), len(lesson.variants), len(lesson.held)) == (16, 16, 8)
    assert {one.target for one in lesson.held} == {0, 1}
    assert lesson.steps_per_epoch == 8


def test_another_suite_judges_what_was_trained_on_all_of_this_one(tmp_path: Path) -> None:
    suite, test = colour_suite(tmp_path / "suite", 6), colour_suite(tmp_path / "test", 6, first=4)
    drill = plan_drill(suite, "m:net", small_recipe(tmp_path), test, 0.25, (0,))
    assert (len(drill.lesson.originals), drill.left_out, drill.suite) == (6, 2, test)
    assert {row.source for row in drill.held} == {f"{('bus', 'car')[k % 2]}/{k:04}" for k in range(6, 10)}
    assert {one.root for one in drill.lesson.held} == {str(test)}


def test_a_class_that_the_judging_suite_lacks_is_refused_though_files_have_the_same_names(tmp_path: Path) -> None:
    suite, test = colour_suite(tmp_path / "suite", 6), colour_suite(tmp_path / "test", 1, first=8)
    with pytest.raises(CounterfactoryError, match="no source that judges shows the class 'car'"):
        plan_drill(suite, "m:net", small_recipe(tmp_path), test, 0.25, (0,))


def test_suites_that_cannot_train_are_refused(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)

    def refuse(message: str, suite: Path, **words: object) -> None:
        asked = replace(recipe, **words) if words else recipe
        with pytest.raises(CounterfactoryError, match=message):
            plan_drill(suite, "m:net", asked, None, 0.25, (0,))

    refuse(
        "no accepted variants to train with: see why by `counterfactory check", colour_suite(tmp_path / "a", 8, False)
    )
    refuse("class 'car' has a single source", colour_suite(tmp_path / "b", 3))
    refuse("has no names of its masks' classes", colour_suite(tmp_path / "c", 4), task="segmentation")
    refuse("finished", tmp_path)
    one = colour_suite(tmp_path / "d", 8)
    last = max(row.source for row in read_metadata(one))
    written(one, list(alone(one, last)))
    refuse("has accepted variants of too few sources to train with some and to judge by others: make more", one)


def alone(suite: Path, source: str) -> Iterator[PictureRow]:
    """The suite's rows, where variants of a single source are accepted."""
    for row in read_metadata(suite):
        yield replace(row, reason="too dark") if row.kind == "variant" and row.source != source else row


def test_suites_of_masks_have_the_same_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite, test = colour_suite(tmp_path / "suite", 6), colour_suite(tmp_path / "test", 6, first=4)
    names = {suite: {1: "left", 0: "right"}, test: {0: "right", 1: "left"}}
    monkeypatch.setattr(retraining, "recorded_numbers", lambda folder: names[folder])
    recipe = small_recipe(tmp_path, task="segmentation")
    for judging in (None, test):
        lesson = plan_drill(suite, "m:net", recipe, judging, 0.25, (0,)).lesson
        assert (lesson.classes, lesson.numbers) == (("right", "left"), (0, 1))
    names[test] = {0: "right", 2: "left"}
    with pytest.raises(
        CounterfactoryError, match=f"the masks of {test} have other numbers or classes than those of {suite}"
    ):
        plan_drill(suite, "m:net", recipe, test, 0.25, (0,))
