"""The folder of exported models, and how each is opened.

    blip2_vision.xml  opt_decoder.xml  opt_embeddings.npy  opt_tokenizer.json     image to caption
    llm                                                                           caption to edits
    clip_text.xml  clip_image.xml  clip_tokenizer.json                            conditioning and checks
    hint.xml  denoiser.xml  vae_decoder.xml  latent.json                          edges and text to picture
    hed.xml                                                                       picture to edges, if by a network
    denoiser_int8.xml                                                             or another that [paint] denoiser names

For GPUs a plan is plans/NAME.plan or onnx/NAME/model.onnx instead of NAME.xml; the language model is what [llm] names.

Nothing is opened before it is asked for, so that a run with nothing left to do loads nothing. `digest` names the
content of what a stage uses, for its results' keys; what opened plans load and compute is told to the meter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
from tokenizers import Tokenizer

from ..config.profile import Profile
from ..errors import CounterfactoryError
from ..keys import file_digest
from ..language.opening import model_digest, open_llm
from ..language.request import Llm
from ..language.settings import LLAMA_GRAPH
from ..language.tokenizer import load_tokenizer
from ..meter.meter import Meter
from ..recipes import Stage, maker_key
from ..runtime.opening import arithmetic, existing, open_plan, plan_digest, plan_file
from ..runtime.releases import releases
from .batching import Batched
from .blip2 import Blip2
from .clip import ClipImage, ClipText
from .denoiser import ShapePlans
from .hed import Hed

# The stages that have networks; "edges", where a network finds them, opens it with the painter's.
STAGES: tuple[Stage, ...] = ("caption", "rewrite", "paint", "check")
_BESIDE: Mapping[Stage, tuple[str, ...]] = MappingProxyType(
    {
        "caption": ("opt_embeddings.npy", "opt_tokenizer.json"),
        "rewrite": (),
        "paint": ("latent.json", "clip_tokenizer.json"),
        "check": ("clip_tokenizer.json",),
    }
)
# What counts where an export wrote it.
_MAYBE_BESIDE: Mapping[Stage, tuple[str, ...]] = MappingProxyType({"caption": ("opt_tokens.json",)})


def plans_of(profile: Profile) -> dict[Stage, tuple[str, ...]]:
    """The networks of each stage under a profile."""
    edges = ("hed",) if profile.edges.hed is not None else ()
    return {
        "caption": ("blip2_vision", "opt_decoder"),
        "rewrite": ("llm",),
        "paint": ("clip_text", *edges, "hint", profile.paint.denoiser, "vae_decoder"),
        "check": ("clip_image", "clip_text"),
    }


def every_plan(profile: Profile) -> tuple[str, ...]:
    """The networks of all stages under a profile, each once."""
    return tuple(dict.fromkeys(plan for plans in plans_of(profile).values() for plan in plans))


@dataclass
class Library:
    """The models that a profile names, under the runtime that it names."""

    profile: Profile
    _digests: dict[str, list[str]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The folder of the models."""
        return self.profile.models.path

    @property
    def llm_path(self) -> Path:
        """The language model: a file or a folder, in the models' folder or anywhere."""
        return self.path / Path(self.profile.llm.model).expanduser()

    def digest(self, stage: Stage) -> str:
        """A key of the content of the files that a stage uses, and of the precision they run in.

        Raises CounterfactoryError when one is missing.
        """
        optional = (name for name in _MAYBE_BESIDE.get(stage, ()) if (self.path / name).is_file())
        names = (*plans_of(self.profile).get(stage, ()), *_BESIDE.get(stage, ()), *optional)
        for name in names:
            if name not in self._digests:
                self._digests[name] = self._content(name)
        used = [digest for name in names for digest in self._digests[name]]
        return maker_key(stage, used, arithmetic(self.profile.runtime), releases(self._libraries(stage)))

    def _libraries(self, stage: Stage) -> tuple[str, ...]:
        """What computes a stage, beside our own code."""
        pixels = ("numpy", "opencv", "pillow")
        if stage == "rewrite":
            return (self.profile.llm.backend, "llguidance", "tokenizers")
        return (self.profile.runtime.backend, "tokenizers", *pixels)

    def _content(self, name: str) -> list[str]:
        if name == "llm":
            return [model_digest(existing(self.llm_path), self.profile.llm.backend)]
        if "." in name:
            return [file_digest(self.existing(name))]
        return plan_digest(self.path, name, self.profile.runtime.backend)

    def blip2(self, batch: int, rows: int, meter: Meter) -> Blip2:
        """The captioner, `batch` images at a time, each of which takes `rows` rows of the decoder."""
        table = np.load(self.existing("opt_embeddings.npy")).astype(np.float32)
        tokenizer = load_tokenizer(self.path / "opt_tokenizer.json")
        bos, eos = self._ends(tokenizer)
        if bos is None or eos is None:
            raise CounterfactoryError(
                f"{self.path / 'opt_tokenizer.json'} has no <s> or no </s>: export the captioner again"
            )
        vision, decoder = self._opened("blip2_vision", batch, meter), self._opened("opt_decoder", batch * rows, meter)
        return Blip2(vision, decoder, table, tokenizer, bos, eos)

    def llm(self, meter: Meter) -> Llm:
        """The rewriting model."""
        with meter.loading("llm"):
            return open_llm(existing(self.llm_path), self.profile.llm, self.profile.runtime)

    def clip_text(self, batch: int, meter: Meter) -> ClipText:
        """The text encoder."""
        tokenizer = load_tokenizer(self.path / "clip_tokenizer.json")
        return ClipText(self._opened("clip_text", batch, meter), tokenizer)

    def clip_image(self, batch: int, meter: Meter) -> ClipImage:
        """The image encoder."""
        return ClipImage(self._opened("clip_image", batch, meter))

    def hed(self, height: int, width: int, batch: int, meter: Meter) -> Hed:
        """The network of soft edges for pictures of a size in pixels."""
        return Hed(self._opened("hed", batch, meter, {"image": (height, width)}))

    def painter(self, height: int, width: int, batch: int, decode_batch: int, meter: Meter) -> ShapePlans:
        """The painter's plans for pictures of a size in pixels."""
        paint, latent = self.profile.paint, json.loads(self.existing("latent.json").read_text())
        size = (height // int(latent["factor"]), width // int(latent["factor"]))
        return ShapePlans(
            self._opened("hint", 1, meter, {"hint": (height, width)}),
            self._opened(paint.denoiser, batch, meter, {"latents": size, "hint_embedding": size}, paint.streams),
            self._opened("vae_decoder", decode_batch, meter, {"latents": size}),
            (int(latent["channels"]), *size),
        )

    def existing(self, name: str) -> Path:
        """The path of a file of the folder. Raises CounterfactoryError when it is missing."""
        return existing(self.path / name)

    def _ends(self, tokenizer: Tokenizer) -> tuple[int | None, int | None]:
        """The tokens that begin and end a caption: OPT's own, where its export says them, else by their names."""
        told = self.path / "opt_tokens.json"
        if told.is_file():
            tokens = json.loads(told.read_text())
            return int(tokens["bos"]), int(tokens["eos"])
        return tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")

    def graph(self, plan: str) -> Path:
        """The file of a plan's graph, for counting. Raises CounterfactoryError when it is missing."""
        if plan == "llm":
            return existing(self.llm_path / LLAMA_GRAPH if self.profile.llm.backend == "openvino" else self.llm_path)
        return existing(plan_file(self.path, plan, self.profile.runtime.backend))

    def _opened(
        self, plan: str, batch: int, meter: Meter, sizes: dict[str, tuple[int, int]] | None = None, streams: int = 1
    ) -> Batched:
        with meter.loading(plan):
            session = open_plan(self.path, plan, self.profile.runtime, batch, sizes, streams)
        return Batched(session, lambda: meter.work(meter.current, plan), streams)
