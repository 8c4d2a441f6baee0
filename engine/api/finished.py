"""A finished suite, as its maker and any later reader handle it, and what a model under test makes of it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..errors import CounterfactoryError
from ..files.writing import place_below, write_whole
from ..judging.compare import Comparison, check_regression, compare
from ..judging.evaluation import Evaluation
from ..judging.insights import Insight
from ..judging.limits import Drop, LimitResult, check_limits, junit_xml
from ..judging.order import order_text, order_variants
from ..judging.recheck import Recheck, recheck, set_thresholds
from ..judging.set_quality import CaptionPerplexity, Fid
from ..packages import pandas
from ..profile.check import CheckSettings
from ..profile.profile import load_profile
from ..report.effects_text import answer_lines, insight_lines, note_lines
from ..report.folder import ReportFiles
from ..report.suite_text import hand_note, suite_notes
from ..sources.source import Problem
from ..suite import PictureRow, RunRecord, accepted_edits, read_metadata, read_run, require_finished
from ..suite.by_hand import HandVerdict, Ruling, read_by_hand
from ..suite.cells import ValueCells, coverage
from ..suite.contents import suite_digest
from ..suite.metadata import open_table
from ..suite.recorded import recorded_check
from ..suite.run_record import RunSummary, SuiteCosts
from ..suite.verify import Verification, verify_suite
from ..tasks.spread import TypeSpread, spread_of
from .answers import Given, Judged, judge
from .grouping import group_suite
from .networks_at_hand import CLIP, suite_fid, suite_perplexity
from .options import (
    AnyPath,
    Caller,
    EvaluateOptions,
    OnProgress,
    PageOptions,
    ReportOptions,
    Warn,
    path_or_none,
    require_known,
    share_or_none,
)
from .pages import make_report

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table

_EFFECTS = ("edit", "points", "low", "high", "q", "sources")


@dataclass(frozen=True)
class FinishedSuite:
    """The suite in the folder `path`.

    `summary` is what the run that made it took and came to, None of a suite that was opened; `problems` are the sources
    that it left out, and why, `notes` sentences on its data set.
    """

    path: Path
    summary: RunSummary | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[PictureRow]:
        """A row per picture: originals, controls and variants, as the table holds them now."""
        return read_metadata(self.path)

    def grouped(self, by: str | None = None) -> list[PictureRow]:
        """The same with the groups of sources that depend on each other, by `by` (what the suite was made with): see
        `group_by` of `GenerateOptions`. Raises CounterfactoryError for what names none.
        """
        return group_suite(self.path, self.rows, by)

    def table(self) -> Table:
        """The same as a table of pyarrow."""
        return open_table(self.path)

    def pandas(self) -> DataFrame:
        """The same as a data frame. Raises CounterfactoryError where pandas is not installed."""
        pandas()
        return self.table().to_pandas()

    @property
    def costs(self) -> SuiteCosts:
        """What all sessions over the suite took."""
        return (read_run(self.path) or RunRecord()).costs

    @property
    def cells(self) -> tuple[ValueCells, ...]:
        """What became of each value that the user named."""
        standing = (read_run(self.path) or RunRecord()).standing
        return () if standing is None else standing.cells or ()

    def covers(self, least: float) -> bool:
        """Whether so large a share of possible cells has an accepted picture; it has to have cells."""
        if not (cells := self.cells):
            raise CounterfactoryError(
                f"{self.path} was made without values of yours, so that nothing says what to cover"
            )
        return coverage(cells) >= least

    @property
    def by_hand(self) -> Mapping[str, HandVerdict]:
        """What people decided of single pictures, by file name."""
        return read_by_hand(self.path).pictures

    @property
    def digest(self) -> str | None:
        """Names the suite's bytes; None in suites of older versions."""
        return suite_digest(self.path)

    @property
    def spread(self) -> list[TypeSpread]:
        """How the edits of accepted variants are spread over types, and over what each brings."""
        return spread_of(accepted_edits(self.path))

    def evaluate(
        self,
        model: Any,
        *,
        on_progress: OnProgress | None = None,
        warn: Warn | None = None,
        **options: Unpack[EvaluateOptions],
    ) -> Result:
        """As `evaluate`."""
        require_known("evaluate", options, EvaluateOptions)
        caller, rows = Caller.of(on_progress, warn), self.grouped(options.get("group_by"))
        drops = options.get("max_drop", ())
        limits = [Drop(*drop) for drop in (drops.items() if isinstance(drops, Mapping) else drops)]
        share = share_or_none("fail_under", options.get("fail_under"))
        given_others, most = _several(options.get("against")), options.get("max_regression")
        if most is not None and not (given_others and 0 <= most <= 100):
            raise CounterfactoryError(
                f"max_regression is the most points, 0 to 100, that a model may lose to another, got {most:g} against "
                f"{len(given_others)} models: give --model, or --predictions, twice"
            )
        if options.get("junit") is not None and not limits and share is None and most is None:
            raise CounterfactoryError(
                "--junit writes what became of limits: give --max-drop, --fail-under or --max-regression as well"
            )
        classes = options.get("classes")
        how = (path_or_none(classes), options.get("preprocess"), options.get("output"), options.get("fresh", False))

        def judged_by(model: Any) -> Judged:
            return judge(Given(model, *how), self.path, rows, caller)

        before = [one if isinstance(one, Result) else Result(self.path, judged_by(one)) for one in given_others]
        judged = judged_by(model)
        comparisons = tuple(_compared(self.path, one, judged) for one in before)
        findings = [*check_limits(judged.evaluation, limits, share)]
        for comparison in comparisons if most is not None else ():
            findings += check_regression(comparison, most or 0.0)
        others = tuple(one.judged for one in before)
        result = Result(self.path, judged, tuple(findings), classes, comparisons, others)
        for path, text in (
            (options.get("failures"), judged.failures),
            (options.get("order"), result._order_text),
            (options.get("junit"), lambda: junit_xml(self.path.resolve().name, result.findings, self.digest)),
        ):
            if path is not None:
                place, below = place_below(Path(path), self.path)
                write_whole(place, text(), sync="nothing", below=below)
        return result

    def report(
        self, *, on_progress: OnProgress | None = None, warn: Warn | None = None, **options: Unpack[ReportOptions]
    ) -> ReportFiles:
        """As `report`."""
        require_known("report", options, ReportOptions)
        caller, classes, out = Caller.of(on_progress, warn), options.get("classes"), options.get("out")
        if (predictions := options.get("predictions")) is None:
            return make_report(self.path, self.rows, options, out=out, classes=classes, warn=caller.warn)
        known = EvaluateOptions.__optional_keys__
        asked: Any = {name: value for name, value in options.items() if name in known}
        result = self.evaluate(predictions, on_progress=on_progress, warn=warn, **asked)
        pages: Any = {name: value for name, value in options.items() if name in PageOptions.__optional_keys__}
        return result.report(out, warn=warn, **pages)

    def fid(
        self,
        extractor: Any = CLIP,
        *,
        preprocess: str | None = None,
        on_progress: OnProgress | None = None,
        warn: Warn | None = None,
    ) -> Fid:
        """The Fréchet distance of controls and variants from the originals, of the features that the `extractor` gives:
        "clip" is that of the suite's profile, else a model as `evaluate` takes it that returns features [N, D]. Raises
        CounterfactoryError where there is none.
        """
        return suite_fid(self.path, self.rows, extractor, preprocess, Caller.of(on_progress, warn))

    def perplexity(self) -> CaptionPerplexity:
        """How well the language model of the suite's profile reads its captions before and after the edits. Raises
        CounterfactoryError where there is none.
        """
        return suite_perplexity(self.path, self.rows)

    def verify(self, *, on_progress: OnProgress | None = None) -> Verification:
        """As `verify`."""
        return verify_suite(self.path, Caller.of(on_progress, None).on_progress)

    def settings(self, profile: AnyPath | None = None, thresholds: Mapping[str, float] | None = None) -> CheckSettings:
        """The settings that verdicts follow: the suite's own, or a profile's, with other thresholds by their keys, such
        as {"check.edit": 0.5}.
        """
        settings = recorded_check(self.path) if profile is None else load_profile(fspath(profile)).check
        return set_thresholds(settings, thresholds or {})

    def check(self, settings: CheckSettings | None = None, rulings: Sequence[tuple[str, Ruling, str]] = ()) -> Recheck:
        """Derive the verdicts anew from the stored scores by these settings (the suite's own); generates nothing.

        `rulings` are (picture, "exclude", "accept" or "undo", reason): verdicts by hand, which stand from now on.
        """
        return recheck(self.path, self.settings() if settings is None else settings, rulings)


@dataclass(frozen=True)
class Result:
    """What the answers of a model to the pictures of the suite in `suite` say.

    `judged` are the answers with their evaluation, `findings` what became of the limits, `classes` the file of masks'
    names, None without one. `comparisons` are with the models of `against`, `others` their answers.
    """

    suite: Path
    judged: Judged
    findings: tuple[LimitResult, ...] = ()
    classes: AnyPath | None = None
    comparisons: tuple[Comparison, ...] = ()
    others: tuple[Judged, ...] = ()

    @property
    def evaluation(self) -> Evaluation:
        """All figures: scores by kind of picture, and what each type, value and class does."""
        return self.judged.evaluation

    @property
    def passed(self) -> bool:
        """Whether no limit is broken."""
        return all(finding.outcome != "broken" for finding in self.findings)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of the figures, in sentences."""
        by_hand = hand_note(read_by_hand(self.suite).pictures)
        notes = (*answer_lines(self.evaluation), *suite_notes(self.judged.rows), *by_hand)
        same = [
            f"warning: {one.name} and {self.judged.name} answer every picture alike: look whether they are one model"
            for one in self.others
            if _answer_alike(one, self.judged)
        ]
        return (*self.judged.notes, *same, *notes, *note_lines(self.evaluation), *insight_lines(self.evaluation))

    def effects(self, by: Literal["type", "value", "class"] = "type") -> DataFrame:
        """A row per type of edit, per value, or per class: what it does to the model in points, between `low` and
        `high` 95 times in 100, with `q` and the number of sources compared; the worst first. Raises
        CounterfactoryError where pandas is not installed.
        """
        effects = self.evaluation.effects
        groups = {"type": effects.leading_types, "value": effects.leading_values, "class": effects.by_class}
        if by not in groups:
            raise CounterfactoryError(f"effects are by {', '.join(groups)}, got {by!r}")
        rows = [
            (effect.name, *map(_points, (effect.value, effect.low, effect.high)), effect.q, effect.sources)
            for effect in groups[by]
        ]
        frame = pandas().DataFrame(rows, columns=list(_EFFECTS))
        return frame.sort_values("points", kind="stable", ignore_index=True)

    def insights(self) -> DataFrame:
        """A row of `evaluation.insights` per class and kind of edit: the points that the class loses with it, `drop`,
        from `low` to `high`, and the `sentence` that says so; clear ones first, then the costliest. Raises
        CounterfactoryError where pandas is not installed.
        """
        insights = self.evaluation.insights
        rows = [{"clear": one.clear, **vars(one), "sentence": one.sentence} for one in insights]
        return pandas().DataFrame(rows, columns=["clear", *(one.name for one in fields(Insight)), "sentence"])

    def failures(self) -> DataFrame:
        """A row per picture that the model fails on, the surest answers, or the worst masks, first. Raises
        CounterfactoryError where pandas is not installed.
        """
        return pandas().read_csv(io.StringIO(self.judged.failures()), keep_default_na=False)

    def _order_text(self) -> str:
        models = [one.variant_answers() for one in (*self.others, self.judged)]
        return order_text(order_variants(self.judged.rows, models), models[-1])

    def order(self) -> DataFrame:
        """A row per accepted variant, in the order to look at them (docs/reading-a-result.md), by the answers of this
        model and of those that it was compared with. Raises CounterfactoryError where pandas is not installed.
        """
        return pandas().read_csv(io.StringIO(self._order_text()), keep_default_na=False)

    def report(
        self, out: AnyPath | None = None, *, warn: Warn | None = None, **options: Unpack[PageOptions]
    ) -> ReportFiles:
        """Write the page and the contact sheet, these answers on them, into the folder `out` (SUITE/report)."""
        require_known("report", options, PageOptions)
        return make_report(
            self.suite,
            self.judged.rows,
            options,
            out=out,
            judged=self.judged,
            comparisons=self.comparisons,
            classes=self.classes,
            warn=Caller.of(None, warn).warn,
        )


def open(path: AnyPath) -> FinishedSuite:  # noqa: A001 - it is `cf.open`
    """The finished suite in the folder `path`. Raises CounterfactoryError where there is none."""
    require_finished(Path(path))
    return FinishedSuite(Path(path))


def evaluate(
    suite: FinishedSuite | AnyPath,
    model: Any,
    *,
    on_progress: OnProgress | None = None,
    warn: Warn | None = None,
    **options: Unpack[EvaluateOptions],
) -> Result:
    """Say what each edit does to your model, with certainty.

    `model` is what `--model` takes (docs/own-model.md), or a callable that takes pictures of one size, uint8 RGB [N, H,
    W, 3], and returns labels, scores, class maps or boxes. Or its answers: the path of a table, an array or a folder of
    masks; a mapping of pictures' `file_name` to labels; a data frame. `options` are those of `EvaluateOptions`. Raises
    CounterfactoryError for answers that cannot be read or do not fit the suite.
    """
    return _opened(suite).evaluate(model, on_progress=on_progress, warn=warn, **options)


def report(
    suite: FinishedSuite | AnyPath,
    *,
    on_progress: OnProgress | None = None,
    warn: Warn | None = None,
    **options: Unpack[ReportOptions],
) -> ReportFiles:
    """Make the web page and the contact sheet of a suite, and say where they are; `options` are those of
    `ReportOptions`.
    """
    return _opened(suite).report(on_progress=on_progress, warn=warn, **options)


def verify(suite: FinishedSuite | AnyPath, *, on_progress: OnProgress | None = None) -> Verification:
    """Compare all that a suite holds with digests on record: `faults` say what is wrong and what remakes it, `digest`
    names the suite.
    """
    return _opened(suite).verify(on_progress=on_progress)


def _several(given: Any) -> list[Any]:
    """One thing, several or none."""
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def _compared(suite: Path, first: Result, second: Judged) -> Comparison:
    """A model against another one on the same suite. Raises CounterfactoryError for one of another suite or kind."""
    if first.suite.resolve() != suite.resolve():
        raise CounterfactoryError(f"{first.suite} and {suite} are two suites: compare models on one")
    its, mine = first.evaluation, second.evaluation
    if mine.measure != its.measure:
        raise CounterfactoryError(f"a model is judged by {its.measure_name}, the other by {mine.measure_name}")
    names = (first.judged.name, second.name)
    return compare(second.rows, its.outcomes, mine.outcomes, names, mine.effects.measure, mine.effects.against)


def _answer_alike(first: Judged, second: Judged) -> bool:
    """Whether two models, or tables, have one answer to every picture."""
    if first.digest and second.digest:
        return first.digest == second.digest
    return first.answers is not None and first.answers == second.answers


def _opened(suite: FinishedSuite | AnyPath) -> FinishedSuite:
    return suite if isinstance(suite, FinishedSuite) else open(suite)


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share
