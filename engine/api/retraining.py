"""What training on a suite's variants brings a model: the lesson that a training program is told, and what its answers
say, by `evaluate`'s own statistics, of pictures whose sources it never saw.

The program is export/retraining, which needs torch; nothing here does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from ..files.fill import plain
from ..judging.compare import Comparison, Gap, compare
from ..judging.effects import correct
from ..judging.evaluation import Evaluation
from ..judging.seeds import spread_over_seeds
from ..suite import PictureRow, read_metadata, require_finished
from ..suite.contents import suite_digest
from ..suite.images import open_png
from ..suite.paths import Folder
from ..suite.recorded import recorded_numbers
from ..training.lesson import ArmName, Lesson, TrainingPicture, answers_of
from ..training.recipe import TrainingRecipe
from ..training.source_split import require_classes, split_sources, split_suites
from .answers import Given, judge
from .grouping import group_suite
from .options import Caller

_MOST_MASK_CLASSES = 254
HELD = 0.25
# A model's outcomes, 0..1, by file name.
Outcomes = Mapping[str, float]
CALLED: dict[ArmName, str] = {"given": "as given", "before": "on originals", "after": "with variants"}


@dataclass(frozen=True)
class Drill:
    """A `lesson`, and the rows in `suite` that judge its models: those held out. `left_out` sources of the suite for
    judging were trained on.
    """

    suite: Path
    lesson: Lesson
    held: tuple[PictureRow, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Gain:
    """What training with variants changed on some pictures: `gap.effect` is after less before, the mean over seeds,
    with the spread between them in its interval; `seeds` are single seeds' differences.
    """

    gap: Gap
    seeds: tuple[float, ...]

    @property
    def certain(self) -> bool:
        """Whether there is a gain: the interval lies above 0, corrected for what is looked at together."""
        effect = self.gap.effect
        return effect.clear and effect.low is not None and effect.low > 0

    @property
    def harmful(self) -> bool:
        """Whether there is a loss, by the same."""
        effect = self.gap.effect
        return effect.clear and effect.high is not None and effect.high < 0


@dataclass(frozen=True)
class Retraining:
    """The gains on held-out originals and variants, and under each type of edit, of models that were `trained` on so
    many originals and variants; `given` is what the model scored there as it came, None where it starts anew.
    """

    measure: str
    sides: tuple[Gain, ...]
    by_type: tuple[Gain, ...]
    trained: tuple[int, int]
    held: int
    seeds: tuple[int, ...]
    given: tuple[float, ...] | None = None

    @property
    def gains(self) -> tuple[Gain, ...]:
        """Of sides, then of types."""
        return (*self.sides, *self.by_type)

    def to_json(self) -> dict[str, Any]:
        data = plain(self)
        for name in ("sides", "by_type"):
            for one, gain in zip(data[name], getattr(self, name), strict=True):
                one |= {"certain": gain.certain, "harmful": gain.harmful}
        return data


def plan_drill(
    suite: Path,
    model: str,
    recipe: TrainingRecipe,
    test: Path | None,
    held: float,
    seeds: Sequence[int],
    group_by: str | None = None,
) -> Drill:
    """The lesson of a finished suite: its originals and accepted variants, split by source, or by the groups of sources
    that depend on each other, or all of it where another suite judges. Raises CounterfactoryError for a suite without
    labels or masks, as the recipe needs them, without an accepted variant, and for a class that only one side has.
    """
    rows, judging = _rows(suite, recipe, group_by), suite if test is None else test
    if test is None:
        split, left_out = split_sources(rows, held, seeds[0]), 0
    else:
        split, left_out = split_suites(rows, _rows(test, recipe, group_by))
    by_mask = recipe.task == "segmentation"
    names = dict(_mask_names(suite) if by_mask else enumerate(sorted({str(row.label) for row in rows})))
    if by_mask and dict(_mask_names(judging)) != names:
        raise CounterfactoryError(f"the masks of {judging} have other numbers or classes than those of {suite}")
    shown = (
        frozenset[str]().union(
            *(_shown(root, row, names if by_mask else None) for row in side if row.kind == "original")
        )
        for root, side in ((suite, split.train), (judging, split.held))
    )
    require_classes(*shown)
    number = {name: at for at, name in enumerate(names.values())}

    def taught(root: Path, some: Sequence[PictureRow]) -> tuple[TrainingPicture, ...]:
        place = str(root.resolve())
        return tuple(
            TrainingPicture(place, row.file_name, mask=row.mask)
            if by_mask
            else TrainingPicture(place, row.file_name, target=number[str(row.label)])
            for row in some
        )

    train = (
        [row for row in split.train if row.kind == "original"],
        [row for row in split.train if row.kind == "variant"],
    )
    if not train[1] or not any(row.kind == "variant" for row in split.held):
        raise CounterfactoryError(
            f"{suite} has accepted variants of too few sources to train with some and to judge by others: make more"
        )
    digests = tuple(str(suite_digest(one)) for one in dict.fromkeys((suite, judging)))
    lesson = Lesson(
        model, recipe, tuple(names.values()), tuple(names), tuple(seeds), digests,
        taught(suite, train[0]), taught(suite, train[1]), taught(judging, split.held),
    )  # fmt: skip
    return Drill(judging, lesson, split.held, left_out)


def _rows(suite: Path, recipe: TrainingRecipe, group_by: str | None) -> list[PictureRow]:
    require_finished(suite)
    rows = [
        row
        for row in group_suite(suite, read_metadata(suite), group_by)
        if row.accepted and row.kind in ("original", "variant")
    ]
    if not any(row.kind == "variant" for row in rows):
        raise CounterfactoryError(
            f"{suite} has no accepted variants to train with: see why by `counterfactory check {suite}`"
        )
    by_mask = recipe.task == "segmentation"
    if any((row.mask if by_mask else row.label) is None for row in rows):
        other = "a recipe for classification" if by_mask else "a recipe for segmentation, such as dillema-deeplabv3"
        raise CounterfactoryError(
            f"recipe {recipe.name} needs {'masks' if by_mask else 'labels'}, which not every source of {suite} has: "
            f"take {other} where that fits"
        )
    # A variant counts with its original alone.
    known = {row.source for row in rows if row.kind == "original"}
    return [row for row in rows if row.source in known]


def _mask_names(suite: Path) -> dict[int, str]:
    numbers = recorded_numbers(suite)
    if numbers is None or len(numbers) > _MOST_MASK_CLASSES:
        raise CounterfactoryError(
            f"{suite} has {len(numbers) if numbers else 'no'} names of its masks' classes; 2 to {_MOST_MASK_CLASSES} "
            "are trained: make it with --class-map"
        )
    return dict(sorted(numbers.items()))


def _shown(root: Path, row: PictureRow, names: dict[int, str] | None) -> frozenset[str]:
    """The classes that an original shows."""
    if names is None:
        return frozenset([str(row.label)])
    assert row.mask is not None, "rows without masks are refused"
    numbers = open_png(Folder(root).path(row.mask), lambda image: np.unique(np.asarray(image))).tolist()
    return frozenset(names[number] for number in numbers if number in names)


def judge_drill(drill: Drill, folder: Path, caller: Caller) -> Retraining:
    """What the trained models' answers say."""
    lesson = drill.lesson
    of_arm = {
        arm: [_judged(drill, answers_of(folder, arm, seed), caller) for seed in lesson.seeds] for arm in lesson.arms
    }
    firsts, seconds = ([one.outcomes for one in of_arm[arm]] for arm in ("before", "after"))
    measure = of_arm["before"][0].effects.measure
    sides, by_type = find_gains(drill.held, firsts, seconds, measure)
    held, trained = len({row.source for row in drill.held}), (len(lesson.originals), len(lesson.variants))
    given = None
    if "given" in of_arm:
        scores = _compared(drill.held, [one.outcomes for one in of_arm["given"]], seconds, measure)
        given = tuple(gap.first for gap in (*scores.sides, *scores.by_type))
    return Retraining(measure, sides, by_type, trained, held, lesson.seeds, given)


def find_gains(
    rows: Sequence[PictureRow], firsts: Sequence[Outcomes], seconds: Sequence[Outcomes], measure: str
) -> tuple[tuple[Gain, ...], tuple[Gain, ...]]:
    """The gains on originals and variants, and by type, of outcomes for each seed; `q` is for all of them together."""
    whole = _compared(rows, firsts, seconds, measure)
    single = [_compared(rows, [first], [second], measure) for first, second in zip(firsts, seconds, strict=True)]
    of_seeds = zip(*((*one.sides, *one.by_type) for one in single), strict=True)
    by_seed = [tuple(gap.effect.value or 0.0 for gap in gaps) for gaps in of_seeds]
    gaps = (*whole.sides, *whole.by_type)
    effects = correct([spread_over_seeds(gap.effect, of) for gap, of in zip(gaps, by_seed, strict=True)])
    gains = tuple(Gain(replace(gap, effect=of), its) for gap, of, its in zip(gaps, effects, by_seed, strict=True))
    return gains[: len(whole.sides)], gains[len(whole.sides) :]


def _compared(
    rows: Sequence[PictureRow], firsts: Sequence[Outcomes], seconds: Sequence[Outcomes], measure: str
) -> Comparison:
    names = (CALLED["before"], CALLED["after"])
    return compare(rows, _mean_outcomes(firsts), _mean_outcomes(seconds), names, measure, None)


def _mean_outcomes(by_seed: Sequence[Outcomes]) -> dict[str, float]:
    return {name: fmean(one[name] for one in by_seed) for name in by_seed[0]}


def _judged(drill: Drill, answers: Path, caller: Caller) -> Evaluation:
    file = answers / "answers.csv"
    return judge(Given(file if file.exists() else answers), drill.suite, drill.held, caller).evaluation
