"""Starts a small Llama with the skill of looking words up, which all three questions of rewriting rest on.

An answer mostly repeats words of its prompt. What finds them is the induction circuit (Olsson et al. 2022, "In-context
learning and induction heads"): a head of the first layer notes at each token which token came before it, and a head of
the second looks for the place whose note is the token at hand, and says what stands there. Training from random
weights finds it late, after everything else that the pocket model learns, so it is written into the initial weights:
one pair of heads by the last token, one by the last two. Training goes on from there and may change it.

The width is shared out among orthogonal directions: one constant that all embeddings carry, two notes (the token
before, the one before that), and the rest for the embeddings. Distances are told by the fast rotations of the position
encoding; contents are compared in the slow ones, which hardly turn within a prompt.
"""

from __future__ import annotations

import math

import torch
from transformers import LlamaForCausalLM

_NOTE = 32  # width of a note
_FAST = 8  # rotations that tell distances
_SPREAD = 0.05  # standard deviation of an embedding's coordinates
_SHARPNESS = 5.7  # of the heads that look back: how much they prefer the right distance
_NOTING, _SAYING = 0.1, 0.3  # how loudly notes and findings are written
_LIKENESS = 2.5  # how much heads that look up prefer a match: copies of 200 random tokens come out 9 in 10 right


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Orthonormal columns, float32 [rows, columns]."""
    return torch.linalg.qr(torch.randn(rows, columns, generator=generator))[0]


def _looks_back(head: int, rate: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Query and key, float32 [head] each, whose product peaks where the key lies `steps` tokens before the query."""
    query, key = torch.zeros(head), torch.zeros(head)
    for i in range(_FAST):
        query[i] = 1
        key[i], key[i + head // 2] = math.cos(rate[i] * steps), math.sin(rate[i] * steps)
    return query, key


def start_with_lookup(model: LlamaForCausalLM, theta: float, seed: int) -> None:
    """Write the circuit into the first two layers of a freshly built model, in place.

    The model needs tied embeddings, at least two layers of at least two heads, heads of 64, and a width above 128;
    `theta` is the base of its rotations.
    """
    generator = torch.Generator().manual_seed(seed)
    width = model.config.hidden_size
    head = width // model.config.num_attention_heads
    if head != 64 or width <= 2 * head:
        raise ValueError(f"the circuit is laid out for heads of 64 in a width above 128, got {head} in {width}")
    axes = _orthogonal(width, width, generator)
    constant, note, second_note, words = torch.split(axes, [1, _NOTE, _NOTE, width - 1 - 2 * _NOTE], dim=1)
    summary = (words @ _orthogonal(words.shape[1], _NOTE, generator)).T  # [note, width]: an embedding in short
    rate = theta ** (-torch.arange(head // 2) / (head // 2))
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn

    with torch.no_grad():
        embedding = model.model.embed_tokens.weight
        drawn = torch.randn(embedding.shape[0], words.shape[1], generator=generator) * _SPREAD
        embedding.copy_(drawn @ words.T + constant.T * (_SPREAD * math.sqrt(words.shape[1])))
        for number, written in enumerate((note, second_note)):
            rows = slice(number * head, (number + 1) * head)
            query, key = _looks_back(head, rate, number + 1)
            scale = _SHARPNESS * math.sqrt(head / width / _FAST)
            first.q_proj.weight[rows] = scale * torch.outer(query, constant[:, 0])
            first.k_proj.weight[rows] = scale * torch.outer(key, constant[:, 0])
            first.v_proj.weight[rows][:_NOTE] = summary
            first.o_proj.weight[:, rows][:, :_NOTE] = _NOTING * written

        # Coordinates of a head that turn slowly: pairs (i, i + head / 2), the slowest last.
        slow = [axis for i in range(head // 4, head // 2) for axis in (i, i + head // 2)]
        before, before_that = note.T, second_note.T  # read a note: [note, width]
        half = _orthogonal(_NOTE, _NOTE, generator)[: _NOTE // 2]
        by_last = summary, before
        by_last_two = torch.cat([half @ summary, half @ before]), torch.cat([half @ before, half @ before_that])
        for number, (asks, offers) in enumerate((by_last, by_last_two)):
            rows = slice(number * head, (number + 1) * head)
            asked, offered = torch.zeros(head, width), torch.zeros(head, width)
            asked[slow], offered[slow] = _LIKENESS * asks, _LIKENESS * offers
            second.q_proj.weight[rows], second.k_proj.weight[rows] = asked, offered
            said = (words @ _orthogonal(words.shape[1], head, generator)).T
            second.v_proj.weight[rows] = said
            second.o_proj.weight[:, rows] = _SAYING * said.T
