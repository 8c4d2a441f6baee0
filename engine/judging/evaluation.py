"""The figures of an evaluation: scores of each kind of picture, and the effect of each edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..files.fill import plain
from ..variant import Kind
from .baselines import BaselineEffect
from .effects import Effect, Flips, LevelEffect
from .insights import Insight
from .rejections import Rejections
from .standouts import Standout

# Letters of an answer that a sentence shows.
_SHOWN = 40
# Sources with a variant of one edit of a type, that are enough to say what it does alone.
_ENOUGH_ALONE = 12


@dataclass(frozen=True)
class MeanScore:
    """A measure over `count` pictures; `value` is None where there is nothing to measure."""

    count: int
    value: float | None


@dataclass(frozen=True)
class Side:
    """One side of the comparison, the originals or the variants.

    `by_class` is recall for labels and IoU for masks. `confusion[i][j]` is the share of what truly is class i that
    the model called class j (each row sums to 1); the row of a class that never occurs is None throughout.
    """

    score: MeanScore
    by_class: dict[str, float | None]
    confusion: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Effects:
    """The effects of edits on the model: changes of accuracy, or of a picture's mean IoU, between pictures of a source.

    `by_type`, `by_value` (`Edit.value`) and `by_class` are against the controls where the suite has answered
    ones, so that what painting does by itself is not counted, and against the originals where it has none, or only ones
    that are their originals again, byte for byte: `against` says which, and `copies` counts the latter. Those of types
    and values are adjusted for the other edits of the same variant, and averages over this suite's mix of edits;
    `by_type_alone` and `by_value_alone` are of the variants that carry one edit. `interactions` are what pairs of types
    do beyond the sum of the two: a clear one says that effects do not add. Those of a class are of all edits together.
    `painter` is the controls against the originals; `by_type_with_painter` the types against the originals, the
    painter's damage included. `flips` are answers that turned wrong: of the controls that were right on the originals
    ("painting"), and of variants with one edit that were right on what `against` says, by type; masks have none.
    `measure` is what of a picture is compared. `baselines` are how much of it weather and light alone do, by types and
    values, where the suite has drawn them. The painter of `exact` pictures leaves alone all that no edit names.
    `by_level` are the types at each level of severity, where a suite was painted at several. `mix_gaps` are by how much
    the types' effects over the mix are others than alone, and `standouts` the `leading_values` beside the others of
    their type.
    """

    against: Kind | None
    painter: Effect | None
    by_type: tuple[Effect, ...]
    by_value: tuple[Effect, ...]
    by_class: tuple[Effect, ...]
    by_type_with_painter: tuple[Effect, ...]
    flips: tuple[Flips, ...]
    by_type_alone: tuple[Effect, ...] = ()
    by_value_alone: tuple[Effect, ...] = ()
    interactions: tuple[Effect, ...] = ()
    copies: int = 0
    measure: str = "accuracy"
    baselines: tuple[BaselineEffect, ...] = ()
    exact: bool = False
    by_level: tuple[LevelEffect, ...] = ()
    mix_gaps: tuple[Effect, ...] = ()
    standouts: tuple[Standout, ...] = ()

    @property
    def leads_alone(self) -> bool:
        """Whether enough variants carry one edit: then what an edit does alone is said first, and the average over the
        mix beside it.
        """
        alone = {one.name: one.sources for one in self.by_type_alone if one.low is not None}
        return any(alone.get(one.name, 0) >= min(_ENOUGH_ALONE, (one.sources + 1) // 2) for one in self.by_type)

    @property
    def mixed(self) -> bool:
        """Whether some variants carry several edits."""
        alone = {one.name: one.pictures for one in self.by_type_alone}
        return any(one.pictures != alone.get(one.name) for one in self.by_type)

    @property
    def leading_types(self) -> tuple[Effect, ...]:
        """What is said first of types."""
        return self.by_type_alone if self.leads_alone else self.by_type

    @property
    def leading_values(self) -> tuple[Effect, ...]:
        """What is said first of values."""
        return self.by_value_alone if self.leads_alone else self.by_value

    @property
    def beyond_sum(self) -> tuple[Effect, ...]:
        """The pairs of types whose effects clearly do not add, the largest difference first."""
        return tuple(sorted((e for e in self.interactions if e.clear), key=lambda e: -abs(e.value or 0)))


@dataclass(frozen=True)
class Measure:
    """Another measure of the same answers, `name`: its mean on each kind of picture, and what edits do to it."""

    name: str
    originals: MeanScore
    controls: MeanScore
    variants: MeanScore
    effects: Effects


@dataclass(frozen=True)
class BoxScore:
    """How a detector does on the `pictures` called `name`: COCO's AP over overlaps from 0.5 to 0.95, AP at 0.5, and AR,
    the recall of at most 100 boxes a class over the same overlaps; None where they show no thing. `before` is AP on the
    baselines of the same sources, and `change` by how much `ap` is another, with its interval over sources.
    """

    name: str
    pictures: int
    ap: float | None
    ap50: float | None
    ar: float | None
    before: float | None = None
    change: Effect | None = None


@dataclass(frozen=True)
class StrangeAnswer:
    """An answer of a model that is neither a label of the suite nor known to be a class, how often it was given, and
    the label that it seems to mean, None where none is near.
    """

    answer: str
    count: int
    nearest: str | None

    @property
    def text(self) -> str:
        """The answer, with what is known of it."""
        near = "no label is near" if self.nearest is None else f"nearest label {self.nearest!r}"
        return f"{self.answer[:_SHOWN]!r} ({self.count} time{'s' if self.count > 1 else ''}, {near})"


@dataclass(frozen=True)
class Unanswered:
    """`count` of the `of` accepted pictures of a kind have no answer, while others of them have; `first` is a file."""

    kind: Kind
    count: int
    of: int
    first: str


@dataclass(frozen=True)
class Evaluation:
    """How a model under test answers a suite.

    `measure` is "accuracy", "pooled_miou", the mIoU of all pictures' pixels together, or "AP"; a picture's own mean
    IoU, which effects are of, is its "picture mIoU", and for boxes effects are of a picture's recall. `boxes` are
    scores of a detector by type and by value. `originals`, `controls` and `variants` are different pictures and,
    where sources lack an accepted one, different sources: what an edit does is in `effects`. `all_fail` and
    `none_fail` are the shares of sources with at least one variant for which the model fails on all, or on none, of
    the variants (DILLEMA, arXiv 2502.04378, section IV); for masks, where a picture does not simply fail, they are
    None. `excluded` counts rejected variants, `excluded_controls` rejected controls: neither is compared.
    `outcomes` are the single pictures', by file name: 1 for a right label and 0 for a wrong one, or a mask's mIoU.
    `measures` are further measures of the same answers ("beside" in JSON). `rejections` are by type and by value.
    `strange` are answers that may be misspelt labels, and `unanswered` says of which pictures nothing is known.
    `unlabelled` counts a detector's sure boxes of classes that the set does not label, by class: they count in nothing.
    `insights` are what the model relies on to recognise a class, the costliest first. `groups` says how many groups the
    sources with an answer are where some depend on each other: then what effects call sources are these.
    """

    measure: str
    classes: tuple[str, ...]
    originals: Side
    controls: Side
    variants: Side
    effects: Effects
    sources: int
    all_fail: float | None = None
    none_fail: float | None = None
    excluded: int = 0
    excluded_controls: int = 0
    outcomes: Mapping[str, float] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    strange: tuple[StrangeAnswer, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    rejections: tuple[Rejections, ...] = ()
    boxes: tuple[BoxScore, ...] = ()
    unlabelled: Mapping[str, int] = field(default_factory=dict)
    insights: tuple[Insight, ...] = ()
    groups: int | None = None

    @property
    def measure_name(self) -> str:
        """The measure as people write it."""
        return self.measure.replace("_miou", " mIoU")

    @property
    def unknown_classes(self) -> tuple[str, ...]:
        """Labels that the model answered and no picture has."""
        if self.measure != "accuracy":
            return ()
        sides = (self.originals, self.controls, self.variants)
        return tuple(name for name in self.classes if all(side.by_class.get(name) is None for side in sides))

    def to_json(self) -> dict[str, Any]:
        """The evaluation, without single pictures, in JSON's own types: dicts, lists, strings, finite numbers, None."""
        evaluation = plain(self)
        del evaluation["outcomes"]
        evaluation["beside"] = evaluation.pop("measures")
        for one, insight in zip(evaluation["insights"], self.insights, strict=True):
            one |= {"clear": insight.clear, "sentence": insight.sentence}
        return evaluation
