"""What the commands for many boxes do."""

from __future__ import annotations

import platform
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..api.options import OnProgress
from ..cluster.merging import merge_suites, split_suite
from ..cluster.packing import pack_suite
from ..files.reading import read_text
from ..meter.meter import Progress
from ..suite import RunRecord
from ..suite.contents import suite_digest
from ..suite.metadata import open_table
from ..suite.status import Health, RunStatus, process_lives, read_status
from .run_text import duration, figure
from .statuses import EXIT_STALLED
from .terminal import Terminal


def merge(args: Namespace, terminal: Terminal) -> int:
    with terminal.progress() as on_progress:
        record = merge_suites(args.suites, args.out, _counting(on_progress))
    terminal.finish(_shown(args.out, record, terminal))
    return 0


def split(args: Namespace, terminal: Terminal) -> int:
    names = None if args.sources is None else [line for line in read_text(args.sources).split("\n") if line]
    with terminal.progress() as on_progress:
        records = split_suite(args.suite, args.out, names, _counting(on_progress))
    terminal.finish({"suites": [_shown(path, one, terminal) for path, one in zip(args.out, records, strict=True)]})
    return 0


def pack(args: Namespace, terminal: Terminal) -> int:
    total = open_table(args.suite).num_rows
    with terminal.progress() as on_progress:
        count = _counting(on_progress)
        files = pack_suite(args.suite, args.out, args.form, args.shard_mb, lambda done: count(done, total))
    terminal.say(f"packed     {total:,} pictures in {len(files):,} files of {args.out}")
    terminal.finish({"pictures": total, "files": list(map(str, files))})
    return 0


def status(args: Namespace, terminal: Terminal) -> int:
    now, run = time.time(), read_status(args.suite)
    health = run.health(now, platform.node(), process_lives)
    terminal.say(f"{health:<10} {run.done:,} of {run.shards:,} shards done, {run.passed:,} of them before this run")
    rate = "no shard yet" if run.shards_per_h is None else f"{figure(run.shards_per_h)} shards an hour"
    left = "" if run.left_s is None or health != "running" else f", {duration(run.left_s)} left"
    terminal.say(f"rate       {rate}{left}; the last news is {duration(max(0.0, now - run.updated))} old")
    workers = "1 worker" if run.workers == 1 else f"{run.workers:,} workers"
    terminal.say(f"boxes      {workers} at work, {run.lost:,} lost; {figure(run.device_hours)} {run.device}-hours held")
    if run.throttle and health == "running":
        terminal.say(f"throttled  the GPU's clocks are held down by {', '.join(run.throttle)}")
    if ended := _ended(run, health, now):
        terminal.say(f"why        {ended}")
    terminal.finish({**asdict(run), "health": health, "shards_per_h": run.shards_per_h, "left_s": run.left_s})
    return EXIT_STALLED if health in ("stalled", "killed") else 0


def _ended(run: RunStatus, health: Health, now: float) -> str:
    """Why a run does not go on, and what to do; nothing of one that does, or was stopped."""
    if health == "killed":
        return f"process {run.process} ended without a word: say its command again, what is done is kept"
    if health == "stalled":
        still = duration(now - run.progressed)
        return (
            f"process {run.process} on {run.host} has done nothing for {still}: end it there (kill -9), and say its "
            "command again"
        )
    return run.problem


def _counting(on_progress: OnProgress) -> Callable[[int, int], None]:
    return lambda done, total: on_progress(Progress("copy", done, total))


def _shown(path: Path, record: RunRecord, terminal: Terminal) -> dict[str, Any]:
    """Says what a new suite holds; returns it in JSON's own types."""
    standing, costs, digest = record.standing, record.costs, suite_digest(path)
    assert standing is not None, "a suite that was just written"
    terminal.say(f"suite      {path}: {standing.accepted:,} accepted variants of {standing.sources:,} sources")
    terminal.say(f"digest     {digest}")
    return {
        "suite": str(path),
        "suite_digest": digest,
        "sources": standing.sources,
        "accepted": standing.accepted,
        "rejected": standing.rejected,
        "sessions": costs.sessions,
        "device_hours": dict(costs.device_hours),
    }
