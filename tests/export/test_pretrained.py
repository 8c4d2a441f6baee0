"""Nothing is loaded with random numbers: what a checkpoint lacks, holds besides, or has half of is said by its name."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from tiny_bert import save_bert
from transformers import CLIPModel

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.export.graphs.sentence import load_bert
from counterfactory.export.graphs.weights import tensors
from counterfactory.export.production import clip, denoiser, hed, vae
from counterfactory.export.production.graph import Request, Sources

sys.path.insert(0, str(Path(__file__).parent))
from test_published import saved


def diffusion(folder: Path) -> Request:
    return Request(Sources(diffusion=str(folder), controlnets=(str(folder),), tiny_vae=None))


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "clip": (
        lambda folder: saved(CLIPModel, "clip-vit-large-patch14", folder, 1),
        lambda folder: clip.build(Request(Sources(clip=str(folder)))),
    ),
    "bert": (save_bert, load_bert),
    "unet": (
        lambda folder: saved(UNet2DConditionModel, "stable-diffusion-v1-5.unet", folder, 1),
        lambda folder: denoiser.load_part(UNet2DConditionModel, str(folder), "unet"),
    ),
    "controlnet": (
        lambda folder: saved(ControlNetModel, "control_v11p_sd15_canny", folder, 1),
        lambda folder: denoiser.build_controlnet(Request(Sources(controlnets=(str(folder),))), 0),
    ),
    "vae": (
        lambda folder: saved(AutoencoderKL, "stable-diffusion-v1-5.vae", folder, 1),
        lambda folder: vae.build(diffusion(folder)),
    ),
    "taesd": (
        lambda folder: saved(AutoencoderTiny, "taesd", folder, 1),
        lambda folder: vae.build(Request(Sources(tiny_vae=str(folder)))),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_left_over_or_cut_is_said(kind: str, tmp_path: Path, capfd: Any) -> None:
    write, read = KINDS[kind]
    write(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    whole, data = load_file(file), file.read_bytes()
    gone = sorted(whole)[len(whole) // 2]

    def said(changed: dict[str, torch.Tensor]) -> str:
        save_file(changed, file, {"format": "pt"})
        with pytest.raises(CounterfactoryError) as refused:
            read(tmp_path)
        return str(refused.value)

    assert gone in said({name: tensor for name, tensor in whole.items() if name != gone})
    assert "stranger.weight" in said({**whole, "stranger.weight": torch.zeros(2)})
    said({**whole, gone: torch.zeros(7, 5, 3)})
    for length in (0, 5, len(data) // 2, len(data) - 3):
        file.write_bytes(data[:length])
        with pytest.raises(CounterfactoryError):
            read(tmp_path)
    save_file({**whole, "text_model.embeddings.position_ids": torch.zeros(1)}, file, {"format": "pt"})
    level = logging.getLogger("transformers").level
    capfd.readouterr()
    assert read(tmp_path) is not None, "tables of positions are no weights"
    assert "UNEXPECTED" not in "".join(capfd.readouterr())
    assert logging.getLogger("transformers").level == level


def test_the_heads_of_a_sentence_encoder_may_lie_beside_it(tmp_path: Path) -> None:
    save_bert(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    save_file({**load_file(file), "pooler.dense.weight": torch.zeros(2)}, file, {"format": "pt"})
    assert load_bert(tmp_path) is not None


class Bomb:
    """What runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("/tmp/counterfactory-bomb"),)


def test_pickles_are_read_in_both_forms_and_nothing_of_them_is_executed(tmp_path: Path) -> None:
    network = hed.Hed(hed._SMALL_WIDTHS, hed._SMALL_DEPTHS)
    wanted = network.state_dict()
    for form in (True, False):
        torch.save(wanted, tmp_path / "a.pth", _use_new_zipfile_serialization=form)
        found = tensors(tmp_path / "a.pth")
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        data = (tmp_path / "a.pth").read_bytes()
        for length in (0, 7, len(data) // 2, len(data) - 9):
            (tmp_path / "cut.pth").write_bytes(data[:length])
            with pytest.raises(CounterfactoryError, match="cannot be read"):
                tensors(tmp_path / "cut.pth")
        torch.save({"state_dict": wanted, "epoch": 3}, tmp_path / "b.pth", _use_new_zipfile_serialization=form)
        assert tensors(tmp_path / "b.pth").keys() == wanted.keys()
        for wrong in ({"weight": Bomb()}, Bomb(), [torch.zeros(1)], network):
            torch.save(wrong, tmp_path / "c.pth", _use_new_zipfile_serialization=form)
            with pytest.raises(CounterfactoryError, match="cannot be read"):
                tensors(tmp_path / "c.pth")
    assert not Path("/tmp/counterfactory-bomb").exists()
