"""The networks as graphs: modules whose inputs and outputs are the arrays that the engine hands over.

Each wraps a diffusers or transformers module of any size; the pocket models and the full-size ones go through the
same wrappers. Shapes: B batch, C latent channels, h x w latent size, H x W picture size, T tokens, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from diffusers import AutoencoderKL, AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Blip2ForConditionalGeneration, CLIPModel, OPTForCausalLM


class HintEncoder(nn.Module):
    """hint [B, 1 or 3, H, W] in 0..1 to hint_embedding [B, D, h, w]: what a ControlNet makes of the hint alone.

    With `grey` a hint of one channel is given to a ControlNet that was trained with three equal ones.
    """

    def __init__(self, controlnet: ControlNetModel, grey: bool = False) -> None:
        super().__init__()
        self.embedding = controlnet.controlnet_cond_embedding
        self.repeats = controlnet.config.conditioning_channels if grey else 1

    def forward(self, hint: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(hint if self.repeats == 1 else hint.repeat(1, self.repeats, 1, 1))
        return embedded


class Control(nn.Module):
    """What ControlNets add to a UNet's blocks, the middle one's last; inputs are FusedDenoiser's.

    Takes over the ControlNets it is given: their hint encoders are cut off.
    """

    def __init__(self, *controlnets: ControlNetModel) -> None:
        super().__init__()
        for controlnet in controlnets:
            controlnet.controlnet_cond_embedding = nn.Identity()
        self.controlnets = nn.ModuleList(controlnets)

    def forward(
        self, latents: Tensor, timestep: Tensor, text: Tensor, hint_embedding: Tensor, control_scale: Tensor
    ) -> list[Tensor]:
        total: list[Tensor] = []
        for i, controlnet in enumerate(self.controlnets):
            hint, scale = hint_embedding, control_scale
            if len(self.controlnets) > 1:
                hint, scale = hint[:, i], scale[:, i]
            down, mid = controlnet(latents, timestep, text, controlnet_cond=hint, return_dict=False)
            scaled = [residual * scale[:, None, None, None] for residual in (*down, mid)]
            total = [a + b for a, b in zip(total, scaled, strict=True)] if i else scaled
        return total


def added_to_blocks(residuals: list[Tensor]) -> dict[str, Any]:
    """What Control gives, as a UNet takes it."""
    return {"down_block_additional_residuals": residuals[:-1], "mid_block_additional_residual": residuals[-1]}


class FusedDenoiser(nn.Module):
    """ControlNets and UNet as one step.

    latents [B, C, h, w], timestep [B], text [B, T, D], hint_embedding [B, D', h, w], control_scale [B] to the model's
    prediction [B, C, h, w]. With N ControlNets, hint_embedding is [B, N, D', h, w] and control_scale [B, N]: what they
    add to the UNet is the sum of what each does, times its scale. Takes over the ControlNets it is given (see Control).
    """

    def __init__(self, unet: UNet2DConditionModel, *controlnets: ControlNetModel) -> None:
        super().__init__()
        self.unet, self.control = unet, Control(*controlnets)

    def forward(
        self, latents: Tensor, timestep: Tensor, text: Tensor, hint_embedding: Tensor, control_scale: Tensor
    ) -> Tensor:
        added = self.control(latents, timestep, text, hint_embedding, control_scale)
        predicted: Tensor = self.unet(latents, timestep, text, **added_to_blocks(added), return_dict=False)[0]
        return predicted


class WholeDenoiser(FusedDenoiser):
    """FusedDenoiser that also gives deep [B, D, h, w]: what goes into the last two layers of the UNet's last block."""

    def forward(  # type: ignore[override]
        self, latents: Tensor, timestep: Tensor, text: Tensor, hint_embedding: Tensor, control_scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        joined: list[Tensor] = []
        # Channels are joined in front of a layer: the deep feature, then what was passed on on the way down.
        layer = self.unet.up_blocks[-1].resnets[-2]
        watching = layer.register_forward_pre_hook(lambda _, passed: joined.append(passed[0]))
        predicted = super().forward(latents, timestep, text, hint_embedding, control_scale)
        watching.remove()
        return predicted, joined[0][:, : deep_channels(self.unet)]


class ShallowDenoiser(nn.Module):
    """What is left of FusedDenoiser where deep features of another step are given (Ma et al. 2023, arXiv 2312.00858).

    latents [B, C, h, w], timestep [B], hint_embedding, control_scale, deep [B, D, h, w] as WholeDenoiser gives it, and
    text [B, T, D] where `reads_text`, to the model's prediction [B, C, h, w]: the first convolution and the first layer
    of the UNet and of each ControlNet, and the UNet's last two layers. Only these are held.
    """

    def __init__(self, unet: UNet2DConditionModel, *controlnets: ControlNetModel) -> None:
        super().__init__()
        self.first = _FirstLayers(unet)
        self.controls = nn.ModuleList(_FirstLayers(one) for one in controlnets)
        self.added = nn.ModuleList(nn.ModuleList(one.controlnet_down_blocks[:2]) for one in controlnets)
        self.last = nn.ModuleList(_Layer(unet.up_blocks[-1], at) for at in (-2, -1))
        self.head = nn.Sequential(unet.conv_norm_out, unet.conv_act, unet.conv_out)

    @property
    def reads_text(self) -> bool:
        layers = (*self.last, self.first.layer, *(one.layer for one in self.controls))
        return any(layer.attention is not None for layer in layers)

    def forward(
        self,
        latents: Tensor,
        timestep: Tensor,
        hint_embedding: Tensor,
        control_scale: Tensor,
        deep: Tensor,
        text: Tensor | None = None,
    ) -> Tensor:
        *passed, time = self.first(latents, timestep, text)
        for i, control in enumerate(self.controls):
            hint, scale = hint_embedding, control_scale
            if len(self.controls) > 1:
                hint, scale = hint[:, i], scale[:, i]
            *own, _ = control(latents, timestep, text, hint)
            outputs: Any = self.added[i]
            passed = [
                value + output(of_own) * scale[:, None, None, None]
                for value, output, of_own in zip(passed, outputs, own, strict=True)
            ]
        states = deep
        for layer, value in zip(self.last, reversed(passed), strict=True):
            states = layer(torch.cat([states, value], 1), time, text)
        predicted: Tensor = self.head(states)
        return predicted


def deep_channels(unet: UNet2DConditionModel) -> int:
    """The channels of WholeDenoiser's deep feature."""
    return int(unet.up_blocks[-1].resnets[-2].in_channels - unet.down_blocks[0].resnets[0].out_channels)


class _Layer(nn.Module):
    """A layer of a block: its residual part, and its attention where the block has some."""

    attention: Any

    def __init__(self, block: Any, at: int) -> None:
        super().__init__()
        attentions = getattr(block, "attentions", None)
        self.resnet, self.attention = block.resnets[at], None if attentions is None else attentions[at]

    def forward(self, states: Tensor, time: Tensor, text: Tensor | None) -> Tensor:
        states = self.resnet(states, time)
        if self.attention is not None:
            states = self.attention(states, encoder_hidden_states=text, return_dict=False)[0]
        return states


class _FirstLayers(nn.Module):
    """The first convolution and the first layer of a UNet or a ControlNet: what each passes on, and the time's states.

    Of a ControlNet the hint is added behind the convolution.
    """

    def __init__(self, network: UNet2DConditionModel | ControlNetModel) -> None:
        super().__init__()
        self.proj, self.embedding, self.conv = network.time_proj, network.time_embedding, network.conv_in
        self.layer = _Layer(network.down_blocks[0], 0)

    def forward(
        self, latents: Tensor, timestep: Tensor, text: Tensor | None, hint: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        time = self.embedding(self.proj(timestep).to(latents.dtype))
        states = self.conv(latents) if hint is None else self.conv(latents) + hint
        return states, self.layer(states, time, text), time


class Normalised(nn.Module):
    """`module` for pixel_values [B, 3, H, W] in -1..1, which are first brought to the mean and spread it knows.

    `mean` and `std` are a channel's, of pixels in 0..1.
    """

    def __init__(self, module: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.module = module
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])

    def forward(self, pixel_values: Tensor) -> Tensor:
        found: Tensor = self.module(((pixel_values + 1) / 2 - self.mean) / self.std)
        return found


class VaeEncoder(nn.Module):
    """pixel_values [B, 3, H, W] in -1..1 to latents [B, C, h, w], scaled as the denoiser knows them."""

    def __init__(self, vae: AutoencoderTiny | AutoencoderKL) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, pixel_values: Tensor) -> Tensor:
        encoded = self.vae.encode(pixel_values, return_dict=False)[0]
        # The middle of what a variational one answers: a source has one inversion, not many.
        latents = encoded if isinstance(encoded, Tensor) else encoded.mode()
        scaled: Tensor = latents * self.vae.config.scaling_factor
        return scaled


class VaeDecoder(nn.Module):
    """latents [B, C, h, w], scaled as the denoiser knows them, to pixel_values [B, 3, H, W] in -1..1."""

    def __init__(self, vae: AutoencoderTiny) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, latents: Tensor) -> Tensor:
        pixels: Tensor = self.vae.decode(latents / self.vae.config.scaling_factor, return_dict=False)[0]
        return pixels


class ClipTextEncoder(nn.Module):
    """input_ids [B, T] to states [B, T, D] and unit text_embeds [B, E]."""

    def __init__(self, clip: CLIPModel) -> None:
        super().__init__()
        self.text_model, self.projection = clip.text_model, clip.text_projection

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        out = self.text_model(input_ids=input_ids)
        return out.last_hidden_state, F.normalize(self.projection(out.pooler_output), dim=-1)


class ClipImageEncoder(nn.Module):
    """pixel_values [B, 3, S, S] to unit image_embeds [B, E]."""

    def __init__(self, clip: CLIPModel) -> None:
        super().__init__()
        self.vision_model, self.projection = clip.vision_model, clip.visual_projection

    def forward(self, pixel_values: Tensor) -> Tensor:
        pooled = self.vision_model(pixel_values=pixel_values).pooler_output
        return F.normalize(self.projection(pooled), dim=-1)


class Blip2Vision(nn.Module):
    """pixel_values [B, 3, S, S] to query_embeds [B, Q, D] in the language model's space: ViT, Q-Former, projection."""

    def __init__(self, blip2: Blip2ForConditionalGeneration) -> None:
        super().__init__()
        self.vision, self.qformer = blip2.vision_model, blip2.qformer
        self.queries, self.projection = blip2.query_tokens, blip2.language_projection

    def forward(self, pixel_values: Tensor) -> Tensor:
        states = self.vision(pixel_values=pixel_values).last_hidden_state
        queries = self.queries.expand(states.shape[0], -1, -1)
        out = self.qformer(query_embeds=queries, encoder_hidden_states=states).last_hidden_state
        projected: Tensor = self.projection(out[:, : queries.shape[1]])
        return projected


_KeysValues = tuple[Tensor, Tensor]
# The open axes of OptDecoder's inputs.
OPT_AXES: Mapping[str, Mapping[int, str]] = MappingProxyType(
    dict.fromkeys(("inputs_embeds", "position_ids"), MappingProxyType({0: "batch", 1: "tokens"}))
    | dict.fromkeys(("past_keys", "past_values"), MappingProxyType({0: "batch", 3: "past"}))
)


class OptDecoder(nn.Module):
    """OPT with its key-value cache in the open (Zhang et al. 2022, arXiv 2205.01068; pre-norm sizes).

    inputs_embeds [B, S, D], position_ids [B, S], past_keys and past_values [B, L, heads, P, D/heads] to logits
    [B, V] of the last position, and keys and values [B, L, heads, P + S, D/heads].
    """

    def __init__(self, opt: OPTForCausalLM) -> None:
        super().__init__()
        config, decoder = opt.config, opt.model.decoder
        if not config.do_layer_norm_before or decoder.project_in is not None:
            raise ValueError("OPT sizes with post-norm or projected embeddings (350m) are not supported")
        self.heads, self.width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        self.positions, self.layers = decoder.embed_positions, decoder.layers
        self.norm, self.head = decoder.final_layer_norm, opt.lm_head

    def forward(
        self, inputs_embeds: Tensor, position_ids: Tensor, past_keys: Tensor, past_values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        past = past_keys.shape[3]
        logits, attended, _ = self._continue(
            inputs_embeds, position_ids, past, lambda i: (past_keys[:, i], past_values[:, i])
        )
        keys, values = (torch.stack(kind, 1) for kind in zip(*attended, strict=True))
        return logits, keys, values

    def _continue(
        self, inputs_embeds: Tensor, position_ids: Tensor, past: int, cached: Callable[[int], _KeysValues]
    ) -> tuple[Tensor, list[_KeysValues], list[_KeysValues]]:
        """Logits [B, V] of the last position behind `past` cached ones, which `cached` gives by layer.

        Beside them, by layer, the keys and values that were attended to, [B, heads, P + S, D/heads], and the last S of
        them, which are new.
        """
        # OPT's position table starts at 2.
        states = inputs_embeds + F.embedding(position_ids + 2, self.positions.weight)
        total = past + inputs_embeds.shape[1]
        visible = torch.arange(total)[None, None, :] <= position_ids[:, :, None]
        bias = torch.where(visible, 0.0, -1e9)[:, None]
        attended, added = [], []
        for i, layer in enumerate(self.layers):
            normed = layer.self_attn_layer_norm(states)
            attention = layer.self_attn
            q, k, v = (
                project(normed).reshape(*normed.shape[:2], self.heads, self.width).transpose(1, 2)
                for project in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
            added.append((k, v))
            past_keys, past_values = cached(i)
            k, v = torch.cat([past_keys, k], 2), torch.cat([past_values, v], 2)
            attended.append((k, v))
            # Before the product, as transformers has it: after it, logits are 11 times nearer to where fp16 ends.
            q = q / math.sqrt(self.width)
            weights = (q @ k.transpose(-1, -2) + bias).softmax(-1)
            merged = (weights @ v).transpose(1, 2).reshape(states.shape)
            states = states + attention.out_proj(merged)
            states = states + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(states))))
        return self.head(self.norm(states[:, -1])), attended, added


class CachedOptDecoder(OptDecoder):
    """OptDecoder over a cache that stays on a device and is only ever added to.

    inputs_embeds [B, S, D], position_ids [B, S], cache_keys and cache_values [P, B, L, heads, D/heads] to logits [B, V]
    of the last position, and what the S positions add, [S, B, L, heads, D/heads]: positions come first, so that it lies
    behind the cache in one block of memory. For beams there is one more input, cache_rows int64 [P, B]: in which row of
    the cache each position of each row lies, since a beam goes on from what others wrote.

    `tokens` is the embedding table [V, D], which is looked up outside.
    """

    def __init__(self, opt: OPTForCausalLM) -> None:
        super().__init__(opt)
        self.tokens: Tensor = opt.model.decoder.embed_tokens.weight

    def forward(
        self,
        inputs_embeds: Tensor,
        position_ids: Tensor,
        cache_keys: Tensor,
        cache_values: Tensor,
        cache_rows: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits, _, added = self._continue(
            inputs_embeds, position_ids, cache_keys.shape[0], read_cache(cache_keys, cache_values, cache_rows)
        )
        keys, values = join_added(added)
        return logits, keys, values


def read_cache(cache_keys: Tensor, cache_values: Tensor, cache_rows: Tensor | None) -> Callable[[int], _KeysValues]:
    """What gives each layer's keys and values [B, heads, P, D/heads] of a cache [P, B, L, heads, D/heads]."""
    past, rows = cache_keys.shape[:2]
    # Of each position and row, where its keys lie in [P * B, heads, D/heads].
    places = None if cache_rows is None else (torch.arange(past)[:, None] * rows + cache_rows).flatten()

    def layer(cache: Tensor, i: int) -> Tensor:
        one = cache[:, :, i]
        if places is not None:
            one = one.flatten(0, 1).index_select(0, places).reshape(one.shape)
        return one.permute(1, 2, 0, 3)

    return lambda i: (layer(cache_keys, i), layer(cache_values, i))


def join_added(added: Sequence[_KeysValues]) -> _KeysValues:
    """What steps add to a cache, [S, B, L, heads, D/heads], of each layer's [B, heads, S, D/heads]."""
    keys, values = (torch.stack([one.permute(2, 0, 1, 3) for one in kind], 2) for kind in zip(*added, strict=True))
    return keys, values
