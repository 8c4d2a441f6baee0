"""What every stage does with its results: takes those on record, makes and records the rest, and counts."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from counterfactory.engine.meter.meter import Meter, Progress
from counterfactory.engine.schedule.overlap import write_behind
from counterfactory.engine.stages.classes import Classes
from counterfactory.engine.stages.run import Run


class Records:
    """A ledger in memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Any] = {}

    def get(self, stage: str, keys: list[str]) -> dict[str, Any]:
        return {key: self.rows[stage, key] for key in keys if (stage, key) in self.rows}

    def put(self, stage: str, rows: Mapping[str, Any]) -> None:
        self.rows.update({(stage, key): value for key, value in rows.items()})


class Bench:
    """A run with a ledger in memory, and what was asked of it."""

    def __init__(self) -> None:
        self.records, self.entered, self.progress = Records(), list[str](), list[Progress]()
        self.made: list[list[str]] = []
        models: Any = SimpleNamespace(enter=self.entered.append)
        suite: Any = SimpleNamespace(ledger=self.records, images=self.records.get)
        unread: Any = SimpleNamespace()
        meter = Meter(self.progress.append)
        self.run = Run(unread, unread, suite, models, meter, unread, 9, 18, Classes(()))

    def make(self, todo: list[str]) -> Generator[dict[str, str], None, None]:
        """Two at a time; nothing comes of "lost"."""
        self.made.append(todo)
        for start in range(0, len(todo), 2):
            yield {item: f"made of {item}" for item in todo[start : start + 2] if item != "lost"}


def keys(*items: str) -> dict[str, str]:
    return {item: f"key of {item}" for item in items}


def test_what_is_on_record_is_taken_and_the_rest_is_made_and_recorded() -> None:
    bench = Bench()
    bench.records.put("caption", {"key of b": "old b"})
    found = bench.run.recorded("caption", keys("a", "b", "c", "lost"), bench.make, counted=True)
    assert found == {"a": "made of a", "b": "old b", "c": "made of c"}
    assert list(found) == ["a", "b", "c"]
    assert bench.made == [["a", "c", "lost"]]
    assert bench.entered == ["caption"]
    assert bench.records.get("caption", ["key of a", "key of c"]) == {"key of a": "made of a", "key of c": "made of c"}
    assert [(p.done, p.total) for p in bench.progress] == [(1, 9), (3, 9), (3, 9)]
    (cost,) = bench.run.meter.costs()
    assert (cost.items, cost.made) == (3, 2)
    again = bench.run.recorded("caption", keys("c", "a"), bench.make, counted=True)
    assert again == {"c": "made of c", "a": "made of a"}
    assert (len(bench.made), bench.entered) == (1, ["caption"]), "nothing to do opens nothing"


def test_other_stages_and_progress_that_is_not_counted_are_left_alone() -> None:
    bench = Bench()
    bench.records.put("paint", {"key of a": "old a"})
    assert bench.run.missing("paint", keys("a", "b")) == ["b"]
    assert bench.run.missing("check", keys("a", "b")) == ["a", "b"]
    assert bench.run.recorded("check", keys("a"), bench.make) == {"a": "made of a"}
    assert bench.progress == []


def test_pictures_are_found_and_kept_by_the_suite_and_counted_as_pictures() -> None:
    bench = Bench()
    bench.records.put("paint", {"key of a": "there"})
    assert bench.run.recorded("paint", keys("a", "b"), bench.make, counted=True) == {"a": "there", "b": "made of b"}
    assert bench.records.rows == {("paint", "key of a"): "there"}, "what makes a picture writes its row"
    assert [(p.done, p.total) for p in bench.progress] == [(1, 18), (2, 18)]


def test_an_interrupt_between_batches_waits_for_what_is_being_written() -> None:
    """What the stage hands to a writer beside it is finished work: it is on the disk when the suite is closed."""
    bench, written = Bench(), list[str]()

    def write(made: dict[str, str]) -> dict[str, str]:
        time.sleep(0.1)
        written.extend(made)
        return made

    def make(todo: list[str]) -> Generator[dict[str, str], None, None]:
        yield from write_behind(bench.make(todo), write, depth=2)

    def interrupt(_: Progress) -> None:
        if written:
            raise KeyboardInterrupt

    bench.run = replace(bench.run, meter=Meter(interrupt))
    with pytest.raises(KeyboardInterrupt) as raised:
        bench.run.recorded("paint", keys(*"abcdefgh"), make, counted=True)
    assert raised.tb is not None  # frames are still held: nothing but the stage itself can have ended the writing
    assert len(written) >= 4, "what was handed over before the interrupt is written"
