"""Weights in 8 bits are widened once, when a plan is opened; those that are multiplied as integers stay as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from counterfactory.engine.estimate.flops import multiplies_integers, weight_bytes
from counterfactory.engine.runtime import dequantize
from counterfactory.engine.runtime.blob_cache import BlobCache
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import Array

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.integers(-127, 128, (96, 64)).astype(np.int8)
SCALE = RANDOM.uniform(1e-3, 2e-3, (96, 1)).astype(np.float32)
X = RANDOM.standard_normal((3, 64)).astype(np.float32)


def product(path: Path, rounded: bool = False) -> Path:
    """x [B, 64] by a weight [96, 64] in 8 bits to y [B, 96]; `rounded` multiplies integers."""
    x = ops.parameter([-1, 64], np.float32, "x")
    entering = ops.fake_quantize(x, *map(np.float32, (-4, 4, -4, 4)), 256) if rounded else x
    stored = ops.constant(VALUES)
    stored.set_friendly_name("weight")
    y = ops.matmul(entering, ops.multiply(ops.convert(stored, "f32"), SCALE), False, True)
    model = ov.Model([y], [x])
    model.inputs[0].get_tensor().set_names({"x"})
    model.outputs[0].get_tensor().set_names({"y"})
    ov.save_model(model, path, compress_to_fp16=False)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return product(tmp_path / "product.xml")


def constants(model: ov.Model) -> dict[str, tuple[str, Array]]:
    found = [op for op in model.get_ordered_ops() if op.get_type_name() == "Constant"]
    return {op.get_friendly_name(): (op.get_element_type().get_type_name(), op.get_data()) for op in found}


def test_a_weight_is_its_integers_times_their_scales_in_half_precision(file: Path) -> None:
    model = ov.Core().read_model(file)
    dequantize.widen_weights(model)
    assert not dequantize.multiplies_integers(model)
    ((name, (kind, weight)),) = constants(model).items()
    assert (name, kind) == ("weight", "f16")
    np.testing.assert_array_equal(weight, (VALUES * SCALE).astype(np.float16))
    assert "Multiply" not in {op.get_type_name() for op in model.get_ops()}


def test_what_is_opened_rounds_no_activations(file: Path) -> None:
    """As OpenVINO does on some processors, even in f32, where weights of 8 bits are left to it."""
    session = open_session(file, batch=len(X), precision="f32")
    wide = (VALUES * SCALE).astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(session.run({"x": X})["y"], X @ wide.T, rtol=1e-5, atol=1e-5)
    graph = session._requests.get().get_compiled_model().get_runtime_model()
    assert {str(op.get_rt_info()["runtimePrecision"].astype(str)) for op in graph.get_ops()} <= {"f32", "dynamic"}


def test_weights_that_are_multiplied_as_integers_stay(tmp_path: Path) -> None:
    file = product(tmp_path / "integers.xml", rounded=True)
    model = ov.Core().read_model(file)
    dequantize.widen_unless_multiplied(model)
    assert constants(model)["weight"][0] == "i8"
    assert multiplies_integers(file)
    assert VALUES.nbytes < weight_bytes(file) < 2 * VALUES.nbytes


def test_estimates_count_what_is_opened(file: Path) -> None:
    assert not multiplies_integers(file)
    assert weight_bytes(file) == 2 * VALUES.size


def test_code_that_widens_is_part_of_what_it_made(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = BlobCache(tmp_path / "compiled")
    for code in ("one", "one", "two"):
        (tmp_path / code).write_text(code)
        monkeypatch.setattr(dequantize, "__file__", str(tmp_path / code))
        open_session(file, batch=1, precision="f32", blobs=cache)
    assert len(cache.sizes()) == 2
