"""What lies in an A10G's memory at every moment of a run, without one: `python tests/a10g_memory.py [--write]`.

The engine's own code takes a few shards from photographs to a suite: journey, residency, sessions, and what opens and
closes the language model. Below it the driver is the stand-in of stand_in_cuda.py with memory that has a size and no
content, so that a card of 24 GB fits any machine, and every plan has the inputs and outputs of the exported graph at
full size (its module on torch's meta device). What plans take is

- their weights, as counted in the exported graphs;
- scratch memory as the compiler stated it at full size (tests/full_size.py), else a share of the weights;
- inputs, outputs and caches as the sessions allocate them.

The language model's weights and cache are in torch's caching allocator (stand_in_torch.py), which keeps what is freed.
A shard has one batch of sources, which use all plans there are; more only take longer. The command fails where more
than BAR_BYTES are taken at any moment, or as large a share of the cards that profile gpu is for; `--write` puts its
peaks and a10g's into docs/a10g.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import cv2
import full_size
import numpy as np
import torch
from exllama_standin import write_model
from full_size import FIGURES
from mutants import write_figures
from stand_in_cuda import Memory
from stand_in_gpu import Engine, Library, write_plan
from stand_in_kernels import Driver
from stand_in_torch import CachingAllocator

from counterfactory.engine import journey
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.language import exllama, openvino_llm
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.exllamav2 import ExLlamaV2
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.painters import editor_form
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.rewrite import LlmSettings
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime import cuda, kernels
from counterfactory.engine.runtime.session import continued_cache, is_cache
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite import rewrite_captions
from counterfactory.engine.stages.rewrite.rewrite_captions import ShardVariants
from counterfactory.engine.stages.run import Run
from counterfactory.engine.suite import Suite
from counterfactory.export.pocket.packed import RUNTIME
from counterfactory.export.production import blip2, clip, denoiser, florence2, graph, hed, sentence, small_words, vae
from counterfactory.export.production.command import graphs_of
from counterfactory.export.production.graph import Graph, Request, batches_of

PROFILES = ("a10g", "a10g-fast", "lance")
CARD_BYTES = 24 * 10**9
BAR_BYTES = 22 * 10**9
# The cards that profile gpu is for, in 10^9 bytes; no more is taken than that share of each.
GPU_CARDS, SHARE = (8, 12), BAR_BYTES / CARD_BYTES
# What the driver takes for its context and the libraries' kernels before any plan is loaded; an estimate.
CONTEXT_BYTES = 400_000_000
# Scratch memory of a plan that the record of full_size.py does not have, as a share of its weights; guesses.
GUESSED_SCRATCH, GUESSED_OF = 0.25, {"opt_decoder": 0.05}
# ExLlamaV2 multiplies out matrices of up to so many values in half precision, and keeps states of a chunk of a prompt.
_LLM_SCRATCH_BYTES = 2 * 13824 * 5120 + 2 * 2048 * (4 * 5120 + 2 * 13824)
_LAYERS, _WIDTH = 40, 5120
# In the place of one on the CPU, of which nothing is on the card.
_POCKET = LlmSettings("openvino", str(RUNTIME / "llm"), "pocket")
Shape = tuple[int, ...]
# (height, width) of photographs: a10g's sizes of pictures, one each.
_SIZES = ((540, 600), (540, 720), (720, 540), (540, 810), (810, 540), (500, 800), (800, 500))
_SKIES = ("clear", "foggy", "rainy")
# By turns of every batch of captions, so that each shard has questions of its own.
_COLOURS = ("red", "blue", "white", "green", "black")
_CACHE_BITS = {"fp16": 16, "q8": 8, "q4": 4}


# Plans.


@contextmanager
def weightless() -> Iterator[None]:
    """Modules are built, and run, on the meta device, where weights have no content."""
    with ExitStack() as stack:
        for module in (blip2, clip, denoiser, florence2, graph, hed, sentence, vae):
            for name, instead in (("normal", lambda seed, *shape: torch.zeros(shape)), ("fill", lambda *_: None)):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, instead))
        # Whether a mask hides nothing is a question of its content.
        hides = "transformers.masking_utils._ignore_bidirectional_mask_sdpa"
        stack.enter_context(mock.patch(hides, return_value=False))
        stack.enter_context(torch.device("meta"))
        stack.enter_context(torch.no_grad())
        yield


class Ports:
    """The inputs of a graph's plan under all of its profiles, and its outputs: found by running the module without
    content. `bounds` are the shapes of all of them at each profile's least and most.
    """

    def __init__(self, made: Graph) -> None:
        self.graph, self.profiles = made, made.plan
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self._known: dict[tuple[Shape, ...], dict[str, Shape]] = {}
        least = [{name: shapes.min for name, shapes in one.items()} for one in made.plan]
        most = [{name: shapes.max for name, shapes in one.items()} for one in made.plan]
        self.bounds = [shapes | self.output_shapes(shapes) for shapes in (*least, *most)]
        self.io_bytes = sum(
            math.prod(shape) * self.dtypes[name].itemsize
            for shapes in self.bounds[len(made.plan) :]
            for name, shape in shapes.items()
            if name not in made.outputs or continued_cache(name) is None
        )

    def output_shapes(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Those of the outputs, for inputs of these shapes."""
        key = tuple(shapes[name] for name in self.profiles[0])
        if key not in self._known:
            with weightless():
                dtypes = [self.graph.inputs[name].dtype for name in self.profiles[0]]
                inputs = [torch.empty(shape, dtype=dtype) for shape, dtype in zip(key, dtypes, strict=True)]
                results = self.graph.module(*inputs)
            results = results if isinstance(results, tuple) else (results,)
            outputs = dict(zip(self.graph.outputs, results, strict=True))
            named = dict(zip(self.profiles[0], inputs, strict=True)) | outputs
            self.dtypes = {name: _dtype(name, value.dtype) for name, value in named.items()}
            self._known[key] = {name: tuple(value.shape) for name, value in outputs.items()}
        return self._known[key]


def _dtype(name: str, kind: torch.dtype) -> np.dtype[Any]:
    """A port's own: caches stay as they are computed, and all else is single precision outside of a plan."""
    if kind.is_floating_point:
        return np.dtype(np.float16 if is_cache(name) else np.float32)
    return np.dtype(np.int64)


@lru_cache
def plans_of(name: str) -> Mapping[str, Ports]:
    """The plans of a profile at full size, by the profile's own names for them."""
    profile = load_profile(name)
    caption, plan_of = profile.caption, {network.name: network.plan for network in networks_of(profile)}
    request = Request(
        batches=batches_of(profile),
        prompt_tokens=caption.prompt_tokens,
        caption_tokens=caption.decoding.max_tokens,
        beams=caption.decoding.beams,
        sizes=profile.image.sizes,
        paint=profile.paint,
        editor=editor_form(profile),
        captioner="florence2" if profile.weights and profile.weights.florence2 else "6.7b",
    )
    with weightless():
        graphs = {name: build() for name, build in graphs_of(request).items() if name != "hed"}
    return {plan_of.get(name, name): Ports(made) for name, made in graphs.items()}


def scratch_of(plan: str, weight_bytes: int, profile: Profile) -> int:
    """Scratch memory of a plan on the device, as TensorRT-RTX states it of the profile's own graph for an A10G."""
    known = full_size.record()
    for name in full_size.PROFILES:
        made = known.get(f"{name}/{plan}", {}).get("plans", {}).get("sm86", {})
        if load_profile(name).models.folder == profile.models.folder and "scratch_mb" in made:
            return round(1e6 * made["scratch_mb"])
    return round(
        next((share for one, share in GUESSED_OF.items() if plan.startswith(one)), GUESSED_SCRATCH) * weight_bytes
    )


class SizedEngine(Engine):
    """An ICudaEngine of which only sizes are known; `parts` counts its weights for as long as it lives."""

    def __init__(self, sizes: Ports, memory: Memory, parts: Counter[str], weight_bytes: int) -> None:
        self.memory, self.sizes, self.profiles = memory, sizes, sizes.profiles
        self.taken = weakref.WeakKeyDictionary()
        self.inputs, self.outputs = list(sizes.profiles[0]), list(sizes.graph.outputs)
        self.ports = dict.fromkeys((*self.inputs, *self.outputs))
        self._output_shapes = sizes.output_shapes  # type: ignore[method-assign]
        parts["weights"] += weight_bytes
        weakref.finalize(self, parts.subtract, {"weights": weight_bytes}).atexit = False

    def get_tensor_dtype(self, name: str) -> Any:
        return self.sizes.dtypes[name]

    def get_tensor_shape(self, name: str) -> Shape:
        lengths = zip(*(shapes[name] for shapes in self.sizes.bounds), strict=True)
        return tuple(axis[0] if len(set(axis)) == 1 else -1 for axis in lengths)


# The language model.


@dataclass
class SizedLlm:
    """Loads ExLlamaV2's tensors by their sizes, and answers with the model that comes with us."""

    torch: CachingAllocator
    weight_bytes: int
    held: list[int] = field(default_factory=list)

    def load(self, package: ExLlamaV2, folder: Path) -> None:
        """As ExLlamaV2 does: weights and cache layer by layer, a layer's cache in half precision, scratch memory."""
        settings = package.settings
        values, bits = settings.cache_tokens * _WIDTH, _CACHE_BITS[settings.cache]
        for _ in range(_LAYERS):
            self._take(self.weight_bytes // _LAYERS)
            for _ in ("keys", "values"):
                self._take(values * bits // 8)
                if bits < 16:
                    self._take(values // 32 * 2)  # a scale for 32 values
        if bits < 16:
            self._take(2 * values)
            self._take(2 * values)
        self._take(_LLM_SCRATCH_BYTES)
        vocabulary = mock.Mock(eos_token_id=2)
        package.generator, package.tokenizer, package.max_length = mock.Mock(), vocabulary, settings.cache_tokens

    def unload(self) -> None:
        """Python frees; the allocator keeps."""
        while self.held:
            self.torch.free(self.held.pop())

    def _take(self, nbytes: int) -> None:
        self.held.append(self.torch.allocate(nbytes))


# The run.


@dataclass(frozen=True)
class Peak:
    """The most that was taken while a stage of a shard went on, and what it was made of."""

    shard: int
    stage: str
    taken: int
    parts: Mapping[str, int]


@dataclass
class Watch:
    """Follows the device's bytes through the stages; `scratch` are the sizes that the shared block may have."""

    scratch: frozenset[int]
    card_bytes: int
    stage: str = "start"
    shard: int = 0
    peaks: dict[tuple[int, str], Peak] = field(default_factory=dict)
    parts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.driver = Memory(self.card_bytes, virtual=True, on_change=self.changed)
        self.llm = CachingAllocator(self.driver)
        self.driver.cudaMalloc(CONTEXT_BYTES)

    def changed(self, taken: int) -> None:
        """The device has given memory."""
        key = self.shard, self.stage
        if key not in self.peaks or taken > self.peaks[key].taken:
            block = sum(size for size in self.driver.sizes("device") if size in self.scratch)
            reserved = {"driver": CONTEXT_BYTES, "language model": self.llm.reserved}
            parts = {**reserved, **self.parts, "scratch memory": block}
            parts["inputs, outputs, caches"] = taken - sum(parts.values())
            self.peaks[key] = Peak(*key, taken, parts)


def write_folder(folder: Path, profile: Profile, ports: Mapping[str, Ports]) -> None:
    """A models' folder: stubs of plans with their keys, tokenizers, tables."""
    facts = plan_facts(profile)
    for name, its in ports.items():
        if name in facts:
            weights = facts[name].weight_bytes
            held = {"weights_bytes": weights, "scratch_bytes": scratch_of(name, weights, profile)}
            held["io_bytes"] = its.io_bytes
            write_plan(folder / "plans" / f"{name}.plan", {"plan": name}, its.profiles, held, "a" * 64)
    small_words.opt_tokenizer(60, 3).save(str(folder / "opt_tokenizer.json"))
    small_words.clip_tokenizer(60, 77).save(str(folder / "clip_tokenizer.json"))
    sentence.write_tokenizer(Request(small=True), folder)
    (folder / "opt_tokens.json").write_text('{"bos": 2, "eos": 3}')
    (folder / "latent.json").write_text('{"channels": 4, "factor": 8}')
    manifest = folder / "onnx" / profile.paint.denoiser / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"onnx_sha256": "a" * 64, "scheduler": denoiser.SCHEDULER}))
    (captioner,) = {network.plan for network in networks_of(profile) if network.name == "opt_decoder"}
    shapes = ports[captioner].bounds[-1]
    size = shapes["logits"][-1], shapes["inputs_embeds"][-1]
    np.lib.format.open_memmap(folder / "opt_embeddings.npy", "w+", np.float16, size)  # zeros that take no disk
    write_model(folder / "llm")


def photographs(folder: Path, count: int) -> Path:
    """JPEGs of smooth noise, by turns of every shape that is painted at a size of its own."""
    random = np.random.default_rng(0)
    (folder / "bus").mkdir(parents=True)
    for i in range(count):
        noise = cv2.GaussianBlur(random.integers(0, 255, (*_SIZES[i % len(_SIZES)], 3), np.uint8), (0, 0), 5)
        cv2.imwrite(str(folder / "bus" / f"{i:03d}.jpg"), cv2.normalize(noise, noise, 0, 255, cv2.NORM_MINMAX))
    return folder


def run(
    name: str,
    shards: int = 2,
    root: Path | None = None,
    *,
    again: bool = True,
    keeps: bool = False,
    card_bytes: int = CARD_BYTES,
) -> list[Peak]:
    """The peaks of a profile's run on a card of that size, by shard and stage, in order; with `again` of two runs, the
    second with other questions of captions that the first one wrote.

    `keeps` leaves out what gives the language model's memory back, to see that it is missed. Raises
    CounterfactoryError where the card has not enough memory.
    """
    asked = load_profile(name)
    ports, facts, sources = plans_of(name), plan_facts(asked), asked.caption.batch
    scratch = frozenset(scratch_of(plan, facts[plan].weight_bytes, asked) for plan in ports if plan in facts)
    watch = Watch(scratch, card_bytes)

    def engine_of(plan: Mapping[str, Any]) -> Engine:
        return SizedEngine(ports[plan["plan"]], watch.driver, watch.parts, plan["weights_bytes"])

    with ExitStack() as stack:
        work = root or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_folder(work / "models", asked, ports)
        decoding = asked.caption.decoding  # a card without content ends no caption by itself
        profile = replace(
            asked,
            shard_sources=sources,
            runtime=replace(asked.runtime, memory_gb=card_bytes / 1e9),
            models=ModelPaths(str(work / "models")),
            caption=replace(asked.caption, decoding=replace(decoding, min_tokens=decoding.max_tokens)),
            llm=_POCKET if asked.llm.on_cpu else replace(asked.llm, model="llm"),
            check=asked.check.having(min_image_text=-1.0, min_directional=-1.0),
            rewrite=replace(asked.rewrite, types=("weather", "time", "colour"), verbatim=True, menus=False),
        )
        llm = SizedLlm(watch.llm, facts["llm"].weight_bytes)
        _put_in(stack, watch, Library(watch.driver, engine_of), llm, keeps)
        found, _ = find_sources(photographs(work / "photographs", sources * shards))
        # A caption of the pocket world names cars, and what is photographed here is called a bus.
        settings = SuiteRequest(street_task("classification"), 2, 1, edits=(1, 2), seed=0, allow_ungrounded=True)
        # Other questions of the same captions: what was open for painting is there when the language model is opened.
        # Another seed, so that edits that are chosen again are painted again.
        asked_again = replace(profile, rewrite=replace(profile.rewrite, types=("time", "weather", "colour")))
        for seed, one in enumerate((profile, asked_again) if again else (profile,)):
            with Suite.open(work / "suite") as suite:
                summary = Journey(one, replace(settings, seed=seed)).run(Inputs(found), suite)
            assert summary.painted > 0, "no stage was left out"
            gc.collect()
    assert not watch.driver.faults, watch.driver.faults
    return list(watch.peaks.values())


def _put_in(stack: ExitStack, watch: Watch, library: Library, llm: SizedLlm, keeps: bool) -> None:
    """Stand-ins for the driver, TensorRT, torch's allocator and ExLlama; all of the engine's own code stays."""

    def patch(owner: Any, attribute: str, instead: Any) -> None:
        stack.enter_context(mock.patch.object(owner, attribute, instead))

    enter = ModelPool.enter

    def entered(self: ModelPool, stage: Any) -> None:
        watch.stage = stage
        enter(self, stage)

    caption, colours = Blip2.caption, cycle(_COLOURS)

    def captioned(self: Blip2, *arguments: Any) -> list[list[str]]:
        """A card without content writes words without sense, as many as it may; the language model is given others."""
        count, colour = len(caption(self, *arguments)), next(colours)
        return [[f"a {colour} car on a {_SKIES[i % len(_SKIES)]} street at noon."] for i in range(count)]

    rewrite = journey.rewrite_captions

    def rewritten(run: Run, captions: Mapping[Source, str], *before: Any) -> ShardVariants:
        """The pocket model cannot converse and points at nothing; the encoder has a batch of texts all the same."""
        grounding = run.profile.grounding
        check = replace(run.profile.check, least={}, most={})
        variants = rewrite(replace(run, profile=replace(run.profile, grounding=None, check=check)), captions, *before)
        with run.meter.stage("rewrite"):
            if grounding is not None:
                run.models.sentence().encode(["a bus"] * grounding.batch)
        return variants

    pocket = openvino_llm.OpenVinoLlm(RUNTIME / "llm", precision="f32", threads=0)
    step = journey.step

    def stepped(*arguments: Any) -> Any:
        watch.shard += 1
        return step(*arguments)

    patch(ModelPool, "enter", entered)
    patch(Blip2, "caption", captioned)
    patch(journey, "step", stepped)
    patch(journey, "rewrite_captions", rewritten)
    patch(rewrite_captions, "prompts_of", lambda style: prompts_of("pocket"))
    patch(cuda, "load_runtime", lambda: watch.driver)
    patch(kernels, "load_driver", lambda: Driver(watch.driver))
    stack.enter_context(mock.patch.dict(sys.modules, {"tensorrt": library}))
    patch(exllama, "_check_gpu", lambda package: None)
    patch(ExLlamaV2, "load", lambda self, folder: llm.load(self, folder))
    patch(ExLlamaV2, "unload", lambda self: llm.unload())
    patch(exllama.ExllamaLlm, "generate", lambda self, requests: pocket.generate(requests))
    patch(torch.cuda, "empty_cache", (lambda: None) if keeps else llm.torch.empty_cache)


# The command.


def by_stage(peaks: Sequence[Peak]) -> dict[str, float]:
    """The most of each stage over all shards, in 10^9 bytes."""
    found: dict[str, float] = {}
    for peak in peaks:
        if peak.shard:
            found[peak.stage] = max(found.get(peak.stage, 0.0), round(peak.taken / 1e9, 2))
    return found


def table(peaks: Sequence[Peak]) -> str:
    """Markdown: a row per shard and stage."""
    parts = list(dict.fromkeys(part for peak in peaks for part in peak.parts))
    lines = [("shard", "stage", "peak", *parts), ("---",) * (3 + len(parts))]
    for peak in peaks:
        if peak.shard:
            split = [f"{peak.parts.get(part, 0) / 1e9:.2f}" for part in parts]
            lines.append((str(peak.shard), peak.stage, f"{peak.taken / 1e9:.2f}", *split))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="append", choices=(*PROFILES, "gpu"), help="all without it")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put a10g's and gpu's figures into docs/a10g.json")
    asked = parser.parse_args()
    most = 0
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, XDG_CACHE_HOME=cache):
        for name in asked.profile or (*PROFILES, "gpu"):
            cards = [card * 10**9 for card in GPU_CARDS] if name == "gpu" else [CARD_BYTES]
            peaks = {card: run(name, asked.shards, card_bytes=card) for card in cards}
            for card, of in peaks.items():
                print(f"{name} on {card / 1e9:g} GB, 10^9 bytes:\n\n{table(of)}", flush=True)  # noqa: T201
                most = max(most, *(round(peak.taken * CARD_BYTES / card) for peak in of))
            stages = {f"{card / 1e9:g}": by_stage(of) for card, of in peaks.items()}
            if asked.write and name == "a10g":
                write_figures(FIGURES, {"peak_gb": max(stages["24"].values()), "peak_gb_by_stage": stages["24"]})
            elif asked.write and name == "gpu":
                write_figures(FIGURES, {"gpu_peak_gb": {card: max(of.values()) for card, of in stages.items()}})
    return int(most > BAR_BYTES)


if __name__ == "__main__":
    sys.exit(main())
