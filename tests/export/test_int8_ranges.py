"""8 bits a tensor at a time: what is rounded, by how much, and that a CPU then multiplies integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
import torch
from torch import nn

from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.graphs.parity import relative_error
from counterfactory.export.graphs.quantise import Feeds
from counterfactory.export.graphs.ranges import quantise_by_tensor
from counterfactory.export.graphs.tracing import to_ir


class Net(nn.Module):
    """Convolutions, linear layers with and without bias, one that is kept, and a product of activations."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.conv_in, self.conv = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 6, bias=False)
        with torch.no_grad():
            self.conv.weight[3] = 0  # a channel that is silent
            self.first.weight[:4] *= 50  # channels of very different size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = torch.relu(self.conv(torch.nn.functional.silu(self.conv_in(x))))
        rows = torch.nn.functional.gelu(self.first(seen.flatten(2).transpose(1, 2)))
        mixed: torch.Tensor = self.last((rows @ rows.transpose(1, 2) / 100).softmax(-1) @ rows)
        return mixed


def feeds(count: int, scale: float = 1.0) -> list[Feeds]:
    random = np.random.default_rng(2)
    return [{"x": (scale * random.standard_normal((2, 4, 6, 5))).astype(np.float32)} for _ in range(count)]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "net.xml"
    axes = {"x": {0: "batch"}}
    to_ir(Net().eval(), {"x": torch.from_numpy(np.array(feeds(1)[0]["x"]))}, ("y",), path, axes)
    return path


def answer(path: Path, fed: Feeds) -> np.ndarray:
    return np.asarray(open_session(path, batch=2, precision="f32").run(dict(fed))["y"])


def test_what_multiplies_is_rounded_and_little_is_lost(network: Path, tmp_path: Path) -> None:
    made = tmp_path / "net_int8.xml"
    assert quantise_by_tensor(network, feeds(4), made, precision="f32") == 3  # conv_in is kept
    for fed in feeds(4):
        error = relative_error(answer(made, fed), answer(network, fed))
        assert 1e-6 < error < 0.03
    ops = ov.Core().read_model(made).get_ordered_ops()
    stored = [op for op in ops if op.get_type_name() == "Constant" and op.get_element_type() == ov.Type.i8]
    assert sorted(int(np.prod(op.get_output_shape(0))) for op in stored) == sorted((8 * 16 * 9, 16 * 32, 32 * 6))
    for op in stored:
        assert np.abs(op.get_data().astype(int)).max() == 127
    assert sum(op.get_type_name() == "FakeQuantize" for op in ops) == 3


def test_a_cpu_multiplies_integers(network: Path, tmp_path: Path) -> None:
    made = tmp_path / "net_int8.xml"
    quantise_by_tensor(network, feeds(2), made, precision="f32")
    compiled = ov.Core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    told = [op.get_rt_info() for op in compiled.get_runtime_model().get_ops()]
    kinds = [(str(info["layerType"].value), str(info["runtimePrecision"].value)) for info in told]
    multiplying = [precision for kind, precision in kinds if kind in ("Convolution", "FullyConnected")]
    assert sum(precision in ("i8", "u8") for precision in multiplying) == 3


def test_ranges_are_those_of_the_calibration(network: Path, tmp_path: Path) -> None:
    narrow, wide = tmp_path / "narrow.xml", tmp_path / "wide.xml"
    quantise_by_tensor(network, feeds(2, 0.05), narrow, precision="f32")
    quantise_by_tensor(network, feeds(2), wide, precision="f32")
    (fed,) = feeds(1)
    assert relative_error(answer(narrow, fed), answer(network, fed)) > 0.1  # cut off
    (faint,) = feeds(1, 0.05)
    narrow_error, wide_error = (relative_error(answer(path, faint), answer(network, faint)) for path in (narrow, wide))
    assert narrow_error < wide_error  # finer steps


def test_calibration_that_says_nothing_is_refused(network: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"net\.xml needs inputs to calibrate on, got none"):
        quantise_by_tensor(network, [], tmp_path / "x.xml")
    with pytest.raises(ValueError, match=r"of net\.xml is infinite"):
        quantise_by_tensor(network, feeds(1, 1e38), tmp_path / "x.xml", precision="f32")
    assert not (tmp_path / "x.xml").exists()
