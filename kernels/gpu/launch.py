"""What every launcher shares: where arrays may lie, the grid over flat arrays, and how a kernel is started.

Kernels index flat arrays with int32, which is faster than int64 and enough: launchers refuse larger arrays. Products
and sums are never fused: they round as NumPy and OpenCV round them. Compiled, not run on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024  # elements a program, eight a thread of four warps: loads of 16 bytes
NEAR = 256  # where each element looks at its neighbours: with 1024, their addresses and values spill from registers
_MOST = 2**31 - BLOCK  # so that the last program's offsets still fit int32


@triton.jit
def around(plane, at, x, y, height, width, channels: tl.constexpr, inside):
    """The eight neighbours of the pixels `at` (x, y) in one of `channels` interleaved planes: nw, n, ne, w, e, sw, s,
    se; 8-bit levels as int32. Beyond the border its pixels go on.
    """
    corner = at - y * width - x
    north = corner + tl.maximum(y - 1, 0) * width
    here = corner + y * width
    south = corner + tl.minimum(y + 1, height - 1) * width
    west = tl.maximum(x - 1, 0)
    east = tl.minimum(x + 1, width - 1)
    return (
        _level(plane + (north + west) * channels, inside),
        _level(plane + (north + x) * channels, inside),
        _level(plane + (north + east) * channels, inside),
        _level(plane + (here + west) * channels, inside),
        _level(plane + (here + east) * channels, inside),
        _level(plane + (south + west) * channels, inside),
        _level(plane + (south + x) * channels, inside),
        _level(plane + (south + east) * channels, inside),
    )


@triton.jit
def _level(place, inside):
    level = tl.load(place, mask=inside, other=0)
    return level.to(tl.int32) if level.dtype == tl.uint8 else level


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
