"""Connected pieces of marked pixels on the GPU: hysteresis and the removal of specks, in one labelling.

A mark is 0 for ground, 1 for a weak and 2 for a strong pixel. Pieces are 8-connected; a piece stays if it has a
strong pixel and enough pixels. That is Canny's hysteresis, without a loop on the host that asks the GPU after each
pass whether anything changed.

Labels are a forest: every pixel points to a pixel of its piece with a smaller or equal index, roots to themselves.
Joining two trees by `atomic_min` at the larger root is lock-free (Playne & Hawick 2018, "A New Algorithm for Parallel
Connected-Component Labelling on GPUs"). Compiled, not run on a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .launch import NEAR, check_device, launch


@triton.jit
def _join(roots, a, b, active):
    """Make each pair's trees one; pairs that are not `active` are left alone."""
    while tl.max(active.to(tl.int32), axis=0) > 0:
        # What is read may be stale: then it is an ancestor still, and the atomic's answer tells the truth.
        above_a = tl.load(roots + a, mask=active, other=0, volatile=True)
        above_b = tl.load(roots + b, mask=active, other=0, volatile=True)
        both_roots = active & (above_a == a) & (above_b == b)
        high = tl.maximum(above_a, above_b)
        low = tl.minimum(above_a, above_b)
        found = tl.atomic_min(roots + high, low, mask=both_roots & (high != low), sem="relaxed")
        joined = both_roots & ((high == low) | (found == high))
        # Another pair gave `high` a parent first: that parent and `low` are what remains to be joined.
        late = both_roots & (joined == 0)
        a = tl.where(late, found, above_a)
        b = tl.where(late, low, above_b)
        active = active & (joined == 0)


@triton.jit
def link_kernel(marks, roots, count, height, width, block: tl.constexpr):
    """Join every marked pixel with its marked neighbours to the west, north-west, north and north-east."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    x = at % width
    y = at // width % height
    marked = tl.load(marks + at, mask=inside, other=0) > 0
    for k in tl.static_range(4):
        step_x = k - 2 if k > 0 else -1
        step_y = -1 if k > 0 else 0
        other = at + step_y * width + step_x
        there = marked & (x + step_x >= 0) & (x + step_x < width) & (y + step_y >= 0)
        beside = tl.load(marks + other, mask=there, other=0) > 0
        _join(roots, at, other, there & beside)


@triton.jit
def tally_kernel(marks, roots, sizes, strong, count, block: tl.constexpr):
    """Point every marked pixel at its root, and count there the piece's pixels and its strong ones."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    mark = tl.load(marks + at, mask=at < count, other=0)
    marked = mark > 0
    root = at
    above = tl.load(roots + root, mask=marked, other=0)
    climbing = marked & (above != root)
    while tl.max(climbing.to(tl.int32), axis=0) > 0:
        root = tl.where(climbing, above, root)
        above = tl.load(roots + root, mask=climbing, other=0)
        climbing = climbing & (above != root)
    tl.store(roots + at, root, mask=marked)
    one = tl.full([block], 1, tl.int32)
    tl.atomic_add(sizes + root, one, mask=marked, sem="relaxed")
    tl.atomic_add(strong + root, one, mask=mark > 1, sem="relaxed")


@triton.jit
def keep_kernel(marks, roots, sizes, strong, edges, count, least, block: tl.constexpr):
    """255 where a pixel's piece stays, else 0."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    marked = tl.load(marks + at, mask=inside, other=0) > 0
    root = tl.load(roots + at, mask=marked, other=0)
    kept = (tl.load(strong + root, mask=marked, other=0) > 0) & (tl.load(sizes + root, mask=marked, other=0) >= least)
    tl.store(edges + at, tl.where(marked & kept, 255, 0).to(tl.uint8), mask=inside)


def keep_pieces(marks: torch.Tensor, min_pixels: int = 0) -> torch.Tensor:
    """Edge maps uint8 [B, H, W], 0 or 255, of marks uint8 [B, H, W]: 8-connected pieces of marked pixels stay if one
    of them is strong and they are at least `min_pixels`. Pieces never reach from one picture into the next.

    Raises ValueError for another dtype or shape, or a tensor that is not on a GPU.
    """
    if marks.dtype != torch.uint8 or marks.ndim != 3:
        raise ValueError(f"marks must be uint8 [B, H, W], got {marks.dtype} {list(marks.shape)}")
    check_device("the removal of weak pieces", marks)
    marks = marks.contiguous()
    count, (_, height, width) = marks.numel(), marks.shape
    edges = torch.empty_like(marks)
    if count == 0:
        return edges
    roots = torch.arange(count, dtype=torch.int32, device=marks.device)
    sizes, strong = torch.zeros_like(roots), torch.zeros_like(roots)
    launch(link_kernel, count, marks, roots, count, height, width, block=NEAR)
    launch(tally_kernel, count, marks, roots, sizes, strong, count, block=NEAR)
    launch(keep_kernel, count, marks, roots, sizes, strong, edges, count, min_pixels)
    return edges
