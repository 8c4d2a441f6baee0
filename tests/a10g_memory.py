"""What lies in an A10G's memory at every moment of a run, without one: `python tests/a10g_memory.py [--write]`.

The engine's own code takes a few shards from photographs to a suite: journey, residency, sessions, and what opens and
closes the language model. Below it the driver is the stand-in of stand_in_cuda.py with memory that has a size and no
content, so that a card of 24 GB fits any machine, and every plan has the inputs and outputs of the exported graph at
full size (its module on torch's meta device). What plans take is

- their weights, as counted in the exported graphs;
- scratch memory as the compiler states it where that is known, else by the ratio that SCRATCH says;
- inputs, outputs and caches as the sessions allocate them.

The language model's weights and cache are in torch's caching allocator (stand_in_torch.py), which keeps what is freed.
A shard has one batch of sources, which use all plans there are; more only take longer. The command fails where more
than BAR_BYTES are taken at any moment; `--write` puts a10g's peaks into docs/a10g.json, and the table into
docs/production.md.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import cv2
import numpy as np
import torch
from exllama_standin import write_model
from stand_in_cuda import Memory
from stand_in_gpu import Context, Engine, Library, Mode, Runtime, Strategy
from stand_in_kernels import Driver
from stand_in_torch import CachingAllocator

from counterfactory.engine import journey
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.keys import file_digest
from counterfactory.engine.language import exllama, openvino_llm
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.exllamav2 import ExLlamaV2
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.painters import editor_form
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime import cuda, kernels
from counterfactory.engine.runtime.plans import PlanKey, Shapes, write_key
from counterfactory.engine.runtime.session import continued_cache, is_cache
from counterfactory.engine.runtime.trt_library import library_name
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite import rewrite_captions
from counterfactory.engine.stages.rewrite.rewrite_captions import ShardVariants
from counterfactory.engine.stages.run import Run
from counterfactory.engine.suite import Suite
from counterfactory.export.pocket.packed import RUNTIME
from counterfactory.export.production import blip2, clip, denoiser, graph, hed, sentence, small_words, vae
from counterfactory.export.production.command import graphs_of
from counterfactory.export.production.graph import Graph, Request, batches_of

ROOT = Path(__file__).parents[1]
PROFILES = ("a10g", "a10g-fast", "lance")
_BEGIN, _END = "<!-- tests/a10g_memory.py --write -->", "<!-- end -->"
CARD_BYTES = 24 * 10**9
BAR_BYTES = 22 * 10**9
# What the driver takes for its context and the libraries' kernels before any plan is loaded; an estimate.
CONTEXT_BYTES = 400_000_000
# Scratch memory by plan, and where the figure is from.
STATED = {
    "vae_decoder": (2_977_759_744, "TensorRT-RTX 1.7.1's statement at full size"),
    "vae_encoder": (1_350_674_432, "the same"),
    "editor": (994_020_352, "the same"),
}
SCRATCH = {
    "denoiser": (1_224_000_000, "four times what TensorRT-RTX states at a quarter of the width, 306 MB"),
    "opt_decoder": (0.05, "of its weights, a guess"),
}
OTHER_SCRATCH = (0.25, "of its weights, a guess")
# ExLlamaV2 multiplies out matrices of up to so many values in half precision, and keeps states of a chunk of a prompt.
_LLM_SCRATCH_BYTES = 2 * 13824 * 5120 + 2 * 2048 * (4 * 5120 + 2 * 13824)
_LAYERS, _WIDTH = 40, 5120
# Tokens of the tokenizer that stands in for the captioner's.
_TOKENS = 60
# (height, width) of photographs: a10g's sizes of pictures, one each.
_SIZES = ((540, 600), (540, 720), (720, 540), (500, 800))
_SKIES = ("clear", "foggy", "rainy")
# By turns of every batch of captions, so that each shard has questions of its own.
_COLOURS = ("red", "blue", "white", "green", "black")
_CACHE_BITS = {"fp16": 16, "q8": 8, "q4": 4}


# Plans.


@dataclass(frozen=True)
class Ports:
    """The inputs of one of a plan's profiles with their shapes, and its outputs: their lengths at most, and how much
    each changes with an axis of an input that may be shorter.
    """

    profile: Mapping[str, Shapes]
    dtypes: Mapping[str, np.dtype[Any]]
    outputs: Mapping[str, tuple[int, ...]]
    growth: Mapping[tuple[str, int], Mapping[str, tuple[int, ...]]]

    @property
    def io_bytes(self) -> int:
        """What inputs and outputs take at most, one that continues a cache not counted again."""
        shapes = {name: one.max for name, one in self.profile.items()}
        shapes |= {name: shape for name, shape in self.outputs.items() if continued_cache(name) is None}
        return sum(math.prod(shape) * self.dtypes[name].itemsize for name, shape in shapes.items())

    def takes(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether inputs of these shapes lie within the profile."""
        return all(
            low <= length <= high
            for name, one in self.profile.items()
            for low, length, high in zip(one.min, shapes[name], one.max, strict=True)
        )

    def output_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Those of the outputs, for inputs of these shapes."""
        found = {name: list(shape) for name, shape in self.outputs.items()}
        for (name, axis), growth in self.growth.items():
            longer = shapes[name][axis] - self.profile[name].max[axis]
            for output, slopes in growth.items():
                found[output] = [length + longer * slope for length, slope in zip(found[output], slopes, strict=True)]
        return {name: tuple(shape) for name, shape in found.items()}


@contextmanager
def weightless() -> Iterator[None]:
    """Modules are built on the meta device, where weights have no content."""
    with ExitStack() as stack:
        for module in (blip2, clip, denoiser, graph, hed, sentence, vae):
            for name, instead in (("normal", lambda seed, *shape: torch.zeros(shape)), ("fill", lambda *_: None)):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, instead))
        # Whether a mask hides nothing is a question of its content.
        hides = "transformers.masking_utils._ignore_bidirectional_mask_sdpa"
        stack.enter_context(mock.patch(hides, return_value=False))
        stack.enter_context(torch.device("meta"))
        stack.enter_context(torch.no_grad())
        yield


def request_of(profile: Profile) -> Request:
    """The export of a profile at full size."""
    caption = profile.caption
    return Request(
        batches=batches_of(profile),
        prompt_tokens=caption.prompt_tokens,
        caption_tokens=caption.decoding.max_tokens,
        beams=caption.decoding.beams,
        sizes=profile.image.sizes,
        editor=editor_form(profile),
    )


def ports_of(made: Graph, profile: Mapping[str, Shapes]) -> Ports:
    """What a module's plan takes and gives, found by running it without content. One axis after the other grows."""

    def shapes(longer: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        inputs = [torch.empty(longer[name], dtype=made.inputs[name].dtype, device="meta") for name in profile]
        results = made.module(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        dtypes.update(
            (name, _dtype(name, value.dtype))
            for name, value in zip((*profile, *made.outputs), (*inputs, *results), strict=True)
        )
        return {name: tuple(value.shape) for name, value in zip(made.outputs, results, strict=True)}

    dtypes: dict[str, np.dtype[Any]] = {}
    most = {name: one.max for name, one in profile.items()}
    outputs, growth = shapes(most), {}
    # Axes of one name grow together; the first of them says by how much.
    for label in {label for axes in made.axes.values() for label in axes.values()}:
        where = [
            (name, axis)
            for name, axes in made.axes.items()
            for axis, one in axes.items()
            if one == label and profile[name].min[axis] != profile[name].max[axis]
        ]
        if where:
            shorter = {name: list(shape) for name, shape in most.items()}
            for name, axis in where:
                shorter[name][axis] -= 1
            less = shapes({name: tuple(shape) for name, shape in shorter.items()})
            growth[where[0]] = {
                name: tuple(a - b for a, b in zip(outputs[name], less[name], strict=True)) for name in outputs
            }
    return Ports(profile, dtypes, outputs, growth)


@lru_cache
def plans_of(name: str) -> Mapping[str, tuple[Ports, ...]]:
    """The plans of a profile at full size, by the profile's own names for them; a part for each size of pictures."""
    profile = load_profile(name)
    plan_of = {network.name: network.plan for network in networks_of(profile)}
    with weightless():
        made = graphs_of(request_of(profile))
        graphs = {name: build() for name, build in made.items() if name != "hed"}
        return {
            plan_of.get(name, name): tuple(ports_of(graph, profile) for profile in graph.plan)
            for name, graph in graphs.items()
        }


def _dtype(name: str, kind: torch.dtype) -> np.dtype[Any]:
    """A port's own: caches stay as they are computed, and all else is single precision outside of a plan."""
    if kind.is_floating_point:
        return np.dtype(np.float16 if is_cache(name) else np.float32)
    return np.dtype(np.int64)


def scratch_of(plan: str, weight_bytes: int, profile: Profile) -> int:
    """Scratch memory of a plan on the device; a form of a network ("denoiser_lcm") takes the network's.

    What is known of pictures of 512 pixels grows with the area of the profile's largest.
    """
    area = max(height * width for height, width in profile.image.sizes) / 512**2
    plan = next((known for known in (*STATED, *SCRATCH) if plan.startswith(f"{known}_")), plan)
    if plan in STATED:
        return round(area * STATED[plan][0])
    count, _ = SCRATCH.get(plan, OTHER_SCRATCH)
    return round(area * count if count > 1 else count * weight_bytes)


class SizedEngine(Engine):
    """An ICudaEngine of which only sizes are known."""

    def __init__(self, ports: Sequence[Ports], memory: Memory, parts: dict[str, int]) -> None:
        self.memory, self.sizes, self.parts = memory, ports, parts
        self.profiles, self.taken = tuple(one.profile for one in ports), weakref.WeakKeyDictionary()
        self.inputs, self.outputs = list(ports[0].profile), list(ports[0].outputs)
        self.ports = dict.fromkeys((*self.inputs, *self.outputs))

    def _output_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return next(one for one in self.sizes if one.takes(shapes)).output_shapes(shapes)

    def get_tensor_dtype(self, name: str) -> Any:
        return self.sizes[0].dtypes[name]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if self.get_tensor_mode(name) is Mode.INPUT:
            lengths = [shape for profile in self.profiles for shape in (profile[name].min, profile[name].max)]
            return tuple(axis[0] if len(set(axis)) == 1 else -1 for axis in zip(*lengths, strict=True))
        grows = [slopes[name] for one in self.sizes for slopes in one.growth.values()]
        lengths = zip(*(one.outputs[name] for one in self.sizes), strict=True)
        return tuple(
            -1 if len(set(most)) > 1 or any(slopes[axis] for slopes in grows) else most[0]
            for axis, most in enumerate(lengths)
        )

    def _hold(self, owner: object, nbytes: int) -> None:
        _count(self.parts, "weights", nbytes)
        super()._hold(owner, nbytes)
        weakref.finalize(owner, _count, self.parts, "weights", -nbytes).atexit = False

    def create_execution_context(self, strategy: Strategy = Strategy.USER_MANAGED) -> Context:
        super().create_execution_context(strategy)
        return SizedContext(self)


class SizedContext(Context):
    """An IExecutionContext whose logits are those of `words`."""

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if name == "logits":
            sizes = self.engine.sizes[0]
            self.engine.memory.given[memory] = words(sizes.outputs[name], sizes.dtypes[name]).view(np.uint8).ravel()
        return super().set_tensor_address(name, memory)


def words(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Logits by which all tokens but the captions' last are alike, so that captions are as long as they may be."""
    logits = np.full(shape, -100, dtype)
    logits[..., 4:_TOKENS] = 0
    return logits


def _count(parts: dict[str, int], what: str, nbytes: int) -> None:
    parts[what] = parts.get(what, 0) + nbytes


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
    driver: Memory | None = None
    llm: CachingAllocator | None = None
    stage: str = "start"
    shard: int = 0
    peaks: dict[tuple[int, str], Peak] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)

    def enter(self, stage: str) -> None:
        """A shard has work in a stage."""
        self.stage = stage

    def next_shard(self) -> None:
        """A shard begins its way."""
        self.shard += 1

    def changed(self, taken: int) -> None:
        """The device has given memory."""
        key = self.shard, self.stage
        if key not in self.peaks or taken > self.peaks[key].taken:
            assert self.driver is not None
            block = sum(size for size in self.driver.sizes("device") if size in self.scratch)
            llm = 0 if self.llm is None else self.llm.reserved
            parts = {"driver": CONTEXT_BYTES, "language model": llm, **self.parts, "scratch memory": block}
            parts["inputs, outputs, caches"] = taken - sum(parts.values())
            self.peaks[key] = Peak(*key, taken, parts)


class SizedLibrary(Library):
    """TensorRT whose engines have sizes alone."""

    def __init__(self, memory: Memory, ports: Mapping[str, tuple[Ports, ...]], watch: Watch) -> None:
        super().__init__(memory)
        self.ports, self.watch = ports, watch

    def Runtime(self, log: Any) -> Runtime:  # noqa: N802
        assert self.memory is not None
        return SizedRuntime(self.memory, self.ports, self.watch.parts)


class SizedRuntime(Runtime):
    """An IRuntime of that library."""

    def __init__(self, memory: Memory, ports: Mapping[str, tuple[Ports, ...]], parts: dict[str, int]) -> None:
        super().__init__(memory)
        self.ports, self.parts = ports, parts

    def engine(self, plan: Mapping[str, Any]) -> Engine:
        return SizedEngine(self.ports[plan["plan"]], self.memory, self.parts)


def write_folder(folder: Path, profile: Profile, ports: Mapping[str, tuple[Ports, ...]]) -> None:
    """A models' folder: stubs of plans with their keys, tokenizers, tables."""
    facts = plan_facts(profile)
    (folder / "plans").mkdir(parents=True)
    for name, its in ports.items():
        if name not in facts:
            continue
        held = {
            "weights_bytes": facts[name].weight_bytes,
            "scratch_bytes": scratch_of(name, facts[name].weight_bytes, profile),
            "io_bytes": sum(one.io_bytes for one in its),
        }
        plan = folder / "plans" / f"{name}.plan"
        plan.write_text(json.dumps({"plan": name, **held}))
        made_by, digest = library_name(Library()), file_digest(plan)
        write_key(
            plan, PlanKey("a" * 64, tuple(one.profile for one in its), "fp16", made_by, "SM86", digest, 1.0, **held)
        )
    small_words.opt_tokenizer(_TOKENS, 3).save(str(folder / "opt_tokenizer.json"))
    small_words.clip_tokenizer(60, 77).save(str(folder / "clip_tokenizer.json"))
    sentence.write_tokenizer(Request(small=True), folder)
    (folder / "opt_tokens.json").write_text('{"bos": 2, "eos": 3}')
    (folder / "latent.json").write_text('{"channels": 4, "factor": 8}')
    (captioner,) = {network.plan for network in networks_of(profile) if network.name == "opt_decoder"}
    width = ports[captioner][0].profile["inputs_embeds"].max[2]
    np.save(folder / "opt_embeddings.npy", np.zeros((_TOKENS, width), np.float16))
    write_model(folder / "llm")


def photographs(folder: Path, count: int) -> Path:
    """JPEGs of smooth noise, by turns of every shape that is painted at a size of its own."""
    random = np.random.default_rng(0)
    (folder / "bus").mkdir(parents=True)
    for i in range(count):
        noise = cv2.GaussianBlur(random.integers(0, 255, (*_SIZES[i % len(_SIZES)], 3), np.uint8), (0, 0), 5)
        cv2.imwrite(str(folder / "bus" / f"{i:03d}.jpg"), cv2.normalize(noise, noise, 0, 255, cv2.NORM_MINMAX))
    return folder


def run(name: str, shards: int = 2, root: Path | None = None, *, again: bool = True, keeps: bool = False) -> list[Peak]:
    """The peaks of a profile's run, by shard and stage, in order; with `again` of two runs, the second with other
    questions of captions that the first one wrote.

    `keeps` leaves out what gives the language model's memory back, to see that it is missed. Raises
    CounterfactoryError where the card has not enough memory.
    """
    asked = load_profile(name)
    assert asked.llm.exllama is not None
    ports = plans_of(name)
    facts = plan_facts(asked)
    watch = Watch(frozenset(scratch_of(plan, facts[plan].weight_bytes, asked) for plan in ports if plan in facts))
    watch.driver = driver = Memory(CARD_BYTES, virtual=True, on_change=watch.changed)
    watch.llm = allocator = CachingAllocator(driver)
    llm = SizedLlm(allocator, facts["llm"].weight_bytes)
    driver.cudaMalloc(CONTEXT_BYTES)
    sources = asked.caption.batch
    with ExitStack() as stack:
        work = root or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_folder(work / "models", asked, ports)
        profile = replace(
            asked,
            shard_sources=sources,
            models=ModelPaths(str(work / "models")),
            llm=replace(asked.llm, model="llm"),
            check=asked.check.having(min_image_text=-1.0, min_directional=-1.0),
            rewrite=replace(asked.rewrite, types=("weather", "time", "colour"), verbatim=True),
        )
        _put_in(stack, driver, SizedLibrary(driver, ports, watch), llm, watch, keeps)
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
    assert not driver.faults, driver.faults
    return list(watch.peaks.values())


def _put_in(stack: ExitStack, driver: Memory, library: SizedLibrary, llm: SizedLlm, watch: Watch, keeps: bool) -> None:
    """Stand-ins for the driver, TensorRT, torch's allocator and ExLlama; all of the engine's own code stays."""

    def patch(owner: Any, attribute: str, instead: Any) -> None:
        stack.enter_context(mock.patch.object(owner, attribute, instead))

    enter = ModelPool.enter

    def entered(self: ModelPool, stage: Any) -> None:
        watch.enter(stage)
        enter(self, stage)

    caption, colours = Blip2.caption, cycle(_COLOURS)

    def captioned(self: Blip2, *arguments: Any) -> list[list[str]]:
        """A card without content writes words without sense, as many as it may; the language model is given others."""
        count, colour = len(caption(self, *arguments)), next(colours)
        return [[f"a {colour} car on a {_SKIES[i % len(_SKIES)]} street at noon."] for i in range(count)]

    rewrite = journey.rewrite_captions

    def rewritten(run: Run, captions: Mapping[Source, str]) -> ShardVariants:
        """The pocket model cannot converse and points at nothing; the encoder has a batch of texts all the same."""
        grounding = run.profile.grounding
        assert grounding is not None, "the box's profile points at labels"
        check = replace(run.profile.check, least={}, most={})
        variants = rewrite(replace(run, profile=replace(run.profile, grounding=None, check=check)), captions)
        with run.meter.stage("rewrite"):
            run.models.sentence().encode(["a bus"] * grounding.batch)
        return variants

    pocket = openvino_llm.OpenVinoLlm(RUNTIME / "llm", precision="f32", threads=0)
    step = journey.step

    def stepped(*arguments: Any) -> Any:
        watch.next_shard()
        return step(*arguments)

    patch(ModelPool, "enter", entered)
    patch(Blip2, "caption", captioned)
    patch(journey, "step", stepped)
    patch(journey, "rewrite_captions", rewritten)
    patch(rewrite_captions, "prompts_of", lambda style: prompts_of("pocket"))
    patch(cuda, "load_runtime", lambda: driver)
    patch(kernels, "load_driver", lambda: Driver(driver))
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


def write(peaks: Sequence[Peak]) -> None:
    """Put the figures into docs/a10g.json and the table into docs/production.md, leaving what else they say."""
    file, page = ROOT / "docs" / "a10g.json", ROOT / "docs" / "production.md"
    stages = by_stage(peaks)
    said = json.loads(file.read_text()) if file.is_file() else {}
    said |= {"peak_gb": max(stages.values()), "peak_gb_by_stage": stages}
    file.write_text(json.dumps(said, indent=2) + "\n")
    before, _, rest = page.read_text().partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}\n\n{table(peaks)}\n{_END}{rest.partition(_END)[2]}")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="append", choices=PROFILES, help="all without it")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put a10g's figures into the documents")
    asked = parser.parse_args()
    most = 0
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, XDG_CACHE_HOME=cache):
        for name in asked.profile or PROFILES:
            peaks = run(name, asked.shards)
            print(f"{name}, 10^9 bytes:\n\n{table(peaks)}", flush=True)  # noqa: T201 - a command's output
            most = max(most, *(peak.taken for peak in peaks))
            if asked.write and name == "a10g":
                write(peaks)
    return int(most > BAR_BYTES)


if __name__ == "__main__":
    sys.exit(main())
