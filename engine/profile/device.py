"""GPUs by their data sheets, and what is known of plans before they are opened: what projections are made of."""

from __future__ import annotations

from dataclasses import dataclass


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
