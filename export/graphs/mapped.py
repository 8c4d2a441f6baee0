"""Weights in a file instead of in memory: modules larger than the machine are built, filled, run and traced.

A module is built without memory for its parameters (`build_empty`), and `lay_out` gives each a place in a file that is
mapped: what is read of it or written to it passes through pages that the system may write back and drop at any time,
and memory holds what is computed, one weight at a time. An ONNX graph then refers to the same file, see tracing.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from accelerate import init_empty_weights
from torch import nn

from counterfactory.engine.files.writing import explain_os_errors
from counterfactory.engine.runtime.session import Array

# Parameters begin at pages, so that reading one reads nothing of its neighbours.
_ALIGNMENT = 4096
_Module = TypeVar("_Module", bound=nn.Module)


def build_empty(make: Callable[[], _Module]) -> _Module:
    """The module that `make` builds, its parameters without memory (on torch's meta device), its buffers as they are.

    `lay_out` makes it whole.
    """
    with init_empty_weights(include_buffers=False):
        module = make()
    tie = getattr(module, "tie_weights", None)
    if tie is not None:  # each parameter became another as it was registered
        tie()
    return module


def lay_out(module: _Module, file: Path | None) -> _Module:
    """Give every parameter of `module` its place in `file`, which is written anew; returns `module`.

    Parameters keep their values and give back the memory that held them; those without memory are zero. Shared ones
    stay shared. Without `file` the place is in memory. Raises CounterfactoryError where the disk has no room.
    """
    places: dict[int, tuple[int, nn.Parameter]] = {}
    end = 0
    for parameter in module.parameters():
        places[id(parameter)] = (end, parameter)
        end += -(-parameter.nbytes // _ALIGNMENT) * _ALIGNMENT
    storage = torch.zeros(end, dtype=torch.uint8).untyped_storage() if file is None else _mapped(file, end)
    laid: dict[int, nn.Parameter] = {}
    for child in module.modules():
        for name, parameter in child.named_parameters(recurse=False, remove_duplicate=False):
            key = id(parameter)
            if key not in laid:
                begin, _ = places[key]
                view = torch.empty(0, dtype=parameter.dtype)
                view.set_(storage, begin // parameter.itemsize, parameter.shape)  # type: ignore[call-overload]
                if not parameter.is_meta:
                    view.copy_(parameter.detach())
                laid[key] = nn.Parameter(view, requires_grad=False)
            setattr(child, name, laid[key])
    return module


@dataclass(frozen=True)
class MappedFile:
    """A file with weights and the addresses that it is mapped to."""

    path: Path
    begin: int
    end: int

    def holds(self, array: Array) -> bool:
        """Whether `array` is a contiguous part of the file."""
        begin = array.ctypes.data
        return array.flags.c_contiguous and self.begin <= begin and begin + array.nbytes <= self.end

    def offset(self, array: Array) -> int:
        """Where in the file `array` begins, in bytes."""
        return array.ctypes.data - self.begin


def mapped_files(module: nn.Module) -> list[MappedFile]:
    storages = {s.data_ptr(): s for s in (parameter.untyped_storage() for parameter in module.parameters())}
    named = [(begin, storage) for begin, storage in storages.items() if storage.filename]
    return [MappedFile(Path(str(storage.filename)), begin, begin + storage.nbytes()) for begin, storage in named]


def _mapped(file: Path, length: int) -> torch.UntypedStorage:
    with explain_os_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened:
            # Room is taken now: a page without room would end the process by a signal when it is written.
            os.posix_fallocate(opened.fileno(), 0, max(length, 1))
    storage = torch.UntypedStorage.from_file(str(file), True, max(length, 1))
    assert isinstance(storage, torch.UntypedStorage)
    return storage
