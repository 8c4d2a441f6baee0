"""Florence-2 as graphs (Xiao et al. 2023, arXiv 2311.06242): what sees and reads the task, and what writes.

Its decoder does not begin with the picture as BLIP-2's does: it attends to it at every step. What it attends to, keys
and values of each layer, depends on the picture alone, so that the first graph gives them and every step takes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Florence2ForConditionalGeneration

from .modules import join_added, read_cache

# BART's table of positions starts at 2.
_FIRST_POSITION = 2


class Florence2Vision(nn.Module):
    """pixel_values [B, 3, S, S] to query_embeds [B, 2 L, heads, T, D/heads]: keys and values, by turns, that the L
    layers of the decoder attend to, over the T tokens of the picture and of `task`, which says what to write.
    """

    def __init__(self, florence2: Florence2ForConditionalGeneration, task: Sequence[int]) -> None:
        super().__init__()
        model = florence2.model
        self.tower, self.projector = model.vision_tower, model.multi_modal_projector
        self.encoder, self.layers = model.language_model.encoder, model.language_model.decoder.layers
        self.heads = model.language_model.config.decoder_attention_heads
        self.task: Tensor
        self.register_buffer("task", torch.tensor(list(task)))

    def forward(self, pixel_values: Tensor) -> Tensor:
        seen = self.projector(self.tower(pixel_values).last_hidden_state)
        asked = self.encoder.embed_tokens(self.task).expand(seen.shape[0], -1, -1)
        states = self.encoder(inputs_embeds=torch.cat([seen, asked], 1)).last_hidden_state
        projections = (of for layer in self.layers for of in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj))
        attended = [project(states).unflatten(2, (self.heads, -1)).transpose(1, 2) for project in projections]
        return torch.stack(attended, 1)


class CachedFlorence2Decoder(nn.Module):
    """Florence-2's decoder over a cache that is only ever added to, as CachedOptDecoder's.

    Its inputs and outputs are those of CachedOptDecoder, with query_embeds [B, 2 L, heads, T, D/heads] behind the
    cache. `tokens` is the embedding table [V, D], which is looked up outside.
    """

    def __init__(self, florence2: Florence2ForConditionalGeneration) -> None:
        super().__init__()
        decoder = florence2.model.language_model.decoder
        config = decoder.config
        if config.scale_embedding:
            raise ValueError("a Florence-2 with scaled embeddings is not supported")
        self.heads = config.decoder_attention_heads
        self.positions, self.norm, self.layers = decoder.embed_positions, decoder.layernorm_embedding, decoder.layers
        self.head = florence2.lm_head
        self.tokens: Tensor = decoder.embed_tokens.weight

    def forward(
        self,
        inputs_embeds: Tensor,
        position_ids: Tensor,
        cache_keys: Tensor,
        cache_values: Tensor,
        query_embeds: Tensor,
        cache_rows: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        cached = read_cache(cache_keys, cache_values, cache_rows)
        total = cache_keys.shape[0] + inputs_embeds.shape[1]
        states = self.norm(inputs_embeds + F.embedding(position_ids + _FIRST_POSITION, self.positions.weight))
        visible = torch.arange(total)[None, None, :] <= position_ids[:, :, None]
        bias = torch.where(visible, 0.0, -1e9)[:, None]
        added = []
        for i, layer in enumerate(self.layers):
            attention = layer.self_attn
            k, v = self._split(attention.k_proj(states)), self._split(attention.v_proj(states))
            added.append((k, v))
            before = cached(i)
            k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
            states = layer.self_attn_layer_norm(states + self._attend(attention, states, k, v, bias))
            seen = query_embeds[:, 2 * i], query_embeds[:, 2 * i + 1]
            states = layer.encoder_attn_layer_norm(states + self._attend(layer.encoder_attn, states, *seen, None))
            states = layer.final_layer_norm(states + layer.fc2(layer.activation_fn(layer.fc1(states))))
        keys, values = join_added(added)
        return self.head(states[:, -1]), keys, values

    def _split(self, states: Tensor) -> Tensor:
        """[B, S, D] to [B, heads, S, D/heads]."""
        return states.reshape(*states.shape[:2], self.heads, -1).transpose(1, 2)

    def _attend(self, attention: Any, states: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        q = self._split(attention.q_proj(states)) / math.sqrt(k.shape[-1])
        scores = q @ k.transpose(-1, -2)
        weights = (scores if bias is None else scores + bias).softmax(-1)
        merged: Tensor = attention.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return merged
