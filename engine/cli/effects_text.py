"""Evaluations as a person reads them: effects with their intervals first, then how the pictures were answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..report.table import Table
from .run_text import percent

if TYPE_CHECKING:
    from ..judging.effects import Effect, Flips
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
        tables.append(_types_table(effects, evaluation.measure))
        for title, found in (("value", effects.by_value), ("class", effects.by_class)):
            if len(found) > 1:
                tables.append(_worst_table(title, found))
    return (*tables, sides_table(evaluation))


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


def sides_table(evaluation: Evaluation) -> Table:
    """Accuracy or mIoU of each kind of picture."""
    sides = {"originals": evaluation.originals, "controls": evaluation.controls, "variants": evaluation.variants}
    rows = tuple((name, str(side.score.count), percent(side.score.value)) for name, side in sides.items())
    return Table("Model under test", ("pictures", "count", evaluation.measure), rows)


def _types_table(effects: Effects, measure: str) -> Table:
    flips = {flip.name: flip for flip in effects.flips}
    rows = [effect_row(replace(effects.painter, name=PAINTING), None)] if effects.painter else []
    rows += [effect_row(effect, flips.get(effect.name)) for effect in effects.by_type]
    title = f"What edits do to {measure}, in points against the {_BASELINES[str(effects.against)]}"
    return Table(title, ("edit", "points", "95 % interval", "turned wrong", "sources"), tuple(rows))


def effect_row(effect: Effect, flips: Flips | None) -> tuple[str, ...]:
    """An effect's name, value, interval, rate of answers that turned wrong, and number of sources."""
    turned = "-" if flips is None else percent(flips.rate)
    return effect.name, points(effect.value), interval(effect), turned, str(effect.sources)


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
