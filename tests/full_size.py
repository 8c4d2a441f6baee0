"""Every graph of every shipped profile at the profile's own sizes and batches: `python tests/full_size.py [--write]`.

Each is exported with random weights, compared with its module, and compiled by TensorRT-RTX for the A10G, and for the
smallest and the largest card of `targets.py`; OpenVINO's forms need no plan. Each is made alone and deleted after it,
so that the most is taken by the largest: the captioner's decoder, about 20 GB of memory and 40 of disk. What this
machine has too little memory for is left out and said. No GPU is needed, and nothing runs on one.

`--write` keeps what came of a graph in docs/full_size.json as soon as it is done, with the day, and the digest of the
code that made it: a run that was cut goes on where it stopped, and what was made by other code is made anew. Counts go
into docs/a10g.json, and the table into docs/production.md.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from mutants import ROOT, write_figures

from counterfactory.engine.cli.rehearse import random_forms
from counterfactory.engine.meter.machine import free_memory
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.small import ISLANDS
from counterfactory.engine.runtime.plans import read_key
from counterfactory.export.production.graph import exported_networks

RECORD, FIGURES, PAGE = (ROOT / "docs" / name for name in ("full_size.json", "a10g.json", "production.md"))
BEGIN, END = "<!-- begin: python tests/full_size.py --write -->", "<!-- end -->"
PROFILES = ("a10g", "a10g-fast", "lance", "gpu", "cpu")
TARGETS = ("sm86", "sm75", "sm120")
# In 10^9 bytes, of the machine: what making and compiling takes, of graphs that take more than USUAL_GB.
NEEDS_GB = {
    "blip2_vision": 13,
    "opt_decoder": 22,
    "denoiser": 17,
    "denoiser_shallow": 6,
    "editor": 6,
    "denoiser_lcm": 8,
}
USUAL_GB = 4
# What decides a graph and its plans: for all of them, and by the network's name. Weights that are fetched or trained,
# and calibration, are other matters.
_COMMON = (
    *(f"export/graphs/{name}.py" for name in ("modules", "tracing")),
    *(f"export/plans/{name}.py" for name in ("checks", "tensorrt", "writing")),
    *(f"export/precision/{name}.py" for name in ("half", "rounding", "stored")),
    *(f"export/production/{name}.py" for name in ("activations", "graph", "workspace")),
)
_OWN = {
    "blip2_vision": ("production/blip2", "production/florence2", "graphs/florence2"),
    "opt_decoder": ("production/blip2", "production/florence2", "graphs/florence2"),
    "clip_text": ("production/clip",),
    "clip_image": ("production/clip",),
    "sentence": ("production/sentence",),
    "hed": ("production/hed",),
    "vae_encoder": ("production/vae",),
    "vae_decoder": ("production/vae",),
}
_PAINTS = ("production/denoiser", "graphs/editing")
# What a statement begins after.
_BEFORE = (tokenize.ENCODING, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


@dataclass(frozen=True)
class Made:
    """A graph of a profile: `name` is the network's, `plan` that of its file."""

    profile: str
    name: str
    plan: str

    @property
    def key(self) -> str:
        return f"{self.profile}/{self.plan}"

    @property
    def needs_gb(self) -> float:
        small = self.profile in ("gpu", "cpu") and self.name in ("blip2_vision", "opt_decoder")  # Florence-2
        return USUAL_GB if small else NEEDS_GB.get(self.plan, NEEDS_GB.get(self.name, USUAL_GB))


def graphs() -> Iterator[Made]:
    """Those of all profiles; what profiles of one folder share counts once."""
    seen = set()
    for name in PROFILES:
        profile = load_profile(name)
        for network in exported_networks(profile):
            plan = network.plan.removesuffix("_int8")
            if (profile.models.folder, plan) not in seen:
                seen.add((profile.models.folder, plan))
                yield Made(name, network.name, plan)


@cache
def code(name: str) -> str:
    """The digest of the code that makes a network's graph, but for comments, docstrings and the breaks of lines."""
    digest = hashlib.sha256()
    for file in (*_COMMON, *(f"export/{own}.py" for own in _OWN.get(name, _PAINTS))):
        digest.update(file.encode() + _bare((ROOT / file).read_bytes()).encode())
    return digest.hexdigest()[:16]


def _bare(source: bytes) -> str:
    dropped = (tokenize.COMMENT, tokenize.NL)
    tokens = [one for one in tokenize.tokenize(io.BytesIO(source).readline) if one.type not in dropped]
    kept = [one for before, one in pairwise(tokens) if one.type != tokenize.STRING or before.type not in _BEFORE]
    return "".join("".join(one.string for one in kept).split())


def record() -> dict[str, Any]:
    """What is known, by a graph's key."""
    known: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))["graphs"] if RECORD.is_file() else {}
    return known


def make(made: Made, out: Path, target: str | None) -> dict[str, Any]:
    """Export a graph to `out`, unless it lies there, and compile it for `target`; its row of export.json, and what went
    wrong.
    """
    profile = load_profile(made.profile)
    words = ["a10g", "--random", "--profile", made.profile, "--only", made.name, *random_forms(profile)]
    words += ["--out", str(out)]
    words += ["--islands", ISLANDS] if profile.runtime.backend != "openvino" else []
    words += [] if target is None else ["--plans", "--library", "tensorrt-rtx", "--target", target]
    command = [sys.executable, "-m", "counterfactory.export", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = json.loads((out / "export.json").read_text()) if (out / "export.json").is_file() else []
    (row,) = [row for row in rows if row["name"] == made.plan] or [{}]
    return {**row, "why": _last(ran) if ran.returncode else row.get("why", "")}


def _last(ran: subprocess.CompletedProcess[str]) -> str:
    return ([line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()] or ["nothing was said"])[-1]


def exported(row: dict[str, Any]) -> dict[str, Any]:
    """Of an exporter's row what the record has of a graph."""
    if "parity_error" not in row:
        return {"why": row["why"]}
    sizes = {"parameters_m": round(row["parameters"] / 1e6, 1), "onnx_mb": round(row["onnx_bytes"] / 1e6, 1)}
    took = {"core_s": round(row["core_seconds"]), "peak_gb": round(row["peak_memory_bytes"] / 1e9, 1)}
    return {**sizes, "off": float(f"{row['parity_error']:.1e}"), "bound": row["parity_bound"], **took}


def compiled(row: dict[str, Any], plan: Path) -> dict[str, Any]:
    """Of an exporter's row, and the plan's key, what the record has of a plan."""
    if not row["compiled"]:
        return {"why": row["why"]}
    key = read_key(plan)
    sizes = {"plan": row["plan_bytes"], "scratch": key.scratch_bytes or 0, "allowed": row["workspace_bytes"] or 0}
    counted = {"attentions": row["attentions"], "fused": row["fused_attention"]}
    taken = {"seconds": round(row["plan_seconds"]), "peak_gb": round(row["peak_memory_bytes"] / 1e9, 1)}
    return {**{f"{name}_mb": round(nbytes / 1e6, 1) for name, nbytes in sizes.items()}, **counted, **taken}


def do(made: Made, targets: Sequence[str], known: dict[str, Any], limit_gb: float) -> Iterator[dict[str, Any]]:
    """Make what is not `known` of a graph; the entry after each part of it."""
    stamp = {"code": code(made.name), "day": f"{datetime.now(UTC):%Y-%m-%d}"}
    entry = known if known.get("code") == stamp["code"] and "off" in known else {}
    onnx = load_profile(made.profile).runtime.backend != "openvino"
    left = [target for target in targets if "plan_mb" not in entry.get("plans", {}).get(target, {})] if onnx else []
    if entry and not left:
        return
    if made.needs_gb > limit_gb:
        yield entry or stamp | {"why": f"takes {made.needs_gb:g} GB of memory to make, {limit_gb:.0f} were free"}
        return
    with tempfile.TemporaryDirectory(prefix="full-size-") as folder:
        out, plans = Path(folder), entry.get("plans", {})
        for target in left or [None]:
            row = make(made, out, target)
            if target is not None and "compiled" in row:
                plans = {**plans, target: compiled(row, out / "plans" / f"{made.plan}.plan")}
            entry = {**stamp, **exported(row), "plans": plans}
            yield entry


def write(key: str, entry: dict[str, Any]) -> None:
    """Keep what is known of a graph, in the order of the profiles, and the counts."""
    known = record() | {key: entry}
    write_figures(RECORD, {"graphs": {made.key: known.get(made.key, {"why": "not made yet"}) for made in graphs()}})
    write_figures(FIGURES, counts())
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def counts() -> dict[str, int]:
    """Graphs that keep their bound, and those of them with a plan for an A10G, of the code that is there."""
    known = record()
    made = [known[one.key] for one in graphs() if known.get(one.key, {}).get("code") == code(one.name)]
    held = [one for one in made if one.get("off", 1.0) <= one.get("bound", 0.0)]
    planned = [one for one in held if "plan_mb" in one["plans"].get("sm86", {})]
    return {"full_size_graphs": len(held), "full_size_compiled": len(planned)}


def table(target: str = "sm86") -> str:
    """Markdown: a row a graph, with its plan for one target and how many of the others it compiled for."""
    head = (
        "graph",
        "parameters, M",
        "off",
        "peak, GB",
        "plan, MB",
        "scratch, MB",
        "compiled in, s",
        "fused",
        "others",
        "day",
    )
    lines = [head, ("---",) * len(head)]
    for key, one in record().items():
        plans = one.get("plans", {})
        plan = plans.get(target, {})
        fused = f"{plan['fused']}/{plan['attentions']}" if plan.get("attentions") else ""
        others = [name for name, other in plans.items() if name != target and "plan_mb" in other]
        figures = [one.get("parameters_m", one.get("why", "")), one.get("off", ""), one.get("peak_gb", "")]
        figures += [plan.get(name, "") for name in ("plan_mb", "scratch_mb", "seconds")]
        said = (f"{figure:,}" if isinstance(figure, float) else str(figure) for figure in figures)
        lines.append((key, *said, fused, ",".join(others), one.get("day", "")))
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def with_table(page: str) -> str:
    """The page with today's table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}{END}{after}"


def main(argv: Sequence[str]) -> int:
    """Make, print, write; returns the exit status, 1 where a graph misses its bound or a plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="some of them, with commas: a10g/vae_decoder,gpu/blip2_vision_beams")
    parser.add_argument(
        "--targets", default=",".join(TARGETS), help="compute capabilities to compile for (%(default)s)"
    )
    parser.add_argument("--memory", type=float, metavar="GB", help="how much may be taken (default: what is free)")
    parser.add_argument("--again", action="store_true", help="make also what the record has of this code")
    parser.add_argument("--write", action="store_true", help="keep what came of it in docs/full_size.json")
    args = parser.parse_args(argv)
    limit_gb = free_memory()[0] / 1e9 if args.memory is None else args.memory
    only, wrong = set(filter(None, args.only.split(","))), 0
    if unknown := only - {made.key for made in graphs()}:
        parser.error(f"no graph {', '.join(sorted(unknown))}; there are {', '.join(made.key for made in graphs())}")
    for made in graphs():
        if only and made.key not in only:
            continue
        entry: dict[str, Any] = {}
        for entry in do(made, args.targets.split(","), {} if args.again else record().get(made.key, {}), limit_gb):
            print(made.key, json.dumps(entry), flush=True)  # noqa: T201 - a command's output
            if args.write:
                write(made.key, entry)
        failed = "off" in entry and (
            entry["off"] > entry["bound"] or any("why" in one for one in entry["plans"].values())
        )
        wrong += failed or ("why" in entry and made.needs_gb <= limit_gb)
    print(table(), end="")  # noqa: T201
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
