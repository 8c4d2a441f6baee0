"""LoRAs merged into a UNet: as worked by hand, by every naming; what would be left out without a word is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import save_file

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.export.production.denoiser import random_unet
from counterfactory.export.production.lora import merge_lora

ATTENTION = "down_blocks.1.attentions.0.transformer_blocks.0.attn1"
LINEAR, OUT, CONV = f"{ATTENTION}.to_q", f"{ATTENTION}.to_out.0", "down_blocks.0.resnets.0.conv1"
# Other kinds of layers that LCM-LoRA changes.
OTHERS = ("mid_block.resnets.0.time_emb_proj", "mid_block.attentions.0.proj_in", "down_blocks.0.downsamplers.0.conv")
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def unet() -> UNet2DConditionModel:
    return random_unet(3, small=True)


def pairs(unet: UNet2DConditionModel) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Deltas of rank 2 for a linear layer, one that is named otherwise in old files, a convolution, and OTHERS."""
    random = torch.Generator().manual_seed(1)
    found = {}
    for name in (LINEAR, OUT, CONV, *OTHERS):
        out, *rest = unet.get_submodule(name).get_parameter("weight").shape
        ends = [1] * (len(rest) - 1)
        found[name] = torch.randn(2, *rest, generator=random), torch.randn(out, 2, *ends, generator=random)
    return found


def lora(unet: UNet2DConditionModel, form: str) -> Tensors:
    """The deltas as kohya (with alpha 1, half of the rank), peft and diffusers name them (without: the rank stands for
    it), and as diffusers once named layers of attention.
    """
    old = {LINEAR: f"{ATTENTION}.processor.to_q_lora", OUT: f"{ATTENTION}.processor.to_out_lora"}
    found: Tensors = {}
    for name, pair in pairs(unet).items():
        flat = f"lora_unet_{name.replace('.', '_')}"
        begins = {"kohya": f"{flat}.lora_", "peft": f"unet.{name}.lora_", "diffusers": f"unet.{name}.lora."}
        begin = begins.get(form, f"unet.{old.get(name, f'{name}.lora')}.")
        ends = "AB" if form == "peft" else ("down", "up")
        found |= {f"{begin}{end}.weight": tensor for end, tensor in zip(ends, pair, strict=True)}
        found |= {f"{flat}.alpha": torch.tensor(1.0)} if form == "kohya" else {}
    return found


def saved(tensors: Tensors, folder: Path) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "lora.safetensors")
    return folder / "lora.safetensors"


@pytest.mark.parametrize(("form", "scale"), [("kohya", 0.5), ("peft", 1.0), ("diffusers", 1.0), ("processors", 1.0)])
def test_a_lora_is_merged_as_by_hand(unet: UNet2DConditionModel, tmp_path: Path, form: str, scale: float) -> None:
    before = {name: value.clone() for name, value in unet.state_dict().items()}
    assert merge_lora(unet, saved(lora(unet, form), tmp_path), 0.7) == 6
    deltas = {}
    for name, (down, up) in pairs(unet).items():
        delta = np.zeros(before[f"{name}.weight"].shape)
        for rank in range(2):
            for out in range(len(delta)):
                delta[out] += up[out, rank].item() * down[rank].numpy()
        deltas[f"{name}.weight"] = 0.7 * scale * delta
    after = unet.state_dict()
    assert after.keys() == before.keys()
    for name, value in after.items():
        wanted = before[name].numpy() + deltas.get(name, 0)
        np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def test_two_loras_add_up(unet: UNet2DConditionModel, tmp_path: Path) -> None:
    before = unet.get_submodule(LINEAR).get_parameter("weight").clone()
    file = saved(lora(unet, "peft"), tmp_path)
    merge_lora(unet, file, 0.5)
    once = unet.get_submodule(LINEAR).get_parameter("weight").clone() - before
    merge_lora(unet, file, 1.0)
    torch.testing.assert_close(unet.get_submodule(LINEAR).get_parameter("weight"), before + 3 * once)


KOHYA, PEFT = f"lora_unet_{LINEAR.replace('.', '_')}", f"unet.{LINEAR}"


@pytest.mark.parametrize(
    ("form", "change", "said"),
    [
        ("kohya", {"lora_te_text_model_x.lora_down.weight": torch.ones(1)}, "changes the text encoder too"),
        ("peft", {"text_encoder.text_model.x.lora_A.weight": torch.ones(1)}, "changes the text encoder too"),
        (
            "kohya",
            {f"lora_unet_up_to_k.lora_{part}.weight": torch.ones(2, 2) for part in ("down", "up")},
            "belongs to no layer",
        ),
        ("peft", {f"unet.up.to_k.lora_{part}.weight": torch.ones(2, 2) for part in "AB"}, "belongs to no layer"),
        ("peft", {f"{PEFT}.hada_w1_a": torch.ones(2, 2)}, "belongs to no layer"),
        ("kohya", {f"{KOHYA}.lora_up.weight": None}, "none that diffusers can read: .*lora_up.weight"),
        ("peft", {f"{PEFT}.lora_B.weight": None}, r"has \['A'\], a pair needs A \(down\) and B \(up\)"),
        ("peft", {f"{PEFT}.lora_B.weight": torch.ones(32, 3)}, r"goes down to 2 channels and up from \[3\]"),
        ("kohya", {f"{KOHYA}.lora_up.weight": torch.ones(9, 2)}, r"shape \[9, 32\], the layer \[32, 32\]"),
        ("kohya", {f"{KOHYA}.dora_scale": torch.ones(32)}, "is a DoRA"),
    ],
)
def test_loras_that_do_not_fit_change_nothing(
    unet: UNet2DConditionModel,
    tmp_path: Path,
    form: str,
    change: dict[str, torch.Tensor | None],
    said: str,
) -> None:
    before = {name: value.clone() for name, value in unet.state_dict().items()}
    tensors = {name: value for name, value in (lora(unet, form) | change).items() if value is not None}
    with pytest.raises(CounterfactoryError, match=said):
        merge_lora(unet, saved(tensors, tmp_path))
    assert unet.state_dict().keys() == before.keys()
    for name, value in unet.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_folder_of_loras_is_refused(unet: UNet2DConditionModel, tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match="is a folder: name the LoRA's file in it"):
        merge_lora(unet, tmp_path)
