"""Claim: what `evaluate` says of an edit holds for the population that the sources were drawn from, and how far the
painter itself makes an effect other than it is.

Scenes of the street world go through the pocket profile. The demo's classifier is asked about the suite, and about the
same variants *rendered*: the scene after the edits as far as its world knows them. Effects of both
stand side by side with their difference by type, which is the painter's own. `--write` keeps the figures in
docs/effects.json. `--folder` keeps the suite, and goes on from it.

`--coverage` asks instead, of models whose faults are known (`simulated_suites.py`), how often intervals of fresh suites
hold what 50,000 other sources show, how often an effect that is none is called clear, how often edits that do not add
are said to, and how often a page's sentences are true (`sentence_coverage.py`). `--scale` judges 1,000 classes over
50,000 sources. Both write into docs/truth.json.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from effect_coverage import measure_coverage, measure_scale
from journeys import Bench
from measure import DOCS, Pixels, bench_parser, finish, picture_at, show
from numpy.typing import NDArray
from sentence_coverage import measure_sentences

from counterfactory.engine.cli.demo import demo_scene, write_sources
from counterfactory.engine.judging.effects import Effect, PictureOutcome, find_effects
from counterfactory.engine.pocket.judges import Classifier
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.effects_text import interval, points
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.export.pocket.counterfacts import apply_changes, read_edit

_BATCH = 256
# What docs/effects.json calls the effects of each way to have the pictures.
_SHOWN = {"effects": "painted", "rendered": "rendered", "painter": "painter"}
# 1 where a model was right and 0 where it was not, by row.
Outcomes = NDArray[np.float64]


def main() -> None:
    parser = bench_parser(__doc__, write="docs/effects.json, or docs/truth.json")
    parser.add_argument("--sources", type=int, default=200, help="scenes (%(default)s)")
    parser.add_argument("--variants", type=int, default=5, help="variants of each (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the suite is kept (nowhere)")
    parser.add_argument("--coverage", action="store_true", help="simulate suites of models whose faults are known")
    parser.add_argument("--draws", type=int, default=1000, help="such suites by model and size (%(default)s)")
    parser.add_argument("--scale", action="store_true", help="judge 1,000 classes over 50,000 sources")
    asked = parser.parse_args()
    if asked.coverage or asked.scale:
        measured = measure_coverage(asked.draws) | measure_sentences(asked.draws) if asked.coverage else measure_scale()
        claim = "intervals of effects hold the truth" if asked.coverage else "a thousand classes are judged"
        finish(claim, into=asked.write and DOCS / "truth.json", **measured)
        return
    with tempfile.TemporaryDirectory() as temporary:
        rows, suite = _made(asked.folder or Path(temporary), asked.sources, asked.variants)
        outcomes = _asked(rows, suite)
    effects = {name: find_effects(_picture_outcomes(rows, some), "control") for name, some in outcomes.items()}
    _show(effects)

    def shown(effects: Sequence[Effect]) -> dict[str, list[float | None]]:
        return {e.name: [None if v is None else round(v, 4) for v in (e.low, e.value, e.high)] for e in effects}

    def accuracy(kind: str) -> float:
        return round(float(outcomes["painted"][[row.kind == kind for row in rows]].mean()), 4)

    figures: dict[str, Any] = {"sources": asked.sources, "variants": asked.variants}
    figures |= {name: shown(effects[of]) for name, of in _SHOWN.items()}
    figures |= {f"{kind}_accuracy": accuracy(kind) for kind in ("original", "control")}
    into = asked.write and DOCS / "effects.json"
    finish("the painter adds little to what an edit does", into=into, **figures)


def _show(effects: Mapping[str, Sequence[Effect]]) -> None:
    by_type = zip(*effects.values(), strict=True)
    lines = [(of[0].name, *(f"{points(effect.value)} ({interval(effect)})" for effect in of)) for of in by_type]
    show("Accuracy, in points against the controls", ("edit", *effects), lines)


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

    painted = right(lambda row: picture_at(suite / row.file_name))
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


if __name__ == "__main__":
    main()
