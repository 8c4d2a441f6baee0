"""Judges a model under test: how it answers originals, controls and variants, and what each edit does to it.

From the rows of a suite's metadata and the model's answers to their pictures it makes an `Evaluation`, the same for
labels (measured by accuracy) and for masks (measured by mIoU). It does not know which model answered, or how pictures
were loaded; any set of labels or classes works.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..suite import PictureRow
from ..variant import KINDS, Kind
from .baselines import Names, Outcomes, find_baseline_effects
from .confusion import Counts, accuracy, confusion_matrix, iou, mean_iou, recall, row_normalised
from .effects import (
    Effect,
    LevelEffect,
    PictureOutcome,
    correct,
    find_effects,
    find_flips,
    find_interactions,
    find_mix_gaps,
)
from .evaluation import Effects, Evaluation, MeanScore, Measure, Side
from .groups import count_groups
from .insights import Embed, bags_of_words, find_insights
from .predictions import find_unanswered
from .rejections import find_rejections
from .standouts import find_standouts

T = TypeVar("T")


def evaluate_labels(
    rows: Sequence[PictureRow],
    predictions: Sequence[str | None],
    measures: Mapping[str, Sequence[float | None]] | None = None,
    embed: Embed = bags_of_words,
) -> Evaluation:
    """Judge a classifier.

    `rows` are those of the suite's table, `predictions[i]` the label that the model gave to row i's picture; None where
    it gave none, which leaves the row out. `measures` are other outcomes of the same answers, 0..1, by name. Classes
    are all labels that occur on either side, sorted. Rejected pictures are left out. `embed` turns captions into
    vectors, for insights. Raises CounterfactoryError when the lengths differ, and when a picture that counts has no
    label.
    """
    used = list(_pair_answers(rows, predictions))
    pairs = [(_label(row), answer) for row, answer in used]
    classes = tuple(sorted({name for pair in pairs for name in pair}))
    number = {name: i for i, name in enumerate(classes)}

    def side(kind: Kind) -> Side:
        of_kind = [pair for (row, _), pair in zip(used, pairs, strict=True) if row.kind == kind]
        truth, predicted = ([number[pair[side]] for pair in of_kind] for side in (0, 1))
        counts = confusion_matrix(np.array(truth, np.int64), np.array(predicted, np.int64), len(classes))
        return Side(
            MeanScore(len(of_kind), accuracy(counts)), _by_class(classes, recall(counts)), _confusion_shares(counts)
        )

    outcomes = [(row, float(label == answer)) for (row, _), (label, answer) in zip(used, pairs, strict=True)]
    right, by_label = defaultdict[str, list[bool]](list), defaultdict[str, list[tuple[PictureRow, float]]](list)
    for row, outcome in outcomes:
        by_label[_label(row)].append((row, outcome))
        if row.kind == "variant":
            right[row.source].append(outcome == 1)
    effects = _label_effects(outcomes, "accuracy", flips=True)
    others = {name: list(_pair_answers(rows, values)) for name, values in (measures or {}).items()}
    return evaluation_of(
        rows,
        side,
        outcomes,
        measure="accuracy",
        classes=classes,
        effects=effects,
        sources=len(right),
        all_fail=_fraction([not any(answers) for answers in right.values()]),
        none_fail=_fraction([all(answers) for answers in right.values()]),
        unanswered=find_unanswered(rows, [answer is not None for answer in predictions]),
        measures=tuple(measure_of(name, some, _label_effects(some, name)) for name, some in others.items()),
        insights=find_insights(by_label.items(), effects.against, embed),
    )


def evaluation_of(
    rows: Sequence[PictureRow], side: Callable[[Kind], Side], outcomes: Outcomes, effects: Effects, **figures: Any
) -> Evaluation:
    """An evaluation: the `figures`, its sides and `effects`, and what rows and outcomes of single pictures say of any
    model.
    """
    excluded, excluded_controls = (
        sum(row.kind == kind and not row.accepted for row in rows) for kind in ("variant", "control")
    )
    return Evaluation(
        originals=side("original"),
        controls=side("control"),
        variants=side("variant"),
        excluded=excluded,
        excluded_controls=excluded_controls,
        outcomes={row.file_name: outcome for row, outcome in outcomes},
        groups=count_groups(row for row, _ in outcomes),
        rejections=find_rejections(rows, outcomes, effects.against, (edit_types, edit_values)),
        effects=effects,
        **figures,
    )


def measure_of(name: str, outcomes: Outcomes, effects: Effects) -> Measure:
    """The measure called `name`: the means of outcomes by kind of picture, and their effects."""

    def score(kind: Kind) -> MeanScore:
        values = [value for row, value in outcomes if row.kind == kind]
        return MeanScore(len(values), sum(values) / len(values) if values else None)

    return Measure(name, score("original"), score("control"), score("variant"), effects)


def _label_effects(outcomes: Outcomes, measure: str, flips: bool = False) -> Effects:
    def by_class(against: Kind) -> tuple[Effect, ...]:
        return find_effects(picture_outcomes(outcomes, lambda row: {_label(row)}), against)

    return effects_of(outcomes, measure, by_class, flips)


def evaluate_masks(
    rows: Sequence[PictureRow],
    confusions: Iterable[Counts | None],
    classes: Sequence[str],
    embed: Embed = bags_of_words,
) -> Evaluation:
    """Judge a segmenter.

    `confusions` has for each row the `confusion_matrix` of its carried-over mask (truth) and the model's mask, int64
    [C, C], or [C, C + 1] with answers that are no class; None leaves the row out, and one is held at a time. A pooled
    mIoU comes from summed confusions; an effect compares pictures by their own mean IoU over the classes that truth or
    answer has, and a class's effect by its own IoU there. Rejected pictures are left out. Raises CounterfactoryError
    when lengths or shapes do not fit.
    """
    size = len(classes)
    totals: dict[Kind, Counts] = {kind: np.zeros((size, size + 1), np.int64) for kind in KINDS}
    shown = dict.fromkeys(KINDS, 0)
    used: list[tuple[PictureRow, float | None, NDArray[np.float64]]] = []
    for row, counts in _pair_answers(rows, confusions):
        if counts.shape not in ((size, size), (size, size + 1)):
            raise CounterfactoryError(
                f"{size} classes need confusion matrices of {size} x {size}, got {' x '.join(map(str, counts.shape))}"
            )
        totals[row.kind][:, : counts.shape[1]] += counts
        shown[row.kind] += 1
        used.append((row, mean_iou(counts), iou(counts)))

    def side(kind: Kind) -> Side:
        total = totals[kind]
        return Side(MeanScore(shown[kind], mean_iou(total)), _by_class(classes, iou(total)), _confusion_shares(total))

    def by_name() -> Iterator[tuple[str, list[tuple[PictureRow, float]]]]:
        for number, name in enumerate(classes):
            yield name, [(row, float(values[number])) for row, _, values in used if not np.isnan(values[number])]

    def by_class(against: Kind) -> tuple[Effect, ...]:
        effects = [e for name, outcomes in by_name() for e in effect_of_all(outcomes, name, against)]
        return correct(sorted(effects, key=lambda effect: effect.name))

    outcomes = [(row, mean) for row, mean, _ in used if mean is not None]
    effects = effects_of(outcomes, "picture mIoU", by_class)
    masked, answered = [row for row in rows if row.mask is not None], {row.file_name for row, _, _ in used}
    return evaluation_of(
        rows,
        side,
        outcomes,
        measure="pooled_miou",
        classes=tuple(classes),
        effects=effects,
        sources=len({row.source for row, _, _ in used if row.kind == "variant"}),
        unanswered=find_unanswered(masked, [row.file_name in answered for row in masked]),
        insights=find_insights(by_name(), effects.against, embed, "IoU"),
    )


def effects_of(
    outcomes: Outcomes, measure: str, by_class: Callable[[Kind], tuple[Effect, ...]] = lambda _: (), flips: bool = False
) -> Effects:
    """The effects of pictures by their outcomes; `by_class` finds those of classes against a kind of pictures."""
    copies = _copies(outcomes)
    painted = [one for one in outcomes if one[0].file_name not in copies]
    kinds = {row.kind for row, _ in painted}
    against: Kind | None = "control" if "control" in kinds else "original" if "original" in kinds else None
    alone = [one for one in outcomes if one[0].kind != "variant" or len(one[0].edits) == 1]
    types = picture_outcomes(outcomes, edit_types)

    def effects(some: Outcomes, names: Names) -> tuple[Effect, ...]:
        return find_effects(picture_outcomes(some, names), against) if against else ()

    of_painter = effect_of_all(painted, "painting", "original", "control") if {"control", "original"} <= kinds else ()
    turned = find_flips(picture_outcomes(alone, edit_types), against) if flips and against else ()
    if flips and of_painter:
        turned = (*find_flips(picture_outcomes(painted, lambda _: {"painting"}, "control"), "original"), *turned)
    whole = Effects(
        against=against,
        baselines=find_baseline_effects(outcomes, lambda row: edit_types(row) | edit_values(row), against)
        if against
        else (),
        exact=all(row.painter == "light" for row, _ in outcomes if row.kind == "variant"),
        painter=of_painter[0] if of_painter else None,
        by_type=effects(outcomes, edit_types),
        by_value=effects(outcomes, edit_values),
        by_class=by_class(against) if against else (),
        by_type_with_painter=find_effects(types, "original") if "original" in kinds else (),
        flips=turned,
        by_type_alone=effects(alone, edit_types),
        by_value_alone=effects(alone, edit_values),
        interactions=find_interactions(types, against) if against else (),
        copies=len(copies),
        measure=measure,
        by_level=_by_level(outcomes, against) if against else (),
        mix_gaps=find_mix_gaps(types, against) if against else (),
    )
    leading = picture_outcomes(alone if whole.leads_alone else outcomes, edit_values)
    return replace(whole, standouts=find_standouts(leading, against) if against else ())


def _by_level(outcomes: Outcomes, against: Kind) -> tuple[LevelEffect, ...]:
    """The curve of each type, of the variants that were painted at several levels."""
    leveled = [one for one in outcomes if one[0].kind != "variant" or one[0].levels > 1]
    points = {
        f"{kind} {row.level} {row.levels}": (kind, row.level, row.levels)
        for row, _ in leveled
        if row.kind == "variant"
        for kind in row.edit_types
    }

    def names(row: PictureRow) -> set[str]:
        return {f"{kind} {row.level} {row.levels}" for kind in row.edit_types}

    # One level is no curve.
    effects = (
        find_effects(picture_outcomes(leveled, names), against) if len({of[1:] for of in points.values()}) > 1 else ()
    )
    curve = [LevelEffect(*points[effect.name], effect) for effect in effects]
    return tuple(sorted(curve, key=lambda point: (point.type, point.levels, point.level)))


def _copies(outcomes: Outcomes) -> set[str]:
    """The controls that are their originals again, byte for byte: nothing was painted that could do anything."""
    originals = {row.file_name: row.sha256 for row, _ in outcomes if row.kind == "original"}
    return {row.file_name for row, _ in outcomes if row.kind == "control" and originals.get(row.original) == row.sha256}


def picture_outcomes(outcomes: Outcomes, names: Names, carrier: Kind = "variant") -> list[PictureOutcome]:
    """Outcomes as `find_effects` takes them: pictures of the kind `carrier` carry their `names`, the others none."""
    none, shared = frozenset[str](), dict[frozenset[str], frozenset[str]]()

    def carried(row: PictureRow) -> frozenset[str]:
        own = frozenset(names(row)) if row.kind == carrier else none
        return shared.setdefault(own, own)  # few differ, and a suite has many rows

    return [PictureOutcome(row.source, row.kind, outcome, carried(row), row.unit) for row, outcome in outcomes]


def effect_of_all(outcomes: Outcomes, name: str, against: Kind, carrier: Kind = "variant") -> tuple[Effect, ...]:
    """The effect on all pictures of the kind `carrier` together, called `name`; empty where there are none."""
    return find_effects(picture_outcomes(outcomes, lambda _: {name}, carrier), against)


def _pair_answers(rows: Sequence[PictureRow], answers: Iterable[T | None]) -> Iterator[tuple[PictureRow, T]]:
    """The accepted rows that have an answer, each with its answer, in the order of the answers."""
    count = 0
    for count, answer in enumerate(answers, start=1):
        if count > len(rows):
            break
        if answer is not None and rows[count - 1].accepted:
            yield rows[count - 1], answer
    if count != len(rows):
        more = "more" if count > len(rows) else str(count)
        raise CounterfactoryError(f"{len(rows)} pictures need as many answers of the model, got {more}")


def _label(row: PictureRow) -> str:
    if row.label is None:
        raise CounterfactoryError(
            f"accuracy needs a label for every picture, but source {row.source!r} has none; "
            "give labels to the sources (class folders or --labels) or judge with masks"
        )
    return row.label


def edit_types(row: PictureRow) -> set[str]:
    return set(row.edit_types)


def edit_values(row: PictureRow) -> set[str]:
    return {edit.value for edit in row.edits}


def _fraction(answers: Sequence[bool]) -> float | None:
    return sum(answers) / len(answers) if answers else None


def _by_class(classes: Sequence[str], values: NDArray[np.float64]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else value for name, value in zip(classes, values.tolist(), strict=True)}


def _confusion_shares(counts: Counts) -> tuple[tuple[float | None, ...], ...]:
    rows = row_normalised(counts)[:, : len(counts)].tolist()
    return tuple((None,) * len(row) if np.isnan(row[0]) else tuple(row) for row in rows)  # NaN throughout, or nowhere
