"""The tables and figures of the two papers, of any models on one suite, by the names that the papers give them.

DILLEMA is arXiv 2502.04378, LANCE arXiv 2305.19164. A figure comes as the table of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from ..errors import CounterfactoryError
from ..judging.baselines import Names
from ..judging.compare import mean_difference
from ..judging.evaluate import edit_types, edit_values
from ..judging.evaluation import Evaluation, MeanScore
from ..suite import PictureRow
from .effects_text import insights_table, interval, points
from .table import Table, percent

_RANDOM = "random"  # the type of edits of random words


@dataclass(frozen=True)
class ModelResult:
    """How a model answers: `true[i]` is what it gives the true label of row i, None where that is not known."""

    name: str
    rows: Sequence[PictureRow]
    evaluation: Evaluation
    true: Sequence[float | None] = ()


def paper_tables(name: str, results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """The table or figure of that name. Raises CounterfactoryError where the answers do not hold what it shows."""
    return _TABLES[name](results)


def _require_labels(results: Sequence[ModelResult], what: str) -> None:
    if any(result.evaluation.measure != "accuracy" for result in results):
        raise CounterfactoryError(f"{what} is of classifiers: masks and boxes have no such table")


def _errors(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """DILLEMA, table I: the error rate on original and generated images, and of how many sources all or none fail."""
    _require_labels(results, "DILLEMA's table I")

    def error(score: MeanScore) -> str:
        return percent(None if score.value is None else 1 - score.value)

    rows = []
    for result in results:
        its = result.evaluation
        errors = (error(its.originals.score), error(its.controls.score), error(its.variants.score))
        rows.append((result.name, *errors, percent(its.all_fail), percent(its.none_fail)))
    columns = ("model", "originals", "controls", "generated", "all fail", "none fail")
    return (Table("DILLEMA, table I: error rates", columns, tuple(rows)),)


def _confusions(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """DILLEMA, figure 6: the confusion on generated images, each row divided by its sum."""
    tables = []
    for result in results:
        its = result.evaluation
        if not its.variants.confusion:
            raise CounterfactoryError("DILLEMA's figure 6 is of labels or masks: boxes have no confusion")
        shares = dict(zip(its.classes, its.variants.confusion, strict=True))
        rows = tuple((name, *map(percent, shares[name])) for name in its.classes if shares[name][0] is not None)
        title = f"DILLEMA, figure 6: confusion on generated images, {result.name}"
        tables.append(Table(title, ("class", *its.classes), rows))
    return tuple(tables)


def _accuracies(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """LANCE, table 2: accuracy at 1 and at 5 on each set of images, by model."""
    _require_labels(results, "LANCE's table 2")
    columns, scores = ["images"], list[tuple[MeanScore, ...]]()
    for result in results:
        its = result.evaluation
        columns.append(f"{result.name} acc@1")
        scores.append(tuple(side.score for side in (its.originals, its.controls, its.variants)))
        for one in its.measures:
            if one.name == "top-5 accuracy":
                columns.append(f"{result.name} acc@5")
                scores.append((one.originals, one.controls, one.variants))
    types = {kind for row in results[0].rows if row.kind == "variant" for kind in row.edit_types}
    sets = ("originals", "reconstructed", "LANCE-R" if types == {_RANDOM} else "LANCE")
    rows = tuple((images, *(percent(model[i].value) for model in scores)) for i, images in enumerate(sets))
    return (Table("LANCE, table 2: accuracy", tuple(columns), rows),)


def _sensitivity(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """LANCE, figure 3: how far an edit of each type moves the probability of the true label, up or down."""
    return (_moved("LANCE, figure 3: |p(true | original) - p(true | variant)|", "edit", results, edit_types),)


def _by_value(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """LANCE, figure 9: the same of each intervention over the set."""
    return (_moved("LANCE, figure 9: the same of each intervention", "value", results, edit_values),)


def _moved(title: str, of: str, results: Sequence[ModelResult], names: Names) -> Table:
    """Mean |delta p| of the variants that carry an edit, with its interval over sources, in points, by model."""
    _require_labels(results, "LANCE's delta p")
    moved: list[Mapping[str, tuple[str, str]]] = []
    for result in results:
        pairs = zip(result.rows, result.true, strict=False)
        known = {row.file_name: p for row, p in pairs if p is not None and row.accepted}
        groups: dict[str, list[tuple[PictureRow, float, float]]] = {}
        for row in result.rows:
            if row.kind == "variant" and row.file_name in known and row.original in known:
                for name in names(row):
                    change = abs(known[row.file_name] - known[row.original])
                    groups.setdefault(name, []).append((row, 0.0, change))
        if not groups:
            raise CounterfactoryError(
                f"{result.name} does not say what it gives the true label: give a model that gives scores, or a table "
                "with the column p_true"
            )
        effects = {name: mean_difference(name, some, 1.0) for name, some in groups.items()}
        moved.append({name: (points(effect.value), interval(effect)) for name, effect in effects.items()})
    columns = (of, *(text for result in results for text in (result.name, "95 % interval")))
    rows = tuple(
        (name, *(cell for its in moved for cell in its.get(name, ("-", "-")))) for name in sorted(set().union(*moved))
    )
    return Table(title, columns, rows)


def _by_class(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """LANCE, figure 8: how each class is answered on originals and on variants."""
    _require_labels(results, "LANCE's figure 8")
    labels = sorted({row.label for result in results for row in result.rows if row.label is not None})
    columns = ("class", *(f"{result.name} {side}" for result in results for side in ("originals", "variants")))
    sides = [side for result in results for side in (result.evaluation.originals, result.evaluation.variants)]
    rows = tuple((label, *(percent(side.by_class.get(label)) for side in sides)) for label in labels)
    return (Table("LANCE, figure 8: accuracy by class", columns, rows),)


def _relied_on(results: Sequence[ModelResult]) -> tuple[Table, ...]:
    """LANCE, figure 6: what each model relies on to recognise a class."""
    title = "LANCE, figure 6: what recognising a class relies on"
    tables = [insights_table(one.evaluation.insights, True, f"{title}, {one.name}") for one in results]
    if not any(tables):
        raise CounterfactoryError(
            "LANCE's figure 6 needs a class with six sources that have a kind of edit, and answers to their originals "
            "or controls: make the suite of more sources"
        )
    return tuple(chain.from_iterable(tables))


_TABLES: Mapping[str, Callable[[Sequence[ModelResult]], tuple[Table, ...]]] = MappingProxyType(
    {
        "dillema-table-1": _errors,
        "dillema-figure-6": _confusions,
        "lance-table-2": _accuracies,
        "lance-figure-3": _sensitivity,
        "lance-figure-6": _relied_on,
        "lance-figure-8": _by_class,
        "lance-figure-9": _by_value,
    }
)
NAMES = tuple(_TABLES)
