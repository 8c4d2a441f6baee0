"""The loss of a Llama that learns to answer: on answers alone, what all prompts begin with computed once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import LlamaForCausalLM


def encode_answers(tokenizer: Tokenizer, asked: Sequence[tuple[str, str]], end: int) -> tuple[Tensor, Tensor, Tensor]:
    """(Prompt, answer) pairs, of one question best, as (head int64 [P], rows int64 [B, L], labels int64 [B, L]).

    `head` is what all prompts begin with; labels are -100 outside of the answers and their `end`.
    """
    prompts = [tokenizer.encode(prompt, add_special_tokens=False).ids for prompt, _ in asked]
    answers = [[*tokenizer.encode(answer, add_special_tokens=False).ids, end] for _, answer in asked]
    shared = 0
    while all(len(p) > shared + 1 and p[shared] == prompts[0][shared] for p in prompts):
        shared += 1
    length = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True)) - shared
    rows = torch.full((len(asked), length), end)
    labels = torch.full((len(asked), length), -100)
    for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        tail = [*prompt[shared:], *answer]
        rows[i, : len(tail)] = torch.tensor(tail)
        labels[i, len(tail) - len(answer) : len(tail)] = torch.tensor(answer)
    return torch.tensor(prompts[0][:shared]), rows, labels


def answer_loss(model: LlamaForCausalLM, head: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """Summed cross-entropy of the answers of `encode_answers`' rows, with `head` computed once for all of them."""
    past = model.model(head[None], use_cache=True).past_key_values
    past.batch_repeat_interleave(len(rows))
    hidden = model.model(rows, past_key_values=past, use_cache=True).last_hidden_state
    wanted = labels[:, 1:]
    asked = wanted >= 0
    logits = model.lm_head(hidden[:, :-1][asked])
    return F.cross_entropy(logits.float(), wanted[asked], reduction="sum")
