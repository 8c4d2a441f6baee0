"""The report of a suite, with what a model under test makes of it where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from os import fspath
from pathlib import Path

from .. import packages
from ..errors import CounterfactoryError
from ..judging.threshold_curve import load_valid, threshold_curve
from ..profile.profile import load_profile
from ..report.album import Answer, mark_answers
from ..report.curves import Curve
from ..report.effects_text import answer_lines, evaluation_tables, headline, note_lines
from ..report.folder import EdgeDetector, ReportFiles, describe_suite, edge_detector, write_report
from ..report.suite_text import coverage_table, hand_note
from ..report.table import Table
from ..suite import PictureRow, RunRecord, read_run
from ..suite.by_hand import read_by_hand
from ..suite.recorded import recorded_check, recorded_profile
from ..suite.verdicts import read_verdicts
from .answers import Judged, class_names
from .options import AnyPath, PageOptions, Warn, path_or_none


def make_report(
    suite: Path,
    rows: Sequence[PictureRow],
    options: PageOptions,
    *,
    out: AnyPath | None = None,
    judged: Judged | None = None,
    classes: AnyPath | None = None,
    warn: Warn,
) -> ReportFiles:
    """Write the report of a suite with these rows into `out` (SUITE/report).

    `judged` are a model's answers, `classes` is a file that names masks' numbers.
    Warns where masks have no names. Raises CounterfactoryError as `write_report`.
    """
    answers: dict[str, Answer] = {}
    # A list for labels names no mask's numbers.
    names = _legend(suite, rows, classes if judged is None or judged.answers is None else None, warn)
    curves = _curves(suite, path_or_none(options.get("valid")))
    if judged is None:
        text = describe_suite(rows, classes=names)
    else:
        if judged.answers is not None:
            answers = mark_answers(rows, [None if answer is None else answer.label for answer in judged.answers])
        rows = judged.scored_rows()
        text = describe_suite(
            rows,
            evaluation_tables(judged.evaluation),
            figures=(headline(judged.evaluation),),
            remarks=(*answer_lines(judged.evaluation), *note_lines(judged.evaluation)),
            classes=names,
        )
    notes = (*text.notes, *hand_note(read_by_hand(suite).pictures))
    text = replace(text, curves=curves, notes=notes, tables=(*text.tables, *_coverage(suite)))
    return write_report(
        suite / "report" if out is None else Path(out),
        rows,
        suite,
        text,
        edges=_edges(suite, options, warn),
        answers=answers,
        limit=options.get("limit", 200),
    )


def _edges(suite: Path, options: PageOptions, warn: Warn) -> EdgeDetector | None:
    if options.get("no_edges", False):
        return None
    if not packages.installed("cv2"):
        warn("no edges are shown: they take OpenCV (pip install 'counterfactory[light]')")
        return None
    profile = options.get("profile")
    return edge_detector(recorded_profile(suite) if profile is None else load_profile(fspath(profile)))


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
