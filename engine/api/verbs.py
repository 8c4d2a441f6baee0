"""The verbs that make suites or look ahead, which the command line calls too: keywords in, what was made out.

Nothing here knows a terminal: progress and warnings go to the caller's callbacks. Those that judge a suite are in
`finished`: they do without what makes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from os import fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack, cast

from ..errors import CounterfactoryError
from ..estimate.estimate import Estimate, least_accepted
from ..estimate.estimate import estimate as predict
from ..inputs import usable_inputs
from ..journey import Elsewhere, Journey
from ..judging.edit_labels import planned_edits, require_new, write_edits
from ..light.menu import MENU
from ..profile.paint import protect_classes
from ..profile.profile import Profile
from ..report.suite_text import skew_notes, uncovered
from ..sources.data_set import refuse_suite_among_sources
from ..stages.paint.draw_baselines import has_baseline
from ..suite import Suite, caution
from ..suite.status import listing
from ..tasks.spread import TypeSpread
from ..tasks.user_task import Interventions
from .finished import FinishedSuite
from .options import (
    AnyPath,
    Caller,
    EstimateOptions,
    GenerateOptions,
    ImportOptions,
    OnProgress,
    PlanOptions,
    Warn,
    bytes_in,
    names_in,
    path_or_none,
    require_known,
    share_or_none,
)
from .planned import EditPlan, Forecast
from .read_inputs import Asked, baseline_of, controls_of, profile_of, read_data, read_pairs, read_request, warn_of

# What a feather is measured by where pictures keep their own sizes, in pixels.
_USUAL_SIDE = 512

# Pictures that an estimate reads whole.
_READ = 1000


def generate(
    sources: AnyPath,
    *,
    out: AnyPath,
    on_progress: OnProgress | None = None,
    warn: Warn | None = None,
    **options: Unpack[GenerateOptions],
) -> FinishedSuite:
    """Make a suite of your images in the folder `out`; called again, it goes on where it was.

    `sources` is a folder of images, a table, or a data set in a layout of docs/data.md; `options` are those of
    `GenerateOptions`. `on_progress` is called with each stage's progress, `warn` with sentences (Python's warnings
    without it). Raises CounterfactoryError, in one sentence, for what stops the run; what was done by then is kept.
    """
    require_known("generate", options, GenerateOptions)
    caller, suite_path = Caller.of(on_progress, warn), Path(out)
    refuse_suite_among_sources(Path(sources), suite_path)
    least = share_or_none("require_coverage", options.get("require_coverage"))
    if options.get("ray") is not None:  # whose workers stand in other folders
        paths: Any = {name: options.get(name) for name in ("masks", "depth", "parts")}
        paths = {name: _from_anywhere(path) for name, path in paths.items() if path is not None}
        options |= paths
        sources = _from_anywhere(sources)
    with listing(suite_path):
        asked = read_request(sources, options, caller, lambda profile: _with_options(profile, options))
    if least is not None and asked.request.interventions is None:
        raise CounterfactoryError("--require-coverage counts the values that you name: give --interventions as well")
    metrics = path_or_none(options.get("metrics"))
    boxes, log = _boxes(options, caller), path_or_none(options.get("shard_log"))
    least_share = None if options.get("anyway", False) else least_accepted(asked.profile)
    journey = Journey(asked.profile, asked.request, least_share, boxes, log)
    finished = _make(asked, journey, suite_path, metrics, caller)
    if least is not None and not finished.covers(least):
        caller.warn(uncovered(finished.cells, least))
    caller.warn_all(one_sided(finished.spread, asked.request.interventions, by_rule=asked.profile.by_rule))
    return finished


def import_pairs(
    pairs: AnyPath,
    *,
    out: AnyPath,
    on_progress: OnProgress | None = None,
    warn: Warn | None = None,
    **options: Unpack[ImportOptions],
) -> FinishedSuite:
    """Make a suite of pictures that are edited already in the folder `out`; called again, it takes anew what changed.

    `pairs` is a table with the columns `original` and `edited`, or a folder with originals/ and edited/; `options` are
    those of `ImportOptions`. The callbacks and errors are as for `generate`.
    """
    require_known("import_pairs", options, ImportOptions)
    caller, suite_path = Caller.of(on_progress, warn), Path(out)
    refuse_suite_among_sources(Path(pairs), suite_path)
    given = cast("GenerateOptions", options)  # of which it has some
    with listing(suite_path):
        asked = read_pairs(pairs, given, caller, lambda profile: _with_options(profile, given))
    metrics = path_or_none(options.get("metrics"))
    return _make(asked, Journey(asked.profile, asked.request), suite_path, metrics, caller)


def _from_anywhere(path: AnyPath) -> AnyPath:
    """A path as it is from any folder; addresses, and sets of the hub, as they are."""
    return path if re.match("hf:|[a-z0-9+]+://", fspath(path)) else Path(path).absolute()


def _boxes(options: GenerateOptions, caller: Caller) -> Elsewhere | None:
    """The boxes that options name for the shards; None where they name none."""
    address, workers, parts = options.get("ray"), options.get("workers"), options.get("parts")
    if address is None:
        if workers is not None or parts is not None:
            raise CounterfactoryError(
                "--workers and --parts say how boxes of a cluster work: give --ray ADDRESS as well"
            )
        return None
    from ..cluster.ray_boxes import RayBoxes  # few runs have it, or Ray

    return RayBoxes(address, caller.warn, workers, None if parts is None else fspath(parts))


def _make(asked: Asked, journey: Journey, suite_path: Path, metrics: Path | None, caller: Caller) -> FinishedSuite:
    """Make a suite, and say what a person should know of it."""
    with Suite.open(suite_path) as suite:
        summary = journey.run(asked.inputs, suite, caller.on_progress, metrics)
        if denied := suite.ledger.denied:
            caller.warn(f"{denied:,} rows of the ledger were not as they were written, and were made again")
    caller.warn_skipped(summary.problems[len(asked.inputs.left_out) :])
    if not summary.variants:
        reason = summary.shortfalls[0].reason if summary.shortfalls else "no source could be used"
        caller.warn(f"no variant was made: {reason}")
    caller.warn_all(filter(None, (summary.metrics_problem, summary.cache_problem)))
    _warn_outside(summary.outside_world, summary.sources, caller)
    problems = (*asked.data.problems, *summary.problems)
    return FinishedSuite(suite_path, summary, problems, asked.data.all_notes)


def _with_options(profile: Profile, options: GenerateOptions) -> Profile:
    """The profile with what the caller says of it."""
    shard, protected = options.get("shard"), options.get("protect")
    if shard is not None:
        profile = replace(profile, shard_sources=shard)
    if protected is not None:
        classes, short_side = names_in(protected), profile.image.short_side or _USUAL_SIDE
        profile = replace(profile, protect=protect_classes(classes, profile.protect, short_side))
    return profile


def plan(
    sources: AnyPath, *, on_progress: OnProgress | None = None, warn: Warn | None = None, **options: Unpack[PlanOptions]
) -> EditPlan:
    """Show what would be changed of the first sources: captions and edits; nothing is painted.

    `sources`, the callbacks and errors are as for `generate`, `options` those of `PlanOptions`.
    """
    require_known("plan", options, PlanOptions)
    caller, write = Caller.of(on_progress, warn), path_or_none(options.get("write"))
    if write is not None:
        require_new(write)
    asked = read_request(sources, options, caller)
    first = replace(asked.inputs, sources=asked.inputs.sources[: options.get("first", 5)])
    with TemporaryDirectory() as folder, Suite.open(Path(folder) / "plan") as suite:
        planned = Journey(asked.profile, asked.request).plan(first, suite, caller.on_progress)
    if write is not None:
        both = (*planned.rewritten.variants, *planned.rewritten.dropped)
        write_edits(write, planned_edits(both, planned.rewritten.scores, asked.profile.check))
    if planned.cache_problem is not None:
        caller.warn(planned.cache_problem)
    caller.warn_skipped(planned.problems)
    problems = (*asked.data.problems, *asked.inputs.left_out, *planned.problems)
    baselines = sum(has_baseline(asked.request, variant) for variant in planned.rewritten.variants)
    plan = EditPlan(planned, problems, asked.data.all_notes, baselines)
    caller.warn_all(one_sided(plan.spread, asked.request.interventions, by_rule=asked.profile.by_rule))
    return plan


def estimate(
    sources: AnyPath | int,
    *,
    on_progress: OnProgress | None = None,
    warn: Warn | None = None,
    **options: Unpack[EstimateOptions],
) -> Estimate:
    """Predict a run's time and cost, and what would be in memory when, of `sources` as for `generate`, or of so many.

    The callbacks and errors are as for `generate`, `options` those of `EstimateOptions`.
    """
    return forecast(sources, on_progress=on_progress, warn=warn, **options).estimate


def forecast(
    sources: AnyPath | int,
    *,
    on_progress: OnProgress | None = None,
    warn: Warn | None = None,
    **options: Unpack[EstimateOptions],
) -> Forecast:
    """As `estimate`, with the sources that cannot be used."""
    require_known("estimate", options, EstimateOptions)
    caller = Caller.of(on_progress, warn)
    variants = options.get("variants", 5)
    memory_bytes = bytes_in(options.get("memory"))
    if isinstance(sources, int):
        if sources < 1:
            raise CounterfactoryError(f"estimate: a number of sources is needed, got {sources}")
        profile = profile_of(options)
        baseline, controls = baseline_of(profile, options) is not None, controls_of(profile, options, caller)
        return Forecast(predict(profile, sources, variants, memory_bytes, controls=controls, baseline=baseline))
    profile, data = read_data(sources, options, caller, _READ)
    baseline, controls = baseline_of(profile, options) is not None, controls_of(profile, options, caller)
    inputs = usable_inputs(profile, data.sources, allow_out_of_domain=options.get("allow_out_of_domain", False))
    warn_of(inputs, caller)
    predicted = predict(profile, inputs.sources, variants, memory_bytes, controls=controls, baseline=baseline)
    _warn_outside(inputs.out_of_domain, predicted.sources, caller)
    return Forecast(predicted, (*data.problems, *inputs.left_out), inputs.out_of_domain, data.all_notes)


def one_sided(spread: Iterable[TypeSpread], allowed: Interventions | None, *, by_rule: bool = False) -> list[str]:
    """A sentence for each type of edit that is nearly always the same, unless only one value of it was allowed, or is
    on the menu of a painter that edits by rule.
    """
    values = allowed.axes if allowed is not None else MENU.items() if by_rule else ()
    return skew_notes(spread, [type_ for type_, of_type in values if len(of_type) == 1])


def _warn_outside(outside: int, sources: int, caller: Caller) -> None:
    if (text := caution(outside, sources)) is not None:
        caller.warn(f"caution    {text}")
