"""`counterfactory retrain`: its options arrive at the training program, which is another process; see wiring.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from training_suites import colour_suite, networks_module, recipe_file
from wiring import options_by_command

from counterfactory.engine.cli import exporting
from counterfactory.engine.cli.arguments import main
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
    monkeypatch.setattr(exporting, "run_program", program)
    monkeypatch.setattr(exporting, "missing_modules", lambda *_: [])
    return program


def asked(folder: Path, *more: str | Path, capsys: Any = None, suite: Path | None = None) -> Any:
    """Runs the command on a suite of eight sources; its JSON, or what it says where `capsys` has to be read."""
    suite = suite or folder / "suite"
    if not suite.exists():
        colour_suite(suite)
    words = ["retrain", suite, "--model", "m:net", "--out", folder / "out", "--recipe", recipe_file(folder), *more]
    status = main([*map(str, words), "--json"])
    shown = capsys.readouterr() if capsys else None
    return (json.loads(shown.out) if status == 0 else (status, shown.err)) if shown else status


def test_every_option_is_tried_here() -> None:
    options = options_by_command()["retrain"] - {"SUITE", "--json"}
    text = Path(__file__).read_text()
    assert [name for name in sorted(options) if f'"{name}"' not in text] == []


def test_a_lesson_is_written_and_its_answers_are_judged(tmp_path: Path, trained: Trained, capsys: Any) -> None:
    data = asked(tmp_path, "--seeds", "2", "--seed", "5", "--device", "cuda:1", capsys=capsys)
    (lesson,) = trained.lessons
    assert trained.commands == [["counterfactory.export", "retrain", str(tmp_path / "out"), "--device", "cuda:1"]]
    assert (lesson.model, lesson.seeds, lesson.recipe.name) == ("m:net", (5, 6), "small")
    assert [one["gap"]["name"] for one in data["sides"]] == ["originals", "variants"]
    assert [one["gap"]["second"] for one in data["sides"]] == [1, 1]
    assert (data["trained"], data["held"], data["given"], data["left_out"]) == ([6, 6], 2, None, 0)
    assert not any(one["certain"] for one in data["sides"]), "two sources tell nothing"


def test_a_module_of_ones_own_is_shown_as_it_came(tmp_path: Path, trained: Trained, capsys: Any) -> None:
    data = asked(tmp_path, "--recipe", recipe_file(tmp_path, start="given"), capsys=capsys)
    assert data["given"] == [0.5, 0.5, 0.5]


def test_what_is_trained_does_not_go_into_the_suite(tmp_path: Path, trained: Trained, capsys: Any) -> None:
    status, err = asked(tmp_path, "--out", tmp_path / "suite" / "models", capsys=capsys)
    assert status == 2
    assert "lies in the suite" in err
    assert not (tmp_path / "suite" / "models").exists()


def test_epochs_and_shares_arrive(tmp_path: Path, trained: Trained, capsys: Any) -> None:
    asked(tmp_path, "--epochs", "7", "--held", "0.5", capsys=capsys)
    (lesson,) = trained.lessons
    assert (lesson.recipe.rate.epochs, len(lesson.originals)) == (7, 4)


def test_another_suite_judges(tmp_path: Path, trained: Trained, capsys: Any) -> None:
    test = colour_suite(tmp_path / "test", 4, first=6)
    data = asked(tmp_path, "--test", test, capsys=capsys)
    assert (data["trained"], data["held"], data["left_out"]) == ([8, 8], 2, 2)
    status, err = asked(tmp_path, "--test", test, "--held", "0.5", capsys=capsys)
    assert status == 2
    assert "give one of them" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--recipe", "resnet"), "there is no recipe 'resnet'"),
        (("--model", "model.onnx"), "--model model.onnx: what trains is a name after timm: or torchvision:, or module"),
        (("--model", "hf:google/vit-base"), "what trains is"),
        (("--held", "0"), "--held is a share above 0 and below 1, got 0"),
    ],
)
def test_wrong_words_are_one_sentence_and_nothing_is_written(
    tmp_path: Path, trained: Trained, capsys: Any, words: tuple[str, ...], message: str
) -> None:
    status, err = asked(tmp_path, *words, capsys=capsys)
    assert (status, err.count("\n")) == (2, 1)
    assert message in err
    assert not (tmp_path / "out").exists()
    assert not trained.commands


def test_without_its_packages_it_says_how_to_install_them(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(exporting, "missing_modules", lambda *_: ["accelerate"])
    status, err = asked(tmp_path, capsys=capsys)
    assert status == 2
    assert "package accelerate, which is not installed: pip install 'counterfactory[retrain]'" in err
    assert not (tmp_path / "out").exists()


def test_a_training_that_fails_leaves_the_suite_as_it_was(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    suite = colour_suite(tmp_path / "suite")
    before = {path: path.read_bytes() for path in suite.rglob("*") if path.is_file()}

    def fail(*_: Any) -> None:
        raise CounterfactoryError("--device cuda: torch sees no GPUs here")

    monkeypatch.setattr(exporting, "run_program", fail)
    status, err = asked(tmp_path, capsys=capsys)
    assert status == 2
    assert "torch sees no GPUs" in err
    assert {path: path.read_bytes() for path in suite.rglob("*") if path.is_file()} == before


def test_what_may_be_claimed_is_said(tmp_path: Path, trained: Trained, capsys: Any) -> None:
    suite = colour_suite(tmp_path / "suite", 40)
    status = main(
        [
            "retrain",
            *map(str, (suite, "--model", "m:net", "--out", tmp_path / "out", "--recipe", recipe_file(tmp_path))),
        ]
    )
    said = capsys.readouterr().out
    assert status == 0
    assert "DILLEMA, retraining: accuracy on 10 held-out sources" in " ".join(said.split())
    assert "variants: training with variants gains 50.0 points of accuracy" in said


@pytest.mark.slow
def test_a_model_is_retrained_and_told_of(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program itself, with torch, twice: the second time nothing is left to train."""
    suite, name = colour_suite(tmp_path / "suite", 24), networks_module(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("retrain", suite, "--model", f"{name}:classifier", "--out", tmp_path / "out")
    more = ("--recipe", recipe_file(tmp_path), "--epochs", "12", "--device", "cpu", "--json")
    results = []
    for _ in range(2):
        assert main(list(map(str, (*words, *more)))) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]
    assert results[0]["sides"][1]["gap"]["second"] > 0.6
    assert len(read_metadata(suite)) == 48
    assert main(list(map(str, (*words[:3], f"{name}:five", "--out", tmp_path / "other", *more)))) == 2
    assert "give a model with a head for these" in capsys.readouterr().err
