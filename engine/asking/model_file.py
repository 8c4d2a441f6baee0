"""A model under test in a file: ONNX or OpenVINO's format, in f32 on the CPU, picture by picture unless the file has a
batch of its own. What the file says of its input, its classes and its task counts where nothing else is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.reading import read_text
from ..keys import content_key, file_digest
from ..runtime.foreign_graph import ForeignGraph, open_graph
from ..runtime.onnx_file import external_files
from ..runtime.session import Port
from .heads import Head, find_head, names_boxes, split
from .output_choice import choose_output, port_text
from .outputs import ANYTHING, Wanted
from .placement import Size
from .preparation import Picture, Preparation, read_preparation
from .published import Published, beside, of_openvino, of_ultralytics, read_published
from .under_test import ModelUnderTest

_CHANNELS = (3, 1)
_GREY = np.array((299, 587, 114))
# Inputs beside the picture whose values are known: of the size (height, width) of the input.
_CONSTANTS: Mapping[str, Callable[[Size], Any]] = MappingProxyType(
    {
        "pixel_mask": lambda size: np.ones(size),
        "orig_target_sizes": lambda size: size[::-1],
        "im_shape": lambda size: size,
        "image_shape": lambda size: size,
        "scale_factor": lambda size: (1, 1),
    }
)


def open_model_file(
    path: Path,
    preprocess: str | None,
    labels: Sequence[str] = (),
    output: str | None = None,
    wanted: frozenset[Wanted] = ANYTHING,
) -> ModelUnderTest:
    """The model in a file; `preprocess` declares how pictures become its input, see `read_preparation`, `output` names
    the one that is its answer, of a `wanted` kind; so many `labels` may help to tell which that is.

    Raises CounterfactoryError where nothing that runs it is installed, for a file that is no model of pictures, for
    float inputs whose preparation is not declared, and for outputs of which none is clearly the answer.
    """
    if not path.is_file():
        raise CounterfactoryError(f"there is no model file {path}")
    graph = open_graph(path)
    known = _published(path, graph)
    files = [file_digest(file) for file in (path, *external_files(path))]
    model = _FileModel(path, graph, preprocess, known, _Answer(graph, output, wanted, len(known.classes or labels), known.task))
    return ModelUnderTest(
        name=str(path),
        run=model.run,
        prepare=model.prepare,
        input=model.input,
        digest=content_key("model file", files, model.preparation),
        classes=known.classes,
        named_by="the model's file",
        place=model.preparation.place,
        outputs=model.answer.text,
    )
