"""What each command does: a function of arguments and terminal that returns its exit status.

Here files, settings and the journey meet; nothing is computed. What needs the runtime is imported where it is used,
so that `--help` and `report` do not wait for it.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import CounterfactoryError
from ..files.writing import write_whole
from ..inputs import usable_inputs
from ..judging.edit_labels import planned_edits, require_new, write_edits
from ..judging.recheck import recheck, set_thresholds, threshold_named
from ..judging.threshold_curve import load_valid, threshold_curve
from ..profile.check import CheckSettings
from ..profile.paint import protect_classes
from ..profile.profile import load_profile
from ..report.curves import Curve
from ..report.edit_table import spread_data
from ..report.notes import suite_notes
from ..report.table import Table
from ..sources.data_set import refuse_suite_among_sources
from ..sources.source import Problem, Source
from ..suite import PictureRow, Suite, accepted_edits, caution, count_outside, read_metadata, require_finished
from ..suite.recorded import recorded_check, recorded_profile
from ..suite.verdicts import read_verdicts
from ..tasks.label_warnings import label_warnings
from ..tasks.spread import spread_of
from .check_text import changes_table, curve_of, fit_table, recheck_lines, sweep_lines, sweep_table
from .effects_text import evaluation_tables, finding_line, headline, note_lines
from .inputs import inputs_of, read_data, request_of
from .plan_text import show_spread
from .run_text import (
    as_data,
    cost_line,
    cost_table,
    count_line,
    lost_lines,
    shortfall_lines,
    time_lines,
    use_line,
)
from .statuses import EXIT_BROKEN, EXIT_SKIPPED
from .terminal import Terminal


def generate(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory generate`."""
    from ..journey import Journey

    profile = load_profile(args.profile)
    if args.shard is not None:
        profile = replace(profile, shard_sources=args.shard)
    if args.protect is not None:
        profile = replace(profile, protect=protect_classes(args.protect, profile.protect, profile.image.short_side))
    refuse_suite_among_sources(args.sources, args.out)
    data = read_data(args, profile, terminal)
    request = request_of(args, profile, data)
    inputs = inputs_of(args, profile, data, terminal)
    if args.depth is not None and not profile.reads_depth:
        terminal.warn(f"--depth: profile {profile.name} has no hint of kind depth from files, so nothing follows them")
    for warning in label_warnings(request.task, [source.label for source in data.sources]):
        terminal.warn(warning)
    for line in lost_lines(inputs.sources, profile.image):
        terminal.warn(line)
    with Suite.open(args.out) as suite, terminal.progress() as on_progress:
        report = Journey(profile, request).run(inputs, suite, on_progress, args.metrics)
    for problem in report.problems[len(inputs.left_out) :]:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    for unwritten in filter(None, (report.metrics_problem, report.cache_problem)):
        terminal.warn(unwritten)
    _warn_outside(report.outside_world, report.sources, terminal)
    terminal.say(cost_line(report))
    for line in time_lines(report):
        terminal.say(line)
    terminal.say(count_line(report))
    terminal.say(use_line(report))
    terminal.show(cost_table(report))
    for line in shortfall_lines(report):
        terminal.say(line)
    spread = spread_of(accepted_edits(args.out))
    show_spread(spread, request.interventions, terminal)
    terminal.say(f"suite      {args.out}")
    look = shlex.join(["counterfactory", "report", str(args.out)])
    terminal.say(f"look at it with: {look}")
    skipped = [*data.problems, *report.problems]
    terminal.finish(
        {
            "suite": str(args.out),
            **as_data(report),
            "edits": spread_data(spread),
            "problems": [asdict(problem) for problem in skipped],
        }
    )
    return EXIT_SKIPPED if skipped else 0


def plan(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory plan`."""
    from ..journey import Journey
    from . import plan_text as text

    profile = load_profile(args.profile)
    if args.write is not None:
        require_new(args.write)
    data = read_data(args, profile, terminal)
    request = request_of(args, profile, data)
    inputs = inputs_of(args, profile, data, terminal)
    for warning in label_warnings(request.task, [source.label for source in data.sources]):
        terminal.warn(warning)
    first = replace(inputs, sources=inputs.sources[: args.first])
    with TemporaryDirectory() as folder, Suite.open(Path(folder) / "plan") as suite, terminal.progress() as progress:
        planned = Journey(profile, request).plan(first, suite, progress)
    if args.write is not None:
        both = (*planned.rewritten.variants, *planned.rewritten.dropped)
        write_edits(args.write, planned_edits(both, planned.rewritten.scores, profile.check))
    planned_spread = spread_of(edit for variant in planned.rewritten.variants for edit in variant.edits)
    for line in text.lines(planned):
        terminal.say(line)
    show_spread(planned_spread, request.interventions, terminal)
    if planned.cache_problem is not None:
        terminal.warn(planned.cache_problem)
    for problem in planned.problems:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    terminal.finish({**text.as_data(planned), "edits": spread_data(planned_spread)})
    return EXIT_SKIPPED if data.problems or inputs.left_out or planned.problems else 0


def estimate(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory estimate`."""
    from ..estimate.estimate import estimate as predict
    from . import estimate_text as forecast

    profile = load_profile(args.profile)
    if (args.sources is None) == (args.count is None):
        raise CounterfactoryError("estimate takes either SOURCES, a folder or a file, or --sources N, a number of them")
    sources: Sequence[Source] | int
    problems: list[Problem] = []
    outside = 0
    if args.sources is None:
        sources = args.count
    else:
        data = read_data(args, profile, terminal)
        inputs = usable_inputs(profile, data.sources, allow_out_of_domain=args.allow_out_of_domain)
        for problem in inputs.left_out:
            terminal.warn(f"skipped {problem.name}: {problem.reason}")
        sources, outside, problems = inputs.sources, inputs.out_of_domain, [*data.problems, *inputs.left_out]
    asked = None if args.memory is None else round(args.memory * 1e9)
    predicted = predict(profile, sources, args.variants, asked, controls=args.controls)
    for line in forecast.cost_lines(predicted):
        terminal.say(line)
    _warn_outside(outside, predicted.sources, terminal)
    terminal.show(forecast.stage_table(predicted))
    shown: Table | None = None
    for holding in predicted.holdings:
        terminal.say(forecast.holding_line(holding))
        if holding.timeline is None:
            continue
        table = forecast.holding_table(predicted, holding)
        if table != shown:
            terminal.show(table)
        shown = table
    for note in predicted.assumptions:
        terminal.say(f"assumed    {note}")
    terminal.finish({**forecast.as_data(predicted), "outside_world": outside})
    return EXIT_SKIPPED if problems else 0


def _warn_outside(outside: int, sources: int, terminal: Terminal) -> None:
    if (text := caution(outside, sources)) is not None:
        terminal.warn(f"caution    {text}")


def doctor(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory doctor`."""
    from .doctor import as_data, examine, lines, plan_table

    found = examine(load_profile(args.profile), said=args.profile)
    for line in lines(found):
        terminal.say(line)
    terminal.show(plan_table(found))
    terminal.say(f"next       {found.next}")
    terminal.finish(as_data(found))
    return 0


def demo(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory demo`."""
    from .demo import run_demo

    run_demo(args.out, args.sources, args.variants, terminal)
    return 0


def check(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory check`."""
    require_finished(args.suite)
    if args.fit is not None:
        return _fit(args, terminal)
    settings = recorded_check(args.suite) if args.profile is None else load_profile(args.profile).check
    settings = set_thresholds(settings, dict(args.set))
    if args.sweep is not None:
        return _sweep(args, settings, terminal)
    if args.valid is not None:
        raise CounterfactoryError("--valid says which variants are valid, for --sweep: give that as well")
    found = recheck(args.suite, settings)
    for line in recheck_lines(found, settings):
        terminal.say(line)
    changes = changes_table(found)
    if changes is not None:
        terminal.show(changes)
    terminal.finish({**asdict(found), "turned": found.turned, "thresholds": settings.thresholds})
    return 0


def _fit(args: Namespace, terminal: Terminal) -> int:
    """Fits the parts of the score "valid"; the suite stays as it is."""
    from ..judging.fit_valid import examples_of, fit_points, fit_valid, fitted_toml

    rows = [row for row in read_metadata(args.suite) if row.kind == "variant"]
    examples = examples_of(rows, load_valid(args.fit, rows))
    fit = fit_valid(examples)
    points = fit_points(fit, examples)
    terminal.show(fit_table(points, examples))
    for line in fitted_toml(fit.parts, points[0].limit).splitlines():
        terminal.say(line)
    terminal.finish({"points": [asdict(one) for one in points], "parts": [asdict(part) for part in fit.parts]})
    return 0


def _sweep(args: Namespace, settings: CheckSettings, terminal: Terminal) -> int:
    """Draws the thresholds of one check; the suite stays as it is."""
    rows = read_verdicts(args.suite).rows
    valid = load_valid(args.valid, rows) if args.valid is not None else None
    found = threshold_curve(rows, settings, threshold_named(args.sweep), valid)
    terminal.show(sweep_table(found))
    for line in sweep_lines(found):
        terminal.say(line)
    terminal.finish(asdict(found))
    return 0


def evaluate(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory evaluate`."""
    from ..judging.limits import Drop, check_limits, junit_xml
    from .answers import judge

    if args.junit is not None and not args.max_drop and args.fail_under is None:
        raise CounterfactoryError("--junit writes what became of limits: give --max-drop or --fail-under as well")
    rows = read_metadata(args.suite)
    judged = judge(args.predictions, args.classes, args.suite, rows, terminal)
    findings = check_limits(judged.evaluation, [Drop(*drop) for drop in args.max_drop], args.fail_under)
    notes = [*suite_notes(rows), *note_lines(judged.evaluation)]
    for note in notes:
        terminal.say(note)
    for table in evaluation_tables(judged.evaluation, args.all):
        terminal.show(table)
    for finding in findings:
        terminal.say(finding_line(finding))
    if args.failures is not None:
        write_whole(args.failures, judged.failures(), sync="nothing")
    if args.junit is not None:
        write_whole(args.junit, junit_xml(args.suite.resolve().name, findings), sync="nothing")
    limits = [asdict(finding) for finding in findings]
    outside, count = count_outside(rows)
    terminal.finish(
        {
            "notes": notes,
            "outside_world": {"sources": outside, "of": count},
            **judged.evaluation.to_json(),
            "limits": limits,
        }
    )
    return EXIT_BROKEN if any(finding.outcome == "broken" for finding in findings) else 0


def report(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory report`."""
    from ..report.album import Answer, mark_answers
    from ..report.folder import describe_suite, write_report
    from ..report.outlines import edge_detector
    from .answers import judge

    rows = read_metadata(args.suite)
    answers: dict[str, Answer] = {}
    classes = _legend(args, rows, terminal)
    text = replace(describe_suite(rows, classes=classes), curves=_curves(args))
    if args.predictions is not None:
        judged = judge(args.predictions, args.classes, args.suite, rows, terminal)
        if judged.answers is not None:
            answers = mark_answers(rows, [None if answer is None else answer.label for answer in judged.answers])
        rows = judged.scored_rows()
        text = describe_suite(
            rows,
            evaluation_tables(judged.evaluation),
            figures=(headline(judged.evaluation),),
            remarks=tuple(note_lines(judged.evaluation)),
            classes=classes,
        )
    edges = None
    if not args.no_edges:
        edges = edge_detector(recorded_profile(args.suite) if args.profile is None else load_profile(args.profile))
    files = write_report(
        args.out or args.suite / "report",
        rows,
        args.suite,
        text,
        edges=edges,
        answers=answers,
        limit=args.limit,
    )
    terminal.say(f"page           {files.page}")
    terminal.say(f"contact sheet  {files.sheet}")
    terminal.finish({"page": str(files.page), "sheet": str(files.sheet)})
    return 0


def _curves(args: Namespace) -> tuple[Curve, ...]:
    """What each threshold of the suite would let pass; none where its record does not say by which it is judged."""
    try:
        settings = recorded_check(args.suite)
    except CounterfactoryError:
        if args.valid is not None:
            raise
        return ()
    scored = read_verdicts(args.suite).rows
    valid = load_valid(args.valid, scored) if args.valid is not None else None
    there = {score for row in scored for score in row.scores}
    names = [name for name in settings.strict if name.partition("_")[2] in there]
    return tuple(curve_of(threshold_curve(scored, settings, name, valid)) for name in names)


def _legend(args: Namespace, rows: Sequence[PictureRow], terminal: Terminal) -> list[str]:
    """The names of what masks hold, as far as they are known: a page does without them."""
    from .answers import class_names

    if all(row.mask is None for row in rows):
        return []
    try:
        return class_names(args.classes, args.suite) or []
    except CounterfactoryError as error:
        if args.classes is not None:
            raise
        terminal.warn(f"masks are shown without their classes' names: {error}")
        return []
