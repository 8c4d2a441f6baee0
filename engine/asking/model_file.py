"""A model under test in a file: ONNX or OpenVINO's format, through the engine's own sessions, in f32 on the CPU.

OpenVINO runs both; ONNX Runtime runs ONNX files where OpenVINO is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..packages import installed
from ..runtime.installing import releases
from ..runtime.onnx_file import external_files
from ..runtime.session import Port, Session
from .placement import Size
from .preparation import Preparation
from .published_inputs import read_preparation
from .under_test import BATCH, ModelUnderTest

_COLOURS = 3
# The outputs of detectors, as torchvision exports them.
_BOXES = {"boxes", "labels", "scores"}


def open_model_file(path: Path, preprocess: str | None) -> ModelUnderTest:
    """The model in a file; `preprocess` declares how pictures become its input, see `read_preparation`.

    Raises CounterfactoryError where nothing that runs it is installed, for a file that is no model of pictures, and for
    float inputs whose preparation is not declared.
    """
    if not path.is_file():
        raise CounterfactoryError(f"there is no model file {path}")
    graph = _GraphModel(path, preprocess)
    files = [file_digest(file) for file in (path, *external_files(path))]
    run_by = releases(["openvino" if installed("openvino") else "onnxruntime"])
    return ModelUnderTest(
        name=str(path),
        run=graph.run,
        prepare=graph.prepare,
        input=graph.preparation.text,
        digest=content_key("model file", files, graph.preparation, run_by),
        batch=graph.batch,
        place=graph.preparation.place,
    )


class _GraphModel:
    """A file's graph, run on prepared pictures, a last batch filled up with black ones. A session is of pictures of one
    (height, width); one is open at a time.
    """

    def __init__(self, path: Path, preprocess: str | None) -> None:
        self._path = path
        self._port = self._read_port()
        self._rows_last = self._port.shape[-1] == _COLOURS
        self.batch = self._port.shape[0] or BATCH
        self.preparation = self._declared(preprocess)
        self._size: Size | None = None
        self._open: Session | None = None

    def prepare(self, picture: NDArray[np.uint8]) -> NDArray[Any]:
        pixels = self.preparation.apply(picture)
        return np.ascontiguousarray(pixels if self._rows_last else pixels.transpose(2, 0, 1))

    def run(self, inputs: NDArray[Any], sizes: Sequence[Size]) -> Any:
        count, wanted = len(inputs), self._port.shape[1:]
        if any(want not in (None, have) for want, have in zip(wanted, inputs.shape[1:], strict=True)):
            raise CounterfactoryError(
                f"{self._path} takes pictures as {_shape(wanted)}, and {self.preparation.text!r} gives "
                f"{_shape(inputs.shape[1:])}: declare resize and crop by --preprocess"
            )
        size = inputs.shape[1:3] if self._rows_last else inputs.shape[2:4]
        if self._open is None or self._size != size:
            self._open = None
            self._open, self._size = self._opened(size), size
        feed = np.zeros((self.batch, *inputs.shape[1:]), self._port.dtype)
        feed[:count] = inputs
        (own,) = self._open.signature.inputs  # a tensor may have several names
        outputs = self._open.run({own.name: feed})
        if outputs.keys() >= _BOXES:
            return {name: outputs[name] for name in _BOXES}
        return _chosen(outputs)[:count]

    def _declared(self, preprocess: str | None) -> Preparation:
        path, port = self._path, self._port
        height, width = port.shape[1:3] if self._rows_last else port.shape[2:4]
        fixed = (height, width) if height is not None and width is not None else None
        if preprocess is None:
            if port.dtype != "uint8":
                example = "" if fixed is None else f"resize={fixed[0]}x{fixed[1]} "
                raise CounterfactoryError(
                    f"{path} takes {port.dtype} and does not say how pictures become its input: declare it by "
                    f"--preprocess, such as '{example}mean=imagenet std=imagenet', or scale=255 where pixels go "
                    "from 0 to 1"
                )
            return Preparation(resize=fixed)
        preparation = read_preparation(preprocess)
        if fixed is not None and preparation.crop is None and preparation.resize is None:
            preparation = replace(preparation, resize=fixed)
        floats = preparation.scale is not None or preparation.mean is not None
        if floats == (port.dtype == "uint8"):
            wanted = "uint8 pixels: leave out scale, mean and std" if floats else "numbers: add scale, or mean and std"
            raise CounterfactoryError(f"{path} takes {wanted}; --preprocess declares {preparation.text!r}")
        return preparation

    def _read_port(self) -> Port:
        inputs = self._ports()
        if len(inputs) != 1:
            several = f"{len(inputs)} inputs ({', '.join(port.name for port in inputs)})"
            raise CounterfactoryError(f"{self._path} takes {several}: a model of pictures takes one")
        (port,) = inputs
        if len(port.shape) != 4 or _COLOURS not in (port.shape[1], port.shape[3]):
            raise CounterfactoryError(
                f"{self._path} takes {port.name} as {_shape(port.shape)}: a model of pictures takes [N, 3, H, W] or "
                "[N, H, W, 3]"
            )
        return port

    def _ports(self) -> list[Port]:
        if installed("openvino"):
            from ..runtime.openvino import declared_inputs

            return declared_inputs(self._path)
        if self._path.suffix == ".onnx" and installed("onnxruntime") and installed("onnx"):
            from ..runtime.onnxruntime import declared_inputs as of_graph

            return of_graph(self._path)
        extras = "generate]', or 'counterfactory[onnxruntime-cpu" if self._path.suffix == ".onnx" else "generate"
        install = f"pip install 'counterfactory[{extras}]'"
        raise CounterfactoryError(f"{self._path} is run by OpenVINO, which is not installed: {install}")

    def _opened(self, size: Size) -> Session:
        # Sessions fix the last two axes; where colours are the last, sizes stay open.
        sizes = {self._port.name: size} if None in self._port.shape[2:] and self._port.shape[3] != _COLOURS else {}
        if installed("openvino"):
            from ..runtime import openvino

            return openvino.open_session(self._path, batch=self.batch, precision="f32", sizes=sizes)
        from ..runtime import onnxruntime

        return onnxruntime.open_session(self._path, batch=self.batch, provider="cpu", sizes=sizes)


def _shape(lengths: Sequence[int | None]) -> str:
    return f"[{', '.join('any' if n is None else str(n) for n in lengths)}]"


def _chosen(outputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The output that is the answer: the logits or probabilities where one is called so, else the first."""
    named = [name for name in outputs if name.rpartition("/")[2] in ("logits", "probabilities", "probs", "out")]
    return outputs[named[0] if named else next(iter(outputs))]
