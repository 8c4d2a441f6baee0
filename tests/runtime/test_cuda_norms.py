"""Norms as ONNX Runtime's CUDA provider has them: the graph computes on its CPU provider what PyTorch does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import cuda_norms
from counterfactory.engine.runtime import onnxruntime as ort_sessions
from counterfactory.engine.runtime.cuda_norms import norms_for_cuda, rewrite_norms
from counterfactory.export.graphs.tracing import to_onnx
from counterfactory.export.precision.islands import write_half

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: its graphs of norms go unchecked")
FOLDER = "session.model_external_initializers_file_folder_path"


class Norms(nn.Module):
    """x [B, 4, H, W] to y [B, 8, H, W] and z [B, 8]: norms of groups of pictures and of sequences, and a layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.conv = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.active, self.plain, self.flat = nn.GroupNorm(4, 8, eps=1e-3), nn.GroupNorm(8, 8), nn.GroupNorm(2, 8)
        self.layer = nn.LayerNorm(8, eps=1e-2)
        for norm in (self.active, self.plain, self.flat, self.layer):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.plain(self.conv(F.silu(self.active(self.into(x)))))
        return x, self.layer(self.flat(x.flatten(2)).transpose(1, 2)).mean(1)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, tuple[Any, Any]]:
    """The folder of full.onnx in f32 and half.onnx with islands, their input, and PyTorch's outputs."""
    torch.manual_seed(5)
    module, folder, x = Norms().eval(), tmp_path_factory.mktemp("norms"), torch.randn(3, 4, 6, 5) * 3 + 1
    to_onnx(module, {"x": x}, ["y", "z"], folder / "full.onnx", {"x": {0: "batch"}}, 23)
    write_half(folder / "full.onnx", folder / "half.onnx", ("normalisation",))
    with torch.no_grad():
        y, z = module(x)
    return folder, x.numpy(), (y.numpy(), z.numpy())


def kinds(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize(("name", "islands", "off"), [("half", 4, 5e-3), ("full", 0, 1e-5)])
def test_norms_compute_what_pytorch_does(graphs: Any, name: str, islands: int, off: float) -> None:
    folder, x, wanted = graphs
    path = folder / f"{name}.onnx"
    content = norms_for_cuda(path)
    before, after = kinds(onnx.load(path)), kinds(onnx.ModelProto.FromString(content))
    assert (before["InstanceNormalization"], before["LayerNormalization"]) == (3, 1)
    assert (after["InstanceNormalization"], after["LayerNormalization"]) == (0, 4)
    # Around each island two casts go; the weights of the layer get two, which are computed when the graph is opened.
    assert after["Cast"] - before["Cast"] == (2 - 2 * islands if islands else 0)
    options = ort.SessionOptions()
    options.add_session_config_entry(FOLDER, str(folder))
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    for output, right in zip(session.run(None, {"x": x}), wanted, strict=True):
        np.testing.assert_allclose(output, right, atol=off * np.abs(right).max())


def test_an_island_that_something_else_reads_stays(graphs: Any) -> None:
    model = onnx.load(graphs[0] / "half.onnx")
    layer = next(node for node in model.graph.node if node.op_type == "LayerNormalization")
    model.graph.output.append(onnx.helper.make_tensor_value_info(layer.output[0], 1, None))
    rewrite_norms(onnx, model.graph)
    names = {name for node in model.graph.node for name in node.output}
    assert {output.name for output in model.graph.output} <= names


def test_the_cuda_provider_alone_gets_them(graphs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, str]] = []

    class Library:
        SessionOptions = ort.SessionOptions

        @staticmethod
        def InferenceSession(source: Any, options: Any, **_: Any) -> Any:  # noqa: N802
            known = options.get_session_config_entry(FOLDER) if isinstance(source, bytes) else ""
            asked.append((source, known))
            raise RuntimeError("no more is needed")

    path = graphs[0] / "half.onnx"
    monkeypatch.setattr(ort_sessions, "load_library", lambda provider: Library)
    device: Any = type("Device", (), {"stream_handle": 7})()
    for provider in ("cuda", "cpu"):
        with pytest.raises(CounterfactoryError, match="no more is needed"):
            ort_sessions.open_session(path, batch=3, provider=provider, device=lambda: device)
    (source, place), *_, (other, _) = asked
    assert (kinds(onnx.ModelProto.FromString(source))["InstanceNormalization"], place) == (0, str(path.parent))
    assert other == str(path)


def test_what_is_missing_or_no_graph_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\xff\xfe no graph")
    with pytest.raises(CounterfactoryError, match=r"model\.onnx is no ONNX graph"):
        norms_for_cuda(tmp_path / "model.onnx")

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(cuda_norms, "import_module", missing)
    with pytest.raises(CounterfactoryError, match=r"needs the package onnx; say: .*onnxruntime-gpu\.txt"):
        norms_for_cuda(tmp_path / "model.onnx")
