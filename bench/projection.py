"""Claim: on an A10G at 60 % of its data sheet a suite costs at most 0.26 GPU-hours per 1,000 accepted variants, and at
most 0.06 with few-step weights.

A projection, not a measurement: engine/estimate's arithmetic for 25,000 sources of 5 variants each, without controls,
by stage, at two utilisations; what each lever brings, or would bring; and what remains to the goals. It needs no GPU
and no models. `--write` puts the figures into docs/a10g.json and the tables into docs/production.md. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure import finish

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.estimate.estimate import OTHER_SHARE, Estimate, estimate
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.report.table import Table

DOCS = Path(__file__).parents[1] / "docs"
FILE, PAGE = DOCS / "a10g.json", DOCS / "production.md"
_BEGIN, _END = "<!-- by bench/projection.py --write -->", "<!-- end -->"
SOURCES, VARIANTS = 25_000, 5
GOALS: Mapping[str, float] = {"a10g": 0.26, "a10g-fast": 0.06}
# Operations at 512 x 512, counted by torch in diffusers' modules: a row of Stable Diffusion 1.5's ControlNet, without
# its hint encoder.
_CONTROLNET = 268.6e9
# Tokens that questions for the alternatives of three keywords read (engine/models/networks.py).
_ALTERNATIVES_READ = 3 * 40

Change = Callable[[Profile], Profile]


@dataclass(frozen=True)
class Lever:
    """Something that makes a profile cheaper, by `brings` GPU-hours per 1,000 accepted variants at 60 %; `taken` by it
    or not, and why.
    """

    name: str
    taken: bool
    brings: float
    why: str


def project(profile: Profile, controls: int = 0) -> Estimate:
    """The estimate by the facts that come with the engine, whatever was exported or measured on this machine.

    `controls` of each source are painted beside the variants and not counted among them.
    """
    with tempfile.TemporaryDirectory() as folder:
        return estimate(replace(profile, models=ModelPaths(folder)), SOURCES, VARIANTS, controls=controls)


def per_1k(found: Estimate, seconds: float) -> float:
    """Seconds of the whole run as GPU-hours per 1,000 accepted variants."""
    assert found.accepted_share is not None
    return 1000 * seconds / 3600 / (found.variants * found.accepted_share)


def cost(profile: Profile) -> float:
    """GPU-hours per 1,000 accepted variants at 60 %."""
    found = project(profile).at(OTHER_SHARE)
    return per_1k(found, found.wall_s)


def figures() -> dict[str, float]:
    """What docs/a10g.json says of projections."""
    fast = load_profile("a10g-fast")
    profiles = {"a10g": load_profile("a10g"), "a10g_fast": fast, "a10g_fast_taesd": taesd(fast)}
    costs = {f"{key}_gpu_hours_per_1k": round(cost(profile), 3) for key, profile in profiles.items()}
    return costs | {"utilisation": OTHER_SHARE}


def saved(profile: Profile, flops: float) -> float:
    """GPU-hours per 1,000 accepted variants of so many operations per variant."""
    assert profile.device is not None
    seconds = flops / (1e12 * profile.device.tflops * OTHER_SHARE)
    return 1000 * seconds / 3600 / profile.device.accepted


def captions(texts: int | None = None, batch: int | None = None, tokens: int | None = None) -> Change:
    """Other captions of a source, rows at once, or tokens of a caption."""

    def change(profile: Profile) -> Profile:
        caption = profile.caption
        decoding = replace(caption.decoding, max_tokens=tokens or caption.decoding.max_tokens)
        return replace(
            profile,
            caption=replace(caption, texts=texts or caption.texts, batch=batch or caption.batch, decoding=decoding),
        )

    return change


def guided(start: float, stop: float) -> Change:
    """Guidance on other steps."""

    def change(profile: Profile) -> Profile:
        guidance = replace(profile.paint.guidance, start=start, stop=stop)
        return replace(profile, paint=replace(profile.paint, guidance=guidance))

    return change


def written_once(profile: Profile) -> Profile:
    """The profile whose captions are not written again, whether they name their label or not."""
    return replace(profile, caption=replace(profile.caption, label_prefix=None))


def verbatim(held: bool) -> Change:
    """Whether words that no edit touches are held by the grammar."""
    return lambda profile: replace(profile, rewrite=replace(profile.rewrite, verbatim=held))


def shards(sources: int) -> Change:
    """Shards of so many sources."""
    return lambda profile: replace(profile, shard_sources=sources)


def taesd(profile: Profile) -> Profile:
    """The profile with TAESD for a decoder."""
    assert profile.weights is not None
    return replace(profile, weights=replace(profile.weights, tiny_vae="madebyollin/taesd"))


def levers(profile: Profile) -> list[Lever]:
    """What makes the profile cheaper, each by itself: what is taken already, and what is not."""
    now, facts, guides = cost(profile), plan_facts(profile), profile.paint.guidance.guides
    few_steps = profile.paint.sampler.kind == "lcm"
    steps, shard = profile.paint.sampler.steps, profile.shard_sources

    def was(change: Change) -> float:
        return cost(change(profile)) - now

    found = [
        Lever(f"shards of {shard:,} sources, 512 before", True, was(shards(512)), "plans are read less often"),
    ]
    if few_steps:
        found += [
            Lever(
                "captions verbatim but for their edits",
                True,
                was(verbatim(False)),
                "forced tokens are read with the prompt, or not at all; every caption passes the word checks",
            ),
            Lever(
                "TAESD decodes",
                False,
                now - cost(taesd(profile)),
                "an option; its pictures were not judged",
            ),
        ]
    else:
        uncontrolled = sum(guides(i, steps) for i in range(steps))
        found += [
            Lever("guidance on half of the steps, all before", True, was(guided(0.0, 1.0)), "performance.md"),
            Lever(
                "guidance on 6 of 20 steps",
                False,
                -was(guided(0.35, 0.65)),
                "the pocket models lose 1.1 points of weather and time (0 to 2.9) with 3 of 8 steps instead of 4",
            ),
            Lever(
                "no ControlNet on rows without text",
                False,
                saved(profile, uncontrolled * _CONTROLNET),
                "the pocket models lose 2.3 to 5.7 points of weather and time (log.md); takes a second graph",
            ),
            Lever(
                "captions verbatim but for their edits",
                False,
                -was(verbatim(True)),
                "the paper's model writes the sentence anew",
            ),
        ]
    return [
        *found,
        Lever(
            "48 caption rows at once, 16 before",
            True,
            was(captions(batch=8)),
            "weights are read once for all rows of a token; their cache takes 3.2 GB",
        ),
        Lever(
            "64 caption rows",
            False,
            -was(captions(batch=32)),
            "scratch memory of pictures grows with them, and no plan of that size was compiled",
        ),
        Lever(
            "captions of 25 tokens at most",
            False,
            -was(captions(tokens=25)),
            "50 is the paper's; COCO's captions have some 13, and the longest of a batch ends it",
        ),
        Lever(
            "one caption per source",
            False,
            -was(captions(texts=1, batch=profile.caption.texts * profile.caption.batch)),
            "two mention more small objects",
        ),
        Lever(
            "no caption written again after its label",
            False,
            -was(written_once),
            "18 % of real captions name no label, and their sources would have no variants",
        ),
        Lever(
            "keywords and alternatives in one answer",
            False,
            saved(profile, facts["llm"].flops * _ALTERNATIVES_READ / VARIANTS),
            "other prompts, of which no model of that size was asked",
        ),
        Lever(
            "all variants accepted",
            False,
            now * (1 - profile.device.accepted if profile.device else 0),
            "assumed 90 %; a rejected picture costs as much as an accepted one",
        ),
    ]


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
    return Table(f"{profile.name}: GPU-hours per 1,000 accepted", columns, tuple(rows))


def show(profile: Profile) -> dict[str, Any]:
    """Print a profile's projection; returns what the JSON line says of it."""
    terminal, reached, goal = Terminal(), cost(profile), GOALS[profile.name]
    table = stage_table(profile)
    print(f"\n{table.title} variants; the parts are of {OTHER_SHARE:.0%}")
    terminal.show(table)
    found = levers(profile)
    print("\nlevers, each by itself")
    for lever in sorted(found, key=lambda lever: (not lever.taken, -lever.brings)):
        state = "brings" if lever.taken else "would bring"
        print(f"  {state:>11} {lever.brings:.4f}  {lever.name}: {lever.why}")
    short = reached - goal
    print(f"goal {goal}: " + (f"missed by {short:.3f}" if short > 0 else f"reached, {-short:.3f} to spare"))
    return {
        "goal": goal,
        "gpu_hours_per_1k_accepted": reached,
        "levers": {lever.name: round(lever.brings, 4) for lever in found},
    }


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as documents have it."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def document() -> str:
    """The tables of docs/production.md."""
    whole = []
    fast = load_profile("a10g-fast")
    for name, profile in (
        ("`a10g`", load_profile("a10g")),
        ("`a10g-fast`", fast),
        ("`a10g-fast` with TAESD, by option", taesd(fast)),
        ("`lance`", load_profile("lance")),
    ):
        low = project(profile)
        beside = project(profile, controls=1).at(OTHER_SHARE)
        each = [per_1k(found, found.wall_s) for found in (low, low.at(OTHER_SHARE), beside)]
        whole.append((name, *(f"{value:.3f}" for value in each), f"{GOALS.get(profile.name, 'none')}"))
    whole.append(("the paper's, measured by its authors", "0.768 per 1,000 images", "", "", ""))
    text = markdown(("profile", "50 % reached", "60 % reached", "60 %, a control per source", "goal at 60 %"), whole)
    for name in GOALS:
        profile = load_profile(name)
        table = stage_table(profile)
        text += f"\n`{name}`, of 60 %:\n\n" + markdown(
            (table.columns[0], "all", *table.columns[3:]), [(row[0], *row[2:]) for row in table.rows]
        )
        rows = [
            (lever.name, "yes" if lever.taken else "no", f"{lever.brings:.4f}", lever.why) for lever in levers(profile)
        ]
        text += "\n" + markdown(("lever, by itself", "taken", "brings", "why"), rows)
    return text


def write() -> None:
    """Put the figures into docs/a10g.json and the tables into docs/production.md, leaving what else they say."""
    said = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps(said | figures(), indent=2) + "\n")
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{document()}\n{_END}{rest.partition(_END)[2]}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put figures and tables into the documents")
    asked = parser.parse_args()
    found: dict[str, Any] = {name: show(load_profile(name)) for name in GOALS}
    if asked.write:
        write()
    finish("projection", None, **(figures() | found))


if __name__ == "__main__":
    main()
