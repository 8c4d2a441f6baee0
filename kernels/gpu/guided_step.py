"""Guidance and the sampler's step in one pass on the GPU: `counterfactory.kernels.guided_step`, bit for bit.

As separate tensor operations a guided UniPC step is eighteen passes over arrays of the latents' size; here it is one,
for rows at any steps, in place. Products and sums are rounded apart from each other (no fused multiply-add), in the
reference's order, so that the GPU's latents are the CPU's: on one H100 they were (docs/gpu.json).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def guided_step_kernel(weights, counts, addresses, size, block: tl.constexpr):
    """A block of one row's `size` elements; weights [rows, 10] and counts [rows, 3] as in `StepTable`.

    `addresses` int64 [rows, 3] of float32 arrays: [4, size], the latents and the three arrays of their history, which
    the step writes again; then the outputs [size] with and, where the row is guided, without the text.
    """
    row = tl.program_id(0)
    within = tl.program_id(1) * block + tl.arange(0, block)
    inside = within < size
    weight = weights + row * 10
    address = addresses + row * 3
    latents = tl.load(address).to(tl.pointer_type(tl.float32)) + within
    conditional = tl.load(address + 1).to(tl.pointer_type(tl.float32)) + within
    unconditional = tl.load(address + 2).to(tl.pointer_type(tl.float32)) + within
    # Spread over the block: the interpreter refuses masks that were made of a scalar.
    spread = within * 0
    guided = spread + tl.load(counts + row * 3) > 0
    corrected = spread + tl.load(counts + row * 3 + 1)
    advanced = spread + tl.load(counts + row * 3 + 2)

    output = tl.load(conditional, mask=inside)
    without = tl.load(unconditional, mask=inside & guided, other=0.0)
    output = tl.where(guided, without + tl.load(weight) * (output - without), output)

    start = tl.load(latents, mask=inside)
    clean = tl.load(weight + 1) * start + tl.load(weight + 2) * output

    # A row's first steps find anything in its history: sums without a use for it are chosen, not weighed with 0,
    # since 0 times whatever lies there may be NaN.
    last = tl.load(latents + size, mask=inside & (corrected > 0), other=0.0)
    earlier = tl.load(latents + 2 * size, mask=inside, other=0.0)
    earliest = tl.load(latents + 3 * size, mask=inside & (corrected > 3), other=0.0)
    total = tl.load(weight + 3) * last + tl.load(weight + 4) * clean
    total = total + tl.load(weight + 5) * earlier
    total = tl.where(corrected > 3, total + tl.load(weight + 6) * earliest, total)
    start = tl.where(corrected > 0, total, start)

    total = tl.load(weight + 7) * start + tl.load(weight + 8) * clean
    total = tl.where(advanced > 2, total + tl.load(weight + 9) * earlier, total)
    tl.store(latents, total, mask=inside)
    tl.store(latents + size, start, mask=inside)
    tl.store(latents + 2 * size, clean, mask=inside)
    tl.store(latents + 3 * size, earlier, mask=inside)
