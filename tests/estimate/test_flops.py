"""Counted operations against torch's own counter on the same modules, and against arithmetic by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
import torch
from openvino import opset13 as ops
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.flops import count_flops, flops_per_token, weight_bytes
from counterfactory.export.graphs.tracing import to_onnx

WEIGHTS = Path(__file__).parents[2] / "engine" / "pocket" / "weights"


def counted_by_torch(module: nn.Module, inputs: Mapping[str, torch.Tensor]) -> int:
    # The plain attention: the counter does not know the fused one of the CPU.
    with (
        torch.no_grad(),
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
    ):
        module.eval()(*inputs.values())
    return int(counter.get_total_flops())


class Mixed(nn.Module):
    """Convolutions with groups, stride, dilation and padding, transposed ones, and products in batches."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(6, 12, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, groups=4, padding=2, dilation=2),
            nn.Conv2d(24, 24, 5, groups=24, padding=2),
            nn.ConvTranspose2d(24, 8, 4, stride=2, padding=1),
            nn.ConvTranspose2d(8, 16, 3, groups=4),
        )
        self.head = nn.Linear(16, 7, bias=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        states = self.layers(pixels).flatten(2)
        mixed = torch.softmax(states.transpose(1, 2) @ states, -1) @ states.transpose(1, 2)
        head: torch.Tensor = self.head(mixed)
        return head


PICTURE = {"pixels": {0: "batch", 2: "height", 3: "width"}}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mixed, Path]:
    """The module, and its graph in ONNX."""
    torch.manual_seed(0)
    module, file = Mixed(), tmp_path_factory.mktemp("mixed") / "mixed.onnx"
    to_onnx(module, {"pixels": torch.randn(2, 6, 16, 24)}, ["out"], file, PICTURE)
    return module, file


@pytest.mark.parametrize(("batch", "size"), [(1, (16, 24)), (3, (16, 24)), (2, (10, 34))])
def test_convolutions_and_products(mixed: tuple[Mixed, Path], batch: int, size: tuple[int, int]) -> None:
    module, file = mixed
    reference = counted_by_torch(module, {"pixels": torch.randn(batch, 6, *size)})
    assert reference > 1e5
    assert count_flops(file, batch, {"pixels": size}) == reference


def saved(out: ov.Output, given: ov.Node, path: Path) -> Path:
    ov.save_model(ov.Model([out], [given]), path, compress_to_fp16=False)
    return path


def parameter(shape: list[int], name: str) -> ov.Node:
    given = ops.parameter(shape, np.float32, name)
    given.output(0).get_tensor().set_names({name})
    return given


@pytest.mark.parametrize("transpose_a", [False, True])
def test_a_batched_product_by_hand(transpose_a: bool, tmp_path: Path) -> None:
    left = parameter([-1, 5, 6, 7], "left")
    right = np.ones((1, 5, 3, 6 if transpose_a else 7), np.float32)
    file = saved(ops.matmul(left, right, transpose_a, True), left, tmp_path / "matmul.xml")
    assert (count_flops(file, 4), weight_bytes(file)) == (2 * 4 * 5 * 6 * 7 * 3, right.nbytes)


def test_attention_by_hand(tmp_path: Path) -> None:
    query = parameter([-1, 3, -1, 8], "query")
    key, value = np.ones((2, 3, 11, 8), np.float32), np.ones((2, 3, 11, 10), np.float32)
    file = saved(ops.scaled_dot_product_attention(query, key, value), query, tmp_path / "attention.xml")
    assert count_flops(file, 2, lengths={"query": 5}) == 2 * 2 * 3 * 5 * 11 * (8 + 10)


def test_a_decoder_s_cost_grows_with_its_cache() -> None:
    def step(new: int, past: int, batch: int = 1) -> int:
        lengths = {"inputs_embeds": new, "position_ids": new, "past_keys": past, "past_values": past}
        return count_flops(WEIGHTS / "opt_decoder.xml", batch, lengths=lengths)

    layers, width = 3, 192
    assert step(1, 21) - step(1, 20) == 2 * layers * 2 * width  # a key and a value more, each `width` wide, a layer
    assert step(1, 20, batch=4) == 4 * step(1, 20)
    # Tokens cost the same wherever they are, but for the logits, which are of the last one alone, and attention.
    assert step(4, 0) - step(1, 0) > 2.5 * (step(2, 0) - step(1, 0))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "no fixed length"),
        ({"sizes": {"pixels": (16, 16)}, "lengths": {"query": 1}}, "no input query"),
        ({"sizes": {"latents": (16, 16)}}, "takes pixels"),
    ],
)
def test_shapes_that_do_not_suit(arguments: dict[str, dict[str, int]], told: str, mixed: tuple[Mixed, Path]) -> None:
    with pytest.raises(CounterfactoryError, match=told):
        count_flops(mixed[1], 1, **arguments)  # type: ignore[arg-type]  # one table for both tables


def test_an_operation_that_is_not_known_is_refused(tmp_path: Path) -> None:
    left = parameter([-1, 4], "left")
    out = ops.einsum([left, ops.constant(np.ones((4, 3), np.float32))], "ij,jk->ik")
    with pytest.raises(CounterfactoryError, match="Einsum"):
        count_flops(saved(out, left, tmp_path / "einsum.xml"), 2)


@pytest.mark.parametrize("content", [None, b"", b"<net", b"\x00" * 100])
def test_files_that_are_no_models(content: bytes | None, tmp_path: Path) -> None:
    for name in ("model.xml", "model.onnx"):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(CounterfactoryError, match=name):
            weight_bytes(tmp_path / name)


def test_the_pocket_language_model_by_hand() -> None:
    """Four layers of width 192, 576 within, 640 tokens; the embedding is the output's matrix."""
    layer = 4 * 192 * 192 + 3 * 192 * 576
    assert flops_per_token(WEIGHTS / "llm" / "model.xml") == 2 * (4 * layer + 640 * 192)
