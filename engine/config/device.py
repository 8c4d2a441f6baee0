"""GPUs by their data sheets, and what is known of plans before they are opened: what projections are made of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError


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


@dataclass(frozen=True)
class PlanFacts:
    """A plan's operations for one row (of a decoder: for one token) and the bytes of its weights on the device.

    `cache_bytes` is what a token takes in a decoder's cache in f16; 0 for what is no decoder. `graph_bytes` is the
    size of an OpenVINO graph's description, `integers` whether it multiplies integers of 8 bits. `held_bytes` is what
    a compiled plan alone takes on a GPU (weights, inputs and outputs, caches), `scratch_bytes` what it computes in,
    which plans share; None where it was not compiled.
    """

    flops: float
    weight_bytes: int
    cache_bytes: int
    graph_bytes: int = 0
    integers: bool = False
    held_bytes: int | None = None
    scratch_bytes: int | None = None


def load_facts(file: Path) -> dict[str, PlanFacts]:
    """The facts by plan, from a `facts.json`. Raises CounterfactoryError when it cannot be read."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(rows, list):
            raise ValueError("no list of plans")
        facts = {row["name"]: PlanFacts(row["flops"], row["weight_bytes"], row["cache_bytes"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CounterfactoryError(f"cannot read facts of plans in {file}: {error!r}; export them again") from error
    return facts
