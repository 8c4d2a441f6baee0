"""What each command does: a function of arguments and terminal that returns the number of skipped sources.

Here files, settings and the journey meet; nothing is computed. What needs the runtime is imported where it is used,
so that `--help` and `report` do not wait for it.
"""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..config.profile import Profile, load_profile
from ..errors import CounterfactoryError
from ..judging.evaluate import evaluate_labels
from ..judging.predictions import load_predictions, match
from ..report.table import Table
from ..sources.source import Problem, Source, find_sources
from ..stages.check import CheckSettings, verdict
from ..stages.edges import edge_maps
from ..suite import Suite, VariantRow, read_metadata
from ..suite.metadata import FILE as METADATA
from ..tasks.interventions import load_interventions
from ..tasks.task import Task, builtin_task, load_task
from .run_text import as_data, cost_line, cost_table, count_line, evaluation_table, shortfall_lines, use_line
from .terminal import Terminal

_POCKET_SIZE = (128, 128)


def generate(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory generate`."""
    from ..journey import Journey, JourneySettings

    profile = load_profile(args.profile)
    if args.shard is not None:
        profile = replace(profile, shard_sources=args.shard)
    settings = JourneySettings(
        task=_task(args),
        variants=args.variants,
        edits=args.edits,
        seed=args.seed,
        interventions=None if args.interventions is None else load_interventions(args.interventions),
    )
    _keep_apart(args.sources, args.out)
    sources, problems = _usable(args, terminal)
    _mention_street_world(profile, sources, terminal)
    with Suite.open(args.out) as suite, terminal.progress() as on_progress:
        report = Journey(profile, settings).run(sources, suite, on_progress, args.metrics)
    for problem in report.problems:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    if report.metrics_problem:
        terminal.warn(report.metrics_problem)
    terminal.say(cost_line(report))
    terminal.say(count_line(report))
    terminal.say(use_line(report))
    terminal.show(cost_table(report))
    for line in shortfall_lines(report):
        terminal.say(line)
    terminal.say(f"suite      {args.out}")
    look = shlex.join(["counterfactory", "report", str(args.out), "--sources", str(args.sources)])
    terminal.say(f"look at it with: {look}")
    skipped = [*problems, *report.problems]
    terminal.finish({"suite": str(args.out), **as_data(report), "problems": [asdict(problem) for problem in skipped]})
    return len(skipped)


def _task(args: Namespace) -> Task:
    return load_task(args.task_file) if args.task_file is not None else builtin_task(args.task or "classification")


def _keep_apart(sources: Path, suite: Path) -> None:
    """A suite among its own sources would be read as sources the next time."""
    if sources.is_dir() and suite.resolve().is_relative_to(sources.resolve()):
        raise CounterfactoryError(f"the suite {suite} would lie among its sources in {sources}; name a folder outside")


def _usable(args: Namespace, terminal: Terminal) -> tuple[list[Source], list[Problem]]:
    """The sources that the command line names, up to its limit; there is at least one."""
    sources, problems = _read(args.sources, terminal, labels=args.labels, masks=args.masks)
    if not sources:
        raise CounterfactoryError(f"none of the {len(problems)} images in {args.sources} can be used")
    return sources[: args.limit], problems


def _read(
    root: Path, terminal: Terminal, labels: Path | None = None, masks: Path | None = None
) -> tuple[list[Source], list[Problem]]:
    """The sources below `root`; tells of each that cannot be used."""
    from ..journey import Progress

    with terminal.progress() as on_progress:
        sources, problems = find_sources(
            root, labels=labels, masks=masks, on_progress=lambda done, total: on_progress(Progress("read", done, total))
        )
    for problem in problems:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    return sources, problems


def _mention_street_world(profile: Profile, sources: Sequence[Source], terminal: Terminal) -> None:
    """Scenes of the street world are 128 x 128; whatever is not, it did not render."""
    if profile.models.folder == "pocket" and any(_size(source.path) != _POCKET_SIZE for source in sources[:100]):
        terminal.warn(
            "the pocket models know rendered streets only: photographs will be painted as streets; "
            "use a full-size profile for photographs"
        )


def _size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


def estimate(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory estimate`."""
    from ..estimate.estimate import estimate as predict
    from . import estimate_text as forecast

    profile = load_profile(args.profile)
    if (args.sources is None) == (args.count is None):
        raise CounterfactoryError("estimate takes either SOURCES, a folder or a file, or --sources N, a number of them")
    sources: Sequence[Source] | int
    sources, problems = (args.count, []) if args.sources is None else _usable(args, terminal)
    asked = None if args.memory is None else round(args.memory * 1e9)
    predicted = predict(profile, sources, args.variants, asked)
    for line in forecast.cost_lines(predicted):
        terminal.say(line)
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
    terminal.finish(forecast.as_data(predicted))
    return len(problems)


def doctor(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory doctor`."""
    from .doctor import as_data, examine, lines, plan_table

    found = examine(load_profile(args.profile))
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
    settings = _thresholds(load_profile(args.profile).check, args)
    if not (args.suite / METADATA).is_file():
        read_metadata(args.suite)  # says what is wrong, and no lock is left in a folder that is no suite
    with Suite.open(args.suite) as suite:
        rows = read_metadata(args.suite)
        judged = [replace(row, reason=_reason(row, settings)) for row in rows]
        before, after = (sum(row.accepted for row in some) for some in (rows, judged))
        suite.write_metadata(judged)
        _record_verdicts(suite, settings, after, len(rows) - after)
    terminal.say(
        f"{after} of {len(rows)} variants accepted (before: {before}), by "
        f"min_image_text {settings.min_image_text:g}, min_directional {settings.min_directional:g} and "
        f"min_image_image {settings.min_image_image:g}"
    )
    terminal.finish(
        {
            "variants": len(rows),
            "accepted": after,
            "accepted_before": before,
            **asdict(settings),
        }
    )
    return 0


def _reason(row: VariantRow, settings: CheckSettings) -> str | None:
    """Why the row is rejected, from its stored scores."""

    if not row.scores:
        raise CounterfactoryError(f"{row.file_name} was never scored; run `counterfactory generate` again")
    return verdict(row.scores, settings)


def _thresholds(settings: CheckSettings, args: Namespace) -> CheckSettings:
    if args.min_image_text is not None:
        settings = replace(settings, min_image_text=args.min_image_text)
    if args.min_directional is not None:
        settings = replace(settings, min_directional=args.min_directional)
    if args.min_image_image is not None:
        settings = replace(settings, min_image_image=args.min_image_image)
    return settings


def _record_verdicts(suite: Suite, settings: CheckSettings, accepted: int, rejected: int) -> None:
    """Bring run.json to the new verdicts; a suite that lost it has no costs to correct."""
    path = suite.path / "run.json"
    if not path.is_file():
        return
    run = json.loads(path.read_text(encoding="utf-8"))
    costs = run["costs"]
    device_hours = costs["devices"] * costs["wall_s"] / 3.6 / accepted if accepted else None
    run["costs"] = {**costs, "accepted": accepted, "rejected": rejected, "device_hours_per_1k_accepted": device_hours}
    run["profile"]["check"] = asdict(settings)
    suite.write_run(run)


def evaluate(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory evaluate`."""
    rows = read_metadata(args.suite)
    evaluation = evaluate_labels(rows, *match(load_predictions(args.predictions), rows))
    terminal.show(evaluation_table(evaluation))
    if evaluation.excluded:
        terminal.say(f"{evaluation.excluded} rejected variants are not counted")
    terminal.finish(evaluation.to_json())
    return 0


def report(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory report`."""
    from ..report.album import mark_answers
    from ..report.folder import ReportText, write_report

    rows = read_metadata(args.suite)
    if not rows:
        raise CounterfactoryError(f"{args.suite} holds no variant to show")
    profile = load_profile(args.profile)
    sources, problems = ([], []) if args.sources is None else _read(args.sources, terminal)
    answers: tuple[list[str], dict[str, tuple[str, str]]] = ([], {})
    tables: tuple[Table, ...] = ()
    if args.predictions is not None:
        answers = match(load_predictions(args.predictions), rows)
        tables = (evaluation_table(evaluate_labels(rows, *answers)),)
    accepted = sum(row.accepted for row in rows)
    names = len({row.source for row in rows})
    files = write_report(
        args.out or args.suite / "report",
        rows,
        args.suite,
        ReportText(
            title="A counterfactual suite",
            subtitle=f"{names} sources, {len(rows)} variants, {accepted} accepted.",
            figures=(("sources", str(names)), ("variants accepted", f"{accepted} of {len(rows)}")),
            tables=tables,
        ),
        sources=sources,
        image=profile.image,
        edges=_edges_of(profile),
        answers=mark_answers(rows, *answers),
        limit=args.limit,
    )
    terminal.say(f"page           {files.page}")
    terminal.say(f"contact sheet  {files.sheet}")
    terminal.finish({"page": str(files.page), "sheet": str(files.sheet)})
    return len(problems)


def _edges_of(profile: Profile) -> Callable[[NDArray[np.uint8]], NDArray[np.uint8]]:
    """What draws the edges of pictures uint8 [B, H, W, 3], as uint8 [B, H, W], by the profile's detector."""
    if profile.edges.hed is None:
        return partial(edge_maps, settings=profile.edges)
    from ..config.networks import library_of
    from ..meter.meter import Meter
    from ..models.opened import Opened

    models = Opened(library_of(profile), Meter(lambda _: None))

    def drawn(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        try:
            return edge_maps(images, profile.edges, models.hed(*images.shape[1:3]))
        except CounterfactoryError as error:
            raise CounterfactoryError(
                f"the edges of {profile.name} are found by the network hed: {error}; report on the box that has it, or "
                "leave out --sources"
            ) from error

    return drawn
