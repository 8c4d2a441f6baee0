"""A box's networks on the card of this machine, through ONNX Runtime's CUDA provider and held to its CPU provider: one
by one, painting, a whole run; and the denoiser at full size. What each check shows is in gpu_check.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from gpu_card import Card, Figures, distance, require
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.cli.arguments import main as run_command
from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.device_painting import DevicePaintPlans
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.small import RUNTIMES, write_profile, write_small
from counterfactory.engine.runtime import cuda as cuda_calls
from counterfactory.engine.runtime.buffers import DeviceArray
from counterfactory.engine.runtime.onnx_header import read_ports
from counterfactory.engine.runtime.opening import open_plan
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.suite import read_metadata

Arrays = dict[str, NDArray[Any]]
SIZES = ((32, 32), (32, 44), (44, 32), (32, 52))  # of the small networks
_SEED = 20


def small_profile(folder: Path, provider: str, into: Path) -> Profile:
    """a10g's profile over the small networks of `folder`, run by a provider of ONNX Runtime."""
    runtime = {**RUNTIMES["onnxruntime"], "provider": provider, "precision": "f32" if provider == "cpu" else "f16"}
    return load_profile(str(write_small(into / f"{provider}.toml", "a10g", folder, runtime, paint={"batch": 4})))


def random_feeds(signature: Any, rng: np.random.Generator) -> Arrays:
    """Numbers that fit a plan of fixed shapes."""
    feeds: Arrays = {}
    for port in signature.inputs:
        if port.dtype.startswith("int"):
            feeds[port.name] = rng.integers(0, 50, port.shape).astype(port.dtype)
        else:
            feeds[port.name] = rng.standard_normal(port.shape).astype(port.dtype)
    return feeds


def open_both(profiles: Mapping[str, Profile], card: Card) -> Iterator[tuple[str, Any, Any]]:
    """Each network of fixed shapes by its name: the session of the CPU, and that of the card."""
    library = library_of(profiles["cuda"])
    for network in library.networks:
        if network.name == "llm" or network.tokens is not None:
            continue
        sizes = library.sizes(network, *SIZES[1])
        where, how = (library.folder, network.plan), (network.batch, sizes)
        runtimes = (profiles[one].runtime for one in ("cpu", "cuda"))
        cpu, gpu = (open_plan(*where, runtime, *how, device=lambda: card.cuda) for runtime in runtimes)
        yield network.name, cpu, gpu


def check_networks(card: Card, profiles: Mapping[str, Profile]) -> Figures:
    """Every network by both providers, twice with other numbers: f16 against f32."""
    rng, worst = np.random.default_rng(_SEED), dict[str, float]()
    for name, cpu, gpu in open_both(profiles, card):
        for _ in range(2):
            feeds = random_feeds(gpu.signature, rng)
            theirs, ours = cpu.run(feeds), gpu.run(feeds)
            for output in theirs:
                worst[name] = max(worst.get(name, 0.0), distance(ours[output], theirs[output]))
        require(worst[name] < 0.03, f"{name} differs by {worst[name]:.3g}")
    return {"networks": len(worst), "off_by": worst}


def check_poison(card: Card, profiles: Mapping[str, Profile]) -> Figures:
    """NaN in the last row of every input of floats: the rows before it stay what they were, to the bit."""
    rng, clean = np.random.default_rng(_SEED), dict[str, bool]()
    for name, _, gpu in open_both(profiles, card):
        feeds = random_feeds(gpu.signature, rng)
        before = gpu.run(feeds)
        for array in feeds.values():
            if array.dtype.kind == "f" and array.ndim:
                array[-1] = np.nan
        after = gpu.run(feeds)
        for output, array in before.items():
            require(np.array_equal(after[output][:-1], array[:-1]), f"{name} lets rows see each other")
        clean[name] = any(not np.isfinite(after[output][-1]).all() for output in after)
    return {"rows_apart": sorted(clean), "nan_comes_out": sorted(name for name, shown in clean.items() if shown)}


def painted(
    profile: Profile, count: int, size: tuple[int, int] = SIZES[1]
) -> tuple[list[NDArray[np.uint8]], float, PaintPlans]:
    """Pictures of `count` variants over random edges and texts, the seconds they took once all was warm, the plans."""
    models = ModelPool(library_of(profile), Meter(lambda _: None))
    plans, rng = models.paint_plans(*size), np.random.default_rng(_SEED)
    port = next(port for port in plans.denoiser.signature.inputs if port.name == "text")
    states = rng.standard_normal((4, *(length or 0 for length in port.shape[1:]))).astype(np.float32)
    edges = (rng.random((4, *size)) < 0.2).astype(np.uint8) * 255
    texts, seconds, pictures = [plans.put_text(one) for one in states], 0.0, dict[int, NDArray[np.uint8]]()
    for _ in range(2):
        hints = plans.embed_hints(edges)
        jobs = [PaintJob(f"variant {i}", texts[i % 3], hints[i % 4], plans) for i in range(count)]
        began = time.perf_counter()
        pictures = dict(paint(jobs, texts[3], profile.paint, models.sampler()))
        seconds = time.perf_counter() - began
    return [pictures[i] for i in range(count)], seconds, plans


def check_painting(card: Card, profiles: Mapping[str, Profile]) -> Figures:
    """Variants of both providers: the mean distance of their pictures in grey levels."""
    count = 24
    (ours, gpu_s, plans), (theirs, cpu_s, _) = painted(profiles["cuda"], count), painted(profiles["cpu"], count)
    require(isinstance(plans, DevicePaintPlans), "pictures were not painted on the device")
    apart = [float(np.abs(a.astype(int) - b).mean()) for a, b in zip(ours, theirs, strict=True)]
    require(len({one.tobytes() for one in ours}) == count, "variants are one picture")
    require(max(apart) < 1.0, f"a picture is {max(apart):.2f} grey levels from the CPU's")
    again = painted(profiles["cuda"], count)[0]
    require(all((a == b).all() for a, b in zip(ours, again, strict=True)), "the same variants came out otherwise")
    return {"pictures": count, "grey_levels": max(apart), "faster_than_cpu": cpu_s / gpu_s}


def check_journey(card: Card, profiles: Mapping[str, Profile], folder: Path) -> Figures:
    """`generate` by both providers from photographs of noise to a suite; random captions are read, then replaced."""
    rng, photographs = np.random.default_rng(_SEED), folder / "photographs" / "bus"
    photographs.mkdir(parents=True)
    for i, shape in enumerate([(90, 120), (120, 90), (100, 160)]):
        small = Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8))
        small.resize((shape[1], shape[0]), Image.Resampling.BICUBIC).save(photographs / f"{i}.png")
    captions, rows, pictures = [], [], []
    read = Blip2.caption
    for provider in ("cpu", "cuda"):
        said: list[Any] = []

        def captioned(self: Blip2, *arguments: Any, said: list[Any] = said) -> list[list[str]]:
            texts = read(self, *arguments)
            said.extend(texts)
            return [[f"a red bus on a {sky} street at noon."] for sky in ("clear", "foggy")[: len(texts)]]

        suite = folder / provider
        asked = ["generate", str(photographs.parent), "--task", "classification", "--out", str(suite)]
        with mock.patch.object(Blip2, "caption", captioned):
            status = run_command([*asked, "--variants", "2", "--profile", str(folder / f"{provider}.toml")])
        require(status == 0, f"generate by {provider} ended with {status}")
        captions.append(said)
        rows.append([row for row in read_metadata(suite) if row.kind != "original"])
        pictures.append([np.asarray(Image.open(suite / row.file_name).convert("RGB")).astype(int) for row in rows[-1]])
    require(captions[0] == captions[1], f"captions differ: {captions}")
    # Beside a GPU the language model computes in what the CPU likes best, which may choose other edits.
    told = [{(r.source, r.kind, r.edited_caption): place for place, r in enumerate(one)} for one in rows]
    alike = sorted(told[0].keys() & told[1].keys())
    require(len(alike) > 3, "hardly an edit is the same")
    apart = [float(np.abs(pictures[0][told[0][one]] - pictures[1][told[1][one]]).mean()) for one in alike]
    require(max(apart) < 1.0, f"a picture is {max(apart):.2f} grey levels from the CPU's")
    return {"pictures": len(apart), "grey_levels": max(apart)}


def check_speed(folder: Path, into: Path, count: int = 32, size: tuple[int, int] = (512, 512)) -> Figures:
    """a10g's painting at full size, warm: pictures a second with deep features used again, and with all steps whole."""
    runtime, figures = {"backend": "onnxruntime", "provider": "cuda"}, Figures()
    for name, settings in (("reuse", {}), ("whole", {"reuse": None})):
        tables = {"models": {"folder": str(folder.absolute())}, "runtime": runtime, "paint": settings}
        profile = load_profile(str(write_profile(into / f"{name}.toml", "a10g", tables)))
        pictures, seconds, _ = painted(profile, count, size)
        require(len({one.tobytes() for one in pictures}) == count, "variants are one picture")
        figures[f"{name}_pictures_per_s"] = count / seconds
    return {"pictures": count, **figures, "faster": figures["reuse_pictures_per_s"] / figures["whole_pictures_per_s"]}


def check_size(card: Card, folder: Path) -> Figures:
    """The denoiser's 16 rows at 512 x 512, queued as painting queues them: seconds a batch, and its arithmetic."""
    profile, name = load_profile("a10g"), "denoiser"
    graph, batch = folder / "onnx" / name / "model.onnx", profile.paint.batch
    sizes = {port.name: (64, 64) for port in read_ports(graph).inputs if port.name in ("latents", "hint_embedding")}
    runtime = replace(profile.runtime, backend="onnxruntime", provider="cuda")
    began = time.perf_counter()
    session: Any = open_plan(folder, name, runtime, batch, sizes, device=lambda: card.cuda)
    opened_s = time.perf_counter() - began
    feeds = random_feeds(session.signature, np.random.default_rng(0))
    outputs = session.run(feeds)
    finite = all(np.isfinite(one).all() for one in outputs.values())
    held = {
        port.name: DeviceArray(feeds[port.name].shape, np.dtype(port.dtype), card.up(feeds[port.name]), card.cuda)
        for port in session.signature.inputs
    }
    spent = card.seconds(lambda: session.queue(held), times=10)
    tera = count_flops(graph, batch, sizes) / 1e12
    free, total = cuda_calls.memory(card.cuda.runtime)
    return {
        "rows": batch, "seconds": spent, "rows_per_s": batch / spent, "tflop": tera, "tflops": tera / spent,
        "opened_s": opened_s, "used_gb": (total - free) / 1e9, "finite": finite,
    }  # fmt: skip
