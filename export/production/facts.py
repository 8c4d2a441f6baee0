"""`python -m counterfactory.export facts`: what estimates need to know of plans, counted in the graphs of an export.

Each graph's operations for one row, of a square picture of a10g's short side, the bytes of its weights on the device,
and what a token takes in a decoder's cache. A decoder that was not exported, and the language model, are counted from
their published sizes. What other profiles of the folder have beside a10g's is counted where it was exported.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.flops import count_flops, input_names
from counterfactory.engine.models.network import Network
from counterfactory.engine.profile.profile import load_profile

from .graph import exported_networks
from .workspace import onnx_bytes

_HALF = 2  # bytes of a number in a cache
# Made only where an export was asked for them.
_OPTIONAL = ("denoiser_int8", "denoiser_shallow", "hed", "sentence", "editor", "vae_encoder")


# Published sizes of decoders: layers, width, inner width, vocabulary, matrices of the feed-forward part (3 where it is
# gated), bits of a weight. Zhang et al. 2022 (arXiv 2205.01068, table 1); Touvron et al. 2023 (arXiv 2307.09288), in
# EXL2 at 5 bits.
OPT = {"2.7b": (32, 2560, 10240, 50272, 2, 16), "6.7b": (32, 4096, 16384, 50272, 2, 16)}
# Florence-2 base's decoder: layers and width (arXiv 2311.06242).
_FLORENCE2 = (6, 768)
LLAMA_13B = (40, 5120, 13824, 32000, 3, 5)


def facts(out: Path, captioner: str = "6.7b") -> list[dict[str, Any]]:
    """The facts of every plan that a suite needs, and of those of `_OPTIONAL` that were exported.

    Raises CounterfactoryError for a graph that `out` lacks.
    """
    profile = load_profile("a10g")
    networks = {n.name: n for n in exported_networks(profile) if n.tokens is None}
    networks |= dict.fromkeys(("denoiser_int8", "editor"), networks["denoiser"])
    networks["sentence"] = networks["clip_text"]  # as little of it depends on pictures
    networks |= {n.name: n for n in exported_networks(load_profile("lance")) if n.name == "vae_encoder"}
    made = [name for name in networks if name not in _OPTIONAL or (out / "onnx" / name).is_dir()]
    rows = [_row(out, name, networks[name], profile.image.short_side) for name in made]
    return [*rows, _decoder_row("opt_decoder", *OPT[captioner]), _decoder_row("llm", *LLAMA_13B)]


def florence2_facts(out: Path) -> list[dict[str, Any]]:
    """The facts of Florence-2 as captioner, in an export of profile gpu: of its decoder a token in the middle of the
    longest caption. Raises CounterfactoryError for a graph that `out` lacks.
    """
    profile = load_profile("gpu")
    vision, decoder = (exported_networks(profile)[name] for name in ("blip2_vision", "opt_decoder"))
    row = _row(out, vision.plan, vision, profile.image.short_side) | {"name": "florence2_vision"}
    graph, written = out / "onnx" / decoder.plan / "model.onnx", profile.caption.decoding.max_tokens
    new = ("inputs_embeds", "position_ids")
    lengths = {name: 1 if name in new else written // 2 for name in input_names(graph)}
    width = {"weight_bytes": onnx_bytes(graph), "cache_bytes": 2 * _FLORENCE2[0] * _FLORENCE2[1] * _HALF}
    flops = count_flops(graph, 1, lengths=lengths)
    return [row, {"name": "florence2_decoder", "flops": flops, **width, "random": row["random"]}]


def _decoder_row(
    name: str, layers: int, width: int, inner: int, vocabulary: int, matrices: int, bits: int
) -> dict[str, Any]:
    """The facts of a decoder of a published size, a token a row."""
    # A token is multiplied with all weights but the table that looks tokens up; OPT's table is its head.
    products = layers * (4 * width**2 + matrices * width * inner) + vocabulary * width
    weights = products + vocabulary * width * (matrices == 3)
    size = {"weight_bytes": round(weights * bits / 8), "cache_bytes": 2 * layers * width * _HALF}
    return {"name": name, "flops": 2 * products, **size}


def _row(out: Path, name: str, network: Network, side: int) -> dict[str, Any]:
    folder = out / "onnx" / name
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        factor = json.loads((out / "latent.json").read_text())["factor"]
    except (OSError, ValueError, KeyError) as error:
        need = f"the facts of {name} need its graph in {out}, and latent.json"
        raise CounterfactoryError(f"{need}: {error!r}; export it") from error
    sizes = network.sizes_at((side, side), (side // factor, side // factor))
    graph = folder / "model.onnx"
    asked = set(input_names(graph))  # an editor may have no hints
    flops = count_flops(graph, 1, {name: size for name, size in sizes.items() if name in asked})
    size = {"weight_bytes": onnx_bytes(graph), "cache_bytes": 0}
    return {"name": name, "flops": flops, **size, "random": bool(manifest["random"])}


def add_command(commands: Any) -> None:
    parser = commands.add_parser("facts", help="count what estimates need of an export's plans", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the export")
    size = "size of its OPT; florence2 is added to a file"
    parser.add_argument("--captioner", choices=(*OPT, "florence2"), default="6.7b", help=size)
    parser.add_argument("--to", type=Path, help="file to write (facts.json in the folder)")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    file = asked.to or asked.out / "facts.json"
    if asked.captioner == "florence2":
        new = florence2_facts(asked.out)
        rows = [row for row in json.loads(file.read_text()) if row["name"] not in {one["name"] for one in new}] + new
    else:
        rows = facts(asked.out, asked.captioner)
    file.write_text(json.dumps(rows, indent=2) + "\n")
    say(f"{file}: " + ", ".join(f"{row['name']} {row['flops'] / 1e9:.1f} GFLOP" for row in rows))
    return 0
