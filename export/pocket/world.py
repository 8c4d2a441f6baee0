"""Fits the range of traits that is the street world's, and writes it beside the embedded weights.

Streets as people save them are held against photographs, altered photographs and drawn pictures by a logistic
regression over their traits (engine/sources/domain.py). The numbers are set by the streets: each trait's range leaves
out next to none of them, and so does the sum.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.domain import TRAITS, Domain, Trait, traits_of, world_file
from counterfactory.engine.sources.source import ImageSettings

from .packed import RUNTIME
from .pictures import ALTERATIONS, DRAWN, STREET_FORMS, Picture, as_painted, read_collection

FIT, JUDGE = 910, 911  # streams of scenes, apart from those that models were trained on and are judged by
_SCENES, _DRAWN = 1000, 200
# Of the fitted streets, how many may fall out of a trait's range, and how many of a form below the sum.
_BEYOND, _BELOW = 0.0005, 0.001
_MARGIN = 0.05
_RIDGE, _STEPS = 1.0, 40

Traits = NDArray[np.float64]


def streets(stream: int, count: int) -> list[Picture]:
    """The first scenes of a stream, as the renderer draws them."""
    return [EMBEDDED.draw(EMBEDDED.scene(stream, index)).picture for index in range(count)]


def measured(pictures: Sequence[Picture], size: ImageSettings) -> Traits:
    """The traits of pictures of any size: float64 [N, 15]."""
    return np.array([traits_of(as_painted(picture, size)) for picture in pictures])


def fit_world(forms: Mapping[str, Traits], others: Mapping[str, Traits], fitted_to: str) -> Domain:
    """The world that holds pictures of its own, whatever form they are in, and as few as may be of the `others`, by
    kind; all by their traits.
    """
    of_world = np.concatenate(list(forms.values()))
    strangers = np.concatenate(list(others.values()))
    # A kind of many pictures counts for more, but not as much more as it has pictures.
    shares = np.concatenate([np.full(len(kind), len(kind) ** -0.5) for kind in others.values()])
    weights = np.concatenate([np.full(len(of_world), 1 / len(of_world)), shares / shares.sum()])
    values = np.concatenate([of_world, strangers])
    middle, scale = values.mean(0), values.std(0)
    truth = np.repeat([1.0, 0.0], [len(of_world), len(strangers)])
    slopes = _regress((values - middle) / scale, truth, weights * len(of_world))[1:] / scale
    low, high = np.quantile(of_world, (_BEYOND / 2, 1 - _BEYOND / 2), axis=0)
    room = _MARGIN * (high - low)
    bias = -min(np.quantile(form @ slopes, _BELOW) for form in forms.values())
    return Domain(
        "rendered streets",
        fitted_to,
        round(float(bias), 6),
        tuple(
            Trait(name, round(float(least), 6), round(float(most), 6), round(float(slope), 6))
            for name, least, most, slope in zip(TRAITS, low - room, high + room, slopes, strict=True)
        ),
    )


def _regress(values: Traits, truth: Traits, weights: Traits) -> Traits:
    """Logistic regression with a ridge, by Newton's method: the intercept, then the slopes."""
    design = np.column_stack([np.ones(len(values)), values])
    ridge = np.diag([0.0, *[_RIDGE] * values.shape[1]])
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (weights * (truth - chance)) - ridge @ found
        curve = (design * (weights * chance * (1 - chance))[:, None]).T @ design + ridge
        found = found + np.linalg.solve(curve, slope)
    return np.asarray(found)


def others_of(photographs: Sequence[Picture], size: ImageSettings, drawn: range) -> dict[str, Traits]:
    """What is not of the world, by kind: photographs, the same altered in turn, and drawn pictures."""
    turns: dict[str, list[Picture]] = {name: [] for name in ALTERATIONS}
    for picture, name in zip(photographs, cycle(ALTERATIONS), strict=False):
        turns[name].append(ALTERATIONS[name](picture))
    kinds: dict[str, Sequence[Picture]] = {"photographs": photographs, **turns}
    kinds |= {name: [draw(seed) for seed in drawn] for name, draw in DRAWN.items()}
    return {name: measured(pictures, size) for name, pictures in kinds.items() if pictures}


def add_command(commands: Any) -> None:
    """The command `world`."""
    parser = commands.add_parser("world", help="fit what the pocket models know, to streets and photographs")
    parser.add_argument(
        "--photographs", type=Path, nargs="+", required=True, metavar="DIR", help="folders of photographs to fit to"
    )
    parser.add_argument("--weights", type=Path, default=RUNTIME, help="folder to write it to (this checkout's)")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Fit and write. Raises CounterfactoryError for folders without pictures."""
    size = load_profile("pocket").image
    photographs = [picture for folder in asked.photographs for picture in read_collection(folder, size)]
    if not photographs:
        raise CounterfactoryError(f"no pictures in {', '.join(map(str, asked.photographs))}")
    scenes = streets(FIT, _SCENES)
    forms = {name: measured([save(scene) for scene in scenes], size) for name, save in STREET_FORMS.items()}
    others = others_of(photographs, size, range(_DRAWN))
    names = ", ".join(folder.name for folder in asked.photographs)
    fitted_to = (
        f"{_SCENES:,} street scenes saved in {len(STREET_FORMS)} ways; {len(photographs):,} photographs ({names}), as "
        f"many altered, {_DRAWN * len(DRAWN)} drawn pictures"
    )
    world = fit_world(forms, others, fitted_to)
    path = world_file(asked.weights, "streets")
    path.write_text(json.dumps(asdict(world), indent=1) + "\n", encoding="utf-8")
    say(f"wrote {path}")
    return 0
