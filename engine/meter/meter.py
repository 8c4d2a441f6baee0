"""Where a run's time goes: seconds, loading, rows and tokens by stage and by plan, and how far the run is.

The journey reports what it enters, loads and finishes; models add the batches that they run. Costs can be read at any
moment, as frozen records: time inside a stage that is still open counts up to now. A stage's wall time is its loading,
its busy time (inside sessions) and the rest, idle time, in which the device is held and computes nothing. What a stage
or a plan is, is not known here. Several threads may count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock, RLock
from typing import Any

from .memory import Memory


@dataclass(frozen=True)
class Progress:
    """`done` of `total` items of a stage, over the whole run."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class StageCost:
    """What a stage took so far.

    `items` were finished, of which `made` by this run (the others were on record), `items_per_s` are those made a
    second of wall time. `wall_s` is `load_s + busy_s + idle_s`, unless work or loading overlapped. `rows` were run in
    `calls` batches; `fill` is rows over the batches' capacity. A rate or a fill of nothing is None.
    """

    stage: str
    items: int
    made: int
    wall_s: float
    load_s: float
    busy_s: float
    idle_s: float
    items_per_s: float | None
    calls: int
    rows: int
    fill: float | None
    prompt_tokens: int
    generated_tokens: int


@dataclass(frozen=True)
class PlanUse:
    """What a plan did in a stage so far, in the same terms.

    It was loaded `loads` times there; `bytes` is what the memory that it was loaded into grew by then,
    at most; 0 where that cannot be told.
    """

    plan: str
    stage: str
    calls: int
    rows: int
    fill: float | None
    busy_s: float
    load_s: float
    loads: int
    bytes: int


def device_hours_per_1k(device_hours: float, accepted: float) -> float | None:
    """Hours of devices per 1,000 accepted variants; None where none was accepted."""
    return 1000 * device_hours / accepted if accepted else None


@dataclass
class Work:
    """Batches that one plan ran in one stage, its loadings there, and the most memory that it took."""

    calls: int = 0
    rows: int = 0
    capacity: int = 0
    busy_s: float = 0.0
    loads: int = 0
    load_s: float = 0.0
    bytes: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, rows: int, capacity: int, seconds: float) -> None:
        """One more batch: `rows` of `capacity` slots held work, and it took `seconds`. Any thread may call this."""
        with self._lock:
            self.calls += 1
            self.rows += rows
            self.capacity += capacity
            self.busy_s += seconds

    def seen(self) -> Work:
        """A copy whose counters belong together."""
        with self._lock:
            return replace(self)


@dataclass
class _Stage:
    """The counters of a stage; `since` is when it was entered, None outside."""

    items: int = 0
    computed: int = 0
    total: int = 0
    wall_s: float = 0.0
    since: float | None = None
    prompt_tokens: int = 0
    generated_tokens: int = 0


class Meter:
    """Counts for one run; tells `on_progress` of every advance and `on_change` of everything but single batches.

    `clock` gives seconds, `memory` is what plans are loaded into, this process's without it. Both listeners are called
    one at a time and may read the meter; they should not wait for a thread that counts.
    """

    def __init__(
        self,
        on_progress: Callable[[Progress], None],
        on_change: Callable[[Meter], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        memory: Memory | None = None,
    ) -> None:
        self.current = "start"  # the stage that is open, or that was open last
        self.accepted = 0
        self.rejected = 0
        self.held: Callable[[], tuple[int, float]] | None = None
        self._on_progress = on_progress
        self._on_change = on_change or (lambda _: None)
        self._clock = clock
        self._memory = memory or Memory()
        self._began = clock()
        self.within: Callable[[], int] = lambda: 0  # how far the work is that is one call, for `moves`
        self._changes = 0
        self._lock = RLock()
        self._stages: dict[str, _Stage] = {}
        self._works: dict[tuple[str, str], Work] = {}

    def advance(self, stage: str, items: int, total: int, computed: int = 0) -> None:
        """`items` more of a stage are done, of `total` in the run; this run computed `computed` of them."""
        with self._lock:
            counts = self._of(stage)
            counts.items += items
            counts.computed += computed
            counts.total = total
            self._memory.taken()  # a device's peak is the most that was read
            self._on_progress(Progress(stage, counts.items, total))
            self._changed()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time spent inside belongs to the stage, loading included. Stages do not nest: RuntimeError if they do."""
        with self._lock:
            if (outer := self._stages.get(self.current)) is not None and outer.since is not None:
                raise RuntimeError(f"stage {name!r} was entered inside stage {self.current!r}; stages do not nest")
            self.current, counts = name, self._of(name)
            counts.since = self._clock()
        try:
            yield
        finally:
            with self._lock:
                counts.wall_s += self._clock() - counts.since
                counts.since = None
        self._notify()

    @contextmanager
    def loading(self, plan: str) -> Iterator[None]:
        """Time spent inside is loading of `plan`, on the account of the current stage. Loadings do not nest.

        What the memory grows by meanwhile is taken for the plan's.
        """
        stage, since, before = self.current, self._clock(), self._memory.taken()
        try:
            yield
        finally:
            grown = self._memory.taken() - before
            with self._lock:
                work = self.work(stage, plan)
                work.load_s += self._clock() - since
                work.loads += 1
                work.bytes = max(work.bytes, grown)
        self._notify()

    def work(self, stage: str, plan: str) -> Work:
        """The counters of `plan` in `stage`: the same object every time."""
        work = self._works.get((stage, plan))  # without the lock: batches need not wait for listeners
        if work is None:
            with self._lock:
                self._of(stage)
                work = self._works.setdefault((stage, plan), Work())
        return work

    def tokens(self, stage: str, prompt: int, generated: int) -> None:
        """Count `prompt` more tokens that a stage's language model read and `generated` more that it wrote."""
        with self._lock:
            counts = self._of(stage)
            counts.prompt_tokens += prompt
            counts.generated_tokens += generated
        self._notify()

    def verdicts(self, accepted: int, rejected: int) -> None:
        with self._lock:
            self.accepted += accepted
            self.rejected += rejected
        self._notify()

    def costs(self) -> tuple[StageCost, ...]:
        """What every stage took so far, in order of first appearance."""
        with self._lock:
            now = self._clock()
            return tuple(self._cost(name, counts, now) for name, counts in self._stages.items())

    def plans(self) -> tuple[PlanUse, ...]:
        """What every plan did in each stage so far, in order of first appearance, those that were loaded first."""
        with self._lock:
            works = [(*key, work.seen()) for key, work in self._works.items()]
        return tuple(
            PlanUse(plan, stage, w.calls, w.rows, _fill([w]), w.busy_s, w.load_s, w.loads, w.bytes)
            for stage, plan, w in sorted(works, key=lambda used: not used[2].loads)
        )

    def moves(self) -> int:
        """Another number whenever a batch, a loading or a stage is done, or a part of one that takes long."""
        with self._lock:
            return self._changes + sum(work.calls for work in self._works.values()) + self.within()

    @property
    def totals(self) -> dict[str, int]:
        """How many items each stage that advanced will have, by its latest `advance`."""
        with self._lock:
            return {name: counts.total for name, counts in self._stages.items() if counts.total}

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @property
    def peak_memory_bytes(self) -> int:
        """The most memory that was taken so far, of the process or of the GPU; 0 where that cannot be told."""
        return self._memory.peak()

    def device_hours(self, devices: int) -> float:
        """Hours that `devices` (cores, on a CPU) were held so far, loading and idling included; where other boxes
        compute (`held`: their devices now, and the seconds of devices so far) theirs.
        """
        return (devices * self.elapsed_s if self.held is None else self.held()[1]) / 3600

    def _of(self, stage: str) -> _Stage:
        return self._stages.setdefault(stage, _Stage())

    def _notify(self) -> None:
        with self._lock:
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        self._on_change(self)

    def _cost(self, name: str, counts: _Stage, now: float) -> StageCost:
        wall_s = counts.wall_s + (now - counts.since if counts.since is not None else 0.0)
        works = [work.seen() for (stage, _), work in self._works.items() if stage == name]
        load_s, busy_s = sum(work.load_s for work in works), sum(work.busy_s for work in works)
        return StageCost(
            stage=name,
            items=counts.items,
            made=counts.computed,
            wall_s=wall_s,
            load_s=load_s,
            busy_s=busy_s,
            idle_s=max(0.0, wall_s - load_s - busy_s),
            items_per_s=counts.computed / wall_s if counts.computed and wall_s > 0 else None,
            calls=sum(work.calls for work in works),
            rows=sum(work.rows for work in works),
            fill=_fill(works),
            prompt_tokens=counts.prompt_tokens,
            generated_tokens=counts.generated_tokens,
        )


def sum_costs(costs: Iterable[StageCost]) -> tuple[StageCost, ...]:
    """What each stage took on several boxes, in order of first appearance."""
    by_stage: dict[str, list[StageCost]] = {}
    for cost in costs:
        by_stage.setdefault(cost.stage, []).append(cost)
    return tuple(replace(of[0], **_sums(of)) for of in by_stage.values())


def sum_uses(uses: Iterable[PlanUse]) -> tuple[PlanUse, ...]:
    """The same of plans; `bytes` are the most that one box's took."""
    by_plan: dict[tuple[str, str], list[PlanUse]] = {}
    for use in uses:
        by_plan.setdefault((use.plan, use.stage), []).append(use)
    return tuple(replace(of[0], **_sums(of) | {"bytes": max(use.bytes for use in of)}) for of in by_plan.values())


def _sums(of: Sequence[StageCost] | Sequence[PlanUse]) -> dict[str, Any]:
    """What adds up, and the rates that follow from it."""
    sums: dict[str, Any] = {
        name: sum(getattr(one, name) for one in of) for name, kind in of[0].__annotations__.items() if kind in _ADDED
    }
    capacity = sum(one.rows / one.fill for one in of if one.fill)
    sums["fill"] = sums["rows"] / capacity if capacity else None
    if "made" in sums:
        sums["items_per_s"] = sums["made"] / sums["wall_s"] if sums["made"] and sums["wall_s"] > 0 else None
    return sums


# Annotations, as text, of what adds up.
_ADDED = ("int", "float")


def _fill(works: Iterable[Work]) -> float | None:
    """Rows over capacity of the works that have a capacity."""
    counted = [work for work in works if work.capacity]
    return sum(work.rows for work in counted) / sum(work.capacity for work in counted) if counted else None
