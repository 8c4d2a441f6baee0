"""A model under test, whatever library runs it: how pictures go in, what comes out, what its classes are called, and
the digest that its kept answers go by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement, Size
from .preparation import Picture

# Pictures that a model is given at once.
BATCH = 32


@dataclass(frozen=True)
class ModelUnderTest:
    """`run` takes inputs of one shape, stacked [N, ...], and the sizes (height, width) of their pictures, and returns
    what `read_outputs` reads; `prepare` makes an input of a picture, uint8 RGB [H, W, 3], in any thread.

    `name` is what the user calls it, `input` says in words what `prepare` does. `digest` changes with whatever could
    change an answer; None where that cannot be told, and nothing is kept. With `probe` it could change all the same,
    and the first answers are asked anew each time. `classes` are the model's own names of its numbers, and `named_by`
    says where they come from. At most `batch` pictures are given at once. `place` says where a picture of a size lies
    in the input whose pixels boxes and maps come in; by itself they come in the picture's own. `outputs` says in words
    which of a file's are read.
    """

    name: str
    run: Callable[[NDArray[Any], Sequence[Size]], Any]
    prepare: Callable[[Picture], NDArray[Any]]
    input: str
    digest: str | None = None
    probe: bool = False
    classes: Mapping[int, str] | None = None
    named_by: str = "the model"
    batch: int = field(default_factory=lambda: BATCH)
    place: Callable[[Size], Placement] = Placement.whole
    outputs: str = ""


def class_names_of(names: Any) -> dict[int, str] | None:
    """Names by number, of a list or of a mapping; None where there are none that can be read."""
    if isinstance(names, Mapping):
        pairs = [(int(number), str(name)) for number, name in names.items() if str(number).isdigit()]
        return dict(pairs) or None
    if isinstance(names, (list, tuple, np.ndarray)) and len(names):
        return {number: str(name) for number, name in enumerate(names)}
    return None
