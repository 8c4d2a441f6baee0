"""[runtime] and [device]: where networks run, in which precision, and what is known of a GPU beforehand; [models] and
[weights]: where the networks are, which pictures they know, and what they are exported from.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..packages import pocket_networks
from .bounds import require

Backend = Literal["openvino", "onnxruntime", "tensorrt"]


@dataclass(frozen=True)
class RuntimeSettings:
    """Where networks run. `precision` "auto" is bf16 where the CPU has it, else f32; `threads` 0 takes all cores.

    Networks for GPUs are exported in their precision, f16; "threads" means nothing there. `provider` is what
    ONNX Runtime computes with, and stands with it only: "tensorrt" compiles engines when networks are first opened,
    "cpu" computes the same graphs in f32 on any machine.

    `memory_gb` is the device's memory in 10^9 bytes: networks are dropped and loaded again so that those open at once
    fit it. 0 keeps all of them open.
    """

    backend: Backend
    precision: Literal["auto", "bf16", "f32", "f16"]
    threads: int
    memory_gb: float
    provider: Literal["cuda", "tensorrt", "cpu"] | None = None

    def __post_init__(self) -> None:
        require(self, 0, "threads", "memory_gb")
        if self.provider is None and self.backend == "onnxruntime":
            raise ValueError('[runtime] backend = "onnxruntime" needs a provider = "cuda", "tensorrt" or "cpu"')
        if (self.precision == "f16") != self.on_gpu or (self.provider == "cpu" and self.precision != "f32"):
            raise ValueError(
                f'[runtime] precision is "f16" on a GPU, "f32" with provider = "cpu" and another than "f16" with '
                f"openvino, got {self.precision!r} with {self.provider or self.backend}"
            )
        if self.provider is not None and self.backend != "onnxruntime":
            raise ValueError(
                f'[runtime] provider = "{self.provider}" is one of ONNX Runtime\'s: take it out with backend = '
                f'"{self.backend}", or say backend = "onnxruntime"'
            )

    @property
    def on_gpu(self) -> bool:
        return self.backend != "openvino" and self.provider != "cpu"

    @property
    def queues(self) -> bool:
        """Whether plans of fixed shapes are queued on a GPU, so that what one leaves there another one takes."""
        return self.backend == "tensorrt" or self.provider == "cuda"

    @property
    def unit(self) -> str:
        """The word for what is held and paid for: a GPU, or a core."""
        return "GPU" if self.on_gpu else "core"

    @property
    def devices(self) -> int:
        """How many of them a run holds."""
        return 1 if self.on_gpu else self.threads or os.cpu_count() or 1


@dataclass(frozen=True)
class DeviceSettings:
    """A GPU by its data sheet: `tflops` dense f16 with f32 accumulation, memory in 10^9 bytes, its speed in 10^9 bytes
    a second; `share` of both is assumed to be reached, and `accepted` of the variants to be accepted by the checks.
    `disk_gb_per_s` is assumed of reading plans, `bus_gb_per_s` of copies between host and device.
    """

    name: str
    tflops: float
    memory_gb: float
    gb_per_s: float
    disk_gb_per_s: float
    bus_gb_per_s: float
    share: float
    accepted: float

    def __post_init__(self) -> None:
        for name in ("tflops", "memory_gb", "gb_per_s", "disk_gb_per_s", "bus_gb_per_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"[device] {name} is above 0, got {getattr(self, name)}")
        for name in ("share", "accepted"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"[device] {name} is above 0 and at most 1, got {getattr(self, name)}")


# The world of models that know any picture.
PHOTOGRAPHS = "photographs"


@dataclass(frozen=True)
class ModelPaths:
    """Where the networks are, and what they know: `folder` is "pocket" for the small ones that come with the checkout,
    or a path; `world` is "photographs", or a kind of picture (see `worlds`).
    """

    folder: str
    world: str = PHOTOGRAPHS

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+", self.world):
            raise ValueError(f"[models] world is a name of letters, digits and underscores, found {self.world!r}")
        if not self.folder:
            raise ValueError("[models] folder is empty; name 'pocket' or the path of a folder of networks")

    @property
    def path(self) -> Path:
        return pocket_networks() if self.folder == "pocket" else Path(self.folder).expanduser()


@dataclass(frozen=True)
class WeightSettings:
    """What the exporter takes: a path, ID@COMMIT of the hub, or ID@COMMIT/FILE.

    `controlnets` are summed where there are several; an editor that follows no edges has none. `loras` are merged
    into the UNet of `diffusion`, each FILE or FILE:WEIGHT. The captioner is `blip2` or `florence2`; sources that
    bring their captions need none. `hed` finds edges where the profile has them found by a network, `tiny_vae`
    decodes latents in place of the pipeline's own decoder. `llm` is the language model before it is quantised,
    `sentence` the encoder of [grounding].
    """

    diffusion: str
    controlnets: tuple[str, ...]
    clip: str
    llm: str
    loras: tuple[str, ...]
    blip2: str | None = None
    florence2: str | None = None
    hed: str | None = None
    tiny_vae: str | None = None
    sentence: str | None = None

    def __post_init__(self) -> None:
        if self.blip2 is not None and self.florence2 is not None:
            raise ValueError("[weights] names one captioner: blip2 or florence2")
        captioner = () if (one := self.florence2 if self.blip2 is None else self.blip2) is None else (one,)
        named = (*captioner, self.diffusion, *self.controlnets, self.clip, self.llm, *self.loras)
        if not all(named):
            raise ValueError("[weights] names nothing somewhere: take the key of what is not used out, or name it")
