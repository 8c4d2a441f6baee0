"""Guidance and the sampler's step in one pass on the GPU: `counterfactory.kernels.guided_step`, bit for bit.

As separate tensor operations a guided UniPC step is eighteen passes over arrays of the latents' size; here it is one,
for rows at any steps. Products and sums are rounded apart from each other (no fused multiply-add), in the reference's
order, so that the GPU's latents are to be the CPU's. Compiled, not run on a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..guided_step import COLUMNS, COUNTS, HISTORY
from .launch import check_device, launch


@triton.jit
def guided_step_kernel(
    weights, counts, latents, conditional, unconditional, history, stepped, kept, rows, size, block: tl.constexpr
):
    """A block of one row's `size` elements; weights [rows, 10] and counts [rows, 3] as in `StepTable`, history and
    kept [3, rows, size], the others [rows, size].
    """
    row = tl.program_id(0)
    within = tl.program_id(1) * block + tl.arange(0, block)
    inside = within < size
    at = row * size + within
    plane = rows * size
    weight = weights + row * 10
    # Spread over the block: the interpreter of Triton 3.9 refuses masks that were made of a scalar.
    spread = tl.zeros([block], tl.int32)
    guided = spread + tl.load(counts + row * 3) > 0
    corrected = spread + tl.load(counts + row * 3 + 1)
    advanced = spread + tl.load(counts + row * 3 + 2)

    output = tl.load(conditional + at, mask=inside)
    without = tl.load(unconditional + at, mask=inside & guided, other=0.0)
    output = tl.where(guided, without + tl.load(weight) * (output - without), output)

    start = tl.load(latents + at, mask=inside)
    clean = tl.load(weight + 1) * start + tl.load(weight + 2) * output

    # A row's first steps find anything in its history: sums without a use for it are chosen, not weighed with 0,
    # since 0 times whatever lies there may be NaN.
    last = tl.load(history + at, mask=inside & (corrected > 0), other=0.0)
    earlier = tl.load(history + plane + at, mask=inside, other=0.0)
    earliest = tl.load(history + 2 * plane + at, mask=inside & (corrected > 3), other=0.0)
    total = tl.load(weight + 3) * last + tl.load(weight + 4) * clean
    total = total + tl.load(weight + 5) * earlier
    total = tl.where(corrected > 3, total + tl.load(weight + 6) * earliest, total)
    start = tl.where(corrected > 0, total, start)

    total = tl.load(weight + 7) * start + tl.load(weight + 8) * clean
    total = tl.where(advanced > 2, total + tl.load(weight + 9) * earlier, total)
    tl.store(stepped + at, total, mask=inside)
    tl.store(kept + at, start, mask=inside)
    tl.store(kept + plane + at, clean, mask=inside)
    tl.store(kept + 2 * plane + at, earlier, mask=inside)


def guided_step(
    weights: torch.Tensor,
    counts: torch.Tensor,
    latents: torch.Tensor,
    conditional: torch.Tensor,
    unconditional: torch.Tensor,
    history: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch's step: new latents float32 [R, ...] and new history [3, R, ...].

    `weights` float32 [R, 10] and `counts` int32 [R, 3] are a `StepTable`; the others are as in the reference.
    Nothing is changed in place. Raises ValueError for other shapes or dtypes, and for tensors that are not on one GPU.
    """
    rows, shape = len(weights), tuple(latents.shape[1:])
    expected = {
        "weights": (weights, torch.float32, (rows, COLUMNS)),
        "counts": (counts, torch.int32, (rows, COUNTS)),
        "latents": (latents, torch.float32, (rows, *shape)),
        "conditional": (conditional, torch.float32, (rows, *shape)),
        "unconditional": (unconditional, torch.float32, (rows, *shape)),
        "history": (history, torch.float32, (HISTORY, rows, *shape)),
    }
    for name, (tensor, dtype, wanted) in expected.items():
        if tensor.dtype != dtype or tuple(tensor.shape) != wanted:
            raise ValueError(
                f"guided step {name} must be {dtype} {list(wanted)}, got {tensor.dtype} {list(tensor.shape)}"
            )
    given = [tensor.contiguous() for tensor, _, _ in expected.values()]
    check_device("the guided step", *given)
    stepped, kept = torch.empty_like(given[2]), torch.empty_like(given[5])
    size = given[2][0].numel() if rows else 0
    if size == 0:
        return stepped, kept
    launch(guided_step_kernel, size, *given, stepped, kept, rows, size, rows=rows)
    return stepped, kept
