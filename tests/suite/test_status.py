"""Whether a run lives: its beats, its pauses, its process; and what a suite's status is while sources are listed."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from clocks import Clock

from counterfactory.engine.suite import status
from counterfactory.engine.suite.lock import Lock
from counterfactory.engine.suite.status import (
    BEAT_S,
    QUIET_S,
    STALE_S,
    RunStatus,
    StatusFile,
    listing,
    process_lives,
    read_status,
)


@pytest.fixture(autouse=True)
def no_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests beat themselves."""
    monkeypatch.setattr(status, "BEAT_S", 1e6)


def running(**changes: object) -> RunStatus:
    known = RunStatus("running", 0.0, 1000.0, 9, 3, 1, 2, 0, "GPU", 0.5, "box", 77, 1000.0, 500.0)
    return replace(known, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "now", "host", "health"),
    [
        ({}, 1000.0, "box", "running"),
        ({}, 1000.0 + STALE_S, "box", "running"),
        ({}, 1001.0 + STALE_S, "box", "stalled"),
        ({}, 1001.0 + STALE_S, "other", "stalled"),
        ({}, 900.0, "other", "running"),
        ({"process": 78}, 1000.0, "box", "killed"),
        ({"process": 78}, 1000.0, "other", "running"),
        ({"progressed": 499.0}, 1000.0, "box", "stalled"),
        ({"progressed": 500.0}, 1000.0, "box", "running"),
        ({"state": "listing", "progressed": 0.0}, 1000.0, "box", "listing"),
        ({"state": "listing"}, 2000.0, "box", "stalled"),
        ({"state": "listing", "process": 78}, 1000.0, "box", "killed"),
        ({"state": "failed", "process": 78}, 9e9, "box", "failed"),
        ({"state": "finished", "process": 78}, 9e9, "box", "finished"),
        ({"state": "stopped", "process": 78}, 9e9, "box", "stopped"),
        ({"host": "", "process": 0}, 9e9, "box", "running"),
    ],
)
def test_health(changes: dict[str, object], now: float, host: str, health: str) -> None:
    assert running(**changes).health(now, host, lambda process: process == 77) == health


def test_beats_tell_life_and_only_work_moves(tmp_path: Path) -> None:
    clock, moves, slowed = Clock(), Clock(0), list[str]()
    file = StatusFile(tmp_path, 4, "GPU", lambda: 2.0, None, moves, lambda: slowed, clock)
    with file:
        begun = read_status(tmp_path)
        assert (begun.host, begun.throttle, begun.patience_s) == (platform.node(), (), QUIET_S)
        assert process_lives(begun.process)
        clock.now += 400
        slowed.append("hw_thermal_slowdown")
        file.beat()
        still = read_status(tmp_path)
        assert (still.updated, still.progressed, still.throttle) == (1400.0, 1000.0, ("hw_thermal_slowdown",))
        moves.now += 1
        file.beat()
        assert (read_status(tmp_path).progressed, read_status(tmp_path).patience_s) == (1400.0, 4000.0)
        clock.now += 9
        file.shard("a/0000")
        assert read_status(tmp_path).progressed == 1409.0
        file.allow(9000.0)
        file.beat()
        assert read_status(tmp_path).patience_s == 9000.0
    assert read_status(tmp_path).state == "finished"
    assert json.loads((tmp_path / "status.json").read_text())["throttle"] == ["hw_thermal_slowdown"]


def test_a_thread_beats_while_the_run_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 3 * BEAT_S < STALE_S
    monkeypatch.setattr(status, "BEAT_S", 0.001)
    beats = Clock(0)

    def moves() -> float:
        beats.now += 1
        return beats.now

    with StatusFile(tmp_path, 4, "GPU", lambda: 2.0, None, moves):
        first = beats.now
        while beats.now < first + 3:
            pass
    after = beats.now
    assert read_status(tmp_path).state == "finished"
    assert beats.now == after, "nothing beats after the end"


@pytest.mark.parametrize(
    ("error", "state", "problem"),
    [(KeyboardInterrupt(), "stopped", ""), (OSError("no disk"), "failed", "no disk"), (MemoryError(), "failed", "Mem")],
)
def test_the_end_is_told(tmp_path: Path, error: BaseException, state: str, problem: str) -> None:
    with pytest.raises(type(error)), StatusFile(tmp_path, 4, "GPU", lambda: 2.0):
        raise error
    ended = read_status(tmp_path)
    assert (ended.state, ended.workers) == (state, 0)
    assert ended.problem.startswith(problem)


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "status.json").write_text(json.dumps(asdict(running(state="stopped"))))
    return tmp_path


def test_a_run_that_goes_on_lists_first(stopped: Path) -> None:
    before = (stopped / "status.json").read_text()
    with listing(stopped):
        seen = read_status(stopped)
        assert (seen.state, seen.shards, seen.done, seen.host) == ("listing", 9, 3, platform.node())
    assert (stopped / "status.json").read_text() == before
    with pytest.raises(KeyboardInterrupt), listing(stopped):
        raise KeyboardInterrupt
    assert (stopped / "status.json").read_text() == before


def test_listing_writes_nothing_where_another_run_works_or_none_was(stopped: Path, tmp_path: Path) -> None:
    lock = Lock(stopped / "suite.lock")
    with listing(stopped):
        assert read_status(stopped).state == "stopped"
    lock.release()
    (stopped / "status.json").write_text("{}")
    with listing(stopped):
        assert (stopped / "status.json").read_text() == "{}"
    with listing(tmp_path / "none"):
        assert not (tmp_path / "none").exists()


def test_a_status_of_an_older_release_is_read(tmp_path: Path) -> None:
    old = {key: value for key, value in asdict(running()).items() if key in RunStatus.__match_args__[:10]}
    (tmp_path / "status.json").write_text(json.dumps(old))
    assert read_status(tmp_path).health(9e9, "", lambda _: False) == "running"


def test_processes_that_live() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not process_lives(ended.pid)
    assert process_lives(1), "another user's, perhaps"
    assert not process_lives(1 << 70)
