"""Evaluations as a person reads them: effects with their intervals first, then how the pictures were answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..report.table import Table
from .run_text import percent

if TYPE_CHECKING:
    from ..judging.effects import Effect
    from ..judging.evaluate import Effects, Evaluation
    from ..judging.limits import Finding

# Values and classes in a table: those that do most harm.
_WORST = 8
# What the controls lose against the originals.
PAINTING = "painting alone"
_MINUS, _TO = "\N{MINUS SIGN}", " \N{HORIZONTAL ELLIPSIS} "
_BASELINES = {"control": "controls", "original": "originals"}


def evaluation_tables(evaluation: Evaluation) -> tuple[Table, ...]:
    """What edits do to the model, the values and classes that do most, and accuracy (or mIoU) by kind of picture."""
    effects = evaluation.effects
    tables = []
    if effects.against is not None:
        tables.append(effects_table({evaluation.measure_name: effects}))
        for title, found in (("value", effects.by_value), ("class", effects.by_class)):
            if len(found) > 1:
                tables.append(_worst_table(title, found))
    return (*tables, sides_table({evaluation.measure_name: evaluation}))


def note_lines(evaluation: Evaluation) -> list[str]:
    """What a reader has to know of the tables: what they compare, and what is not in them."""
    effects = evaluation.effects
    notes = []
    if effects.against == "original":
        notes.append("no control has an answer: effects are against originals, with what painting does")
    elif effects.against is None:
        notes.append("effects need answers to the controls, or to the originals, as well")
    else:
        notes.append("effects: against the source's control, adjusted for the other edits beside")
    for count, kind in ((evaluation.excluded, "variant"), (evaluation.excluded_controls, "control")):
        if count:
            notes.append(f"{count} rejected {kind}{'s are' if count > 1 else ' is'} not counted")
    return notes


def finding_line(finding: Finding) -> str:
    """What became of a limit."""
    words = {"kept": "kept", "broken": "BROKEN", "undecided": "cannot tell"}
    return f"{words[finding.outcome]:<11} {finding.limit}: {finding.found}"


def strangers_line(images: Sequence[str]) -> str:
    """Answers that belong to no picture of the suite."""
    more = f", {len(images) - 1} more like it" if len(images) > 1 else ""
    return f"no picture of the suite is called {images[0]}{more}: its prediction is not counted"


def sides_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """How each kind of picture was answered, by the names of the measures."""
    first = next(iter(evaluations.values()))
    scores = [
        {"originals": found.originals.score, "controls": found.controls.score, "variants": found.variants.score}
        for found in evaluations.values()
    ]
    counts = {"originals": first.originals, "controls": first.controls, "variants": first.variants}
    rows = tuple(
        (name, str(side.score.count), *(percent(found[name].value) for found in scores))
        for name, side in counts.items()
    )
    return Table("How pictures are answered", ("pictures", "count", *evaluations), rows)


def effects_table(measures: Mapping[str, Effects]) -> Table:
    """What each type of edit does, in points, with 95 % intervals: painting itself first. A measure is a pair of
    columns; one alone has beside it how often answers turned wrong, and how many sources say so.
    """
    first = next(iter(measures.values()))
    named = [
        {PAINTING: effects.painter, **{effect.name: effect for effect in effects.by_type}}
        for effects in measures.values()
    ]
    flips = {flip.name: flip.rate for flip in first.flips}
    rows = []
    for name, effect in named[0].items():
        if effect is None:
            continue
        cells = [cell for found in named for cell in _effect_cells(found.get(name))]
        if len(measures) == 1:
            cells += [percent(flips[name]) if name in flips else "-", str(effect.sources)]
        rows.append((name, *cells))
    columns = [column for measure in measures for column in (measure, "95 % interval")]
    if len(measures) == 1:
        columns += ["turned wrong", "sources"]
    title = f"What edits do, in points against the {_BASELINES[str(first.against)]}"
    return Table(title, ("edit", *columns), tuple(rows))


def _effect_cells(effect: Effect | None) -> tuple[str, str]:
    return ("-", "-") if effect is None else (points(effect.value), interval(effect))


def _worst_table(title: str, effects: Sequence[Effect]) -> Table:
    known = sorted((e for e in effects if e.value is not None and e.q is not None), key=lambda e: (e.value, e.name))
    rows = tuple((e.name, points(e.value), interval(e), _chance(e.q), str(e.sources)) for e in known[:_WORST])
    less = f", the worst {_WORST} of {len(effects)}" if len(effects) > _WORST else ""
    return Table(f"By {title}{less}", (title, "points", "95 % interval", "q", "sources"), rows)


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
