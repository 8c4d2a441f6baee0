"""The rule of residency: never over the budget, never a need unmet, and how far it is from exhaustive search."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.schedule.residency import PlanCost, Residency

Needs = dict[str, str]
Case = tuple[Needs, list[PlanCost], int]


def stages_of(*needs: str) -> Needs:
    """Stages s0, s1, … that need the plans named by single letters."""
    return {f"s{i}": plans for i, plans in enumerate(needs)}


def load_s(stages: Needs, costs: list[PlanCost], budget: int, shards: int) -> float:
    return Residency(stages, costs, budget).timeline(shards).load_s


def together(costs: Iterable[PlanCost]) -> int:
    """Bytes of plans that are open at once: each its own, and one block to compute in."""
    held = list(costs)
    return sum(cost.bytes for cost in held) + max([0, *(cost.scratch_bytes for cost in held)])


def least_load(stages: Needs, costs: list[PlanCost], budget: int, shards: int) -> float:
    """Every set of plans that fits may be resident at every stage, loaded early or dropped at will."""
    by_name = {cost.name: cost for cost in costs}
    sets = [frozenset(n for i, n in enumerate(by_name) if mask >> i & 1) for mask in range(1 << len(by_name))]
    fitting = [s for s in sets if together(by_name[n] for n in s) <= budget]
    spent: dict[frozenset[str], float] = {frozenset(): 0.0}
    for _ in range(shards):
        for plans in stages.values():
            spent = {
                after: min(s + sum(by_name[n].load_s for n in after - before) for before, s in spent.items())
                for after in fitting
                if after.issuperset(plans)
            }
    return min(spent.values())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = "abcd"[: draw(st.integers(1, 4))]
    seconds = st.sampled_from([0.0, 0.5, 1.0, 2.5, 7.0])
    costs = [PlanCost(n, draw(st.integers(0, 6)), draw(seconds), draw(st.integers(0, 4))) for n in names]
    needs = draw(st.lists(st.sets(st.sampled_from(names)), min_size=1, max_size=4))
    stages = stages_of(*("".join(sorted(plans)) for plans in needs))
    least = max(together(cost for cost in costs if cost.name in plans) for plans in stages.values())
    return stages, costs, least + draw(st.integers(0, 12))


@settings(max_examples=200)
@given(cases(), st.data())
def test_whatever_stages_a_run_enters_it_fits_and_has_what_they_need(case: Case, data: st.DataObject) -> None:
    stages, costs, budget = case
    residency, by_name = Residency(stages, costs, budget), {cost.name: cost for cost in costs}
    resident: set[str] = set()
    for stage in data.draw(st.lists(st.sampled_from(list(stages)), min_size=1, max_size=12)):
        step = residency.enter(stage)
        assert resident.issuperset(step.drop)
        assert resident.isdisjoint(step.load)
        resident = (resident - set(step.drop)) | set(step.load)
        assert resident.issuperset(stages[stage])
        assert (step.resident, step.needs) == (tuple(sorted(resident)), tuple(sorted(stages[stage])))
        assert together(by_name[name] for name in resident) == step.bytes <= budget
        larger = [together(by_name[one] for one in {*resident, name}) for name in step.drop]
        assert all(nbytes > budget for nbytes in larger), "a plan was dropped for which there was room"


@settings(max_examples=60)
@given(cases(), st.integers(1, 6))
def test_a_timeline_is_what_entering_every_stage_of_every_shard_gives(case: Case, shards: int) -> None:
    stages, costs, budget = case
    timeline, residency = Residency(stages, costs, budget).timeline(shards), Residency(stages, costs, budget)
    steps = [tuple(map(residency.enter, stages)) for _ in range(shards)]
    assert list(timeline.shards) == steps
    assert timeline.first == steps[0]
    assert timeline.steady in steps[1:] or shards == 1
    seconds = {cost.name: cost.load_s for cost in costs}
    assert timeline.load_s == pytest.approx(sum(seconds[n] for shard in steps for step in shard for n in step.load))
    assert timeline.peak_bytes == max(step.bytes for shard in steps for step in shard)


@settings(max_examples=100)
@given(cases(), st.integers(1, 6))
def test_nothing_loads_less_where_all_plans_are_alike(case: Case, shards: int) -> None:
    stages, costs, _ = case
    alike = [PlanCost(cost.name, 1, 1.0) for cost in costs]
    least = max(map(len, stages.values()))
    for budget in range(max(least, 1), len(costs) + 1):
        assert load_s(stages, alike, budget, shards) == least_load(stages, alike, budget, shards)


def test_it_is_near_the_optimum_where_plans_differ() -> None:
    """Seeded cases of up to five plans: together within 2 %, none worse than four times the least."""
    draw = random.Random(0)
    ours = least = 0.0
    for _ in range(600):
        names = "abcde"[: draw.randint(2, 5)]
        costs = [PlanCost(name, draw.randint(1, 6), draw.choice([0.5, 1.0, 2.5, 7.0])) for name in names]
        needs = ["".join(sorted(draw.sample(names, draw.randint(1, len(names))))) for _ in range(draw.randint(2, 4))]
        stages = stages_of(*needs)
        budget = max(sum(cost.bytes for cost in costs if cost.name in need) for need in needs) + draw.randint(0, 8)
        found, best = load_s(stages, costs, budget, 5), least_load(stages, costs, budget, 5)
        assert best - 1e-9 <= found <= 4 * best + 1e-9
        ours, least = ours + found, least + best
    assert ours < 1.02 * least


def test_among_those_needed_next_the_slow_one_stays() -> None:
    for slow in "ab":
        each = [PlanCost(name, 5, 30.0 if name == slow else 1.0) for name in "abc"]
        residency = Residency(stages_of("ab", "c"), each, 10)
        residency.enter("s0")
        assert residency.enter("s1").resident == (slow, "c")


def test_plans_of_a_stage_that_do_not_fit_are_named() -> None:
    costs = [PlanCost("small", 10, 1.0), PlanCost("denoiser", 7_000, 1.0), PlanCost("decoder", 4_000, 1.0)]
    stages = {"check": ("small",), "paint": ("denoiser", "decoder")}
    assert Residency(stages, costs, 11_000).timeline(1).peak_bytes == 11_000
    with pytest.raises(CounterfactoryError, match=r"stage paint needs denoiser 7,000 [+] decoder 4,000 = 11,000 bytes"):
        Residency(stages, costs, 10_999)


def test_unknown_plans_and_stages_are_refused() -> None:
    with pytest.raises(KeyError, match="b"):
        Residency(stages_of("ab"), [PlanCost("a", 1, 1)], 100)
    with pytest.raises(KeyError, match="s9"):
        Residency(stages_of("a"), [PlanCost("a", 1, 1)], 100).enter("s9")


@pytest.mark.parametrize(("size", "seconds"), [(-1, 1.0), (1, -1.0), (1, math.nan), (1, math.inf)])
def test_costs_are_numbers(size: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="plan p"):
        PlanCost("p", size, seconds)
