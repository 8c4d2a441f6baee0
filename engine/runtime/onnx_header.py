"""The inputs and outputs of an ONNX file, with the names of their dynamic axes.

Only the outermost fields of the file are walked and no weight is read, so that a graph of gigabytes costs no more
than a small one, and no ONNX package is needed where nothing is exported. Field numbers are those of onnx.proto3
(ModelProto, GraphProto, ValueInfoProto, TypeProto, TensorShapeProto).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError

_GRAPH, _INPUT, _OUTPUT = 7, 11, 12
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Varints longer than this are no lengths; ONNX files end far below.
_MOST_BITS = 63


@dataclass(frozen=True)
class NamedPort:
    """An input or output; an axis is a fixed length, the name of a dynamic length, or None for an unnamed one."""

    name: str
    axes: tuple[int | str | None, ...]


@dataclass(frozen=True)
class Ports:
    """What an ONNX graph takes and gives."""

    inputs: tuple[NamedPort, ...]
    outputs: tuple[NamedPort, ...]


def read_ports(path: Path) -> Ports:
    """The ports of the ONNX file at `path`. Raises CounterfactoryError when it is missing, damaged or no ONNX."""
    if not path.is_file():
        raise CounterfactoryError(f"ONNX graph {path} is missing; export it again or name another folder")
    try:
        with path.open("rb") as file:
            # Never closed by hand: the views into it that a failure leaves behind would forbid that.
            return _ports(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise CounterfactoryError(f"{path} is no ONNX file that can be read: {error}") from error


def _ports(model: memoryview) -> Ports:
    graphs = [value for number, value in _fields(model) if number == _GRAPH and isinstance(value, memoryview)]
    if len(graphs) != 1:
        raise ValueError(f"it holds {len(graphs)} graphs")
    found: dict[int, list[NamedPort]] = {_INPUT: [], _OUTPUT: []}
    for number, value in _fields(graphs[0]):
        if number in found and isinstance(value, memoryview):
            found[number].append(_port(value))
    return Ports(tuple(found[_INPUT]), tuple(found[_OUTPUT]))


def _port(info: memoryview) -> NamedPort:
    name = _text(info, 1)
    shape = _part(_part(_part(info, 2), 1), 2)
    return NamedPort(name, tuple(_axis(dim) for number, dim in _fields(shape) if number == 1))


def _axis(dim: memoryview | int) -> int | str | None:
    if isinstance(dim, int):
        raise ValueError("an axis is a number instead of a message")
    for number, value in _fields(dim):
        if number == 1 and isinstance(value, int):
            return value
        if number == 2 and isinstance(value, memoryview):
            return bytes(value).decode() or None
    return None


def _part(message: memoryview, wanted: int) -> memoryview:
    """The last field `wanted` of a message; empty where there is none."""
    parts = [value for number, value in _fields(message) if number == wanted and isinstance(value, memoryview)]
    return parts[-1] if parts else message[:0]


def _text(message: memoryview, wanted: int) -> str:
    return bytes(_part(message, wanted)).decode()


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Number and value of each field, in order."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            length, at = _varint(message, at)
        if length is None or number == 0:
            raise ValueError(f"a field {number} has the unknown wire type {kind}")
        if length > len(message) - at:
            raise ValueError(f"a field of {length:,} bytes begins {len(message) - at:,} bytes before the end")
        yield number, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if shift > _MOST_BITS:
            raise ValueError("a number does not end")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
