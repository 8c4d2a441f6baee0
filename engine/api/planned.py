"""What a run would change and what it would cost, before anything is painted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..estimate.estimate import Estimate
from ..journey import Plan
from ..packages import pandas
from ..report.suite_text import describe
from ..sources.source import Problem
from ..suite.cells import ValueCells
from ..tasks.spread import TypeSpread, spread_of
from ..variant import Variant

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class EditPlan:
    """What would become of the first sources: `plan` has captions and variants, `problems` are the sources that cannot
    be used, and why, `notes` sentences on the data set, `baselines` how many variants would be drawn by rule as well.
    """

    plan: Plan
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    baselines: int = 0

    @property
    def spread(self) -> list[TypeSpread]:
        """How the edits are spread over types, and over what each brings."""
        return spread_of(edit for variant in self.plan.rewritten.variants for edit in variant.edits)

    @property
    def cells(self) -> tuple[ValueCells, ...]:
        """What becomes of each value that the user names; pictures that are to be painted count as painted."""
        return self.plan.rewritten.cells

    @property
    def variants(self) -> list[Variant]:
        """The variants in the order of their sources, by number, those that would be dropped among them."""
        places = {source.name: place for place, source in enumerate(self.plan.captions)}
        both = (*self.plan.rewritten.variants, *self.plan.rewritten.dropped)
        variants = [variant for variant in both if variant.kind == "variant"]
        return sorted(variants, key=lambda variant: (places[variant.source.name], variant.index, variant.repeat))

    def pandas(self) -> DataFrame:
        """A row per variant: source, label, caption, number, edits as "type: old -> new", the edited caption, and why
        it would be dropped. Raises CounterfactoryError where pandas is not installed.
        """
        columns = ("source", "label", "caption", "variant", "edits", "edited_caption", "dropped")
        rows = [
            (
                *(variant.source.name, variant.source.label, variant.caption, variant.index),
                *("; ".join(map(describe, variant.edits)), variant.edited_caption, variant.dropped),
            )
            for variant in self.variants
        ]
        return pandas().DataFrame(rows, columns=list(columns))


@dataclass(frozen=True)
class Forecast:
    """An estimate with the sources that cannot be used, how many of the others the models do not know, and sentences on
    the data set.
    """

    estimate: Estimate
    problems: tuple[Problem, ...] = ()
    outside_world: int = 0
    notes: tuple[str, ...] = ()
