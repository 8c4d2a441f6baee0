"""Claim: the whole journey makes at least 10 times as many accepted variants an hour as the scripts a user would write.

Renders N street scenes, takes them to a suite of K variants each, and prints what that cost: by stage, beside the
paper's figure, and as shares of what the machine's matrix products allow. `--against reference` runs transformers and
diffusers one image at a time in the same process on the same weights, prompts and steps, by turns with the engine;
`--against diffusers-batched` their best configuration, where the claim is 3 times on a CPU; `--against openvino` that
on the engine's own runtime. `--write` keeps the figures in docs/performance.json. `ratio` is at equal work and equal
precision: of `--against openvino` it is the one to quote. `ratio_int8` is the engine's int8 against the peer's floats,
and in `ratio_teacher` the peer takes the weights and steps that the denoiser was distilled from, at equal quality only
where `quality_equal` says so.
With a GPU box's profile the peer runs on the same device, on the weights that the profile names or the seeded random
ones of `export a10g --random`. `--size sd15` measures painting at Stable Diffusion's size (sd15.py).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ceiling import ceiling, refuse_without_device
from journeys import Bench, Run, render_sources
from measure import Yardstick, bench_parser, finish, open_yardstick

from counterfactory.engine.cli.run_text import cost_line, cost_table, count_line, use_line
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.engine.request import SuiteRequest

if TYPE_CHECKING:
    from versus import Comparison

    from counterfactory.export.production.graph import Request

# DILLEMA, arXiv 2502.04378.
PAPER = "0.768 GPU-hours per 1,000 images on one A10G (24 GB): ImageNet-1K, 125,000 images in 96 GPU-hours"
PEERS = ("reference", "diffusers-batched", "openvino")


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
    stages = [asdict(stage) | {"ceiling_share": shares[stage.stage]} for stage in report.stages]
    stages = [{k: round(v, 4) if isinstance(v, float) else v for k, v in stage.items()} for stage in stages]
    made = {"accepted": report.accepted, "accepted_per_hour": 3600 * report.accepted / report.wall_s}
    device = {"device": report.device, "device_hours_per_1k": report.device_hours_per_1k_accepted}
    took = {"load_s": report.models_load_s, "wall_s": report.wall_s, "cpu_s": run.spent.cpu_s}
    memory = {"peak_memory_bytes": report.peak_memory_bytes}
    return {"ceiling_share": whole, **made, **device, **took, **memory, "stages": stages}


def told_apart(comparison: Comparison | None, name: str) -> dict[str, Any]:
    """What the JSON line says of a comparison that is not the one at equal work and precision: `ratio_int8` and so on,
    and whether its pictures were as good.
    """
    if comparison is None:
        return {}
    told = comparison.ratio.figures | comparison.told
    names = (
        "ratio",
        "ratio_min",
        "ratio_max",
        "rounds",
        "rounds_dropped",
        "peer_steps",
        "peer_rows",
        "engine_precision",
    )
    quality = {key: value for key, value in told.items() if key.startswith("quality")}
    return {f"{key}_{name}": told[key] for key in (*names, "engine_precision")} | quality


def box_of(asked: argparse.Namespace, profile: Profile) -> Request | None:
    """Where a box's networks come from; None for the pocket's. Ends the bench where the command line does not say."""
    if profile.models.folder == "pocket":
        return None
    from counterfactory.export.production.command import sources_of
    from counterfactory.export.production.graph import Request, Sources

    if asked.against in ("reference", "openvino"):
        said = f"--against {asked.against} is for the pocket networks; with others say --against diffusers-batched"
        raise SystemExit(said)
    if profile.edges.detector == "hed":
        raise SystemExit("peers find edges by the profile's Canny; HED is another network")
    if asked.random:
        return Request(small=asked.small)
    if profile.weights is None:
        raise SystemExit(
            f"the peer is built from the weights that profile {profile.name} names, and it has no table [weights]; add "
            "it, or say --random where its export did"
        )
    return Request(sources=sources_of(profile.weights, Sources()))


def parser_of() -> argparse.ArgumentParser:
    parser = bench_parser(__doc__, uneven=True, write="docs/performance.json")
    parser.add_argument("--profile", default="pocket", help="a profile's name or file")
    parser.add_argument("--sources", type=int, default=24)
    parser.add_argument("--variants", type=int, default=5, help="of each source")
    parser.add_argument("--json", type=Path, help="write the last line to this file too")
    parser.add_argument("--against", choices=PEERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-sources", type=int, default=8, help="how many of them the peer takes")
    parser.add_argument("--compile", action="store_true", help="diffusers-batched under torch.compile (minutes)")
    parser.add_argument("--size", choices=("pocket", "sd15"), default="pocket")
    parser.add_argument("--random", action="store_true", help="the peer of an export with --random")
    parser.add_argument("--small", action="store_true", help="and with --small")
    return parser


def main(arguments: Sequence[str] | None = None, yardstick: Yardstick | None = None) -> None:
    """Run it; `yardstick` tells rounds on a busy machine in the place of the usual one."""
    asked = parser_of().parse_args(arguments)
    if asked.size == "sd15":
        from sd15 import main as paint_sd15

        told_on = [*(["--against", asked.against] if asked.against else []), *(["--write"] if asked.write else [])]
        paint_sd15([*told_on, "--rounds", str(asked.rounds)])
        return
    profile = load_profile(asked.profile)
    # Peers check by CLIP's scores alone: not by pixels, and without the captioner's second look.
    of_pictures = ("intact", "visible", "sharp", "changed", "distinct")
    by_pixels = dict.fromkeys(f"min_{score}" for score in ("valid", "kept", "in_place", "aligned", *of_pictures))
    check = replace(profile.check.having(**by_pixels), recaption=None, recaption_of=None, valid=None)
    profile = replace(profile, check=check)
    if asked.against:  # what is missing there is said before anything is timed
        for one in (profile, painting_as_teacher(profile)):
            box_of(asked, one)
    refuse_without_device(profile)
    # Both sides paint what the captioner says, a vehicle named or not: this bench asks what work costs.
    how: dict[str, Any] = {"controls": 0, "edits": (1, 3), "seed": 0, "allow_ungrounded": True}
    settings = SuiteRequest(street_task("classification"), asked.variants, **how)
    yardstick = yardstick or (open_yardstick(True) if asked.uneven else None)
    comparison: Comparison | None = None
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bench = Bench(profile, settings, render_sources(root / "streets", asked.sources), root)
        run = bench.run("first")
        told: dict[str, Any] = {}
        if asked.against:
            from versus import against

            most = min(asked.peer_sources, asked.sources)
            boxes = partial(box_of, asked)
            found = against(bench, asked.against, most, asked.rounds, asked.compile, boxes, yardstick)
            comparison, timed = found.work, (found.int8 or found.work).runs
            told = comparison.told | told_apart(found.int8, "int8") | told_apart(found.teacher, "teacher")
            run = sorted(timed, key=lambda r: r.spent.wall_s)[len(timed) // 2]
            if found.int8 is not None:
                print(f"{found.int8.ratio} as many as {asked.against} with int8 against its floats, the same steps")
            if found.teacher is not None:
                equal = (
                    "at equal quality" if told.get("quality_equal") else "at a quality that is not shown to be equal"
                )
                print(f"{found.teacher.ratio} as many as {asked.against} in the teacher's steps, {equal}")
    told |= show(profile, run)
    if comparison is not None:
        same = f"at equal work and precision ({told['engine_precision']}), loading of neither counted"
        print(f"{comparison.ratio} as many accepted variants an hour as {asked.against} {same}")
    names = [asked.against or "alone", *([] if profile.name == "pocket" else [profile.name])]
    names += ["compiled"] if asked.compile else []
    keep = " ".join(names) if asked.write else None
    ratio = None if comparison is None else comparison.ratio
    finish("run", ratio, file=asked.json, keep=keep, **told)


if __name__ == "__main__":
    main()
