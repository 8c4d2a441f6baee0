"""Every session class keeps one contract: OpenVINO, ONNX Runtime on the CPU, TensorRT over a stand-in for its device.

Two networks go through all of them: one of fixed shapes, as a denoiser is, and a decoder whose cache is added to and
whose rows go on from one another, as a beam search does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import mixing_graph, pair_graph
from stand_in_cuda import Memory
from stand_in_gpu import Context, Engine, Library, OnnxSession, RunOptions
from torch import nn
from torch.nn import functional as F

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import onnx_providers
from counterfactory.engine.runtime import onnxruntime as ort_sessions
from counterfactory.engine.runtime import openvino as openvino_sessions
from counterfactory.engine.runtime import tensorrt as tensorrt_sessions
from counterfactory.engine.runtime.cuda import Cuda
from counterfactory.engine.runtime.onnx_providers import check_provider, choose_providers, refuse_cpu_work
from counterfactory.engine.runtime.plans import Shapes
from counterfactory.engine.runtime.trt_library import choose_profile
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.graphs.tracing import to_onnx

Arrays = dict[str, Any]
ROWS, WIDTH = 3, 64


class Picture(nn.Module):
    """x [B, 4, H, W] and bias [B, 8] to y [B, 8, H, W] and mean [B, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.norm = nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.heads = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = self.norm(self.into(x)) + bias[:, :, None, None]
        rows = states.flatten(2).transpose(1, 2)
        q, k, v = self.heads(rows)[:, None].chunk(3, -1)
        y = (rows + F.scaled_dot_product_attention(q, k, v)[:, 0]).transpose(1, 2).reshape(states.shape)
        return y, y.mean((2, 3))


class Decoder(nn.Module):
    """x [B, S, D], cache_keys [P, B, D] and cache_rows [P, B] to state [B, D] and cache_keys_added [S, B, D]."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(
        self, x: torch.Tensor, cache_keys: torch.Tensor, cache_rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        past, rows = cache_rows.shape
        places = (torch.arange(past)[:, None] * rows + cache_rows).flatten()
        ours = cache_keys.flatten(0, 1).index_select(0, places).reshape(cache_keys.shape)
        added = self.key(x)
        keys = torch.cat([ours.transpose(0, 1), added], 1)
        weights = (x[:, -1:] @ keys.transpose(1, 2)).softmax(-1)
        return self.out(weights @ keys)[:, 0], added.transpose(0, 1)


@dataclass
class Networks:
    """Both networks, as modules and as ONNX."""

    picture: nn.Module
    decoder: nn.Module
    picture_onnx: Path
    decoder_onnx: Path


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Networks:
    folder = tmp_path_factory.mktemp("networks")
    torch.manual_seed(0)
    picture, decoder = Picture().eval(), Decoder().eval()
    picture_onnx, decoder_onnx = folder / "picture" / "model.onnx", folder / "decoder.onnx"
    picture_onnx.parent.mkdir()
    size, cached = {0: "batch", 2: "height", 3: "width"}, {0: "past", 1: "batch"}
    inputs = {"x": torch.randn(2, 4, 6, 5), "bias": torch.randn(2, 8)}
    to_onnx(picture, inputs, ["y", "mean"], picture_onnx, {"x": size, "bias": {0: "batch"}})
    rows = torch.tensor([[1, 0], [0, 0], [1, 1]])
    inputs = {"x": torch.randn(2, 4, WIDTH), "cache_keys": torch.randn(3, 2, WIDTH), "cache_rows": rows}
    axes = {"x": {0: "batch", 1: "tokens"}, "cache_keys": cached, "cache_rows": cached}
    to_onnx(decoder, inputs, ["state", "cache_keys_added"], decoder_onnx, axes)
    return Networks(picture, decoder, picture_onnx, decoder_onnx)


# Of the decoder, tokens at once and in the cache; and bytes that a plan computes in.
STEP, CACHE, SCRATCH = 6, 12, 512
DECODER = {
    "x": Shapes((1, 1, WIDTH), (ROWS, 1, WIDTH), (4, STEP, WIDTH)),
    "cache_keys": Shapes((0, 1, WIDTH), (8, ROWS, WIDTH), (CACHE, 4, WIDTH)),
    "cache_rows": Shapes((0, 1), (8, ROWS), (CACHE, 4)),
}
PICTURE = {"x": Shapes.static(ROWS, 4, 6, 5), "bias": Shapes.static(ROWS, 8)}


@dataclass
class Runtime:
    """One way of opening both networks, for batches of ROWS."""

    name: str
    networks: Networks
    memory: Memory = field(default_factory=Memory)
    contexts: list[Context] = field(default_factory=list)

    def open(self, path: Path, batch: int = ROWS, **more: Any) -> Any:
        if self.name == "openvino":
            return openvino_sessions.open_session(path, batch=batch, precision="f32", **more)
        if self.name == "onnxruntime":
            pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: its sessions go unchecked")
            shapes = DECODER if path == self.networks.decoder_onnx else None
            return ort_sessions.open_session(path, batch=batch, provider="cpu", **{"shapes": shapes, **more})
        profile = PICTURE if path == self.networks.picture_onnx else DECODER
        engine = Engine(path, self.memory, profile, scratch_bytes=SCRATCH)
        number = choose_profile(path.stem, Library(), engine, more.get("sizes") or {})
        self.contexts.append(engine.create_execution_context())
        return tensorrt_sessions.bind(path.stem, Library(), self.contexts[-1], Cuda(self.memory), batch, number)

    def picture(self) -> Any:
        return self.open(self.networks.picture_onnx, sizes={"x": (6, 5)})

    def decoder(self) -> Any:
        return self.open(self.networks.decoder_onnx)


@pytest.fixture(params=["openvino", "onnxruntime", "tensorrt"])
def runtime(request: pytest.FixtureRequest, networks: Networks) -> Runtime:
    return Runtime(request.param, networks)


@pytest.fixture(params=["onnxruntime", "tensorrt"])
def holding(request: pytest.FixtureRequest, networks: Networks) -> Runtime:
    """Those with a device to hold things on; on a CPU an array is as good."""
    return Runtime(request.param, networks)


@pytest.fixture
def over_stand_in(networks: Networks) -> Runtime:
    return Runtime("tensorrt", networks)


@pytest.fixture(scope="module")
def ort() -> Any:
    return pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: its refusals go unchecked")


def picture_feeds(seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    shapes = {"x": (ROWS, 4, 6, 5), "bias": (ROWS, 8)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def decoder_feeds(seed: int, tokens: int, past: Any) -> Arrays:
    random = np.random.default_rng(seed)
    x = random.standard_normal((ROWS, tokens, WIDTH)).astype(np.float32) / 8
    return {"x": x, "cache_keys": past, "cache_rows": random.integers(0, ROWS, (past.shape[0], ROWS))}


NOTHING = np.zeros((0, ROWS, WIDTH), np.float32)
KEYS = "cache_keys_added"


def wanted(module: nn.Module, feeds: Arrays, outputs: tuple[str, ...]) -> Arrays:
    with torch.no_grad():
        found = module(*(torch.from_numpy(array) for array in feeds.values()))
    return {name: value.numpy() for name, value in zip(outputs, found, strict=True)}


def test_it_computes_what_the_module_does(runtime: Runtime, networks: Networks) -> None:
    session = runtime.picture()
    for seed in range(3):
        feeds = picture_feeds(seed)
        found = session.run(feeds)
        for name, array in wanted(networks.picture, feeds, ("y", "mean")).items():
            assert_parity(found[name], array, "f32")
    session = runtime.decoder()
    for seed, (tokens, past) in enumerate([(5, 0), (1, 5), (2, 6)]):
        keys = np.random.default_rng(seed).standard_normal((past, ROWS, WIDTH)).astype(np.float32)
        feeds = decoder_feeds(seed, tokens, keys)
        found = session.run(feeds)
        for name, array in wanted(networks.decoder, feeds, ("state", KEYS)).items():
            assert_parity(found[name], array, "f32")


def test_its_signature_says_what_is_fixed(runtime: Runtime) -> None:
    ports = {port.name: (port.shape, port.dtype) for port in runtime.picture().signature.inputs}
    assert ports == {"x": ((ROWS, 4, 6, 5), "float32"), "bias": ((ROWS, 8), "float32")}
    signature = runtime.decoder().signature
    shapes = {"x": (ROWS, None, WIDTH), "cache_keys": (None, ROWS, WIDTH), "cache_rows": (None, ROWS)}
    assert {port.name: port.shape for port in signature.inputs} == shapes
    assert [port.dtype for port in signature.inputs] == ["float32", "float32", "int64"]
    assert [(port.name, port.dtype) for port in signature.outputs] == [("state", "float32"), (KEYS, "float32")]


def test_what_it_gave_and_took_stays_as_it_is(runtime: Runtime) -> None:
    session, feeds = runtime.picture(), picture_feeds(0)
    before = {name: array.copy() for name, array in feeds.items()}
    first = session.run(feeds)
    kept = {name: array.copy() for name, array in first.items()}
    session.run(picture_feeds(1))
    for name in kept:
        np.testing.assert_array_equal(first[name], kept[name])
        first[name][...] = 0  # the caller may do what it likes with them
    for name in before:
        np.testing.assert_array_equal(feeds[name], before[name])
    again = session.run(feeds)
    for name in kept:
        np.testing.assert_array_equal(again[name], kept[name])


def test_an_array_that_is_not_contiguous_is_taken_as_it_reads(runtime: Runtime) -> None:
    session, feeds = runtime.picture(), picture_feeds(0)
    turned = feeds | {"x": np.ascontiguousarray(feeds["x"].transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)}
    assert not turned["x"].flags.c_contiguous
    np.testing.assert_array_equal(session.run(turned)["y"], session.run(feeds)["y"])
    session, feeds = runtime.decoder(), decoder_feeds(0, 2, NOTHING)
    turned = feeds | {"x": np.asfortranarray(feeds["x"])}
    assert not turned["x"].flags.c_contiguous
    np.testing.assert_array_equal(session.run(turned)[KEYS], session.run(feeds)[KEYS])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bias": None}, r"takes inputs \['bias', 'x'\], got \['x'\]"),
        ({"hint": np.zeros(1)}, r"takes inputs \['bias', 'x'\], got \['bias', 'hint', 'x'\]"),
        ({"bias": np.zeros((ROWS, 8))}, r"takes bias as float32 \[3, 8\], got float64 \[3, 8\]"),
        ({"bias": np.zeros((ROWS, 9), np.float32)}, r"takes bias as float32 \[3, 8\], got float32 \[3, 9\]"),
        ({"x": np.zeros((2, 4, 6, 5), np.float32)}, r"takes x as float32 \[3, 4, 6, 5\], got float32 \[2, 4, 6, 5\]"),
    ],
)
def test_feeds_that_do_not_fit_are_refused_by_name(runtime: Runtime, change: Arrays, says: str) -> None:
    feeds = {name: array for name, array in (picture_feeds(0) | change).items() if array is not None}
    with pytest.raises(CounterfactoryError, match=says):
        runtime.picture().run(feeds)


def test_a_cache_that_is_held_is_added_to(runtime: Runtime) -> None:
    """As NumPy would have it, which joins all that came before to what is new."""
    session, other = runtime.decoder(), runtime.decoder()
    for caption in range(2):
        joined, held, steps = NOTHING, NOTHING, (4, 1, 1, 2, 4)
        for step, tokens in enumerate(steps):
            plain = other.run(decoder_feeds(10 * caption + step, tokens, joined))
            kept = session.run(decoder_feeds(10 * caption + step, tokens, held), hold=[KEYS])
            np.testing.assert_array_equal(kept["state"], plain["state"])
            assert plain[KEYS].shape == (tokens, ROWS, WIDTH)
            joined, held = np.concatenate([joined, plain[KEYS]]), kept[KEYS]
            assert held.shape == joined.shape == (sum(steps[: step + 1]), ROWS, WIDTH)


def test_a_cache_has_one_place(holding: Runtime) -> None:
    """What another caption wrote over, or a cache that comes from elsewhere, is not gone on with."""
    session = holding.decoder()
    first = session.run(decoder_feeds(0, 4, NOTHING), hold=[KEYS])[KEYS]
    longer = session.run(decoder_feeds(1, 1, first), hold=[KEYS])[KEYS]
    for stale in (first, np.zeros((4, ROWS, WIDTH), np.float32)):
        with pytest.raises(CounterfactoryError, match="fed cache_keys of 4 positions, which is not what its last run"):
            session.run(decoder_feeds(2, 1, stale), hold=[KEYS])
    other = session.run(decoder_feeds(3, 5, NOTHING), hold=[KEYS])[KEYS]
    with pytest.raises(CounterfactoryError, match="not what its last run held"):
        session.run(decoder_feeds(2, 1, longer))
    grown = session.run(decoder_feeds(4, 6, other), hold=[KEYS])[KEYS]
    with pytest.raises(CounterfactoryError, match="room for 12 positions of cache_keys, got 13"):
        session.run(decoder_feeds(5, 2, grown), hold=[KEYS])


def test_a_network_of_fixed_shapes_holds_too(runtime: Runtime) -> None:
    session, feeds = runtime.picture(), picture_feeds(0)
    plain = session.run(feeds)
    held = session.run(feeds, hold=["mean"])
    np.testing.assert_array_equal(held["y"], plain["y"])
    other = picture_feeds(1)
    expected = session.run(other | {"bias": plain["mean"]})
    found = session.run(other | {"bias": held["mean"]})  # after another run wrote to its place
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_holding_what_it_does_not_give_is_refused(runtime: Runtime) -> None:
    with pytest.raises(CounterfactoryError, match=r"gives \['mean', 'y'\], asked to hold \['latents'\]"):
        runtime.picture().run(picture_feeds(0), hold=["latents"])


def test_what_another_session_holds_is_refused(holding: Runtime) -> None:
    one, other = holding.decoder(), holding.decoder()
    held = one.run(decoder_feeds(0, 2, NOTHING), hold=[KEYS])[KEYS]
    assert not isinstance(held, np.ndarray)
    with pytest.raises(CounterfactoryError, match="fed cache_keys that another session holds"):
        other.run(decoder_feeds(0, 2, held))


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_no_models_are_refused_and_one_thread_computes_alike(name: str, networks: Networks, tmp_path: Path) -> None:
    runtime, feeds = Runtime(name, networks), picture_feeds(0)
    with pytest.raises(CounterfactoryError, match=r"no.onnx is missing"):
        runtime.open(tmp_path / "no.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a graph")
    with pytest.raises(CounterfactoryError, match=r"bad.onnx (is no ONNX file|cannot be loaded)"):
        runtime.open(tmp_path / "bad.onnx")
    alone = runtime.open(networks.picture_onnx, threads=1, sizes={"x": (6, 5)})
    assert_parity(alone.run(feeds)["y"], runtime.picture().run(feeds)["y"], "f32")
    if name == "onnxruntime":
        assert alone._session.get_session_options().intra_op_num_threads == 1


# What follows is each runtime's own.


@pytest.mark.parametrize(
    ("opened", "says"),
    [
        ({"sizes": {"x": (2, 9)}}, "has x of 64 along axis 2, asked for 9"),
        ({"sizes": {"y": (2, 9)}}, r"takes \['cache_keys', 'cache_rows', 'x'\], asked for sizes of \['y'\]"),
        ({"shapes": None}, "no shapes of cache_keys are known for .*decoder.onnx; export it again"),
    ],
)
def test_a_graph_is_not_opened_for_shapes_that_it_lacks(networks: Networks, opened: dict[str, Any], says: str) -> None:
    with pytest.raises(CounterfactoryError, match=says):
        Runtime("onnxruntime", networks).open(networks.decoder_onnx, **opened)


def on_the_cpu(ort: Any, path: Path) -> Any:
    """ONNX Runtime's own session, which says which operations go where."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def test_a_session_that_leaves_work_to_others_is_refused(networks: Networks, tmp_path: Path, ort: Any) -> None:
    """Arithmetic on shapes may stay on the CPU."""
    on_cpu = on_the_cpu(ort, networks.picture_onnx)
    check_provider("picture", on_cpu, "cpu")
    asked_for = "picture was asked for with CUDAExecutionProvider and opened with CPU"
    with pytest.raises(CounterfactoryError, match=asked_for):
        check_provider("picture", on_cpu, "cuda")
    with pytest.raises(CounterfactoryError, match=r"picture would run \d+ operations on the CPU, among them"):
        refuse_cpu_work("picture", on_cpu)
    refuse_cpu_work("pair", on_the_cpu(ort, pair_graph(tmp_path / "pair.onnx")))
    with pytest.raises(CounterfactoryError, match="1 operations on the CPU, among them Softmax soft"):
        refuse_cpu_work("mixing", on_the_cpu(ort, mixing_graph(tmp_path / "mixing.onnx", 0)))


def test_engines_of_a_shape_have_their_own_folder_and_prefix(networks: Networks, tmp_path: Path, ort: Any) -> None:
    def chosen(axes: dict[str, int], path: Path = networks.picture_onnx) -> tuple[dict[str, str], str]:
        providers, source = choose_providers(ort, "tensorrt", path, axes, True, None, tmp_path)
        assert [name for name, _ in providers] == ["TensorrtExecutionProvider", "CUDAExecutionProvider"]
        return providers[0][1], source

    small, source = chosen({"batch": 3, "height": 6, "width": 5})
    large, _ = chosen({"batch": 3, "height": 12, "width": 5})
    other, _ = chosen({"batch": 3, "height": 6, "width": 5}, networks.decoder_onnx)
    same, _ = chosen({"width": 5, "batch": 3, "height": 6})
    assert same == small
    assert source == str(networks.picture_onnx)
    for option in ("trt_engine_cache_prefix", "trt_ep_context_file_path", "trt_timing_cache_path"):
        assert len({small[option], large[option], other[option]}) == 3
    # Once compiled, the context model is opened in the graph's place.
    Path(small["trt_ep_context_file_path"]).touch()
    again, source = chosen({"batch": 3, "height": 6, "width": 5})
    assert source == small["trt_ep_context_file_path"]
    assert again["trt_dump_ep_context_model"] == "0"


def test_engines_that_cannot_be_kept_are_told_and_compiled_again(
    networks: Networks, tmp_path: Path, ort: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written where nothing can be, or where a disk is nearly full; what is kept there is used."""
    axes = {"batch": 3, "height": 6, "width": 5}

    def chosen(cache: Path) -> tuple[dict[str, str], str, list[str]]:
        told = list[str]()
        args = ort, "tensorrt", networks.picture_onnx, axes, True, None, cache
        providers, source = choose_providers(*args, report=told.append)
        return providers[0][1], source, told

    usual, _, told = chosen(tmp_path / "engines")
    assert told == []
    (tmp_path / "file").touch()
    graph = str(networks.picture_onnx)
    for cache in (Path("/proc/engines"), tmp_path / "file"):
        options, source, told = chosen(cache)
        assert (options, source) == ({"trt_cuda_graph_enable": "1"}, graph)
        assert len(told) == 1
        assert str(cache) in told[0]
    room = SimpleNamespace(free=networks.picture_onnx.stat().st_size)
    monkeypatch.setattr(onnx_providers, "disk_usage", lambda _: room)
    options, source, told = chosen(tmp_path / "engines")
    assert (options, source, len(told)) == ({"trt_cuda_graph_enable": "1"}, graph, 1)
    context = Path(usual["trt_ep_context_file_path"])
    context.touch()
    options, source, told = chosen(tmp_path / "engines")
    assert (source, told) == (str(context), [])
    assert {name for name in options if "timing" in name or "file_path" in name} == set()
    assert options["trt_dump_ep_context_model"] == "0"
    assert options["trt_engine_cache_path"] == str(context.parent)


def test_the_compiler_needs_a_folder(networks: Networks, ort: Any) -> None:
    with pytest.raises(CounterfactoryError, match="TensorRT provider needs a folder for its engines"):
        choose_providers(ort, "tensorrt", networks.decoder_onnx, {"batch": 3}, False, DECODER, None)


def test_a_plan_of_fixed_shapes_is_recorded_once_and_bound_once(over_stand_in: Runtime) -> None:
    session = over_stand_in.picture()
    memory, (context,) = over_stand_in.memory, over_stand_in.contexts
    bound, allocated = context.bindings, memory.allocations
    assert bound == 4
    for seed in range(4):
        session.run(picture_feeds(seed))
    assert (context.bindings, memory.allocations) == (bound, allocated)
    assert (memory.recordings, memory.launches) == (1, 4)


def test_a_cache_that_is_held_is_never_copied(over_stand_in: Runtime) -> None:
    """One block from the first token of the first caption to the last of the last: what is added is written behind."""
    session, memory = over_stand_in.decoder(), over_stand_in.memory
    row, table, block = ROWS * WIDTH * 4, ROWS * CACHE * 8, CACHE * ROWS * WIDTH * 4
    blocks = set()
    for _ in range(2):
        held: Any = NOTHING
        for step in range(CACHE):
            memory.copied.clear()
            held = session.run(decoder_feeds(step, 1, held), hold=[KEYS])[KEYS]
            assert max(nbytes for _, nbytes in memory.copied) <= max(row, table), "a row, or where rows lie: no cache"
            assert {kind.name for kind, _ in memory.copied} == {"cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost"}
            blocks.add(held.buffer.pointer)
            assert over_stand_in.contexts[0].addresses[KEYS] == held.buffer.pointer + step * row
            assert memory.bytes_of("device") <= block + STEP * row + row + table + SCRATCH
        assert held.shape[0] == CACHE
    assert len(blocks) == 1
    assert memory.bytes_of("device") == block + STEP * row + row + table + SCRATCH, "one cache, not an old and a new"
    assert memory.bytes_of("host") < block, "nor one on the host"
    assert memory.launches == 0


def test_positions_of_a_cache_are_aligned(networks: Networks) -> None:
    """Each is the beginning of an output, for which libraries want a multiple of 256 bytes."""
    engine = Engine(networks.decoder_onnx, Memory(), DECODER)
    engine.get_tensor_dtype = lambda name: np.dtype(np.int8)  # type: ignore[method-assign]
    with pytest.raises(CounterfactoryError, match=r"positions of 192 bytes in cache_keys_added.*multiples of 256"):
        tensorrt_sessions.bind("decoder", Library(), engine.create_execution_context(), Cuda(engine.memory), ROWS)


def test_more_than_the_plan_takes_is_refused_by_name(over_stand_in: Runtime) -> None:
    session = over_stand_in.decoder()
    with pytest.raises(CounterfactoryError, match=r"accepts x up to \[3, 6, 64\], got \[3, 7, 64\]"):
        session.run(decoder_feeds(0, 7, NOTHING))
    with pytest.raises(CounterfactoryError, match=r"refuses x of shape \[3, 0, 64\]: outside of its profile"):
        session.run(decoder_feeds(0, 0, NOTHING))


def test_a_graph_that_leaves_whole_numbers_to_the_cpu_is_queued_without_a_recording(
    networks: Networks, ort: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA's provider records a graph only where all of it is its own: a search for the end of a text is not."""
    memory = Memory()
    device, asked = Cuda(memory), list[dict[str, str]]()
    profile = {name: Shapes.static(*array.shape) for name, array in picture_feeds(0).items()}
    context = Engine(networks.picture_onnx, memory, profile).create_execution_context()
    for name, shapes in profile.items():
        context.set_input_shape(name, shapes.opt)

    class Opened(OnnxSession):
        heavy: tuple[str, ...] = ()

        def __init__(self, source: str, options: Any, providers: list[Any], enable_fallback: int) -> None:
            super().__init__(context, device.stream_handle)
            asked.append(providers[0][1])
            if providers[0][1]["enable_cuda_graph"] == "1":
                assert options.get_session_config_entry("session.disable_cpu_ep_fallback") == "1"
                raise RuntimeError("cannot use the graph capture feature")
            assert options.get_session_config_entry("session.disable_cpu_ep_fallback") == "0"

        def get_providers(self) -> list[str]:
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

        def get_provider_graph_assignment_info(self) -> list[Any]:
            nodes = [SimpleNamespace(op_type=kind, name="one") for kind in ("ArgMax", *self.heavy)]
            return [SimpleNamespace(ep_name="CPUExecutionProvider", get_nodes=lambda: nodes)]

    library = SimpleNamespace(SessionOptions=ort.SessionOptions, RunOptions=RunOptions, InferenceSession=Opened)
    monkeypatch.setattr(ort_sessions, "load_library", lambda provider: library)

    def opened() -> Any:
        more: dict[str, Any] = {"sizes": {"x": (6, 5)}, "device": lambda: device}
        return ort_sessions.open_session(networks.picture_onnx, batch=ROWS, provider="cuda", **more)

    session, feeds = opened(), picture_feeds(1)
    assert [one["enable_cuda_graph"] for one in asked] == ["1", "0"]
    assert {one["user_compute_stream"] for one in asked} == {str(device.stream_handle)}
    results = session.run(feeds)
    for name, array in wanted(networks.picture, feeds, tuple(results)).items():
        np.testing.assert_allclose(results[name], array, rtol=1e-4, atol=1e-5)
    assert memory.recordings == 0
    monkeypatch.setattr(Opened, "heavy", ("Conv",))
    with pytest.raises(CounterfactoryError, match="1 operations on the CPU, among them Conv one"):
        opened()
