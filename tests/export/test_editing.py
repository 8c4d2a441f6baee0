"""Prompt-to-prompt in one graph, against a controller that stops at every layer and edits row by row; and null-text
inversion, the slow reference: it leads guidance back to the picture, by the states that it answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import Attention
from tiny_networks import TOKENS, WIDTH, copied, filled, tiny_denoiser

from counterfactory.engine.models.alignment import CaptionTokens, align, follow_nobody
from counterfactory.engine.models.inversion import step_back
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.graphs.editing import EditingDenoiser
from counterfactory.export.graphs.null_text import NullText, invert, optimise
from counterfactory.export.graphs.parity import assert_parity, relative_error
from counterfactory.export.graphs.tracing import to_onnx

HEIGHT, WIDTH_OF_LATENTS = 16, 24


@dataclass(frozen=True)
class Follow:
    """What a row does with the row `source`, in the paper's words.

    `mapper`: for each token, those of the source that it stands for, with the number of tokens that share them;
    none for a token that is new. `weights` are the equalizer's.
    """

    source: int
    mapper: Sequence[tuple[Sequence[int], int]]
    weights: Sequence[float]
    injects_self: bool


class Controller:
    """diffusers' own way through an attention layer, its probabilities edited in between, number by number."""

    def __init__(self, follows: Mapping[int, Follow], level: int, words: torch.Tensor, shows: bool) -> None:
        self.follows, self.level, self.words, self.shows = follows, level, words, shows
        self.shown: list[torch.Tensor] = []

    def __call__(
        self, attn: Attention, hidden_states: torch.Tensor, encoder_hidden_states: Any = None, **_: Any
    ) -> torch.Tensor:
        cross = encoder_hidden_states is not None
        text = encoder_hidden_states if cross else hidden_states
        query, key, value = (
            attn.head_to_batch_dim(t) for t in (attn.to_q(hidden_states), attn.to_k(text), attn.to_v(text))
        )
        plain = attn.get_attention_scores(query, key).unflatten(0, (-1, attn.heads))
        edited = plain.clone()
        for row, follow in self.follows.items():
            if not cross:
                if follow.injects_self and self.level >= 1:
                    edited[row] = plain[follow.source]
                continue
            for token, (from_, sharing) in enumerate(follow.mapper):
                if from_:
                    edited[row, :, :, token] = sum(plain[follow.source, :, :, i] for i in from_) / sharing
                edited[row, :, :, token] *= follow.weights[token]
        if cross and self.shows:
            self.shown.append(torch.einsum("bhpt,bt->bp", edited, self.words) / attn.heads)
        attended = attn.batch_to_head_dim(torch.bmm(edited.flatten(0, 1), value))
        out: torch.Tensor = attn.to_out[1](attn.to_out[0](attended))
        return out


SIZES: dict[str, Any] = {"sample_size": 16, "layers_per_block": 1, "cross_attention_dim": WIDTH, "norm_num_groups": 8}
LEVELS = {"mid_block": 2} | {f"down_blocks.{i}": i for i in range(3)} | {f"up_blocks.{i}": 2 - i for i in range(3)}


def deep_unet() -> UNet2DConditionModel:
    """Three sizes of latents, text at all of them."""
    torch.manual_seed(1)
    blocks = {"down_block_types": ("CrossAttnDownBlock2D",) * 3, "up_block_types": ("CrossAttnUpBlock2D",) * 3}
    unet = UNet2DConditionModel(**SIZES, **blocks, block_out_channels=(16, 32, 32), attention_head_dim=2)
    filled(unet)
    return unet


def caption(text: str) -> CaptionTokens:
    """Letters are tokens, spaces part words; the rest is padding."""
    letters = [(ord(letter), number) for number, word in enumerate(text.split()) for letter in word]
    ids, words = [0, *(i for i, _ in letters), 1], [None, *(n for _, n in letters), None]
    missing = TOKENS - len(ids)
    return CaptionTokens((*ids, *[1] * missing), (*words, *[None] * missing))


# Of "ab c": b's word has other tokens; and a word more.
REPLACED = align(caption("ab c"), caption("xyz c")).reweighted(2.0)
REFINED = align(caption("ab c"), caption("a b d"))
# Rows: a source, two that follow it, one that follows nobody, and a source that comes after what follows it.
SHARED: list[tuple[list[int], int]] = [([0], 1), *[([1, 2], 3)] * 3, ([3], 1), ([4], 1), ([5], 1)]
NEW: list[tuple[list[int], int]] = [([0], 1), ([1], 1), ([2], 1), ([], 1), ([4], 1), ([5], 1), ([6], 1)]
FOLLOWS = {1: Follow(0, SHARED, [1, 2, 2, 2, 1, 1, 1], True)}
FOLLOWS |= {2: Follow(0, NEW, [1] * 7, False), 4: Follow(5, NEW, [1] * 7, True)}
ROWS = 6


def following() -> dict[str, torch.Tensor]:
    """FOLLOWS as the graph takes it."""
    maps, owns = (np.stack(arrays) for arrays in zip(*[follow_nobody(TOKENS)] * ROWS, strict=True))
    for row, found in {1: REPLACED, 2: REFINED, 4: REFINED}.items():
        maps[row], owns[row] = found.cross_map, found.cross_own
    followed = {"source_rows": torch.tensor([0, 0, 0, 3, 5, 5]), "self_rows": torch.tensor([0, 0, 2, 3, 5, 5])}
    cross = {"cross_map": torch.from_numpy(maps), "cross_own": torch.from_numpy(owns)}
    return followed | cross | {"words": torch.rand((ROWS, TOKENS), generator=torch.Generator().manual_seed(3))}


def rows() -> dict[str, torch.Tensor]:
    drawn = torch.Generator().manual_seed(2)
    latents = torch.randn((ROWS, 4, HEIGHT, WIDTH_OF_LATENTS), generator=drawn)
    text = torch.randn((ROWS, TOKENS, WIDTH), generator=drawn)
    return {"latents": latents, "timestep": torch.tensor([400, 400, 400, 7, 990, 990]), "text": text}


def slow(follows: Mapping[int, Follow]) -> tuple[np.ndarray, np.ndarray]:
    """The controller's answers: predictions, and the words' attention."""
    unet = deep_unet()
    processors = {}
    for name in unet.attn_processors:
        level = next(level for block, level in LEVELS.items() if name.startswith(block))
        processors[name] = Controller(follows, level, following()["words"], level == 2)
    unet.set_attn_processor(dict(processors))  # which takes a dict apart
    with torch.no_grad():
        out = unet(*rows().values(), return_dict=False)[0]
    shown = [one for controller in processors.values() for one in controller.shown]
    assert len(shown) == 4  # the text's layers of the smallest size
    mean = torch.stack(shown).mean(0).reshape(ROWS, HEIGHT // 4, WIDTH_OF_LATENTS // 4)
    return out.numpy(), mean.numpy()


@pytest.fixture(scope="module")
def wanted() -> tuple[np.ndarray, np.ndarray]:
    return slow(FOLLOWS)


def test_rows_that_follow_are_edited_as_the_controller_does(wanted: tuple[np.ndarray, np.ndarray]) -> None:
    editing = EditingDenoiser(deep_unet()).eval()
    with torch.no_grad():
        prediction, attention = editing(**rows(), **following())
    assert_parity(prediction, wanted[0], "f32")
    assert_parity(attention, wanted[1], "f32")
    plain, shown = slow({})
    for row in range(ROWS):
        followed = row in FOLLOWS
        assert (relative_error(prediction[row], plain[row]) > 1e-2) == followed, row
        assert (relative_error(attention[row], shown[row]) > 1e-2) == followed, row


def test_controlnets_add_what_they_add_to_the_plain_step() -> None:
    unet, controlnet = tiny_denoiser()
    editing = EditingDenoiser(unet, copied(controlnet)).eval()
    drawn = torch.Generator().manual_seed(4)
    hint = torch.randn((ROWS, 16, HEIGHT, WIDTH_OF_LATENTS), generator=drawn)
    scale = torch.linspace(0, 1.5, ROWS)
    with torch.no_grad():
        found, attention = editing(**rows(), **following(), hint_embedding=hint, control_scale=scale)
        none, _ = editing(**rows(), **following(), hint_embedding=hint, control_scale=0 * scale)
        alone, _ = EditingDenoiser(tiny_denoiser()[0]).eval()(**rows(), **following())
    assert attention.shape == (ROWS, HEIGHT // 2, WIDTH_OF_LATENTS // 2)  # text is read at one size only
    assert_parity(none, alone, "f32")
    assert relative_error(found[1:], alone[1:]) > 1e-2


@pytest.mark.slow
def test_the_graph_computes_what_the_module_does(tmp_path: Path) -> None:
    editing, feeds = EditingDenoiser(tiny_denoiser()[0]).eval(), {**rows(), **following()}
    with torch.no_grad():
        wanted = editing(**feeds)
    axes = {name: {0: "batch", 2: "height", 3: "width"} if name == "latents" else {0: "batch"} for name in feeds}
    # A batch and a size that the graph will not be run with.
    example = {name: array[:4] for name, array in feeds.items()}
    example |= {"latents": torch.randn(4, 4, 8, 16), "source_rows": torch.arange(4), "self_rows": torch.arange(4)}
    file = tmp_path / "editor.onnx"
    to_onnx(editing, example, ["prediction", "attention"], file, axes)
    arrays = {name: array.numpy() for name, array in feeds.items()}
    on_cpu = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    found = on_cpu.run(["prediction", "attention"], arrays)
    sizes = {"latents": (HEIGHT, WIDTH_OF_LATENTS)}
    in_openvino = open_session(file, batch=ROWS, precision="f32", sizes=sizes).run(arrays)
    for place, name in enumerate(("prediction", "attention")):
        assert_parity(found[place], wanted[place], "f32")
        assert_parity(in_openvino[name], wanted[place], "f32")


def test_a_unet_of_another_kind_is_refused() -> None:
    unet = deep_unet()
    next(module for module in unet.modules() if isinstance(module, Attention)).residual_connection = True
    with pytest.raises(ValueError, match=r"down_blocks.0.attentions.0.* is not Stable Diffusion's: it has a residual"):
        EditingDenoiser(unet)
    downwards, upwards = ("DownBlock2D",) * 3, ("UpBlock2D",) * 3
    blocks = {"down_block_types": (*downwards, "CrossAttnDownBlock2D")}
    blocks |= {"up_block_types": ("CrossAttnUpBlock2D", *upwards)}
    silent = UNet2DConditionModel(**SIZES, **blocks, block_out_channels=(16, 32, 32, 32))
    with pytest.raises(ValueError, match="the UNet reads no text where latents were halved 2 times"):
        EditingDenoiser(silent)


SAMPLER = Sampler(SamplerSettings("ddim", 3, "v_prediction", "trailing", True))
SCALE = 3.0


@pytest.fixture(scope="module")
def unet() -> torch.nn.Module:
    return tiny_denoiser()[0].requires_grad_(False)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn((1, *shape), generator=torch.Generator().manual_seed(seed))


CLEAN, CAPTION, EMPTY = drawn(1, 4, 8, 8), drawn(2, TOKENS, WIDTH), drawn(3, TOKENS, WIDTH)


def said(unet: torch.nn.Module, latents: torch.Tensor, i: int, text: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = unet(latents, torch.tensor([int(SAMPLER.timesteps[i])]), text).sample
    return found


def forth(unet: torch.nn.Module, noise: torch.Tensor, states: list[torch.Tensor]) -> torch.Tensor:
    """The guided way from `noise`, each step away from its own states."""
    latents = noise.numpy()
    for i, state in enumerate(states):
        with_text, without = (said(unet, torch.from_numpy(latents), i, text).numpy() for text in (CAPTION, state))
        latents, _ = SAMPLER.step(i, latents, without + np.float32(SCALE) * (with_text - without), SAMPLER.start)
    return torch.from_numpy(latents)


def test_the_record_is_the_engine_s(unet: torch.nn.Module) -> None:
    record = invert(unet, CLEAN, CAPTION, SAMPLER)
    assert len(record) == 4
    assert record[3] is CLEAN
    for i in range(3):
        output = said(unet, record[i + 1], i, CAPTION).numpy()
        wanted = step_back(SAMPLER, i, record[i + 1].numpy(), output)
        torch.testing.assert_close(record[i], torch.from_numpy(wanted), rtol=1e-4, atol=1e-4)


def test_guidance_away_from_the_states_leads_back(unet: torch.nn.Module) -> None:
    def missed(found: torch.Tensor) -> float:
        return float((found - CLEAN).square().mean())

    def optimised(inner_steps: int, enough: float = 1e-5) -> NullText:
        return optimise(unet, CLEAN, CAPTION, EMPTY, SAMPLER, SCALE, inner_steps, enough)

    found = optimised(10)
    assert [state.shape for state in found.states] == [(1, TOKENS, WIDTH)] * 3
    assert not any(state.requires_grad for state in found.states)
    torch.testing.assert_close(found.reached, forth(unet, found.trajectory[0], found.states), rtol=1e-3, atol=1e-3)
    none = forth(unet, found.trajectory[0], [EMPTY] * 3)
    assert missed(found.reached) < 0.9 * missed(none)
    assert missed(optimised(30).reached) < missed(found.reached)
    (first, *_) = optimised(10, enough=1e9).states  # near enough after one step of Adam
    assert 0 < (first - EMPTY).abs().max() <= 1.01e-2
