"""[runtime]: where networks run, and in which precision."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

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
        if self.threads < 0 or self.memory_gb < 0:
            raise ValueError(
                f"[runtime] threads and memory_gb are 0 or more, got {self.threads} and {self.memory_gb:g}"
            )
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
        """Whether networks run on a GPU."""
        return self.backend != "openvino" and self.provider != "cpu"

    @property
    def unit(self) -> str:
        """The word for what is held and paid for: a GPU, or a core."""
        return "GPU" if self.on_gpu else "core"

    @property
    def devices(self) -> int:
        """How many of them a run holds."""
        return 1 if self.on_gpu else self.threads or os.cpu_count() or 1
