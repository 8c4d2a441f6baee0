"""The denoiser whose rows may look through other rows' eyes: prompt-to-prompt inside of one graph.

Hertz et al. 2022 (arXiv 2208.01626) edit a picture by its caption: the edited caption's row is denoised beside the
source's, takes over where its words were looked at, and for a while also what in the picture belonged together. There
it is a program around the network, which stops at every layer. Here all of it is tensor inputs of a step: rows name the
row that they follow, and a batch may hold rows of many pictures, some of which follow nobody.

    replacement    probabilities of the source's tokens, sent to the edited caption's by `cross_map`
    refinement     the same for tokens that both captions have; others keep their own by `cross_own`
    re-weighting   both of them multiplied, token by token
    self-attention queries and keys of the row named in `self_rows`, which is the row itself where nothing is taken over

A row that follows nobody names itself, with a map of zeros and ones in `cross_own`: that is the plain denoiser. Where
self-attention is taken over, the probabilities are those of the source's queries and keys, so that they need not be
written down, and a fused attention kernel serves as well as before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from diffusers.models.attention_processor import Attention
from torch import Tensor, nn
from torch.nn import functional as F

from .modules import Control, added_to_blocks

# How often latents were halved, from which on self-attention is taken over, and at which words' attention is shown: of
# 64 x 64 latents 32 x 32 and smaller ones, and 16 x 16, as in the authors' code.
_TAKEN_FROM, _SHOWN_AT = 1, 2
# Parts of other kinds of attention.
_FOREIGN = ("group_norm", "spatial_norm", "norm_q", "norm_k", "norm_cross")


@dataclass
class _Following:
    """What the attention layers of one call read, and the maps of `words` that they leave, [B, positions] each."""

    source_rows: Tensor
    self_rows: Tensor
    cross_map: Tensor
    cross_own: Tensor
    words: Tensor
    shown: list[Tensor] = field(default_factory=list)


class _FollowingProcessor:
    """One attention layer, at latents that were halved `level` times."""

    def __init__(self, takes_over: bool, shows: bool) -> None:
        self.takes_over, self.shows = takes_over, shows

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
        *,
        following: _Following,
    ) -> Tensor:
        text = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        parts = (attn.to_q(hidden_states), attn.to_k(text), attn.to_v(text))
        query, key, value = (part.unflatten(-1, (attn.heads, -1)).transpose(1, 2) for part in parts)
        if encoder_hidden_states is None:
            if self.takes_over:
                query, key = (part.index_select(0, following.self_rows) for part in (query, key))
            attended = F.scaled_dot_product_attention(query, key, value, scale=attn.scale)
        else:
            own = (query @ key.transpose(-1, -2) * attn.scale).softmax(-1)
            source = own.index_select(0, following.source_rows)
            edited = source @ following.cross_map[:, None] + own * following.cross_own[:, None, None]
            if self.shows:
                following.shown.append((edited.mean(1) @ following.words[..., None])[..., 0])
            attended = edited @ value
        merged: Tensor = attn.to_out[0](attended.transpose(1, 2).flatten(2))
        return merged


class EditingDenoiser(nn.Module):
    """A UNet, with ControlNets or without, whose rows may follow others.

    latents [B, C, h, w], timestep [B], text [B, T, D]; source_rows and self_rows int64 [B], the rows whose
    cross-attention and whose self-attention each row takes; cross_map [B, T, T] from the source's tokens to the row's,
    cross_own [B, T], what the row's tokens keep of their own; words [B, T], the weights of the tokens that are shown;
    and with ControlNets FusedDenoiser's hint_embedding and control_scale, whose attention stays each row's own.

    To the prediction [B, C, h, w], and the words' attention [B, h/4, w/4], the mean over heads and over the layers of
    that size. Takes the UNet over: its attention layers are set up anew. Raises ValueError for a UNet whose attention
    is of another kind than Stable Diffusion's.
    """

    def __init__(self, unet: UNet2DConditionModel, *controlnets: ControlNetModel) -> None:
        super().__init__()
        self.unet, self.control = unet, Control(*controlnets) if controlnets else None
        last = len(unet.config.block_out_channels) - 1
        self.shown_at = min(_SHOWN_AT, last)
        levels = {name: _level(name, last) for name in unet.attn_processors}
        for name, layer in unet.named_modules():
            if isinstance(layer, Attention):
                odd = [part for part in _FOREIGN if getattr(layer, part)]
                if odd or layer.residual_connection or layer.rescale_output_factor != 1:
                    what = ", ".join(odd) or "a residual"
                    raise ValueError(f"attention layer {name} is not Stable Diffusion's: it has {what}")
        unet.set_attn_processor(
            {name: _FollowingProcessor(level >= _TAKEN_FROM, level == self.shown_at) for name, level in levels.items()}
        )
        if not any(level == self.shown_at and ".attn2." in name for name, level in levels.items()):
            raise ValueError(f"the UNet reads no text where latents were halved {self.shown_at} times")

    def forward(
        self,
        latents: Tensor,
        timestep: Tensor,
        text: Tensor,
        source_rows: Tensor,
        self_rows: Tensor,
        cross_map: Tensor,
        cross_own: Tensor,
        words: Tensor,
        hint_embedding: Tensor | None = None,
        control_scale: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        following = _Following(source_rows, self_rows, cross_map, cross_own, words)
        residuals: list[Tensor] | None = None
        if self.control is not None:
            residuals = self.control(latents, timestep, text, hint_embedding, control_scale)
        added = {} if residuals is None else added_to_blocks(residuals)
        how = {"cross_attention_kwargs": {"following": following}, "return_dict": False}
        predicted = self.unet(latents, timestep, text, **added, **how)[0]
        shown = torch.stack(following.shown).mean(0)
        height, width = (side // 2**self.shown_at for side in latents.shape[2:])
        return predicted, shown.reshape(shown.shape[0], height, width)


def follow_inputs(rows: int, tokens: int) -> dict[str, Tensor]:
    """Inputs of rows that follow the first of them, by name and in order: one of them its self-attention too."""
    drawn = torch.Generator().manual_seed(rows)
    cross_map = torch.rand((rows, tokens, tokens), generator=drawn) / tokens
    own, words = (torch.rand((rows, tokens), generator=drawn) for _ in range(2))
    self_rows = torch.arange(rows) * (torch.arange(rows) != 1)
    followed = {"source_rows": torch.zeros(rows, dtype=torch.int64), "self_rows": self_rows}
    return {**followed, "cross_map": cross_map, "cross_own": own, "words": words}


def _level(name: str, last: int) -> int:
    """How often latents were halved before the layer of that name."""
    found = re.match(r"(down_blocks|up_blocks)\.(\d+)\.", name)
    if found is None:
        return last
    return int(found[2]) if found[1] == "down_blocks" else last - int(found[2])
