"""Claim: what `evaluate` says of an edit holds for the population that the sources were drawn from, and how far the
painter itself makes an effect other than it is.

Scenes of the street world go through the pocket profile. The demo's classifier is asked about the suite, and about the
same variants *rendered*: the scene after the edits as far as its world knows them. Effects of both
stand side by side with their difference by type, which is the painter's own. Then suites of `--resample` sources are
drawn from all sources `--draws` times, and counted is how often their intervals hold what all sources show: for the
classifier, and for one with two faults built in (it errs in fog) and one that colours do not touch.

`--write` keeps the figures in docs/effects.json. `--folder` keeps the suite, and goes on from it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from journeys import Bench
from measure import Pixels, bench_parser, finish, show
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.cli.demo import demo_scene, write_sources
from counterfactory.engine.judging.effects import Effect, PictureOutcome, find_effects
from counterfactory.engine.keys import generator
from counterfactory.engine.pocket.judges import Classifier
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.effects_text import interval, points
from counterfactory.engine.report.table import percent
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.export.pocket.counterfacts import apply_changes, read_edit

_FIGURES = Path(__file__).parents[1] / "docs" / "effects.json"
# How often the built-in models err by themselves, and how much oftener in fog the one that has that fault.
_ERRS, _ERRS_IN_FOG = 0.1, 0.4
_BATCH = 256
# 1 where a model was right and 0 where it was not, by row.
Outcomes = NDArray[np.float64]


def main() -> None:
    """Make, ask, compare, count."""
    parser = bench_parser(__doc__, write="docs/effects.json")
    parser.add_argument("--sources", type=int, default=200, help="scenes (%(default)s)")
    parser.add_argument("--variants", type=int, default=5, help="variants of each (%(default)s)")
    parser.add_argument("--resample", type=int, default=100, help="sources of a suite drawn from them (%(default)s)")
    parser.add_argument("--draws", type=int, default=200, help="such suites (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the suite is kept (nowhere)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rows, suite = _made(asked.folder or Path(temporary), asked.sources, asked.variants)
        outcomes = _asked(rows, suite)
    effects = {name: find_effects(_picture_outcomes(rows, some), "control") for name, some in outcomes.items()}
    coverage = {
        name: _coverage(rows, outcome, asked.resample, asked.draws)
        for name, outcome in {"classifier": outcomes["painted"], **_built_in(rows)}.items()
    }
    _show(effects, coverage)

    def shown(effects: Sequence[Effect]) -> dict[str, list[float | None]]:
        return {e.name: [None if v is None else round(v, 4) for v in (e.low, e.value, e.high)] for e in effects}

    def accuracy(kind: str) -> float:
        return round(float(outcomes["painted"][[row.kind == kind for row in rows]].mean()), 4)

    figures: dict[str, Any] = {
        "sources": asked.sources,
        "variants": asked.variants,
        "coverage": round(min(share for shares in coverage.values() for share in shares.values()), 4),
        "coverage_by_model": {name: {t: round(s, 4) for t, s in shares.items()} for name, shares in coverage.items()},
        "resample": asked.resample,
        "draws": asked.draws,
        "effects": shown(effects["painted"]),
        "rendered": shown(effects["rendered"]),
        "painter": shown(effects["painter"]),
        "original_accuracy": accuracy("original"),
        "control_accuracy": accuracy("control"),
    }
    if asked.write:
        _FIGURES.write_text(json.dumps(figures, indent=2) + "\n")
    finish("intervals of effects hold what all sources show", **figures)


def _show(effects: Mapping[str, Sequence[Effect]], coverage: Mapping[str, Mapping[str, float]]) -> None:
    by_type = zip(*effects.values(), strict=True)
    lines = [(of[0].name, *(f"{points(effect.value)} ({interval(effect)})" for effect in of)) for of in by_type]
    show("Accuracy, in points against the controls", ("edit", *effects), lines)
    types = sorted({name for shares in coverage.values() for name in shares})
    lines = [(name, *(percent(shares[type_]) for type_ in types)) for name, shares in coverage.items()]
    show("Intervals that hold what all sources show", ("model", *types), lines)


def _made(folder: Path, count: int, variants: int) -> tuple[list[PictureRow], Path]:
    write_sources(folder / "sources", count)
    sources, _ = find_sources(folder / "sources")
    settings = SuiteRequest(street_task("classification"), variants, controls=1, edits=(1, 3), seed=0)
    Bench(load_profile("pocket"), settings, sources, folder).run("suite")
    return [row for row in read_metadata(folder / "suite") if row.accepted], folder / "suite"


def _asked(rows: Sequence[PictureRow], suite: Path) -> dict[str, Outcomes]:
    """Whether the demo's classifier was right on the suite's pictures, and on the same rendered; and of the painter the
    one less the other, whose effects are as any. A control's is the painter's by itself, which every type is free of.
    """
    classifier = Classifier.load(load_profile("pocket").models.path)

    def right(picture: Callable[[PictureRow], Pixels]) -> Outcomes:
        found: list[float] = []
        for start in range(0, len(rows), _BATCH):
            some = rows[start : start + _BATCH]
            answers = classifier.predict(np.stack([picture(row) for row in some]))
            found += [float(answer == row.label) for answer, row in zip(answers, some, strict=True)]
        return np.array(found)

    painted = right(lambda row: np.asarray(Image.open(suite / row.file_name).convert("RGB")))
    rendered = right(lambda row: EMBEDDED.draw(rendered_scene(row)).picture)
    return {"painted": painted, "rendered": rendered, "painter": painted - rendered}


def rendered_scene(row: PictureRow) -> Any:
    """The scene of a row's source with the edits that its world knows; the rest stays."""
    scene = demo_scene(int(row.source[-4:]))
    return apply_changes(scene, [change for edit in row.edits for change in read_edit(scene, edit)])


def _picture_outcomes(rows: Sequence[PictureRow], outcomes: Outcomes) -> list[PictureOutcome]:
    return [
        PictureOutcome(row.source, row.kind, float(outcome), frozenset(row.edit_types))
        for row, outcome in zip(rows, outcomes, strict=True)
    ]


def _built_in(rows: Sequence[PictureRow]) -> dict[str, Outcomes]:
    """Models whose faults are known: one errs oftener in fog, one errs everywhere alike, whatever the colours."""
    luck = np.array([generator(row.key, "built-in").random() for row in rows])
    fog = np.array(["foggy" in row.edited_caption for row in rows])
    return {
        "errs in fog": (luck >= _ERRS + _ERRS_IN_FOG * fog).astype(float),
        "errs everywhere alike": (luck >= _ERRS).astype(float),
    }


def _coverage(rows: Sequence[PictureRow], outcomes: Outcomes, size: int, draws: int) -> dict[str, float]:
    """By type, how often the interval of a suite of `size` sources holds the effect in all of them."""
    answers = _picture_outcomes(rows, outcomes)
    by_source: dict[str, list[PictureOutcome]] = {}
    for answer in answers:
        by_source.setdefault(answer.source, []).append(answer)
    truth = {effect.name: effect.value for effect in find_effects(answers, "control")}
    names, held, asked = sorted(by_source), dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    rng = np.random.default_rng(0)
    for _ in range(draws):
        chosen = rng.choice(len(names), min(size, len(names)), replace=False)
        for effect in find_effects([answer for i in chosen for answer in by_source[names[i]]], "control"):
            value = truth[effect.name]
            if value is not None and effect.low is not None and effect.high is not None:
                asked[effect.name] += 1
                held[effect.name] += effect.low <= value <= effect.high
    return {name: held[name] / asked[name] for name in truth if asked[name]}


if __name__ == "__main__":
    main()
