"""`counterfactory retrain`: its options arrive at the training program, which is another process; see wiring.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from training_suites import colour_suite, networks_module, recipe_file

from counterfactory.engine.cli import retrain
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import read_metadata
from counterfactory.engine.training.lesson import Lesson, answers_of, read_lesson


class Trained:
    """Stands for the training program: it answers every picture rightly after training with variants, as buses else."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.lessons: list[Lesson] = []

    def __call__(self, command: Sequence[str], *_: Any) -> None:
        self.commands.append(list(command[2:]))
        folder = Path(command[4])
        lesson = read_lesson(folder)
        self.lessons.append(lesson)
        for arm in lesson.arms:
            for seed in lesson.seeds:
                labels = [lesson.classes[one.target or 0] if arm == "after" else "bus" for one in lesson.held]
                pairs = zip((one.file_name for one in lesson.held), labels, strict=True)
                place = answers_of(folder, arm, seed)
                place.mkdir(parents=True)
                lines = ["image,prediction", *(f"{name},{label}" for name, label in pairs)]
                (place / "answers.csv").write_text("\n".join(lines))


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    program = Trained()
    monkeypatch.setattr(retrain, "run_program", program)
    monkeypatch.setattr(retrain, "missing_modules", lambda *_: [])
    return program


def words(folder: Path, *more: str | Path) -> list[str | Path]:
    """The command on a suite of eight sources."""
    suite = folder / "suite"
    if not suite.exists():
        colour_suite(suite)
    return ["retrain", suite, "--model", "m:net", "--out", folder / "out", "--recipe", recipe_file(folder), *more]


def test_a_lesson_is_written_and_its_answers_are_judged(tmp_path: Path, trained: Trained, run: Command) -> None:
    data = run.json(*words(tmp_path, "--seeds", "2", "--seed", "5", "--device", "cuda:1"))
    (lesson,) = trained.lessons
    assert trained.commands == [["counterfactory.export", "retrain", str(tmp_path / "out"), "--device", "cuda:1"]]
    assert (lesson.model, lesson.seeds, lesson.recipe.name) == ("m:net", (5, 6), "small")
    assert [one["gap"]["name"] for one in data["sides"]] == ["originals", "variants"]
    assert [one["gap"]["second"] for one in data["sides"]] == [1, 1]
    assert (data["trained"], data["held"], data["given"], data["left_out"]) == ([6, 6], 2, None, 0)
    assert not any(one["certain"] for one in data["sides"]), "two sources tell nothing"


def test_a_module_of_ones_own_is_shown_as_it_came(tmp_path: Path, trained: Trained, run: Command) -> None:
    data = run.json(*words(tmp_path, "--recipe", recipe_file(tmp_path, start="given")))
    assert data["given"] == [0.5, 0.5, 0.5]


def test_what_is_trained_does_not_go_into_the_suite(tmp_path: Path, trained: Trained, run: Command) -> None:
    run.refuses("lies in the suite", *words(tmp_path, "--out", tmp_path / "suite" / "models"))
    assert not (tmp_path / "suite" / "models").exists()


def test_epochs_and_shares_arrive(tmp_path: Path, trained: Trained, run: Command) -> None:
    run.json(*words(tmp_path, "--epochs", "7", "--held", "0.5"))
    (lesson,) = trained.lessons
    assert (lesson.recipe.rate.epochs, len(lesson.originals)) == (7, 4)


def test_another_suite_judges(tmp_path: Path, trained: Trained, run: Command) -> None:
    test = colour_suite(tmp_path / "test", 4, first=6)
    data = run.json(*words(tmp_path, "--test", test))
    assert (data["trained"], data["held"], data["left_out"]) == ([8, 8], 2, 2)
    both = words(tmp_path, "--test", test, "--held", "0.5")
    run.refuses("--held is of SUITE's own sources, and --test names another suite: give one of them", *both)


def test_groups_are_on_one_side(tmp_path: Path, trained: Trained, run: Command) -> None:
    run.refuses("has sources of one group", *words(tmp_path, "--group-by", "label"))
    assert run.json(*words(tmp_path, "--group-by", "none"))["held"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--recipe", "resnet"), "there is no recipe 'resnet'"),
        (("--model", "model.onnx"), "--model model.onnx: what trains is a name after timm: or torchvision:, or module"),
        *((("--model", name), "what trains is") for name in ("hf:google/vit-base", "timm:")),
        *((("--held", share), f"--held is a share above 0 and below 1, got {share}") for share in ("0", "1")),
    ],
)
def test_wrong_words_are_one_sentence_and_nothing_is_written(
    tmp_path: Path, trained: Trained, run: Command, options: tuple[str, ...], message: str
) -> None:
    run.refuses(message, *words(tmp_path, *options))
    assert not (tmp_path / "out").exists()
    assert not trained.commands


def test_without_its_packages_it_says_how_to_install_them(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.setattr(retrain, "missing_modules", lambda *_: ["accelerate"])
    run.refuses("package accelerate, which is not installed: pip install 'counterfactory[retrain]'", *words(tmp_path))
    assert not (tmp_path / "out").exists()


def test_a_training_that_fails_leaves_the_suite_as_it_was(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    suite = colour_suite(tmp_path / "suite")
    before = {path: path.read_bytes() for path in suite.rglob("*") if path.is_file()}

    def fail(*_: Any) -> None:
        raise CounterfactoryError("--device cuda: torch sees no GPUs here")

    monkeypatch.setattr(retrain, "run_program", fail)
    run.refuses("torch sees no GPUs", *words(tmp_path))
    assert {path: path.read_bytes() for path in suite.rglob("*") if path.is_file()} == before


def test_what_may_be_claimed_is_said(tmp_path: Path, trained: Trained, run: Command) -> None:
    colour_suite(tmp_path / "suite", 40)
    status, said, _ = run(*words(tmp_path))
    assert status == 0
    assert "DILLEMA, retraining: accuracy on 10 held-out sources" in " ".join(said.split())
    assert "variants: training with variants gains 50.0 points of accuracy" in said
    assert "mean of 3 seeds" in " ".join(said.split())
    status, said, _ = run(*words(tmp_path, "--seeds", "1", "--out", tmp_path / "one"))
    assert status == 0
    assert "mean of" not in said
    assert said.count("no gain is claimed: one seed says nothing of others") == 3


def test_two_seeds_are_averaged_and_two_sources_tell_nothing(tmp_path: Path, trained: Trained, run: Command) -> None:
    said = " ".join(run.text(*words(tmp_path, "--seeds", "2")).split())
    assert "on 2 held-out sources, mean of 2 seeds; trained on 6 originals, with 6 variants" in said
    assert "variants: no gain is claimed: +50.0 (−100.0 … +100.0)" in said


@pytest.mark.slow
def test_a_model_is_retrained_and_told_of(tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program itself, with torch, twice: the second time nothing is left to train."""
    suite, name = colour_suite(tmp_path / "suite", 24), networks_module(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("retrain", suite, "--model", f"{name}:classifier", "--out", tmp_path / "out")
    more = ("--recipe", recipe_file(tmp_path), "--epochs", "12", "--device", "cpu", "--seeds", "1")
    results = [run.json(*words, *more) for _ in range(2)]
    assert results[0] == results[1]
    assert results[0]["sides"][1]["gap"]["second"] > 0.6
    assert len(read_metadata(suite)) == 48
    other = (*words[:3], f"{name}:five", "--out", tmp_path / "other", *more)
    run.refuses("give a model with a head for these", *other)
