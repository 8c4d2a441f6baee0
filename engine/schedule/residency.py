"""Which plans stay in a device's memory while shards go through the stages, so that least time is spent loading.

What arrives is the plans that each stage needs, what each costs (bytes, seconds to load), the device's budget and the
number of shards; what leaves is a `Timeline` of what is loaded, kept and dropped at every stage of every shard. What a
plan or a stage is, and how plans are opened, is the caller's; loading ahead of need is not considered.

The search is exact. A plan is loaded when a stage needs it and dropped only when space demands, and then no more than
that: dropping later, or less, never loads more. So a state is the set of resident plans, and entering a stage offers
the few smallest sets of plans to drop. Over these choices the seconds to go are minimised backwards from the last
shard (dynamic programming, whole nanoseconds). With more shards to come the differences between states soon repeat,
and with them all decisions, so the tables of one period serve any number of shards: that period is the cheapest cycle.
It may well span several shards, as when two of three equal plans fit and the one that is missed changes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import CounterfactoryError

# The search is over sets of plans; a device that would hold more of them than this is planned in another way.
_MOST_PLANS = 20


@dataclass(frozen=True)
class PlanCost:
    """A plan's memory on the device, in bytes, and the seconds it takes to load."""

    name: str
    bytes: int
    load_s: float

    def __post_init__(self) -> None:
        if self.bytes < 0 or not (math.isfinite(self.load_s) and self.load_s >= 0):
            raise ValueError(f"plan {self.name} cannot have {self.bytes} bytes and take {self.load_s} s to load")


@dataclass(frozen=True)
class StageNeeds:
    """A stage and the plans that must be resident together for it."""

    stage: str
    plans: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """What entering a stage means: first `drop`, then `load`; `resident` is what is there then, `bytes` of it.

    Names are sorted. `needs` are the stage's own plans.
    """

    stage: str
    needs: tuple[str, ...]
    drop: tuple[str, ...]
    load: tuple[str, ...]
    resident: tuple[str, ...]
    bytes: int


Shard = tuple[Step, ...]


@dataclass(frozen=True)
class Timeline:
    """Every shard's steps, one a stage; `load_s` is what all loading takes, `peak_bytes` the most that is resident."""

    shards: tuple[Shard, ...]
    load_s: float
    peak_bytes: int

    @property
    def first(self) -> Shard:
        """The first shard, which finds nothing loaded."""
        return self.shards[0]

    @property
    def steady(self) -> Shard:
        """The shard most often met after the first; the first itself where there is no other."""
        return Counter(self.shards[1:] or self.shards).most_common(1)[0][0]


def plan_residency(stages: Sequence[StageNeeds], costs: Sequence[PlanCost], budget_bytes: int, shards: int) -> Timeline:
    """The timeline that loads for the fewest seconds when `shards` shards go through `stages` in turn.

    Raises CounterfactoryError when the plans of one stage do not fit together; ValueError for plans without cost,
    names that come twice, no stage, no shard, or more than 20 plans.
    """
    by_name = {cost.name: cost for cost in costs}
    _refuse_nonsense(stages, costs, by_name, shards)
    for stage in stages:
        _refuse_what_does_not_fit(stage, by_name, budget_bytes)
    return _Search(stages, by_name, budget_bytes).timeline(shards)


def spare_bytes(plan: str, stages: Sequence[StageNeeds], costs: Sequence[PlanCost], budget_bytes: int) -> int:
    """Bytes beyond its cost that each plan of a stage may take at once, in the tightest stage that needs `plan`.

    Raises CounterfactoryError when the plans of such a stage leave nothing; ValueError for plans without cost and when
    no stage needs the plan.
    """
    by_name = {cost.name: cost for cost in costs}
    tight = [stage for stage in stages if plan in stage.plans]
    _refuse_nonsense(tight, costs, by_name, 1)
    spare = []
    for stage in tight:
        _refuse_what_does_not_fit(stage, by_name, budget_bytes)
        plans = set(stage.plans)
        together = sum(by_name[name].bytes for name in plans)
        spare.append((budget_bytes - together) // len(plans))
        if spare[-1] < 1:
            raise CounterfactoryError(
                f"stage {stage.stage} has plans of {together:,} bytes together and the device {budget_bytes:,} for "
                f"plans, which leaves no workspace for {plan}; take smaller batches, smaller pictures or a lower "
                "precision in the profile, or a larger device"
            )
    return min(spare)


class Residency:
    """Follows a timeline while stages are entered; a run may pass over stages in which it has nothing to do."""

    def __init__(self, timeline: Timeline) -> None:
        self._steps: Iterator[Step] = (step for shard in timeline.shards for step in shard)
        self._open: frozenset[str] = frozenset()

    def enter(self, stage: str) -> tuple[str, ...]:
        """The plans, of those that may be open, to drop before any of the stage's own is opened; sorted.

        Stages come in the timeline's order; those between the last one and this one count as passed over, and nothing
        of theirs as opened. Raises ValueError when the timeline has no such stage any more.
        """
        step = next((step for step in self._steps if step.stage == stage), None)
        if step is None:
            raise ValueError(f"the timeline is at its end: stage {stage!r} was not to be entered again")
        drops = self._open.difference(step.resident)
        self._open = (self._open - drops).union(step.needs)
        return tuple(sorted(drops))


def _refuse_nonsense(
    stages: Sequence[StageNeeds], costs: Sequence[PlanCost], by_name: Mapping[str, PlanCost], shards: int
) -> None:
    names = {stage.stage for stage in stages}
    if not names or shards < 1 or len(names) < len(stages) or len(by_name) < len(costs):
        raise ValueError(f"a timeline needs stages and plans, each named once, and a shard; got {stages}, {shards}")
    used = {name for stage in stages for name in stage.plans}
    if missing := sorted(used - by_name.keys()):
        raise ValueError(f"plans without a cost: {', '.join(missing)}")
    if len(used) > _MOST_PLANS:
        raise ValueError(f"residency is searched for at most {_MOST_PLANS} plans, got {len(used)}")


def _refuse_what_does_not_fit(stage: StageNeeds, costs: Mapping[str, PlanCost], budget_bytes: int) -> None:
    plans = [costs[name] for name in dict.fromkeys(stage.plans)]
    together = sum(plan.bytes for plan in plans)
    if together > budget_bytes:
        listed = " + ".join(f"{plan.name} {plan.bytes:,}" for plan in plans)
        raise CounterfactoryError(
            f"stage {stage.stage} needs {listed} = {together:,} bytes at once, and the device has {budget_bytes:,} for "
            "plans; take smaller batches, smaller pictures or a lower precision in the profile, or a larger device"
        )


@dataclass
class _Search:
    """The dynamic programme. A set of plans is a bit mask; plan i has bit 1 << i."""

    stages: Sequence[StageNeeds]
    costs: Mapping[str, PlanCost]
    budget: int
    names: list[str] = field(init=False)
    needs: list[int] = field(init=False)
    _choices: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = sorted({name for stage in self.stages for name in stage.plans})
        self.needs = [sum(1 << self.names.index(name) for name in set(stage.plans)) for stage in self.stages]

    def timeline(self, shards: int) -> Timeline:
        tables, period = self._tables(shards)
        made: dict[tuple[int, int], tuple[Shard, int]] = {}
        steps: list[Shard] = []
        mask = 0
        for left in reversed(range(shards)):
            # Tables repeat: with many shards left, one of the last period's serves.
            table = left if left < len(tables) else len(tables) - period + (left - len(tables)) % period
            if (mask, table) not in made:
                made[mask, table] = self._shard(mask, tables[table])
            shard, mask = made[mask, table]
            steps.append(shard)
        loads = Counter(name for shard in steps for step in shard for name in step.load)
        load_s = math.fsum(count * self.costs[name].load_s for name, count in loads.items())
        return Timeline(tuple(steps), load_s, max(step.bytes for shard in steps for step in shard))

    def _tables(self, shards: int) -> tuple[list[list[dict[int, int]]], int]:
        """Nanoseconds to go, and the period of the last tables.

        tables[k][s][mask] is what is still to be loaded before stage s, `mask` resident, with k shards to come after
        this one; s = len(stages) is this shard's end.
        """
        layers = self._reachable()
        to_go = dict.fromkeys(layers[0], 0)
        tables: list[list[dict[int, int]]] = []
        seen = {tuple(to_go.values()): 0}
        while len(tables) < shards:
            table = [to_go]
            for stage in reversed(range(len(self.stages))):
                after = table[0]
                best = {m: min(self._ns(n & ~m) + after[n] for n in self._next(m, stage)) for m in layers[stage]}
                table.insert(0, best)
            tables.append(table)
            to_go = table[0]
            # Only differences between states decide; once they come again, so does all that follows.
            least = min(to_go.values())
            shape = tuple(to_go[mask] - least for mask in sorted(to_go))
            if shape in seen:
                return tables, len(tables) - seen[shape]
            seen[shape] = len(tables)
        return tables, 1

    def _reachable(self) -> list[set[int]]:
        """Sets that may be resident before each stage, and after the last one."""
        layers: list[set[int]] = [{0}, *(set() for _ in self.stages)]
        while True:
            for stage in range(len(self.stages)):
                layers[stage + 1] |= {n for m in layers[stage] for n in self._next(m, stage)}
            if layers[-1] <= layers[0]:
                return layers
            layers[0] |= layers[-1]

    def _shard(self, mask: int, table: Sequence[Mapping[int, int]]) -> tuple[Shard, int]:
        """A shard's steps from `mask` on, and what is resident at its end."""
        steps = []
        for stage in range(len(self.stages)):
            nexts = self._next(mask, stage)
            after = table[stage + 1]
            # Among equals the one that drops least, then one and the same.
            chosen = min(nexts, key=lambda n: (self._ns(n & ~mask) + after[n], self._bytes(mask & ~n), n))
            steps.append(self._step(stage, mask, chosen))
            mask = chosen
        return tuple(steps), mask

    def _step(self, stage: int, before: int, after: int) -> Step:
        return Step(
            stage=self.stages[stage].stage,
            needs=self._named(self.needs[stage]),
            drop=self._named(before & ~after),
            load=self._named(after & ~before),
            resident=self._named(after),
            bytes=self._bytes(after),
        )

    def _next(self, mask: int, stage: int) -> list[int]:
        """What may be resident in a stage that is entered with `mask` resident: all, less a smallest set of drops."""
        if (mask, stage) not in self._choices:
            need = self.needs[stage]
            free = [1 << i for i in range(len(self.names)) if (mask & ~need) >> i & 1]
            free.sort(key=self._bytes, reverse=True)
            excess = self._bytes(mask | need) - self.budget
            self._choices[mask, stage] = [(mask | need) & ~drop for drop in self._drops(free, excess)]
        return self._choices[mask, stage]

    def _drops(self, free: Sequence[int], excess: int) -> Iterator[int]:
        """Every set out of `free`, the largest plan first, that covers `excess` and needs each of its plans for it.

        In that order a set that is complete with its last plan, its smallest, could do without none.
        """
        if excess <= 0:
            yield 0
            return
        for i, plan in enumerate(free):
            for rest in self._drops(free[i + 1 :], excess - self._bytes(plan)):
                yield plan | rest

    def _named(self, mask: int) -> tuple[str, ...]:
        return tuple(name for i, name in enumerate(self.names) if mask >> i & 1)

    def _bytes(self, mask: int) -> int:
        return sum(self.costs[name].bytes for name in self._named(mask))

    def _ns(self, mask: int) -> int:
        return sum(round(self.costs[name].load_s * 1e9) for name in self._named(mask))
