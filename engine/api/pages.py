"""The report of a suite, with what a model under test makes of it where that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import fspath
from pathlib import Path

from .. import packages
from ..errors import CounterfactoryError
from ..judging.compare import Comparison
from ..judging.evaluation import Evaluation
from ..judging.threshold_curve import load_valid, threshold_curve
from ..profile.profile import load_profile
from ..report.album import Answer, mark_answers
from ..report.curves import Curve
from ..report.effects_text import (
    answer_lines,
    comparison_note,
    comparison_tables,
    evaluation_tables,
    headline,
    insight_lines,
    insights_table,
    unplaced_notes,
)
from ..report.findings import comparison_sentences, find_sentences, short_name, suite_sentences
from ..report.folder import LIMIT, EdgeDetector, ReportFiles, edge_detector, write_report
from ..report.forest import draw_forest
from ..report.page import ReportText
from ..report.suite_text import coverage_table, hand_note, suite_notes
from ..report.table import Table
from ..suite import PictureRow, RunRecord, read_run
from ..suite.by_hand import read_by_hand
from ..suite.contents import suite_digest
from ..suite.recorded import recorded_check, recorded_networks, recorded_profile
from ..suite.verdicts import read_verdicts
from .answers import Judged, class_names
from .options import AnyPath, PageOptions, Warn, path_or_none

# Classes of a confusion on the page.
_CONFUSED = 40


def make_report(
    suite: Path,
    rows: Sequence[PictureRow],
    options: PageOptions,
    *,
    out: AnyPath | None = None,
    judged: Judged | None = None,
    comparisons: Sequence[Comparison] = (),
    classes: AnyPath | None = None,
    warn: Warn,
) -> ReportFiles:
    """Write the report of a suite with these rows into `out` (SUITE/report).

    `judged` are a model's answers, `comparisons` those with others, `classes` is a file that names masks' numbers.
    Warns where masks have no names. Raises CounterfactoryError as `write_report`.
    """
    answers: dict[str, Answer] = {}
    # A list for labels names no mask's numbers.
    names = _legend(suite, rows, classes if judged is None or judged.answers is None else None, warn)
    curves = _curves(suite, path_or_none(options.get("valid")))
    text = describe_suite(suite, rows)
    if judged is not None:
        if judged.answers is not None:
            answers = mark_answers(rows, [None if answer is None else answer.label for answer in judged.answers])
        rows = judged.scored_rows()
        text = describe_model(text, judged.evaluation, judged.name, comparisons, rows)
    notes = (*text.notes, *hand_note(read_by_hand(suite).pictures))
    tables = (*text.tables, *_coverage(suite))
    text = replace(text, curves=curves, notes=notes, tables=tables, classes=tuple(names), footer=_footer(suite))
    text = replace(text, data={**text.data, "suite_digest": suite_digest(suite)})
    return write_report(
        suite / "report" if out is None else Path(out),
        rows,
        suite,
        text,
        edges=_edges(suite, options, warn),
        answers=answers,
        limit=options.get("limit", LIMIT),
        single_file=path_or_none(options.get("single_file")),
        markdown=path_or_none(options.get("markdown")),
    )


def describe_suite(suite: Path, rows: Sequence[PictureRow]) -> ReportText:
    """What a report says of a suite, by its rows and its record."""
    variants = [row for row in rows if row.kind == "variant"]
    sources, accepted = len({row.source for row in variants}), sum(row.accepted for row in variants)
    counts = f"{sources:,} sources, {len(variants):,} variants, {accepted:,} accepted"
    return ReportText(
        title=f"Suite {_name(suite.resolve())}",
        subtitle="; ".join((counts, *_record_words(suite))),
        figures=(("sources", f"{sources:,}"), ("variants accepted", f"{accepted:,} of {len(variants):,}")),
        notes=suite_notes(rows),
        findings=suite_sentences(rows),
        limits=_limits(suite),
        data={"sources": sources, "variants": len(variants), "accepted": accepted},
    )


def describe_model(
    text: ReportText, evaluation: Evaluation, name: str, comparisons: Sequence[Comparison], rows: Sequence[PictureRow]
) -> ReportText:
    """The same, with what the suite says of the model called `name`, and of it against others."""
    findings = find_sentences(evaluation, len({row.unit for row in rows}))
    unit = "sources" if evaluation.groups is None else "groups"
    others = [one for comparison in comparisons for one in comparison_sentences(comparison)]
    compared = [table for comparison in comparisons for table in comparison_tables(comparison, everything=True)]
    measures = (evaluation.effects, *(measure.effects for measure in evaluation.measures))
    tables = evaluation_tables(evaluation, everything=True, confused=_CONFUSED)
    which = tuple(map(comparison_note, comparisons))
    return replace(
        text,
        title=f"{text.title}: {short_name(name)}",
        findings=(*others, *findings),
        forests=tuple(forest for effects in measures if (forest := draw_forest(effects, unit)) is not None),
        figures=(*text.figures, headline(evaluation)),
        tables=(*tables, *insights_table(evaluation.insights, everything=True), *compared, *text.tables),
        remarks=(*answer_lines(evaluation), *which, *unplaced_notes(evaluation), *insight_lines(evaluation)),
        data={
            **text.data,
            "model": name,
            "evaluation": evaluation.to_json(),
            "comparisons": [comparison.to_json() for comparison in comparisons],
        },
    )


def _name(suite: Path) -> str:
    """The folder's name; where it is only "suite", that of the folder that it is in."""
    return suite.parent.name if suite.name == "suite" and suite.parent.name else suite.name


def _record_words(suite: Path) -> tuple[str, ...]:
    """Task, profile and day of a suite, as far as its record says them."""
    with suppress(CounterfactoryError):
        record = read_run(suite)
        if record is not None and record.sessions:
            last = record.sessions[-1]
            task, profile = last.facts.settings.get("task"), last.facts.profile.get("name")
            named = task.get("name") if isinstance(task, Mapping) else None
            words = (("task", named), ("profile", profile), ("made", last.began[:10]))
            return tuple(f"{what} {word}" for what, word in words if isinstance(word, str) and word)
    return ()


def _limits(suite: Path) -> dict[str, tuple[float | None, float | None]]:
    """What each score has to be, by the suite's record; nothing where that does not say."""
    with suppress(CounterfactoryError):
        settings = recorded_check(suite)
        names = (*settings.least, *settings.most)
        return {name: (settings.least.get(name), settings.most.get(name)) for name in names}
    return {}


def _edges(suite: Path, options: PageOptions, warn: Warn) -> EdgeDetector | None:
    if options.get("no_edges", False):
        return None
    if not packages.installed("cv2"):
        warn("no edges are shown: they take OpenCV (pip install 'counterfactory[light]')")
        return None
    profile = options.get("profile")
    if profile is not None:
        return edge_detector(load_profile(fspath(profile)))
    recorded = recorded_profile(suite)
    return edge_detector(recorded if recorded.edges.hed is None else recorded_networks(suite))


def _curves(suite: Path, judgements: Path | None) -> tuple[Curve, ...]:
    """What each threshold of the suite would let pass; none where its record does not say by which it is judged."""
    try:
        settings = recorded_check(suite)
    except CounterfactoryError:
        if judgements is not None:
            raise
        return ()
    scored = read_verdicts(suite).rows
    valid = load_valid(judgements, scored) if judgements is not None else None
    there = {score for row in scored for score in row.scores}
    names = [name for name in settings.strict if name.partition("_")[2] in there]
    return tuple(Curve(threshold_curve(scored, settings, name, valid)) for name in names)


def _footer(suite: Path) -> str:
    """Which bytes a report is of, and the licences of the models that made them, as far as the record says them."""
    parts = [f"Suite {digest} (counterfactory verify)."] if (digest := suite_digest(suite)) else []
    with suppress(CounterfactoryError):
        licences = (read_run(suite) or RunRecord()).licences
        if licences:
            parts.append(f"Made with {'; '.join(f'{one.model}: {one.licence}' for one in licences)}.")
    return " ".join(parts)


def _coverage(suite: Path) -> tuple[Table, ...]:
    """What became of the user's values; none where none were named, or the record does not say."""
    with suppress(CounterfactoryError):
        standing = (read_run(suite) or RunRecord()).standing
        if standing is not None and standing.cells:
            return (coverage_table(standing.cells),)
    return ()


def _legend(suite: Path, rows: Sequence[PictureRow], classes: AnyPath | None, warn: Warn) -> list[str]:
    """The names of what masks hold, as far as they are known: a page does without them."""
    if all(row.mask is None for row in rows):
        return []
    try:
        return class_names(classes, suite) or []
    except CounterfactoryError as error:
        if classes is not None:
            raise
        warn(f"masks are shown without their classes' names: {error}")
        return []
