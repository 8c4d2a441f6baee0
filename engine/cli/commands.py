"""What each command does: a function of arguments and terminal that returns its exit status.

The verbs of `api` do the work; here their results are said. What needs the runtime is imported where it is used, so
that `--help` does not wait for it.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..api import finished
from ..api.answers import Given
from ..api.options import EstimateOptions, EvaluateOptions, GenerateOptions, ImportOptions, PlanOptions, ReportOptions
from ..errors import CounterfactoryError
from ..judging.recheck import threshold_named
from ..judging.threshold_curve import load_valid, threshold_curve
from ..profile.check import CheckSettings
from ..profile.profile import load_profile
from ..report.effects_text import comparison_note, comparison_tables, evaluation_tables, finding_line, insights_table
from ..report.paper_tables import ModelResult, paper_tables
from ..report.suite_text import coverage_data, coverage_table, hand_note, spread_data, uncovered
from ..report.table import Table
from ..suite import count_outside
from ..suite.by_hand import RULINGS, Ruling, read_rulings, word_ruling
from ..suite.verdicts import read_verdicts
from ..suite.verify import Verification
from . import check_text
from .plan_text import show_spread
from .run_text import as_data, cost_line, cost_table, count_line, shortfall_lines, time_lines, use_line
from .statuses import EXIT_BROKEN, EXIT_SKIPPED
from .terminal import Terminal


def keywords(args: Namespace, options: Any) -> dict[str, Any]:
    """What a command line says of each of a verb's options (a class of `api.options`)."""
    names: frozenset[str] = options.__optional_keys__
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


def generate(args: Namespace, terminal: Terminal) -> int:
    from ..api import verbs

    with terminal.callbacks() as calls:
        suite = verbs.generate(args.sources, out=args.out, **calls, **keywords(args, GenerateOptions))
    status = _show_suite(suite, terminal)
    if args.require_coverage is not None and not suite.covers(args.require_coverage):
        return EXIT_BROKEN
    return status


def import_pairs(args: Namespace, terminal: Terminal) -> int:
    from ..api import verbs

    with terminal.callbacks() as calls:
        suite = verbs.import_pairs(args.pairs, out=args.out, **calls, **keywords(args, ImportOptions))
    return _show_suite(suite, terminal)


def _show_suite(suite: finished.FinishedSuite, terminal: Terminal) -> int:
    """Says what a run came to, and returns its status."""
    assert suite.summary is not None, "a suite of a run that just ended"
    summary = suite.summary
    terminal.say(cost_line(summary), *time_lines(summary), count_line(summary), use_line(summary))
    terminal.show(cost_table(summary))
    terminal.say(*shortfall_lines(summary))
    spread, digest = suite.spread, suite.digest
    show_spread(spread, terminal)
    if summary.cells:
        terminal.show(coverage_table(summary.cells))
    terminal.say(f"suite      {suite.path}", *([f"digest     {digest}"] if digest else []))
    if summary.variants:
        terminal.say(f"look at it with: {shlex.join(['counterfactory', 'report', str(suite.path)])}")
    terminal.finish(
        {
            "suite": str(suite.path),
            "suite_digest": digest,
            **as_data(summary),
            **coverage_data(summary.cells),
            "edits": spread_data(spread),
            "problems": [asdict(problem) for problem in suite.problems],
            "notes": list(suite.notes),
        }
    )
    return EXIT_SKIPPED if suite.problems or not summary.variants else 0


def plan(args: Namespace, terminal: Terminal) -> int:
    from ..api import verbs
    from . import plan_text as text

    with terminal.callbacks() as calls:
        planned = verbs.plan(args.sources, **calls, **keywords(args, PlanOptions))
    terminal.say(*text.lines(planned.plan))
    show_spread(planned.spread, terminal)
    if args.baseline is not None:
        kept = sum(variant.dropped is None for variant in planned.variants)
        terminal.say(f"baselines  {planned.baselines:,} of {kept:,} variants are drawn by rule as well")
    if planned.cells:
        terminal.show(coverage_table(planned.cells, planned=True))
    terminal.finish(
        {
            **text.as_data(planned.plan),
            "baselines": planned.baselines,
            "cells": [asdict(one) for one in planned.cells],
            "edits": spread_data(planned.spread),
            "notes": list(planned.notes),
        }
    )
    return EXIT_SKIPPED if planned.problems else 0


def estimate(args: Namespace, terminal: Terminal) -> int:
    from ..api import verbs
    from . import estimate_text as text

    if (args.sources is None) == (args.count is None):
        raise CounterfactoryError("estimate takes either SOURCES, a folder or a file, or --sources N, a number of them")
    sources = args.count if args.sources is None else args.sources
    with terminal.callbacks() as calls:
        forecast = verbs.forecast(sources, **calls, **keywords(args, EstimateOptions))
    predicted = forecast.estimate
    terminal.say(*text.cost_lines(predicted))
    terminal.show(text.stage_table(predicted))
    shown: Table | None = None
    for holding in predicted.holdings if predicted.plans else ():
        terminal.say(text.holding_line(holding))
        if holding.timeline is not None:
            table = text.holding_table(predicted, holding)
            terminal.show(*([] if table == shown else [table]))
            shown = table
    terminal.say(*(f"assumed    {note}" for note in predicted.assumptions))
    described = {"outside_world": forecast.outside_world, "notes": list(forecast.notes)}
    terminal.finish({**text.as_data(predicted), **described})
    return EXIT_SKIPPED if forecast.problems else 0


def doctor(args: Namespace, terminal: Terminal) -> int:
    from .doctor import as_data, examine, lines, plan_table

    examination = examine(load_profile(args.profile), named_as=args.profile)
    terminal.say(*lines(examination))
    if examination.plans:
        terminal.show(plan_table(examination))
    terminal.say(f"next       {examination.next}")
    terminal.finish(as_data(examination))
    return 0


def verify(args: Namespace, terminal: Terminal) -> int:
    verification = _verified(finished.open(args.suite), terminal)
    terminal.finish(asdict(verification))
    return 0 if verification.sound else EXIT_BROKEN


def _verified(suite: finished.FinishedSuite, terminal: Terminal) -> Verification:
    """Says what is wrong with a suite's bytes."""
    with terminal.progress() as on_progress:
        verification = suite.verify(on_progress=on_progress)
    terminal.note(*verification.notes)
    terminal.say(*check_text.verified_lines(verification))
    return verification


def check(args: Namespace, terminal: Terminal) -> int:
    suite, rulings = finished.open(args.suite), _rulings(args)
    if args.files and not (verification := _verified(suite, terminal)).sound:
        terminal.finish(asdict(verification))
        return EXIT_BROKEN
    if args.fit is not None:
        return _fit(args, suite, terminal)
    settings = suite.settings(args.profile, dict(args.set))
    if args.sweep is not None:
        return _sweep(args, settings, terminal)
    if args.valid is not None:
        raise CounterfactoryError("--valid says which variants are valid, for --sweep: give that as well")
    least = args.require_coverage
    if least is not None:
        suite.covers(least)  # refuses a suite without values before anything is written
    result = suite.check(settings, rulings)
    terminal.say(*check_text.recheck_lines(result, settings), *hand_note(result.by_hand))
    if (changes := check_text.changes_table(result)) is not None:
        terminal.show(changes)
    if result.cells:
        terminal.show(coverage_table(result.cells))
    whole = _set_quality(args, suite, terminal)
    broken = least is not None and not suite.covers(least)
    if broken:
        terminal.warn(uncovered(suite.cells, least))
    counts = {name: value for name, value in asdict(result).items() if value or name not in ("cells", "by_hand")}
    cells = coverage_data(result.cells)
    terminal.finish({**counts, **cells, "turned": result.turned, "thresholds": settings.thresholds, **whole})
    return EXIT_BROKEN if broken else 0


def _set_quality(args: Namespace, suite: finished.FinishedSuite, terminal: Terminal) -> dict[str, Any]:
    """Says what the set is like as a whole, as far as that is asked for."""
    data = {}
    if args.preprocess is not None and args.fid is None:
        raise CounterfactoryError(
            "--preprocess says how pictures become the input of a model: give it with --fid MODEL"
        )
    if args.fid is not None:
        with terminal.callbacks() as calls:
            fid = suite.fid(args.fid, preprocess=args.preprocess, **calls)
        terminal.say(check_text.fid_line(fid))
        data["fid"] = asdict(fid)
    if args.perplexity:
        perplexity = suite.perplexity()
        terminal.say(check_text.perplexity_line(perplexity))
        data["perplexity"] = asdict(perplexity)
    return data


def _rulings(args: Namespace) -> list[tuple[str, Ruling, str]]:
    """What is to become of single pictures by hand."""
    why = word_ruling(args.by, args.reason)
    rulings = [(picture, one, why) for one in RULINGS for picture in getattr(args, one)]
    if why and not rulings:
        raise CounterfactoryError(
            "--by and --reason say who excludes or accepts pictures, and why: name them by --exclude or --accept"
        )
    if args.verdicts is not None:
        rulings += read_rulings(args.verdicts)
    if rulings and (args.fit is not None or args.sweep is not None):
        raise CounterfactoryError("--sweep and --fit write nothing: give verdicts by hand without them")
    return rulings


def _fit(args: Namespace, suite: finished.FinishedSuite, terminal: Terminal) -> int:
    """Fits the parts of the score "valid"; the suite stays as it is."""
    from ..judging.fit_valid import examples_of, fit_points, fit_valid, fitted_toml

    rows = [row for row in suite.rows if row.kind == "variant"]
    examples = examples_of(rows, load_valid(args.fit, rows))
    fit = fit_valid(examples)
    points = fit_points(fit, examples)
    terminal.show(check_text.fit_table(points, examples))
    terminal.say(*fitted_toml(fit.parts, points[0].limit).splitlines())
    terminal.finish({"points": [asdict(one) for one in points], "parts": [asdict(part) for part in fit.parts]})
    return 0


def _sweep(args: Namespace, settings: CheckSettings, terminal: Terminal) -> int:
    """Draws the thresholds of one check; the suite stays as it is."""
    rows = read_verdicts(args.suite).rows
    valid = load_valid(args.valid, rows) if args.valid is not None else None
    curve = threshold_curve(rows, settings, threshold_named(args.sweep), valid)
    terminal.show(check_text.sweep_table(curve))
    terminal.say(*check_text.sweep_lines(curve))
    terminal.finish(asdict(curve))
    return 0


def evaluate(args: Namespace, terminal: Terminal) -> int:
    if not args.models:
        raise CounterfactoryError("evaluate takes a model: --model MODEL, or its answers: --predictions FILE")
    suite = finished.open(args.suite)
    with terminal.callbacks() as calls:
        model, how, before = _asked(args, suite, calls)
        options = keywords(args, EvaluateOptions) | how
        result = suite.evaluate(model, **calls, **options)
    terminal.note(*(note for one in before for note in one.judged.notes), *result.notes)
    if args.table is not None:
        return _paper(args.table, suite, [*before, result], terminal)
    terminal.show(*evaluation_tables(result.evaluation, args.all))
    terminal.show(*insights_table(result.evaluation.insights, args.all))
    for comparison in result.comparisons:
        terminal.note(comparison_note(comparison))
        terminal.show(*comparison_tables(comparison, args.all))
    terminal.say(*map(finding_line, result.findings))
    outside, count = count_outside(result.judged.rows)
    terminal.finish(
        {
            "suite_digest": suite.digest,
            "notes": list(result.notes),
            "outside_world": {"sources": outside, "of": count},
            **result.evaluation.to_json(),
            "comparisons": [comparison.to_json() for comparison in result.comparisons],
            "limits": [asdict(finding) for finding in result.findings],
        }
    )
    return 0 if result.passed else EXIT_BROKEN


def _asked(
    args: Namespace, suite: finished.FinishedSuite, calls: Mapping[str, Any]
) -> tuple[str | Path, dict[str, Any], list[finished.Result]]:
    """The last model that is named, with what says how to ask it, and the results of those before it."""
    *others, (model, how) = with_words(args)
    before = [suite.evaluate(one, classes=args.classes, **its, **calls) for one, its in others]
    return model, {**how, "against": before}, before


def _paper(name: str, suite: finished.FinishedSuite, results: Sequence[finished.Result], terminal: Terminal) -> int:
    asked = []
    for result in results:
        judged = result.judged
        true = [None if answer is None else answer.true for answer in judged.answers or ()]
        asked.append(ModelResult(judged.name, judged.rows, judged.evaluation, true))
    tables = paper_tables(name, asked)
    terminal.show(*tables)
    terminal.finish({"suite_digest": suite.digest, "tables": [asdict(table) for table in tables]})
    return 0 if results[-1].passed else EXIT_BROKEN


def with_words(args: Namespace) -> list[tuple[str | Path, dict[str, Any]]]:
    """Each model with what says how to ask it: words for all models, or for each its own."""
    models: Sequence[str | Path] = args.models
    run = sum(isinstance(model, str) for model in models)
    each = {}
    for name in ("preprocess", "output"):
        words = getattr(args, name)
        if len(words) > 1 and len(words) != run:
            raise CounterfactoryError(f"--{name} was given {len(words)} times for {run} models: once, or for each")
        each[name] = iter(words if len(words) > 1 else [*words] * run)
    return [
        (model, {name: next(words, None) for name, words in each.items()} | {"fresh": args.fresh})
        if isinstance(model, str)
        else (model, {"preprocess": None, "output": None, "fresh": False})
        for model in models
    ]


def report(args: Namespace, terminal: Terminal) -> int:
    suite, options = finished.open(args.suite), keywords(args, ReportOptions)
    with terminal.callbacks() as calls:
        if args.models:
            options["predictions"], how, _ = _asked(args, suite, calls)
            options |= how
        else:
            Given(None, None, args.preprocess, args.output, args.fresh).require_model()
        files = suite.report(**calls, **options)
    terminal.note(*files.left_out)
    for name, path in (("page", files.page), ("contact sheet", files.sheet), ("figures", files.data)):
        terminal.say(f"{name:<13}  {path}")
    terminal.finish({"page": str(files.page), "sheet": str(files.sheet), "data": str(files.data)})
    return 0
