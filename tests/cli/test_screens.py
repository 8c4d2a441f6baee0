"""What a person reads at 80 columns, letter by letter: tests/cli/screens/ holds the text of each screen.

Where a screen is meant to change, `PYTHONPATH=tests python tests/cli/test_screens.py` writes all anew: read the diff.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_summary import report, stage

from counterfactory.engine.cli import check_text, doctor, edits, estimate_text, run_text, values
from counterfactory.engine.cli.arguments import build_parser, main
from counterfactory.engine.cli.gpus import Gpu
from counterfactory.engine.cli.review_text import results_tables
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.estimate.estimate import Estimate, Holding, PlanEstimate, StageEstimate
from counterfactory.engine.judging.edit_labels import Success
from counterfactory.engine.judging.fit_valid import Example
from counterfactory.engine.judging.recheck import CheckCounts, Recheck
from counterfactory.engine.judging.threshold_curve import Point, ThresholdCurve
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.table import Table
from counterfactory.engine.review.agreement import Share
from counterfactory.engine.review.careless import RaterRecord
from counterfactory.engine.review.study_results import (
    CorrectedError,
    GateResult,
    QuestionResult,
    StudyResults,
    Validity,
)
from counterfactory.engine.schedule.residency import PlanCost, Residency
from counterfactory.engine.sources.listing import Problem
from counterfactory.engine.suite.run_record import SuiteCosts
from counterfactory.engine.suite.verify import Fault, Verification

SCREENS = Path(__file__).with_name("screens")
COMMANDS = (
    *("demo", "generate", "import", "plan", "estimate", "doctor", "setup", "rehearse", "check", "verify", "evaluate"),
    *("report", "edits", "review", "retrain", "predicts", "merge", "split", "pack", "status"),
)


def screen(*parts: Table | str | list[str] | None) -> str:
    """Lines and tables as the terminal shows them."""
    out = io.StringIO()
    terminal = Terminal(out=Console(file=out, width=80, highlight=False))
    for part in parts:
        if isinstance(part, Table):
            terminal.show(part)
        else:
            for line in [part] if isinstance(part, str) else part or []:
                terminal.say(line)
    return out.getvalue()


def help_of(*command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return out.getvalue()


def run_screen() -> str:
    stages = (
        stage("caption", 0.5, 1.3, 0.2, items_per_s=12.0, rows=72, fill=0.75, generated_tokens=288),
        stage("rewrite", 0.1, 1000, 0.4, items_per_s=6.857, rows=123_456, prompt_tokens=54_321, generated_tokens=7000),
    )
    problems = tuple(Problem(f"bus/{i}", "no words") for i in range(7))
    first = report(*stages, wall_s=1003.0, dropped=3, reused=2, shortfalls=problems, energy_j=1e4)
    twice = report(*stages, suite=SuiteCosts(2, {"GPU": 0.1, "core": 0.6}, 7_200.0, None, ()), device="GPU")
    parts: list[Any] = []
    for summary in (first, twice, report(accepted=0, peak_memory_bytes=0, variants=0, sources=0)):
        lines = (run_text.cost_line, run_text.count_line, run_text.use_line)
        parts += [line(summary) for line in lines] + [run_text.time_lines(summary), run_text.cost_table(summary)]
        parts.append(run_text.shortfall_lines(summary))
    return screen(*parts)


def forecast() -> Estimate:
    stages = (
        StageEstimate("caption", 1, 2.0, 0.0, 1.5, "measured"),
        StageEstimate("paint", 12_000, 1234.5, 6.7, 2.0, "roofline"),
    )
    costs = [PlanCost("a", 4 * 10**9, 1.0), PlanCost("b", 4 * 10**9, 2.5), PlanCost("c", 4 * 10**9, 1.0)]
    needs = {"caption": ("a", "b"), "paint": ("c", "b")}
    plans = tuple(PlanEstimate(cost, cost.name == "a", cost.name != "b") for cost in costs)
    alternating = Residency({name: (name,) for name in "abc"}, costs, 8 * 10**9)
    holdings = (
        Holding(10**10, Residency(needs, costs, 9 * 10**9).timeline(3)),
        Holding(9 * 10**9, alternating.timeline(100)),
        Holding(24 * 10**9, Residency(needs, costs, 20 * 10**9).timeline(1)),
        Holding(10**9, None, "stage caption needs a, b"),
    )
    sizes: dict[str, Any] = {"sources": 1, "variants": 12_000, "controls": 1, "devices": 2, "device": "core"}
    sizes["disk_bytes"] = 2_345_678_901
    return Estimate(**sizes, stages=stages, plans=plans, holdings=holdings, accepted_share=0.8, accepted_measured=True,
                    share=None, size=(128, 256), peak_flops=1.234e12, assumptions=())  # fmt: skip


def estimate_screen() -> str:
    first = forecast()
    gpu = replace(first, device="GPU", devices=1, share=0.3, accepted_measured=False, peak_flops=None, controls=0)
    drawn = StageEstimate("baseline", 12_000, 345.6, 0.0, 0.0, "assumed")
    known = replace(first, stages=(first.stages[0], drawn), accepted_share=None, peak_flops=None, sources=2,
                    baselines=12_000)  # fmt: skip
    parts: list[Any] = []
    for one in (first, gpu, known):
        parts += [estimate_text.cost_lines(one), estimate_text.stage_table(one)]
    for holding in first.holdings:
        parts.append(estimate_text.holding_line(holding))
        if holding.timeline is not None:
            parts.append(estimate_text.holding_table(first, holding))
    return screen(*parts)


def check_screen() -> str:
    points = (Point(0.25, 12, 6, 3, 1.0), Point(0.45, 7, 4, 3, 0.75), Point(0.9, 1, 0, 0, None))
    judged, settings = ThresholdCurve("min_edit", 0.45, 12, 6, 4, points), load_profile("pocket").check
    counts = (CheckCounts("edit", 1200, 34, 0, 1166), CheckCounts("layout", 0, 5, 5, 0))
    recheck = Recheck(2000, 1500, 339, 12, 11, 12, counts)
    examples = [Example({"edit": 0.5}, "bus/1", ("weather",), valid) for valid in (True, True, False)]
    return screen(
        check_text.recheck_lines(recheck, settings),
        check_text.changes_table(recheck),
        check_text.recheck_lines(Recheck(4, 4, 4), replace(settings, least={}, most={})),
        check_text.changes_table(Recheck(4, 4, 4)),
        check_text.sweep_table(judged),
        check_text.sweep_lines(judged),
        check_text.sweep_table(replace(judged, judged=0)),
        check_text.sweep_lines(replace(judged, judged=0)),
        check_text.fit_table(points, examples),
    )


def verify_screen() -> str:
    faults = (
        Fault(
            "images/bus/1/0123456789abcdef.png", "is not as it was written", "the `counterfactory generate` makes it"
        ),
        Fault("run.json", "is not as it was written, by its own digest: move it out of the folder", ""),
    )
    sound = Verification(125_000, 2_345_678_901, "0123456789abcdef" * 4, (), ())
    return screen(
        check_text.verified_lines(sound), check_text.verified_lines(replace(sound, faults=faults, digest=None))
    )


def edits_screen() -> str:
    return screen(
        edits.success_table({"weather": Success(40, 38, 39, 30, 29, 20, 19), "time": Success(1, 0, 1, 0, 0, 0, 0)})
    )


def review_screen() -> str:
    some, none = Share(0.827, 0.739, 0.896, 300), Share(None, None, None, 0)
    validity = (
        Validity("all", "all", 320, 12, 8, some, replace(some, value=0.81, count=312)),
        Validity("model", "misclassified", 2, 0, 2, none, none),
        *(Validity("value", f"weather: {n}", 1, 0, 0, replace(none, value=1.0, count=1), some) for n in "abcdefghi"),
        Validity("class", "bus", 9, 3, 0, some, some),
    )  # fmt: skip
    asked = (
        QuestionResult("label", 1500, 12, some, 0.743, False),
        QuestionResult("realism", 1500, 0, Share(3.4, 3.26, 3.55, 300), None, True),
    )
    raters = (
        RaterRecord("zoe", 300, 20, 30, False, 12.34, 1.26),
        RaterRecord("anna", 30, 0, 0, False, -0.5, 0.0),
    )
    corrected = CorrectedError(0.4703, 1000, some, replace(some, value=1.0), some.times(0.4703))
    results = StudyResults((), validity, asked, raters, (), GateResult(some, some), corrected, 0)
    short = replace(results, gate=GateResult(none, None), corrected=None, validity=validity[:1])
    return screen(*results_tables(results), *results_tables(short)[:2])


def doctor_screen() -> str:
    gpu = Gpu("NVIDIA A10G", "8.6", 24 * 10**9, 23 * 10**9, "580.65.06")
    plans = (doctor.PlanCheck("unet", "found"), doctor.PlanCheck("clip_text", "missing", "no such file"))
    packages = {"tensorrt-cu12": "10.0", "triton": None}
    cache = doctor.Cache(Path("/home/me/my cache"), 2_600_000, 10**9, "nobody may write")
    one = doctor.Examination("a10g", "Zen", 32 * 10**9, 90 * 10**9, (gpu,), doctor.Runtime("tensorrt, f16", "too old"),
                             packages, ("driver 1 is older",), plans, Path("/models"), cache)  # fmt: skip
    none = replace(one, gpus=(), faults=(), runtime=doctor.Runtime("openvino, bf16"), cache=doctor.Cache(None))
    empty = replace(none, cache=replace(cache, bytes=0, fault=""))
    return screen(*(part for box in (one, none, empty) for part in (doctor.lines(box), doctor.plan_table(box))))


def values_screen() -> str:
    """What values of options become, or why they are none."""
    asked: tuple[tuple[Callable[[str], object], str], ...] = (
        (values.positive, f"1 12 0 -1 1.5 x {40 * '9'} {41 * '9'}"),
        (values.count, "0 7 999999999 1000000000 -1"),
        (values.words, "red red,blue don't x-ray two_words a,, 1"),
        (values.names, "bus bus,car bus,, ,"),
        (values.gigabytes, "0.001 24 1000000 0.0009 1000001 nan lots"),
        (values.setting, "check.edit=0.5 check.edit check.edit= =1 check.edit=inf check.edit=much a=b=1"),
        (values.percent, "0 12.5 100% 100.1 -1 nan x"),
        (values.drop, "weather=5 weather=100% =5 weather weather=101 a=b=1"),
        (values.place, "a/b s3://bucket/a"),
        (values.share, "0 1 0.5 50% 100% 1.01 101% -1 x"),
        (values.seed, "0 9223372036854775807 9223372036854775808 -1 x"),
        (values.span, "2 1..3 3..3 0 3..1 1..0 x 1.. ..2"),
    )
    lines = []
    for kind, texts in asked:
        for text in texts.split(" "):
            try:
                lines.append(f"{kind.__name__} {text}: {kind(text)!r}")
            except argparse.ArgumentTypeError as error:
                lines.append(f"{kind.__name__} {text}: {error}")
    return "\n".join(lines) + "\n"


def options_screen() -> str:
    """Each command's options as they are read: what they are called in the program, their type, default and choices."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    lines = []
    for name, parser in commands.choices.items():
        for action in parser._actions:
            kind = getattr(action.type, "__name__", "-")
            words = " ".join(action.option_strings) or action.dest
            facts = (action.dest, kind, action.default, action.choices, action.required, type(action).__name__)
            lines.append(f"{name} {words}: {' '.join(map(str, facts))}")
    return "\n".join(lines) + "\n"


DRAWN: dict[str, Callable[[], str]] = {
    "help": help_of,
    **{f"help-{command}": lambda command=command: help_of(command) for command in COMMANDS},  # type: ignore[misc]
    "run": run_screen,
    "estimate": estimate_screen,
    "check": check_screen,
    "verify": verify_screen,
    "edits": edits_screen,
    "review": review_screen,
    "doctor": doctor_screen,
    "values": values_screen,
    "options": options_screen,
}


@contextlib.contextmanager
def eighty_columns() -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


@pytest.mark.parametrize("name", DRAWN)
def test_a_screen_reads_as_it_was_read(name: str) -> None:
    with eighty_columns():
        text = DRAWN[name]()
    assert text == (SCREENS / f"{name}.txt").read_text(encoding="utf-8")
    assert not name.startswith("help") or max(map(len, text.splitlines())) <= 80


if __name__ == "__main__":
    with eighty_columns():
        for file, draw in DRAWN.items():
            (SCREENS / f"{file}.txt").write_text(draw(), encoding="utf-8")
