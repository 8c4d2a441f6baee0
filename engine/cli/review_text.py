"""What `review` says of a study's results: tables of words."""

from __future__ import annotations

from collections.abc import Iterable

from ..report.table import Table, percent
from ..review.agreement import Share
from ..review.study_results import StudyResults, Validity

_VALUES = 8  # values and classes that are shown, those of the least validity


def results_tables(results: StudyResults) -> list[Table]:
    """All tables of results that have rows."""
    tables = [_validity(results.validity)]
    if results.corrected is not None:
        one = results.corrected
        rows = (
            ("error rate of the model", percent(one.error), "-", f"{one.pictures:,}"),
            ("valid of what is misclassified", *_share(one.wrong)),
            ("valid of what is rightly classified", *_share(one.right)),
            ("error rate, corrected", *_share(one.corrected)),
        )
        tables.append(
            Table("The error rate where only valid pictures count", ("", "share", "95 % interval", "pictures"), rows)
        )
    if results.gate is not None:
        gate = [("accepted pictures that are valid", *_share(results.gate.precision))]
        if results.gate.recall is not None:
            gate.append(("valid pictures that are accepted", *_share(results.gate.recall)))
        tables.append(Table("The gate against people", ("", "share", "95 % interval", "pictures"), tuple(gate)))
    asked = [
        (
            one.asked,
            f"{one.answers:,}",
            "-" if one.scale else f"{one.discarded:,}",
            *(_mean(one.share) if one.scale else _share(one.share)[:2]),
            "-" if one.alpha is None else f"{one.alpha:.2f}",
        )
        for one in results.questions
    ]
    columns = ("question", "answers", "discarded", "yes, or mean", "95 % interval", "alpha")
    tables.append(Table("What was asked", columns, tuple(asked)))
    raters = [
        (
            f"{one.rater} *" if one.careless else one.rater,
            f"{one.items:,}",
            f"{one.right} of {one.checks}" if one.checks else "-",
            f"{one.suspicion:+.1f}",
            f"{one.seconds:.1f} s",
        )
        for one in results.raters
    ]
    tables.append(
        Table(
            "Raters; * answers as if by chance",
            ("rater", "pictures", "checks right", "suspicion", "each"),
            tuple(raters),
        )
    )
    return [table for table in tables if table.rows]


def _validity(validity: Iterable[Validity]) -> Table:
    rows, shown = [], dict[str, int]()
    for one in validity:
        shown[one.of] = shown.get(one.of, 0) + 1
        if one.of in ("value", "class") and shown[one.of] > _VALUES:
            continue
        name = one.name if one.of in ("all", "value") else f"{one.of}: {one.name}"
        share, interval, agreed = _share(one.valid)
        rows.append((name, agreed, percent(one.discarded_share), share, interval))
        if one.of == "all":
            share, interval, finished = _share(one.by_majority)
            rows.append(("all, by majority", finished, "-", share, interval))
    columns = ("pictures", "agreed", "discarded", "valid", "95 % interval")
    return Table("Valid, as people agree", columns, tuple(rows))


def _share(share: Share) -> tuple[str, str, str]:
    interval = "-" if share.low is None or share.high is None else f"{100 * share.low:.1f} … {100 * share.high:.1f}"
    return percent(share.value), interval, f"{share.count:,}"


def _mean(share: Share) -> tuple[str, str]:
    interval = "-" if share.low is None or share.high is None else f"{share.low:.2f} … {share.high:.2f}"
    return "-" if share.value is None else f"{share.value:.2f}", interval
