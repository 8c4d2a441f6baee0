"""Recipes: the papers' numbers, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_suites import recipe_file

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.training.recipe import load_recipe, recipe_names


def test_the_papers_recipes_hold_the_papers_numbers() -> None:
    """DILLEMA, arXiv 2502.04378: ResNet-18 and DeepLabV3."""
    resnet, deeplab = load_recipe("dillema-resnet18"), load_recipe("dillema-deeplabv3")
    sgd, adam = resnet.optimiser, deeplab.optimiser
    assert (sgd.kind, sgd.rate, sgd.momentum, sgd.weight_decay) == ("sgd", 0.1, 0.9, 1e-4)
    assert (resnet.batch, resnet.rate.epochs, resnet.rate.every, resnet.rate.gamma) == (100, 90, 30, 0.1)
    assert (adam.kind, adam.rate, adam.betas, adam.eps) == ("adam", 0.002, (0.9, 0.999), 1e-8)
    assert (deeplab.batch, deeplab.rate.epochs, deeplab.rate.kind) == (12, 200, "constant")
    assert (resnet.start, deeplab.start) == ("scratch", "scratch")


def test_every_recipe_that_ships_can_be_read() -> None:
    assert [load_recipe(name).name for name in recipe_names()] == recipe_names()
    assert len(recipe_names()) == 3


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(CounterfactoryError, match="did you mean 'dillema-resnet18'"):
        load_recipe("dilema-resnet")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("momentum = 0.9\n", "", "kind = 'sgd' needs momentum"),
        ("momentum = 0.9\n", "momentum = 0.9\neps = 1e-8\n", "kind = 'sgd' has no eps"),
        ('kind = "sgd"', 'kind = "adam"', "kind = 'adam' has no momentum"),
        ("gamma = 0.1\n", "", "kind = 'step' needs gamma"),
        ('kind = "step"', 'kind = "cosine"', "kind = 'cosine' has no every"),
        ("batch = 4", "batch = 0", "batch is 1 to"),
        ("rate = 0.05", "rate = -1", "rate is at least 0"),
        ("epochs = 3", "epochs = 3\nlr = 1", "unknown key"),
        ("least = 1", "least = 0", "least is 0.01 to 1"),
        ('task = "classification"', 'task = "detection"', "task"),
        ('"classification"\nstart = "scratch"', '"segmentation"\nstart = "scratch"', "a crop would cut masks"),
    ],
)  # fmt: skip
def test_a_recipe_that_contradicts_itself_is_refused_with_its_file(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    file = recipe_file(tmp_path, least=0.5 if "crop" in message else 1)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(CounterfactoryError, match=message) as refused:
        load_recipe(str(file))
    assert str(file) in str(refused.value)


@pytest.mark.parametrize(
    "words", ["letterbox=64", "resize=64x64 keep=fit pad=64", "crop=64", "middle=0.9 resize=64x64"]
)
def test_a_recipe_of_masks_takes_the_whole_picture(words: str, tmp_path: Path) -> None:
    file = recipe_file(tmp_path, least=1)
    text = file.read_text().replace('task = "classification"', 'task = "segmentation"')
    file.write_text(text)
    assert load_recipe(str(file)).task == "segmentation"
    file.write_text(text.replace('preprocess = "mean=0.5 std=0.5"', f'preprocess = "{words} scale=255"'))
    with pytest.raises(CounterfactoryError, match="would cut masks"):
        load_recipe(str(file))
