"""The inputs and outputs of an ONNX file, with the names of their dynamic axes, as the package onnx reads them.

External weights are not read. The package is imported when a graph is opened, never for OpenVINO.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import open_file


@dataclass(frozen=True)
class NamedPort:
    """An input or output; an axis is a fixed length, the name of a dynamic length, or None for an unnamed one."""

    name: str
    axes: tuple[int | str | None, ...]


@dataclass(frozen=True)
class Ports:
    inputs: tuple[NamedPort, ...]
    outputs: tuple[NamedPort, ...]


def read_ports(path: Path) -> Ports:
    """The ports of the ONNX file at `path`.

    Raises CounterfactoryError when the file is missing, damaged or no ONNX, and where the package is not installed.
    """
    if not path.is_file():
        raise CounterfactoryError(f"ONNX graph {path} is missing; export it again or name another folder")
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise CounterfactoryError("ONNX graphs are read by the package onnx; install it: pip install onnx") from error
    try:
        with open_file(path) as file:
            model = onnx.load_model_from_string(file.read())
    except Exception as error:  # protobuf's own has no public name
        raise CounterfactoryError(f"{path} is no ONNX file that can be read: {error}") from error
    if not model.HasField("graph"):
        raise CounterfactoryError(f"{path} is no ONNX file that can be read: it holds no graph")
    return Ports(tuple(map(_port, model.graph.input)), tuple(map(_port, model.graph.output)))


def _port(info: Any) -> NamedPort:
    return NamedPort(info.name, tuple(_axis(dim) for dim in info.type.tensor_type.shape.dim))


def _axis(dim: Any) -> int | str | None:
    return int(dim.dim_value) if dim.HasField("dim_value") else str(dim.dim_param) or None
