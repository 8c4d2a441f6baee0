"""Claim: careless models that are trained on painted variants gain in the truth's bad weather and light, most of what
training on the truth itself gains, and more than by colour jitter, AugMix or light by rule; and what painted edits do
to a model predicts what the truth's do.

Scenes of fair days are trained on, by the recipe careless.toml: alone, and with as many pictures of each kind that
training_pictures.py makes of the accepted variants that the profile pocket painted of them. All take the same steps.
They are judged on other scenes, rendered on fair days and in bad weather and light. `--folder` keeps everything, and a
run that was stopped goes on from it. `--write` keeps the figures in docs/retraining.json.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import Pixels, available_cores, bench_parser, finish, keep_figures, machine, show
from numpy.typing import NDArray
from PIL import Image
from training_pictures import CONDITIONS, JUDGED, TRAINED, added, fair_scene

from counterfactory.engine.api import verbs
from counterfactory.engine.judging.effects import Effect, judge_difference
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.report.effects_text import interval, points
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.engine.training.lesson import Lesson, TrainingPicture
from counterfactory.engine.training.recipe import load_recipe
from counterfactory.export.pocket.data import as_pixels
from counterfactory.export.pocket.judges import ClassifierNet
from counterfactory.export.retraining.train import train

_FIGURES = Path(__file__).parents[1] / "docs" / "retraining.json"
_RECIPE = Path(__file__).with_name("careless.toml")
_VALUES = {"weather": ["rainy", "snowy", "foggy"], "time": ["night", "sunset"]}
_BATCH = 128
# 1 where a model was right: [pictures of a scene, scenes].
Outcomes = NDArray[np.float64]


def main() -> None:
    """Make, train, judge, compare."""
    parser = bench_parser(__doc__, write="docs/retraining.json")
    parser.add_argument("--sources", type=int, default=800, help="scenes that train (%(default)s)")
    parser.add_argument("--held", type=int, default=500, help="scenes that judge (%(default)s)")
    parser.add_argument("--variants", type=int, default=3, help="variants of each scene (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (%(default)s)")
    parser.add_argument("--arms", default="fair,painted,rendered,jitter,augmix,light", help="kinds (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where everything is kept (nowhere)")
    asked = parser.parse_args()
    torch.set_num_threads(available_cores() if "OMP_NUM_THREADS" not in os.environ else 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        gains = measure_gains(folder, asked)
    if asked.write:
        keep_figures(_FIGURES, gains)
    finish("painted variants mend careless models", **gains)


@dataclass(frozen=True)
class Trial:
    """What models are trained with and judged by: the originals, the accepted variants' rows, and rendered pictures
    [conditions + 1, scenes, 128, 128, 3] with their labels, those of fair days first.
    """

    folder: Path
    lesson: Lesson
    rows: Sequence[PictureRow]
    judged: NDArray[np.uint8]
    labels: NDArray[np.int64]


def open_trial(folder: Path, sources: int, variants: int, held: int) -> Trial:
    """Renders the scenes, and makes the suite, or takes those that are there."""
    for index in range(sources):
        scene: Any = fair_scene(TRAINED, index)
        save(folder / "sources" / scene.label / f"{index:04d}.png", lambda scene=scene: EMBEDDED.draw(scene).picture)
    suite = folder / "suite"
    if not (suite / "metadata.parquet").exists():
        verbs.generate(
            folder / "sources", out=suite, profile="pocket", interventions=_VALUES, variants=variants, controls=0
        )
    rows = [row for row in read_metadata(suite) if row.accepted]
    number = {kind: at for at, kind in enumerate(EMBEDDED.kinds)}

    def taught(row: PictureRow) -> TrainingPicture:
        return TrainingPicture(str(suite), row.file_name, number[str(row.label)])

    originals = tuple(taught(row) for row in rows if row.kind == "original")
    painted = [row for row in rows if row.kind == "variant"]
    lesson = Lesson(
        "counterfactory.export.pocket.judges:ClassifierNet", load_recipe(str(_RECIPE)), EMBEDDED.kinds, (0, 1, 2), (), (),
        originals, tuple(map(taught, painted)), (),
    )  # fmt: skip
    scenes: list[Any] = [fair_scene(JUDGED, index) for index in range(held)]
    file = folder / f"judged-{held}.npy"
    if not file.exists():
        shown = [scenes]
        shown += [
            [replace(s, weather=weather or s.weather, time=time) for s in scenes]
            for weather, time in CONDITIONS.values()
        ]
        np.save(file, np.stack([[EMBEDDED.draw(scene).picture for scene in some] for some in shown]))
    labels = np.array([number[scene.label] for scene in scenes])
    return Trial(folder, lesson, painted, np.load(file), labels)


def save(path: Path, draw: Any) -> None:
    """Keeps a picture, if it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw()).save(path)


def measure_gains(folder: Path, asked: Any) -> dict[str, Any]:
    """The figures of all kinds of training."""
    trial, arms = open_trial(folder, asked.sources, asked.variants, asked.held), asked.arms.split(",")
    right = {arm: np.stack([judged(trial, arm, seed) for seed in range(asked.seeds)]) for arm in arms}
    # Means over seeds of fair days [seeds, scenes], and of all conditions.
    clean, bad = {a: of[:, 0] for a, of in right.items()}, {a: of[:, 1:].mean(axis=1) for a, of in right.items()}
    rows = [
        (arm, *(f"{100 * part.mean():.1f}" for part in (clean[arm], bad[arm], *right[arm].transpose(1, 0, 2)[1:])))
        for arm in arms
    ]
    show("Accuracy, rendered", ("trained with", "fair", "bad", *CONDITIONS), rows)
    gained = {arm: difference(arm, bad[arm], bad["fair"]) for arm in arms if arm != "fair"}
    over = {arm: difference(arm, bad["painted"], bad[arm]) for arm in arms if arm not in ("fair", "painted")}
    change = difference("fair days", clean["painted"], clean["fair"])
    show("Points, 95 % interval over scenes and seeds", ("trained with", "gain", "interval", "painted over it", "interval"), [
        (arm, points(gained[arm].value), interval(gained[arm]), *((points(over[arm].value), interval(over[arm])) if arm in over else ("-", "-")))
        for arm in gained
    ])  # fmt: skip
    figures: dict[str, Any] = {
        "machine": machine(),
        "scenes": [asked.sources, asked.held],
        "added_pictures": len(trial.rows),
        "seeds": asked.seeds,
        "accuracy": {
            a: {"fair": round(float(clean[a].mean()), 4), "bad": round(float(bad[a].mean()), 4)} for a in arms
        },
        "clean_change": kept(change),
        "gains": {arm: kept(one) for arm, one in gained.items()},
        "painted_over": {arm: kept(one) for arm, one in over.items()},
    }
    if "rendered" in arms:
        share = (bad["painted"].mean() - bad["fair"].mean()) / (bad["rendered"].mean() - bad["fair"].mean())
        figures["gain_share_of_truth"] = round(float(share), 4)
    figures |= {f"over_{arm}_low": kept(over[arm])[0] for arm in ("jitter", "augmix", "light") if arm in over}
    return figures


def kept(effect: Effect) -> list[float | None]:
    """Low end, value and high end of an effect."""
    return [None if end is None else round(end, 4) for end in (effect.low, effect.value, effect.high)]


def difference(name: str, after: Outcomes, before: Outcomes) -> Effect:
    """The mean difference of two trainings' outcomes [seeds, scenes], with an interval over scenes and seeds, whose
    squared standard errors add up.
    """
    change = after - before
    seeds, scenes = change.shape
    over_scenes = float(change.mean(axis=0).std(ddof=1)) / scenes**0.5
    over_seeds = float(change.mean(axis=1).std(ddof=1)) / seeds**0.5 if seeds > 1 else 0.0
    spread = float(np.hypot(over_scenes, over_seeds))
    return judge_difference(name, float(change.mean()), spread, scenes, change.size, 1.0)


def judged(trial: Trial, arm: str, seed: int) -> Outcomes:
    """Whether a model that was trained so is right on what judges, [conditions + 1, scenes]."""
    place = trial.folder / "models" / f"{arm}-{seed}"
    file = place / "right.npy"
    if not file.exists():
        network = trained(trial, arm, seed, place)
        np.save(
            file,
            (
                answers(network, trial.judged.reshape(-1, *trial.judged.shape[2:])).reshape(trial.judged.shape[:2])
                == trial.labels
            ),
        )
    right: Outcomes = np.load(file).astype(np.float64)
    return right


def trained(trial: Trial, arm: str, seed: int, place: Path) -> torch.nn.Module:
    """A careless model trained with the pictures of that kind beside its fair days."""
    place.mkdir(parents=True, exist_ok=True)
    pictures = [*trial.lesson.originals]
    if arm != "fair":
        root, draw = trial.folder / "arms" / arm, added(trial.folder / "suite")[arm]
        for row, painted in zip(trial.rows, trial.lesson.variants, strict=True):
            save(root / row.file_name, lambda row=row: draw(row, opened(trial.folder / "suite" / row.original)))
            pictures.append(replace(painted, root=str(root)))
    torch.manual_seed(seed)
    print(f"{arm}, seed {seed}: {len(pictures)} pictures")
    return train(trial.lesson, ClassifierNet(), pictures, seed, place, torch.device("cpu"), print)


def opened(path: Path) -> Pixels:
    """A picture of a suite."""
    return np.asarray(Image.open(path).convert("RGB"))


def answers(network: torch.nn.Module, pictures: Pixels) -> NDArray[np.int64]:
    """The class numbers [N] that a network gives pictures, uint8 [N, 128, 128, 3]."""
    with torch.inference_mode():
        parts = [network(as_pixels(pictures[at : at + _BATCH])).argmax(1) for at in range(0, len(pictures), _BATCH)]
    return torch.cat(parts).numpy()


if __name__ == "__main__":
    main()
