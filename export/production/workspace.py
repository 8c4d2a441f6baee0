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

# Of what a graph's values take, with what a compiler adds for itself: TensorRT-RTX 1.7.1 takes 1.22 times as much for
# Florence-2's vision, 1.01 for the VAE's decoder.
_OWN_BUFFERS = 1.25
# What makes a plan's values smaller, by how the plan's name begins.
_BATCHES = {
    "blip2_vision": "[caption] batch",
    "opt_decoder": "[caption] batch",
    "sentence": "[grounding] batch",
    "clip_text": "[text] batch",
    "clip_image": "[check] batch",
    "hed": "[edges.hed] batch",
    "hint": "[paint] decode_batch or [image] buckets",
    "vae": "[paint] decode_batch or [image] buckets",
}
_OTHER_BATCH = "[paint] batch or [image] buckets"


@dataclass(frozen=True)
class Workspace:
    """`out` is the folder of the export."""

    profile: Profile
    out: Path

    def of(self, plan: str, graph: Path, needed: int = 0) -> int | None:
        """Bytes for a plan of `graph`, an ONNX file that computes in `needed` bytes at its largest pictures; None where
        the profile names no memory.

        It is half of what is left, or what it needs where that is more: plans compute in one block, and the other half
        lets plans of other stages stay open. A plan that the profile does without (another detector's, a further
        hint's) is taken to paint.
        Raises CounterfactoryError when less is left than it needs, which no compiler could make up for, and for plans
        of the stage of which nothing is known.
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
            beside = networks.of(stage)
            if plan in {network.plan for network in beside}:
                if unknown := [network.plan for network in beside if network.plan not in facts]:
                    lacking = f"facts.json in {self.profile.models.path} knows nothing of {', '.join(unknown)}"
                    advice = "take that file away, and write it again after the export"
                    raise CounterfactoryError(f"{lacking}, which stage {stage} holds beside {plan}; {advice}")
                costs = [plan_cost(self.profile, network, facts[network.plan]) for network in beside]
                held = {cost.name: cost.bytes for cost in costs}
                left = budget - sum(held.values())
                if left < max(needed, 1):
                    listed = " + ".join(f"{name} {nbytes:,}" for name, nbytes in held.items())
                    has = f"stage {stage} holds {listed} of the {budget:,} bytes that the device has for plans"
                    needs = f"which leaves {max(left, 0):,}, and {plan} computes in {needed:,} at its largest pictures"
                    advice = f"lower {_batch_of(plan)}, or raise [runtime] memory_gb if the device has more"
                    raise CounterfactoryError(f"{has}, {needs}; {advice}")
                half = (left - sum(cost.scratch_bytes for cost in costs)) // 2
                spare.append(max(half, min(left, round(_OWN_BUFFERS * needed)), 1))
        return min(spare)


def _batch_of(plan: str) -> str:
    return next((setting for name, setting in _BATCHES.items() if plan.startswith(name)), _OTHER_BATCH)


def onnx_bytes(path: Path) -> int:
    """Bytes of the graph at `path` and of the weights beside it."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
