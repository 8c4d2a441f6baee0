"""How well the checks tell variants that are what they say from others: thresholds are chosen on scenes of their own,
and judged on others, against what the referee sees.

A variant is *right* when the referee sees each of its edits that it can judge (weather, time, colours of vehicles) and
the nearest vehicle is still of the label's kind. Edits of walls have no judge. A layout is *kept* when the referee's
mask agrees with the source's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import stats

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED, STREETS, World
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import Suite

from .data import HELD_OUT, JUDGED
from .judged import Judged, held_out, judge_rows
from .observed import Observed

# Streams and numbers of scenes: those that choose never judge, and are not among those of the report's other figures.
_CHOOSING, _JUDGING = (HELD_OUT, 2000), (JUDGED, 3000)
SCENES, _VARIANTS = 150, 5
# The strictest thresholds that keep these shares of what is right, or whose layout is kept, are chosen.
_KEEP_RIGHT, _KEEP_LAYOUT = 0.8, 0.99
_LAYOUT_IOU = 0.65
# Classes with fewer pixels than this in the source's mask decide no layout.
_MIN_PIXELS = 60
# Below this area under its ROC curve a score says too little to reject by.
_LEAST_AREA = 0.6
# Said of the embedded models' checks.
_STREETS_SAY = """
The profile's gate is the probability `valid`, and what it is worth with the layout counted is in
[validity.md](validity.md). CLIP does not tell every kind of vehicle from every other, so that lost labels pass
([log.md](log.md)). Whoever wants pictures rather than purity says `check SUITE --set check.valid=0`, which paints
nothing.
"""


@dataclass(frozen=True)
class Case:
    """A variant's scores, verdict and truth. `edits` are (type, score, seen), seen None where there is no judge."""

    accepted: bool
    edits: tuple[tuple[str, float, bool | None], ...]
    label: float
    label_kept: bool
    layout: float
    layout_kept: bool

    @property
    def edit(self) -> float:
        """The score of the edit that shows the least."""
        return min(score for _, score, _ in self.edits)

    @property
    def right(self) -> bool:
        """Whether the picture is what its caption and its label say, as far as there is a judge."""
        return self.label_kept and all(seen is not False for *_, seen in self.edits)


def measure_gate(
    profile: Profile, folder: Path, referee: Referee, scenes: int = SCENES, world: World = EMBEDDED
) -> dict[str, Any]:
    """The figures of the report: thresholds as the choosing scenes have them, and what the profile's do on others.

    What an earlier call left in `folder` is gone on from.
    """
    choosing, judging = (
        cases_of(profile, folder / f"{stream}-{first}", referee, scenes, stream, first, world)
        for stream, first in (_CHOOSING, _JUDGING)
    )
    chosen = choose(choosing, profile.check.logit_scale)
    return {"gate_chosen": chosen, "gate_scenes": scenes, **gate_figures(judging)}


def cases_of(
    profile: Profile, folder: Path, referee: Referee, count: int, stream: int, first: int, world: World
) -> list[Case]:
    """The variants of `count` scenes of a stream from `first` on, under the demo's settings."""
    return [_case(one) for one in judge_demo(profile, folder, referee, count, stream, first, world)]


def judge_demo(
    profile: Profile, folder: Path, referee: Referee, count: int, stream: int, first: int, world: World
) -> list[Judged]:
    """What the referee sees in a suite of `count` scenes of a stream from `first` on, made under the demo's settings in
    `folder`/suite, with as many edits per variant as the profile asks for itself, if it does. What an earlier call left
    there is gone on from.
    """
    truth = dict(enumerate(held_out(count, first, stream, world), first))
    for number, (scene, drawing) in truth.items():
        for kind, array in (("images", drawing.picture), ("masks", drawing.mask)):
            path = folder / "street" / kind / scene.label / f"{number:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(path)
    found, _ = find_sources(folder / "street")
    task, edits = street_task("classification", world.name), profile.rewrite.edits or (1, 3)
    settings = SuiteRequest(task, _VARIANTS, controls=1, edits=edits, seed=0)
    with Suite.open(folder / "suite") as suite:
        Journey(profile, settings).run(Inputs(found), suite)
    return judge_rows(folder / "suite", referee, truth, world)


def label_kept(one: Observed, label: str | None) -> bool:
    """Whether the nearest vehicle is still of the label's kind."""
    return bool(one.finding.object(one.drawing.objects == 1)["kind"] == label)


def layout_kept(one: Observed) -> bool:
    """Whether the referee's mask agrees with the source's."""
    mask, classes = one.drawing.mask, len(one.finding.vocabulary.classes)
    by_class = iou(confusion_matrix(mask, one.finding.mask, classes))
    large = np.bincount(mask.ravel(), minlength=classes) > _MIN_PIXELS
    return bool(by_class[large].mean() > _LAYOUT_IOU)


def _case(one: Judged) -> Case:
    row = one.row
    return Case(
        accepted=row.accepted,
        edits=tuple(
            (edit.type, float(score or 0.0), one.edit_seen(i))
            for i, (edit, score) in enumerate(zip(row.edits, row.edit_scores, strict=True))
        ),
        label=row.scores["label"],
        label_kept=label_kept(one, row.label),
        layout=row.scores["layout"],
        layout_kept=layout_kept(one),
    )


def choose(cases: Sequence[Case], logit_scale: float) -> dict[str, float]:
    """The settings that these cases ask for; their edit scores were made with `logit_scale`.

    The scale is the one by which edits' scores are likeliest as probabilities that the referee sees the edit.
    """
    right, kept = [case.edit for case in cases if case.right], [case.layout for case in cases if case.layout_kept]
    area = area_under([case.label for case in cases], [case.label_kept for case in cases])
    label = _strictest([case.label for case in cases if case.label_kept], np.arange(-1, 1, 0.05), _KEEP_RIGHT)
    return {
        "logit_scale": _likeliest_scale(cases, logit_scale),
        "min_edit": _strictest(right, np.arange(0, 1, 0.01), _KEEP_RIGHT),
        "min_label": label if area > _LEAST_AREA else -1.0,
        "min_layout": _strictest(kept, np.arange(0, 1, 0.05), _KEEP_LAYOUT),
    }


def _strictest(scores: Sequence[float], thresholds: NDArray[np.float64], share: float) -> float:
    """The largest threshold that at least this share of the scores reach; the first where there are none."""
    found = [t for t in thresholds.round(2) if scores and np.mean(np.array(scores) >= t) >= share]
    return float(max(found, default=thresholds[0]))


def _likeliest_scale(cases: Sequence[Case], logit_scale: float) -> float:
    judged = [(score, seen) for case in cases for _, score, seen in case.edits if seen is not None]
    if not judged:
        return logit_scale
    scores, seen = np.array([s for s, _ in judged]).clip(1e-6, 1 - 1e-6), np.array([s for _, s in judged])
    margins = np.log(scores / (1 - scores)) / logit_scale * np.where(seen, 1, -1)
    scales = np.arange(1, 101)
    likely = [-np.logaddexp(0, -scale * margins).mean() for scale in scales]
    return float(scales[int(np.argmax(likely))])


def gate_figures(cases: Sequence[Case]) -> dict[str, Any]:
    """Precision, recall and base rate of the verdicts, and how each check tells what it is there to tell."""
    accepted, right = (np.array([getattr(case, name) for case in cases], bool) for name in ("accepted", "right"))
    return {
        "gate_variants": len(cases),
        "gate_base_rate": mean_or_none(right),
        "gate_accepted": mean_or_none(accepted),
        "gate_precision": mean_or_none(right[accepted]),
        "gate_recall": mean_or_none(accepted[right]),
        "gate_rejected_right": mean_or_none(right[~accepted]),
        "gate_edits": {type_: _edits(cases, type_) for type_ in _types(cases)},
        "gate_label": _telling(cases, lambda case: case.label, lambda case: case.label_kept),
        "gate_layout": _telling(cases, lambda case: case.layout, lambda case: case.layout_kept),
    }


def _types(cases: Sequence[Case]) -> list[str]:
    """The types of the cases' edits, in the order of all types."""
    there = {name for case in cases for name, *_ in case.edits}
    return [name for name in EDIT_TYPES if name in there]


def gate_section(figures: Mapping[str, Any], check: CheckSettings, world: World = EMBEDDED) -> str:
    """The part of the report's page on the checks, of `measure_gate`'s figures."""
    of = figures["gate_edits"]
    colour, label, layout = of.get("colour", _edits([], "colour")), figures["gate_label"], figures["gate_layout"]
    scenes = figures["gate_scenes"]
    thresholds = "\n".join(
        f"| `{name}` | {value:g} | {getattr(check, name):g} |" for name, value in figures["gate_chosen"].items()
    )
    edits = "\n".join(
        f"| {name} | {row['edits']} | {row['judged'] or '-'} | "
        + " | ".join(_cell(row[key]) for key in ("seen", "unseen_rejected", "seen_rejected", "rejected"))
        + f" | {format(row['area'], '.2f') if row['unseen_rejected'] is not None else '-'} |"
        for name, row in of.items()
    )
    roc = "\n".join(
        f"| {row['min_edit']:g} | {_cell(row['unseen_rejected'])} | {_cell(row['seen_rejected'])} |"
        for row in colour["roc"]
    )
    return f"""## What the checks let pass

Thresholds are chosen on {scenes} scenes with {_VARIANTS} variants each, under the demo's settings, and judged on
{scenes} others ({figures["gate_variants"]} variants). A variant is right when the referee sees every edit that it can
judge and the nearest vehicle is still of the label's kind.

| | |
|---|---|
| right, of all that are painted (base rate) | {_cell(figures["gate_base_rate"])} |
| accepted | {_cell(figures["gate_accepted"])} |
| right, of those accepted (precision) | {_cell(figures["gate_precision"])} |
| accepted, of those that are right (recall) | {_cell(figures["gate_recall"])} |
| right, of those rejected | {_cell(figures["gate_rejected_right"])} |
| new colours seen, of all that are painted | {_cell(colour["seen"])} |
| new colours seen, in accepted variants | {_cell(colour["accepted_seen"])} |
| layout kept (mIoU above {_LAYOUT_IOU:g}) | {_cell(layout["kept"])} |
| label kept | {_cell(label["kept"])} |
{_STREETS_SAY if world is STREETS else ""}
Edits by type. *Rejected* counts the variants that carry the edit, for whatever reason. *Area* is that under the ROC
curve of the edit's own score: 1 tells all, 0.5 nothing. What the referee has no words for has no judge.

| edit | edits | judged | seen | unseen, rejected | seen, rejected | rejected | area |
|---|---|---|---|---|---|---|---|
{edits}

By the edit's own score alone, of edits of colour:

| `min_edit` | unseen, rejected | seen, rejected |
|---|---|---|
{roc}

The label's score has an area of {label["area"]:.2f}, the layout's of {layout["area"]:.2f}. Chosen are the strictest
`min_edit` that {_KEEP_RIGHT:.0%} of the right variants reach, the strictest `min_layout` that {_KEEP_LAYOUT:.0%} of the
kept layouts reach, a `min_label` only where the area is above {_LEAST_AREA:g}, and the `logit_scale` by which
scores of edits are likeliest as probabilities.

| setting | chosen | the profile's |
|---|---|---|
{thresholds}"""


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _edits(cases: Sequence[Case], type_: str) -> dict[str, Any]:
    """Of edits of a type: how many the referee sees, and what becomes of the variants with those that it does not."""
    of_type = [(case.accepted, score, seen) for case in cases for name, score, seen in case.edits if name == type_]
    judged = [(accepted, score, seen) for accepted, score, seen in of_type if seen is not None]
    seen = np.array([s for *_, s in judged], bool)
    rejected = ~np.array([accepted for accepted, *_ in judged], bool)
    scores = np.array([score for _, score, _ in judged])
    return {
        "edits": len(of_type),
        "judged": len(judged),
        "seen": mean_or_none(seen),
        "accepted_seen": mean_or_none(seen[~rejected]),
        "area": area_under(scores, seen),
        "roc": [
            {
                "min_edit": t,
                "unseen_rejected": mean_or_none(scores[~seen] < t),
                "seen_rejected": mean_or_none(scores[seen] < t),
            }
            for t in (0.45, 0.5, 0.53, 0.56, 0.6, 0.65, 0.7)
        ],
        "unseen_rejected": mean_or_none(rejected[~seen]),
        "seen_rejected": mean_or_none(rejected[seen]),
        "rejected": mean_or_none(np.array([not accepted for accepted, *_ in of_type])),
    }


def _telling(cases: Sequence[Case], score: Callable[[Case], float], truth: Callable[[Case], bool]) -> dict[str, Any]:
    kept = [truth(case) for case in cases]
    return {"kept": mean_or_none(np.array(kept)), "area": area_under([score(case) for case in cases], kept)}


def mean_or_none(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def area_under(scores: Sequence[float] | NDArray[np.float64], truth: Sequence[bool] | NDArray[np.bool_]) -> float:
    """The area under the ROC curve: how often one that is true scores above one that is not; 0.5 without both."""
    scores, held = np.asarray(scores), np.asarray(truth, bool)
    if held.all() or not held.any():
        return 0.5
    above = stats.mannwhitneyu(scores[held], scores[~held]).statistic
    return float(above / (held.sum() * (~held).sum()))
