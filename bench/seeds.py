"""Claim: of two models that were trained alike, from three seeds each, `retrain` says at most once in twenty that they
differ.

Simulated: pairs of trainings whose accuracy varies between seeds, by so much for all pictures and for those of a type.
Real: small networks that learned the same fair days from `--trainings` seeds, and rendered scenes that judge them; any
three of them against any three others. It is wrong where it calls anything a gain or a loss: originals, variants or a
type. `--write` keeps `retrain_false`, the largest share, in docs/truth.json.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import DOCS, available_cores, bench_parser, finish, show
from numpy.typing import NDArray
from retraining import SmallNet, classes_of, save_fair, trained
from simulated_suites import blank_row
from training_pictures import CONDITIONS, EXAMINED, TRAINED, fair_scene

from counterfactory.engine.api.retraining import find_gains
from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import PictureRow
from counterfactory.engine.training.lesson import Lesson, TrainingPicture
from counterfactory.engine.training.recipe import load_recipe

_RECIPE, _SEEDS = Path(__file__).with_name("careless.toml"), 3
# Sources that judge, and how far accuracy varies between seeds.
_CASES = ((40, 0.04), (120, 0.0), (120, 0.02), (120, 0.1), (400, 0.04))
Outcomes = NDArray[np.float64]


def main() -> None:
    parser = bench_parser(__doc__, write="docs/truth.json")
    parser.add_argument("--draws", type=int, default=400, help="simulated pairs of each case (%(default)s)")
    parser.add_argument("--scenes", type=int, default=400, help="scenes that train (%(default)s)")
    parser.add_argument("--held", type=int, default=200, help="scenes that judge (%(default)s)")
    parser.add_argument("--epochs", type=int, default=6, help="of each training (%(default)s)")
    parser.add_argument("--trainings", type=int, default=12, help="seeds (%(default)s)")
    parser.add_argument("--pairs", type=int, default=400, help="pairs of three that are compared (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where trainings are kept (nowhere)")
    asked = parser.parse_args()
    torch.set_num_threads(available_cores() if "OMP_NUM_THREADS" not in os.environ else 1)
    shares = {f"{n} sources, {100 * sd:g} points between seeds": _simulated(n, sd, asked.draws) for n, sd in _CASES}
    with tempfile.TemporaryDirectory() as temporary:
        right = _outcomes(asked, asked.folder or Path(temporary))
    between = float(right.mean(axis=(1, 2)).std(ddof=1))
    name = f"real: {asked.held} sources, {100 * between:.1f} points between seeds"
    shares[name] = _compared(_rows(asked.held, list(CONDITIONS)), right, asked.pairs)
    show(
        "Pairs trained alike that are said to differ", ("pairs", "share"), [(k, f"{v:.1%}") for k, v in shares.items()]
    )
    figures: dict[str, Any] = {"retrain_false": round(max(shares.values()), 4)}
    figures["retrain_false_by_case"] = {key: round(value, 4) for key, value in shares.items()}
    finish("equal trainings seldom differ", into=asked.write and DOCS / "truth.json", **figures)


def _rows(sources: int, conditions: Sequence[str]) -> list[PictureRow]:
    """An original of each source, and a variant under each condition."""
    rows = []
    for number in range(sources):
        rows.append(blank_row("original", f"{number:04d}"))
        for k, condition in enumerate(conditions):
            values = [(("time" if value in ("night", "sunset") else "weather"), value) for value in condition.split()]
            edits = tuple(Edit(kind, "", value) for kind, value in values)
            rows.append(blank_row("variant", f"{number:04d}", k, edits=edits))
    return rows


def _differ(rows: Sequence[PictureRow], firsts: Outcomes, seconds: Outcomes) -> bool:
    """Whether any gain or loss is claimed between outcomes [seeds, pictures]."""
    names = [row.file_name for row in rows]

    def named(some: Outcomes) -> list[dict[str, float]]:
        return [dict(zip(names, of, strict=True)) for of in some.tolist()]

    sides, by_type = find_gains(rows, named(firsts), named(seconds), "accuracy")
    return any(gain.certain or gain.harmful for gain in (*sides, *by_type))


def _simulated(sources: int, between: float, draws: int) -> float:
    rows, wrong = _rows(sources, ("rainy", "night")), 0
    kind = np.array([0 if row.kind == "original" else 1 + ("time" in row.edit_types) for row in rows])
    source = np.array([int(row.source) for row in rows])
    for draw in range(draws):
        rng = np.random.default_rng((draw, sources, round(1000 * between)))
        hard = rng.beta(4, 2, sources)[source]

        def outcomes(rng: Any = rng, hard: Any = hard) -> Outcomes:
            moved = rng.normal(0, between, (_SEEDS, 1)) + rng.normal(0, between, (_SEEDS, 3))[:, kind]
            return np.asarray(rng.random((_SEEDS, len(rows))) < hard + moved, np.float64)

        wrong += _differ(rows, outcomes(), outcomes())
    return wrong / draws


def _outcomes(asked: Any, folder: Path) -> Outcomes:
    """Whether each training is right, [trainings, scenes, 1 + conditions]."""
    save_fair(folder / "originals", TRAINED, asked.scenes)
    number = {kind: at for at, kind in enumerate(EMBEDDED.kinds)}
    scenes: list[Any] = [fair_scene(TRAINED, index) for index in range(asked.scenes)]
    names = [(f"originals/{scene.label}/{index:04d}.png", scene.label) for index, scene in enumerate(scenes)]
    pictures = tuple(TrainingPicture(str(folder), name, number[label]) for name, label in names)
    recipe = load_recipe(str(_RECIPE))
    recipe = replace(recipe, rate=replace(recipe.rate, epochs=asked.epochs))
    lesson = Lesson("SmallNet", recipe, EMBEDDED.kinds, (0, 1, 2), (), (), pictures, (), ())
    held: list[Any] = [fair_scene(EXAMINED, index) for index in range(asked.held)]
    bad = [[replace(s, weather=w or s.weather, time=time) for w, time in CONDITIONS.values()] for s in held]
    drawn = np.stack(
        [EMBEDDED.draw(one).picture for scene, some in zip(held, bad, strict=True) for one in (scene, *some)]
    )
    labels = np.array([number[scene.label] for scene in held])
    right = []
    for seed in range(asked.trainings):
        network = trained(lesson, SmallNet, pictures, seed, folder / "models" / str(seed))
        network.eval()
        right.append(classes_of(network, drawn).reshape(len(held), -1) == labels[:, None])
    return np.stack(right).astype(np.float64)


def _compared(rows: Sequence[PictureRow], right: Outcomes, pairs: int) -> float:
    rng, flat = np.random.default_rng(0), right.reshape(len(right), -1)
    drawn = [rng.permutation(len(flat))[: 2 * _SEEDS] for _ in range(pairs)]
    return float(np.mean([_differ(rows, flat[some[:_SEEDS]], flat[some[_SEEDS:]]) for some in drawn]))


if __name__ == "__main__":
    main()
