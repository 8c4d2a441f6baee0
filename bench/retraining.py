"""Claim: careless models that are trained on painted variants gain in the truth's bad weather and light, most of what
training on the truth itself gains, and more than by colour jitter, AugMix or light by rule; and what painted edits do
to a model predicts what the truth's do.

Scenes of fair days are trained on, by the recipe careless.toml: alone, and with as many pictures of each kind that
training_pictures.py makes of the accepted variants that the profile pocket painted of them. All take the same steps.
They are judged on other scenes, rendered on fair days and in bad weather and light. `--folder` keeps everything, and a
run that was stopped goes on from it. `--write` keeps the figures in docs/retraining.json.
"""

from __future__ import annotations

import csv
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import DOCS, Pixels, available_cores, bench_parser, finish, machine, picture_at, show
from numpy.typing import NDArray
from PIL import Image
from training_pictures import CONDITIONS, EXAMINED, TRAINED, added, fair_scene

from counterfactory.engine.api import verbs
from counterfactory.engine.api.answers import Given
from counterfactory.engine.api.options import Caller
from counterfactory.engine.api.predicting import predict_field
from counterfactory.engine.cli.predicts import transfers_table
from counterfactory.engine.judging.effects import Effect, judge_difference
from counterfactory.engine.judging.seeds import spread_over_seeds
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.report.effects_text import interval, points
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.engine.training.lesson import Lesson, TrainingPicture
from counterfactory.engine.training.recipe import load_recipe
from counterfactory.export.pocket.data import as_pixels
from counterfactory.export.pocket.judges import Block, ClassifierNet
from counterfactory.export.retraining.train import train

_RECIPE = Path(__file__).with_name("careless.toml")
_VALUES = {"weather": ["rainy", "snowy", "foggy"], "time": ["night", "sunset"]}
_BATCH = 128
_EVERY = (*_VALUES["weather"], *_VALUES["time"])
# Small models by what they were trained with beside fair days: a kind of pictures, and the values that these show.
WEAKNESSES: Mapping[str, tuple[str, Sequence[str]]] = {
    "fair": ("rendered", ()),
    **{f"with {value}": ("rendered", (value,)) for value in _EVERY},
    **{f"without {value}": ("rendered", [one for one in _EVERY if one != value]) for value in _EVERY},
    **{name: ("rendered", values) for name, values in _VALUES.items()},
    "light": ("light", _EVERY),
}
# Scenes of the suite that models are asked about, and of the truth's own.
_ASKED, REAL = 250, 932
# 1 where a model was right: [pictures of a scene, scenes].
Outcomes = NDArray[np.float64]


def main() -> None:
    parser = bench_parser(__doc__, write="docs/retraining.json")
    parser.add_argument("--sources", type=int, default=800, help="scenes that train (%(default)s)")
    parser.add_argument("--held", type=int, default=500, help="scenes that judge (%(default)s)")
    parser.add_argument("--variants", type=int, default=3, help="variants of each scene (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (%(default)s)")
    parser.add_argument("--arms", default="fair,painted,rendered,jitter,augmix,light", help="kinds (%(default)s)")
    parser.add_argument("--skip", choices=("gains", "prediction"), help="measure the other alone")
    parser.add_argument("--folder", type=Path, help="where everything is kept (nowhere)")
    asked = parser.parse_args()
    torch.set_num_threads(available_cores() if "OMP_NUM_THREADS" not in os.environ else 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        trial = open_trial(folder, asked.sources, asked.variants, asked.held)
        figures = {} if asked.skip == "gains" else measure_gains(trial, asked)
        figures |= {} if asked.skip == "prediction" else measure_prediction(trial)
    asked_for = [word for word in sys.argv[1:] if word not in ("--write", "--folder", str(asked.folder))]
    command = shlex.join(["python", "bench/retraining.py", *asked_for, "--write"])
    figures |= {"machine": machine(), "command": command}
    into = asked.write and DOCS / "retraining.json"
    finish("painted variants mend careless models, and predict the truth", into=into, **figures)


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
    save_fair(folder / "sources", TRAINED, sources)
    suite = painted_suite(folder, variants)
    rows = [row for row in read_metadata(suite) if row.accepted]
    number = {kind: at for at, kind in enumerate(EMBEDDED.kinds)}

    def taught(row: PictureRow) -> TrainingPicture:
        return TrainingPicture(str(suite), row.file_name, number[str(row.label)])

    originals = tuple(taught(row) for row in rows if row.kind == "original")
    painted = [row for row in rows if row.kind == "variant"]
    recipe, variants_taught = load_recipe(str(_RECIPE)), tuple(map(taught, painted))
    lesson = Lesson("ClassifierNet", recipe, EMBEDDED.kinds, (0, 1, 2), (), (), originals, variants_taught, ())
    scenes: list[Any] = [fair_scene(EXAMINED, index) for index in range(held)]
    file = folder / f"judged-{held}.npy"
    if not file.exists():
        bad = ([replace(s, weather=w or s.weather, time=time) for s in scenes] for w, time in CONDITIONS.values())
        shown = [scenes, *bad]
        np.save(file, np.stack([[EMBEDDED.draw(scene).picture for scene in some] for some in shown]))
    labels = np.array([number[scene.label] for scene in scenes])
    return Trial(folder, lesson, painted, np.load(file), labels)


def save(path: Path, draw: Any) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw()).save(path)


def save_fair(folder: Path, stream: int, count: int) -> None:
    """The first scenes of a stream on fair days, in class folders."""
    for index in range(count):
        scene: Any = fair_scene(stream, index)
        save(folder / scene.label / f"{index:04d}.png", lambda scene=scene: EMBEDDED.draw(scene).picture)


def painted_suite(folder: Path, variants: int) -> Path:
    """The suite of the sources in a folder, made unless it is there."""
    suite = folder / "suite"
    how: dict[str, Any] = {"interventions": _VALUES, "variants": variants, "controls": 0}
    if not (suite / "metadata.parquet").exists():
        verbs.generate(folder / "sources", out=suite, profile="pocket", **how)
    return suite


def measure_gains(trial: Trial, asked: Any) -> dict[str, Any]:
    arms = asked.arms.split(",")
    right = {arm: np.stack([judged(trial, arm, seed) for seed in range(asked.seeds)]) for arm in arms}
    # Means over seeds of fair days [seeds, scenes], and of all conditions.
    clean, bad = {a: of[:, 0] for a, of in right.items()}, {a: of[:, 1:].mean(axis=1) for a, of in right.items()}
    parts = {arm: (clean[arm], bad[arm], *right[arm].transpose(1, 0, 2)[1:]) for arm in arms}
    rows = [(arm, *(f"{100 * part.mean():.1f}" for part in of)) for arm, of in parts.items()]
    show("Accuracy, rendered", ("trained with", "fair", "bad", *CONDITIONS), rows)
    gained = {arm: difference(arm, bad[arm], bad["fair"]) for arm in arms if arm != "fair"}
    over = {arm: difference(arm, bad["painted"], bad[arm]) for arm in arms if arm not in ("fair", "painted")}
    change = difference("fair days", clean["painted"], clean["fair"])
    columns = ("trained with", "gain", "interval", "painted over it", "interval")

    def told(effect: Effect | None) -> tuple[str, str]:
        return ("-", "-") if effect is None else (points(effect.value), interval(effect))

    cells = [(arm, *told(one), *told(over.get(arm))) for arm, one in gained.items()]
    show("Points, 95 % interval over scenes and seeds", columns, cells)
    figures: dict[str, Any] = {"scenes": [asked.sources, asked.held], "added_pictures": len(trial.rows)}
    days = {"fair": clean, "bad": bad}
    accuracy = {a: {day: round(float(of[a].mean()), 4) for day, of in days.items()} for a in arms}
    figures |= {"seeds": asked.seeds, "accuracy": accuracy}
    figures |= {"clean_change": kept(change)[1], "clean_change_interval": kept(change)[::2]}
    for name, effects in (("gains", gained), ("painted_over", over)):
        figures[name] = {arm: kept(one) for arm, one in effects.items()}
    if "rendered" in arms:
        figures |= gain_share(bad["painted"], bad["rendered"], bad["fair"])
    figures |= {f"over_{arm}_low": kept(over[arm])[0] for arm in ("jitter", "augmix", "light") if arm in over}
    return figures


def gain_share(painted: Outcomes, rendered: Outcomes, fair: Outcomes) -> dict[str, Any]:
    """Which part of the truth's gain painted variants bring, of outcomes [seeds, scenes]; its interval is that of what
    they bring beyond this part (the delta method), over scenes and seeds.
    """
    gain = float((rendered - fair).mean())
    share = float((painted - fair).mean()) / gain
    beyond = difference("share", painted - fair, share * (rendered - fair))
    ends = [None if end is None else round(share + end / gain, 4) for end in (beyond.low, beyond.high)]
    return {"gain_share_of_truth": round(share, 4), "gain_share_interval": ends}


def kept(effect: Effect) -> list[float | None]:
    """Low end, value and high end of an effect, in points."""
    return [None if end is None else round(100 * end, 2) for end in (effect.low, effect.value, effect.high)]


def difference(name: str, after: Outcomes, before: Outcomes) -> Effect:
    """The mean difference of two trainings' outcomes [seeds, scenes], with an interval over scenes and seeds."""
    change = after - before
    scenes = change.shape[1]
    over_scenes = float(change.mean(axis=0).std(ddof=1)) / scenes**0.5
    effect = judge_difference(name, float(change.mean()), over_scenes, scenes, change.size, 1.0)
    return spread_over_seeds(effect, change.mean(axis=1).tolist())


def judged(trial: Trial, arm: str, seed: int) -> Outcomes:
    """Whether a model that was trained so is right on what judges, [conditions + 1, scenes]."""
    place = trial.folder / "models" / f"{arm}-{seed}"
    file = place / "right.npy"
    if not file.exists():
        pictures = [*trial.lesson.originals, *(() if arm == "fair" else added_pictures(trial, arm))]
        network = trained(trial.lesson, ClassifierNet, pictures, seed, place)
        flat = trial.judged.reshape(-1, *trial.judged.shape[2:])
        np.save(file, classes_of(network, flat).reshape(trial.judged.shape[:2]) == trial.labels)
    right: Outcomes = np.load(file).astype(np.float64)
    return right


def added_pictures(trial: Trial, arm: str) -> list[TrainingPicture]:
    """A picture of that kind for each accepted variant, in their order."""
    root, draw = trial.folder / "arms" / arm, added(trial.folder / "suite")[arm]
    for row in trial.rows:
        save(root / row.file_name, lambda row=row: draw(row, picture_at(trial.folder / "suite" / row.original)))
    return [replace(painted, root=str(root)) for painted in trial.lesson.variants]


def trained(
    lesson: Lesson, build: Callable[[], torch.nn.Module], pictures: Sequence[TrainingPicture], seed: int, place: Path
) -> torch.nn.Module:
    place.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    print(f"{place.name}: {len(pictures)} pictures")
    return train(lesson, build(), pictures, seed, place, torch.device("cpu"), print)


def classes_of(network: torch.nn.Module, pictures: Pixels) -> NDArray[np.int64]:
    """The class numbers [N] that a network gives pictures, uint8 [N, 128, 128, 3]."""
    with torch.inference_mode():
        parts = [network(as_pixels(pictures[at : at + _BATCH])).argmax(1) for at in range(0, len(pictures), _BATCH)]
    return torch.cat(parts).numpy()


class SmallNet(torch.nn.Sequential):
    """`ClassifierNet` at half of its widths, for models that are trained in seconds."""

    def __init__(self) -> None:
        super().__init__(
            Block(3, 12, 2), Block(12, 24, 2), Block(24, 48, 2), Block(48, 64, 2), torch.nn.Conv2d(64, 16, 1),
            torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 64, len(EMBEDDED.kinds)),
        )  # fmt: skip


def measure_prediction(trial: Trial) -> dict[str, Any]:
    """Whether what painted edits do to models of different weaknesses predicts what rendered ones do, by the product's
    own `predicts`: on a suite of scenes that no model was trained on, and on others that the truth rendered.
    """
    folder = trial.folder / "asked"
    table = real_set(folder / "real")
    save_fair(folder / "sources", EXAMINED, _ASKED)
    suite = painted_suite(folder, 5)
    names = trial.folder / "kinds.txt"
    names.write_text("\n".join(EMBEDDED.kinds))
    models = [Given(weak_model(trial, name), names) for name in WEAKNESSES]
    prediction = predict_field(suite, table, models, Caller.of(None, print))
    drawn = transfers_table(prediction)
    show(drawn.title, drawn.columns, drawn.rows)
    figures: dict[str, Any] = {"models": len(models), "rank_correlation": {}, "slope": {}}
    for one in prediction.transfers:
        for key, of in (("rank_correlation", one.rank_correlation), ("slope", one.slope)):
            figures[key][one.name] = [None if end is None else round(end, 3) for end in (of.low, of.value, of.high)]
    return figures


def real_set(folder: Path) -> Path:
    """The truth's pictures as a user has real ones: each scene a place, on a plain day and under each condition."""
    lines = [("image", "label", "condition", "place")]
    for index in range(_ASKED):
        plain: Any = fair_scene(REAL, index)
        scenes = {"": plain}
        scenes |= {f"weather: {one}": replace(plain, weather=one) for one in _VALUES["weather"]}
        scenes |= {f"time: {one}": replace(plain, time=one) for one in _VALUES["time"]}
        for at, (condition, scene) in enumerate(scenes.items()):
            save(folder / f"{index:04d}-{at}.png", lambda scene=scene: EMBEDDED.draw(scene).picture)
            lines.append((f"{index:04d}-{at}.png", plain.label, condition, str(index)))
    with (folder / "real.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return folder / "real.csv"


def weak_model(trial: Trial, name: str) -> Callable[[Pixels], NDArray[np.float32]]:
    """A small network that was trained on fair days and on the pictures that its weakness leaves it."""
    arm, values = WEAKNESSES[name]
    recipe = trial.lesson.recipe
    lesson = replace(trial.lesson, recipe=replace(recipe, rate=replace(recipe.rate, epochs=4)))
    place = trial.folder / "weak" / name.replace(" ", "-")
    if (file := place / "weights.pt").exists():
        network: torch.nn.Module = SmallNet()
        network.load_state_dict(torch.load(file, weights_only=True))
    else:
        some = zip(trial.rows, added_pictures(trial, arm) if values else (), strict=bool(values))
        kept_ones = [picture for row, picture in some if {edit.alternative for edit in row.edits} <= set(values)]
        network = trained(lesson, SmallNet, [*lesson.originals, *kept_ones], 0, place)
        torch.save(network.state_dict(), file)
    network.eval()

    def model(pictures: Pixels) -> NDArray[np.float32]:
        with torch.inference_mode():
            return np.asarray(network(as_pixels(pictures)).softmax(1).numpy())

    model.__name__ = name
    return model


if __name__ == "__main__":
    main()
