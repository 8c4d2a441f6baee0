"""What an ONNX file says of itself, read from its bytes without the package onnx: metadata, and the files that hold its
weights.

A file is a message of numbered fields (protobuf's wire format), and messages lie in messages. Only those are opened
that can hold what is asked for; weights in the file itself are stepped over.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from ..errors import CounterfactoryError
from ..files.reading import open_file

# Numbers of the fields that hold messages, by the kind of message (onnx.proto).
_INSIDE: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "model": {7: "graph", 14: "metadata", 20: "training", 25: "function"},
        "training": {1: "graph", 2: "graph"},
        "graph": {1: "node", 5: "tensor", 15: "sparse"},
        "function": {7: "node", 11: "attribute"},
        "node": {5: "attribute"},
        "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
        "sparse": {1: "tensor", 2: "tensor"},
        "tensor": {13: "external"},
    }
)
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


@dataclass(frozen=True)
class OnnxFile:
    """`external` are the paths of files with weights, as the file names them."""

    metadata: Mapping[str, str]
    external: tuple[str, ...]


def read_onnx_file(path: Path) -> OnnxFile:
    """What the ONNX file at `path` says of itself. Raises CounterfactoryError for what is none, or is cut off."""
    try:
        with open_file(path) as file:
            return _read(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (ValueError, IndexError, OSError) as error:
        raise CounterfactoryError(f"model file {path} cannot be loaded: it is no whole ONNX file ({error})") from error


def external_files(path: Path) -> list[Path]:
    """The other files that a model file has its weights in: all that an ONNX graph names, or OpenVINO's .bin.

    Raises CounterfactoryError for a file that is no model, and for weights that are missing or lead out of its folder.
    """
    if path.suffix.lower() != ".onnx":
        weights = path.with_suffix(".bin")
        return [weights] if weights.is_file() else []
    files = []
    for name in read_onnx_file(path).external:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise CounterfactoryError(
                f"model file {path} has weights in {name!r}, out of its own folder: put them beside it, and save it so"
            )
        files.append(path.parent / name)
        if not files[-1].is_file():
            raise CounterfactoryError(f"model file {path} has weights in {name!r}, which is not beside it")
    return files


def _read(content: memoryview) -> OnnxFile:
    metadata, external, graphs = dict[str, str](), dict[str, None](), 0
    waiting = [("model", content)]
    while waiting:
        kind, message = waiting.pop()
        graphs += kind == "graph"
        if kind in ("metadata", "external"):
            key, value = _texts(message)
            if kind == "metadata":
                metadata[key] = value
            elif key == "location":
                external[value] = None
        else:
            inside = [(_INSIDE[kind][number], part) for number, part in _fields(message) if number in _INSIDE[kind]]
            waiting += reversed(inside)
    if not graphs:
        raise ValueError("it holds no graph")
    return OnnxFile(metadata, tuple(external))


def _texts(message: memoryview) -> tuple[str, str]:
    """Key and value of an entry."""
    texts = {number: bytes(part).decode() for number, part in _fields(message)}
    return texts.get(1, ""), texts.get(2, "")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message that hold bytes, with their numbers. Raises ValueError where it is cut off."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            _, at = _varint(message, at)
            continue
        if wire == _BYTES:
            length, at = _varint(message, at)
        elif wire in (_EIGHT, _FOUR):
            length = 8 if wire == _EIGHT else 4
        else:
            raise ValueError(f"byte {at} begins no field")
        if at + length > len(message):
            raise ValueError("it is cut off")
        if wire == _BYTES:
            yield number, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("it is cut off")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
