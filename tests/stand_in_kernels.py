"""CUDA's driver for tests without a GPU: kernels that were compiled for one are loaded, and launched as the interpreter
of Triton has them, on the memory and the streams of stand_in_cuda.py.

Methods are those of the module cuda.bindings.driver. A launch that would not fit the machine code is refused.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import triton.language as tl
from stand_in_cuda import Memory, Range, Work
from triton.runtime.interpreter import GridExecutor, InterpretedFunction

from counterfactory.kernels.gpu.compiled import BLOCK, VARIANTS, Variant

_SCALARS = {"i32": ctypes.c_int32}
_TYPES = {"*fp32": "float32", "*i32": "int32", "*i64": "int64", "*u8": "uint8"}


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NOT_FOUND = 500


class Driver:
    """The module cuda.bindings.driver."""

    CUresult = Result

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.modules: dict[int, bytes] = {}
        self.launched: list[tuple[str, int]] = []  # kernels and the rows that they were launched for

    def cuModuleLoadData(self, image: bytes) -> tuple[Result, int | None]:  # noqa: N802
        if not image.startswith(b"\x7fELF"):
            return Result.CUDA_ERROR_INVALID_VALUE, None
        handle = 1 + max(self.modules, default=0)
        self.modules[handle] = image
        return Result.CUDA_SUCCESS, handle

    def cuModuleGetFunction(self, hmod: int, name: bytes) -> tuple[Result, Variant | None]:  # noqa: N802
        found = [variant for variant in VARIANTS if variant.kernel.fn.__name__ == name.decode()]
        if not found or name not in self.modules[hmod]:
            return Result.CUDA_ERROR_NOT_FOUND, None
        return Result.CUDA_SUCCESS, found[0]

    def cuModuleUnload(self, hmod: int) -> tuple[Result]:  # noqa: N802
        del self.modules[hmod]
        return (Result.CUDA_SUCCESS,)

    def cuLaunchKernel(  # noqa: N802
        self,
        f: Variant,
        gridDimX: int,  # noqa: N803
        gridDimY: int,  # noqa: N803
        gridDimZ: int,  # noqa: N803
        blockDimX: int,  # noqa: N803
        blockDimY: int,  # noqa: N803
        blockDimZ: int,  # noqa: N803
        sharedMemBytes: int,  # noqa: N803
        hStream: int,  # noqa: N803
        kernelParams: tuple[tuple[int, ...], tuple[Any, ...]],  # noqa: N803
        extra: int,
    ) -> tuple[Result]:
        values, types = kernelParams
        count = len(f.types)
        wanted = [_SCALARS.get(kind, ctypes.c_void_p) for kind in f.types]
        # Triton's own launcher gives two more: memory that these kernels do not ask for.
        fits = list(types) == [*wanted, ctypes.c_void_p, ctypes.c_void_p] and not any(values[count:])
        if not fits or (blockDimX, blockDimY, blockDimZ, gridDimZ, extra) != (128, 1, 1, 1, 0) or gridDimX < 1:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        arguments, grid = values[:count], (gridDimX, gridDimY)
        reads, writes = _TOUCHED[f.name](gridDimX, arguments)
        work = Work(f"kernel {f.name}", reads, writes, lambda _: self._launch(f, grid, arguments))
        self.launched.append((f.name, gridDimX))
        return (Result.CUDA_SUCCESS if self.memory.put(hStream, work) else Result.CUDA_ERROR_INVALID_VALUE,)

    def cuGetErrorName(self, error: Result) -> tuple[Result, bytes]:  # noqa: N802
        return Result.CUDA_SUCCESS, error.name.encode()

    def cuGetErrorString(self, error: Result) -> tuple[Result, bytes]:  # noqa: N802
        return Result.CUDA_SUCCESS, b"as the stand-in has it"

    def _launch(self, variant: Variant, grid: tuple[int, int], arguments: tuple[int, ...]) -> None:
        """Device addresses are made up: the interpreter is given those of the bytes that stand for them."""
        if self.memory.virtual:
            return
        reads, writes = _TOUCHED[variant.name](grid[0], arguments)
        touched = {some.start: some.size for some in (*reads, *writes)}
        given = [
            self._at(argument, touched[argument]) if kind.startswith("*") else argument
            for kind, argument in zip(variant.types, arguments, strict=True)
        ]
        if variant.name == "guided step":
            table = self.memory.view(arguments[2], grid[0] * 24).view(np.int64).reshape(-1, 3)
            size = arguments[3] * 4
            lengths = (4 * size, size, size)
            real = np.array(
                [[self._at(int(one), n) for one, n in zip(row, lengths, strict=True)] for row in table], np.int64
            )
            given[2] = real.ctypes.data
        interpret(variant, grid, tuple(given), BLOCK)

    def _at(self, pointer: int, size: int) -> int:
        return int(self.memory.view(pointer, size).ctypes.data)


def _guided_step(rows: int, arguments: tuple[int, ...]) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    weights, counts, addresses, _ = arguments
    spans = ((weights, 40), (counts, 12), (addresses, 24))
    return tuple(Range("device", start, rows * size) for start, size in spans), ()


def _pixels(rows: int, arguments: tuple[int, ...]) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    values, levels, flags, size = arguments
    written = Range("device", levels, rows * 3 * size), Range("device", flags, rows * 4)
    return (Range("device", values, rows * 3 * size * 4),), written


# What a launch for so many rows reads and writes, but for what addresses in memory lead to.
_TOUCHED = {"guided step": _guided_step, "pixels": _pixels}


# Triton's interpreter, on host memory at given addresses; the kernels themselves stay what is compiled.


@dataclass(frozen=True)
class _Pointer:
    """What the interpreter takes for a tensor."""

    address: int
    dtype: str

    def data_ptr(self) -> int:
        return self.address


class _InPlace(GridExecutor):  # type: ignore[misc]
    """Without copies of tensors to the host: addresses are of the host."""

    def _init_args_hst(self, args_dev: Any, kwargs: Any) -> Any:
        return args_dev, kwargs

    def _restore_args_dev(self, args_dev: Any, args_hst: Any, kwargs: Any, kwargs_hst: Any) -> None:
        pass


class _Interpreted(InterpretedFunction):  # type: ignore[misc]
    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        _InPlace(self.rewrite(), self.arg_names, grid)(*args, **kwargs)


def interpret(variant: Any, grid: tuple[int, int], arguments: tuple[int, ...], block: int) -> None:
    """A launch of a variant of kernels/gpu/compiled.py: addresses and numbers as its types have them."""
    given = [
        _Pointer(argument, _TYPES[kind]) if kind.startswith("*") else argument
        for kind, argument in zip(variant.types, arguments, strict=True)
    ]
    _Interpreted(variant.kernel.fn)[grid](*given, tl.constexpr(block))
