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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.device_painting import DevicePaintPlans
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.runtime import cuda as cuda_calls
from counterfactory.engine.runtime.cuda import Buffer
from counterfactory.engine.runtime.kernels import Kernel, load_paint_kernels
from counterfactory.engine.runtime.onnx_header import read_ports
from counterfactory.engine.runtime.opening import open_plan
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.kernels.guided_step import pack
from counterfactory.kernels.pixels import to_pictures

Arrays = dict[str, NDArray[Any]]
Figures = dict[str, Any]
SIZES = ((32, 32), (32, 44), (44, 32), (32, 52))  # of the small networks
_SEED, _SIDE, _ROWS, _BYTES, _ROUNDS = 20, 512, 256, 1 << 28, 20
# a10g's profile over the small networks, as far as they need it otherwise.
PROFILE = """
extends = "a10g"
name = "gpu-check-{provider}"
shard_sources = 2
without = [{without}]
[models]
folder = "{folder}"
[runtime]
backend = "onnxruntime"
provider = "{provider}"
precision = "{precision}"
memory_gb = 0
[llm]
backend = "openvino"
model = "{llm}"
style = "pocket"
[image]
short_side = 32
multiple = 4
max_long_side = 52
buckets = {sizes}
[caption]
batch = 2
texts = 1
decoding = {{ mode = "greedy", min_tokens = 6, max_tokens = 12 }}
[rewrite]
types = ["weather", "time", "colour"]
verbatim = true
[paint]
batch = 4
decode_batch = 2
sampler = {{ steps = 6 }}
[text]
batch = 2
[check]
batch = 2
min_image_text = -1.0
min_directional = -1.0
min_in_place = 0.0
min_spread = 0.0
min_exposed = 0.0
min_changed = 0.0
min_distinct = 0.0
"""


class Card:
    """A device, and arrays' way to it and back."""

    def __init__(self) -> None:
        self.cuda = cuda_calls.open_device()

    def up(self, array: NDArray[Any]) -> Buffer:
        """The bytes of an array, on the device."""
        buffer, host = self.cuda.allocate(array.nbytes), self.cuda.pin(array.nbytes)
        host.array[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.cuda.to_device(buffer, host, array.nbytes)
        self.cuda.wait()
        return buffer

    def down(self, buffer: Buffer, like: NDArray[Any]) -> NDArray[Any]:
        """The bytes of a buffer, as an array like that one."""
        host = self.cuda.pin(like.nbytes)
        self.cuda.to_host(host, buffer, like.nbytes)
        self.cuda.wait()
        return host.array[: like.nbytes].view(like.dtype).reshape(like.shape).copy()

    def seconds(self, work: Callable[[], object], times: int = 20) -> float:
        """The median of the device's own seconds that `work` takes, once it has run three times."""
        first, last, spent = self.cuda.event(), self.cuda.event(), []
        for turn in range(times + 3):
            self.cuda.mark(first)
            work()
            self.cuda.mark(last)
            self.cuda.wait_for(last)
            if turn >= 3:
                spent.append(self.cuda.seconds_between(first, last))
        return float(np.median(spent))


def require(holds: bool, says: str) -> None:
    """Raise AssertionError unless it holds."""
    if not holds:
        raise AssertionError(says)


def distance(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The norm of the difference by the norm of `theirs`; infinite where anything is not finite."""
    if not np.isfinite(ours).all():
        return float("inf")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    return float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30))


# --- kernels and calls ---


def check_kernels(card: Card) -> Figures:
    """The guided step through whole denoisings of several samplers, then pictures; and the speed of both."""
    kernels, rng = load_paint_kernels(card.cuda), np.random.default_rng()
    runs = [("unipc", 6), ("ddim", 4), ("lcm", 3), ("unipc", 1)]
    steps = 0
    for shape in ((4, 64, 64), (4, 7, 11)):
        for kind, count in runs:
            spacing = "lcm" if kind == "lcm" else "trailing"
            sampler = Sampler(SamplerSettings(kind, count, "epsilon", spacing, False))  # type: ignore[arg-type]
            steps += _denoised(card, kernels.guided_step, sampler, shape, rng)
    values = rng.uniform(-1.3, 1.3, (4, 3, _SIDE, _SIDE)).astype(np.float32)
    values[0, 0, 0] = (np.arange(_SIDE, dtype=np.float32) - 100 + np.float32(0.5)) / np.float32(127.5) - 1
    levels = np.full((4, _SIDE, _SIDE, 3), 7, np.uint8)
    source, target, flags = card.up(values), card.up(levels), card.up(np.zeros(4, np.int32))
    places = source.pointer, target.pointer, flags.pointer
    kernels.pixels.queue(4, _SIDE**2, *places, _SIDE**2)
    drawn = card.down(target, levels)
    require(all((a == b).all() for a, b in zip(drawn, to_pictures(values), strict=True)), "pictures differ")
    require(not card.down(flags, np.zeros(4, np.int32)).any(), "finite numbers were flagged")
    spent = card.seconds(lambda: kernels.pixels.queue(4, _SIDE**2, *places, _SIDE**2))
    values[2, 1, 3, 4], values[3, 0, 0, 0] = np.nan, -np.inf
    poisoned = card.up(values)
    kernels.pixels.queue(4, _SIDE**2, poisoned.pointer, *places[1:], _SIDE**2)
    require(card.down(flags, np.zeros(4, np.int32)).tolist() == [0, 0, 1, 1], "NaN and infinity were not flagged")
    rates = {"pixels_gb_per_s": (values.nbytes + levels.nbytes) / spent / 1e9}
    rates["guided_step_gb_per_s"] = _guided_step_rate(card, kernels.guided_step)
    refused = "nothing"
    try:
        kernels.pixels.queue(0, 5, 0, 0, 0, 5)
    except CounterfactoryError as error:
        refused = str(error)
    require("CUDA_ERROR_INVALID_VALUE" in refused, f"a launch of no rows gave {refused}")
    return {"steps": steps, **rates}


def _denoised(
    card: Card, kernel: Kernel, sampler: Sampler, shape: tuple[int, ...], rng: np.random.Generator, rows: int = 3
) -> int:
    """Rows from noise to latents on the device and on the host, equal after every step; how many steps those were."""
    size, count = int(np.prod(shape)), sampler.settings.steps
    arrays = np.full((rows, 4, *shape), np.nan, np.float32)
    arrays[:, 0] = rng.standard_normal((rows, *shape), np.float32)
    alone: list[tuple[Any, Any]] = [(arrays[row, 0].copy(), sampler.start) for row in range(rows)]
    held = [card.up(arrays[row]) for row in range(rows)]
    for i in range(count):
        outputs = rng.standard_normal((rows, 2, *shape), np.float32)
        scales = [None if (row + i) % 3 == 0 else 5.0 + row for row in range(rows)]
        if sampler.adds_noise(i):
            for row in range(rows):
                now = card.down(held[row], arrays[row])
                now[2] = rng.standard_normal(shape, np.float32)
                arrays[row], held[row] = now, card.up(now)
        table = pack([(sampler.weights(i), scale) for scale in scales])
        predicted = [card.up(output) for output in outputs]
        addresses = np.array(
            [[a.pointer, p.pointer, p.pointer + 4 * size] for a, p in zip(held, predicted, strict=True)], np.int64
        )
        sent = [card.up(one) for one in (table.weights, table.counts, addresses)]
        kernel.queue(rows, size, *(one.pointer for one in sent), size)
        for row, scale in enumerate(scales):
            output = outputs[row, 0]
            if scale is not None:
                output = outputs[row, 1] + np.float32(scale) * (outputs[row, 0] - outputs[row, 1])
            noise = arrays[row, 2] if sampler.adds_noise(i) else None
            alone[row] = sampler.step(i, alone[row][0], output, alone[row][1], noise)
            found = card.down(held[row], arrays[row])[0]
            require((found == alone[row][0]).all(), f"step {i} of {sampler.settings.kind} differs at {list(shape)}")
    return rows * count


def _guided_step_rate(card: Card, kernel: Kernel) -> float:
    """10^9 bytes a second of guided UniPC steps: six arrays read and four written."""
    size, rows = 4 * 64 * 64, _ROWS
    table = pack([(Sampler(SamplerSettings("unipc", 6, "epsilon", "trailing", False)).weights(3), 5.0)] * rows)
    arrays = np.random.default_rng(0).standard_normal((rows, 6, size), np.float32)
    held = card.up(arrays)
    starts = held.pointer + np.arange(rows, dtype=np.int64) * 6 * size * 4
    addresses = np.stack([starts, starts + 4 * size * 4, starts + 5 * size * 4], 1)
    sent = [card.up(one) for one in (table.weights, table.counts, addresses)]
    spent = card.seconds(lambda: kernel.queue(rows, size, *(one.pointer for one in sent), size))
    return rows * 10 * size * 4 / spent / 1e9


def check_cuda(card: Card) -> Figures:
    """Copies on one stream under computations of another, ordered by events; a recording; errors; what is freed."""
    free = cuda_calls.memory(card.cuda.runtime)[0]
    rate = _exercised(card, _BYTES)
    card.cuda.settle()
    card.cuda.wait()
    left = free - cuda_calls.memory(card.cuda.runtime)[0]
    require(left < 64 << 20, f"{left} bytes were not given back")
    return {"rounds": _ROUNDS, "copy_gb_per_s": rate, "left_mb": left / 2**20}


def _exercised(card: Card, size: int) -> float:
    """10^9 bytes a second of a copy on the device, after all that may go wrong."""
    cuda, rng = card.cuda, np.random.default_rng()
    numbers = [rng.integers(0, 255, size, np.uint8) for _ in range(3)]
    host, back = [cuda.pin(size) for _ in numbers], cuda.pin(size)
    for pinned, array in zip(host, numbers, strict=True):
        pinned.array[:] = array
    first, second = cuda.allocate(size), cuda.allocate(size)
    arrived, copied = cuda.event(), cuda.event()
    for turn in range(_ROUNDS):  # without the events a copy would overtake the one that it waits for
        cuda.to_device(first, host[turn % 3], size, on_copies=True)
        cuda.mark(arrived, on_copies=True)
        cuda.hold_until(arrived)
        cuda.on_device(second, first, size)
        cuda.mark(copied)
        cuda.hold_until(copied, on_copies=True)
        cuda.to_host(back, second, size, on_copies=True)
        cuda.mark(arrived, on_copies=True)
        cuda.wait_for(arrived)
        require(cuda.has_passed(arrived), "an event that was waited for has not passed")
        require((back.array == numbers[turn % 3]).all(), f"turn {turn} brought other bytes back")
    poisoned = card.up(np.full(size, 0xFF, np.uint8))
    replay = cuda.capture(lambda: cuda.on_device(poisoned, first, size))
    require((card.down(poisoned, numbers[0]) == 0xFF).all(), "a recording ran when it was made")
    for turn in range(3):
        cuda.to_device(first, host[turn], size)
        replay()
        require((card.down(poisoned, numbers[turn]) == numbers[turn]).all(), "a recording copied other bytes")
    failed = "nothing"
    try:
        cuda.allocate(1 << 50)
    except CounterfactoryError as error:
        failed = str(error)
    require("cudaErrorMemoryAllocation" in failed, f"a petabyte gave {failed}")
    leases = [cuda.lease(1 << 28), cuda.lease(1 << 20)]
    require(leases[1].renewed() is not None and leases[1].renewed() is None, "a lease is not renewed once")
    return 2 * size / card.seconds(lambda: cuda.on_device(second, first, size)) / 1e9


# --- networks ---


def small_profile(folder: Path, provider: str, into: Path) -> Profile:
    """a10g's profile over the small networks of `folder`, run by a provider of ONNX Runtime."""
    llm = Path(__file__).parents[1] / "engine" / "pocket" / "weights" / "llm"
    gone = ["llm.exllama", "grounding", *(["device"] if provider == "cpu" else [])]
    file = into / f"{provider}.toml"
    file.write_text(
        PROFILE.format(
            provider=provider,
            folder=folder.absolute(),
            precision="f32" if provider == "cpu" else "f16",
            llm=llm,
            sizes=json.dumps([list(size) for size in SIZES]),
            without=", ".join(json.dumps(key) for key in gone),
        )
    )
    return load_profile(str(file))


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
        cpu, gpu = (
            open_plan(
                library.folder, network.plan, profiles[one].runtime, network.batch, sizes, device=lambda: card.cuda
            )
            for one in ("cpu", "cuda")
        )
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


def painted(profile: Profile, count: int) -> tuple[list[NDArray[np.uint8]], float, PaintPlans]:
    """Pictures of `count` variants over random edges and texts, the seconds they took once all was warm, the plans."""
    models, size = ModelPool(library_of(profile), Meter(lambda _: None)), SIZES[1]
    plans, rng = models.paint_plans(*size), np.random.default_rng(_SEED)
    port = next(port for port in plans.denoiser.signature.inputs if port.name == "text")
    states = rng.standard_normal((4, *(length or 0 for length in port.shape[1:]))).astype(np.float32)
    edges = (rng.random((4, *size)) < 0.2).astype(np.uint8) * 255
    texts, seconds, pictures = [plans.put_text(one) for one in states], 0.0, dict[int, NDArray[np.uint8]]()
    for _ in range(2):
        hints = plans.embed_hints(edges)
        jobs = [PaintJob(f"variant {i}", texts[i % 3], hints[i % 4], plans) for i in range(count)]
        began = time.perf_counter()
        pictures = dict(paint(jobs, texts[3], profile.paint))
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
    from counterfactory.engine.cli.arguments import main
    from counterfactory.engine.suite import read_metadata

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
            return [
                [f"a red bus on a {sky} street at noon."] for sky, _ in zip(("clear", "foggy"), texts, strict=False)
            ]

        suite = folder / provider
        asked = ["generate", str(photographs.parent), "--task", "classification", "--out", str(suite)]
        with mock.patch.object(Blip2, "caption", captioned):
            status = main([*asked, "--variants", "2", "--profile", str(folder / f"{provider}.toml")])
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


# --- language ---


def check_language(folder: Path) -> Figures:
    """Answers of ExLlamaV3 under grammars: allowed, and those of a greedy loop over transformers' f32 scores."""
    import torch

    from counterfactory.engine.language.exllama import open_exllama
    from counterfactory.engine.language.exllamav3 import ExLlamaV3
    from counterfactory.engine.language.grammar import alternatives_grammar, edited_grammar, keywords_grammar
    from counterfactory.engine.language.llm_request import LlmRequest, Prompt
    from counterfactory.engine.language.token_filter import TokenFilter, allowed
    from counterfactory.engine.profile.rewrite import ExllamaSettings

    model = _write_llama(folder / "llama")
    settings = ExllamaSettings(rows=4, cache="fp16", cache_tokens=16 * 256, temperature=0.0, top_p=0.85, seed=0)
    began = time.perf_counter()
    llm = open_exllama(ExLlamaV3(settings), folder / "llama")
    opened_s = time.perf_counter() - began
    caption, words = "a red car on a foggy street at night.", ("foggy", "red car", "street", "at night")
    grammars = [
        edited_grammar(caption, [("foggy", "rainy"), ("red", "blue")]),
        keywords_grammar(("weather", "time"), words, 2),
        alternatives_grammar("foggy", 1),
    ]
    asked = [LlmRequest(Prompt("", "", f"<s>{i}. {caption}\n"), grammars[i % 3]) for i in range(24)]
    answers, agreed, free = llm.generate(asked), list[float](), 0
    for request, answer in zip(asked, answers, strict=True):
        ids, taken = llm.encode(request.prompt.text), TokenFilter(llm.vocabulary, request.grammar)
        while not taken.closed and len(taken.tokens) < request.max_tokens:
            forced = taken.forced()
            if not forced:
                with torch.no_grad():
                    scores = model(torch.tensor([[*ids, *taken.tokens]])).logits[0, -1].float().numpy()
                scores = scores[: llm.vocabulary.size]
                scores[~allowed(taken.mask(), llm.vocabulary.size)] = -np.inf
                forced, free = (int(scores.argmax()),), free + 1
            if forced[0] == llm.vocabulary.end:
                break
            taken.accept(forced[0])
        prefix = next((i for i, (x, y) in enumerate(zip(taken.text, answer, strict=False)) if x != y), len(taken.text))
        agreed.append(prefix / max(1, len(taken.text), len(answer)))
        require(_follows(llm.vocabulary, request, answer), f"an answer breaks its grammar: {answer!r}")
    require(float(np.mean(agreed)) > 0.7, f"answers agree with transformers' on {np.mean(agreed):.0%} of their length")
    equal = sum(share == 1 for share in agreed)
    llm.close()
    return {
        "answers": len(asked),
        "equal": equal,
        "agreed": float(np.mean(agreed)),
        "choices": free,
        "opened_s": opened_s,
    }


def _follows(vocabulary: Any, request: Any, answer: str) -> bool:
    """Whether a grammar allows an answer, or its beginning where it was cut off."""
    from counterfactory.engine.language.token_filter import TokenFilter, allowed

    follower = TokenFilter(vocabulary, request.grammar)
    for token in vocabulary.tokens.tokenize_str(answer):
        if follower.closed or not allowed(follower.mask(), vocabulary.size)[token]:
            return False
        follower.accept(token)
    return True


def _write_llama(folder: Path) -> Any:
    """A Llama of random weights, written as the hub has it; the model in f32, of the f16 weights."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=384, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["a red car on a foggy street at night in the rain"] * 4, trainer)
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=384, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():  # fresh weights hardly look at the context
            value.mul_(1.0 if "norm" in name else 4.0)
            value.copy_(value.half().float())
    model.half().save_pretrained(folder, safe_serialization=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return model.float()


# --- full size ---


def check_size(card: Card, folder: Path) -> Figures:
    """The denoiser's 16 rows at 512 x 512, queued as painting queues them: seconds a batch, and its arithmetic."""
    profile, name = load_profile("a10g"), "denoiser"
    graph, batch = folder / "onnx" / name / "model.onnx", profile.paint.batch
    sizes = {port.name: (64, 64) for port in read_ports(graph).inputs if port.name in ("latents", "hint_embedding")}
    runtime = mock.Mock(backend="onnxruntime", provider="cuda", threads=0)
    began = time.perf_counter()
    session: Any = open_plan(folder, name, runtime, batch, sizes, device=lambda: card.cuda)
    opened_s = time.perf_counter() - began
    feeds = random_feeds(session.signature, np.random.default_rng(0))
    outputs = session.run(feeds)
    finite = all(np.isfinite(one).all() for one in outputs.values())
    held = {name: session._places(place) for name, place in session._inputs.items()}
    spent = card.seconds(lambda: session.queue(held), times=10)
    tera = count_flops(graph, batch, sizes) / 1e12
    free, total = cuda_calls.memory(card.cuda.runtime)
    return {
        "rows": batch, "seconds": spent, "rows_per_s": batch / spent, "tflop": tera, "tflops": tera / spent,
        "opened_s": opened_s, "used_gb": (total - free) / 1e9, "finite": finite,
    }  # fmt: skip


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
            checks.append(("language", lambda: check_language(into)))
        if arguments.full:
            checks.append(("size", lambda: check_size(card, arguments.full)))
        _, fine = run_all(arguments, checks)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
