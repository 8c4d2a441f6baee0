"""Evaluations as a person reads them: effects with their intervals first, then how the pictures were answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import list_some
from .table import Table, percent

if TYPE_CHECKING:
    from ..judging.effects import Effect
    from ..judging.evaluation import Effects, Evaluation, MeanScore
    from ..judging.limits import LimitResult

# Values and classes in a table: those that do most harm.
_WORST = 8
# Labels that a note shows.
_UNKNOWN = 5
# What the controls lose against the originals.
PAINTING = "painting alone"
_MINUS, _TO = "\N{MINUS SIGN}", " \N{HORIZONTAL ELLIPSIS} "
_BASELINES = {"control": "controls", "original": "originals"}
_KINDS = ("originals", "controls", "variants")


def evaluation_tables(evaluation: Evaluation, everything: bool = False) -> tuple[Table, ...]:
    """What edits do to the model, the values and classes that do most, and accuracy (or mIoU) by kind of picture.

    With `everything` these are all values and classes, and how each class is answered.
    """
    effects = evaluation.effects
    tables = []
    if effects.against is not None and (effects.by_type or effects.painter):
        tables.append(effects_table({evaluation.measure_name: effects}))
        if evaluation.measures:
            tables.append(effects_table({measure.name: measure.effects for measure in evaluation.measures}))
        for title, group in (("value", effects.by_value), ("class", effects.by_class)):
            if len(group) > 1:
                tables.append(_worst_table(title, group, len(group) if everything else _WORST))
    tables.append(sides_table({evaluation.measure_name: evaluation}))
    return (*tables, _classes_table(evaluation)) if everything else tuple(tables)


def note_lines(evaluation: Evaluation) -> list[str]:
    """What a reader has to know of the tables: what they compare, and what is not in them."""
    effects = evaluation.effects
    notes = []
    if effects.against == "original":
        which = "no accepted control" if evaluation.excluded_controls else "no control"
        notes.append(f"{which} has an answer: effects are against originals, with what painting does")
    elif effects.against is None:
        notes.append("effects need answers to the controls, or to the originals, as well")
    else:
        notes.append("effects: against the source's control, adjusted for the other edits beside")
        if not evaluation.originals.score.count:
            notes.append("no original has an answer: what painting does by itself is not known")
    if any(measure.name == "confidence" for measure in evaluation.measures):
        notes.append("confidence: what the model gives its own answer on average, right or wrong")
    for count, kind in ((evaluation.excluded, "variant"), (evaluation.excluded_controls, "control")):
        if count:
            notes.append(f"{count} rejected {kind}{'s are' if count > 1 else ' is'} not counted")
    strange = {answer.answer for answer in evaluation.strange}
    unknown = [name for name in evaluation.unknown_classes if name not in strange]
    if unknown:
        some = ", ".join(map(repr, unknown[:_UNKNOWN])) + (" and so on" if len(unknown) > _UNKNOWN else "")
        notes.append(f"answers that are no label of this suite count as wrong: {some}")
    return notes


def answer_lines(evaluation: Evaluation) -> list[str]:
    """What is wrong with the answers, before any figure: pictures without one, and labels that nobody knows."""
    lines = []
    for lack in evaluation.unanswered:
        what = f"{lack.count} {'has' if lack.count == 1 else 'have'} no answer, the first is {lack.first}"
        compared = "" if lack.kind == "variant" else "; effects compare the sources that have both answers"
        lines.append(f"judged on {lack.of - lack.count} of {lack.of} {lack.kind}s: {what}{compared}")
    if evaluation.strange:
        named = list_some([answer.text for answer in evaluation.strange], _UNKNOWN)
        lines.append(f"warning: answers that are no label and no known class count as wrong: {named}")
    return lines


def headline(evaluation: Evaluation) -> tuple[str, str]:
    """The one figure of an evaluation, with its name: how answers fall from what variants are compared with."""
    controls = evaluation.effects.against == "control"
    before = (evaluation.controls if controls else evaluation.originals).score.value
    name = f"{evaluation.measure_name}, {'controls' if controls else 'originals'} to variants"
    return name, f"{percent(before)} \N{RIGHTWARDS ARROW} {percent(evaluation.variants.score.value)}"


def finding_line(finding: LimitResult) -> str:
    """What became of a limit."""
    words = {"kept": "kept", "broken": "BROKEN", "undecided": "cannot tell"}
    return f"{words[finding.outcome]:<11} {finding.limit}: {finding.figures}"


def sides_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """How each kind of picture was answered, by the names of the measures; further ones of an answer behind them."""
    scores: dict[str, tuple[MeanScore, ...]] = {}
    for name, evaluation in evaluations.items():
        scores[name] = tuple(side.score for side in (evaluation.originals, evaluation.controls, evaluation.variants))
        scores |= {
            measure.name: (measure.originals, measure.controls, measure.variants) for measure in evaluation.measures
        }
    counts = next(iter(scores.values()))
    rows = tuple(
        (name, str(counts[i].count), *(percent(column[i].value) for column in scores.values()))
        for i, name in enumerate(_KINDS)
    )
    return Table("How pictures are answered", ("pictures", "count", *scores), rows)


def _classes_table(evaluation: Evaluation) -> Table:
    sides = (evaluation.originals, evaluation.controls, evaluation.variants)
    known = [name for name in evaluation.classes if name not in evaluation.unknown_classes]
    rows = tuple((name, *(percent(side.by_class.get(name)) for side in sides)) for name in known)
    what = "right" if evaluation.measure == "accuracy" else "IoU"
    return Table(f"How classes are answered ({what})", ("class", *_KINDS), rows)


def effects_table(measures: Mapping[str, Effects]) -> Table:
    """What each type of edit does, in points, with 95 % intervals: painting itself first. A measure is a pair of
    columns; one alone has beside it how often answers turned wrong, of labels, and how many sources say so.
    """
    first, alone = next(iter(measures.values())), len(measures) == 1
    named = [
        {PAINTING: effects.painter, **{effect.name: effect for effect in effects.by_type}}
        for effects in measures.values()
    ]
    flips = {flip.name: flip.rate for flip in first.flips}
    rows = []
    for name, effect in named[0].items():
        if effect is None:
            continue
        known = [by_name.get(name) for by_name in named]
        cells = [cell for e in known for cell in (("-", "-") if e is None else (points(e.value), interval(e)))]
        if alone and flips:
            cells.append(percent(flips[name]) if name in flips else "-")
        if alone:
            cells.append(str(effect.sources))
        rows.append((name, *cells))
    columns = [column for measure in measures for column in (measure, "95 % interval")]
    if alone:
        columns += ["turned wrong", "sources"] if flips else ["sources"]
    title = f"What edits do to {' and '.join(measures)}, in points against the {_BASELINES[str(first.against)]}"
    return Table(title, ("edit", *columns), tuple(rows))


def _worst_table(title: str, effects: Sequence[Effect], most: int) -> Table:
    # By the mildest end of the interval: the lowest estimates are those of the fewest sources.
    known = sorted((e for e in effects if e.high is not None), key=lambda e: (e.high, e.value, e.name))
    rows = tuple((e.name, points(e.value), interval(e), _chance(e.q), str(e.sources)) for e in known[:most])
    less = f", {len(rows)} of {len(effects)}" if len(rows) < len(effects) else ""
    return Table(f"By {title}, certain harm first{less}", (title, "points", "95 % interval", "q", "sources"), rows)


def points(value: float | None) -> str:
    """A difference of shares in points of a hundred, with its sign."""
    if value is None:
        return "-"
    shown = f"{abs(100 * value):.1f}"
    return shown if float(shown) == 0 else f"{_MINUS if value < 0 else '+'}{shown}"


def interval(effect: Effect) -> str:
    """From where to where an effect lies."""
    return "-" if effect.low is None else f"{points(effect.low)}{_TO}{points(effect.high)}"


def _chance(q: float | None) -> str:
    return "-" if q is None else "< 0.001" if q < 0.001 else f"{q:.3f}"
