"""What of a model file's outputs is its answer: one of them, or those that a detector's boxes are read of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from ..runtime.foreign_graph import ForeignGraph
from ..runtime.session import Port
from .heads import FORMS, find_head, names_boxes, plain_name
from .output_choice import choose_output, port_text
from .outputs import Wanted
from .placement import Size
from .published_inputs import Published

# Words for tasks whose answers are boxes.
_OF_BOXES = ("detect", "detection", "segment", "pose", "obb")


@dataclass(frozen=True)
class FileAnswer:
    """`names` are the outputs that are read, as `text` says. Of boxes the form is told again by each picture's arrays.
    A file of any batch whose answer has a fixed one takes pictures in a `batch` of that.
    """

    names: tuple[str, ...]
    text: str
    boxes: bool = False
    classes: int | None = None
    task: str | None = None
    batch: int | None = None

    def read(self, pictures: Sequence[Mapping[str, Any]], size: Size) -> Any:
        """What `read_outputs` takes, of each picture's outputs, for inputs of (height, width) `size`."""
        if self.boxes:
            return [self._rows(outputs, size) for outputs in pictures]
        values = [outputs[self.names[0]] for outputs in pictures]
        values = [one[0] if np.shape(one)[:1] == (1,) else one for one in values]
        return np.stack(values) if all(isinstance(one, np.ndarray | np.generic) for one in values) else values

    def _rows(self, outputs: Mapping[str, Any], size: Size) -> Any:
        ports = [Port(name, array.shape, array.dtype.name) for name, array in outputs.items()]
        head = find_head(ports, size, self.classes, self.task)
        if head is None:
            raise _no_boxes(ports)
        return head.read({name: outputs[name] for name in head.names}, size)


def tell_answer(
    path: Path,
    graph: ForeignGraph,
    known: Published,
    output: str | None,
    wanted: frozenset[Wanted],
    classes: int | None,
    size: Size | None,
) -> FileAnswer:
    """The answer of a graph that `output` names, or that is of a `wanted` kind; `size` (height, width) is the input's
    where it is fixed. Raises CounterfactoryError where there is none, and where several might be it.
    """
    ports = _asked(path, graph.outputs, output)
    task = known.task and known.task.lower()
    head = find_head(ports, size, classes, task) if "boxes" in wanted and "labels" not in wanted else None
    boxes = task in _OF_BOXES or head is not None or names_boxes(port.name for port in ports)
    if boxes and "boxes" not in wanted and output is None:
        kinds = " and ".join(sorted(wanted))
        raise CounterfactoryError(f"{path} gives boxes ({_listed(ports)}), and the suite has {kinds} to judge by")
    others = f" of {', '.join(port.name for port in graph.outputs)}" if len(graph.outputs) > 1 else ""
    if wanted != {"boxes"} and not boxes:
        try:
            name = choose_output(ports, wanted - {"boxes"}, classes)
        except CounterfactoryError as error:
            raise CounterfactoryError(f"{path}: {error}") from error
        (port,) = (port for port in ports if port.name == name)
        return FileAnswer((name,), f"output {name!r}{others}", batch=port.shape[0] if len(port.shape) > 1 else None)
    head = head or find_head(ports, size, classes, task)
    if head is None and size is not None and not any(None in port.shape[-2:] or not port.shape for port in ports):
        raise _no_boxes(ports)
    names = tuple(port.name for port in ports) if head is None else head.names
    form = "" if head is None else f", read as {head.words}"
    others = others if len(names) < len(graph.outputs) else ""
    text = f"{'output' if len(names) == 1 else 'outputs'} {', '.join(map(repr, names))}{others}{form}"
    return FileAnswer(tuple(port.name for port in ports), text, True, classes, task)


def _asked(path: Path, ports: Sequence[Port], output: str | None) -> list[Port]:
    """The port that is asked for by its name, with its path or without; all where none is."""
    if output is None:
        return list(ports)
    chosen = [port for port in ports if port.name == output] or [
        port for port in ports if plain_name(port.name) == output.lower()
    ]
    if len(chosen) != 1:
        raise CounterfactoryError(f"{path} has no output {output!r}: it gives {_listed(ports)}")
    return chosen


def _no_boxes(ports: Sequence[Port]) -> CounterfactoryError:
    return CounterfactoryError(f"boxes are read of {FORMS}; the model gives {_listed(ports)}")


def _listed(ports: Sequence[Port]) -> str:
    return ", ".join(map(port_text, ports))
