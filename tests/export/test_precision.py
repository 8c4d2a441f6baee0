"""Half precision, islands and rounding on graphs small enough to compute by hand in NumPy; int8 and LoRA likewise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from profiles import SCHEDULER
from small_graphs import saved

from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.schedule import settle
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime import session
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import Array
from counterfactory.export.graphs.parity import assert_parity, relative_error
from counterfactory.export.graphs.tracing import to_onnx
from counterfactory.export.precision.cpu import OnnxCpu
from counterfactory.export.precision.half import opset_of, to_half, value_kinds
from counterfactory.export.precision.int8 import Painting, _paint, quantise
from counterfactory.export.precision.islands import find_islands, half_error, worst_error, write_half
from counterfactory.export.precision.rounding import rounded
from counterfactory.export.precision.stored import Stored, fold_transposes

F32, F16, I64, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL
Port = tuple[str, int, list[Any]]
node = helper.make_node


def graph(
    path: Path, nodes: list[Any], inputs: list[Port], outputs: list[Port], weights: Mapping[str, Array], opset: int = 18
) -> Path:
    """An ONNX file of `nodes`, checked."""
    ports = [[helper.make_tensor_value_info(*port) for port in some] for some in (inputs, outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    made = helper.make_graph(nodes, "graph", *ports, tensors)
    return saved(made, path, opset=opset)


def linear(path: Path, weight: Array, *, name: str = "layer.weight") -> Path:
    """states [B, I] times `weight` [O, I], which is transposed in the graph as PyTorch's exporter does."""
    nodes = [node("Transpose", [name], ["turned"], perm=[1, 0]), node("MatMul", ["states", "turned"], ["product"])]
    out, into = weight.shape
    return graph(path, nodes, [("states", F32, ["B", into])], [("product", F32, ["B", out])], {name: weight})


def clock(path: Path) -> Path:
    """A timestep's sinusoid, mixed into states that are normalised and weighed by a softmax, under a mask."""
    rng = np.random.default_rng(0)
    nodes = [node("MatMul", ["states", "w"], ["mixed"]), node("Cast", ["timestep"], ["time"], to=F32)]
    nodes += [node("Mul", ["time", "frequency"], ["angle"]), node("Sin", ["angle"], ["wave"])]
    nodes += [node("Unsqueeze", ["wave", "last"], ["column"]), node("Add", ["mixed", "column"], ["timed"])]
    nodes.append(node("Constant", [], ["never"], value_float=-1e9))
    nodes.append(node("Where", ["visible", "timed", "never"], ["masked"]))
    nodes.append(node("Softmax", ["masked"], ["weights"], axis=-1))
    nodes.append(node("LayerNormalization", ["timed", "scale", "bias"], ["level"], epsilon=1e-12))
    nodes.append(node("Add", ["level", "weights"], ["found"]))
    inputs = [("states", F32, ["B", 64]), ("timestep", I64, ["B"]), ("visible", BOOL, ["B", 16])]
    weights: dict[str, Array] = {"w": (rng.standard_normal((64, 16)) / 8).astype(np.float32)}
    weights |= {"frequency": np.float32(0.37) * np.ones((), np.float32), "last": np.array([1], np.int64)}
    weights |= {"scale": np.ones(16, np.float32), "bias": np.zeros(16, np.float32)}
    return graph(path, nodes, inputs, [("found", F32, ["B", 16]), ("timed", F32, ["B", 16])], weights)


def clock_feeds() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    visible = np.ones((3, 16), bool)
    visible[:, 3] = False
    states = rng.standard_normal((3, 64)).astype(np.float32)
    return {"states": states, "timestep": np.array([999, 5, 501]), "visible": visible}


def evaluated(path: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """By ONNX's own reference implementation: slow, obvious, and true to the types in the graph."""
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=True)
    names = [port.name for port in model.graph.output]
    return dict(zip(names, ReferenceEvaluator(model).run(None, dict(feeds)), strict=True))


def half_of(full: Path, islands: tuple[str, ...]) -> Path:
    return write_half(full, full.parent / "+".join(("half", *islands)) / "model.onnx", islands)


def test_a_half_graph_computes_in_fp16_and_speaks_float32(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)
    half = half_of(linear(tmp_path / "model.onnx", weight), ())
    states = np.random.default_rng(3).standard_normal((5, 32)).astype(np.float32)
    found = evaluated(half, {"states": states})["product"]
    assert found.dtype == np.float32
    wanted = states.astype(np.float16) @ weight.astype(np.float16).T
    np.testing.assert_allclose(found, wanted.astype(np.float32), rtol=2e-3, atol=2e-3)
    assert np.array_equal(found, found.astype(np.float16)), "the result was not stored in fp16"
    (stored,) = onnx.load(str(half)).graph.initializer
    assert (stored.name, stored.data_type, list(stored.dims)) == ("layer.weight", F16, [32, 8])


def test_an_island_stays_in_float32_and_only_it(tmp_path: Path) -> None:
    full = clock(tmp_path / "model.onnx")
    half = onnx.load(str(half_of(full, ("timestep", "softmax"))))
    kinds = value_kinds(half)
    types = {node.output[0]: kinds[node.output[0]] for node in half.graph.node}
    assert [types[name] for name in ("time", "angle", "wave", "column", "weights")] == [F32] * 5
    assert [types[name] for name in ("mixed", "timed_inner", "masked", "level")] == [F16] * 4
    islands = {node.op_type for node in half.graph.node if node.name.startswith("island/")}
    assert islands == {"Cast", "Mul", "Sin", "Unsqueeze", "Softmax"}
    assert [kinds[port.name] for port in (*half.graph.input, *half.graph.output)] == [F32, I64, BOOL, F32, F32]


def test_everything_on_an_island_is_the_float32_graph(tmp_path: Path) -> None:
    full, feeds = clock(tmp_path / "model.onnx"), clock_feeds()
    found, wanted = evaluated(half_of(full, ("all",)), feeds), evaluated(full, feeds)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_numbers_beyond_fp16_become_its_largest(tmp_path: Path) -> None:
    half = onnx.load(str(half_of(clock(tmp_path / "model.onnx"), ())))
    never = next(t for t in half.graph.initializer if t.name == "never")
    assert numpy_helper.to_array(never) == -65504


def test_operations_that_know_no_fp16_stay_in_float32(tmp_path: Path) -> None:
    """Range has none in the standard, and the scales of a Resize are float32 whatever it resizes."""
    nodes = [node("Range", ["zero", "four", "one"], ["steps"]), node("Add", ["picture", "steps"], ["ramp"])]
    nodes.append(node("Resize", ["ramp", "", "scales"], ["larger"], mode="nearest"))
    values = {"zero": 0, "four": 4, "one": 1, "scales": [1, 1, 2, 2]}
    weights: dict[str, Array] = {name: np.array(value, np.float32) for name, value in values.items()}
    ports = [("picture", F32, [1, 1, 4, 4])], [("larger", F32, [1, 1, 8, 8])]
    full = graph(tmp_path / "model.onnx", nodes, *ports, weights)
    picture = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    half = half_of(full, ())
    found = evaluated(half, {"picture": picture})["larger"]
    np.testing.assert_array_equal(found, (picture + np.arange(4)).repeat(2, 2).repeat(2, 3))
    assert value_kinds(onnx.load(str(half)))["ramp"] == F16


def test_unknown_islands_and_inner_graphs_are_refused(tmp_path: Path) -> None:
    stored = Stored.read(clock(tmp_path / "model.onnx"))
    with pytest.raises(ValueError, match="no island atlantis; there are timestep"):
        to_half(stored, ["atlantis"])
    given = helper.make_tensor_value_info("y", F32, [1])
    branch = helper.make_graph([node("Neg", ["x"], ["y"])], "b", [], [given])
    choice = node("If", ["c"], ["y"], then_branch=branch, else_branch=branch, name="choice")
    ports = [("x", F32, [1]), ("c", BOOL, [1])], [("y", F32, [1])]
    path = graph(tmp_path / "if.onnx", [choice], *ports, {})
    with pytest.raises(ValueError, match=r"node choice \(If\) holds a graph of its own"):
        Stored.read(path)


@pytest.mark.parametrize("islands", [(), ("normalisation",), ("timestep", "normalisation", "softmax")])
def test_rounding_says_what_fp16_kernels_compute(tmp_path: Path, islands: tuple[str, ...]) -> None:
    """The reference implementation runs the fp16 graph in fp16; the rounded graph must agree, on any runtime."""
    full, feeds = clock(tmp_path / "model.onnx"), clock_feeds()
    half = half_of(full, islands)
    beside = half.with_name("rounded.onnx")
    onnx.save(rounded(onnx.load(str(half))), str(beside))
    found, exact = OnnxCpu(beside, as_written=True).run(feeds), evaluated(half, feeds)
    for name, array in exact.items():
        assert relative_error(found[name], array) < 1e-3
    assert relative_error(found["timed"], evaluated(full, feeds)["timed"]) > 0


def test_rounding_is_not_optimised_away(tmp_path: Path) -> None:
    """2048 + 1 is 2048 in fp16: a runtime that kept float32 between the two additions would say 1."""
    nodes = [node("Add", ["x", "one"], ["more"]), node("Add", ["more", "less"], ["y"])]
    weights: dict[str, Array] = {"one": np.ones(4, np.float32), "less": np.full(4, -2048, np.float32)}
    full = graph(tmp_path / "model.onnx", nodes, [("x", F32, [4])], [("y", F32, [4])], weights)
    x = np.array([2048, 1, 2, 3], np.float32)
    exact = {"y": x + 1 - 2048}
    error = half_error(half_of(full, ()), {"x": x}, exact)
    assert error == pytest.approx(1 / 2046)  # the first is 0 and not 1, the others are exact


def test_statistics_in_fp16_overflow_and_islands_save_them(tmp_path: Path) -> None:
    """Squares of 400 are beyond fp16: the measurement must find the island, and give up the one nobody needs."""
    nodes = [node("MatMul", ["states", "w"], ["loud"]), node("LayerNormalization", ["loud", "scale"], ["level"])]
    nodes.append(node("Softmax", ["level"], ["found"], axis=-1))
    weights: dict[str, Array] = {"w": 400 * np.eye(32, dtype=np.float32), "scale": np.ones(32, np.float32)}
    ports = [("states", F32, ["B", 32])], [("found", F32, ["B", 32])]
    full = graph(tmp_path / "full" / "model.onnx", nodes, *ports, weights)
    feeds = {"states": np.random.default_rng(5).standard_normal((4, 32)).astype(np.float32)}
    measured = find_islands(full, tmp_path / "work", feeds, evaluated(full, feeds), 1e-2)
    assert measured.islands == ("normalisation",)
    assert measured.errors["none"] > 0.5
    assert measured.errors["normalisation"] < 5e-3
    assert set(measured.errors) == {"normalisation+softmax", "normalisation", "none"}
    strict = find_islands(full, tmp_path / "work", feeds, evaluated(full, feeds), 1e-9)
    assert strict.islands == ("normalisation", "softmax")


def test_large_weights_stand_beside_the_graph_and_notes_of_the_machine_do_not(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).standard_normal((64, 32)).astype(np.float32)
    full = linear(tmp_path / "model.onnx", weight)
    model = onnx.load(str(full))
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/home/somebody/model.py")
    onnx.save(model, str(full))
    stored = Stored.read(full)
    stored.save(tmp_path / "saved" / "model.onnx")
    saved = tmp_path / "saved" / "model.onnx"
    assert saved.with_name("model.onnx.data").stat().st_size == weight.nbytes
    assert b"somebody" not in saved.read_bytes()
    assert saved.stat().st_size < 2000
    again = Stored.read(saved)
    np.testing.assert_array_equal(again.weight("layer.weight"), weight)
    assert fold_transposes(again) == 1
    again.save(saved)  # over the very file that it reads
    np.testing.assert_array_equal(Stored.read(saved).weight("layer.weight"), weight.T)
    feeds = {"states": np.random.default_rng(3).standard_normal((2, 32)).astype(np.float32)}
    assert_parity(evaluated(saved, feeds)["product"], feeds["states"] @ weight.T, "f32")


# --- int8 ---


def int8_of(full: Path, ranges: Mapping[str, float], islands: tuple[str, ...] | None = None) -> Path:
    stored = Stored.read(full)
    quantise(stored, ranges)
    if islands is not None:
        to_half(stored, islands)
    path = full.parent / f"int8{islands}" / "model.onnx"
    stored.save(path)
    return path


@pytest.mark.parametrize("islands", [None, ()])
def test_a_layer_is_multiplied_in_integers_as_by_hand(tmp_path: Path, islands: tuple[str, ...] | None) -> None:
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((8, 32)).astype(np.float32)
    weight[3] *= 20  # one loud channel must not cost the others their levels
    states = rng.uniform(-1, 1, (64, 32)).astype(np.float32)
    path = int8_of(linear(tmp_path / "model.onnx", weight), {"states": 1.0}, islands)
    scale = (np.abs(weight).max(1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    levels = np.round(weight / scale).clip(-127, 127) * scale
    wanted = (np.round(states * 127).clip(-128, 127) / 127) @ levels.T
    stored = Stored.read(path)
    assert stored.weight("layer.weight").dtype == np.int8
    kinds = value_kinds(stored.proto)
    wide = F32 if islands is None else F16
    assert (kinds["layer.weight_dq"], kinds["states_dq"]) == (wide, wide)
    found = evaluated(path, {"states": states})["product"]
    assert_parity(found, wanted, "f32" if islands is None else "fp16")


@dataclass(frozen=True)
class Heard:
    """A denoiser of two rows that keeps what it is fed."""

    feeds: list[Mapping[str, Array]] = field(default_factory=list)
    signature = session.Signature(
        (session.Port("latents", (2, 4, 2, 3), "float32"),), (session.Port("prediction", (2, 4, 2, 3), "float32"),)
    )

    def run(self, feeds: Mapping[str, Array], hold: Collection[str] = ()) -> dict[str, Array]:
        self.feeds.append(dict(feeds))
        return {"prediction": feeds["latents"] / 2 + feeds["text"][:, :1, :1, None]}


@pytest.mark.parametrize(
    ("profile", "steps", "timesteps", "negative_at"),
    [("a10g", 4, (999, 749, 500, 250), (1, 2)), ("a10g-fast", 4, (999, 499), ()), ("cpu", 8, (999, 759, 499, 259), ())],
)
def test_int8_is_calibrated_on_what_the_profile_paints(
    profile: str, steps: int, timesteps: tuple[int, ...], negative_at: tuple[int, ...]
) -> None:
    """Its sampler and its guidance, by hand: what a suite never feeds the denoiser has no say in the ranges."""
    paint = load_profile(profile).paint
    sampler, schedule = settle(paint.sampler, SCHEDULER, "denoiser")
    settings = replace(paint, control_scale=0.7, sampler=sampler)
    text, negative = np.full((1, 1, 1), 0.25, np.float32), np.full((1, 1), -9, np.float32)
    heard, painting = Heard(), Painting(text, negative, np.zeros((1, 5, 2, 3), np.float32), settings, steps, schedule)
    _paint(Batched(heard), painting)
    assert [feeds["timestep"].tolist() for feeds in heard.feeds] == [[t, t] for t in timesteps]
    assert [i for i, feeds in enumerate(heard.feeds) if feeds["text"].min() < 0] == list(negative_at)
    assert all((feeds["control_scale"] == np.float32(0.7)).all() for feeds in heard.feeds)
    random, sampler = np.random.default_rng(0), painting.sampler
    latents = random.standard_normal((4, 2, 3)).astype(np.float32)
    history = sampler.start
    for step, feeds in enumerate(heard.feeds):
        np.testing.assert_array_equal(feeds["latents"], np.stack([latents, latents]))
        output = latents / 2 + np.float32(0.25)
        if step in negative_at:
            without = latents / 2 - np.float32(9)
            output = without + np.float32(7.5) * (output - without)
        noise = random.standard_normal((4, 2, 3)).astype(np.float32) if sampler.adds_noise(step) else None
        latents, history = sampler.step(step, latents, output, history, noise)


def test_layers_that_are_kept_and_layers_without_a_range(tmp_path: Path) -> None:
    weight = np.random.default_rng(3).standard_normal((8, 32)).astype(np.float32)
    kept = linear(tmp_path / "a" / "model.onnx", weight, name="unet.conv_out.weight")
    stored = Stored.read(kept)
    assert quantise(stored, {}) == 0
    stored = Stored.read(linear(tmp_path / "b" / "model.onnx", weight))
    with pytest.raises(ValueError, match="activation states has no range"):
        quantise(stored, {})


# --- attention in one operation ---


class _Attends(torch.nn.Module):
    """Groups normalised, then each place attends to all that the mask shows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(2, 8)
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        heads = self.norm(x).flatten(2).unflatten(1, (2, 4)).transpose(2, 3)
        return torch.nn.functional.scaled_dot_product_attention(heads, 2 * heads, heads - 1, shown)


@pytest.fixture(scope="module")
def attends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Array], dict[str, Array]]:
    """Its graph in opset 23, feeds, and what PyTorch computes of them."""
    torch.manual_seed(7)
    module, folder = _Attends(), tmp_path_factory.mktemp("attends")
    inputs = {"x": torch.randn(3, 8, 3, 5), "shown": torch.rand(3, 1, 15, 15) < 0.7}
    inputs["shown"][:, :, :, 0] = True
    to_onnx(module, inputs, ["out"], folder / "model.onnx", {name: {0: "batch"} for name in inputs}, 23)
    with torch.no_grad():
        wanted = {"out": module(*inputs.values()).numpy()}
    return folder / "model.onnx", {name: value.numpy() for name, value in inputs.items()}, wanted


def test_attention_is_one_operation_and_norms_of_groups_are_of_instances(attends: Any, tmp_path: Path) -> None:
    """ONNX Runtime and OpenVINO compute what PyTorch does; as many products are counted as in several operations."""
    full, feeds, wanted = attends
    model = onnx.load(str(full))
    kinds = [node.op_type for node in model.graph.node]
    assert (opset_of(model), kinds.count("Attention"), kinds.count("InstanceNormalization")) == (23, 1, 1)
    assert not {"Softmax", "GroupNormalization"} & {*kinds}
    for as_written in (True, False):
        assert worst_error(OnnxCpu(full, as_written=as_written).run(feeds), wanted) < 1e-5
    opened = open_session(full, batch=3, precision="f32").run(feeds)
    assert worst_error(opened, wanted) < 1e-5
    torch.manual_seed(7)
    inputs = {name: torch.from_numpy(value) for name, value in feeds.items()}
    several = tmp_path / "model.onnx"
    to_onnx(_Attends(), inputs, ["out"], several, {name: {0: "batch"} for name in inputs})
    assert "Softmax" in {node.op_type for node in onnx.load(str(several)).graph.node}
    assert count_flops(full, 4) == count_flops(several, 4) == 2 * 2 * 4 * 2 * 15 * 15 * 4


@pytest.mark.parametrize("islands", [(), ("softmax",), ("normalisation", "softmax"), ("all",)])
def test_attention_stays_fused_in_half_precision(attends: Any, islands: tuple[str, ...]) -> None:
    """With an island its softmax alone is in float32; measured by its parts, scores among them, each rounded."""
    full, feeds, wanted = attends
    half = half_of(full, islands)
    model = onnx.load(str(half))
    (attention,) = (one for one in model.graph.node if one.op_type == "Attention")
    precise = {a.name: a.i for a in attention.attribute}.get("softmax_precision")
    kinds = value_kinds(model)
    assert [kinds[name] for name in attention.input] == [F32 if islands == ("all",) else F16] * 3 + [BOOL]
    assert precise == (F32 if "softmax" in islands else None)
    assert worst_error(OnnxCpu(half).run(feeds), wanted) < 5e-3
    error = half_error(half, feeds, wanted)
    assert error < (1e-6 if islands == ("all",) else 5e-3)
    taken = rounded(onnx.load(str(half)))
    assert [node.op_type for node in taken.graph.node].count("Attention") == (islands == ("all",))


def test_scores_that_overflow_are_seen(tmp_path: Path) -> None:
    """Under a mask of numbers, and scaled as the standard does where nothing says how."""
    weights: dict[str, Array] = {"never": np.array([[0, -1e9, 0]] * 3, np.float32)}
    nodes = [node("Attention", ["q", "k", "v", "never"], ["out"])]
    ports = [(name, F32, ["B", 1, 3, 4]) for name in "qkv"]
    full = graph(tmp_path / "full" / "model.onnx", nodes, ports, [("out", F32, ["B", 1, 3, 4])], weights, opset=23)
    feeds = dict(zip("qkv", np.random.default_rng(3).standard_normal((3, 2, 1, 3, 4)).astype(np.float32), strict=True))
    wanted = OnnxCpu(full).run(feeds)
    scores = feeds["q"] @ feeds["k"].swapaxes(2, 3) / 2 + weights["never"]
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(wanted["out"], shares / shares.sum(-1, keepdims=True) @ feeds["v"], atol=1e-6)
    assert half_error(half_of(full, ()), feeds, wanted) < 5e-3
    loud = {"q": 600 * feeds["q"], "k": 600 * feeds["k"], "v": feeds["v"]}
    assert not half_error(half_of(full, ()), loud, OnnxCpu(full).run(loud)) < 0.5
