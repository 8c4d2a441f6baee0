"""A list that lies on the disk: what grows with a data set, and need not be held.

Items are pickled, many at a time, into a file that has no name and is gone with the list. Memory holds the last few,
and some bytes for each block of them. What many items share, a class map or a table, is held once and stays the same
object: all but text, bytes, numbers, paths, tuples and dataclasses with slots.
"""

from __future__ import annotations

import heapq
import io
import os
import pickle
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from operator import attrgetter, eq
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from .writing import explain_os_errors

T = TypeVar("T")

_BLOCK = 128
# Items that are sorted in memory.
_RUN = 4096
_PLAIN = (str, bytes, int, float, bool, type(None), tuple, type(Path()))


class _Blocks:
    """The file, and where its blocks lie. Appending is for one thread, reading for any."""

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir())
        with explain_os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            self._handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._handle)
        self._folder = folder
        self._ends, self._last = array("Q", [0]), list[Any]()
        self.held, self.number_of = list[Any](), dict[int, int]()

    def __len__(self) -> int:
        return (len(self._ends) - 1) * _BLOCK + len(self._last)

    def append(self, item: Any) -> None:
        self._last.append(item)
        if len(self._last) < _BLOCK:
            return
        text = io.BytesIO()
        _BlockPickler(text, self).dump(self._last)
        data, at = text.getbuffer(), self._ends[-1]
        with explain_os_errors(self._folder):
            while data:
                written = os.pwrite(self._handle, data, at)
                data, at = data[written:], at + written
        self._ends.append(at)
        self._last = []

    def read(self, number: int) -> list[Any]:
        """A block."""
        if number == len(self._ends) - 1:
            return self._last
        start, end = self._ends[number : number + 2]
        block: list[Any] = _BlockUnpickler(os.pread(self._handle, end - start, start), self.held).load()
        return block


class _BlockPickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, blocks: _Blocks) -> None:
        super().__init__(file, protocol=5)
        self._blocks = blocks
        self._own: set[type] = {*_PLAIN, list}  # a block is a list
        self._values = dict[type, Callable[[Any], Any]]()

    def persistent_id(self, value: Any) -> int | None:
        kind = type(value)
        if kind in self._own:
            return None
        if is_dataclass(kind) and "__slots__" in vars(kind):
            self._own.add(kind)
            self._values[kind] = attrgetter(*(of.name for of in fields(kind)))
            return None
        held = self._blocks.held
        number = self._blocks.number_of.setdefault(id(value), len(held))
        if number == len(held):
            held.append(value)
        return number

    def reducer_override(self, value: Any) -> Any:
        values = self._values.get(type(value))
        if values is None:
            return NotImplemented
        several = values(value)
        return type(value), several if len(fields(value)) > 1 else (several,)


class _BlockUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, held: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._held = held

    def persistent_load(self, number: int) -> Any:
        return self._held[number]


class DiskList(Sequence[T]):
    """Items on the disk, in their order; a slice is a part of the same list. They are read a block at a time: walk it,
    rather than to ask for one after the other. Raises CounterfactoryError where the disk is full.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._blocks = _Blocks()
        self._part: range | None = None
        for item in items:
            self._blocks.append(item)

    @classmethod
    def ordered(cls, items: Iterable[T], key: Callable[[T], Any]) -> DiskList[T]:
        """The items in the order of their keys, those of one key in their own."""
        line, runs, parts = iter(items), cls(), list[Sequence[T]]()
        while run := sorted(islice(line, _RUN), key=key):
            start = len(runs)
            for item in run:
                runs.append(item)
            parts.append(runs[start : len(runs)])
        return runs if len(parts) < 2 else cls(heapq.merge(*parts, key=key))

    def append(self, item: T) -> None:
        """Adds an item at the end; not to a part."""
        if self._part is not None:
            raise ValueError("a part of a list takes no items")
        self._blocks.append(item)

    def _range(self) -> range:
        return range(len(self._blocks)) if self._part is None else self._part

    def __len__(self) -> int:
        return len(self._range())

    def __iter__(self) -> Iterator[T]:
        part = self._range()
        at = part.start
        while at < part.stop:
            first = at - at % _BLOCK
            block = self._blocks.read(at // _BLOCK)[at - first : part.stop - first]
            yield from block
            at += len(block)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        place = self._range()[at]
        if isinstance(place, int):
            return self._item(place)
        if place.step != 1:
            return [self._item(number) for number in place]
        part: DiskList[T] = DiskList.__new__(DiskList)
        part._blocks, part._part = self._blocks, place
        return part

    def _item(self, place: int) -> T:
        item: T = self._blocks.read(place // _BLOCK)[place % _BLOCK]
        return item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DiskList({list(self)!r})"


def repeated(texts: Iterable[str]) -> set[int]:
    """The hashes of texts that are there more than once, and may be those of others: 8 bytes are held for each text."""
    hashes = np.sort(np.array(array("q", map(hash, texts)), np.int64))
    return set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
