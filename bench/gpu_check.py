"""What of the GPU path holds on the card of this machine: one call, without a network, a table and a JSON object.

    python -m counterfactory.export a10g --random --small --out NETWORKS      # anywhere; no GPU is needed
    python bench/gpu_check.py --networks NETWORKS --json gpu.json

    kernels    our Triton kernels, bit for bit against their references, over fresh numbers and poisoned outputs
    cuda       memory, two streams, events, a recording, errors and what is given back: the calls of runtime/cuda.py
    networks   every graph of NETWORKS through ONNX Runtime's CUDA provider, against its CPU provider
    painting   variants painted without leaving the device, against the same painted on the CPU, and the speed-up
    journey    `generate` by both providers: equal captions and edits, and the pictures' distance
    poison     NaN in one row of a graph's inputs: the rows beside it are what they were
    language   a tiny Llama under a grammar through ExLlamaV3, against transformers token by token
    size       `--full NETWORKS`, an export of full size: rows a second of the denoiser, of the 16 that a plan takes
    speed      the same: pictures a second of a10g's painting, with deep features used again and without
    peer       diffusers' pipeline over networks of that size on this card, as it paints: pictures a second

A check that fails says why, and the others go on; the status is 1. What a machine lacks is left out, by name.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gpu_card import Card, Figures, check_cuda, check_kernels
from gpu_networks import (
    check_journey,
    check_networks,
    check_painting,
    check_poison,
    check_size,
    check_speed,
    small_profile,
)

from counterfactory.engine.runtime import cuda as cuda_calls


def facts(card: Card) -> Figures:
    """The card, its driver, and what ran on it."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    names = ("onnxruntime-gpu", "triton", "cuda-bindings", "torch", "exllamav3", "openvino")
    releases = {}
    for name in names:
        try:
            releases[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "card": told, "capability": cuda_calls.capability(card.cuda.runtime), "python": platform.python_version(),
        "releases": releases, "date": date.today().isoformat(),
    }  # fmt: skip


def run_all(arguments: argparse.Namespace, checks: Iterable[tuple[str, Callable[[], Figures]]]) -> tuple[Figures, bool]:
    """Each check's figures or its error, as they come; whether none failed."""
    results, fine = Figures(), True
    for name, check in checks:
        if arguments.only and name not in arguments.only:
            continue
        began = time.perf_counter()
        try:
            results[name] = {"holds": True, **check()}
        except Exception as error:
            results[name] = {"holds": False, "error": f"{type(error).__name__}: {error}"}
            fine = False
            traceback.print_exc()
        results[name]["wall_s"] = round(time.perf_counter() - began, 2)
        sys.stdout.write(f"{name:10} {json.dumps(results[name], default=str)}\n")
        sys.stdout.flush()
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1, default=str) + "\n")
    return results, fine


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=Path, help="folder of a small random export")
    parser.add_argument("--full", type=Path, help="folder of a random export of full size, with the denoiser")
    parser.add_argument("--only", nargs="*", default=[], help="some of the checks")
    parser.add_argument("--json", type=Path, help="write the figures there, after each check")
    arguments = parser.parse_args(argv)
    card = Card()
    checks: list[tuple[str, Callable[[], Figures]]] = [
        ("facts", lambda: facts(card)),
        ("kernels", lambda: check_kernels(card)),
        ("cuda", lambda: check_cuda(card)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder)
        if arguments.networks:
            profiles = {one: small_profile(arguments.networks, one, into) for one in ("cpu", "cuda")}
            checks += [
                ("networks", lambda: check_networks(card, profiles)),
                ("poison", lambda: check_poison(card, profiles)),
                ("painting", lambda: check_painting(card, profiles)),
            ]
            if importlib.util.find_spec("openvino"):
                checks.append(("journey", lambda: check_journey(card, profiles, into)))
        if importlib.util.find_spec("exllamav3"):
            from gpu_language import check_language

            checks.append(("language", lambda: check_language(into)))
        if arguments.full:
            checks += [
                ("size", lambda: check_size(card, arguments.full)),
                ("speed", lambda: check_speed(arguments.full, into)),
            ]
            if importlib.util.find_spec("diffusers"):
                from gpu_peer import check_peer

                checks.append(("peer", check_peer))
        _, fine = run_all(arguments, checks)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
