"""LANCE's way of editing, as a user would write it with diffusers: null-text inversion, then prompt-to-prompt by a
controller that edits attention between the layers, once for each share of the steps; CLIP picks one.

The networks are those of the engine's side, in float32. A picture is inverted once for all of its captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderTiny, UNet2DConditionModel
from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn
from transformers import CLIPModel

from counterfactory.engine.models.alignment import Alignment, align, read_tokens
from counterfactory.engine.models.inversion import step_weights
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import InvertSettings
from counterfactory.export.graphs.null_text import NullText, optimise

Pixels = NDArray[np.uint8]


class _Controller:
    """Edits the attention of rows (source, edit) without text, then (source, edit) with it."""

    def __init__(self, alignment: Alignment, fraction: float, cross_fraction: float, steps: int) -> None:
        self.cross_map, self.cross_own = (torch.from_numpy(a) for a in (alignment.cross_map, alignment.cross_own))
        self.self_until, self.cross_until = fraction * steps, cross_fraction * steps
        self.step = 0

    def __call__(
        self, attn: Attention, hidden_states: torch.Tensor, encoder_hidden_states: torch.Tensor | None = None, **_: Any
    ) -> torch.Tensor:
        text = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = (
            attn.head_to_batch_dim(part) for part in (attn.to_q(hidden_states), attn.to_k(text), attn.to_v(text))
        )
        shares = attn.get_attention_scores(query, key).unflatten(0, (-1, attn.heads))
        if encoder_hidden_states is None:
            if self.step < self.self_until:
                shares[3] = shares[2]
        elif self.step < self.cross_until:
            shares[3] = shares[2] @ self.cross_map + shares[3] * self.cross_own
        attended = attn.batch_to_head_dim(torch.bmm(shares.flatten(0, 1), value))
        out: torch.Tensor = attn.to_out[0](attended)
        return out


@dataclass(frozen=True)
class LancePeer:
    """The networks in PyTorch, and the settings that both sides have."""

    unet: UNet2DConditionModel
    vae: AutoencoderTiny
    clip: CLIPModel
    tokenizer: Tokenizer
    sampler: Sampler
    scale: float
    settings: InvertSettings

    def encode(self, picture: Pixels) -> torch.Tensor:
        """Scaled latents [1, C, h, w] of a picture [H, W, 3]."""
        pixels = torch.from_numpy(picture.transpose(2, 0, 1)[None].astype(np.float32) / 127.5 - 1)
        with torch.no_grad():
            latents: torch.Tensor = self.vae.encode(pixels).latents * self.vae.config.scaling_factor
        return latents

    def decode(self, latents: torch.Tensor) -> Pixels:
        """The picture of scaled latents [1, C, h, w]."""
        with torch.no_grad():
            pixels = self.vae.decode(latents / self.vae.config.scaling_factor).sample[0]
        picture: Pixels = ((pixels.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()
        return picture

    def read(self, caption: str) -> torch.Tensor:
        """Text states [1, T, D]."""
        with torch.no_grad():
            states: torch.Tensor = self.clip.text_model(self._ids(caption)).last_hidden_state
        return states

    def invert(self, picture: Pixels, caption: str) -> NullText:
        """Null-text inversion, ten inner steps."""
        self.unet.set_attn_processor(AttnProcessor2_0())
        return optimise(self.unet, self.encode(picture), self.read(caption), self.read(""), self.sampler, self.scale)

    def edit(self, picture: Pixels, caption: str, edited: Sequence[str]) -> list[Pixels]:
        """Of each edited caption the best picture."""
        inverted = self.invert(picture, caption)
        found = []
        for other in edited:
            tried = [self._edited(inverted, caption, other, fraction) for fraction in self.settings.fractions]
            moved = self._look([picture, *tried])
            wanted = self._meaning(other) - self._meaning(caption)
            directions = nn.functional.cosine_similarity(moved[1:] - moved[:1], wanted)
            found.append(tried[int(directions.argmax())])
        return found

    def _edited(self, inverted: NullText, caption: str, edited: str, fraction: float) -> Pixels:
        """Both rows from the source's noise, with guidance away from the optimised states."""
        steps = len(self.sampler.timesteps)
        alignment = align(read_tokens(self.tokenizer, caption), read_tokens(self.tokenizer, edited))
        alignment = alignment.reweighted(self.settings.word_weight)
        controller = _Controller(alignment, fraction, self.settings.cross_fraction, steps)
        self.unet.set_attn_processor(controller)
        texts, latents = torch.cat([self.read(caption), self.read(edited)]), inverted.trajectory[0].repeat(2, 1, 1, 1)
        for i, timestep in enumerate(self.sampler.timesteps.tolist()):
            controller.step = i
            states = torch.cat([inverted.states[i].repeat(2, 1, 1), texts])
            with torch.no_grad():
                out = self.unet(latents.repeat(2, 1, 1, 1), torch.tensor([timestep] * 4), states).sample
            kept, added = step_weights(self.sampler, i)
            latents = kept * latents + added * (out[:2] + self.scale * (out[2:] - out[:2]))
        return self.decode(latents[1:])

    def _look(self, pictures: Sequence[Pixels]) -> torch.Tensor:
        """Unit embeddings [N, E] of pictures."""
        pixels = torch.from_numpy(np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1)
        with torch.no_grad():
            pooled = self.clip.vision_model(pixels).pooler_output
            return nn.functional.normalize(self.clip.visual_projection(pooled), dim=-1)

    def _meaning(self, caption: str) -> torch.Tensor:
        with torch.no_grad():
            pooled = self.clip.text_model(self._ids(caption)).pooler_output
            return nn.functional.normalize(self.clip.text_projection(pooled), dim=-1)

    def _ids(self, caption: str) -> torch.Tensor:
        return torch.tensor([self.tokenizer.encode(caption).ids])
