"""Claim: the whole journey makes at least 10 times as many accepted variants an hour as the scripts a user would write.

Renders N street scenes, takes them to a suite of K variants each, and prints what that cost: by stage, beside the
paper's figure, and as shares of what the machine's matrix products allow. `--against reference` runs transformers and
diffusers one image at a time in the same process on the same weights, prompts and steps, by turns with the engine;
`--against diffusers-batched` their best configuration on a CPU, where the claim is 3 times. Seconds of loading are
shown and left out of the ratio for both. `--size sd15` measures painting at Stable Diffusion's size. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

from journeys import Bench, Run, render_sources
from measure import Ratio, finish

from counterfactory.engine.cli.run_text import cost_line, cost_table, count_line, use_line
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.config.networks import library_of
from counterfactory.engine.config.profile import Profile, load_profile
from counterfactory.engine.estimate.estimate import cpu_precision
from counterfactory.engine.estimate.formulas import known_facts
from counterfactory.engine.estimate.peak import measure_peak
from counterfactory.engine.journey import JourneySettings, RunSummary
from counterfactory.engine.pocket.world import SIZE
from counterfactory.engine.report.table import Table
from counterfactory.engine.tasks.task import builtin_task

# DILLEMA, arXiv 2502.04378.
PAPER = "0.768 GPU-hours per 1,000 images on one A10G (24 GB): ImageNet-1K, 125,000 images in 96 GPU-hours"
PEERS = ("reference", "diffusers-batched")
# Peers take so many sources unless told otherwise: a round of the reference then takes about as long as a tea.
PEER_SOURCES = 8


def ceiling(profile: Profile, report: RunSummary) -> tuple[Table, dict[str, float], float]:
    """What share of the measured matrix product each plan and each stage reached, and the whole run without loading."""
    library = library_of(profile)
    facts = known_facts(profile, library, (SIZE, SIZE))
    precisions = {plan: "int8" if fact.integers else cpu_precision(profile) for plan, fact in facts.items()}
    peaks = {precision: measure_peak(precision, profile.runtime.threads) for precision in set(precisions.values())}
    row_flops = {plan: fact.flops for plan, fact in facts.items()}
    # The tokens that are read at once are one row of a call, as each that is written is.
    tokens = library.networks["opt_decoder"].tokens
    assert tokens is not None
    row_flops["opt_decoder"] *= (tokens.read + tokens.written) / tokens.written
    # Prompts are mostly in the cache: only what was written is counted, so the language model's share is at least this.
    written = sum(stage.generated_tokens for stage in report.stages)
    rows: list[tuple[str, ...]] = []
    shares: dict[str, float] = {}
    least_s = 0.0
    for stage in report.stages:
        needed = counted = 0.0
        for plan in (plan for plan in report.plans if plan.stage == stage.stage):
            count = written if plan.plan == "llm" else plan.rows
            flops = row_flops[plan.plan] * count
            peak = peaks[precisions[plan.plan]]
            needed, counted = needed + flops / peak, counted + flops
            name = "llm (tokens written)" if plan.plan == "llm" else plan.plan
            rows.append((f"  {name}", f"{count:,}", *_shared(flops, flops / peak, plan.busy_s)))
        spent = stage.wall_s - stage.load_s
        shares[stage.stage] = needed / spent if spent > 0 else 0.0
        rows.append((f"{stage.stage}, idle included", "", *_shared(counted, needed, spent)))
        least_s += needed
    told = ", ".join(f"{peak / 1e12:.3f} TFLOP/s in {precision}" for precision, peak in sorted(peaks.items()))
    title = f"Of this machine's matrix products: {told}, each network of its own"
    table = Table(title, ("stage", "rows", "s", "GFLOP", "% of peak"), tuple(rows))
    return table, shares, least_s / (report.wall_s - report.models_load_s)


def _shared(flops: float, needed_s: float, spent_s: float) -> tuple[str, str, str]:
    return f"{spent_s:.2f}", f"{flops / 1e9:.1f}", f"{100 * needed_s / spent_s:.1f}" if spent_s > 0 else "-"


def show(profile: Profile, run: Run) -> dict[str, Any]:
    """Print a run's tables; returns what the JSON line says of it."""
    terminal, report = Terminal(), run.report
    terminal.say(cost_line(report))
    terminal.say(f"paper      {PAPER}")
    terminal.say(count_line(report))
    terminal.say(use_line(report))
    terminal.show(cost_table(report))
    table, shares, whole = ceiling(profile, report)
    terminal.say(table.title)
    terminal.show(table)
    stages = [
        {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(stage).items()}
        | {"ceiling_share": round(shares[stage.stage], 4)}
        for stage in report.stages
    ]
    return {
        "ceiling_share": whole,
        "accepted": report.accepted,
        "accepted_per_hour": 3600 * report.accepted / report.wall_s,
        "device_hours_per_1k": report.device_hours_per_1k_accepted,
        "load_s": report.models_load_s,
        "wall_s": report.wall_s,
        "cpu_s": run.spent.cpu_s,
        "peak_memory_bytes": report.peak_memory_bytes,
        "stages": stages,
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="pocket", help="a profile's name or file")
    parser.add_argument("--sources", type=int, default=24)
    parser.add_argument("--variants", type=int, default=5, help="of each source")
    parser.add_argument("--json", type=Path, help="write the last line to this file too")
    parser.add_argument("--against", choices=PEERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-sources", type=int, default=PEER_SOURCES, help="how many of them the peer takes")
    parser.add_argument("--compile", action="store_true", help="diffusers-batched under torch.compile (minutes)")
    parser.add_argument("--size", choices=("pocket", "sd15"), default="pocket")
    asked = parser.parse_args()
    if asked.size == "sd15":
        from sd15 import main_sd15

        main_sd15(asked.against, asked.rounds)
        return
    profile = load_profile(asked.profile)
    settings = JourneySettings(builtin_task("classification"), variants=asked.variants, edits=(1, 3), seed=0)
    ratio: Ratio | None = None
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bench = Bench(profile, settings, render_sources(root / "streets", asked.sources), root)
        run = bench.run("first")
        told: dict[str, Any] = {}
        if asked.against:
            from versus import against

            most = min(asked.peer_sources, asked.sources)
            ratio, runs, told = against(bench, asked.against, most, asked.rounds, asked.compile)
            run = sorted(runs, key=lambda r: r.spent.wall_s)[len(runs) // 2]
    told |= show(profile, run)
    if ratio is not None:
        print(f"{ratio} as many accepted variants an hour as {asked.against}, loading of neither counted")
    line = io.StringIO()
    with redirect_stdout(line):
        finish("run", ratio, **told)
    if asked.json:
        asked.json.write_text(line.getvalue())
    print(line.getvalue(), end="")


if __name__ == "__main__":
    main()
