"""What `export facts` counts of the graphs in a folder, and of which of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.export.production.facts import facts

# The inputs of the plans that every suite needs, of which those of some follow the picture.
_USUAL: dict[str, tuple[str, ...]] = dict.fromkeys(("blip2_vision", "clip_text", "clip_image"), ())
_USUAL |= {"hint": ("hint",), "denoiser": ("latents", "hint_embedding"), "vae_decoder": ("latents",)}
_WIDTH, _SIDE = 8, 3


def write_graph(out: Path, name: str, *pictured: str) -> None:
    """A graph that convolves its first input to _WIDTH channels, a pixel at a time, and has the others beside it."""
    folder = out / "onnx" / name
    folder.mkdir(parents=True)
    shape = ["batch", 4, "height", "width"] if pictured else ["batch", 4, _SIDE, _SIDE]
    first, *others = pictured or ("fixed",)
    ports = [helper.make_tensor_value_info(one, TensorProto.FLOAT, shape) for one in (first, *others)]
    weights = numpy_helper.from_array(np.ones((_WIDTH, 4, 1, 1), np.float32), "weights")
    nodes = [helper.make_node("Conv", [first, "weights"], ["out"])]
    nodes += [helper.make_node("Neg", [one], [f"of_{one}"]) for one in others]
    outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None) for node in nodes]
    graph = helper.make_graph(nodes, name, ports, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    (folder / "manifest.json").write_text('{"random": true}')


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An export of those plans."""
    (tmp_path / "latent.json").write_text('{"factor": 8, "channels": 4}')
    for name, pictured in _USUAL.items():
        write_graph(tmp_path, name, *pictured)
    return tmp_path


def test_plans_of_every_suite_are_counted_for_a_picture_of_the_short_side(out: Path) -> None:
    rows = {row["name"]: row for row in facts(out)}
    assert set(rows) == {*_USUAL, "opt_decoder", "llm"}
    a_pixel = 2 * 4 * _WIDTH
    assert rows["clip_text"]["flops"] == a_pixel * _SIDE**2
    assert rows["hint"]["flops"] == a_pixel * 512**2
    assert rows["denoiser"]["flops"] == rows["vae_decoder"]["flops"] == a_pixel * 64**2
    assert rows["denoiser"]["weight_bytes"] == (out / "onnx" / "denoiser" / "model.onnx").stat().st_size
    assert rows["denoiser"]["random"] is True
    shutil.rmtree(out / "onnx" / "hint")
    with pytest.raises(CounterfactoryError, match="the facts of hint need its graph in"):
        facts(out)


@pytest.mark.parametrize("pictured", [("latents",), ("latents", "hint_embedding")], ids=["alone", "with edges"])
def test_an_editor_and_its_encoder_are_counted_where_they_were_exported(out: Path, pictured: tuple[str, ...]) -> None:
    write_graph(out, "editor", *pictured)
    write_graph(out, "vae_encoder", "pixel_values")
    rows = {row["name"]: row for row in facts(out)}
    assert rows["editor"]["flops"] == 2 * 4 * _WIDTH * 64**2
    assert rows["vae_encoder"]["flops"] == 2 * 4 * _WIDTH * 512**2
