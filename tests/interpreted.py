"""Runs Triton kernels under Triton's interpreter, on host memory at given addresses; the kernels themselves stay what
is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language as tl
from triton.runtime.interpreter import GridExecutor, InterpretedFunction

_TYPES = {"*fp32": "float32", "*i32": "int32", "*i64": "int64", "*u8": "uint8"}


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
