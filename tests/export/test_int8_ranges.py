"""8 bits a tensor at a time: what is rounded, by how much, and that a CPU then multiplies integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
import torch
from torch import nn

from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.graphs import ranges
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


class Loud(nn.Module):
    """A convolution of channels of very different size, to which its weights are as different, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first, self.conv, self.last = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 8, 3), nn.Linear(8, 5)
        loud = torch.logspace(-2, 1, 16)
        loud[5] = 0  # silent
        with torch.no_grad():
            self.first.weight.mul_(loud[:, None, None, None])
            self.first.bias.mul_(loud)
            self.conv.weight.div_(loud.clamp(min=0.01)[None, :, None, None])
            self.conv.weight[:, 9] = 0  # that nothing reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen: torch.Tensor = self.last(self.conv(torch.relu(self.first(x))).flatten(2).transpose(1, 2))
        return seen


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loud") / "net.xml"
    to_ir(Loud().eval(), {"x": torch.from_numpy(np.array(feeds(1)[0]["x"]))}, ("y",), path, {"x": {0: "batch"}})
    return path


def test_channels_of_every_size_keep_their_steps(loud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What convolutions read is smoothed: a fraction of the error without, and integers are multiplied all the same."""
    made, plain = tmp_path / "smooth.xml", tmp_path / "plain.xml"
    assert quantise_by_tensor(loud, feeds(4), made, precision="f32") == 3
    with monkeypatch.context() as patch:
        patch.setattr(ranges, "_smoothing", lambda *_: np.ones(1))
        quantise_by_tensor(loud, feeds(4), plain, precision="f32")
    (fed,) = feeds(1)
    smooth_error, plain_error = (relative_error(answer(path, fed), answer(loud, fed)) for path in (made, plain))
    assert 1e-6 < smooth_error < plain_error / 8
    compiled = ov.Core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    told = [op.get_rt_info() for op in compiled.get_runtime_model().get_ops()]
    kinds = [(str(info["layerType"].value), str(info["runtimePrecision"].value)) for info in told]
    multiplying = [precision for kind, precision in kinds if kind in ("Convolution", "FullyConnected")]
    assert sum(precision in ("i8", "u8") for precision in multiplying) == 3


def test_a_smoothed_layer_computes_what_it_did(loud: Path) -> None:
    """Equation 4 of SmoothQuant by hand; silent channels, and those that nothing reads, stay."""
    weight = Loud().conv.weight.detach().numpy()
    layers = [op for op in ov.Core().read_model(loud).get_ordered_ops() if op.get_type_name() == "Convolution"]
    (conv,) = (op for op in layers if op.get_output_partial_shape(0)[1] == 8)
    low, high = np.linspace(-3, 0, 16), np.linspace(0, 40, 16)
    low[3] = high[3] = 0.0
    smooth = ranges._smoothing((low, high), [conv])
    told = [i for i in range(16) if i not in (3, 9)]
    reach, most = np.maximum(-low, high)[told], np.abs(weight).max((0, 2, 3))[told]
    wanted = np.sqrt(reach / most)
    np.testing.assert_allclose(smooth[told], wanted / np.exp(np.log(wanted).mean()), rtol=2e-3)  # weights are in fp16
    assert smooth[3] == smooth[9] == 1
    assert ranges._smoothing((np.array([-1.0]), np.array([2.0])), [conv]).tolist() == [1]
