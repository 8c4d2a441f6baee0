"""The contract that every runtime keeps: a session takes and gives named arrays of a declared signature.

A session serves one plan: one network at fixed shapes in one precision. It never changes shape, precision or
device by itself; feeds that do not fit its signature are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError

Array = NDArray[Any]


@dataclass(frozen=True)
class RuntimeSettings:
    """Where networks run. `precision` "auto" is bf16 where the CPU has it, else f32; `threads` 0 takes all cores.

    `memory_gb` is the device's memory in 10^9 bytes: networks are dropped and loaded again so that those open at once
    fit it. 0 keeps all of them open.
    """

    backend: Literal["openvino"]
    precision: Literal["auto", "bf16", "f32"]
    threads: int
    memory_gb: float

    def __post_init__(self) -> None:
        if self.threads < 0 or self.memory_gb < 0:
            raise ValueError(
                f"[runtime] threads and memory_gb are 0 or more, got {self.threads} and {self.memory_gb:g}"
            )


@dataclass(frozen=True)
class Port:
    """One input or output of a plan; None stands for a length that may differ from call to call."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class Signature:
    """What a plan takes and gives."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def check(self, plan: str, feeds: Mapping[str, Array]) -> None:
        """Raise CounterfactoryError unless `feeds` has just the inputs of this signature, in shape and dtype."""
        wanted = {port.name for port in self.inputs}
        if feeds.keys() != wanted:
            raise CounterfactoryError(f"plan {plan} takes inputs {sorted(wanted)}, got {sorted(feeds)}")
        for port in self.inputs:
            given = feeds[port.name]
            fits = len(given.shape) == len(port.shape) and all(
                want is None or want == have for want, have in zip(port.shape, given.shape, strict=True)
            )
            if not fits or given.dtype != np.dtype(port.dtype):
                raise CounterfactoryError(
                    f"plan {plan} takes {port.name} as {port.dtype} {list(port.shape)}, "
                    f"got {given.dtype} {list(given.shape)}"
                )


class Session(Protocol):
    """A loaded plan."""

    @property
    def signature(self) -> Signature:
        """What the plan takes and gives."""
        ...

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the plan once. The arrays returned belong to the caller."""
        ...
