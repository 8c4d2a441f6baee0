"""Models by every name that a user may give them: callables, files, libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from counterfactory.engine.asking.callables import load_callable, wrap_callable
from counterfactory.engine.asking.opening_models import names_model, open_model
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import foreign_graph

CODE = """
import numpy as np
classes = ["a", "b"]
def means(pictures): return pictures.mean(axis=(1, 2, 3))
class Model:
    preprocess = "resize=4x4"
    classes = {0: "bus", 1: "car"}
    def __call__(self, pictures): return [str(pictures.shape)] * len(pictures)
model, number = Model(), 3
"""
FLOATS = "scale=255 resize=4x6"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    name = "module_of_a_user"
    Path(f"{name}.py").write_text(CODE)
    yield name
    sys.modules.pop(name, None)


def grey(level: int, height: int = 8, width: int = 10) -> NDArray[np.uint8]:
    return np.full((height, width, 3), level, np.uint8)


def graph(path: Path, batch: int | str = "batch", kind: int = TensorProto.FLOAT, last: bool = False) -> Path:
    """Scores [N, 3]: the means of the three colours of pictures of 4 x 6."""
    shape = [batch, 4, 6, 3] if last else [batch, 3, 4, 6]
    cast = helper.make_node("Cast", ["pictures"], ["numbers"], to=TensorProto.FLOAT)
    mean = helper.make_node("ReduceMean", ["numbers"], ["scores"], axes=[1, 2] if last else [2, 3], keepdims=0)
    inputs = [helper.make_tensor_value_info("pictures", kind, shape)]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 3])]
    means, opsets = helper.make_graph([cast, mean], "means", inputs, outputs), [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(means, opset_imports=opsets, ir_version=8), path)
    return path


def scores(path: Path, preprocess: str | None, count: int) -> NDArray[Any]:
    model = open_model(str(path), preprocess)
    pictures = [np.concatenate([grey(9 * i)[:, :, :1], grey(2)[:, :, :2]], axis=2) for i in range(count)]
    inputs = np.stack([model.prepare(picture) for picture in pictures])
    batches = [inputs[i : i + model.batch] for i in range(0, count, model.batch)]
    return np.concatenate([model.run(batch, [(8, 10)] * model.batch) for batch in batches])


@pytest.mark.parametrize("batch", [1, 2, "batch"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_an_onnx_file_gives_its_scores(
    batch: int | str, last: bool, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_graph, "installed", lambda name: name in (runtime, "onnx"))
    got = scores(graph(tmp_path / "m.onnx", batch, last=last), FLOATS, 5)
    expected = [[9 * i / 255, 2 / 255, 2 / 255] for i in range(5)]
    assert np.abs(got - expected).max() < 1e-6


def test_a_file_of_uint8_pictures_needs_no_declaration_and_takes_no_numbers(tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx", kind=TensorProto.UINT8)
    assert np.abs(scores(path, None, 3)[:, 0] - [0, 9, 18]).max() < 1e-5
    assert open_model(str(path)).input == "resize=4x6 interpolation=bilinear"
    with pytest.raises(CounterfactoryError, match="takes uint8 pixels: leave out scale, mean and std"):
        open_model(str(path), "scale=255")


def test_a_file_is_another_model_with_other_weights_or_another_input(tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx")
    first = open_model(str(path), FLOATS).digest
    assert open_model(str(path), FLOATS).digest == first
    assert open_model(str(path), f"{FLOATS} channels=bgr").digest != first
    graph(path, batch=3)
    assert open_model(str(path), FLOATS).digest != first


@pytest.mark.parametrize(
    ("preprocess", "message"),
    [
        (None, "declare it by --preprocess, such as 'resize=4x6 mean=imagenet std=imagenet'"),
        ("resize=4x6", "takes numbers: add scale, or mean and std"),
        ("scale=255 crop=5", "takes pictures as [3, 4, 6], and "),
    ],
)
def test_another_input_than_the_file_s_is_refused(preprocess: str | None, message: str, tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx")
    with pytest.raises(CounterfactoryError) as refused:
        scores(path, preprocess, 1)
    assert message in str(refused.value)


def test_files_that_are_no_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CounterfactoryError, match="there is no model file"):
        open_model(str(tmp_path / "none.onnx"))
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(CounterfactoryError, match="cannot be loaded"):
        open_model(str(tmp_path / "text.onnx"))
    monkeypatch.setattr(foreign_graph, "installed", lambda name: False)
    with pytest.raises(CounterfactoryError, match=r"pip install 'counterfactory\[generate\]'"):
        open_model(str(graph(tmp_path / "m.onnx")), FLOATS)


def test_a_callable_by_its_name_may_say_more_of_itself(module: str) -> None:
    model = load_callable(f"{module}:means", None)
    assert model.run(np.stack([grey(3), grey(5)]), [(8, 10)] * 2).tolist() == [3, 5]
    again = load_callable(f"{module}:means", None)
    assert model.digest == again.digest != load_callable(f"{module}:means", "resize=4").digest
    model = load_callable(f"{module}:model", None)
    assert model.classes == {0: "bus", 1: "car"}
    assert model.prepare(grey(1)).shape == (4, 4, 3)
    assert load_callable(f"{module}:model", "resize=3x5").prepare(grey(1)).shape == (3, 5, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:model", "the module no_such_module cannot be imported"),
        ("MODULE:none", "has no 'none'"),
        ("MODULE:number", "is a int: a model is called with pictures"),
        ("broken:model", "broken cannot be imported (SyntaxError"),
    ],
)
def test_a_callable_that_is_not_there_is_refused(name: str, message: str, module: str) -> None:
    Path("broken.py").write_text("def model(:")
    with pytest.raises(CounterfactoryError) as refused:
        open_model(name.replace("MODULE", module))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_module_of_torch_is_run_on_declared_input(module: str) -> None:
    torch = pytest.importorskip("torch")

    class Means(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
            self.drop = torch.nn.Dropout(0.9)

        def forward(self, pictures: Any) -> Any:
            return self.drop(pictures.mean(dim=(1, 2, 3))[:, None] * self.weight)

    net = Means().train()
    with pytest.raises(CounterfactoryError, match="does not say how pictures become its input"):
        wrap_callable(net)
    model = wrap_callable(net, "scale=255 resize=4x4")
    outputs = model.run(np.stack([model.prepare(grey(51))]), [(8, 10)])
    assert outputs.tolist() == [pytest.approx([0.2, 0.4])], "in evaluation mode"
    digest = model.digest
    assert digest == wrap_callable(net, "scale=255 resize=4x4").digest
    net.weight.data[0] += 1e-3
    assert digest != wrap_callable(net, "scale=255 resize=4x4").digest


def test_what_names_a_model(tmp_path: Path) -> None:
    for name in ("m.onnx", "m.xml", "package.module:Class.method", "timm:resnet50.a1_in1k", "hf:google/vit-base"):
        assert names_model(name)
    for name in ("answers.csv", "masks", str(tmp_path), "answers.npy"):
        assert not names_model(name)
    with pytest.raises(CounterfactoryError, match=r"names no model: give an \.onnx or \.xml file"):
        open_model("resnet50")


@pytest.mark.parametrize("name", ["net.pt", "net.PTH", "net.pkl", "folder/net.ckpt"])
def test_pickles_are_refused_with_what_to_do(name: str, tmp_path: Path) -> None:
    assert names_model(str(tmp_path / name))
    with pytest.raises(CounterfactoryError, match="weights_only=True"):
        open_model(str(tmp_path / name))


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18", "ultralytics:yolo11n.pt", "clip:x", "hf:x"])
def test_a_library_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("timm", "torchvision", "torchvision.models", "ultralytics", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CounterfactoryError, match="pip install"):
        open_model(name, None, ["bus"])


def test_ultralytics_boxes_and_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    weights = tmp_path / "yolo.pt"
    weights.write_bytes(b"weights")
    seen: list[NDArray[np.uint8]] = []

    class Yolo:
        names: ClassVar = {0: "bus", 1: "car"}
        ckpt_path = str(weights)

        def __init__(self, name: str) -> None:
            assert name == str(weights)

        def predict(self, pictures: list[NDArray[np.uint8]], conf: float, verbose: bool) -> Any:
            seen.extend(pictures)
            data = torch.tensor([[1.0, 2, 3, 4, 0.5, 1]])
            return [SimpleNamespace(probs=None, boxes=SimpleNamespace(data=data)) for _ in pictures]

    monkeypatch.setitem(sys.modules, "ultralytics", SimpleNamespace(YOLO=Yolo))
    model = open_model(f"ultralytics:{weights}")
    picture = np.concatenate([grey(200)[:, :, :1], grey(2)[:, :, :2]], axis=2)
    (boxes,) = model.run(np.stack([picture]), [(8, 10)])
    assert boxes.tolist() == [[1, 2, 3, 4, 0.5, 1]]
    assert seen[0][0, 0].tolist() == [2, 2, 200], "blue first"
    assert model.classes == {0: "bus", 1: "car"}
    weights.write_bytes(b"others")
    assert open_model(f"ultralytics:{weights}").digest != model.digest
    with pytest.raises(CounterfactoryError, match="leave out --preprocess"):
        open_model(f"ultralytics:{weights}", "resize=3")
