"""Which parts of a network must stay in float32, by the error with them and without.

Softmax is an island only where it is needed: in float32 it keeps a compiler from fusing attention, which costs more
than all else here. It is given up where the error without it keeps within half of the bound; the other half is for
inputs and weights that were not tried. A sinusoid and the statistics of norms are small work on what is read anyway
and fail all at once (a square beyond 65,504), so that they stay islands; what they are worth is measured all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from counterfactory.engine.runtime.session import Array

from ..graphs.parity import relative_error
from .cpu import OnnxCpu
from .half import ISLANDS, to_half
from .rounding import rounded
from .stored import Stored, fold_transposes

_KEPT, _COSTLY = ("timestep", "normalisation"), "softmax"
_MARGIN = 0.5


@dataclass(frozen=True)
class Measured:
    """The islands chosen, and the error with each set that was tried ("none", "timestep+normalisation", ...)."""

    islands: tuple[str, ...]
    errors: Mapping[str, float]


def find_islands(
    full: Path, folder: Path, feeds: Mapping[str, Array], reference: Mapping[str, Array], bound: float
) -> Measured:
    """Try islands on the float32 graph `full`; half precision forms are written to `folder` and overwritten.

    The error is that of the worst output against `reference`, by parity.relative_error.
    """
    errors: dict[str, float] = {}

    def tried(islands: Sequence[str]) -> float:
        name = "+".join(islands) or "none"
        if name not in errors:
            # Written beside the one before, it would need the disk for two.
            (folder / "model.onnx.data").unlink(missing_ok=True)
            errors[name] = half_error(write_half(full, folder / "model.onnx", islands), feeds, reference)
        return errors[name]

    stored = Stored.read(full)
    kept = [name for name in _KEPT if ISLANDS[name](stored)]
    costly = [_COSTLY] if ISLANDS[_COSTLY](stored) else []
    tried([*kept, *costly])
    chosen = kept if tried(kept) <= _MARGIN * bound else [*kept, *costly]
    for name in kept:
        tried([one for one in kept if one != name])
    return Measured(tuple(chosen), errors)


def write_half(full: Path, path: Path, islands: Sequence[str]) -> Path:
    """Write the half precision form of a float32 graph to `path`; returns it."""
    stored = Stored.read(full)
    fold_transposes(stored)
    to_half(stored, islands)
    stored.save(path)
    return path


def half_error(path: Path, feeds: Mapping[str, Array], reference: Mapping[str, Array]) -> float:
    """The error of a half precision graph whose every result is rounded; infinite where it overflows."""
    beside = path.with_name("rounded.onnx")
    proto = rounded(onnx.load(str(path), load_external_data=False))
    beside.write_bytes(proto.SerializeToString())
    try:
        session = OnnxCpu(beside, as_written=True)
        taken = {port.name: feeds[port.name].astype(port.dtype, copy=False) for port in session.signature.inputs}
        found = session.run(taken)
    finally:
        beside.unlink()
    return worst_error(found, reference)


def worst_error(found: Mapping[str, Array], reference: Mapping[str, Array]) -> float:
    return max(relative_error(found[name], wanted) for name, wanted in reference.items())
