"""A model under test, whatever library runs it: how pictures go in, what comes out, what its classes are called, and
the digest that its kept answers go by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..keys import content_key
from .placement import Placement, Size
from .preparation import Picture

# Pictures that a model is given at once.
BATCH = 32


@dataclass(frozen=True)
class ModelUnderTest:
    """`run` takes inputs of one shape, stacked [N, ...], and the sizes (height, width) of their pictures, and returns
    what `read_outputs` reads; `prepare` makes an input of a picture, uint8 RGB [H, W, 3], in any thread.

    `name` is what the user calls it, `input` says in words what `prepare` does. `digest` changes with whatever could
    change an answer; None where that cannot be told, as of `unknown`, and nothing is kept. `classes` are the model's
    own names of its numbers, and `named_by` says where they come from. At most `batch` pictures are given at once.
    `place` says where a picture of a size lies in the input whose pixels boxes and maps come in; by itself they come in
    the picture's own. `outputs` says in words which of a file's are read.
    """

    name: str
    run: Callable[[NDArray[Any], Sequence[Size]], Any]
    prepare: Callable[[Picture], NDArray[Any]]
    input: str
    digest: str | None = None
    unknown: str = ""
    classes: Mapping[int, str] | None = None
    named_by: str = "the model"
    batch: int = field(default_factory=lambda: BATCH)
    place: Callable[[Size], Placement] = Placement.whole
    outputs: str = ""


def with_output(model: ModelUnderTest, output: str | None) -> ModelUnderTest:
    """The model of which one output is the answer: that of a mapping by its name, of a tuple by its number from 0.

    It raises CounterfactoryError, when it runs, where none is called so.
    """
    if output is None:
        return model

    def run(inputs: NDArray[Any], sizes: Sequence[Size]) -> Any:
        outputs = model.run(inputs, sizes)
        named = dict(outputs) if isinstance(outputs, Mapping) else {}
        if isinstance(outputs, tuple):
            named = {str(number): one for number, one in enumerate(outputs)}
        if output not in named:
            listed = f"outputs {', '.join(map(str, named))}" if named else "one output, without a name"
            raise CounterfactoryError(f"{model.name} has no output {output!r}: it gives {listed}")
        return named[output]

    return replace(model, run=run, digest=model.digest and content_key(model.digest, output))


def class_names_of(names: Any) -> dict[int, str] | None:
    """Names by number, of a list or of a mapping; None where there are none that can be read."""
    if isinstance(names, Mapping):
        pairs = [(int(number), str(name)) for number, name in names.items() if str(number).isdigit()]
        return dict(pairs) or None
    if isinstance(names, (list, tuple, np.ndarray)) and len(names):
        return {number: str(name) for number, name in enumerate(names)}
    return None
