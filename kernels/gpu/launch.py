"""What every launcher shares: where arrays may lie, the grid over flat arrays, and how a kernel is started.

Kernels index flat arrays with int32, which is faster than int64 and enough: launchers refuse larger arrays. Products
and sums are never fused: they round as NumPy and OpenCV round them. Compiled, not run on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

BLOCK = 1024  # elements a program, eight a thread of four warps: loads of 16 bytes
NEAR = 256  # where each element looks at its neighbours: with 1024, their addresses and values spill from registers
_MOST = 2**31 - BLOCK  # so that the last program's offsets still fit int32


def check_device(asked: str, *tensors: torch.Tensor) -> None:
    """Raise ValueError unless all tensors lie on one GPU (or one CPU, under Triton's interpreter) and are not too
    large; there is no falling back to the CPU.
    """
    devices = {str(tensor.device) for tensor in tensors}
    on_gpu = all(tensor.is_cuda for tensor in tensors) or triton.knobs.runtime.interpret
    if len(devices) > 1 or not on_gpu:
        raise ValueError(
            f"{asked} takes tensors on one CUDA device, got {', '.join(sorted(devices))}; "
            "move them there, or use counterfactory.kernels on arrays"
        )
    largest = max(tensor.numel() for tensor in tensors)
    if largest > _MOST:
        raise ValueError(f"{asked} takes arrays of at most {_MOST} elements, got {largest}; split the batch")


def launch(
    kernel: Any, elements: int, *arguments: Any, rows: int | None = None, block: int = BLOCK, **constants: Any
) -> None:
    """Start programs of `block` elements that cover `elements`, of each of `rows` if there are any, on the device of
    the first argument.
    """
    programs = -(-elements // block)
    with torch.cuda.device_of(arguments[0]):
        kernel[(programs,) if rows is None else (rows, programs)](
            *arguments, block=block, enable_fp_fusion=False, **constants
        )
