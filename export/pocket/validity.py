"""The gate measured where truth is known: precision and recall of every check and of all together.

A variant is *valid* when the referee sees each of its edits that it can judge, the nearest vehicle is still of the
label's kind, and the referee's mask agrees with the source's. It is *unchanged* when all that no edit names is as in
the source (unchanged.py), and *good* when it is both. The weights of the score "valid" and its thresholds are chosen on
scenes of their own; figures are of scenes that nobody looked at, of streams drawn by lot or given as --seed, which are
on record. The gate is the product's: verdicts of the engine's own rules. The referee takes no part in it.

    python -m counterfactory.export validity

makes two suites in the work folder, with the checks that the profile asks for, and writes validity.json, of another
profile than "pocket" validity-NAME.json, which holds the weights as a profile has them; of "pocket" also its keys of
truth.json, and sheets of what the new checks do, to be looked at. Beside each suite it leaves valid.csv, for
`check SUITE --sweep KEY --valid FILE` and `check SUITE --fit FILE`.
"""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.judging.fit_valid import EDIT_SCORES, RECALLS, Example, fit_valid, strictest
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.check import CheckSettings, threshold_names
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.stages.check.verdict import failing, with_valid
from counterfactory.engine.suite import PictureRow

from .counterfacts import apply_changes
from .data import HELD_OUT
from .observed import Judged, Observed, as_rendered, as_sources, judge_variants
from .packed import gather
from .report import Subject
from .streaks import STREAKED, count_streaks
from .unchanged import Facts, draw_sheets, truth_figures, unchanged_facts

_DOCS = Path(__file__).parents[2] / "docs"
# Scenes that choose, and of each stream that judges; all that judge, for figures in docs; variants of each.
SCENES, _JUDGING, _VARIANTS = 300, 600, 5
_LAYOUT_IOU = 0.65
# Classes with fewer pixels than this in the source's mask decide no layout.
_MIN_PIXELS = 60
# Stream and number of the scenes that choose; those that judge are the first of fresh streams, above all others.
_CHOOSING, _FRESH = (HELD_OUT, 4000), (1000, 1 << 31)
# The keys of truth.json that are measured here.
_TRUTH = (
    *("accepted_unchanged", "unchanged_recall", "registration_caught", "registration_false_alarms", "label_auc"),
    *("accepted_unchanged_one_vehicle", "accepted_unchanged_several", "unchanged_by_fact"),
    *("valid_and_unchanged", "valid_and_unchanged_interval", "accepted_unchanged_interval", "gate_by_vehicles"),
    *("streaked_when_dry", "streaked_rendered"),
)
# Draws of scenes for an interval, and the ends that it has.
_DRAWS, _ENDS = 1000, (0.025, 0.975)
# Between these probabilities variants are counted together, to see whether as many are valid as was said.
_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True)
class Case:
    """A variant's row, whether it is valid, and of each of its edits whether the referee sees it, None where it cannot
    judge that.
    """

    row: PictureRow
    valid: bool
    seen: tuple[bool | None, ...] = ()


def is_valid(one: Observed) -> bool:
    """Whether a picture is what it says and still shows its scene's label, as far as the referee can tell."""
    if False in _seen(one) or one.finding.object(one.drawing.objects == 1)["kind"] != one.scene.label:
        return False
    mask, classes = one.drawing.mask, len(EMBEDDED.classes)
    by_class = iou(confusion_matrix(mask, one.finding.mask, classes))
    large = np.bincount(mask.ravel(), minlength=classes) > _MIN_PIXELS
    return bool(by_class[large].mean() > _LAYOUT_IOU)


def mean_or_none(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def area_under(scores: Sequence[float], truth: Sequence[bool]) -> float | None:
    """The area under the ROC curve: how often one that is true scores above one that is not; None without both."""
    values, held = np.asarray(scores), np.asarray(truth, bool)
    if held.all() or not held.any():
        return None
    return float(stats.mannwhitneyu(values[held], values[~held]).statistic / (held.sum() * (~held).sum()))


def _seen(one: Observed) -> tuple[bool | None, ...]:
    return tuple(one.edit_seen(i) for i in range(len(one.edits)))


def referee_figures(judged: Sequence[Judged], referee: Referee) -> dict[str, float | None]:
    """How the truth itself errs: `truth_valid` is the share of the truth's own renderings that the referee calls valid,
    which a gate without a fault could not surpass by much, `source_valid` that of the unchanged sources in the place of
    variants with an edit that it can judge, none of which is.
    """
    judgeable = [one for one in judged if any(seen is not None for seen in _seen(one))]
    rendered, unchanged = as_rendered(judged, referee), as_sources(judgeable, referee)
    shares = (mean_or_none(np.array([is_valid(one) for one in shown])) for shown in (rendered, unchanged))
    return dict(zip(("truth_valid", "source_valid"), shares, strict=True))


def figures_of(check: CheckSettings, choosing: Sequence[Case], judging: Sequence[Case]) -> dict[str, Any]:
    """The gate by the settings `check`, gates by the score "valid" as the choosing cases have it, and every check by
    itself.
    """
    if not any(case.valid for case in choosing) or not any(case.valid for case in judging):
        raise CounterfactoryError("no variant is valid: there is nothing to measure; ask for more --scenes")
    fit = fit_valid([Example(case.row.scores, case.row.source, case.row.edit_types, case.valid) for case in choosing])
    free = replace(open_gate(check), valid=fit.parts)
    valid = [case.valid for case in choosing]
    chosen = {recall: strictest(fit.out_of_fold, valid, recall) for recall in RECALLS}
    choosing, scored = with_probabilities(free, choosing), with_probabilities(free, judging)
    gates = [
        {"recall_wanted": recall, "thresholds": {"min_valid": least}, **gate_of(free.having(min_valid=least), scored)}
        for recall, least in chosen.items()
    ]
    best = free.having(min_valid=chosen[RECALLS[0]])
    types = sorted({name for case in scored for name in case.row.edit_types})
    # Those that can have a threshold.
    scores = sorted({n for case in choosing for n in case.row.scores if f"min_{n}" in threshold_names()})
    return {
        "variants": len(judging),
        "gate_base_rate": float(np.mean([case.valid for case in judging])),
        **{f"gate_{name}": value for name, value in gate_of(check, with_probabilities(check, judging)).items()},
        "gate_thresholds": check.strict,
        "chosen": gates,
        "parts": [asdict(part) for part in fit.parts],
        "calibration": calibration(scored),
        "by_type": {type_: type_figures(best, type_, scored) for type_ in types},
        "by_check": {name: check_figures(free, name, choosing, scored) for name in scores},
    }


def with_probabilities(settings: CheckSettings, cases: Sequence[Case]) -> list[Case]:
    """The cases with the score "valid" as the settings make it."""
    scores = (with_valid("variant", case.row.scores, settings) for case in cases)
    return [replace(case, row=replace(case.row, scores=of)) for case, of in zip(cases, scores, strict=True)]


def open_gate(check: CheckSettings) -> CheckSettings:
    return check.having(**dict.fromkeys(check.strict))


def gate_of(settings: CheckSettings, cases: Sequence[Case]) -> dict[str, Any]:
    """The share that settings accept, what of it is valid (precision), and what of the valid ones it is (recall), each
    with its interval over draws of sources.
    """
    accepted = np.array([failing(case.row.scores, settings, "variant") is None for case in cases])
    valid = np.array([case.valid for case in cases])
    shares = {"precision": mean_or_none(valid[accepted]), "recall": mean_or_none(accepted[valid])}
    intervals = _intervals(accepted, valid, [case.row.source for case in cases])
    return {"accepted": mean_or_none(accepted), **shares, **intervals}


def _intervals(
    accepted: NDArray[np.bool_], valid: NDArray[np.bool_], sources: Sequence[str]
) -> dict[str, list[float] | None]:
    """The 95 % intervals of precision and recall: variants of one source are alike, so that sources are drawn."""
    wholes = {"precision_interval": accepted, "recall_interval": valid}
    return {name: share_interval(accepted & valid, whole, sources) for name, whole in wholes.items()}


def share_interval(part: NDArray[np.bool_], whole: NDArray[np.bool_], sources: Sequence[str]) -> list[float] | None:
    """The 95 % interval of the share of `whole` that is `part`, over draws of sources; None for nothing."""
    names, of = np.unique(sources, return_inverse=True)
    counts = np.stack([np.bincount(of, weights=some) for some in (part & whole, whole)])
    draws = np.random.default_rng(0).integers(len(names), size=(_DRAWS, len(names)))
    hits, taken = counts[:, draws].sum(axis=2)
    some = taken > 0
    return np.quantile(hits[some] / taken[some], _ENDS).tolist() if some.any() else None


def calibration(cases: Sequence[Case]) -> list[dict[str, float]]:
    """Variants by their probability: how many, their mean probability, and the share of them that is valid."""
    said = np.array([case.row.scores.get("valid", np.nan) for case in cases])
    valid = np.array([case.valid for case in cases])
    bins = [(said >= low) & (said < high) for low, high in zip(_EDGES, (*_EDGES[1:-1], 1.1), strict=False)]
    filled = [(said[some], valid[some]) for some in bins if some.any()]
    return [{"variants": len(of), "said": float(of.mean()), "valid": float(hits.mean())} for of, hits in filled]


def type_figures(settings: CheckSettings, type_: str, cases: Sequence[Case]) -> dict[str, Any]:
    """Of the variants with an edit of a type: the base rate, the gate's figures, how many of the edits the referee sees
    of those that it judges, and the areas under the curves of the scores of such edits against that.
    """
    of_type = [case for case in cases if type_ in case.row.edit_types]
    edits = ((case.row.scores, *edit) for case in of_type for edit in zip(case.row.edit_types, case.seen, strict=True))
    judged = [(scores, hit) for scores, name, hit in edits if name == type_ and hit is not None]
    areas = dict[str, float | None]()
    for name in EDIT_SCORES:
        told = [(scores[score], hit) for scores, hit in judged if (score := f"{name}_{type_}") in scores]
        areas[f"area_{name}"] = area_under([value for value, _ in told], [hit for _, hit in told])
    base_rate = mean_or_none(np.array([case.valid for case in of_type]))
    seen = mean_or_none(np.array([hit for _, hit in judged]))
    return {"variants": len(of_type), "base_rate": base_rate, **gate_of(settings, of_type), "seen": seen, **areas}


def check_figures(
    free: CheckSettings, name: str, choosing: Sequence[Case], judging: Sequence[Case]
) -> dict[str, float | None]:
    """What a check tells by itself: the area under its ROC curve (0.5: nothing), and precision and recall of the
    threshold that keeps as many of the choosing cases' valid ones as the bar asks for.
    """
    area = area_under(*_scores_and_truth(name, judging))
    values, valid = _scores_and_truth(name, choosing)
    if not any(valid):
        return {"area": area, "least": None, "accepted": None, "precision": None, "recall": None}
    changes = {f"min_{name}": (least := strictest(values, valid, RECALLS[0]))}
    return {"area": area, "least": least, **gate_of(free.having(**changes), judging)}


def _scores_and_truth(name: str, cases: Sequence[Case]) -> tuple[list[float], list[bool]]:
    """The score of a name and whether it is valid, of each case that has the score."""
    with_it = [case for case in cases if name in case.row.scores]
    return [case.row.scores[name] for case in with_it], [case.valid for case in with_it]


def add_command(commands: Any) -> None:
    parser = commands.add_parser("validity", help="measure the checks against the truth: docs/validity.json")
    parser.add_argument("--work", type=Path, default=Path("pocket-training"), help="folder of the suites")
    parser.add_argument("--weights", type=Path, help="folder of packed models (default: this checkout's)")
    parser.add_argument("--profile", default="pocket", help="whose checks; another than %(default)s of the streets")
    parser.add_argument("--docs", type=Path, default=_DOCS, help="folder of the figures")
    parser.add_argument("--scenes", type=int, default=SCENES, help="that choose, and of each stream (%(default)s)")
    text = f"streams of the scenes that judge; docs want {_JUDGING} scenes (default: two, drawn and put on record)"
    parser.add_argument("--seed", type=int, nargs="+", help=text)
    parser.set_defaults(run=run_validity)


def run_validity(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure what the command line asks for. Raises CounterfactoryError for scenes that figures may not be of."""
    seeds = asked.seed or [secrets.randbelow(_FRESH[1] - _FRESH[0]) + _FRESH[0] for _ in range(2)]
    if not all(_FRESH[0] <= seed < _FRESH[1] for seed in seeds):
        bounds = f"--seed is {_FRESH[0]} to {_FRESH[1] - 1}, got {', '.join(map(str, seeds))}"
        raise CounterfactoryError(f"{bounds}: smaller ones are streams that choose or train")
    judging = asked.scenes * len(set(seeds))
    if judging < _JUDGING and asked.docs.resolve() == _DOCS.resolve():
        asked_for = f"the figures in docs are of {_JUDGING} scenes that judge, {judging} asked for"
        raise CounterfactoryError(f"{asked_for}; name another folder with --docs")
    subject = Subject(asked.weights or gather(asked.work / "packed"), asked.work, asked.scenes)
    say(f"judging scenes of streams {', '.join(map(str, seeds))}")
    figures = write_validity(subject, asked.profile, asked.docs, list(dict.fromkeys(seeds)))
    say(table(figures))
    return 0


def write_validity(subject: Subject, name: str, docs: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Measure the checks of a profile over the subject's models, on scenes of the streams `seeds` together, and write
    the figures to `docs`; returns them. What an earlier call left in the work folder is gone on from.
    """
    profile, file = subject.profile, "validity"
    if name != profile.name:
        profile, file = replace(load_profile(name), models=profile.models), f"validity-{name}"
    referee, folder = Referee.load(subject.weights), subject.work / "measured" / file
    request = SuiteRequest(street_task("classification"), _VARIANTS, 1, profile.rewrite.edits or (1, 3), seed=0)
    by_stream = list[list[Judged]]()
    for stream, first in (_CHOOSING, *((seed, 0) for seed in seeds)):
        suite, numbers = folder / f"{stream}-{first}", range(first, first + subject.scenes)
        some = judge_variants(profile, suite, referee, request, numbers, stream)
        lines = [f"{one.row.file_name},{str(is_valid(one)).lower()}\n" for one in some]
        write_whole(suite / "valid.csv", "image,valid\n" + "".join(lines), sync="nothing")
        # Streams number their scenes alike.
        by_stream.append([replace(one, row=replace(one.row, source=f"{stream}/{one.row.source}")) for one in some])
    observed = [one for some in by_stream[1:] for one in some]
    cases = [[Case(one.row, is_valid(one), _seen(one)) for one in some] for some in (by_stream[0], observed)]
    figures = {"profile": profile.name, "seeds": list(seeds), "scenes": subject.scenes * len(seeds)}
    figures |= figures_of(profile.check, *cases) | referee_figures(observed, referee)
    scored = with_probabilities(profile.check, cases[-1])
    reasons = [failing(case.row.scores, profile.check, "variant") for case in scored]
    named = [None if reason is None else reason.score.name for reason in reasons]
    accepted, facts = np.array([reason is None for reason in reasons]), [unchanged_facts(one) for one in observed]
    valid = [case.valid for case in scored]
    truth = truth_figures(profile.check, observed, facts, valid, accepted, seeds[0])
    truth |= together_figures(observed, np.array(valid), facts, accepted) | streak_figures(observed, accepted)
    truth["label_auc"] = area_under(*_label_kept(observed))
    docs.mkdir(parents=True, exist_ok=True)
    write_whole(docs / f"{file}.json", json.dumps(figures | truth, indent=2) + "\n", sync="nothing")
    if file == "validity":
        record = docs / "truth.json"
        before = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
        before.pop("validity_seed", None)
        own = {name: truth[name] for name in _TRUTH} | {"validity_seeds": list(seeds)}
        write_whole(record, json.dumps(before | own, indent=2) + "\n", sync="nothing")
        draw_sheets(folder, observed, facts, named)
    return figures | truth


def together_figures(
    judged: Sequence[Judged], valid: NDArray[np.bool_], facts: Sequence[Facts], accepted: NDArray[np.bool_]
) -> dict[str, Any]:
    """What of the accepted variants is valid and unchanged at once, and what the gate takes and gives by the number of
    vehicles in a scene, which a user sees: it takes fewer of several.
    """
    unchanged, sources = np.array([all(of.values()) for of in facts]), [one.row.source for one in judged]
    several, by_vehicles = np.array([len(one.scene.vehicles) > 1 for one in judged]), {}
    for name, some in (("one", ~several), ("several", several)):
        taken = accepted & some
        shares = {"variants": some, "accepted": accepted[some], "valid": valid[taken], "unchanged": unchanged[taken]}
        shares["valid_and_unchanged"] = (valid & unchanged)[taken]
        by_vehicles[name] = {key: mean_or_none(values) for key, values in shares.items()}
    return {
        "valid_and_unchanged": mean_or_none((valid & unchanged)[accepted]),
        "valid_and_unchanged_interval": share_interval(valid & unchanged, accepted, sources),
        "accepted_unchanged_interval": share_interval(unchanged, accepted, sources),
        "gate_by_vehicles": by_vehicles,
    }


def streak_figures(judged: Sequence[Judged], accepted: NDArray[np.bool_]) -> dict[str, float | None]:
    """The share of the accepted variants of dry scenes that shows streaks of rain, which is no fact of their captions,
    and of the truth's renderings of these.
    """
    dry = [one for one, taken in zip(judged, accepted, strict=True) if taken and one.target is not None]
    dry = [one for one in dry if apply_changes(one.scene, one.changes).weather not in ("rainy", "snowy")]
    pictures = {"when_dry": [one.picture for one in dry], "rendered": [one.truth.picture for one in dry]}
    return {
        f"streaked_{name}": mean_or_none(
            np.array([count_streaks(p, one.truth.picture) >= STREAKED for p, one in zip(shown, dry, strict=True)])
        )
        for name, shown in pictures.items()
    }


def _label_kept(judged: Sequence[Judged]) -> tuple[list[float], list[bool]]:
    """The score of the label, and whether the nearest vehicle is of the label's kind, of the variants that have it."""
    told = [one for one in judged if "label" in one.row.scores]
    kept = [one.finding.object(one.drawing.objects == 1)["kind"] == one.scene.label for one in told]
    return [one.row.scores["label"] for one in told], kept


def table(figures: dict[str, Any]) -> str:
    """The gate's figures and those of every check, as a plain table."""
    gates = [("as the profile has it", {name: figures[f"gate_{name}"] for name in ("accepted", "precision", "recall")})]
    gates += [(f"min_valid of {gate['thresholds']['min_valid']:.3f}", gate) for gate in figures["chosen"]]
    gates += [(f"min_{name} of {check['least']}", check) for name, check in figures["by_check"].items()]
    lines = [f"{figures['variants']} variants, {figures['gate_base_rate']:.1%} of them valid", ""]
    lines.append(f"{'accepted':>9} {'precision':>9} {'recall':>9} {'area':>5}")
    for name, gate in gates:
        shares = ["-" if gate[key] is None else f"{gate[key]:.1%}" for key in ("accepted", "precision", "recall")]
        area = "" if gate.get("area") is None else f"{gate['area']:.2f}"
        lines.append(f"{shares[0]:>9} {shares[1]:>9} {shares[2]:>9} {area:>5}  {name}")
    lines += ["", *(f"{figures[name]:>9.1%}  {name}" for name in _TRUTH if isinstance(figures.get(name), float))]
    return "\n".join(lines)
