"""The contract that every runtime keeps: a session takes and gives named arrays of a declared signature.

A session serves one plan: one network at fixed shapes in one precision. It never changes shape, precision or
device by itself; feeds that do not fit its signature are refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError

Array = NDArray[Any]
# The editor that OpenVINO makes of a denoiser when it opens one (prompt_to_prompt.py), with its ControlNets or without.
EditorForm = Literal["with controls", "without controls"]
# What else it makes of one: the forms of a denoiser whose deep features serve several steps (deep_features.py).
GraphForm = EditorForm | Literal["whole", "shallow"]
# What the shallow form's plan is called after its denoiser's.
SHALLOW = "_shallow"

# Ports of a cache that a device keeps, by their names: the input cache_X [positions, rows, ...] and the output
# cache_X_added [new positions, rows, ...], which continues it. All other ports have rows first.
_CACHE, _ADDED = "cache_", "_added"


def is_cache(port: str) -> bool:
    """Whether an input or output is a part of such a cache."""
    return port.startswith(_CACHE)


def row_axis(port: str) -> int:
    """The axis of an input or output along which its rows lie."""
    return 1 if is_cache(port) else 0


def continued_cache(output: str) -> str | None:
    """The input that an output continues; None for one that stands alone."""
    return output.removesuffix(_ADDED) if is_cache(output) and output.endswith(_ADDED) else None


def refuse_other_cache(plan: str, name: str, cache: Any, latest: object) -> None:
    """Raise CounterfactoryError unless a cache that is to be continued is empty, or the one that was held last."""
    if cache is not latest and cache.shape[0]:
        raise CounterfactoryError(
            f"plan {plan} was fed {name} of {cache.shape[0]} positions, which is not what its last run held: a cache "
            "has one place, where the next one is written; begin with an empty one"
        )


def refuse_longer_cache(plan: str, name: str, positions: int, most: int) -> None:
    """Raise CounterfactoryError for a cache of more positions than a plan has room for."""
    if positions > most:
        raise CounterfactoryError(
            f"plan {plan} has room for {most} positions of {name}, got {positions}; export it again for longer prompts "
            "and captions, or lower max_tokens"
        )


def require_finite(network: str, outputs: Mapping[str, Array]) -> None:
    """Raise CounterfactoryError where an output of a network is not finite: nothing made of it would mean anything."""
    for name, array in outputs.items():
        if array.dtype.kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                total = array.sum()  # quicker than a look at each number, and finite only if all are
            if not np.isfinite(total) and not np.isfinite(array).all():
                raise not_finite(network, name)


def not_finite(network: str, output: str) -> CounterfactoryError:
    """What a network ends a run with that gives NaN or infinity."""
    return CounterfactoryError(
        f"network {network} gives numbers that are not finite ({output}): its weights are damaged, or overflow in its "
        "precision; check the file, export it again with --islands all, or run it in f32"
    )


@dataclass(frozen=True)
class Port:
    """One input or output of a plan; None stands for a length that may differ from call to call."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class Signature:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def check(self, plan: str, feeds: Mapping[str, Any], hold: Collection[str] = (), owner: object = None) -> None:
        """Raise CounterfactoryError unless `feeds` has just the inputs of this signature, in shape and dtype and, where
        held, held by the `owner`, and unless it gives all that is to be held.
        """
        wanted = {port.name for port in self.inputs}
        if feeds.keys() != wanted:
            raise CounterfactoryError(f"plan {plan} takes inputs {sorted(wanted)}, got {sorted(feeds)}")
        for port in self.inputs:
            feed = feeds[port.name]
            fits = len(feed.shape) == len(port.shape) and all(
                want is None or want == have for want, have in zip(port.shape, feed.shape, strict=True)
            )
            dtype = getattr(feed, "dtype", port.dtype)  # held outputs have the plan's own dtype
            if not fits or dtype != np.dtype(port.dtype):
                raise CounterfactoryError(
                    f"plan {plan} takes {port.name} as {port.dtype} {list(port.shape)}, got {dtype} {list(feed.shape)}"
                )
            if getattr(feed, "session", owner) is not owner:
                raise CounterfactoryError(f"plan {plan} was fed {port.name} that another session holds")
        outputs = {port.name for port in self.outputs}
        if unknown := sorted(set(hold) - outputs):
            raise CounterfactoryError(f"plan {plan} gives {sorted(outputs)}, asked to hold {unknown}")


class Session(Protocol):
    """A loaded plan."""

    @property
    def signature(self) -> Signature: ...

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Run the plan once on arrays, or what the last run held. The arrays returned belong to the caller.

        Outputs named in `hold` may stay where they are (on a CPU they are arrays): they have a `shape` and are good for
        one more run of this session. One that continues a cache (`continued_cache`) is written behind it, and comes as
        the whole: the cache that was fed with the new positions. It is good until a run begins another cache.
        """
        ...
