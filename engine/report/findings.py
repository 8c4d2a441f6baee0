"""What an evaluation says, in sentences: one per finding, the certain harm first, then what cannot be told yet.

A finding names what its pictures carry. Nothing is judged here: a finding is certain by the rule of the
tables (q below 0.05). How many sources would tell a loss of `TOLD` points follows from an interval's half width, which
falls with the square root of the number of sources, all else the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from urllib.parse import urlencode

from ..judging.compare import Comparison
from ..judging.effects import Effect
from ..judging.evaluation import Effects, Evaluation
from ..suite import PictureRow
from .effects_text import interaction_lines
from .suite_text import reason_table
from .table import percent

# Points that a suite should be able to tell from nothing.
TOLD = 0.05
# Values, and classes, that have a sentence.
_MOST = 3
_SUBJECTS = {"type": "Edits of {}", "value": "Edits to “{}”", "class": "Of class {}, edits"}


@dataclass(frozen=True)
class ReportFinding:
    """A `sentence`, whether it is certain, and the choices of the page that show its pictures, as pairs of a filter
    ("type", "value", "class", "verdict") and what to choose.
    """

    sentence: str
    certain: bool = False
    choices: tuple[tuple[str, str], ...] = ()


def address(choices: Mapping[str, str]) -> str:
    """The page's address of these choices, by the names of its filters."""
    return f"#{urlencode(choices)}"


def find_sentences(evaluation: Evaluation, sources: int) -> tuple[ReportFinding, ...]:
    """What a suite of so many `sources` says of a model."""
    effects, measure = evaluation.effects, evaluation.effects.measure
    if effects.against is None:
        return (
            ReportFinding("What edits do cannot be told: that takes answers to the controls, or to the originals."),
        )
    sure = {one.name for one in effects.by_type if one.clear}
    values = [one for one in effects.by_value if one.name.partition(": ")[0] not in sure]
    certain = [
        *_certain("type", effects.by_type, measure, effects.by_value),
        *_certain("value", values, measure)[:_MOST],
        *_painting(effects),
        *_insights(evaluation),
        *_certain("class", effects.by_class if len(effects.by_class) > 1 else (), measure)[:_MOST],
    ]
    first = [] if certain else [ReportFinding(f"No edit changes this model's {measure} for certain.")]
    warnings = [ReportFinding(line) for line in interaction_lines(effects)]
    return (*first, *certain, *warnings, *_undecided(effects, sources))


def comparison_sentences(comparison: Comparison) -> tuple[ReportFinding, ...]:
    """Where the second model falls behind the first, or leaves it behind."""
    findings = []
    first, second = short_name(comparison.first), short_name(comparison.second)
    if first == second:
        first, second = comparison.first, comparison.second
    types = sorted((gap for gap in comparison.by_type if gap.effect.clear), key=lambda gap: gap.effect.value or 0)
    for gap in (*(gap for gap in comparison.sides if gap.effect.clear), *types[:_MOST]):
        change, both = _change(gap.effect, "loses", "gains"), f"{percent(gap.first)} to {percent(gap.second)}"
        on = f"variants with {gap.name}" if gap in types else gap.name
        sentence = f"On {on} {second} {change} against {first} ({_span(gap.effect)}), {both}."
        findings.append(ReportFinding(sentence, True, (("type", gap.name),) if gap in types else ()))
    same = f"No difference between {first} and {second} is certain on these {comparison.pictures:,} pictures."
    return tuple(findings) or (ReportFinding(same),)


def short_name(model: str) -> str:
    """What a model is called: of a file its name."""
    return model.rpartition("/")[2] or model


def suite_sentences(rows: Sequence[PictureRow]) -> tuple[ReportFinding, ...]:
    """What a suite says where no model was asked."""
    variants = [row for row in rows if row.kind == "variant"]
    accepted = sum(row.accepted for row in variants)
    reasons = reason_table(rows)
    mostly = f"; the others mostly as {reasons.rows[0][0]}" if reasons else ""
    sentence = f"{accepted:,} of {len(variants):,} variants are accepted{mostly}."
    return (
        ReportFinding(sentence, True, (("verdict", "accepted"),)),
        ReportFinding("No model was asked: --model MODEL, or --predictions FILE, shows what each edit does to yours."),
    )


def _certain(kind: str, effects: Sequence[Effect], measure: str, values: Sequence[Effect] = ()) -> list[ReportFinding]:
    """A sentence for each clear effect, the greatest loss first; a type's names the value that costs most."""
    findings = []
    for one in sorted((e for e in effects if e.clear), key=lambda e: (e.value, e.name)):
        worst = _worst([value for value in values if value.name.startswith(f"{one.name}: ")], one)
        sentence = f"{_SUBJECTS[kind].format(one.name)} {_change(one)} of {measure} ({_span(one)}){worst}."
        findings.append(ReportFinding(sentence, True, ((kind, one.name),)))
    return findings


def _worst(values: Sequence[Effect], of: Effect) -> str:
    """The value of a type that certainly costs most, where the type has several."""
    clear = sorted((e for e in values if e.clear and (e.value or 0) < min(of.value or 0, 0)), key=lambda e: e.high or 0)
    if len(values) < 2 or not clear:
        return ""
    return f", most of all {clear[0].name.partition(': ')[2]}: {_points(clear[0].value)} ({_span(clear[0])})"


def _painting(effects: Effects) -> list[ReportFinding]:
    one = effects.painter
    if one is None or not one.clear:
        return []
    left = "effects are against the controls and do not hold it" if effects.against == "control" else "effects hold it"
    cost = f"{_change(one, 'costs', 'gains')} of {effects.measure} ({_span(one)})"
    return [ReportFinding(f"Painting alone {cost}; {left}.", True)]


def _insights(evaluation: Evaluation) -> list[ReportFinding]:
    clear = [one for one in evaluation.insights if one.clear][:_MOST]
    sentences = [(f"{one.sentence[:1].upper()}{one.sentence[1:]}.", one) for one in clear]
    return [ReportFinding(text, True, (("class", one.label), ("value", one.name))) for text, one in sentences]


def _undecided(effects: Effects, sources: int) -> list[ReportFinding]:
    """What is small for certain, and what cannot be told yet with the sources that it would take."""
    findings, open_, mixed = [], [], []
    for one in effects.by_type:
        if one.low is None or one.high is None:
            mixed.append(one.name)
        elif not one.clear:
            needed, span = sources_to_tell(one, sources), f"{_signed(one.low)} to {_signed(one.high)}"
            if needed <= sources:
                sentence = f"Edits of {one.name} do little to {effects.measure}: {span} points."
                findings.append(ReportFinding(sentence, True, (("type", one.name),)))
            else:
                open_.append((needed, f"{one.name} ({span})"))
    if open_:
        names = _joined([name for _, name in sorted(open_)])
        counts = _joined([f"{count:,}" for count, _ in sorted(open_)])
        unknown = f"Cannot be told yet, in points of {effects.measure}: {names}. A loss of {100 * TOLD:g} points"
        findings.append(ReportFinding(f"{unknown} would show in about {counts} sources like these {sources:,}."))
    if mixed:
        sentence = f"Nothing can be said of {_joined(mixed)}: too few sources tell it from other edits."
        findings.append(ReportFinding(sentence))
    return findings


def _joined(words: Sequence[str]) -> str:
    """Words as a sentence lists them."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def sources_to_tell(effect: Effect, sources: int) -> int:
    """How many sources like these would narrow an effect's interval to `TOLD` on either side; two digits count."""
    value, low, high = (end or 0.0 for end in (effect.value, effect.low, effect.high))
    needed = sources * (max(high - value, value - low) / TOLD) ** 2
    scale = int(10 ** max(0, floor(log10(max(needed, 1))) - 1))
    return ceil(round(needed / scale, 6)) * scale


def _change(effect: Effect, loses: str = "cost", gains: str = "add") -> str:
    value = effect.value or 0
    return f"{loses if value < 0 else gains} {_points(value)} points"


def _span(effect: Effect) -> str:
    """From where to where, as losses where the effect is one."""
    ends = (effect.low or 0, effect.high or 0)
    low, high = (-ends[1], -ends[0]) if (effect.value or 0) < 0 else ends
    return f"{_number(low)} to {_number(high)}"


def _points(value: float | None) -> str:
    return _number(abs(value or 0))


def _number(share: float) -> str:
    """Points, with a sign only below 0, and one digit after the point where there is but one before."""
    points = 100 * share
    shown = f"{abs(points):.0f}" if abs(points) >= 9.95 else f"{abs(points):.1f}"
    return f"\N{MINUS SIGN}{shown}" if points < 0 and float(shown) else shown


def _signed(share: float) -> str:
    shown = _number(share)
    return shown if share <= 0 or not float(shown) else f"+{shown}"
