"""Packed token masks on the GPU: `counterfactory.kernels.token_mask`, bit for bit.

The mask crosses to the GPU as bits, a 32nd of the logits' count. Greedy decoding needs one token and not the masked
logits, so `choose` reads logits and bits once and writes one number a row. Compiled, not run on a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..token_mask import check_mask
from .launch import check_device, launch


@triton.jit
def _allowed(bits, row, token, inside, words):
    """Whether the mask has a bit for each token, and that bit set."""
    word = tl.load(bits + row * words + token // 32, mask=inside & (token // 32 < words), other=0)
    return ((word >> (token % 32)) & 1) > 0


@triton.jit
def mask_kernel(logits, bits, masked, tokens, words, block: tl.constexpr):
    """A block of one row's logits, -inf where they are forbidden."""
    row = tl.program_id(0)
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < tokens
    logit = tl.load(logits + row * tokens + token, mask=inside)
    kept = tl.where(_allowed(bits, row, token, inside, words), logit, float("-inf"))
    tl.store(masked + row * tokens + token, kept, mask=inside)


@triton.jit
def choose_kernel(logits, bits, chosen, tokens, words, block: tl.constexpr):
    """One row: the first allowed token of the largest logit, -1 without one.

    Each lane keeps the best of its own tokens; the lanes are compared once, at the end.
    """
    row = tl.program_id(0)
    lane = tl.arange(0, block)
    best = tl.full([block], float("-inf"), tl.float32)
    best_at = tl.full([block], 2147483647, tl.int32)
    for start in range(0, tokens, block):
        token = start + lane
        inside = token < tokens
        logit = tl.load(logits + row * tokens + token, mask=inside, other=float("-inf")).to(tl.float32)
        better = _allowed(bits, row, token, inside, words) & (logit > best)
        best = tl.where(better, logit, best)
        best_at = tl.where(better, token, best_at)
    first = tl.min(tl.where(best == tl.max(best, axis=0), best_at, 2147483647), axis=0)
    tl.store(chosen + row, tl.where(first == 2147483647, -1, first))


def mask_logits(logits: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Logits [B, V] of the same dtype, -inf where `bits` int32 [B, W] forbid the token. Raises ValueError for other
    shapes or dtypes, and for tensors that are not on one GPU.
    """
    _check(logits, bits)
    masked = torch.empty_like(logits, memory_format=torch.contiguous_format)
    rows, tokens = logits.shape
    if masked.numel():
        arguments = logits.contiguous(), bits.contiguous(), masked, tokens, bits.shape[1]
        launch(mask_kernel, tokens, *arguments, rows=rows)
    return masked


def choose(logits: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """The allowed token of the largest logit, the first among equals: int32 [B]; -1 where no token is allowed, or
    only such with a logit of -inf or NaN. Raises ValueError as `mask_logits`.
    """
    _check(logits, bits)
    rows, tokens = logits.shape
    chosen = torch.empty(rows, dtype=torch.int32, device=logits.device)
    if rows:
        arguments = logits.contiguous(), bits.contiguous(), chosen, tokens, bits.shape[1]
        launch(choose_kernel, 1, *arguments, rows=rows)
    return chosen


def _check(logits: torch.Tensor, bits: torch.Tensor) -> None:
    whole = bits.dtype == torch.int32
    check_mask(logits.is_floating_point(), tuple(logits.shape), whole, tuple(bits.shape))
    check_device("a token mask", logits, bits)
