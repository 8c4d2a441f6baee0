"""The residency planner against exhaustive search: never over the budget, never a need unmet, never more loading."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.schedule.residency import (
    PlanCost,
    Residency,
    StageNeeds,
    Timeline,
    plan_residency,
    spare_bytes,
)

Case = tuple[list[StageNeeds], list[PlanCost], int, int]


def stages_of(*needs: str) -> list[StageNeeds]:
    """Stages s0, s1, … that need the plans named by single letters."""
    return [StageNeeds(f"s{i}", tuple(plans)) for i, plans in enumerate(needs)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = "abcd"[: draw(st.integers(1, 4))]
    costs = [PlanCost(n, draw(st.integers(0, 6)), draw(st.sampled_from([0.0, 0.5, 1.0, 2.5, 7.0]))) for n in names]
    needs = draw(st.lists(st.sets(st.sampled_from(names)), min_size=1, max_size=4))
    stages = stages_of(*("".join(sorted(plans)) for plans in needs))
    least = max(sum(cost.bytes for cost in costs if cost.name in stage.plans) for stage in stages)
    budget = least + draw(st.integers(0, 12))
    return stages, costs, budget, draw(st.integers(1, 7))


def least_load(stages: list[StageNeeds], costs: list[PlanCost], budget: int, shards: int) -> float:
    """Every set of plans that fits may be resident at every stage, loaded early or dropped at will."""
    by_name = {cost.name: cost for cost in costs}
    sets = [frozenset(n for i, n in enumerate(by_name) if mask >> i & 1) for mask in range(1 << len(by_name))]
    fitting = [s for s in sets if sum(by_name[n].bytes for n in s) <= budget]
    spent: dict[frozenset[str], float] = {frozenset(): 0.0}
    for _ in range(shards):
        for stage in stages:
            spent = {
                after: min(s + sum(by_name[n].load_s for n in after - before) for before, s in spent.items())
                for after in fitting
                if after.issuperset(stage.plans)
            }
    return min(spent.values())


def farthest_first_load(stages: list[StageNeeds], costs: list[PlanCost], budget: int, shards: int) -> float:
    """Belady's rule: drop what is needed again last."""
    by_name = {cost.name: cost for cost in costs}
    sequence = stages * shards
    resident: set[str] = set()
    total = 0.0
    for at, stage in enumerate(sequence):
        new = set(stage.plans) - resident
        total += sum(by_name[n].load_s for n in new)
        resident |= new

        def next_use(name: str, at: int = at) -> int:
            return next((i for i, s in enumerate(sequence[at:]) if name in s.plans), len(sequence))

        while sum(by_name[n].bytes for n in resident) > budget:
            resident.remove(max(sorted(resident - set(stage.plans)), key=next_use))
    return total


def replay(timeline: Timeline, stages: list[StageNeeds], costs: list[PlanCost], budget: int) -> float:
    """Follow a timeline as a device would and return the seconds of loading."""
    by_name = {cost.name: cost for cost in costs}
    resident: set[str] = set()
    seconds, peak = 0.0, 0
    for shard in timeline.shards:
        assert [step.stage for step in shard] == [stage.stage for stage in stages]
        for step, stage in zip(shard, stages, strict=True):
            assert resident.issuperset(step.drop)
            resident -= set(step.drop)
            assert resident.isdisjoint(step.load)
            resident |= set(step.load)
            assert tuple(sorted(resident)) == step.resident
            assert resident.issuperset(stage.plans)
            size = sum(by_name[n].bytes for n in resident)
            assert size == step.bytes <= budget
            peak = max(peak, size)
            seconds += sum(by_name[n].load_s for n in step.load)
    assert peak == timeline.peak_bytes
    return seconds


@settings(max_examples=100)
@given(cases())
def test_no_timeline_loads_less(case: Case) -> None:
    stages, costs, budget, shards = case
    timeline = plan_residency(stages, costs, budget, shards)
    assert len(timeline.shards) == shards
    loaded = replay(timeline, stages, costs, budget)
    assert timeline.load_s == pytest.approx(loaded)
    assert loaded == pytest.approx(least_load(stages, costs, budget, shards))
    assert loaded <= farthest_first_load(stages, costs, budget, shards) + 1e-9
    each_time = sum(cost.load_s for stage in stages for cost in costs if cost.name in stage.plans)
    assert loaded <= shards * each_time + 1e-9


@settings(max_examples=40)
@given(cases())
def test_room_for_all_loads_all_once_and_drops_nothing(case: Case) -> None:
    stages, costs, _, shards = case
    timeline = plan_residency(stages, costs, sum(cost.bytes for cost in costs), shards)
    steps = [step for shard in timeline.shards for step in shard]
    used = sorted({name for stage in stages for name in stage.plans})
    assert sorted(name for step in steps for name in step.load) == used
    assert not any(step.drop for step in steps)


@settings(max_examples=40)
@given(cases(), st.data())
def test_residency_keeps_a_run_within_the_budget(case: Case, data: st.DataObject) -> None:
    """A run that passes over stages opens less than was planned, and still never too much."""
    stages, costs, budget, shards = case
    residency = Residency(plan_residency(stages, costs, budget, shards))
    size = {cost.name: cost.bytes for cost in costs}
    is_open: set[str] = set()
    loads = 0.0
    passed_over = False
    for _ in range(shards):
        for stage in stages:
            if data.draw(st.integers(0, 3)) == 0:
                passed_over = True
                continue
            drops = residency.enter(stage.stage)
            assert is_open.issuperset(drops)
            assert set(drops).isdisjoint(stage.plans)
            is_open -= set(drops)
            loads += sum(cost.load_s for cost in costs if cost.name in set(stage.plans) - is_open)
            is_open |= set(stage.plans)
            assert sum(size[name] for name in is_open) <= budget
    if not passed_over:
        assert loads == pytest.approx(plan_residency(stages, costs, budget, shards).load_s)


def test_the_cheapest_cycle_may_span_shards() -> None:
    """Three equal plans in room for two: whoever keeps one for good misses two a shard.

    Two are loaded at first; after that at best every other of the 2,998 stages finds its plan.
    """
    costs = [PlanCost(name, 1, 1.0) for name in "abc"]
    timeline = plan_residency(stages_of("a", "b", "c"), costs, 2, shards=1000)
    assert timeline.load_s == 2 + 2998 / 2
    assert replay(timeline, stages_of("a", "b", "c"), costs, 2) == timeline.load_s


def test_thousands_of_shards_follow_one_cycle() -> None:
    """As many shards as a data set of hundreds of thousands has, on a device that holds half of the plans."""
    stages = stages_of("ab", "c", "defg", "dh")
    sizes = {"a": 2, "b": 13, "c": 10, "d": 1, "e": 1, "f": 6, "g": 1, "h": 2}
    costs = [PlanCost(name, size, 1.0 + size) for name, size in sizes.items()]
    timeline = plan_residency(stages, costs, 24, shards=5000)
    replay(timeline, stages, costs, 24)
    few = {n: plan_residency(stages, costs, 24, shards=n).load_s for n in (40, 41)}
    assert timeline.load_s == pytest.approx(few[40] + (5000 - 40) * (few[41] - few[40]))
    assert timeline.steady != timeline.first
    assert {name for step in timeline.first for name in step.load} == set(sizes)


def test_what_is_dear_to_load_stays() -> None:
    costs = [PlanCost("a", 5, 1.0), PlanCost("b", 5, 30.0), PlanCost("c", 5, 2.0)]
    steady = plan_residency(stages_of("a", "b", "c"), costs, 10, shards=10).steady
    assert [step.load for step in steady] == [("a",), (), ("c",)]
    assert [step.drop for step in steady] == [("c",), (), ("a",)]
    assert all("b" in step.resident for step in steady)


def test_a_stage_too_large_is_named() -> None:
    costs = [PlanCost("small", 10, 1.0), PlanCost("denoiser", 7_000, 1.0), PlanCost("decoder", 4_000, 1.0)]
    stages = [StageNeeds("caption", ("small",)), StageNeeds("paint", ("denoiser", "decoder"))]
    assert plan_residency(stages, costs, 11_000, 1).peak_bytes == 11_000
    with pytest.raises(CounterfactoryError) as told:
        plan_residency(stages, costs, 10_999, 1)
    for part in ("paint", "denoiser 7,000", "decoder 4,000", "11,000", "10,999", "smaller batches"):
        assert part in str(told.value)
    assert "caption" not in str(told.value)


@pytest.mark.parametrize(
    ("stages", "costs", "shards"),
    [
        (stages_of("ab"), [PlanCost("a", 1, 1)], 1),
        (stages_of("a"), [PlanCost("a", 1, 1), PlanCost("a", 2, 1)], 1),
        (stages_of("a"), [PlanCost("a", 1, 1)], 0),
        ([], [PlanCost("a", 1, 1)], 1),
        ([StageNeeds("s", ("a",)), StageNeeds("s", ("a",))], [PlanCost("a", 1, 1)], 1),
        (stages_of("abcdefghijklmnopqrstu"), [PlanCost(c, 1, 1) for c in "abcdefghijklmnopqrstu"], 1),
    ],
)
def test_nonsense_is_refused(stages: list[StageNeeds], costs: list[PlanCost], shards: int) -> None:
    with pytest.raises(ValueError, match=r"plan|shard|names"):
        plan_residency(stages, costs, 100, shards)


@pytest.mark.parametrize(("size", "seconds"), [(-1, 1.0), (1, -1.0), (1, math.nan), (1, math.inf)])
def test_costs_are_numbers(size: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="plan p"):
        PlanCost("p", size, seconds)


def test_what_a_stage_leaves_is_shared_evenly_in_the_tightest_stage() -> None:
    costs = [PlanCost("a", 10, 1.0), PlanCost("b", 20, 1.0), PlanCost("c", 40, 1.0), PlanCost("d", 99, 1.0)]
    stages = stages_of("ab", "bc", "d")
    assert spare_bytes("a", stages, costs, 100) == 35
    assert spare_bytes("b", stages, costs, 100) == 20
    assert spare_bytes("d", stages, costs, 100) == 1
    # With that much beyond its cost for every plan, each stage still fits, and no stage of `b` would with more.
    for extra, fits in ((20, True), (21, False)):
        more = [PlanCost(one.name, one.bytes + extra * (one.name in "abc"), 1.0) for one in costs]
        with nullcontext() if fits else pytest.raises(CounterfactoryError, match="stage s1 needs"):
            plan_residency(stages[:2], more, 100, 1)


def test_a_stage_that_leaves_nothing_is_named() -> None:
    costs = [PlanCost("a", 60, 1.0), PlanCost("b", 40, 1.0)]
    for budget in (100, 101):
        with pytest.raises(CounterfactoryError, match=r"stage s0 has plans of 100 bytes .* leaves no workspace for a"):
            spare_bytes("a", stages_of("ab"), costs, budget)
    with pytest.raises(CounterfactoryError, match=r"stage s0 needs a 60 [+] b 40 = 100 bytes at once"):
        spare_bytes("a", stages_of("ab"), costs, 99)
    with pytest.raises(ValueError, match="needs stages and plans"):
        spare_bytes("c", stages_of("ab"), costs, 1000)
    with pytest.raises(ValueError, match="plans without a cost: c"):
        spare_bytes("a", stages_of("ac"), costs, 1000)


def test_residency_ends_with_its_timeline() -> None:
    residency = Residency(plan_residency(stages_of("a", "b"), [PlanCost("a", 1, 1), PlanCost("b", 1, 1)], 1, 2))
    assert residency.enter("s1") == ()
    assert residency.enter("s0") == ("b",)
    assert residency.enter("s1") == ("a",)
    with pytest.raises(ValueError, match="at its end"):
        residency.enter("s0")
