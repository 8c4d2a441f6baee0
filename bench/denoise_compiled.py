"""Claim: the fused compiled step is at least 3.3 times as fast as diffusers' default and 1.6 times its best in bf16.

One evaluation of a ControlNet and a UNet on the CPU, the same inputs for all: `--size sd15` at Stable Diffusion 1.5's
size (random weights, 512 x 512), `--size pocket` at the embedded model's. The engine's session, to which the hint
embedding is given, against diffusers as its pipeline calls it, which embeds the hint at every step: in fp32, and in
bf16 with channels-last weights (`--compile` compiles those too). `--int8` quantises the engine's network as well. The
ceiling is this machine's matrix product in the same precision. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor2_0
from diffusers.utils import logging
from measure import Ratio, compare, finish
from numpy.typing import NDArray

from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.estimate.peak import PeakPrecision, measure_peak
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.quantise import quantise
from counterfactory.export.graphs.tracing import to_ir
from counterfactory.export.pocket import denoiser as pocket
from counterfactory.export.production import stable_diffusion
from counterfactory.export.production.denoiser import FACTOR, example_inputs, random_controlnet, random_unet

Array = NDArray[Any]
Feeds = dict[str, Array]
Torch = tuple[UNet2DConditionModel, ControlNetModel]

# Root mean square of the difference over that of the fp32 result. bf16 keeps 8 bits and errors of some hundred layers
# add up; int8 is calibrated on one batch and is here for its speed: pictures judge it, see docs.
BOUNDS = {"bf16": 0.05, "int8": 0.3}
_SIDE = {"pocket": 128, "sd15": 512}
_HINT_CHANNELS = {"pocket": 1, "sd15": 3}


@dataclass(frozen=True)
class Exported:
    """Files of the engine's side: hint encoder, fused step, and its int8 form."""

    hint: Path
    denoiser: Path
    int8: Path


def default_cache() -> Path:
    """Where networks too large to make each time are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "counterfactory" / "bench"


def apart(work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)` in a process of its own, which gives all its memory back."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


def pocket_networks() -> Torch:
    """The embedded denoiser's networks with random weights."""
    built = pocket.build()
    for part in (built.unet, built.controlnet):
        part.set_attn_processor(AttnProcessor2_0())  # diffusers' default; the training chooses another
        part.eval().requires_grad_(False)
    return built.unet, built.controlnet


def sd15_networks() -> Torch:
    """Stable Diffusion 1.5's networks with random weights."""
    return random_unet(stable_diffusion.SEED), random_controlnet(stable_diffusion.SEED + 1)


def pocket_inputs(rows: int, side: int) -> dict[str, torch.Tensor]:
    """Seeded inputs of the embedded denoiser's fused step."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return {
        "latents": normal(rows, 4, side // 4, side // 4),
        "timestep": torch.full((rows,), 500),
        "text": normal(rows, 64, 192),
        "hint_embedding": normal(rows, 32, side // 4, side // 4),
        "control_scale": torch.ones(rows),
    }


def export_pocket(folder: Path) -> Exported:
    """Export the embedded denoiser with the weights of `pocket_networks`; a second call finds it done."""
    paths = Exported(folder / "hint.xml", folder / "denoiser.xml", folder / "denoiser_int8.xml")
    if not paths.denoiser.with_suffix(".bin").is_file():
        unet, controlnet = pocket_networks()
        picture = {0: "batch", 2: "height", 3: "width"}
        hint = {"hint": torch.rand(2, 1, 128, 192)}
        to_ir(modules.HintEncoder(controlnet), hint, ["hint_embedding"], paths.hint, {"hint": picture})
        inputs = pocket_inputs(2, 128)
        axes = {name: picture if name in ("latents", "hint_embedding") else {0: "batch"} for name in inputs}
        to_ir(modules.FusedDenoiser(unet, controlnet), inputs, ["prediction"], paths.denoiser, axes)
    return paths


def export_sd15(folder: Path) -> Exported:
    """Export Stable Diffusion 1.5's size; a second call finds it done."""
    paths = stable_diffusion.denoiser_sd15(folder)
    return Exported(paths.hint, paths.denoiser, folder / "denoiser_int8.xml")


def quantise_once(exported: Exported, feeds: Feeds) -> None:
    """Write the int8 network, calibrated on `feeds` alone, unless it is newer than what it was made from."""
    made = exported.int8.with_suffix(".bin")
    if not (made.is_file() and made.stat().st_mtime > exported.denoiser.with_suffix(".bin").stat().st_mtime):
        # Without bias correction, which changes values and not the time that they take.
        quantise(exported.denoiser, [feeds], exported.int8, correct_bias=False)


@dataclass
class Diffusers:
    """diffusers' two networks as its pipeline calls them, in a precision."""

    unet: Any
    controlnet: Any
    dtype: torch.dtype = torch.float32

    def to_bf16(self, compiled: bool) -> None:
        """Turn to what diffusers' guides ask for on a CPU: bf16 weights, channels-last, and maybe torch.compile."""
        self.dtype = torch.bfloat16
        for name in ("unet", "controlnet"):
            part = getattr(self, name).to(torch.bfloat16).to(memory_format=torch.channels_last)
            setattr(self, name, torch.compile(part) if compiled else part)

    @torch.no_grad()
    def __call__(self, feeds: Mapping[str, Array], hint: Array) -> Array:
        """The prediction of the fused step's `feeds`, from the hint itself."""
        as_torch = {name: torch.from_numpy(array) for name, array in feeds.items()}
        latents, text, cond = (
            t.to(self.dtype) for t in (as_torch["latents"], as_torch["text"], torch.from_numpy(hint))
        )
        if self.dtype == torch.bfloat16:
            latents, cond = (t.contiguous(memory_format=torch.channels_last) for t in (latents, cond))
        timestep = as_torch["timestep"]
        down, mid = self.controlnet(latents, timestep, text, controlnet_cond=cond, return_dict=False)
        out = self.unet(
            latents,
            timestep,
            text,
            down_block_additional_residuals=down,
            mid_block_additional_residual=mid,
            return_dict=False,
        )
        array: Array = out[0].float().numpy()
        return array


def difference(found: Array, wanted: Array) -> float:
    """Root mean square of the difference over that of `wanted`."""
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


def agree(name: str, precision: str, found: Array, wanted: Array) -> None:
    """Say how far a result is from the reference, and stop the bench if that is too far."""
    assert float(wanted.std()) > 1e-3, "the reference is flat, so that agreement with it would prove nothing"
    off = difference(found, wanted)
    print(f"{name}: differs from diffusers fp32 by {off:.4f} (relative RMS; bound {BOUNDS[precision]})")
    if not off <= BOUNDS[precision]:
        raise SystemExit(f"{name} does not compute what diffusers computes; no speed is reported")


def compared(
    peer: Diffusers, engines: Mapping[PeakPrecision, Callable[[], Array]], run: Callable[[], Array], rounds: int
) -> Iterator[tuple[PeakPrecision, Ratio]]:
    """The ratio of every engine's step to the peer's, by engine."""
    name = "diffusers fp32" if peer.dtype == torch.float32 else "diffusers bf16"
    for precision, engine in engines.items():
        ratio = compare(run, engine, rounds)
        took = f"{ratio.candidate.wall_s:.3f} s against {ratio.baseline.wall_s:.3f} s"
        print(f"engine {precision} against {name}: {ratio}; {took}")
        yield precision, ratio


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("pocket", "sd15"), default="pocket")
    parser.add_argument("--batch", type=int, default=2, help="rows of an evaluation; 2 is one guided variant")
    parser.add_argument("--side", type=int, help="pixels; 128 for pocket, 512 for sd15 unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--int8", action="store_true", help="the engine in int8 as well")
    parser.add_argument("--compile", action="store_true", help="torch.compile for the peer in bf16 (a minute or more)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of exported networks")
    run_bench(parser.parse_args())


def run_bench(asked: argparse.Namespace) -> None:
    """The bench with its arguments."""
    size: Literal["pocket", "sd15"] = asked.size
    side = asked.side or _SIDE[size]
    torch.set_num_threads(asked.threads or os.cpu_count() or 1)
    logging.set_verbosity_error()  # it warns of every change of precision, which is what is asked for here
    exported: Exported = apart(export_pocket if size == "pocket" else export_sd15, asked.cache / size)
    precisions: tuple[PeakPrecision, ...] = ("bf16", "int8") if asked.int8 else ("bf16",)
    peaks = {p: [measure_peak(p, asked.threads)] for p in precisions}

    # The hint's embedding is made once, outside of what is timed: that is the claim.
    random = np.random.default_rng(0)
    hint = (random.random((asked.batch, _HINT_CHANNELS[size], side, side)) < 0.1).astype(np.float32)
    encoder = open_session(exported.hint, batch=asked.batch, precision="bf16", sizes={"hint": (side, side)})
    example = pocket_inputs if size == "pocket" else _sd15_inputs
    feeds: Feeds = {name: tensor.numpy() for name, tensor in example(asked.batch, side).items()}
    feeds["hint_embedding"] = encoder.run({"hint": hint})["hint_embedding"]
    del encoder
    if asked.int8:
        apart(quantise_once, exported, feeds)

    latent = feeds["latents"].shape[-2:]
    sizes = {"latents": (latent[0], latent[1]), "hint_embedding": (latent[0], latent[1])}
    flops = count_flops(exported.denoiser, asked.batch, sizes)
    engines = {
        precision: _engine(exported.denoiser if precision == "bf16" else exported.int8, asked, sizes, feeds)
        for precision in precisions
    }
    peer = Diffusers(*(pocket_networks() if size == "pocket" else sd15_networks()))
    wanted = peer(feeds, hint)
    for precision, engine in engines.items():
        agree(f"engine {precision}", precision, engine(), wanted)
    ratios = {("fp32", p): r for p, r in compared(peer, engines, lambda: peer(feeds, hint), asked.rounds)}
    peer.to_bf16(asked.compile)
    gc.collect()
    agree("diffusers bf16", "bf16", peer(feeds, hint), wanted)
    ratios |= {("bf16", p): r for p, r in compared(peer, engines, lambda: peer(feeds, hint), asked.rounds)}
    for precision in precisions:
        peaks[precision].append(measure_peak(precision, asked.threads))

    shares = {}
    for precision in precisions:
        best = max(peaks[precision])  # before and after: what the machine can do when it can
        taken = min(ratios[peer_name, precision].candidate.wall_s for peer_name in ("fp32", "bf16"))
        shares[precision] = flops / taken / best
        print(
            f"{precision}: {flops / 1e12:.3f} TFLOP at {flops / taken / 1e12:.3f} TFLOP/s, "
            f"{shares[precision]:.1%} of the {best / 1e12:.3f} TFLOP/s of a matrix product in {precision}"
        )
    more = {
        f"ratio_{precision}_against_{peer_name}": ratio.median
        for (peer_name, precision), ratio in ratios.items()
        if (peer_name, precision) != ("fp32", "bf16")
    }
    seconds = {f"seconds_{precision}": ratios["bf16", precision].candidate.wall_s for precision in precisions}
    shared = {"ceiling_share_int8": shares["int8"]} if asked.int8 else {}
    finish(
        f"denoise_compiled {size} {side}x{side} batch {asked.batch}",
        ratios["fp32", "bf16"],
        shares["bf16"],
        **more,
        **seconds,
        **shared,
    )


def _sd15_inputs(rows: int, side: int) -> dict[str, torch.Tensor]:
    return example_inputs(rows, (side // FACTOR, side // FACTOR))


def _engine(
    path: Path, asked: argparse.Namespace, sizes: Mapping[str, tuple[int, int]], feeds: Feeds
) -> Callable[[], Array]:
    session = open_session(path, batch=asked.batch, precision="bf16", threads=asked.threads, sizes=sizes)
    return lambda: session.run(feeds)["prediction"]


if __name__ == "__main__":
    main()
