"""The networks of GPU boxes' profiles, over HTTP: from published names, types and forms, in little, by ID@COMMIT."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path

import hub_cases
import pytest
import small_hub
import torch
from diffusers import AutoencoderKL
from exporter import run_exporter
from hub_stand_in import look_there, served
from safetensors.torch import load_file, save_file
from tiny_bert import save_bert
from transformers import Blip2ForConditionalGeneration

from counterfactory.export.graphs.weights import fill
from counterfactory.export.production import vae
from counterfactory.export.production.small_words import clip_tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from test_published import saved

# Of each profile the networks that no other makes of the same files, nor cpu, whose networks tests/cli/test_setup.py
# makes; in OpenVINO's form, but for one in its own.
NETWORKS = {
    "a10g": "opt_decoder,blip2_vision,sentence,vae_decoder",
    "a10g-fast": "denoiser,vae_decoder",
    "lance": "vae_encoder",
    "gpu": "opt_decoder",
}
OPENVINO = ("--precision", "openvino")
FORMS = {"gpu": ("--precision", "fp16", "--islands", "timestep,normalisation")}


def write_published(root: Path) -> None:
    """Parts in bf16, fp16 beside float32, a pickle alone, and tensors that belong to other heads."""
    blip2 = root / "Salesforce" / "blip2-opt-6.7b-coco"
    how = {"dtype": torch.bfloat16, "max_shard_size": "3MB"}
    saved(Blip2ForConditionalGeneration, "blip2-opt-6.7b-coco", blip2, 1, **how)
    clip_tokenizer(50304, 77).save(str(blip2 / "tokenizer.json"))
    small_hub.write_clip(root)
    small_hub.write_captioner(root)
    small_hub.write_painter(root, root / "ByteDance" / "Hyper-SD" / "Hyper-SD15-2steps-lora.safetensors")
    autoencoder = AutoencoderKL(**{**vae.KL, "layers_per_block": 1, "block_out_channels": (8,) * 4}, norm_num_groups=8)
    fill(autoencoder, 4)
    autoencoder.save_pretrained(root / small_hub.PIPELINE / "vae")
    autoencoder.half().save_pretrained(root / small_hub.PIPELINE / "vae", variant="fp16")
    small_hub.write_small_decoder(root, safe_serialization=False)
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
        words = ("--profile", profile, "--out", str(tmp_path / profile), "--only", only)
        assert run_exporter("a10g", *words, *FORMS.get(profile, OPENVINO), *options) == 0, profile

    with served(tmp_path / "hub", hub_cases.commits()) as hub:
        look_there(hub, tmp_path / "cache", monkeypatch)
        for profile, only in NETWORKS.items():
            exported(profile, only)
            for name in only.split(","):
                made = f"onnx/{name}*/model.onnx" if profile in FORMS else f"{name}*.xml"
                assert len(list((tmp_path / profile).glob(made))) == 1, (profile, name)
        names = hub.fetched()
    assert max(Counter(names).values()) <= len(hub_cases.PUBLISHED), "nothing is fetched for each network"
    assert len(names) < 40
    assert not any(".fp16" in name for name in names), "what is better lies beside it"
    for mark in list((tmp_path / "cache").rglob(".no_exist")):
        shutil.rmtree(mark)  # as a cache that `hf download` filled
    exported("a10g-fast", "vae_decoder", "--again")
    exported("a10g", "sentence", "--again")
