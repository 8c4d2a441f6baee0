"""Claim: on an A10G at 60 % of its data sheet a suite costs at most 0.21 GPU-hours per 1,000 accepted variants, and at
most 0.05 with few-step weights.

A projection, not a measurement: engine/estimate's arithmetic for 25,000 sources of 5 variants each, by profile and by
stage, at two utilisations; what some changes of a profile would cost, each by itself and all of them; and what remains
to the goals. What a change costs in quality is not in it. It needs no GPU
and no models. `--write` puts the figures into docs/a10g.json. The last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from journeys import fully_guided
from measure import DOCS, bench_parser, finish, keep_figures

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.estimate.estimate import OTHER_SHARE, Estimate, estimate
from counterfactory.engine.models.plan_facts import PlanFacts, plan_facts
from counterfactory.engine.profile.paint import ReuseSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.report.table import Table

FILE = DOCS / "a10g.json"
SOURCES, VARIANTS = 25_000, 5
GOALS = {"a10g": 0.21, "a10g-fast": 0.05}
# LLaMA-2-7B in 5 bits in the place of 13B, of 32 layers (Touvron et al. 2023, arXiv 2307.09288).
_LAYERS, _TABLE = 32 * (4 * 4096**2 + 3 * 4096 * 11008), 32000 * 4096
LLAMA_7B = PlanFacts(2 * (_LAYERS + _TABLE), round((_LAYERS + 2 * _TABLE) * 5 / 8), cache_bytes=2 * 32 * 4096 * 2)
ALL = "all of these"


def project(profile: Profile, controls: int = 0) -> Estimate:
    """The estimate by the facts that come with the engine, whatever was exported or measured on this machine.

    `controls` of each source are painted beside the variants and not counted among them.
    """
    with tempfile.TemporaryDirectory() as folder:
        profile = replace(profile, models=ModelPaths(folder))
        if profile.weights is not None and "-7b-" in profile.weights.llm:
            rows = [{"name": name, **asdict(fact)} for name, fact in (plan_facts(profile) | {"llm": LLAMA_7B}).items()]
            (Path(folder) / "facts.json").write_text(json.dumps(rows))
        return estimate(profile, SOURCES, VARIANTS, controls=controls)


def per_1k(found: Estimate, seconds: float) -> float:
    """Seconds of the whole run as GPU-hours per 1,000 accepted variants."""
    assert found.accepted_share is not None
    return 1000 * seconds / 3600 / (found.variants * found.accepted_share)


def cost(profile: Profile) -> float:
    """GPU-hours per 1,000 accepted variants at 60 %."""
    found = project(profile).at(OTHER_SHARE)
    return per_1k(found, found.wall_s)


def named_profiles() -> dict[str, Profile]:
    """The profiles that docs/a10g.json speaks of."""
    return {name: load_profile(name) for name in GOALS}


def figures() -> dict[str, float]:
    """What docs/a10g.json says of projections."""
    costs = {name.replace("-", "_"): round(cost(profile), 4) for name, profile in named_profiles().items()}
    return {f"{name}_gpu_hours_per_1k": hours for name, hours in costs.items()} | {"utilisation": OTHER_SHARE}


def changed(profile: Profile) -> dict[str, Profile]:
    """The profile with each change by itself, but for those that it has, and with all that save something."""
    found = {name: change(profile) for name, change in _CHANGES.items()}
    found = {name: other for name, other in found.items() if other != profile}
    together = profile
    for name in found:
        together = _CHANGES[name](together) if name not in _DEARER else together
    return found | {ALL: together}


def _painting(profile: Profile, **paint: Any) -> Profile:
    return replace(profile, paint=replace(profile.paint, **paint))


def _rewriting(profile: Profile, **rewrite: Any) -> Profile:
    return replace(profile, rewrite=replace(profile.rewrite, **rewrite))


def _weighed(profile: Profile, **weights: Any) -> Profile:
    assert profile.weights is not None
    return replace(profile, weights=replace(profile.weights, **weights))


def _one_caption(profile: Profile) -> Profile:
    caption = profile.caption
    return replace(profile, caption=replace(caption, texts=1, batch=caption.texts * caption.batch))


def _captions(profile: Profile, tokens: int) -> Profile:
    decoding = replace(profile.caption.decoding, max_tokens=tokens)
    return replace(profile, caption=replace(profile.caption, decoding=decoding))


def _four_steps(profile: Profile) -> Profile:
    """Where the profile's weights are for few."""
    return _painting(profile, sampler=replace(profile.paint.sampler, steps=max(4, profile.paint.sampler.steps)))


_DEARER = (
    "guidance on all steps",
    "deep features anew at every step",
    "four steps",
    "the pipeline's own decoder",
    "captions of at most 50 tokens",
)
_CHANGES: Mapping[str, Callable[[Profile], Profile]] = {
    "TAESD decodes": lambda p: p if p.decoder == "vae_decoder_tiny" else _weighed(p, tiny_vae="madebyollin/taesd"),
    "guidance on all steps": fully_guided,
    "deep features anew at every step": partial(_painting, reuse=None),
    "deep features on every second step": partial(_painting, reuse=ReuseSettings(2)),
    "four steps": _four_steps,
    "the pipeline's own decoder": partial(_weighed, tiny_vae=None),
    "captions of at most 50 tokens": partial(_captions, tokens=50),
    "one caption per source": _one_caption,
    "captions of at most 25 tokens": partial(_captions, tokens=25),
    "captions verbatim but for their edits": partial(_rewriting, verbatim=True),
    "one question a source, whose answer chooses from menus": partial(_rewriting, menus=True),
    "LLaMA-2-7B": partial(_weighed, llm="meta-llama/Llama-2-7b-chat-hf"),
}


def profile_table() -> Table:
    """GPU-hours per 1,000 accepted variants by profile, at both utilisations, and at the higher with controls."""
    rows = []
    for name, profile in (named_profiles() | {"lance": load_profile("lance")}).items():
        low = project(profile)
        each = (low, low.at(OTHER_SHARE), project(profile, controls=1).at(OTHER_SHARE))
        rows.append((name, *(f"{per_1k(one, one.wall_s):.3f}" for one in each), f"{GOALS.get(profile.name, 'none')}"))
    high = f"{OTHER_SHARE:.0%}"
    columns = ("profile", f"{low.share:.0%}", high, "a control per source", f"goal at {high}")
    return Table("GPU-hours per 1,000 accepted variants", columns, tuple(rows))


def stage_table(profile: Profile) -> Table:
    """GPU-hours per 1,000 accepted variants by stage, at both utilisations, and what they are made of at the higher."""
    low = project(profile)
    high = low.at(OTHER_SHARE)
    rows = []
    for before, stage in zip(low.stages, high.stages, strict=True):
        parts = (before.wall_s, stage.wall_s, stage.compute_s, stage.moved_s, stage.load_s)
        rows.append((stage.stage, *(f"{per_1k(high, seconds):.4f}" for seconds in parts)))
    sums = [sum(getattr(stage, name) for stage in high.stages) for name in ("compute_s", "moved_s", "load_s")]
    rows.append(("all", *(f"{per_1k(high, seconds):.4f}" for seconds in (low.wall_s, high.wall_s, *sums))))
    columns = ("stage", f"{low.share:.0%}", f"{high.share:.0%}", "compute", "copies", "loading")
    title = f"{profile.name}: GPU-hours per 1,000 accepted variants, parts of {high.share:.0%}"
    return Table(title, columns, tuple(rows))


def show(profile: Profile) -> dict[str, Any]:
    """Print a profile's projection; returns what the JSON line says of it."""
    goal, reached = GOALS[profile.name], cost(profile)
    Terminal().show(stage_table(profile))
    added = {name: round(cost(other) - reached, 4) for name, other in changed(profile).items()}
    for name, brings in added.items():
        print(f"  {brings:+.4f}  {name}")
    print(f"  {reached + added[ALL]:.4f}  with {ALL} that save something")
    told = f"missed by {reached - goal:.4f}" if reached > goal else f"{goal - reached:.4f} to spare"
    print(f"goal {goal}: {told}")
    return {"goal": goal, "gpu_hours_per_1k_accepted": reached, "changes": added}


def main() -> None:
    asked = bench_parser(__doc__, write="docs/a10g.json").parse_args()
    Terminal().show(profile_table())
    found: dict[str, Any] = {name: show(load_profile(name)) for name in GOALS}
    if asked.write:
        keep_figures(FILE, figures())
    finish("projection", **(figures() | found))


if __name__ == "__main__":
    main()
