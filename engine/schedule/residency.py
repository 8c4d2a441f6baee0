"""Which plans stay in a device's memory from stage to stage, by one rule: keep what fits, soonest needed first.

Entering a stage, its own plans are kept or loaded. Of the others that are open, each stays if there is room for it
still; those that a coming stage needs sooner are asked first, among equals those that take longer to load. Shards go
through the stages in turn, so that the first stage follows the last. The caller knows what they are, and opens plans.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import CounterfactoryError


@dataclass(frozen=True)
class PlanCost:
    """A plan's memory on the device, in bytes, and the seconds it takes to load.

    `scratch_bytes` more are its scratch memory: one block of the device, as large as the largest open plan needs.
    """

    name: str
    bytes: int
    load_s: float
    scratch_bytes: int = 0

    def __post_init__(self) -> None:
        if min(self.bytes, self.scratch_bytes) < 0 or not (math.isfinite(self.load_s) and self.load_s >= 0):
            raise ValueError(f"plan {self.name} cannot have {self.bytes} bytes and take {self.load_s} s to load")


@dataclass(frozen=True)
class Step:
    """The changes on entering a stage: first `drop`, then `load`; `resident` are the plans after that, of `bytes`.

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
    """Every shard's steps, one per stage; `load_s` are the seconds of all loads, `peak_bytes` the most resident."""

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


class Residency:
    """The plans that are resident on a device with `budget_bytes` for them, while stages are entered in any order;
    those that a stage needs must be resident together for it.

    Raises CounterfactoryError when the plans of one stage do not fit together; KeyError for plans without cost.
    """

    def __init__(self, needs: Mapping[str, Sequence[str]], costs: Sequence[PlanCost], budget_bytes: int) -> None:
        self._stages, self._budget = needs, budget_bytes
        self._costs = {cost.name: cost for cost in costs}
        self._open: frozenset[str] = frozenset()
        for stage in needs:
            self._refuse_what_does_not_fit(stage)

    def enter(self, stage: str) -> Step:
        """Make room for a stage's plans, all of which count as resident afterwards. KeyError for an unknown stage."""
        before, needed = self._open, frozenset(self._stages[stage])
        resident = set(needed)
        for name in sorted(before - needed, key=lambda name: self._rank(name, stage)):
            if self._together({*resident, name}) <= self._budget:
                resident.add(name)
        used_bytes = self._together(resident)
        self._open = frozenset(resident)
        needs, drop, load = (tuple(sorted(names)) for names in (needed, before - resident, needed - before))
        return Step(stage, needs, drop, load, tuple(sorted(resident)), used_bytes)

    def timeline(self, shards: int) -> Timeline:
        """The loads and drops of so many shards, at least one, when each goes through all stages."""
        # From the same open plans every shard takes the same steps, so that few of many shards have to be computed.
        passes: dict[frozenset[str], tuple[Shard, frozenset[str]]] = {}
        sequence: list[Shard] = []
        for _ in range(shards):
            before = self._open
            if before not in passes:
                passes[before] = tuple(self.enter(stage) for stage in self._stages), self._open
            shard, self._open = passes[before]
            sequence.append(shard)
        load_s = math.fsum(self._costs[name].load_s for shard in sequence for step in shard for name in step.load)
        peak_bytes = max((step.bytes for shard in set(sequence) for step in shard), default=0)
        return Timeline(tuple(sequence), load_s, peak_bytes)

    def _together(self, plans: Iterable[str]) -> int:
        costs = [self._costs[name] for name in plans]
        return sum(cost.bytes for cost in costs) + max((cost.scratch_bytes for cost in costs), default=0)

    def _rank(self, plan: str, stage: str) -> tuple[int, float, str]:
        """How many stages lie before the plan's next use, seconds of loading descending, its name."""
        stages = list(self._stages)
        after = stages.index(stage) + 1
        coming = stages[after:] + stages[:after]
        return next(i for i, name in enumerate(coming) if plan in self._stages[name]), -self._costs[plan].load_s, plan

    def _refuse_what_does_not_fit(self, stage: str) -> None:
        plans, together = [self._costs[name] for name in self._stages[stage]], self._together(self._stages[stage])
        if together > self._budget:
            listed = " + ".join(f"{plan.name} {plan.bytes:,}" for plan in plans)
            if scratch := max(plan.scratch_bytes for plan in plans):
                listed += f" + {scratch:,} to compute in"
            raise CounterfactoryError(
                f"stage {stage} needs {listed} = {together:,} bytes at once, and the device has {self._budget:,} "
                "for plans; take smaller batches, smaller pictures or a lower precision in the profile, or a larger "
                "device"
            )
