"""Trainings by recipes: held against PyTorch's own loop, killed and gone on with, refused."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F
from training_suites import colour_suite, networks_module, small_recipe

from counterfactory.engine.api.retraining import Drill, plan_drill
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite.contents import RUN_FILE
from counterfactory.engine.training.lesson import ArmName, Lesson, answers_of, read_lesson, write_lesson
from counterfactory.engine.training.recipe import load_recipe
from counterfactory.export.retraining import train as training
from counterfactory.export.retraining.lessons import WEIGHTS, run_lesson
from counterfactory.export.retraining.networks import build_network
from counterfactory.export.retraining.pictures import IGNORED, TrainingOrder, TrainingPictures
from counterfactory.export.retraining.train import open_device, rate_at

CPU = torch.device("cpu")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = networks_module(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def drill_of(folder: Path, network: str, seeds: tuple[int, ...] = (3,), **words: object) -> Drill:
    suite = folder / "suite"
    if not suite.exists():
        colour_suite(suite)
    return plan_drill(suite, network, small_recipe(folder, **words), None, 0.25, seeds)


def weights(folder: Path, arm: ArmName = "after", seed: int = 3) -> dict[str, torch.Tensor]:
    return load_file(answers_of(folder, arm, seed) / WEIGHTS)


def checkpoints(folder: Path) -> set[str]:
    """Return the checkpoints under a folder that a training may be writing: ``os.walk`` passes over what has gone."""
    return {top for top, _, _ in os.walk(folder) if Path(top).name.startswith("checkpoint-")}


def run(lesson: Lesson, folder: Path) -> dict[str, torch.Tensor]:
    write_lesson(lesson, folder)
    run_lesson(folder, "cpu", lambda _: None)
    return weights(folder)


def test_a_training_is_pytorchs_own_loop(module: str, tmp_path: Path) -> None:
    """The same batches by SGD, StepLR and cross entropy as their manual has them, without anything of ours."""
    lesson = drill_of(tmp_path, f"{module}:classifier").lesson
    ours = run(lesson, tmp_path / "out")
    torch.manual_seed(3)
    network = build_network(lesson).train()
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 2, 0.1)
    pictures = (*lesson.originals, *lesson.variants)
    data, per_epoch = TrainingPictures(lesson, pictures, 3), -(-len(pictures) // 4)
    for step, places in enumerate(TrainingOrder(len(pictures), 4, 3, 0, 3 * per_epoch)):
        torch.manual_seed(3 * 1_000_003 + step)
        inputs, targets = (torch.stack(part) for part in zip(*(data[place] for place in places), strict=True))
        optimiser.zero_grad()
        F.cross_entropy(network(inputs), targets, label_smoothing=0.1).backward()
        optimiser.step()
        if (step + 1) % per_epoch == 0:
            schedule.step()
    theirs = network.state_dict()
    assert ours.keys() == theirs.keys()
    for key, tensor in theirs.items():
        torch.testing.assert_close(ours[key], tensor, rtol=1e-5, atol=1e-6)
    assert any(not torch.equal(ours[key], tensor) for key, tensor in weights(tmp_path / "out", "before").items())


def test_every_round_shows_every_picture_once() -> None:
    order = [place for places in TrainingOrder(10, 4, 5, 0, 10) for place in places]
    numbers = [number for _, _, number in order]
    rounds = [numbers[at : at + 10] for at in range(0, 40, 10)]
    assert all(sorted(one) == list(range(10)) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 4
    assert [place for places in TrainingOrder(10, 4, 5, 6, 10) for place in places] == order[24:]


@pytest.mark.parametrize("stop", [1, 5, 8])
def test_a_training_that_stops_goes_on_to_the_same_weights(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """Stopped after a step, and within the writing of a checkpoint; dropout and batch statistics included."""
    lesson = drill_of(tmp_path, f"{module}:classifier", least=0.5).lesson
    whole, keep = run(lesson, tmp_path / "whole"), training._keep

    def die(accelerator: object, folder: Path, step: int) -> None:
        if step > stop:
            (folder / "unfinished").mkdir(exist_ok=True)
            (folder / "unfinished" / "model.safetensors").write_bytes(b"half")
            raise KeyboardInterrupt
        keep(accelerator, folder, step)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "_keep", die)
    with pytest.raises(KeyboardInterrupt):
        run(lesson, tmp_path / "stopped")
    monkeypatch.setattr(training, "_keep", keep)
    torch.rand(7)  # what else the process draws does not matter
    resumed = run(lesson, tmp_path / "stopped")
    assert all(torch.equal(resumed[key], tensor) for key, tensor in whole.items())
    assert not list((tmp_path / "stopped").rglob("checkpoint-*"))


@pytest.mark.slow
def test_a_training_that_is_killed_goes_on_to_the_same_weights(module: str, tmp_path: Path) -> None:
    lesson = drill_of(tmp_path, f"{module}:classifier").lesson
    lesson = replace(lesson, recipe=replace(lesson.recipe, rate=replace(lesson.recipe.rate, epochs=200)))
    whole, folder = run(lesson, tmp_path / "whole"), tmp_path / "killed"
    write_lesson(lesson, folder)
    command = [sys.executable, "-m", "counterfactory.export", "retrain", str(folder), "--device", "cpu"]
    for _ in range(2):
        with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as running:
            before = checkpoints(folder)
            while running.poll() is None and checkpoints(folder) == before:
                time.sleep(0.01)
            running.send_signal(signal.SIGKILL)
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert all(torch.equal(weights(folder)[key], tensor) for key, tensor in whole.items())


def test_a_finished_training_is_not_taken_up_again(module: str, tmp_path: Path) -> None:
    lesson = drill_of(tmp_path, f"{module}:classifier").lesson
    run(lesson, tmp_path / "out")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    run(lesson, tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()} == files


def test_answers_name_classes_with_their_probabilities(module: str, tmp_path: Path) -> None:
    drill = drill_of(tmp_path, f"{module}:classifier")
    run(drill.lesson, tmp_path / "out")
    network = build_network(drill.lesson)
    network.load_state_dict(weights(tmp_path / "out"))
    with (answers_of(tmp_path / "out", "after", 3) / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == [row.file_name for row in drill.held]
    for row, held in zip(rows, drill.held, strict=True):
        pixels = np.asarray(Image.open(tmp_path / "suite" / held.file_name)) / 255
        inputs = torch.from_numpy((pixels - 0.5) / 0.5).permute(2, 0, 1)[None].float()
        shares = network.eval()(inputs).softmax(1)[0].detach()
        assert row["prediction"] == ("bus", "car")[int(shares.argmax())]
        assert float(row["confidence"]) == pytest.approx(float(shares.max()), rel=1e-3)
        assert float(row["p_true"]) == pytest.approx(float(shares[("bus", "car").index(str(held.label))]), rel=1e-3)


def test_masks_are_learnt_in_the_sets_numbers(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfactory.engine.api.retraining.recorded_numbers", lambda _: {0: "road", 1: "sky"})
    drill = drill_of(tmp_path, f"{module}:segmenter", task="segmentation")
    lesson = drill.lesson
    lesson = replace(lesson, recipe=replace(lesson.recipe, rate=replace(lesson.recipe.rate, epochs=20)))
    run(lesson, tmp_path / "out")
    right = []
    for row in drill.held:
        answer = np.asarray(Image.open(answers_of(tmp_path / "out", "after", 3) / row.file_name))
        truth = np.asarray(Image.open(tmp_path / "suite" / str(row.mask)))
        assert answer.shape == truth.shape
        assert set(np.unique(answer)) <= {0, 1}
        right.append((answer == truth).mean())
    assert np.mean(right) > 0.6


def test_a_mask_is_mirrored_with_its_picture_and_numbers_without_a_name_teach_nothing(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfactory.engine.api.retraining.recorded_numbers", lambda _: {0: "road", 1: "sky"})
    lesson = drill_of(tmp_path, f"{module}:segmenter", task="segmentation").lesson
    one = TrainingPictures(lesson, lesson.originals, 0)
    inputs, targets = one[-1, 0, 0]
    sides = {bool(torch.equal(one[step, 0, 0][0], inputs)) for step in range(12)}
    assert sides == {True, False}
    for step in range(12):
        pixels, mask = one[step, 0, 0]
        turned = not torch.equal(pixels, inputs)
        assert torch.equal(mask, targets.flip(1) if turned else targets)
        assert torch.equal(pixels, inputs.flip(2) if turned else inputs)
    few = TrainingPictures(replace(lesson, classes=("sky",), numbers=(1,)), lesson.originals, 0)
    assert set(few[-1, 0, 0][1].unique().tolist()) == {0, IGNORED}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("five", r"answers \[1, 5\], and the set has 2 classes \(bus, car\): give a model with a head for these"),
        ("segmenter", r"answers \[1, 2, 16, 16\]"),
        ("broken", "cannot be made: RuntimeError: no such thing"),
        ("number", "cannot be made"),
        ("nothing", "has no 'nothing'"),
    ],
)
def test_a_model_that_cannot_learn_the_set_is_refused(module: str, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        run(drill_of(tmp_path, f"{module}:{name}").lesson, tmp_path / "out")


def test_libraries_are_asked_for_a_head_of_the_sets_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own weights are asked for where the recipe starts from what is given, and taken as far as they fit."""
    asked: list[object] = []

    def network(classes: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes))

    def build(name: str, **words: object) -> nn.Module:
        asked.append((name, words))
        return network(int(str(words["num_classes"])))

    published = network(1000).state_dict()
    chosen = SimpleNamespace(get_state_dict=lambda progress: published)
    models = SimpleNamespace(
        get_model=build,
        get_model_builder=lambda name: SimpleNamespace(__module__=f"models.{'segmentation' * ('deep' in name)}"),
        get_model_weights=lambda name: {"DEFAULT": chosen},
    )
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=build))
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    build_network(drill_of(tmp_path, "timm:resnet18.a1_in1k", start="given").lesson)
    scratch = build_network(drill_of(tmp_path, "torchvision:resnet18").lesson)
    build_network(drill_of(tmp_path, "torchvision:deeplabv3_resnet50").lesson)
    given = build_network(drill_of(tmp_path, "torchvision:resnet18", start="given").lesson)
    plain = ("resnet18", {"weights": None, "num_classes": 2})
    dense = ("deeplabv3_resnet50", {**plain[1], "weights_backbone": None})  # type: ignore[dict-item]
    assert asked == [("resnet18.a1_in1k", {"pretrained": True, "num_classes": 2}), plain, dense, plain]
    first, head = "0.weight", "3.weight"
    assert torch.equal(given.state_dict()[first], published[first])
    assert not torch.equal(scratch.state_dict()[first], published[first])
    assert given.state_dict()[head].shape == (2, 4)


def test_a_gpu_that_is_not_there_is_refused_before_anything(module: str, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the refusal is not tried")
    lesson = drill_of(tmp_path, f"{module}:classifier").lesson
    write_lesson(lesson, tmp_path / "out")
    with pytest.raises(CounterfactoryError, match="--device cuda:1: torch sees no GPUs here; say --device cpu"):
        run_lesson(tmp_path / "out", "cuda:1", lambda _: None)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["lesson.json"]
    assert open_device("auto") == CPU
    with pytest.raises(CounterfactoryError, match="--device gpu is no device"):
        open_device("gpu")


def test_a_loss_that_is_no_number_ends_the_training(module: str, tmp_path: Path) -> None:
    lesson = drill_of(tmp_path, f"{module}:classifier").lesson
    steep = replace(lesson.recipe, optimiser=replace(lesson.recipe.optimiser, rate=1e30))
    with pytest.raises(CounterfactoryError, match="take a lower rate"):
        run(replace(lesson, recipe=steep), tmp_path / "out")


def test_a_module_of_the_users_own_is_asked_as_it_is_and_stays(module: str, tmp_path: Path) -> None:
    lesson = drill_of(tmp_path, f"{module}:ready", seeds=(0, 1), start="given").lesson
    assert lesson.arms == ("given", "before", "after")
    run_folder = tmp_path / "out"
    write_lesson(lesson, run_folder)
    run_lesson(run_folder, "cpu", lambda _: None)
    given = [weights(run_folder, "given", seed) for seed in (0, 1)]
    assert all(torch.equal(given[0][key], given[1][key]) for key in given[0]), "a training changed the user's module"
    assert isinstance(sys.modules[module].ready, nn.Module)


@pytest.mark.parametrize("name", ["dillema-resnet18", "fine-tune"])
def test_rates_are_those_of_pytorchs_schedules(name: str) -> None:
    recipe = load_recipe(name)
    recipe = replace(recipe, rate=replace(recipe.rate, warmup=0))
    parameter = nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], recipe.optimiser.rate)
    per_epoch, total = 3, 3 * recipe.rate.epochs
    kinds: dict[str, Any] = {"step": lambda: torch.optim.lr_scheduler.StepLR(optimiser, 3 * 30, 0.1)}
    kinds["cosine"] = lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
    schedule = kinds[recipe.rate.kind]()
    for step in range(total):
        assert rate_at(recipe, step, per_epoch) == pytest.approx(schedule.get_last_lr()[0], rel=1e-6)
        optimiser.step()
        schedule.step()


def test_another_training_in_the_same_folder_is_refused(module: str, tmp_path: Path) -> None:
    lesson = drill_of(tmp_path, f"{module}:classifier").lesson
    write_lesson(replace(lesson, model="m:other"), tmp_path / "out")
    write_lesson(lesson, tmp_path / "out")  # nothing was trained yet
    (tmp_path / "out" / "before-3").mkdir()
    with pytest.raises(CounterfactoryError, match="another model, recipe, suite or seed"):
        write_lesson(replace(lesson, seeds=(4,)), tmp_path / "out")
    assert read_lesson(tmp_path / "out") == lesson
    (tmp_path / "full").mkdir()
    shutil.copy(tmp_path / "suite" / "metadata.parquet", tmp_path / "full" / RUN_FILE)
    with pytest.raises(CounterfactoryError, match="something else than a training"):
        write_lesson(lesson, tmp_path / "full")
