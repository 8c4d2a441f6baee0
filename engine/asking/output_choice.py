"""Which of a model's several outputs is the answer that a suite judges: by its name, by its shape, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CounterfactoryError
from ..runtime.session import Port
from .heads import plain_name
from .outputs import ANYTHING, Wanted

# What an answer is called, the likelier first.
_NAMES = (
    *("logits", "probabilities", "probability", "output_probability", "probs", "prob", "softmax", "scores"),
    *("predictions", "prediction", "pred", "preds", "out", "output", "masks", "mask", "segmentation", "seg"),
    *("classlabel", "output_label", "label", "labels"),
)


def choose_output(ports: Sequence[Port], wanted: frozenset[Wanted] = ANYTHING, classes: int | None = None) -> str:
    """The name of the output of which answers of a `wanted` kind, of so many `classes`, are read; ports have a batch's
    axis. Raises CounterfactoryError where none can be, and where several might.
    """
    fitting = [port for port in ports if _fits(port, wanted)]
    if len(fitting) == 1:
        return fitting[0].name
    listed = ", ".join(map(port_text, ports))
    if not fitting:
        kinds = " and ".join(sorted(wanted))
        raise CounterfactoryError(f"the model gives {listed}, and the suite has {kinds} to judge by")
    called = [port for name in _NAMES for port in fitting if plain_name(port.name) == name]
    of_classes = [port for port in fitting if classes is not None and _classes(port) == classes]
    if not called and len(of_classes) != 1:
        raise CounterfactoryError(f"the model gives {listed}, and which is the answer is not clear: say --output NAME")
    return (called or of_classes)[0].name


def port_text(port: Port) -> str:
    """A port by its name and shape."""
    return f"{port.name} [{', '.join('any' if length is None else str(length) for length in port.shape)}]"


def _fits(port: Port, wanted: frozenset[Wanted]) -> bool:
    """Whether labels or class maps can be read of an output; one of unknown shape, ( ), may hold all."""
    wide = sum(length != 1 for length in port.shape[1:])
    return not port.shape or ("labels" in wanted and wide <= 1) or ("maps" in wanted and wide >= 2)


def _classes(port: Port) -> int | None:
    """How many classes an output has: its second axis, or its last."""
    axes = [length for length in port.shape[1:] if length != 1]
    return axes[0] if axes else None
