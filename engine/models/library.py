"""The folder of exported models, and how each is opened.

    blip2_vision.xml  opt_decoder.xml  opt_embeddings.npy  opt_tokenizer.json     image to caption
    llm.gguf                                                                      caption to edits
    clip_text.xml  clip_image.xml  clip_tokenizer.json                            conditioning and checks
    hint.xml  denoiser.xml  vae_decoder.xml  latent.json                          edges and text to picture

Nothing is opened before it is asked for, so that a run with nothing left to do loads nothing. `digest` names the
content of what a stage uses, for its results' keys; what opened plans load and compute is told to the meter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..runtime.genai import GenaiLlm
from ..runtime.openvino import open_session, resolve_precision
from ..runtime.session import RuntimeSettings
from ..schedule.meter import Meter
from .batching import Batched
from .blip2 import Blip2
from .clip import ClipImage, ClipText, load_tokenizer
from .denoiser import ShapePlans

Stage = Literal["caption", "rewrite", "paint", "check"]

# The networks of each stage; the language model is llm.gguf, all others are NAME.xml beside NAME.bin.
PLANS: Mapping[Stage, tuple[str, ...]] = MappingProxyType(
    {
        "caption": ("blip2_vision", "opt_decoder"),
        "rewrite": ("llm",),
        "paint": ("clip_text", "hint", "denoiser", "vae_decoder"),
        "check": ("clip_image", "clip_text"),
    }
)
_BESIDE: Mapping[Stage, tuple[str, ...]] = MappingProxyType(
    {
        "caption": ("opt_embeddings.npy", "opt_tokenizer.json"),
        "rewrite": (),
        "paint": ("latent.json", "clip_tokenizer.json"),
        "check": ("clip_tokenizer.json",),
    }
)


def plan_files(plan: str) -> tuple[str, ...]:
    """The files of a network, the one that is loaded first."""
    return ("llm.gguf",) if plan == "llm" else (f"{plan}.xml", f"{plan}.bin")


@dataclass
class Library:
    """The models of one folder under one runtime."""

    path: Path
    runtime: RuntimeSettings
    _digests: dict[str, str] = field(default_factory=dict)

    def digest(self, stage: Stage) -> str:
        """A key of the content of the files that a stage uses, and of the precision they run in.

        Raises CounterfactoryError when one is missing.
        """
        names = [name for plan in PLANS[stage] for name in plan_files(plan)] + list(_BESIDE[stage])
        for name in names:
            if name not in self._digests:
                self._digests[name] = file_digest(self.existing(name))
        return content_key([self._digests[name] for name in names], resolve_precision(self.runtime.precision))

    def blip2(self, batch: int, meter: Meter) -> Blip2:
        """The captioner."""
        table = np.load(self.existing("opt_embeddings.npy")).astype(np.float32)
        tokenizer = load_tokenizer(self.path / "opt_tokenizer.json")
        bos, eos = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
        if bos is None or eos is None:
            raise CounterfactoryError(
                f"{self.path / 'opt_tokenizer.json'} has no <s> or no </s>: export the captioner again"
            )
        vision, decoder = self._opened("blip2_vision", batch, meter), self._opened("opt_decoder", batch, meter)
        return Blip2(vision, decoder, table, tokenizer, bos, eos)

    def llm(self, meter: Meter) -> GenaiLlm:
        """The rewriting model."""
        precision = resolve_precision(self.runtime.precision)
        with meter.loading("llm"):
            return GenaiLlm(self.existing("llm.gguf"), precision=precision, threads=self.runtime.threads)

    def clip_text(self, batch: int, meter: Meter) -> ClipText:
        """The text encoder."""
        tokenizer = load_tokenizer(self.path / "clip_tokenizer.json")
        return ClipText(self._opened("clip_text", batch, meter), tokenizer)

    def clip_image(self, batch: int, meter: Meter) -> ClipImage:
        """The image encoder."""
        return ClipImage(self._opened("clip_image", batch, meter))

    def painter(self, height: int, width: int, batch: int, decode_batch: int, meter: Meter) -> ShapePlans:
        """The painter's plans for pictures of a size in pixels."""
        latent = json.loads(self.existing("latent.json").read_text())
        size = (height // int(latent["factor"]), width // int(latent["factor"]))
        return ShapePlans(
            self._opened("hint", 1, meter, {"hint": (height, width)}),
            self._opened("denoiser", batch, meter, {"latents": size, "hint_embedding": size}),
            self._opened("vae_decoder", decode_batch, meter, {"latents": size}),
            (int(latent["channels"]), *size),
        )

    def existing(self, name: str) -> Path:
        """The path of a file of the folder. Raises CounterfactoryError when it is missing."""
        file = self.path / name
        if not file.is_file():
            raise CounterfactoryError(
                f"model file {file} is missing; reinstall counterfactory or correct [models] folder"
            )
        return file

    def _opened(self, plan: str, batch: int, meter: Meter, sizes: dict[str, tuple[int, int]] | None = None) -> Batched:
        runtime = self.runtime
        file = self.path / f"{plan}.xml"
        with meter.loading(plan):
            session = open_session(file, batch=batch, precision=runtime.precision, threads=runtime.threads, sizes=sizes)
        return Batched(session, lambda: meter.work(meter.current, plan))
