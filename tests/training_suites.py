"""A finished suite on the disk to train with: pictures of two colours, which are the classes, and their dark variants;
and networks that learn it in seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_rows import original_row, picture_row, written
from PIL import Image

from counterfactory.engine.edit import Edit
from counterfactory.engine.keys import file_digest
from counterfactory.engine.suite import Origin, PictureRow
from counterfactory.engine.training.recipe import TrainingRecipe, load_recipe

SIDE = 16
COLOURS = {"bus": (200, 60, 60), "car": (60, 60, 200)}
RECIPE = """
name = "small"
task = "{task}"
start = "{start}"
preprocess = "mean=0.5 std=0.5"
batch = 4
smoothing = 0.1
precision = "f32"

[optimiser]
kind = "sgd"
rate = 0.05
momentum = 0.9
weight_decay = 1e-4

[rate]
kind = "step"
epochs = 3
warmup = 0
every = 2
gamma = 0.1

[augment]
mirror = true
least = {least}
"""
# A module of a user's: networks by their names, and mistakes.
NETWORKS = """
import torch
from torch import nn

def classifier(num_classes):
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(4, num_classes))

def segmenter(num_classes):
    return nn.Conv2d(3, num_classes, 1)

def five():
    return classifier(5)

def broken(num_classes):
    raise RuntimeError("no such thing")

ready = classifier(2)
number = 7
"""


def recipe_file(folder: Path, task: str = "classification", start: str = "scratch", least: float = 1) -> Path:
    """A recipe that takes a second."""
    file = folder / f"{task}-{start}.toml"
    file.write_text(RECIPE.format(task=task, start=start, least=least))
    return file


def small_recipe(folder: Path, **words: Any) -> TrainingRecipe:
    """The same, read."""
    return load_recipe(str(recipe_file(folder, **words)))


def colour_suite(folder: Path, sources: int = 8, accepted: bool = True, first: int = 0) -> Path:
    """So many sources, buses and cars by turns, each with a dark variant; their masks mark the left half. Rejected
    variants where not `accepted`. `first` numbers the sources, whose noise is their own.
    """
    rows: list[PictureRow] = []
    for index in range(first, first + sources):
        label, rng = ("bus", "car")[index % 2], np.random.default_rng(index)
        noise = rng.integers(-40, 41, (SIDE, SIDE, 3))
        picture = np.clip(np.array(COLOURS[label]) + noise, 0, 255).astype(np.uint8)
        mask = np.zeros((SIDE, SIDE), np.uint8)
        mask[:, : SIDE // 2] = 1
        picture[mask == 1] //= 2
        name, place = f"{label}/{index:04}", f"masks/{label}/{index:04}.png"
        about: dict[str, Any] = {"source": name, "label": label, "mask": place}
        about["origin"] = Origin(f"{name}.png", f"{index:064x}", SIDE, SIDE)
        files = (f"originals/{name}.png", picture), (f"images/{name}.png", picture // 3), (place, mask)
        for file, pixels in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / file)
        (original, digest), (variant, dark) = ((file, file_digest(folder / file)) for file, _ in files[:2])
        rows.append(original_row(index, file_name=original, original=original, sha256=digest, **about))
        edit, reason = (Edit("time", "day", "night"),), None if accepted else "too dark"
        about |= {"edits": edit, "reason": reason, "original": original, "sha256": dark}
        rows.append(picture_row(index, file_name=variant, **about))
    return written(folder, rows)


def networks_module(folder: Path) -> str:
    """A module of a user's in the folder; its name."""
    (folder / "networks_of_tests.py").write_text(NETWORKS)
    return "networks_of_tests"
