"""The folder of exported models, and how each is opened.

    blip2_vision.xml  opt_decoder.xml  opt_embeddings.npy  opt_tokenizer.json     image to caption
    llm.gguf                                                                      caption to edits
    clip_text.xml  clip_image.xml  clip_tokenizer.json                            conditioning and checks
    hint.xml  denoiser.xml  vae_decoder.xml  latent.json                          edges and text to picture

Nothing is opened before it is asked for, so that a run with nothing left to do loads nothing. `digest` names the
content of what a stage uses, for its results' keys.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..runtime.genai import GenaiLlm
from ..runtime.openvino import OpenVinoSession, open_session, resolve_precision
from ..runtime.session import RuntimeSettings
from .blip2 import Blip2
from .clip import ClipImage, ClipText, load_tokenizer
from .denoiser import DenoiserPlans, ShapePlans

Role = Literal["caption", "rewrite", "paint", "check"]

_FILES: dict[Role, tuple[str, ...]] = {
    "caption": ("blip2_vision", "opt_decoder", "opt_embeddings.npy", "opt_tokenizer.json"),
    "rewrite": ("llm.gguf",),
    "paint": ("hint", "denoiser", "vae_decoder", "latent.json", "clip_text", "clip_tokenizer.json"),
    "check": ("clip_text", "clip_image", "clip_tokenizer.json"),
}


@dataclass
class Library:
    """The models of one folder under one runtime."""

    path: Path
    runtime: RuntimeSettings
    _digests: dict[str, str] = field(default_factory=dict)

    def digest(self, role: Role) -> str:
        """A key of the content of the files that a stage uses, and of the precision they run in.

        Raises CounterfactoryError when one is missing.
        """
        names = [part for name in _FILES[role] for part in ((name,) if "." in name else (f"{name}.xml", f"{name}.bin"))]
        for name in names:
            if name not in self._digests:
                self._digests[name] = file_digest(self._existing(name))
        return content_key([self._digests[name] for name in names], resolve_precision(self.runtime.precision))

    def blip2(self, batch: int) -> Blip2:
        """The captioner."""
        table = np.load(self._existing("opt_embeddings.npy")).astype(np.float32)
        tokenizer = load_tokenizer(self.path / "opt_tokenizer.json")
        bos, eos = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
        if bos is None or eos is None:
            raise CounterfactoryError(
                f"{self.path / 'opt_tokenizer.json'} has no <s> or no </s>: export the captioner again"
            )
        return Blip2(
            self._session("blip2_vision", batch), self._session("opt_decoder", batch), table, tokenizer, bos, eos
        )

    def llm(self) -> GenaiLlm:
        """The rewriting model."""
        precision = resolve_precision(self.runtime.precision)
        return GenaiLlm(self._existing("llm.gguf"), precision=precision, threads=self.runtime.threads)

    def clip_text(self, batch: int) -> ClipText:
        """The text encoder."""
        return ClipText(self._session("clip_text", batch), load_tokenizer(self.path / "clip_tokenizer.json"))

    def clip_image(self, batch: int) -> ClipImage:
        """The image encoder."""
        return ClipImage(self._session("clip_image", batch))

    def denoiser(self, batch: int, decode_batch: int) -> DenoiserPlans:
        """The painter's plans, one set a picture size."""
        latent = json.loads(self._existing("latent.json").read_text())
        factor, channels = int(latent["factor"]), int(latent["channels"])

        def open_shape(height: int, width: int) -> ShapePlans:
            size = (height // factor, width // factor)
            return ShapePlans(
                self._session("hint", 1, {"hint": (height, width)}),
                self._session("denoiser", batch, {"latents": size, "hint_embedding": size}),
                self._session("vae_decoder", decode_batch, {"latents": size}),
                (channels, *size),
            )

        return DenoiserPlans(open_shape)

    def _existing(self, name: str) -> Path:
        file = self.path / name
        if not file.is_file():
            raise CounterfactoryError(
                f"model file {file} is missing; reinstall counterfactory or correct [models] folder"
            )
        return file

    def _session(self, name: str, batch: int, sizes: dict[str, tuple[int, int]] | None = None) -> OpenVinoSession:
        runtime = self.runtime
        file = self.path / f"{name}.xml"
        return open_session(file, batch=batch, precision=runtime.precision, threads=runtime.threads, sizes=sizes)
