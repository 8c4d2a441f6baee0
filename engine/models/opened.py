"""The models that are open: each from when a stage first asks for it until its memory is wanted for another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.profile import Profile
from ..language.request import Llm
from ..meter.meter import Meter
from ..recipes import Stage
from ..schedule.residency import Residency
from ..stages.edges import edge_maps
from .blip2 import Blip2
from .clip import ClipImage, ClipText
from .denoiser import ShapePlans
from .hed import Hed
from .library import Library

_Name = tuple[str, ...]
# The plans that each model but the painter is made of.
_PLANS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "blip2": ("blip2_vision", "opt_decoder"),
        "llm": ("llm",),
        "clip_text": ("clip_text",),
        "clip_image": ("clip_image",),
        "hed": ("hed",),
    }
)


class Opened:
    """The open models of one run, under a profile; `residency` says what has to go, nothing without it."""

    def __init__(self, library: Library, profile: Profile, meter: Meter, residency: Residency | None = None) -> None:
        self._library, self._profile, self._meter = library, profile, meter
        self._residency = residency
        self._models: dict[_Name, Any] = {}
        self._stage: Stage | None = None

    def enter(self, stage: Stage) -> None:
        """A shard has work in this stage: what must make room for the stage's models is closed."""
        stage = "paint" if stage == "edges" else stage
        if self._residency is not None and stage != self._stage:
            self._stage = stage
            drops = set(self._residency.enter(stage))
            for name in [name for name in self._models if drops.intersection(self._plans_of(name[0]))]:
                del self._models[name]

    def blip2(self) -> Blip2:
        """The captioner."""
        caption = self._profile.caption
        opened: Blip2 = self._once(("blip2",), lambda: self._library.blip2(caption.batch, caption.rows, self._meter))
        return opened

    def llm(self) -> Llm:
        """The rewriting model."""
        opened: Llm = self._once(("llm",), lambda: self._library.llm(self._meter))
        return opened

    def clip_text(self) -> ClipText:
        """The text encoder, the same for conditions and checks."""
        batch = self._profile.paint.batch
        opened: ClipText = self._once(("clip_text",), lambda: self._library.clip_text(batch, self._meter))
        return opened

    def clip_image(self) -> ClipImage:
        """The image encoder."""
        batch = self._profile.check.batch
        opened: ClipImage = self._once(("clip_image",), lambda: self._library.clip_image(batch, self._meter))
        return opened

    def edge_maps(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Edge maps uint8 [B, H, W] of pictures uint8 [B, H, W, 3], by the profile's detector."""
        return edge_maps(images, self._profile.edges, self.hed(*images.shape[1:3]))

    def painter(self, height: int, width: int) -> ShapePlans:
        """The painter's plans for pictures of a size in pixels."""
        paint = self._profile.paint

        def opener() -> ShapePlans:
            return self._library.painter(height, width, paint.batch, paint.decode_batch, self._meter)

        opened: ShapePlans = self._once(("painter", str(height), str(width)), opener)
        return opened

    def hed(self, height: int, width: int) -> Hed | None:
        """The network of soft edges for pictures of a size in pixels; None where the detector is another."""
        settings = self._profile.edges.hed
        if settings is None:
            return None
        batch = settings.batch
        opened: Hed = self._once(
            ("hed", str(height), str(width)), lambda: self._library.hed(height, width, batch, self._meter)
        )
        return opened

    def _plans_of(self, model: str) -> tuple[str, ...]:
        return ("hint", self._profile.paint.denoiser, "vae_decoder") if model == "painter" else _PLANS_OF[model]

    def _once(self, name: _Name, opener: Callable[[], Any]) -> Any:
        if name not in self._models:
            self._models[name] = opener()
        return self._models[name]
