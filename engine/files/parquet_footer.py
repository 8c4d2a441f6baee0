"""The sizes that a Parquet file's footer claims of its columns, by Thrift's compact protocol (github.com/apache/thrift,
doc/specs/thrift-compact-protocol.md) and the names of parquet.thrift (github.com/apache/parquet-format).

PyArrow ends the process, by an exception of C++ that nobody catches, when it is asked for a column of some damaged
footers. So nobody asks it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_TAIL = 8  # the footer's length, and "PAR1"
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE = (4, 5, 6)
_BITS = 64  # of a whole number
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES, _UNCOMPRESSED = 4, 1, 3, 5, 6


class Chunk(NamedTuple):
    """A column of a group of rows: its values, and the bytes of its pages when they are unpacked."""

    values: int
    bytes: int


def chunk_sizes(tail: bytes) -> list[list[Chunk]]:
    """The chunks of each group of rows, in the columns' order, by a file's end. Raises ValueError for a damaged one."""
    length = int.from_bytes(tail[-_TAIL:-4], "little")
    try:
        footer = _Thrift(tail[len(tail) - _TAIL - length : -_TAIL]).struct()
        return [
            [Chunk(int(one[_META_DATA][_NUM_VALUES]), int(one[_META_DATA][_UNCOMPRESSED])) for one in group[_COLUMNS]]
            for group in footer[_ROW_GROUPS]
        ]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError("its footer is damaged") from error


def footer_bytes(tail: bytes) -> int:
    """The bytes of the footer with its tail, of which `tail` has the last 8."""
    return int.from_bytes(tail[-_TAIL:-4], "little") + _TAIL


class _Thrift:
    """Reads values one after another; structs are tables by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._natural()
            return [self._value(head & 15) for _ in range(count)]
        if kind == _MAP:
            count = self._natural()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        if kind in _WHOLE:
            return self._whole()
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind in (_DOUBLE, _BINARY):
            length = 8 if kind == _DOUBLE else self._natural()
            self.at += length
            return None
        raise LookupError(kind)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _natural(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value, shift = value | (byte & 127) << shift, shift + 7
            if shift > _BITS:
                raise LookupError(shift)
        return value | byte << shift

    def _whole(self) -> int:
        value = self._natural()
        return -(value >> 1) - 1 if value & 1 else value >> 1
