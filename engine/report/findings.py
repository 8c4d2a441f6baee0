"""What an evaluation says, in sentences: one per finding, the certain harm first, then what cannot be told yet.

A finding names what its pictures carry. Nothing is judged here: a finding is certain by the rule of the tables (q
below 0.05), by the standouts' where it compares, and where the whole of an interval lies within `TOLD` of nothing. What
an edit does alone is said first, where single edits are there in sufficient number, and the average over the suite's
mix beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from ..judging.compare import Comparison
from ..judging.effects import FEWEST_GROUPS, Effect, among
from ..judging.evaluation import Effects, Evaluation
from ..judging.power import TOLD, sources_to_tell
from ..suite import PictureRow
from .effects_text import group_line, interaction_lines
from .suite_text import reason_table
from .table import percent

# Values, and classes, that have a sentence.
_MOST = 3
_MARGIN = f"{100 * TOLD:g} either way"


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
    """What a suite of so many `sources`, or groups of sources that depend on each other, says of a model."""
    effects = evaluation.effects
    if effects.against is None:
        return (
            ReportFinding("What edits do cannot be told: that takes answers to the controls, or to the originals."),
        )
    if not evaluation.variants.score.count:
        return (ReportFinding(f"No variant is judged, and {evaluation.excluded:,} are rejected: nothing can be said."),)
    if evaluation.groups is not None and evaluation.groups < FEWEST_GROUPS:
        return (ReportFinding(f"{_capital(group_line(evaluation.groups))}."),)
    certain = [
        *_types(effects),
        *_values(effects),
        *_painting(effects),
        *_insights(evaluation),
        *_classes(effects),
    ]
    mix = "Too few variants carry one edit alone: effects are adjusted averages over this suite's mix of edits."
    first = [] if certain else [ReportFinding(f"No edit changes this model's {effects.measure} for certain.")]
    first += [ReportFinding(mix)] if effects.mixed and not effects.leads_alone else []
    warnings = [ReportFinding(line) for line in (*_gap_lines(effects), *interaction_lines(effects))]
    unit = "sources" if evaluation.groups is None else "groups"
    return (*first, *certain, *warnings, *_undecided(effects, sources, unit))


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


def _types(effects: Effects) -> list[ReportFinding]:
    """A sentence for each type that is clear, the greatest loss first, with the value that stands out of it."""
    findings, mix = [], {one.name: one for one in effects.by_type}
    for one in sorted((e for e in effects.leading_types if e.clear), key=lambda e: (e.value, e.name)):
        worst = "".join(f", most of all {text}" for text in _worst(effects, one.name) if (one.value or 0) < 0)
        alone = " alone" if effects.mixed and effects.leads_alone else ""
        average = f"; {_average(mix[one.name])}" if alone and mix[one.name].low is not None else ""
        sentence = f"Edits of {one.name}{alone} {_change(one)} of {effects.measure} ({_span(one)}){worst}{average}."
        findings.append(ReportFinding(sentence, True, (("type", one.name),)))
    return findings


def _average(effect: Effect) -> str:
    return f"{_points(effect)} ({_span(effect)}) as an adjusted average over this suite's mix of edits"


def _worst(effects: Effects, type_: str) -> list[str]:
    """The value that certainly costs more than the others of the type, the surest of them, with how much more."""
    more = [one for one in effects.standouts if one.clear and one.name.startswith(f"{type_}: ")]
    first = sorted(more, key=lambda one: (one.high, one.name))[:1]
    return [
        f"{one.name.partition(': ')[2]}: {_number(-one.high)} to {_number(-one.low)} points more than the others"
        for one in first
    ]


def _values(effects: Effects) -> list[ReportFinding]:
    """A sentence for values that lose, and more than the others of a type that is not clear itself."""
    sure = {one.name for one in effects.leading_types if one.clear}
    clear = {one.name for one in effects.leading_values if one.clear and (one.value or 0) < 0}
    more = [one for one in effects.standouts if one.clear and one.name in clear]
    sentences = [
        (one.name, f"Edits to “{one.name}” cost {_number(-one.high)} to {_number(-one.low)} points of "
        f"{effects.measure} more than other edits of {one.name.partition(': ')[0]}.")
        for one in sorted(more, key=lambda one: (one.high, one.name))
        if one.name.partition(": ")[0] not in sure
    ]  # fmt: skip
    return [ReportFinding(text, True, (("value", name),)) for name, text in sentences[:_MOST]]


def _classes(effects: Effects) -> list[ReportFinding]:
    """A sentence for the classes that most certainly change, by intervals that hold for all classes at once."""
    count = len(effects.by_class)
    wide = [among(one, count) for one in effects.by_class if count > 1 and one.clear]
    told = [one for one in wide if (one.high or 0) < 0 or (one.low or 0) > 0]
    over = " over this suite's mix" if effects.mixed else ""
    findings = []
    for one in sorted(told, key=lambda e: (e.high, e.name))[:_MOST]:
        sentence = f"Of class {one.name}, edits{over} {_verb(one)} {_span(one)} points of {effects.measure}."
        findings.append(ReportFinding(sentence, True, (("class", one.name),)))
    return findings


def _gap_lines(effects: Effects) -> list[str]:
    """Where a type's average over the mix is certainly another than what the type does alone."""
    gaps = [one for one in effects.mix_gaps if one.clear] if effects.leads_alone else []
    lines = []
    for lower, how in ((True, "more"), (False, "less")):
        some = sorted((one for one in gaps if ((one.value or 0) < 0) == lower), key=lambda e: -abs(e.value or 0))
        if some:
            which = _joined([f"{one.name} {_points(one)} points ({_span(one)})" for one in some])
            lines.append(
                f"Averages over this suite's mix say {how} than one edit alone, of {which}: pictures with several "
                f"edits lose {how} than the sum of their edits."
            )
    return lines


def _painting(effects: Effects) -> list[ReportFinding]:
    one = effects.painter
    if one is None or not one.clear:
        return []
    left = "effects are against the controls and do not hold it" if effects.against == "control" else "effects hold it"
    cost = f"{_change(one, 'costs', 'gains')} of {effects.measure} ({_span(one)})"
    return [ReportFinding(f"Painting alone {cost}; {left}.", True)]


def _insights(evaluation: Evaluation) -> list[ReportFinding]:
    clear = [one for one in evaluation.insights if one.clear][:_MOST]
    sentences = [(f"{_capital(one.sentence)}.", one) for one in clear]
    return [ReportFinding(text, True, (("class", one.label), ("value", one.name))) for text, one in sentences]


def _undecided(effects: Effects, sources: int, unit: str) -> list[ReportFinding]:
    """What is small for certain, and what cannot be told yet with the sources, or what the `unit` is, that it takes."""
    findings, open_, unknown = [], list[tuple[int, Effect]](), []
    leading, alone = ({one.name: one for one in some} for some in (effects.leading_types, effects.by_type_alone))
    tests = sum(one.low is not None for one in leading.values())
    for average in effects.by_type:
        one = leading.get(average.name)
        if one is None or one.low is None:
            unknown.append(average.name)
        elif not one.clear and all(map(_is_little, (one, average, alone.get(one.name, one)))):
            sentence = f"Edits of {one.name} do little to {effects.measure}: {_ends(one)} points, within {_MARGIN}."
            findings.append(ReportFinding(sentence, True, (("type", one.name),)))
        elif not one.clear:
            open_.append((sources_to_tell(one, sources, tests), one))
    if open_:
        open_.sort(key=lambda pair: (pair[0], pair[1].name))
        names = _joined([f"{one.name} ({_ends(one)})" for _, one in open_])
        counts = _joined([f"{count:,}" for count in dict.fromkeys(count for count, _ in open_)])
        findings.append(
            ReportFinding(
                f"Cannot be told yet, in points of {effects.measure}: {names}. To show a loss of {100 * TOLD:g} "
                f"points, four times in five, takes about {counts} {unit} like these {sources:,}."
            )
        )
    if floored := [one.name for one in leading.values() if one.floored]:
        few = f"so few {unit} allow, not a measured spread."
        findings.append(ReportFinding(f"What is said of {_joined(floored)} is the narrowest interval that {few}"))
    if unknown:
        why = "variants carry it alone" if effects.leads_alone else f"{unit} tell it from other edits"
        findings.append(ReportFinding(f"Nothing can be said of {_joined(unknown)}: too few {why}."))
    return findings


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _is_little(effect: Effect) -> bool:
    """Whether an effect lies within the margin for certain."""
    return effect.low is not None and effect.high is not None and max(-effect.low, effect.high) <= TOLD


def _joined(words: Sequence[str]) -> str:
    """Words as a sentence lists them."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _change(effect: Effect, loses: str = "cost", gains: str = "add") -> str:
    return f"{_verb(effect, loses, gains)} {_points(effect)} points"


def _verb(effect: Effect, loses: str = "cost", gains: str = "add") -> str:
    return loses if (effect.value or 0) < 0 else gains


def _span(effect: Effect) -> str:
    """From where to where, as losses where the effect is one."""
    ends = (effect.low or 0, effect.high or 0)
    low, high = (-ends[1], -ends[0]) if (effect.value or 0) < 0 else ends
    return f"{_number(low)} to {_number(high)}"


def _points(effect: Effect) -> str:
    return _number(abs(effect.value or 0))


def _ends(effect: Effect) -> str:
    """From where to where, with signs."""
    return f"{_signed(effect.low or 0)} to {_signed(effect.high or 0)}"


def _number(share: float) -> str:
    """Points, with a sign only below 0, and one digit after the point where there is but one before."""
    points = 100 * share
    shown = f"{abs(points):.0f}" if abs(points) >= 9.95 else f"{abs(points):.1f}"
    return f"\N{MINUS SIGN}{shown}" if points < 0 and float(shown) else shown


def _signed(share: float) -> str:
    shown = _number(share)
    return shown if share <= 0 or not float(shown) else f"+{shown}"
