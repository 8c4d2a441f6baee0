"""Painting on a device: over a strict stand-in for its driver, with the kernels that are compiled for it under Triton's
interpreter, it makes the host's pictures of the same graphs, bit for bit, and next to nothing crosses the bus.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from small_graphs import saved
from stand_in_cuda import Kind, Memory
from stand_in_gpu import Engine, Library, OnnxSession, RunOptions

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.meter import Work
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.clip import ClipText
from counterfactory.engine.models.denoiser import DenoiserRow, PaintPlans
from counterfactory.engine.models.device_painting import DevicePaintPlans, kept_bytes
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import (
    GuidanceSettings,
    PaintSettings,
    ProtectSettings,
    ReuseSettings,
    SamplerSettings,
)
from counterfactory.engine.runtime import cuda, kernels, onnxruntime, tensorrt
from counterfactory.engine.runtime.cuda import Cuda
from counterfactory.engine.runtime.pipeline import Pipeline
from counterfactory.engine.runtime.plans import Shapes
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.stages.paint.protect import ProtectedRegion

pytest.importorskip("triton", reason="triton is not installed: painting on a device goes unchecked")

from stand_in_kernels import Driver

Image = NDArray[np.uint8]
Floats = NDArray[np.float32]
BATCH, DECODE_BATCH, HINT_BATCH, CHANNELS, HINT, TOKENS, WIDTH, FACTOR = 3, 2, 2, 4, 6, 7, 12, 2
DEEP, FORMS = 5, ("whole", "shallow")
SIZES = ((16, 16), (16, 24))
UP, DOWN = Kind.cudaMemcpyHostToDevice, Kind.cudaMemcpyDeviceToHost
UNIPC = SamplerSettings("unipc", 4, "v_prediction", "trailing", True)
LCM = SamplerSettings("lcm", 3, "epsilon", "lcm", False)


def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def save_batched(path: Path, nodes: list[Any], inputs: Mapping[str, Any], outputs: str, **weights: Any) -> None:
    """Write a graph of a free batch; `inputs` have their shapes without it, and `outputs` are names."""
    kinds = {name: TensorProto.INT64 if name in ("timestep", "input_ids") else TensorProto.FLOAT for name in inputs}
    ports = [helper.make_tensor_value_info(name, kinds[name], ["batch", *shape]) for name, shape in inputs.items()]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()]
    known = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    saved(helper.make_graph(nodes, path.stem, ports, given, known), path, check=False)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Networks that take and give what painting's do, `folder`/NAME.onnx: every input moves every output."""
    folder, rng = tmp_path_factory.mktemp("graphs"), np.random.default_rng(0)

    def weight(*shape: int) -> Floats:
        return rng.standard_normal(shape).astype(np.float32) / np.float32(np.prod(shape[1:]) ** 0.5)

    half = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    embed = [node("Conv", "hint w", "c", **half), node("Tanh", "c", "hint_embedding")]
    save_batched(folder / "hint.onnx", embed, {"hint": (1, "h", "w")}, "hint_embedding", w=weight(HINT, 1, 3, 3))
    step = [
        node("Cast", "timestep", "t0", to=TensorProto.FLOAT),
        node("Div", "t0 thousand", "t1"),
        node("Unsqueeze", "t1 one", "t2"),
        node("Unsqueeze", "control_scale three", "s"),
        node("ReduceMean", "text one", "x0", keepdims=0),
        node("MatMul", "x0 wt", "x1"),
        node("Mul", "x1 t2", "x2"),
        node("Unsqueeze", "x2 two", "x3"),
        node("Conv", "hint_embedding wh", "h0", pads=[1, 1, 1, 1]),
        node("Mul", "h0 s", "h1"),
        node("Conv", "latents wl", "l0", pads=[1, 1, 1, 1]),
        node("Sum", "x3 h1 l0", "sum"),
        node("Tanh", "sum", "prediction"),
    ]
    inputs: dict[str, tuple[Any, ...]] = {"timestep": (), "control_scale": (), "text": (TOKENS, WIDTH)}
    inputs |= {"latents": (CHANNELS, "h", "w"), "hint_embedding": (HINT, "h", "w")}
    weights: dict[str, Any] = {
        "thousand": np.float32(1000),
        **{name: np.array(axes) for name, axes in (("one", [1]), ("two", [2, 3]), ("three", [1, 2, 3]))},
        "wt": weight(WIDTH, CHANNELS) * np.float32(9),
        "wh": weight(CHANNELS, HINT, 3, 3),
        "wl": weight(CHANNELS, CHANNELS, 3, 3),
    }
    save_batched(folder / "denoiser.onnx", step, inputs, "prediction", **weights)
    # The same with a deep feature, which the text and all else go into, and what is left of it where that is given.
    into = [*step[:-1], node("Conv", "sum wd", "d0"), node("Tanh", "d0", "deep")]
    out_of = [
        node("Unsqueeze", "t1 three", "t3"),
        node("Conv", "deep wp", "p0", pads=[1, 1, 1, 1]),
        node("Sum", "p0 h1 l0 t3", "p1"),
        node("Tanh", "p1", "prediction"),
    ]
    weights |= {"wd": weight(DEEP, CHANNELS, 1, 1) * np.float32(3), "wp": weight(CHANNELS, DEEP, 3, 3)}
    save_batched(folder / "whole.onnx", [*into, *out_of], inputs, "prediction deep", **weights)
    around = [one for one in step[:-2] if one.output[0] in ("t0", "t1", "s", "h0", "h1", "l0")]
    read = {name: shape for name, shape in inputs.items() if name != "text"} | {"deep": (DEEP, "h", "w")}
    save_batched(folder / "shallow.onnx", [*around, *out_of], read, "prediction", **weights)
    draw = [node("ConvTranspose", "latents w", "c", strides=[2, 2]), node("Tanh", "c", "pixel_values")]
    shape = {"latents": (CHANNELS, "h", "w")}
    save_batched(folder / "vae_decoder.onnx", draw, shape, "pixel_values", w=weight(CHANNELS, 3, 2, 2))
    return folder


def shapes_of(size: tuple[int, int]) -> dict[str, dict[str, tuple[int, ...]]]:
    """The inputs of each plan of a picture size."""
    h, w = size[0] // FACTOR, size[1] // FACTOR
    step = {"latents": (BATCH, CHANNELS, h, w), "timestep": (BATCH,), "text": (BATCH, TOKENS, WIDTH)}
    step |= {"hint_embedding": (BATCH, HINT, h, w), "control_scale": (BATCH,)}
    decode = {"latents": (DECODE_BATCH, CHANNELS, h, w)}
    return {"hint": {"hint": (HINT_BATCH, 1, *size)}, "denoiser": step, "vae_decoder": decode}


def forms_of(size: tuple[int, int]) -> dict[str, dict[str, tuple[int, ...]]]:
    """The inputs of the two forms of a denoiser whose deep features serve several steps."""
    inputs = shapes_of(size)["denoiser"]
    around = {name: shape for name, shape in inputs.items() if name != "text"}
    return {"whole": inputs, "shallow": around | {"deep": (BATCH, DEEP, *inputs["latents"][2:])}}


def latents_of(size: tuple[int, int]) -> tuple[int, int, int]:
    return CHANNELS, size[0] // FACTOR, size[1] // FACTOR


def host_plans(graphs: Path, size: tuple[int, int], reuses: bool = False) -> PaintPlans:
    """The same computations, run one by one from host to host."""
    memory = Memory()

    def plan(name: str, inputs: Mapping[str, tuple[int, ...]]) -> Batched:
        return Batched(bound(graphs, name, inputs, memory, Cuda(memory)))

    return plans_of(PaintPlans, plan, size, reuses)


def plans_of(kind: Any, plan: Callable[..., Batched], size: tuple[int, int], reuses: bool, *more: Any) -> Any:
    """Plans of a picture size, those whose deep features serve several steps with both forms of the denoiser."""
    plans = kind(*(plan(*one) for one in shapes_of(size).items()), latents_of(size), *more)
    if not reuses:
        return plans
    whole, shallow = (plan(*one) for one in forms_of(size).items())
    return replace(plans, denoiser=whole, shallow=shallow)


def bound(
    graphs: Path, name: str, inputs: Mapping[str, Any], memory: Memory, device: Cuda, runtime: str = "tensorrt"
) -> Any:
    profile = {one: Shapes.static(*shape) for one, shape in inputs.items()}
    context = Engine(graphs / f"{name}.onnx", memory, profile).create_execution_context()
    if runtime == "onnxruntime":
        for one, shape in inputs.items():
            context.set_input_shape(one, shape)
        session, library = OnnxSession(context, device.stream_handle), SimpleNamespace(RunOptions=RunOptions)
        return onnxruntime.queue_on(name, library, session, device)
    return tensorrt.bind(name, Library(), context, device, next(iter(inputs.values()))[0])


@dataclass
class Device:
    """A device and what painting has on it."""

    memory: Memory
    driver: Driver
    line: Pipeline
    plans: dict[tuple[int, int], DevicePaintPlans]
    work: dict[str, Work] = field(default_factory=dict)


def opened(
    graphs: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int | None = None,
    on_change: Callable[[int], object] = lambda _: None,
    runtime: str = "tensorrt",
    reuses: bool = False,
) -> Device:
    memory = Memory(seed=seed, on_change=on_change)
    driver = Driver(memory)
    monkeypatch.setattr(kernels, "load_driver", lambda: driver)
    device = Cuda(memory)
    line, work = Pipeline(device), {name: Work() for name in ("hint", "denoiser", "vae_decoder", *FORMS)}
    ours = kernels.load_paint_kernels(device)

    def plan(name: str, inputs: Mapping[str, tuple[int, ...]]) -> Batched:
        return Batched(bound(graphs, name, inputs, memory, device, runtime), lambda: work[name])

    plans = {size: plans_of(DevicePaintPlans, plan, size, reuses, line, ours) for size in SIZES}
    return Device(memory, driver, line, plans, work)


@dataclass(frozen=True)
class Order:
    key: str
    text: int
    edges: Image


def orders(count: int = 7) -> list[Order]:
    """Pictures in two sizes, of three texts and four edge maps: more rows than one evaluation takes."""
    rng = np.random.default_rng(5)
    edges = [(rng.random(SIZES[i % 2]) < 0.2).astype(np.uint8) * 255 for i in range(4)]
    return [Order(f"variant {i}", i % 3, edges[i % 4]) for i in range(count)]


def text_states(seed: int) -> Floats:
    return np.random.default_rng((1, seed)).standard_normal((TOKENS, WIDTH)).astype(np.float32)


def settings_of(sampler: SamplerSettings, scale: float, stop: float) -> PaintSettings:
    return PaintSettings(sampler, GuidanceSettings(scale, 0.0, stop), "denoiser", 1.4, "", BATCH, 1, DECODE_BATCH)


def painted(
    plans: Mapping[tuple[int, int], PaintPlans],
    wanted: Sequence[Order],
    settings: PaintSettings,
    regions: Mapping[tuple[int, int], Floats] | None = None,
) -> dict[int, Image]:
    """Pictures by their places; with `regions` [2, C, h, w] some variants keep a part of their source, the third none,
    and every other one the last step's blend, which comes before the decode.
    """
    put = plans[SIZES[0]].put_text
    texts = [put(text_states(seed)) for seed in range(3)]

    def jobs() -> Iterable[PaintJob]:
        for place, order in enumerate(wanted):
            size, region = (order.edges.shape[0], order.edges.shape[1]), None
            if regions is not None and place != 2:
                (latents, share), until = regions[size], 1.0 if place % 2 else 0.6
                region = ProtectedRegion(latents, share[0], ProtectSettings(("1",), 0.0, until))
            hint = plans[size].embed_hints(order.edges[None])[0]
            yield PaintJob(order.key, texts[order.text], hint, plans[size], region=region)

    return dict(paint(jobs(), put(text_states(99)), settings))


@pytest.mark.parametrize("runtime", ["tensorrt", "onnxruntime"])
@pytest.mark.parametrize(
    ("sampler", "scale", "seed", "protects"), [(UNIPC, 4.0, None, False), (UNIPC, 4.0, 1, True), (LCM, 2.0, 1, False)]
)
def test_pictures_are_the_hosts_bit_for_bit(
    graphs: Path, sampler: Any, scale: float, seed: Any, protects: bool, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As late as queued work may be done, and at random times; guided for half of the steps."""
    settings, device = settings_of(sampler, scale, 0.5), opened(graphs, monkeypatch, seed, runtime=runtime)
    rng, host = np.random.default_rng(3), {size: host_plans(graphs, size) for size in SIZES}
    regions = {size: rng.random((2, *latents_of(size)), np.float32) for size in SIZES} if protects else None
    found = painted(device.plans, orders(), settings, regions)
    expected = painted(host, orders(), settings, regions)
    assert found.keys() == expected.keys()
    for place, picture in expected.items():
        assert picture.std() > 20
        np.testing.assert_array_equal(found[place], picture)


@pytest.mark.parametrize("runtime", ["tensorrt", "onnxruntime"])
@pytest.mark.parametrize(
    ("sampler", "every", "seed"),
    [
        (UNIPC, 2, None),
        pytest.param(UNIPC, 3, 1, marks=pytest.mark.slow),
        pytest.param(LCM, 2, 2, marks=pytest.mark.slow),
    ],
)
def test_deep_features_stay_on_the_device(
    graphs: Path, sampler: SamplerSettings, every: int, seed: int | None, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole rows and shallow ones, the host's pictures bit for bit; up go noise and parcels alone."""
    settings = replace(settings_of(sampler, 2.0, 0.5), reuse=ReuseSettings(every))
    device = opened(graphs, monkeypatch, seed, runtime=runtime, reuses=True)
    found = painted(device.plans, orders(), settings)
    host = {size: host_plans(graphs, size, reuses=True) for size in SIZES}
    for place, picture in painted(host, orders(), settings).items():
        np.testing.assert_array_equal(found[place], picture)
    often = painted(host, orders(), replace(settings, reuse=None))
    assert all(np.abs(found[place].astype(int) - often[place]).mean() > 0.5 for place in found)
    assert (device.work["whole"].rows, device.work["shallow"].rows) == (
        7 * (settings.rows_per_variant - settings.shallow_rows),
        7 * settings.shallow_rows,
    )
    device.memory.copied.clear()
    painted(device.plans, orders(), settings)
    up = sum(count for kind, count in device.memory.copied if kind is UP)
    noise = 7 * 4 * int(np.prod(latents_of(SIZES[1]))) * (sampler.steps if sampler.kind == "lcm" else 1)
    hints = sum(order.edges.size * HINT_BATCH * 4 for order in orders())
    evaluations = (device.work["whole"].calls + device.work["shallow"].calls) // 2
    assert up < noise + hints + 4 * TOKENS * WIDTH * 4 + 2048 * (evaluations + 2)


def test_nothing_of_a_row_crosses_the_bus(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up go edges once a source, noise once a variant, and some hundred bytes an evaluation; down come pictures."""
    device, size = opened(graphs, monkeypatch), SIZES[0]
    wanted = [replace(order, edges=orders()[0].edges) for order in orders(4)]
    plans = device.plans[size]
    texts = [plans.put_text(text_states(order.text)) for order in wanted]
    (hint,) = plans.embed_hints(wanted[0].edges[None])
    negative = plans.put_text(text_states(99))
    device.memory.copied.clear()
    jobs = [PaintJob(order.key, text, hint, plans) for order, text in zip(wanted, texts, strict=True)]
    settings = settings_of(UNIPC, 4.0, 1.0)
    assert len(list(paint(jobs, negative, settings))) == 4
    up = [count for kind, count in device.memory.copied if kind is UP]
    down = [count for kind, count in device.memory.copied if kind is DOWN]
    evaluations = device.work["denoiser"].calls
    assert evaluations >= -(-4 * settings.rows_per_variant // BATCH)
    noise = 4 * int(np.prod(latents_of(size))) * 4
    assert noise < sum(up) < noise + 2048 * (evaluations + 2)
    row = hint.nbytes + texts[0].nbytes
    assert sum(up) - noise < evaluations * BATCH * row / 4, "the host path sends each row's hint and text"
    pictures = DECODE_BATCH * size[0] * size[1] * 3
    assert down == [-(-pictures // 256) * 256 + 4 * DECODE_BATCH] * 2, "pictures, and a flag for each"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("network", "weight", "output"),
    [
        ("denoiser", "wl", "prediction"),
        ("vae_decoder", "w", "pixel_values"),
        ("hint", "w", "its output"),
        ("clip_text", None, "its output"),
    ],
)
def test_what_is_not_finite_on_the_device_ends_the_painting(
    graphs: Path, tmp_path: Path, monkeypatch: Any, value: float, network: str, weight: str | None, output: str
) -> None:
    """One flag comes down with the pictures; only then is looked whose numbers they are."""
    for file in graphs.glob("*.onnx"):
        model = onnx.load(file)
        for one in model.graph.initializer:
            if (file.stem, one.name) == (network, weight):
                array = numpy_helper.to_array(one).copy()
                array.flat[0] = value
                one.CopyFrom(numpy_helper.from_array(array, one.name))
        nodes = [node for node in model.graph.node if node.op_type == "Tanh"]
        for node in nodes:  # which would make one of infinity
            node.op_type = "Identity"
        onnx.save(model, tmp_path / file.name)
    device = opened(tmp_path, monkeypatch)
    for plans in device.plans.values():
        for plan, name in ((plans.denoiser, "denoiser"), (plans.decoder, "vae_decoder"), (plans.hint, "hint")):
            plan.name = name
    if weight is None:  # the text encoder itself is not here
        wrong = text_states(1)
        wrong.flat[-1] = value
        monkeypatch.setattr(sys.modules[__name__], "text_states", lambda seed: wrong)
    with pytest.raises(CounterfactoryError, match=rf"network {network} gives numbers that are not finite \({output}\)"):
        painted(device.plans, orders(4), settings_of(UNIPC, 4.0, 0.5))
    device.line.rest()


def test_several_hints_are_joined_as_on_the_host(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device, size = opened(graphs, monkeypatch), SIZES[0]
    rng, host = np.random.default_rng(0), host_plans(graphs, size)
    maps = [(rng.random((3, *size)) < 0.2).astype(np.uint8) * 255, rng.integers(0, 65536, (3, *size)).astype(np.uint16)]
    ours = replace(device.plans[size], other_hints=(device.plans[size].hint,))
    hints = ours.embed_several(maps, (0.5, 2.0))
    expected = replace(host, other_hints=(host.hint,)).embed_several(maps, (0.5, 2.0))
    for hint, wanted in zip(hints, expected, strict=True):
        np.testing.assert_array_equal(device.line.fetch(hint)(), wanted)
    assert np.abs(expected[0]).max() > 0.1


def test_captions_stay_where_they_were_encoded(tmp_path: Path) -> None:
    """The text encoder's states are the painter's texts; checks still get arrays."""
    table = np.random.default_rng(0).standard_normal((9, WIDTH)).astype(np.float32)
    nodes = [node("Gather", "table input_ids", "states"), node("ReduceMax", "states one", "text_embeds", keepdims=0)]
    weights = {"table": table, "one": np.array([1], np.int64)}
    save_batched(tmp_path / "clip_text.onnx", nodes, {"input_ids": (TOKENS,)}, "states text_embeds", **weights)
    memory = Memory()
    device = Cuda(memory)
    line = Pipeline(device)

    class Tokenizer:
        def encode_batch(self, captions: list[str]) -> list[Any]:
            return [SimpleNamespace(ids=[len(c)] * TOKENS) for c in captions]

    plan = Batched(bound(tmp_path, "clip_text", {"input_ids": (3, TOKENS)}, memory, device))
    text = ClipText(plan, Tokenizer(), line)  # type: ignore[arg-type]
    memory.copied.clear()
    rows = text.encode_states(["a", "abc"])
    assert [kind for kind, _ in memory.copied if kind is not Kind.cudaMemcpyDeviceToDevice] == [UP]
    states, embeds = text.encode(["a", "abc"])
    for row, caption, state, embed in zip(rows, ("a", "abc"), states, embeds, strict=True):
        np.testing.assert_array_equal(line.fetch(row)(), np.tile(table[len(caption)], (TOKENS, 1)))
        np.testing.assert_array_equal(state, np.tile(table[len(caption)], (TOKENS, 1)))
        np.testing.assert_array_equal(embed, table[len(caption)])


def test_two_evaluations_are_under_way_and_no_more(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host waits for none of them until it wants to queue the third."""
    device, size = opened(graphs, monkeypatch), SIZES[0]
    plans = device.plans[size]
    (hint,) = plans.embed_hints(orders()[0].edges[None])
    text = plans.put_text(text_states(0))
    noise = np.ones(latents_of(size), np.float32)
    rows = [DenoiserRow(plans.begin(noise, Sampler(UNIPC)).latents, 1, text, hint, 1.0)]
    plans.evaluate(rows)  # the first run records
    device.line.rest()
    waited: list[str] = []
    for name in ("cudaEventSynchronize", "cudaStreamSynchronize"):
        really = getattr(device.memory, name)
        monkeypatch.setattr(
            device.memory, name, lambda handle, name=name, really=really: waited.append(name) or really(handle)
        )
    counts = []
    for _ in range(4):
        plans.evaluate(rows)
        counts.append(len(waited))
    assert counts[0] <= counts[1] <= 2, counts
    assert counts[3] - counts[1] == 2
    assert set(waited) == {"cudaEventSynchronize"}
    device.line.rest()


def test_the_device_s_own_time_is_metered(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device, settings = opened(graphs, monkeypatch), settings_of(UNIPC, 1.0, 1.0)
    assert len(painted(device.plans, orders(4), settings)) == 4
    work = device.work["denoiser"]
    assert work.rows == 3 * 4 + 4
    assert (device.work["vae_decoder"].rows, device.work["hint"].rows) == (4, 4)
    # A piece of work takes the stand-in a millisecond: copies of three rows, and the run with its recording's.
    assert work.busy_s * 1000 == pytest.approx(work.calls * 12, rel=0.5)


def test_memory_is_used_again_and_given_back(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device, settings = opened(graphs, monkeypatch), settings_of(UNIPC, 4.0, 1.0)
    for _ in range(2):  # parcels grow to the largest that there is
        painted(device.plans, orders(), settings)
    once, taken = device.memory.allocations, device.memory.bytes_of("device")
    painted(device.plans, orders(), settings)
    assert device.memory.allocations == once
    device.line.rest()
    assert device.memory.bytes_of("device") < taken
    device.plans.clear()
    memory = device.memory
    del device
    gc.collect()
    assert memory.bytes_of("device") == memory.bytes_of("host") == 0
    assert memory.left == {}


@pytest.mark.parametrize("reuse", [None, ReuseSettings(2)])
def test_it_keeps_what_estimates_count(graphs: Path, monkeypatch: pytest.MonkeyPatch, reuse: Any) -> None:
    """Each variant of a source of its own, which takes the most; and not much less, or the count would say little."""
    taken: list[int] = []
    device, size = opened(graphs, monkeypatch, on_change=taken.append, reuses=reuse is not None), SIZES[0]
    before = device.memory.bytes_of("device")
    rng = np.random.default_rng(0)
    wanted = [Order(f"variant {i}", i % 3, (rng.random(size) < 0.2).astype(np.uint8) * 255) for i in range(24)]
    assert len(painted(device.plans, wanted, replace(settings_of(UNIPC, 4.0, 0.5), reuse=reuse))) == 24
    latents = 4 * int(np.prod(latents_of(size)))
    rows = {"latents": latents, "hint": latents // CHANNELS * HINT, "text": TOKENS * WIDTH * 4}
    rows |= {} if reuse is None else {"deep": latents // CHANNELS * DEEP}
    most = kept_bytes(BATCH, DECODE_BATCH, HINT_BATCH, 2, picture=3 * size[0] * size[1], **rows)
    assert most / 3 < max(taken) - before <= most


def test_a_kernel_that_the_driver_refuses_is_named(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = opened(graphs, monkeypatch)
    plans = device.plans[SIZES[0]]
    with pytest.raises(CounterfactoryError, match="CUDA's cuLaunchKernel failed with CUDA_ERROR_INVALID_VALUE"):
        plans.kernels.pixels.queue(0, 5, 0, 0, 0, 5)
    monkeypatch.setattr(cuda, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(CounterfactoryError, match="needs cuda-bindings"):
        cuda.load_driver()
    monkeypatch.setattr(kernels, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(CounterfactoryError, match=r"painting on a GPU needs triton.*pip install"):
        kernels.load_paint_kernels(device.line.cuda)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_cache_of_triton_s_that_is_of_no_use_is_told_and_stops_nothing(
    damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it cannot be written, and where machine code in it was cut off by a loss of power."""
    memory, told = Memory(), list[str]()
    driver = Driver(memory)
    monkeypatch.setattr(kernels, "load_driver", lambda: driver)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels.load_paint_kernels(Cuda(memory), told.append)
    assert told == []
    kept = list(tmp_path.rglob("*.cubin"))
    assert len(kept) == 2
    for file in kept:
        file.write_bytes(b"")
    if not damaged:
        monkeypatch.setenv("TRITON_CACHE_DIR", "/proc/nowhere")
    loaded = kernels.load_paint_kernels(Cuda(memory), told.append)
    assert loaded.pixels.machine.cubin.startswith(b"\x7fELF")
    assert len(told) == 1
    assert "TRITON_CACHE_DIR" in told[0]
    assert [file.read_bytes() for file in kept] == [b"", b""], "somebody else's is left as it is"


def test_the_stand_in_s_calls_are_onnx_runtime_s() -> None:
    real = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: our calls go unchecked")
    pairs = [(OnnxSession.bind_input, real.IOBinding.bind_input), (OnnxSession.bind_output, real.IOBinding.bind_output)]
    pairs += [(getattr(OnnxSession, name), getattr(real.InferenceSession, name)) for name in ("run_with_iobinding",)]
    for ours, theirs in pairs:
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    real.RunOptions().add_run_config_entry("disable_synchronize_execution_providers", "1")


def test_the_stand_in_s_calls_are_the_driver_s() -> None:
    """Names, arguments and the form in which a kernel's own are given."""
    real = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed: our calls go unchecked")
    for name, method in vars(Driver).items():
        if name.startswith("cu"):
            documented = getattr(real, name).__doc__.splitlines()[0]
            asked = [
                one.split(":")[0].split()[-1].lstrip("*")
                for one in documented[documented.index("(") + 1 : -1].split(",")
            ]
            ours = list(inspect.signature(method).parameters)[1:]
            assert [one.lower() for one in ours] == [one.lower() for one in asked], documented
    assert real.CUresult.CUDA_SUCCESS == 0
    types = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    with suppress(RuntimeError):  # that there is no driver
        real.cuLaunchKernel(0, 1, 1, 1, 128, 1, 1, 0, 0, ((1 << 40, 3, 0, 0), types), 0)
    with pytest.raises(TypeError):
        real.cuLaunchKernel(0, 1, 1, 1, 128, 1, 1, 0, 0, ((1 << 40, "three", 0, 0), types), 0)
