"""The limits that a test step sets for a model: how far it may fall, how good it has to be, and whether it is.

A limit is broken when the fall is certain: the whole 95 % interval lies beyond. It is kept when even the interval's
worse end is within. Between the two it is undecided, which more sources would settle. It is one of the edit alone
where single edits are there in sufficient number. A type whose effect depends on the edits beside it, and its values,
are held to it over the suite's mix of edits as well.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import CounterfactoryError
from ..files.escaping import for_terminal
from ..files.fill import nearest
from .effects import WITH, Effect
from .evaluation import Effects, Evaluation

Outcome = Literal["kept", "broken", "undecided"]
_GRAVITY: tuple[Outcome, ...] = ("kept", "undecided", "broken")


@dataclass(frozen=True)
class Drop:
    """The model may lose at most `points` (of a hundred) to edits called `name`: a type, a value or a class."""

    name: str
    points: float


@dataclass(frozen=True)
class LimitResult:
    """A limit in words, its outcome, and the figures that decided it."""

    limit: str
    outcome: Outcome
    figures: str


def check_limits(evaluation: Evaluation, drops: Sequence[Drop], least: float | None) -> tuple[LimitResult, ...]:
    """The results of the limits: `drops`, and the `least` accuracy (or pooled mIoU) of the variants, 0..1. Raises
    CounterfactoryError for a name that the suite does not have.
    """
    if drops and not evaluation.variants.score.count and evaluation.excluded:
        raise CounterfactoryError(
            f"--max-drop {drops[0].name}: all {evaluation.excluded} variants of the suite are rejected, so that "
            "nothing is known of it; counterfactory check says why"
        )
    findings = [_check_drop(evaluation.effects, drop) for drop in drops]
    if least is not None:
        value = evaluation.variants.score.value
        limit = f"{evaluation.measure_name} of the variants is at least {100 * least:g} %"
        if value is None:
            findings.append(LimitResult(limit, "undecided", "no variant was answered"))
        else:
            findings.append(LimitResult(limit, "kept" if value >= least else "broken", f"{100 * value:.1f} %"))
    return name_units(findings, evaluation.groups)


def name_units(findings: Sequence[LimitResult], groups: int | None) -> tuple[LimitResult, ...]:
    """The results, whose figures are of groups of sources where there are some."""
    if groups is None:
        return tuple(findings)
    return tuple(replace(one, figures=one.figures.replace(" sources", " groups")) for one in findings)


def _check_drop(effects: Effects, drop: Drop) -> LimitResult:
    mix, alone = (effects.by_value, effects.by_type), (effects.by_value_alone, effects.by_type_alone)
    first, other = (alone, mix) if effects.leads_alone else (mix, alone)
    # Of one name, the type counts; what is seldom alone is held to the limit over the mix.
    lasts = [one for group in first for one in group if one.low is not None or not effects.leads_alone]
    by_name = {effect.name: effect for group in (effects.by_class, *other, lasts) for effect in group}
    if (effect := by_name.get(drop.name)) is None:
        raise CounterfactoryError(
            f"--max-drop {drop.name}: this suite has no such type, value or class; {nearest(drop.name, by_name)}"
            if by_name
            else f"--max-drop {drop.name}: effects need answers to the controls, or to the originals, beside the "
            "variants'"
        )
    limit = f"{drop.name} costs at most {drop.points:g} points"
    outcome, figures = _hold(effect, drop)
    type_ = drop.name.partition(": ")[0]
    depends = any(type_ in pair.name.split(WITH) for pair in effects.beyond_sum)
    if depends or any(gap.clear and gap.name == type_ for gap in effects.mix_gaps):
        # Neither says all of the edit: it must keep the limit by itself and beside others.
        for second in (one for group in other for one in group if one.name == drop.name and one is not effect):
            worse, more = _hold(second, drop)
            named = "over the mix" if effects.leads_alone else "alone"
            outcome, figures = max(outcome, worse, key=_GRAVITY.index), f"{figures}; {named} {more}"
    return LimitResult(limit, outcome, figures + _first_broken(effects, drop))


def _first_broken(effects: Effects, drop: Drop) -> str:
    """The least level of severity at which the limit is certainly broken, where a suite has levels."""
    points = [point for point in effects.by_level if point.type == drop.name]
    if not points:
        return ""
    broken = [point for point in points if _hold(point.effect, drop)[0] == "broken"]
    return f"; broken from level {broken[0].level} of {broken[0].levels}" if broken else "; broken at no single level"


def _hold(effect: Effect, drop: Drop) -> tuple[Outcome, str]:
    if effect.value is None or effect.low is None or effect.high is None:
        return "undecided", f"{effect.sources} sources say nothing of it by itself"
    worst, mildest = -100 * effect.low, -100 * effect.high
    outcome: Outcome = "broken" if mildest > drop.points else "kept" if worst <= drop.points else "undecided"
    return outcome, effect_figures(effect)


def effect_figures(effect: Effect) -> str:
    """An effect that has an interval, in points."""
    value, low, high = (100 * (figure or 0.0) for figure in (effect.value, effect.low, effect.high))
    return f"{value:+.1f} points, {low:+.1f} to {high:+.1f}, {effect.sources} sources"


def junit_xml(suite: str, findings: Sequence[LimitResult], digest: str | None = None) -> str:
    """The findings as JUnit XML, as CI systems read it: broken limits are failures, undecided ones are skipped; with
    the suite's digest.
    """
    failures, skipped = (str(sum(one.outcome == kind for one in findings)) for kind in ("broken", "undecided"))
    counts = {"tests": str(len(findings)), "failures": failures, "skipped": skipped, "errors": "0"}
    root = ET.Element("testsuite", {"name": for_terminal(suite), **counts})
    if digest:
        ET.SubElement(ET.SubElement(root, "properties"), "property", name="suite_digest", value=digest)
    for finding in findings:
        limit, figures = for_terminal(finding.limit), for_terminal(finding.figures)  # XML has no control characters
        case = ET.SubElement(root, "testcase", classname="counterfactory", name=limit)
        if finding.outcome == "broken":
            ET.SubElement(case, "failure", message=figures)
        elif finding.outcome == "undecided":
            ET.SubElement(case, "skipped", message=f"cannot tell: {figures}")
        ET.SubElement(case, "system-out").text = figures
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")
