"""Packed token masks: which tokens a grammar allows, a bit each, and what is left of the logits under them.

Bit i % 32 of word i // 32 stands for token i, the lowest first, as llguidance and xgrammar write their masks. A
model's logits are often padded beyond its tokenizer: what lies beyond the mask's last bit is forbidden.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WORD = 32  # tokens a word
NOTHING = -1  # what is chosen where no allowed token has a finite logit


def pack(allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Bits of bool [B, V] as int32 [B, ceil(V / 32)]."""
    rows, tokens = allowed.shape
    padded = np.zeros((rows, -(-tokens // WORD) * WORD), np.bool_)
    padded[:, :tokens] = allowed
    packed: NDArray[np.int32] = np.packbits(padded, axis=1, bitorder="little").view("<i4").astype(np.int32)
    return packed


def unpack(bits: NDArray[np.int32], tokens: int) -> NDArray[np.bool_]:
    """bool [B, `tokens`] of int32 [B, W]: False beyond the last word."""
    words = np.ascontiguousarray(bits.astype("<i4"))
    flags = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(np.bool_)
    allowed = np.zeros((len(bits), tokens), np.bool_)
    kept = min(tokens, flags.shape[1])
    allowed[:, :kept] = flags[:, :kept]
    return allowed


def mask_logits(logits: NDArray[np.floating], bits: NDArray[np.int32]) -> NDArray[np.floating]:
    """Logits [B, V] of the same dtype, -inf where `bits` int32 [B, W] forbid the token."""
    check_mask(logits.dtype.kind == "f", logits.shape, bits.dtype == np.int32, bits.shape)
    allowed = unpack(bits, logits.shape[1])
    return np.where(allowed, logits, np.array(-np.inf, logits.dtype))


def choose(logits: NDArray[np.floating], bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """The allowed token of the largest logit, the first among equals: int32 [B].

    -1 where no token is allowed, or only such with a logit of -inf or NaN.
    """
    masked = mask_logits(logits, bits)
    possible = masked > -np.inf  # no comparison holds for NaN
    best = np.where(possible, masked, -np.inf).argmax(axis=1)
    return np.where(possible.any(axis=1), best, NOTHING).astype(np.int32)


def check_mask(floating: bool, logits: tuple[int, ...], whole: bool, bits: tuple[int, ...]) -> None:
    """Raise ValueError unless logits are floats [B, V] and bits int32 [B, W] of as many rows."""
    if not floating or not whole or len(logits) != 2 or len(bits) != 2 or logits[0] != bits[0]:
        raise ValueError(
            f"a token mask needs float logits [B, V] and int32 bits [B, W] of as many rows, "
            f"got {list(logits)} and {list(bits)}"
        )
