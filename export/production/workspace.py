"""Scratch memory that a plan may take: what a profile's device leaves beside the plans that are resident with it.

For a plan's name and its graph it computes bytes for the compiler. Plans are taken to hold what the residency planner
takes them to hold, by the graphs that were exported already, and by the profile's facts where they were not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.estimate import plan_budget
from counterfactory.engine.estimate.formulas import plan_cost
from counterfactory.engine.models.network import Network, Networks, Rows
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.plan_facts import PlanFacts, plan_facts
from counterfactory.engine.profile.profile import Profile


@dataclass(frozen=True)
class Workspace:
    """`out` is the folder of the export."""

    profile: Profile
    out: Path

    def of(self, plan: str, graph: Path) -> int | None:
        """Bytes for a plan of `graph`, an ONNX file; None where the profile names no memory.

        It is half of what is left: plans compute in one block, and the other half lets plans of other stages stay open.
        A compiler fails where it is too little for the largest pictures. A plan that the profile does without (another
        detector's, a further hint's) is taken to paint.
        Raises CounterfactoryError when nothing is left, and for plans of the stage of which nothing is known.
        """
        if not self.profile.runtime.memory_gb:
            return None
        networks = networks_of(self.profile)
        # Every form of the denoiser stands where the one that the profile names would.
        plan = networks[plan].plan if plan in networks else plan
        facts = dict(plan_facts(self.profile))
        for name in facts:
            if (path := self.out / "onnx" / name / "model.onnx").is_file():
                facts[name] = replace(facts[name], weight_bytes=onnx_bytes(path))
        facts[plan] = replace(facts.get(plan, PlanFacts(0.0, 0, 0)), weight_bytes=onnx_bytes(graph))
        if plan not in networks.plans:
            networks = Networks((*networks, Network(plan, plan, 1, {"paint": Rows()})))
        budget = plan_budget(round(self.profile.runtime.memory_gb * 1e9))
        spare = []
        for stage in networks.stages:
            needed = networks.of(stage)
            if plan in {network.plan for network in needed}:
                if unknown := [network.plan for network in needed if network.plan not in facts]:
                    lacking = f"facts.json in {self.profile.models.path} knows nothing of {', '.join(unknown)}"
                    advice = "take that file away, and write it again after the export"
                    raise CounterfactoryError(f"{lacking}, which stage {stage} holds beside {plan}; {advice}")
                costs = [plan_cost(self.profile, network, facts[network.plan]) for network in needed]
                whole = {cost.name: cost.bytes + cost.scratch_bytes for cost in costs}
                together = sum(whole.values())
                spare.append((budget - together) // 2)
                if spare[-1] < 1:
                    listed = " + ".join(f"{name} {nbytes:,}" for name, nbytes in whole.items())
                    needs = f"stage {stage} needs {listed} = {together:,} bytes at once"
                    has = f"the device has {budget:,} for plans, which leaves no workspace for {plan}"
                    advice = "smaller batches, smaller pictures or a lower precision in the profile, or a larger device"
                    raise CounterfactoryError(f"{needs} and {has}; take {advice}")
        return min(spare)


def onnx_bytes(path: Path) -> int:
    """Bytes of the graph at `path` and of the weights beside it."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
