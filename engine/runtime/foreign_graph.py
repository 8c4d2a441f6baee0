"""Graphs that other people made, ONNX files or OpenVINO's, on the CPU in f32, by the names that the files give.

OpenVINO runs both. ONNX Runtime runs ONNX files where OpenVINO is not installed or does not load them, as those with a
sequence. Shapes are those of each run, and real numbers come and go as float32 whatever the file has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..packages import installed
from . import openvino
from .onnx_file import external_files, read_onnx_file
from .onnx_providers import PROVIDERS, load_library
from .quiet_openvino import ov
from .session import Port

Feed = Mapping[str, NDArray[Any]]
_BFLOAT16 = "tensor(bfloat16)"  # NumPy has none
_REAL: Mapping[str, str] = MappingProxyType(
    {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64"}
)


class ForeignGraph(Protocol):
    """A graph that is run on arrays of any shape that it takes; `package` runs it, and a port of unknown rank has
    the shape ()."""

    package: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    metadata: Mapping[str, str]

    def run(self, feeds: Sequence[Feed]) -> list[dict[str, Any]]:
        """For each of some feeds, all of the same shapes, the outputs by name, in the file's order: arrays, and what a
        sequence or a map holds. Raises CounterfactoryError where the graph does not take what is fed.
        """
        ...


def open_graph(path: Path) -> ForeignGraph:
    """The graph in a file. Raises CounterfactoryError for a file that is no model, one with weights out of its folder,
    and where nothing that runs it is installed.
    """
    onnx = path.suffix.lower() == ".onnx"
    external_files(path)
    others = onnx and installed("onnxruntime")
    if installed("openvino"):
        try:
            return _OpenVinoGraph(path)
        except CounterfactoryError:
            if not others:
                raise
    if others:
        return _OnnxRuntimeGraph(path)
    extras = "generate]', or 'counterfactory[onnxruntime-cpu" if onnx else "generate"
    install = f"pip install 'counterfactory[{extras}]'"
    raise CounterfactoryError(f"{path} is run by OpenVINO, which is not installed: {install}")


class _OpenVinoGraph:
    """Compiled anew for each set of shapes; the latest is kept."""

    package = "openvino"

    def __init__(self, path: Path) -> None:
        self._path, self._core = path, openvino.open_core()
        model = self._read()
        self.inputs, self.outputs = tuple(map(_port, model.inputs)), tuple(map(_port, model.outputs))
        self.metadata = read_onnx_file(path).metadata if path.suffix.lower() == ".onnx" else _model_info(model)
        self._open: tuple[dict[str, tuple[int, ...]], list[Any]] | None = None

    def run(self, feeds: Sequence[Feed]) -> list[dict[str, Any]]:
        shapes = {port.name: feeds[0][port.name].shape for port in self.inputs}
        if self._open is None or self._open[0] != shapes:
            self._open = None
            self._open = shapes, self._compiled(shapes)
        requests, answers = self._open[1], list[dict[str, Any]]()
        # Several beside each other are quicker than a batch, and no graph can mix them up. The threads are OpenVINO's:
        # two of Python's that use its arrays for the first time can wait for ever, each for what the other one holds.
        for first in range(0, len(feeds), len(requests)):
            some = list(zip(requests, feeds[first : first + len(requests)], strict=False))
            for request, feed in some:
                request.start_async({i: feed[port.name] for i, port in enumerate(self.inputs)})
            answers += [self._result(request) for request, _ in some]
        return answers

    def _result(self, request: Any) -> dict[str, Any]:
        try:
            request.wait()
        except RuntimeError as error:
            raise CounterfactoryError(f"model file {self._path} does not run: {_last_line(error)}") from error
        return {port.name: np.array(request.get_output_tensor(i).data) for i, port in enumerate(self.outputs)}

    def _read(self) -> ov.Model:
        try:
            return self._core.read_model(self._path)
        except RuntimeError as error:
            raise CounterfactoryError(f"model file {self._path} cannot be loaded: {_last_line(error)}") from error

    def _compiled(self, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
        """Requests to run the graph at these shapes, as many as run well beside each other."""
        model = self._read()
        steps = ov.preprocess.PrePostProcessor(model)
        for ports, tensors in ((model.inputs, steps.input), (model.outputs, steps.output)):
            for i, port in enumerate(ports):
                if port.get_element_type().is_real():
                    tensors(i).tensor().set_element_type(ov.Type.f32)
        try:
            model = steps.build()
            model.reshape({i: list(shape) for i, shape in enumerate(shapes.values())})
            openvino.settle_constants(model)
            compiled = self._core.compile_model(
                model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT"}
            )
        except RuntimeError as error:
            given = ", ".join(f"{name} as {list(shape)}" for name, shape in shapes.items())
            raise CounterfactoryError(f"model file {self._path} does not take {given}: {_last_line(error)}") from error
        return [
            compiled.create_infer_request() for _ in range(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        ]


def _port(port: Any) -> Port:
    """A port by its node's name where that is one of its tensor's, which may have gone through Identities."""
    names = sorted(port.get_names())
    own = port.get_node().get_friendly_name().partition("/sink_port_")[0]
    shape = port.get_partial_shape()
    lengths = () if shape.rank.is_dynamic else tuple(d.get_length() if d.is_static else None for d in shape)
    kind = port.get_element_type()
    dtype = "float32" if kind.is_real() else np.dtype(kind.to_dtype()).name
    return Port(own if own in names or not names else names[0], lengths, dtype)


def _model_info(model: ov.Model) -> dict[str, str]:
    """What OpenVINO's Model API wrote into a model."""
    table: Any = model.get_rt_info()["model_info"] if model.has_rt_info("model_info") else {}
    return {str(key): str(value.astype(str) if hasattr(value, "astype") else value) for key, value in table.items()}


class _OnnxRuntimeGraph:
    package = "onnxruntime"

    def __init__(self, path: Path) -> None:
        self._path, self._library = path, load_library("cpu")
        options = self._library.SessionOptions()
        options.log_severity_level = 4  # what goes wrong is raised
        try:
            self._session = self._library.InferenceSession(str(path), options, providers=[PROVIDERS["cpu"]])
        except Exception as error:  # the library's errors have no common base
            raise CounterfactoryError(f"model file {path} cannot be loaded: {_last_line(error)}") from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._kinds = {node.name: node.type for node in inputs}
        if _BFLOAT16 in (node.type for node in (*inputs, *outputs)):
            raise CounterfactoryError(f"model file {path} has bfloat16 ports, which OpenVINO runs: install it")
        self.inputs, self.outputs = tuple(map(_node_port, inputs)), tuple(map(_node_port, outputs))
        self.metadata: Mapping[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, feeds: Sequence[Feed]) -> list[dict[str, Any]]:
        names = [port.name for port in self.outputs]
        kinds = {name: _REAL.get(self._kinds[name], feed.dtype) for name, feed in feeds[0].items()}
        results = []
        for feed in feeds:
            try:
                outputs = self._session.run(names, {name: feed[name].astype(kind) for name, kind in kinds.items()})
            except Exception as error:  # the library's errors have no common base
                raise CounterfactoryError(f"model file {self._path} does not run: {_last_line(error)}") from error
            results.append({name: _narrowed(value) for name, value in zip(names, outputs, strict=True)})
        return results


def _node_port(node: Any) -> Port:
    lengths = tuple(n if isinstance(n, int) else None for n in node.shape or ())
    name = node.type.removeprefix("tensor(").removesuffix(")")
    return Port(node.name, lengths, "float32" if node.type in _REAL else name)


def _narrowed(value: Any) -> Any:
    real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float32) if real else value


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
