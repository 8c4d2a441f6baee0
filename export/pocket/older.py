"""Beginning a training with the weights of older packed models, so that what both worlds share is not learned again.

A parameter of the same name is taken over as far as the two shapes overlap, counted from index 0; what is new keeps its
seeded values. Rows of token embeddings go by the token, since another world's tokenizer numbers others.
"""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import nn


@torch.no_grad()
def take_over(module: nn.Module, older: nn.Module) -> int:
    """Fill the parameters of `module` from those of `older` that have their names; how many had."""
    own, theirs = dict(module.named_parameters()), dict(older.named_parameters())
    common = [name for name in own if name in theirs and own[name].dim() == theirs[name].dim()]
    for name in common:
        shared = tuple(slice(min(pair)) for pair in zip(own[name].shape, theirs[name].shape, strict=True))
        own[name][shared] = theirs[name][shared]
    return len(common)


@torch.no_grad()
def take_over_tokens(rows: torch.Tensor, older: torch.Tensor, tokenizer: Tokenizer, numbered: Tokenizer) -> int:
    """Fill the embeddings [vocabulary, D] of `tokenizer`'s tokens from those that `numbered` has too; how many."""
    known = numbered.get_vocab()
    pairs = [(own, known[token]) for token, own in sorted(tokenizer.get_vocab().items()) if token in known]
    own, theirs = torch.tensor(pairs).T
    rows[own] = older[theirs]
    return len(pairs)
