"""The networks of GPU boxes' profiles, over HTTP: from published names, types and forms, in little, by ID@COMMIT."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import hub_cases
import pytest
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from exporter import run_exporter
from hub_stand_in import look_there, served
from safetensors.torch import load_file, save_file
from tiny_bert import save_bert
from transformers import Blip2ForConditionalGeneration, CLIPModel

from counterfactory.export.production import denoiser
from counterfactory.export.production.small_words import clip_tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from test_published import made, saved

# Of each profile the networks that no other makes of the same files.
NETWORKS = {
    "a10g": "opt_decoder,blip2_vision,sentence,clip_text,vae_decoder",
    "a10g-fast": "denoiser,vae_decoder",
    "lance": "vae_encoder",
}


def write_published(root: Path) -> None:
    """Parts in bf16, fp16 beside float32, a pickle alone, and tensors that belong to other heads."""
    blip2 = root / "Salesforce" / "blip2-opt-6.7b-coco"
    how = {"dtype": torch.bfloat16, "max_shard_size": "3MB"}
    saved(Blip2ForConditionalGeneration, "blip2-opt-6.7b-coco", blip2, 1, **how)
    clip_tokenizer(50304, 77).save(str(blip2 / "tokenizer.json"))
    clip = root / "openai" / "clip-vit-large-patch14"
    saved(CLIPModel, "clip-vit-large-patch14", clip, 2)
    clip_tokenizer(49408, 77).save(str(clip / "tokenizer.json"))
    pipeline = root / "stable-diffusion-v1-5" / "stable-diffusion-v1-5"
    for kind, part, seed in ((UNet2DConditionModel, "unet", 3), (AutoencoderKL, "vae", 4)):
        saved(kind, f"stable-diffusion-v1-5.{part}", pipeline / part, 90, dtype=torch.float16, variant="fp16")
        saved(kind, f"stable-diffusion-v1-5.{part}", pipeline / part, seed)
    (pipeline / "scheduler").mkdir()
    (pipeline / "scheduler" / "scheduler_config.json").write_text(json.dumps(dict(denoiser.SCHEDULER)))
    saved(ControlNetModel, "control_v11p_sd15_canny", root / "lllyasviel" / "control_v11p_sd15_canny", 5)
    saved(AutoencoderTiny, "taesd", root / "madebyollin" / "taesd", 6, safe_serialization=False)
    deltas = {}
    for name, module in made(UNet2DConditionModel, "stable-diffusion-v1-5.unet", 3).named_modules():
        if name.endswith(("to_q", "to_v")):
            for part, shape in (("down", (2, module.in_features)), ("up", (module.out_features, 2))):
                deltas[f"lora_unet_{name.replace('.', '_')}.lora_{part}.weight"] = torch.full(shape, 0.01)
    (root / "ByteDance" / "Hyper-SD").mkdir(parents=True)
    save_file(deltas, root / "ByteDance" / "Hyper-SD" / "Hyper-SD15-2steps-lora.safetensors")
    sentence = root / "sentence-transformers" / "all-MiniLM-L6-v2"
    save_bert(sentence)
    file = sentence / "model.safetensors"
    save_file({**load_file(file), "pooler.dense.weight": torch.zeros(32, 32)}, file, {"format": "pt"})


@pytest.mark.slow
def test_networks_are_exported_from_a_hub_and_then_without_one(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_published(tmp_path / "hub")

    def exported(profile: str, only: str, *options: str) -> None:
        words = ("--profile", profile, "--out", str(tmp_path / profile), "--only", only, "--precision", "openvino")
        assert run_exporter("a10g", *words, *options) == 0, profile

    with served(tmp_path / "hub", hub_cases.commits()) as hub:
        look_there(hub, tmp_path / "cache", monkeypatch)
        for profile, only in NETWORKS.items():
            exported(profile, only)
            for name in only.split(","):
                assert len(list((tmp_path / profile).glob(f"{name}*.xml"))) == 1, (profile, name)
        names = hub.fetched()
    assert max(Counter(names).values()) <= len(hub_cases.PUBLISHED), "nothing is fetched for each network"
    assert len(names) < 35
    assert not any(".fp16" in name for name in names), "what is better lies beside it"
    for mark in list((tmp_path / "cache").rglob(".no_exist")):
        shutil.rmtree(mark)  # as a cache that `hf download` filled
    exported("a10g-fast", "vae_decoder", "--again")
    exported("a10g", "sentence,vae_decoder", "--again")
