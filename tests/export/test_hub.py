"""What is fetched from the hub: the files that are opened, of repositories that hold the same weights in many forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from exporter import run_exporter
from huggingface_hub.errors import GatedRepoError

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.graphs.download import HubFile, UnreachableError
from counterfactory.export.graphs.hub import locate
from counterfactory.export.language import llm
from counterfactory.export.production import blip2, clip, command, denoiser, hed, vae
from counterfactory.export.production.graph import Request, Sources

COMMIT = "a1" * 20
_FORMS = (".safetensors", ".fp16.safetensors", ".bin", ".fp16.bin")
_FIRST, _GENERATION = ("README.md", "config.json"), "generation_config.json"
_WORDS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
_IN_PARTS = (
    *("model.safetensors.index.json", *(f"model-0000{i}-of-00002.safetensors" for i in (1, 2))),
    *("pytorch_model.bin.index.json", *(f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2))),
)
# The files of the repositories that docs/a10g.md names, by what they are for.
REPOSITORIES: dict[str, tuple[str, ...]] = {
    "stable-diffusion-v1-5/stable-diffusion-v1-5": (
        *("README.md", "model_index.json", "v1-inference.yaml", "feature_extractor/preprocessor_config.json"),
        *(f"v1-5-pruned{kind}" for kind in (".ckpt", ".safetensors", "-emaonly.ckpt", "-emaonly.safetensors")),
        *(f"{part}/config.json" for part in ("safety_checker", "text_encoder", "unet", "vae")),
        *(f"{part}/model{form}" for part in ("safety_checker", "text_encoder") for form in _FORMS),
        *(f"unet/diffusion_pytorch_model{form}" for form in (*_FORMS, ".non_ema.bin", ".non_ema.safetensors")),
        *(f"vae/diffusion_pytorch_model{form}" for form in _FORMS),
        "scheduler/scheduler_config.json",
    ),
    "lllyasviel/control_v11p_sd15_canny": (
        *_FIRST,
        *("control_net_canny.py", "images/input.png", *(f"diffusion_pytorch_model{form}" for form in _FORMS)),
    ),
    "openai/clip-vit-large-patch14": (
        *(*_FIRST, "preprocessor_config.json", *_WORDS, "model.safetensors", "pytorch_model.bin"),
        *("flax_model.msgpack", "tf_model.h5"),
    ),
    "Salesforce/blip2-opt-6.7b-coco": (*_FIRST, _GENERATION, "preprocessor_config.json", *_WORDS, *_IN_PARTS),
    "meta-llama/Llama-2-13b-chat-hf": (*_FIRST, _GENERATION, "tokenizer.model", *_WORDS[:3], *_IN_PARTS),
    "lllyasviel/Annotators": ("ControlNetHED.pth", "ZoeD_M12_N.pt", "body_pose_model.pth", "upernet_global_small.pth"),
    "made/of-bin": ("config.json", "pytorch_model.bin"),
    "made/of-half": ("config.json", "diffusion_pytorch_model.fp16.safetensors"),
    "made/of-nothing": ("config.json",),
}


@dataclass
class Hub:
    """The hub as its client sees it: repositories by their files, each without content but indexes."""

    cache: Path
    fetched: list[str] = field(default_factory=list)

    def __call__(self, asked: HubFile) -> Path:
        repo, file = asked.repository, asked.name
        assert asked.revision == COMMIT
        if repo not in REPOSITORIES:
            raise UnreachableError("no network, and nothing of it is here")
        if file not in REPOSITORIES[repo]:
            raise FileNotFoundError(file)
        path = self.cache / repo / file
        if not path.exists():
            self.fetched.append(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            form = file.removesuffix(".index.json").rpartition(".")
            parts = {f"w{i}": f"{form[0]}-0000{i}-of-00002.{form[2]}" for i in (1, 2)}
            path.write_text(json.dumps({"weight_map": parts}) if file.endswith(".index.json") else "?")
        return path


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(tmp_path)
    monkeypatch.setattr("counterfactory.export.graphs.hub.download", made)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    return made


def named(what: str) -> Request:
    """The request for a network of the profile's own repositories, at a commit that the test's hub knows."""
    weights = load_profile("a10g").weights
    assert weights is not None
    usual = {"controlnets": weights.controlnets[0], "hed": "lllyasviel/Annotators@"}
    found = f"{(usual.get(what) or getattr(weights, what)).partition('@')[0]}@{COMMIT}"
    return Request(Sources(**{what: (found,) if what == "controlnets" else found}))


@pytest.mark.parametrize(
    ("what", "read", "wanted"),
    [
        ("diffusion", denoiser.build_unet, ["unet/config.json", "unet/diffusion_pytorch_model.safetensors"]),
        ("diffusion", vae.build, ["vae/config.json", "vae/diffusion_pytorch_model.safetensors"]),
        ("diffusion", denoiser.scheduler_of, ["scheduler/scheduler_config.json"]),
        ("controlnets", denoiser.build_controlnets, ["config.json", "diffusion_pytorch_model.safetensors"]),
        ("clip", clip.build, ["config.json", "model.safetensors"]),
        ("clip", clip.tokenizer_of, ["config.json", "tokenizer.json"]),
        ("blip2", blip2.build_eyes, ["config.json", "tokenizer.json", *_IN_PARTS[:3]]),
        ("hed", hed.build, ["ControlNetHED.pth"]),
    ],
    ids=["unet", "vae", "scheduler", "controlnet", "clip", "clip's words", "blip2", "hed"],
)
def test_what_is_opened_is_fetched_and_nothing_else(
    hub: Hub, what: str, read: Callable[[Request], Any], wanted: list[str]
) -> None:
    with suppress(Exception):  # there is nothing in the files
        read(named(what))
    assert hub.fetched == wanted


def test_a_language_model_comes_with_the_words_that_it_has(hub: Hub) -> None:
    folder = locate(f"meta-llama/Llama-2-13b-chat-hf@{COMMIT}", llm._FILES, optional=llm._OPTIONAL)
    assert folder == hub.cache / "meta-llama/Llama-2-13b-chat-hf"
    wanted = {"config.json", "generation_config.json", "tokenizer.model", *_WORDS[:3]}
    assert set(hub.fetched) == {*wanted, *_IN_PARTS[:3]}


def test_other_forms_are_taken_where_there_is_no_better_one(hub: Hub) -> None:
    locate(f"made/of-bin@{COMMIT}")
    locate(f"made/of-half@{COMMIT}", part="unet")
    assert hub.fetched == ["config.json", "pytorch_model.bin", *REPOSITORIES["made/of-half"]]
    with pytest.raises(CounterfactoryError, match=r"of-nothing at a1a1a1a1a1a1 has none of model\.safetensors, "):
        locate(f"made/of-nothing@{COMMIT}")


def test_weights_are_a_path_or_a_pinned_id(tmp_path: Path) -> None:
    assert locate(str(tmp_path)) == tmp_path
    for unpinned in ("openai/clip-vit-large-patch14", "no/where@main", str(tmp_path / "absent")):
        with pytest.raises(CounterfactoryError, match="are no existing path and no hub id with its commit"):
            locate(unpinned)


def test_one_file_is_fetched_by_its_name(hub: Hub) -> None:
    source = f"stable-diffusion-v1-5/stable-diffusion-v1-5@{COMMIT}/vae/config.json"
    assert locate(source) == hub.cache / "stable-diffusion-v1-5/stable-diffusion-v1-5/vae/config.json"
    assert hub.fetched == ["vae/config.json"]
    with pytest.raises(CounterfactoryError, match=r"at a1a1a1a1a1a1 has no file vae/none.json"):
        locate(source.replace("config", "none"))
    with pytest.raises(UnreachableError, match="no network"):
        locate(f"some/absent@{COMMIT}")


def test_what_is_here_is_not_asked_for_again(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network too: the cache knows its files, and what the hub has not."""
    here = {"config.json": str(tmp_path / "config.json"), "model.safetensors.index.json": object()}
    here["model.safetensors"] = str(tmp_path / "model.safetensors")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, file, revision: here.get(file))
    assert locate(f"some/absent@{COMMIT}") == tmp_path
    assert hub.fetched == []


def test_what_the_user_may_not_fetch_is_said_before_anything_is_made(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The language model is made last: its gate is looked at first."""
    gate = httpx2.Response(403, request=httpx2.Request("GET", "x:"))
    asked: list[str] = []

    def auth_check(self: Any, repo: str) -> None:
        asked.append(repo)
        if repo.startswith("meta-llama/"):
            raise GatedRepoError("gated", response=gate)

    monkeypatch.setattr("huggingface_hub.HfApi.auth_check", auth_check)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(command, "export_all", lambda *_, **__: asked.append("export") or [])
    assert run_exporter("a10g", "--out", str(tmp_path / "box")) == 2
    assert "log in with 'hf auth login'" in capsys.readouterr().err
    assert {"meta-llama/Llama-2-13b-chat-hf", "lllyasviel/control_v11p_sd15_canny"} <= set(asked)
    assert "export" not in asked
    assert run_exporter("a10g", "--out", str(tmp_path / "box"), "--only", "hint") == 0
    assert asked[-1] == "export"
