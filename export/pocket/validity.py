"""The gate measured where truth is known: precision and recall of every check and of all together.

A variant is *valid* when the referee sees each of its edits that it can judge, the nearest vehicle is still of the
label's kind, and the referee's mask agrees with the source's. Thresholds are chosen on scenes of their own; figures are
of other scenes. The gate is the product's: verdicts of the engine's own rules. The referee takes no part in it.

    python -m counterfactory.export validity

makes two suites in the work folder, with every check that the embedded models have, and writes validity.json,
validity.md and validity.svg. Beside each suite it leaves valid.csv, for `check SUITE --sweep KEY --valid FILE`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.config.profile import Profile
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import World, world_named
from counterfactory.engine.stages.verdict import CheckSettings, failing, threshold_names
from counterfactory.engine.suite import PictureRow, read_run

from .data import HELD_OUT, JUDGED
from .gate import area_under, judge_demo, label_kept, layout_kept, mean_or_none
from .judged import Judged
from .packed import gather
from .report import Subject
from .validity_page import draw_curve, validity_page

SCENES = 150
# Streams and numbers of scenes: those that choose never judge, and no other figure is of either.
_CHOOSING, _JUDGING = (HELD_OUT, 4000), (JUDGED, 5000)
# The least share of the valid variants that the chosen gates are to accept; the first is the bar.
RECALLS = (0.9, 0.95, 0.8, 0.7, 0.6, 0.5)
# A threshold is added while it makes this much of the accepted ones valid that were not.
_GAIN = 0.005
# Thresholds that are tried: those that keep these shares of the valid variants.
_KEPT = np.linspace(0.5, 1, 26)


@dataclass(frozen=True)
class Case:
    """A variant's row, and whether it is valid."""

    row: PictureRow
    valid: bool


def is_valid(one: Judged) -> bool:
    """Whether a variant is what it says, as far as the referee can tell."""
    seen = [one.edit_seen(i) for i in range(len(one.edits))]
    return label_kept(one) and layout_kept(one) and all(hit is not False for hit in seen)


def measure_validity(profile: Profile, folder: Path, referee: Referee, world: World, scenes: int) -> dict[str, Any]:
    """The figures. What an earlier call left in `folder` is gone on from."""
    choosing, judging = (
        cases_of(profile, folder / f"{stream}-{first}", referee, scenes, stream, first, world)
        for stream, first in (_CHOOSING, _JUDGING)
    )
    costs = check_shares(folder / f"{JUDGED}-{_JUDGING[1]}" / "suite")
    return {"world": world.name, "scenes": scenes, **figures_of(profile.check, choosing, judging), **costs}


def cases_of(
    profile: Profile, folder: Path, referee: Referee, count: int, stream: int, first: int, world: World
) -> list[Case]:
    """The variants of a suite that is made in two sessions: with the profile's own checks, whose cost is by itself on
    record, and then with the captioner's second look.
    """
    judge_demo(profile, folder, referee, count, stream, first, world)
    looked = replace(profile, check=replace(profile.check, recaption=True))
    judged = judge_demo(looked, folder, referee, count, stream, first, world)
    cases = [Case(one.row, is_valid(one)) for one in judged]
    lines = [f"{case.row.file_name},{str(case.valid).lower()}\n" for case in cases]
    write_whole(folder / "valid.csv", "image,valid\n" + "".join(lines), sync="nothing")
    return cases


def check_shares(suite: Path) -> dict[str, float | None]:
    """The checks' share of a journey's time, by the suite's record: of the profile's own checks, and with the
    captioner's second look beside them. None where an earlier run had made the suite.
    """
    record = read_run(suite)
    first, *rest = record.sessions if record is not None else []
    if not first.costs.painted:
        return {"checks_share": None, "checks_share_recaption": None}
    spent = {cost.stage: cost.wall_s for cost in first.costs.stages}
    again = sum(cost.wall_s for one in rest[:1] for cost in one.costs.stages if cost.stage == "check")
    whole = sum(spent.values())
    return {
        "checks_share": spent["check"] / whole,
        "checks_share_recaption": (spent["check"] + again) / (whole + again),
    }


def figures_of(check: CheckSettings, choosing: Sequence[Case], judging: Sequence[Case]) -> dict[str, Any]:
    """The gate by the settings `check`, gates that the choosing cases ask for, and every check by itself."""
    if not any(case.valid for case in choosing) or not any(case.valid for case in judging):
        raise CounterfactoryError("no variant is valid: there is nothing to measure; ask for more --scenes")
    free = open_gate(check)
    chosen = {recall: choose_gate(free, choosing, recall) for recall in RECALLS}
    gates = [
        {"recall_wanted": recall, "thresholds": settings.strict, **gate_of(settings, judging)}
        for recall, settings in chosen.items()
    ]
    return {
        "variants": len(judging),
        "gate_base_rate": float(np.mean([case.valid for case in judging])),
        **{f"gate_{name}": value for name, value in gate_of(check, judging).items()},
        "gate_thresholds": check.strict,
        "chosen": gates,
        "by_check": {name: check_figures(free, name, choosing, judging) for name in _scores_of(choosing)},
    }


def open_gate(check: CheckSettings) -> CheckSettings:
    """The settings without any threshold that rejects."""
    for name in check.strict:
        check = check.without(name)
    return check


def gate_of(settings: CheckSettings, cases: Sequence[Case]) -> dict[str, float | None]:
    """The share that settings accept, what of it is valid (precision), and what of the valid ones it is (recall)."""
    accepted = np.array([failing(case.row.scores, settings, "variant") is None for case in cases])
    valid = np.array([case.valid for case in cases])
    return {
        "accepted": mean_or_none(accepted),
        "precision": mean_or_none(valid[accepted]),
        "recall": mean_or_none(accepted[valid]),
    }


def choose_gate(settings: CheckSettings, cases: Sequence[Case], recall: float) -> CheckSettings:
    """Thresholds that let this share of the valid cases pass, and as few others as can be had one by one: each that is
    added makes the most of the accepted cases valid, and the last ones that add next to nothing are left out.
    """
    valid = np.array([case.valid for case in cases])
    columns = {name: np.array([case.row.scores.get(name, np.inf) for case in cases]) for name in _scores_of(cases)}
    tried = {name: _thresholds(name, cases, _KEPT) for name in columns}
    chosen: dict[str, float] = {}
    best = float(valid.mean())
    while True:
        found = None
        for name, column in columns.items():
            others = [columns[other] >= least for other, least in chosen.items() if other != name]
            passed = np.all(others, axis=0) if others else np.ones(len(cases), bool)
            for least in tried[name]:
                accepted = passed & (column >= least)
                if accepted[valid].mean() >= recall and valid[accepted].mean() >= best + _GAIN:
                    best, found = float(valid[accepted].mean()), (name, least)
        if found is None:
            return _with(settings, chosen)
        chosen[found[0]] = found[1]


def _with(settings: CheckSettings, least: Mapping[str, float]) -> CheckSettings:
    changes: dict[str, Any] = {f"min_{name}": value for name, value in least.items()}
    return replace(settings, **changes)


def _scores_of(cases: Sequence[Case]) -> list[str]:
    """The scores of the cases that can have a threshold."""
    names = {name for case in cases for name in case.row.scores}
    return sorted(name for name in names if f"min_{name}" in threshold_names())


def _thresholds(name: str, cases: Sequence[Case], kept: NDArray[np.float64]) -> list[float]:
    """The thresholds of a score that keep these shares of the valid cases, to three digits, downwards."""
    scores = [case.row.scores[name] for case in cases if case.valid and name in case.row.scores]
    if not scores:
        return []
    return sorted({float(np.floor(1000 * v) / 1000) for v in np.quantile(scores, 1 - kept, method="lower")})


def check_figures(
    free: CheckSettings, name: str, choosing: Sequence[Case], judging: Sequence[Case]
) -> dict[str, float | None]:
    """What a check tells by itself: the area under its ROC curve (0.5: nothing), and precision and recall of the
    threshold that keeps as many of the choosing cases' valid ones as the bar asks for.
    """
    with_it = [case for case in judging if name in case.row.scores]
    area = area_under([case.row.scores[name] for case in with_it], [case.valid for case in with_it])
    least = _thresholds(name, choosing, np.array([RECALLS[0]]))
    if not least:
        return {"area": area, "least": None, "accepted": None, "precision": None, "recall": None}
    return {"area": area, "least": least[0], **gate_of(_with(free, {name: least[0]}), judging)}


def add_command(commands: Any, docs: Path) -> None:
    """`validity`, whose figures go to `docs`."""
    parser = commands.add_parser("validity", help="measure the checks against the truth: docs/validity.md and .json")
    parser.add_argument("--work", type=Path, default=Path("pocket-training"), help="folder of the suites")
    parser.add_argument("--weights", type=Path, help="folder of packed models (default: this checkout's)")
    parser.add_argument("--world", default="streets", help="the models' world: streets (the embedded models'), wide")
    parser.add_argument("--docs", type=Path, default=docs, help="folder of the figures")
    parser.add_argument("--scenes", type=int, default=SCENES, help="fewer are not for docs (%(default)s)")

    def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
        if asked.scenes < SCENES and asked.docs.resolve() == docs.resolve():
            raise CounterfactoryError(
                f"the figures in docs are of {SCENES} scenes, {asked.scenes} asked for; name another folder with --docs"
            )
        write_validity(asked.work, asked.weights, world_named(asked.world), asked.scenes, asked.docs)
        say(f"written: {asked.docs / 'validity.md'}")
        return 0

    parser.set_defaults(run=run)


def write_validity(work: Path, weights: Path | None, world: World, scenes: int, docs: Path) -> Mapping[str, Any]:
    """Measure, and write the figures to `docs`."""
    subject = Subject(world, weights or gather(work / "packed"), work, scenes)
    referee = Referee.load(subject.weights, world.vocabulary)
    figures = measure_validity(subject.profile, work / "measured" / "validity", referee, world, scenes)
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("validity.json", json.dumps(figures, indent=2) + "\n"),
        ("validity.md", validity_page(figures)),
        ("validity.svg", draw_curve(figures)),
    ):
        write_whole(docs / name, text, sync="nothing")
    return figures
