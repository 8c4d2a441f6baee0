"""Claim: BLIP-2's decoder is exported and compiled in 24 GB of memory, at OPT-6.7B's full size.

A checkpoint with seeded random weights is written first, in bf16 and in files of 2 GB, as BLIP-2's are published; the
export command then reads it as a user's, in a process of its own, down to the plan. `peak_gb` is the most that this
process held, mapped files left out (export/production/peak.py). Fewer layers show what grows with depth: the
compiler's copy of the weights does, nothing else. Takes the disk of 10 GB per 1,000 million parameters; the folder is
removed at the end.

    python bench/export_memory.py --folder DIR [--captioner 6.7b] [--layers 32] [--plans tensorrt_rtx]
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import torch
from measure import finish
from safetensors.torch import save_file
from transformers import OPTForCausalLM

from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.graphs.mapped import build_empty
from counterfactory.export.graphs.weights import drawn
from counterfactory.export.production import blip2, command
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.graph import Request, Sources
from counterfactory.export.production.small_words import opt_tokenizer

SHARD_BYTES = 2_000_000_000
BAR_GB = 24


def write_checkpoint(folder: Path, captioner: str, layers: int) -> int:
    """A BLIP-2 folder, its weights in bf16; returns their bytes."""
    folder.mkdir(parents=True)
    config = blip2.config_of(Request(captioner=captioner))
    config.text_config.num_hidden_layers = layers
    config.save_pretrained(folder)
    opt_tokenizer(1000, 3).save(str(folder / "tokenizer.json"))
    parts = {
        "language_model.": build_empty(lambda: OPTForCausalLM(config.text_config)),
        "": build_empty(lambda: blip2.Eyes(config)),
    }
    files: dict[str, str] = {}
    shard: dict[str, torch.Tensor] = {}
    total = 0

    def write() -> None:
        file = f"model-{len(set(files.values())) + 1:05d}.safetensors"
        save_file(shard, folder / file)
        files.update(dict.fromkeys(shard, file))
        shard.clear()

    for prefix, part in parts.items():
        for name, _, values in drawn(part, 7):
            tensor = values.to(torch.bfloat16)
            total += tensor.nbytes
            shard[prefix + name] = tensor
            if sum(one.nbytes for one in shard.values()) > SHARD_BYTES:
                write()
    write()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return total


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder on a disk with room")
    parser.add_argument("--captioner", choices=tuple(blip2.OPT), default="6.7b")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--plans", choices=("tensorrt", "tensorrt_rtx"), help="library that compiles the graph as well")
    asked = parser.parse_args()
    try:
        wrote = write_checkpoint(asked.folder / "blip2", asked.captioner, asked.layers)
        print(f"checkpoint of {wrote / 1e9:.1f} GB")
        profile = load_profile("a10g")
        request = Request(
            Sources(blip2=str(asked.folder / "blip2")),
            prompt_tokens=profile.caption.prompt_tokens,
            caption_tokens=profile.caption.decoding.max_tokens,
        )
        wanted = Asked(plans=bool(asked.plans), library=asked.plans, islands=("normalisation",))
        began = time.perf_counter()
        out = asked.folder / "out"
        faults = command.export_all(request, out, only=["opt_decoder"], asked=wanted, say=print)
        if faults:
            raise SystemExit(f"the export failed: {faults}")
        (row,) = json.loads((out / "export.json").read_text())
    finally:
        shutil.rmtree(asked.folder, ignore_errors=True)
    peak = row["peak_memory_bytes"] / 1e9
    finish(
        "BLIP-2's decoder is exported and compiled in 24 GB of memory",
        None,
        peak_gb=peak,
        layers=asked.layers,
        parameters=row["parameters"],
        checkpoint_gb=wrote / 1e9,
        onnx_gb=row["onnx_bytes"] / 1e9,
        plan_gb=row["plan_bytes"] / 1e9,
        parity_error=row["parity_error"],
        wall_s=time.perf_counter() - began,
    )
    if peak > BAR_GB:
        raise SystemExit(f"peak of {peak:.1f} GB, the bar is {BAR_GB}")


if __name__ == "__main__":
    main()
