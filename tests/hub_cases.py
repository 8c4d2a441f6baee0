"""What a download says and keeps, profile by way of failing, over the stand-in of the hub (hub_stand_in.py).

    python tests/hub_cases.py [--write]

Repositories have the files that were published, a few bytes in each; all that a profile names is fetched as its
exporter fetches it. A case is right if what was said is one sentence with its reason, if nothing that had arrived is
lost, and if the same command goes on once the fault is gone. `--write` keeps `hub_cases` and `hub_cases_wrong` in
docs/a10g.json.
"""

from __future__ import annotations

import errno
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_stand_in import HubStandIn, look_there, served

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.published import checkpoints_of
from counterfactory.export.graphs.hub import fetch, locate
from counterfactory.export.language import llm

PROFILES = ("cpu", "gpu", "a10g", "a10g-fast", "lance")
ROOT = Path(__file__).parents[1]
_FORMS = (".safetensors", ".fp16.safetensors", ".bin", ".fp16.bin")
_WORDS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")


def _parts(stem: str, count: int, suffix: str) -> tuple[str, ...]:
    return tuple(f"{stem}-{i:05}-of-{count:05}.{suffix}" for i in range(1, count + 1))


# The files of each repository as they were published, but for pictures and other libraries' weights.
PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "microsoft/Florence-2-base": (
        *("README.md", "config.json", "preprocessor_config.json", "processing_florence2.py", "modeling_florence2.py"),
        *("configuration_florence2.py", "pytorch_model.bin", "tokenizer.json", "tokenizer_config.json", "vocab.json"),
    ),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF": ("README.md", "smollm2-1.7b-instruct-q4_k_m.gguf"),
    "openai/clip-vit-large-patch14": (
        *("README.md", "config.json", "preprocessor_config.json", *_WORDS, "model.safetensors", "pytorch_model.bin"),
        *("flax_model.msgpack", "tf_model.h5"),
    ),
    "stable-diffusion-v1-5/stable-diffusion-v1-5": (
        *("README.md", "model_index.json", "v1-5-pruned.safetensors", "v1-5-pruned-emaonly.safetensors"),
        *(f"{part}/config.json" for part in ("safety_checker", "text_encoder", "unet", "vae")),
        *(f"{part}/model{form}" for part in ("safety_checker", "text_encoder") for form in _FORMS),
        *(f"unet/diffusion_pytorch_model{form}" for form in (*_FORMS, ".non_ema.bin", ".non_ema.safetensors")),
        *(f"vae/diffusion_pytorch_model{form}" for form in _FORMS),
        "scheduler/scheduler_config.json",
    ),
    "lllyasviel/control_v11p_sd15_canny": (
        *("README.md", "config.json", "control_net_canny.py"),
        *(f"diffusion_pytorch_model{form}" for form in _FORMS),
    ),
    "latent-consistency/lcm-lora-sdv1-5": ("README.md", "pytorch_lora_weights.safetensors"),
    "ByteDance/Hyper-SD": ("README.md", *(f"Hyper-SD15-{n}steps-lora.safetensors" for n in (1, 2, 4, 8))),
    "madebyollin/taesd": (
        *("README.md", "config.json", "diffusion_pytorch_model.bin", "diffusion_pytorch_model.safetensors"),
        *("taesd_decoder.safetensors", "taesd_encoder.safetensors"),
    ),
    "Salesforce/blip2-opt-6.7b-coco": (
        *("README.md", "config.json", "generation_config.json", "preprocessor_config.json", *_WORDS),
        *("model.safetensors.index.json", *_parts("model", 4, "safetensors")),
        *("pytorch_model.bin.index.json", *_parts("pytorch_model", 4, "bin")),
    ),
    "meta-llama/Llama-2-13b-chat-hf": (
        *("README.md", "LICENSE.txt", "config.json", "generation_config.json", "tokenizer.model", *_WORDS[:3]),
        *("model.safetensors.index.json", *_parts("model", 3, "safetensors")),
        *("pytorch_model.bin.index.json", *_parts("pytorch_model", 3, "bin")),
    ),
    "sentence-transformers/all-MiniLM-L6-v2": (
        *("README.md", "config.json", "1_Pooling/config.json", "modules.json", "model.safetensors", *_WORDS[:3]),
        *("pytorch_model.bin", "vocab.txt"),
    ),
}


def write_hub(root: Path) -> None:
    """Every published file with a few thousand bytes in it, and indexes that name their parts."""
    draws = random.Random(0)
    for repository, files in PUBLISHED.items():
        for name in files:
            file = root / repository / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".index.json"):
                stem, _, suffix = name.removesuffix(".index.json").rpartition(".")
                parts = [one for one in files if re.fullmatch(rf"{stem}-\d+-of-\d+\.{suffix}", one)]
                file.write_text(json.dumps({"weight_map": {f"w{i}": part for i, part in enumerate(parts)}}))
            else:
                file.write_bytes(draws.randbytes(4000))


def commits() -> dict[str, str]:
    """The commits that the shipped profiles name, by repository."""
    named = [source for profile in PROFILES for source in sources(load_profile(profile))]
    return {source.partition("@")[0]: source.partition("@")[2].partition("/")[0] for source in named}


def sources(profile: Profile) -> list[str]:
    weights = profile.weights
    assert weights is not None
    one = (weights.blip2, weights.florence2, weights.diffusion, weights.clip, weights.llm, weights.tiny_vae)
    return [*filter(None, (*one, weights.sentence)), *weights.controlnets, *(weights.loras or ())]


def fetch_all(profile: Profile, folder: Path) -> None:
    """All that a profile's exporter opens: for a CPU the published table's files into `folder`, for a GPU what each
    network's maker locates.
    """
    weights = profile.weights
    assert weights is not None
    if profile.runtime.backend == "openvino":
        for checkpoint in checkpoints_of(weights):
            fetch(checkpoint, folder, lambda _: None)
        return
    with_words = ("config.json", "tokenizer.json")
    for source in filter(None, (weights.blip2, weights.florence2, weights.sentence)):
        locate(source, with_words)
    locate(weights.clip)
    locate(weights.clip, with_words, weights=False)
    locate(weights.diffusion, ("scheduler_config.json",), weights=False, part="scheduler")
    for part in ("unet", "vae"):
        locate(weights.diffusion, part=part)
    for source in weights.controlnets:
        locate(source, part="controlnet")
    if weights.tiny_vae:
        locate(weights.tiny_vae, part="vae")
    for source in weights.loras or ():
        locate(source)
    llm.fetch_llama(weights.llm)


@dataclass(frozen=True)
class Case:
    """What became of a case: what was `said`, "" where all arrived; how many files were `kept`; what is `wrong`."""

    profile: str
    way: str
    said: str
    kept: int
    wrong: str


@dataclass
class Box:
    """A machine with a hub: what a way of failing works on."""

    profile: Profile
    hub: HubStandIn
    cache: Path
    folder: Path
    patch: pytest.MonkeyPatch

    def command(self) -> str:
        """Fetches all; what was said where that did not go well."""
        try:
            fetch_all(self.profile, self.folder)
        except CounterfactoryError as error:
            return str(error)
        return ""

    @property
    def files(self) -> dict[Path, bytes]:
        """What has arrived, by its place; parts of files as well."""
        found = {path for top in (self.cache, self.folder) for path in top.rglob("*") if ".no_exist" not in path.parts}
        return {path: path.read_bytes() for path in found if path.is_file() and not path.is_symlink()}

    @property
    def large(self) -> str:
        """A weight of the profile that comes neither first nor last."""
        return "vae/diffusion_pytorch_model.safetensors" if self.profile.name != "cpu" else "model.safetensors"


# What each way of failing makes wrong, and what undoes it; the reason that has to be said, "" where nothing stops.
Way = Callable[[Box], Callable[[], None]]


def _fault(**of: Any) -> Way:
    def begin(box: Box) -> Callable[[], None]:
        fault = box.hub.fault(**{"file": box.large, **of})
        return lambda: setattr(fault, "times", 0)

    return begin


def _filled(box: Box) -> None:
    assert box.command() == ""
    box.hub.asked.clear()


def _offline(box: Box) -> Callable[[], None]:
    _filled(box)
    box.patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return _nothing


def _unreachable(box: Box) -> Callable[[], None]:
    _filled(box)
    for mark in box.cache.rglob(".no_exist"):
        shutil.rmtree(mark)  # as a cache that `hf download` filled
    box.patch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{filename}"
    )
    return _nothing


def _no_network(box: Box) -> Callable[[], None]:
    from huggingface_hub import constants

    true = constants.HUGGINGFACE_CO_URL_TEMPLATE
    box.patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{filename}{revision}")
    return lambda: box.patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", true)


def _asked_not_to(box: Box) -> Callable[[], None]:
    box.patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return lambda: box.patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def _proxy(box: Box) -> Callable[[], None]:
    from huggingface_hub import close_session

    close_session()
    box.patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    box.patch.setenv("NO_PROXY", "")

    def undo() -> None:
        box.patch.delenv("HTTP_PROXY")
        close_session()

    return undo


def _no_room(box: Box) -> Callable[[], None]:
    from counterfactory.export.graphs import download

    box.patch.setattr(download, "shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=1000)))
    return lambda: box.patch.setattr(download, "shutil", shutil)


def _room_ends(box: Box) -> Callable[[], None]:
    """Half-way: the disk fills while a file is written."""
    from counterfactory.export.graphs import download

    write_into = download._Told._write
    box.patch.setattr(download._Told, "_write", lambda self, data: _write_half(self, data, box, write_into))
    return lambda: box.patch.setattr(download._Told, "_write", write_into)


def _write_half(told: Any, data: bytes, box: Box, write: Callable[[Any, bytes], int]) -> int:
    if box.large.endswith(told.file.name):
        write(told, data[:1500])
        raise OSError(errno.ENOSPC, "No space left on device")
    return write(told, data)


def _dangling(box: Box) -> Callable[[], None]:
    """A cache whose links lead nowhere: its blobs were deleted."""
    _filled(box)
    for blob in [path for path in box.cache.rglob("blobs/*") if len(path.read_bytes()) == 4000][::2]:
        blob.unlink()
    for file in list(box.files)[::2] if box.profile.name == "cpu" else ():
        file.unlink()
        file.symlink_to("/nowhere/at/all")
    return _nothing


def _other_content(box: Box) -> Callable[[], None]:
    from counterfactory.export.graphs import download

    true = download.file_digest
    box.patch.setattr(download, "file_digest", lambda path: "0" * 64)
    return lambda: box.patch.setattr(download, "file_digest", true)


def _moved(box: Box) -> Callable[[], None]:
    """The commit is gone from the hub."""
    name = next(name for name in box.hub.commits if name.startswith(("stable-diffusion", "openai")))
    true = dict(box.hub.commits)
    box.hub.commits = {**true, name: "0" * 40}
    return lambda: setattr(box.hub, "commits", true)


def _nothing() -> None:
    pass


WAYS: Mapping[str, tuple[Way, str]] = {
    "nothing": (lambda _: _nothing, ""),
    "full cache, HF_HUB_OFFLINE": (_offline, ""),
    "full cache, no network": (_unreachable, ""),
    "nothing here, no network": (_no_network, "cannot be reached"),
    "nothing here, HF_HUB_OFFLINE": (_asked_not_to, "HF_HUB_OFFLINE is set"),
    "connection cut once": (_fault(cut=1500, times=1), ""),
    "connection cut for good": (_fault(cut=300), "broke off|cannot be reached"),
    "commit gone": (_moved, "no such commit"),
    "file gone": (_fault(file="scheduler_config.json", status=404, code="EntryNotFound"), "has no file"),
    "401": (
        _fault(status=401, headers={"X-Error-Message": "Invalid credentials in Authorization header"}),
        "your token",
    ),
    "401 unknown repository": (_fault(status=401, code="RepoNotFound"), "shows it to others alone"),
    "403": (_fault(status=403), "may not read"),
    "403 gated": (_fault(status=403, code="GatedRepo"), "accept its terms"),
    "429 for a while": (_fault(status=429, headers={"Retry-After": "37"}, times=2), ""),
    "429 for a while, by its limits": (_fault(status=429, headers={"ratelimit": '"resolvers";r=0;t=55'}, times=2), ""),
    "429 while content is sent": (_fault(content=429, headers={"Retry-After": "37"}, times=2), ""),
    "429 for an hour": (_fault(status=429, headers={"Retry-After": "3600"}), r"wait 3601 s \(429\)"),
    "429 again and again": (_fault(status=429, headers={"Retry-After": "37"}), r"wait 38 s \(429\)"),
    "429 without a time": (_fault(status=429), r"wait some time \(429\)"),
    "503": (_fault(status=503), r"out of order \(503\)"),
    "a proxy that is not there": (_proxy, "by the proxy http://127.0.0.1:9"),
    "a proxy that refuses": (_fault(status=407), "the proxy.* refuses"),
    "no room": (_no_room, "MB more .* make room"),
    "no room half-way": (_room_ends, "make room"),
    "links that lead nowhere": (_dangling, ""),
    "other bytes than published": (_other_content, "did not arrive as it was published"),
}
_SECONDS = 30


def tried(name: str, way: str, work: Path) -> Case:
    """One case: the command with the fault, and again without it."""
    profile, (begin, reason) = load_profile(name), WAYS[way]
    with pytest.MonkeyPatch.context() as patch, served(work / "hub", commits()) as hub:
        cache = work / "cache"
        cache.mkdir()
        (work / "weights").mkdir()
        look_there(hub, cache, patch)
        patch.setattr("counterfactory.export.graphs.download._print", lambda _: None)
        # Between tries of one download the client waits for a second, and where the hub asks for patience the command.
        clock = SimpleNamespace(sleep=lambda _: None, time=time.time, monotonic=time.monotonic)
        patch.setattr("huggingface_hub.file_download.time", clock)
        patch.setattr("counterfactory.export.graphs.download.time", clock)
        box = Box(profile, hub, cache, work / "weights", patch)
        undo = begin(box)
        began = time.monotonic()
        said, kept = box.command(), box.files
        took = time.monotonic() - began
        undo()
        wrong = _wrong(box, said, reason, kept, took)
    return Case(name, way, said, len(kept), wrong)


def _wrong(box: Box, said: str, reason: str, kept: Mapping[Path, bytes], took: float) -> str:
    if bool(said) != bool(reason) or not re.search(reason, said):
        return f"said {said!r}, not {reason!r}"
    if "\n" in said or "Error" in said or ". " in said.rstrip("."):
        return f"no sentence: {said!r}"
    if took > _SECONDS:
        return f"took {took:.0f} s"
    asked = [path for method, path, _ in box.hub.asked if method == "GET" and "/resolve/" in path]
    if len(asked) > len(set(asked)) + 10:
        return "files were fetched again"
    box.hub.asked.clear()
    if again := box.command():
        return f"the same command did not go on: {again}"
    whole = {path for path in kept if not path.name.endswith(".part")}
    if any(path.read_bytes() != kept[path] for path in whole):
        return "what was there changed"
    ranges = [range_ for _, _, range_ in box.hub.asked if range_]
    parts = [path for path in kept if path.name.endswith(".part") and kept[path]]
    return "" if len(ranges) >= len(parts) else "a part was not gone on with"


@contextmanager
def hub_of_published(folder: Path) -> Iterator[Path]:
    write_hub(folder / "hub")
    yield folder


def main() -> int:
    from measure import DOCS, finish

    cases = []
    for name in PROFILES:
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder, hub_of_published(Path(folder)) as work:
                cases.append(tried(name, way, work))
                print(
                    f"{name:<10} {way:<30} kept {cases[-1].kept:>2}  {cases[-1].wrong or cases[-1].said or 'all there'}"
                )
    wrong = [asdict(case) for case in cases if case.wrong]
    figures = {"hub_cases": len(cases), "hub_cases_wrong": len(wrong)}
    finish(
        "downloads say and keep what they should", into=DOCS / "a10g.json" if "--write" in sys.argv else None, **figures
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "bench"))
    sys.exit(main())
