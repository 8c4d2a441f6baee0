"""Several hints at once, against diffusers: as ControlNets of their own, and as encoders that share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import ControlNetModel, MultiControlNetModel, UNet2DConditionModel
from diffusers.models.controlnets.controlnet import ControlNetConditioningEmbedding
from numpy.typing import NDArray
from tiny_networks import TOKENS, WIDTH, copied, filled, step_shapes, tiny_denoiser, torch_plan

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.denoiser import DenoiserRow, PaintPlans
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.parity import relative_error
from counterfactory.export.production import denoiser as exported_denoiser
from counterfactory.export.production.clip import SMALL as SMALL_CLIP
from counterfactory.export.production.graph import Request

Floats = NDArray[np.float32]
HEIGHT, WIDE = 32, 48
LATENT = (4, HEIGHT // 2, WIDE // 2)
SCALE = 1.3
# A grey map of 8 bits, one of 16, and one of colours, of two pictures.
RNG = np.random.default_rng(3)
EDGES = (RNG.random((2, HEIGHT, WIDE)) < 0.2).astype(np.uint8) * 255
DEPTH = RNG.integers(0, 65536, (2, HEIGHT, WIDE)).astype(np.uint16)
CLASSES = RNG.integers(0, 256, (2, HEIGHT, WIDE, 3), np.uint8)


def rows_of(hints: Sequence[Any], scale: Any, tokens: int, width: int) -> list[DenoiserRow]:
    rng = np.random.default_rng(4)

    def normal(*shape: int) -> Floats:
        return rng.standard_normal(shape).astype(np.float32)

    steps = zip((999, 300), hints, strict=True)
    return [DenoiserRow(normal(*LATENT), step, normal(tokens, width), hint, scale) for step, hint in steps]


def tensors(rows: Sequence[DenoiserRow]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    latents, text = (torch.from_numpy(np.stack(found)) for found in ([r.latents for r in rows], [r.text for r in rows]))
    return latents, torch.tensor([r.timestep for r in rows]), text


def by_hand(maps: NDArray[Any], channels: int) -> torch.Tensor:
    """A map as diffusers takes it, written out: [N, channels, H, W] in 0..1."""
    planes = (maps if maps.ndim == 4 else maps[..., None]) / float(np.iinfo(maps.dtype).max)
    return torch.from_numpy(planes.transpose(0, 3, 1, 2).astype(np.float32)).expand(-1, channels, -1, -1)


def predicted(unet: UNet2DConditionModel, rows: Sequence[DenoiserRow], added: tuple[Any, Any]) -> Floats:
    residuals = {"down_block_additional_residuals": added[0], "mid_block_additional_residual": added[1]}
    with torch.no_grad():
        found: Floats = unet(*tensors(rows), **residuals, return_dict=False)[0].numpy()
    return found


# ControlNets of their own.

SMALL = Request(small=True, controls=2, hint_channels=3)


@pytest.fixture(scope="module")
def apart() -> PaintPlans:
    """The modules of the small exporter's hint, hint_1 and denoiser; that its graphs are those, its own tests show."""
    h, w, text = *LATENT[1:], SMALL_CLIP["text_config"]
    first, second = (
        torch_plan(exported_denoiser.hint_graph(SMALL, i).module, "hint_embedding", hint=(1, 3, HEIGHT, WIDE))
        for i in range(SMALL.controls)
    )
    shapes = step_shapes(2, h, w) | {"text": (2, text["max_position_embeddings"], text["hidden_size"])}
    control = {"hint_embedding": (2, 2, 16, h, w), "control_scale": (2, 2)}
    denoiser = torch_plan(exported_denoiser.denoiser_graph(SMALL).module, "prediction", **shapes, **control)
    return PaintPlans(first, denoiser, denoiser, LATENT, other_hints=(second,))


def by_multi_controlnet(rows: Sequence[DenoiserRow], maps: Sequence[NDArray[Any]], scales: Sequence[float]) -> Floats:
    controlnets = [exported_denoiser.random_controlnet(SMALL.seed + 1 + i, small=True) for i in range(2)]
    conditions = [by_hand(one, 3) for one in maps]
    with torch.no_grad():
        added = MultiControlNetModel(controlnets)(*tensors(rows), conditions, list(scales), return_dict=False)
    return predicted(exported_denoiser.random_unet(SMALL.seed, small=True), rows, added)


@pytest.mark.parametrize("weights", [(0.5, 1.2), (1.0, 0.0)])
def test_controlnets_of_their_own_are_diffusers_multicontrolnet(apart: PaintPlans, weights: tuple[float, ...]) -> None:
    text = SMALL_CLIP["text_config"]
    shape = (text["max_position_embeddings"], text["hidden_size"])
    maps = [DEPTH, CLASSES]
    given = [one if weight else None for one, weight in zip(maps, weights, strict=True)]
    plans = apart if weights[1] else PaintPlans(apart.hint, apart.denoiser, apart.decoder, LATENT)
    hints = plans.embed_several(given, weights)
    rows = rows_of(hints, [SCALE * weight for weight in weights], *shape)
    wanted = by_multi_controlnet(rows, maps, [SCALE * weight for weight in weights])
    assert relative_error(np.stack([one.prediction for one in plans.evaluate(rows)]), wanted) <= 1e-4
    for moved in ([SCALE * weights[0]] * 2, [0.0, SCALE * weights[1]]):
        assert relative_error(by_multi_controlnet(rows, maps, moved), wanted) > 1e-3, "weights would not be seen"
    assert relative_error(by_multi_controlnet(rows, maps[::-1], [SCALE * w for w in weights]), wanted) > 1e-3


def test_as_many_hints_as_controlnets(apart: PaintPlans) -> None:
    assert apart.hints_apart
    for count, said in ((1, "1 hint:"), (3, "3 hints:")):
        with pytest.raises(CounterfactoryError, match=f"the denoiser has 2 ControlNets, and the profile names {said}"):
            apart.embed_several([DEPTH] * count, [1.0] * count)


# Encoders that share a ControlNet.


class Added(torch.nn.Module):
    """What a denoiser was trained with that follows several hints by one ControlNet: the sum of their embeddings."""

    def __init__(self, encoders: Sequence[ControlNetConditioningEmbedding], weights: Sequence[float]) -> None:
        super().__init__()
        self.encoders, self.weights = torch.nn.ModuleList(encoders), weights

    def forward(self, hints: torch.Tensor) -> torch.Tensor:
        parts = torch.split(hints, [1, 1, 3], 1)
        total = torch.zeros(())
        for encoder, part, weight in zip(self.encoders, parts, self.weights, strict=True):
            total = total + encoder(part) * (part.flatten(1).amax(1) > 0)[:, None, None, None] * weight
        return total


@pytest.fixture(scope="module")
def networks() -> tuple[UNet2DConditionModel, ControlNetModel, list[ControlNetConditioningEmbedding]]:
    unet, controlnet = tiny_denoiser()
    encoders = [ControlNetConditioningEmbedding(16, channels, (8, 16)) for channels in (1, 1, 3)]
    for seed, encoder in enumerate(encoders):
        filled(encoder, seed)
    return unet, controlnet, encoders


def shared(networks: Any, only: Sequence[int] = (0, 1, 2)) -> PaintPlans:
    """Plans of one ControlNet behind some of the three encoders."""
    unet, controlnet, encoders = networks
    hints = [torch_plan(encoders[i], "hint_embedding", hint=(1, (1, 1, 3)[i], HEIGHT, WIDE)) for i in only]
    control = {"hint_embedding": (2, 16, *LATENT[1:]), "control_scale": (2,)}
    module = modules.FusedDenoiser(unet, copied(controlnet))
    fused = torch_plan(module, "prediction", **step_shapes(2, *LATENT[1:]), **control)
    return PaintPlans(hints[0], fused, fused, LATENT, other_hints=tuple(hints[1:]))


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.4, 0.0, 1.7), (0.0, 0.8, 0.0)])
def test_encoders_that_share_a_controlnet_are_added_by_weight(networks: Any, weights: tuple[float, ...]) -> None:
    unet, controlnet, encoders = networks
    maps: list[NDArray[Any]] = [EDGES, DEPTH.copy(), CLASSES]
    maps[1][1] = 0  # of the second picture no depth is known
    plans = shared(networks, [i for i in range(3) if weights[i]])
    assert not plans.hints_apart
    hints = plans.embed_several([one if w else None for one, w in zip(maps, weights, strict=True)], weights)
    rows = rows_of(hints, SCALE, TOKENS, WIDTH)
    whole = copied(controlnet)
    whole.controlnet_cond_embedding = Added(encoders, weights)
    conditions = torch.cat([by_hand(EDGES, 1), by_hand(maps[1], 1), by_hand(CLASSES, 3)], 1)
    with torch.no_grad():
        added = whole(*tensors(rows), controlnet_cond=conditions, conditioning_scale=SCALE, return_dict=False)
    wanted = predicted(unet, rows, added)
    assert relative_error(np.stack([one.prediction for one in plans.evaluate(rows)]), wanted) <= 1e-4
    assert np.abs(np.asarray(hints[0]) - np.asarray(hints[1])).max() > 0.1


def test_grey_maps_serve_encoders_of_colours_and_colours_no_grey_ones(networks: Any) -> None:
    colours, grey = shared(networks, [2]), shared(networks, [0])
    found = colours.embed_several([EDGES], [1.0])
    repeated = colours.embed_several([np.repeat(EDGES[..., None], 3, -1)], [1.0])
    np.testing.assert_array_equal(np.stack(found), np.stack(repeated))
    with pytest.raises(CounterfactoryError, match="a map of 3 colours was given to a hint encoder of 1 channel: name"):
        grey.embed_several([CLASSES], [1.0])
