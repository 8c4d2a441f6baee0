"""Int8: what quantised networks compute, held to arithmetic by hand, to their own float32 form, and to the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
import torch
from diffusers.models.attention_processor import AttnProcessor
from numpy.typing import NDArray
from openvino import opset13 as ops
from tiny_networks import fresh_denoiser

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.flops import weight_bytes
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.openvino import open_core, open_session
from counterfactory.engine.runtime.session import Array
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.quantise import quantise
from counterfactory.export.pocket.data import TRAIN
from counterfactory.export.pocket.int8 import _restyled, scene_feeds
from counterfactory.export.production.denoiser import fill_zero_convolutions

Feeds = dict[str, Array]
ROWS, SIZES = 2, {"latents": (16, 16), "hint_embedding": (16, 16)}
INTEGERS = ("i8", "u8")


def linear(path: Path, weight: NDArray[np.float32], bias: float = 0.0) -> Path:
    """A network of one layer: states [B, I] times weight [O, I] transposed, plus `bias`."""
    states = ops.parameter([-1, weight.shape[1]], np.float32, "states")
    states.output(0).get_tensor().set_names({"states"})
    product = ops.matmul(states, ops.constant(weight, name="layer.weight"), False, True)
    product = ops.add(product, ops.constant(np.full((1, len(weight)), bias, np.float32)))
    product.output(0).get_tensor().set_names({"product"})
    ov.save_model(ov.Model([product], [states]), path, compress_to_fp16=False)
    return path


def run(path: Path, feeds: Feeds) -> Array:
    """The one output of a network."""
    rows = len(next(iter(feeds.values())))
    sizes = SIZES if "latents" in feeds else None
    (found,) = open_session(path, batch=rows, precision="f32", sizes=sizes).run(feeds).values()
    return found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fused step in a tiny configuration, every kind of layer in it."""
    unet, controlnet = fresh_denoiser()
    fill_zero_convolutions(controlnet)
    for part in (unet, controlnet):
        part.set_attn_processor(AttnProcessor())  # attention as products, as the embedded denoiser has it
    inputs = {name: torch.from_numpy(array) for name, array in feeds_of(0).items()}
    # Not by way of ONNX as the product does: the layers and their names are the same, and it takes a tenth of the time.
    model = ov.convert_model(modules.FusedDenoiser(unet, controlnet), example_input=tuple(inputs.values()))
    for op in model.get_ops():
        for out in op.outputs():
            out.get_tensor().set_names(set())  # a compiler that drops an operation hands its name to the input before
    for port, name in zip((*model.inputs, *model.outputs), (*inputs, "prediction"), strict=True):
        port.get_tensor().set_names({name})
    path = tmp_path_factory.mktemp("tiny") / "denoiser.xml"
    ov.save_model(model, path, compress_to_fp16=True)
    return path


@pytest.fixture(scope="module")
def tiny_int8(tiny: Path) -> Path:
    """Its int8 form."""
    path = tiny.with_name("denoiser_int8.xml")
    quantise(tiny, [feeds_of(i) for i in range(4)], path, correct_bias=False)
    return path


def feeds_of(seed: int, rows: int = ROWS, side: int = 16, text: tuple[int, int] = (7, 24), width: int = 16) -> Feeds:
    """Inputs of a fused step: those of the tiny one, unless sizes are given."""
    random = np.random.default_rng(seed)
    shapes = {"latents": (4, side, side), "text": text, "hint_embedding": (width, side, side)}
    drawn = {name: random.standard_normal((rows, *shape)).astype(np.float32) for name, shape in shapes.items()}
    rest = {"timestep": random.integers(0, 1000, rows), "control_scale": np.linspace(1, 1.6, rows, dtype=np.float32)}
    return {name: (drawn | rest)[name] for name in ("latents", "timestep", "text", "hint_embedding", "control_scale")}


# Of the packed denoiser.
PACKED_SIZES = {"latents": (32, 32), "hint_embedding": (32, 32)}


def packed_feeds() -> Feeds:
    return feeds_of(4, 5, 32, (64, 192), 32)


def weight_of(op: Any) -> Any | None:
    """The constant that an operation multiplies by; None where both sides are activations."""
    node = op.input_value(1).get_node()
    while node.get_type_name() != "Constant":
        if node.get_type_name() in ("Parameter", "Softmax", "MatMul") or not node.inputs():
            return None
        node = node.input_value(0).get_node()
    return node


def products(path: Path) -> dict[str, Any]:
    """The multiplying operations of a network by name."""
    found = (op for op in open_core().read_model(path).get_ops() if op.get_type_name() in ("Convolution", "MatMul"))
    return {op.get_friendly_name(): op for op in found}


def kept_by_name(weight: str) -> bool:
    """Whether a layer is to stay in floating point, said without the module's own expression."""
    parts = weight.split(".")
    return any(part in ("conv_in", "conv_out", "time_embedding", "time_emb_proj") for part in parts)


def plan_precisions(path: Path) -> dict[str, str]:
    """The precision in which the compiled plan runs each multiplying operation, by the original's name."""
    model = open_core().read_model(path)
    model.reshape({p.get_any_name(): list(feeds_of(0)[p.get_any_name()].shape) for p in model.inputs})
    compiled = open_core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = {}
    for op in compiled.get_runtime_model().get_ops():
        info = op.get_rt_info()
        for name in info["originalLayersNames"].astype(str).split(","):
            if info["layerType"].astype(str) in ("Convolution", "FullyConnected", "MatMul"):
                found[name] = info["runtimePrecision"].astype(str)
    return found


def test_a_layer_is_multiplied_as_by_hand(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    weight = random.standard_normal((8, 32)).astype(np.float32)
    weight[3] *= 20  # one loud channel must not cost the others their levels
    states = random.uniform(-1, 1, (64, 32)).astype(np.float32)
    states[0, 0] = 1  # the range is known exactly
    path = linear(tmp_path / "linear.xml", weight)
    quantise(path, [{"states": states}], tmp_path / "int8.xml", correct_bias=False)
    found = run(tmp_path / "int8.xml", {"states": states})
    scale = np.abs(weight).max(1, keepdims=True) / 127
    levels = np.round(weight / scale) * scale
    reach = np.abs(states).max() / 127
    wanted = (np.round(states / reach) * reach) @ levels.T
    # A level of the activations: whether their range has 255 or 256 of them is the runtime's affair.
    slack = reach * np.abs(levels).sum(1)
    assert np.all(np.abs(found - wanted) <= slack)
    # By tensor, the others would have six levels each.
    exact = states @ weight.T
    quiet = [i for i in range(8) if i != 3]
    assert np.abs(found - exact)[:, quiet].mean() < 0.02 * np.abs(exact[:, quiet]).mean()
    assert np.abs(found - exact).max() > 0


def test_the_plan_multiplies_integers_where_it_should(tiny: Path, tiny_int8: Path) -> None:
    ran, checked = plan_precisions(tiny_int8), 0
    for name, op in products(tiny).items():
        weight = weight_of(op)
        if name in ran and weight is not None:
            checked += 1
            wanted = not kept_by_name(weight.get_friendly_name())
            assert (ran[name] in INTEGERS) == wanted, f"{name} ({weight.get_friendly_name()}) runs in {ran[name]}"
    assert checked >= 30
    assert tiny_int8.with_suffix(".bin").stat().st_size < 0.75 * tiny.with_suffix(".bin").stat().st_size


def test_the_same_inputs_give_the_same_network_and_close_outputs(tiny: Path, tiny_int8: Path, tmp_path: Path) -> None:
    quantise(tiny, (feeds_of(i) for i in range(4)), tmp_path / "again.xml", correct_bias=False)
    assert (tmp_path / "again.bin").read_bytes() == tiny_int8.with_suffix(".bin").read_bytes()
    unseen = feeds_of(99)
    wanted, found = run(tiny, unseen), run(tiny_int8, unseen)
    np.testing.assert_array_equal(run(tmp_path / "again.xml", unseen), found)
    assert wanted.std() > 1e-2, "the reference is flat: fill its weights before comparing"
    off = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
    assert 1e-5 < off < 0.1


def test_corrected_biases_take_away_the_mean_error(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    weight = random.standard_normal((8, 24)).astype(np.float32)
    path = linear(tmp_path / "linear.xml", weight, bias=0.25)
    states = random.uniform(0.9, 1, (256, 24)).astype(np.float32)  # far from zero: errors of weights add up
    exact, off = states @ weight.T + np.float32(0.25), {}
    for correct in (False, True):
        quantise(path, [{"states": states}], tmp_path / f"{correct}.xml", correct_bias=correct)
        off[correct] = np.abs((run(tmp_path / f"{correct}.xml", {"states": states}) - exact).mean(0)).mean()
    assert off[False] > 1e-3
    assert off[True] < 0.2 * off[False]


def test_what_cannot_be_calibrated_is_refused(tmp_path: Path) -> None:
    path = linear(tmp_path / "linear.xml", np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"quantising linear\.xml needs inputs to calibrate on, got none"):
        quantise(path, [], tmp_path / "int8.xml")
    with pytest.raises(ValueError, match=r"linear\.xml takes inputs \['states'\], calibration has \['latents'\]"):
        quantise(path, [{"latents": np.ones((1, 4), np.float32)}], tmp_path / "int8.xml")
    assert not (tmp_path / "int8.xml").exists()


def test_calibration_is_what_painting_feeds_the_denoiser(packed_models: Path) -> None:
    profile = packed_profile(packed_models)
    guidance = replace(profile.paint.guidance, scale=2.0, start=0.0, stop=0.5)
    sampler = replace(profile.paint.sampler, steps=2)
    paint = replace(profile.paint, batch=2, decode_batch=1, sampler=sampler, guidance=guidance)
    feeds = scene_feeds(replace(profile, paint=paint), 2)
    # Of each picture two rows at the first step and one at the second; a batch that is not full repeats a row.
    every = [{name: array[i] for name, array in one.items()} for one in feeds for i in (0, 1)]
    rows = {tuple(row[name].tobytes() for name in sorted(row)): int(row["timestep"]) for row in every}
    steps = list(rows.values())
    assert len(set(steps)) == 2
    assert (steps.count(max(steps)), steps.count(min(steps))) == (4, 2)
    assert {one["latents"].shape for one in feeds} == {(2, 4, 32, 32)}
    texts, hints = ({row[name].tobytes() for row in every} for name in ("text", "hint_embedding"))
    assert len(texts) == 3  # two captions and the negative prompt
    assert len(hints) == 2
    assert 0.8 < feeds[0]["latents"].std() < 1.2  # painting begins with noise


def test_calibration_paints_another_appearance() -> None:
    captions = [_restyled(i)[1] for i in range(6)]
    own = [EMBEDDED.describe(EMBEDDED.scene(TRAIN, i), np.random.default_rng((TRAIN, i))) for i in range(6)]
    assert all(a != b for a, b in zip(captions, own, strict=True))


def off_by(folder: Path) -> float:
    """How far denoiser_few_int8 is from denoiser_few on what painting feeds it, over the size of what that says."""
    profile = packed_profile(folder)
    sampler = replace(profile.paint.sampler, steps=4)
    feeds = scene_feeds(replace(profile, paint=replace(profile.paint, batch=2, sampler=sampler)), 1)

    def said(name: str) -> Array:
        session = open_session(folder / f"{name}.xml", batch=2, precision="f32", sizes=PACKED_SIZES)
        return np.stack([session.run(dict(one))["prediction"] for one in feeds])

    found, wanted = said("denoiser_few_int8"), said("denoiser_few")
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


@pytest.mark.slow
def test_the_packed_int8_is_the_packed_denoiser(packed_models: Path) -> None:
    packed = packed_models
    assert 1e-3 < off_by(packed) < 0.1
    before, after = products(packed / "denoiser_few.xml"), products(packed / "denoiser_few_int8.xml")
    assert before.keys() == after.keys()
    stored = [name for name, op in after.items() if (w := weight_of(op)) and w.get_element_type() == ov.Type.i8]
    assert len(stored) > 0.9 * sum(weight_of(op) is not None for op in before.values()) - 30  # the timestep's are kept
    assert (packed / "denoiser_few_int8.bin").stat().st_size < 0.55 * weight_bytes(packed / "denoiser_few.xml")


def test_a_profile_paints_with_the_plan_that_it_names(packed_models: Path) -> None:
    profile = packed_profile(packed_models)
    named = {name: painting(profile, name) for name in ("denoiser_few", "denoiser_few_int8")}
    assert len({library_of(one).digest("paint") for one in named.values()}) == 2  # no picture of one is the other's
    assert len({library_of(one).digest("check") for one in named.values()}) == 1
    assert all(name in networks_of(one).plans for name, one in named.items())
    meter = Meter(lambda _: None)
    ModelPool(library_of(named["denoiser_few"]), meter).paint_plans(128, 128)
    assert "denoiser_few" in {use.plan for use in meter.plans() if use.loads}
    with pytest.raises(CounterfactoryError, match=r"denoiser_int4\.xml is missing"):
        library_of(painting(profile, "denoiser_int4")).digest("paint")


@pytest.mark.slow
def test_what_lies_side_by_side_changes_no_bit(packed_models: Path) -> None:
    feeds = packed_feeds()
    for name in ("denoiser_few", "denoiser_few_int8"):
        outs = []
        for batch, streams in ((1, 1), (2, 2), (4, 1), (4, 2)):
            how: dict[str, Any] = {"batch": batch, "precision": "auto", "sizes": PACKED_SIZES, "streams": streams}
            session = open_session(packed_models / f"{name}.xml", **how)
            outs.append(Batched(session, streams=streams).run(feeds)["prediction"])
        assert outs[0].std() > 0.1
        for out in outs[1:]:
            np.testing.assert_array_equal(out, outs[0], err_msg=name)


def packed_profile(folder: Path) -> Profile:
    """The profile over a folder of all packed models."""
    return replace(load_profile("pocket"), models=ModelPaths(str(folder)))


def painting(profile: Profile, denoiser: str) -> Profile:
    """The profile with another denoiser."""
    return replace(profile, paint=replace(profile.paint, denoiser=denoiser))
