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
from PIL import Image

from ..errors import CounterfactoryError
from ..files.reading import read_json, read_text
from ..keys import content_key, file_digest
from ..runtime.foreign_graph import ForeignGraph, open_graph
from ..runtime.installing import releases
from ..runtime.onnx_file import external_files
from ..runtime.session import Port
from .file_answer import FileAnswer, tell_answer
from .heads import plain_name, split
from .outputs import ANYTHING, Wanted
from .placement import Size
from .preparation import Picture, Preparation
from .published_inputs import (
    Published,
    configuration_beside,
    of_openvino,
    of_ultralytics,
    read_preparation,
    read_published,
)
from .under_test import ModelUnderTest, class_names_of

_COLOURS, _GREY = 3, 1
# Inputs beside the picture whose values are known, by the (height, width) of the picture's.
_CONSTANTS: Mapping[str, Callable[[Size], Any]] = MappingProxyType(
    {
        "pixel_mask": np.ones,
        "orig_target_sizes": lambda size: size[::-1],
        "im_shape": lambda size: size,
        "image_shape": lambda size: size,
        "scale_factor": lambda _: (1, 1),
    }
)


def open_model_file(
    path: Path,
    preprocess: str | None,
    labels: Sequence[str] = (),
    output: str | None = None,
    wanted: frozenset[Wanted] = ANYTHING,
) -> ModelUnderTest:
    """The model in a file; `preprocess` declares how pictures become its input, see `read_preparation`, and `output`
    names the one that is its answer, of a `wanted` kind. Which one may be told by the number of `labels`.

    Raises CounterfactoryError where nothing that runs it is installed, for a file that is no model of pictures, for
    float inputs whose preparation is not declared, and where no output, or more than one, may be the answer.
    """
    if not path.is_file():
        raise CounterfactoryError(f"there is no model file {path}")
    graph = open_graph(path)
    port = _picture_port(path, graph)
    known = _published(path, graph, port)
    named = sum(label != str(number) for number, label in enumerate(labels))  # gaps in a list have numbers for names
    answer = tell_answer(path, graph, known, output, wanted, len(known.classes or ()) or named or None, _size(port))
    model = _FileModel(path, graph, port, answer, _preparation(path, port, preprocess, known.preparation))
    files = [file_digest(file) for file in (path, *external_files(path))]
    return ModelUnderTest(
        name=str(path),
        run=model.run,
        prepare=model.prepare,
        input=model.preparation.text,
        digest=content_key("model file", files, model.preparation, answer.text, releases([graph.package])),
        classes=known.classes,
        named_by="the model's file",
        place=model.preparation.place,
        outputs=answer.text,
    )


class _FileModel:
    """A file's graph, run on prepared pictures; a batch that is fixed is filled up with black ones."""

    def __init__(
        self, path: Path, graph: ForeignGraph, port: Port, answer: FileAnswer, preparation: Preparation
    ) -> None:
        self._path, self._graph, self._port, self._answer = path, graph, port, answer
        self.preparation = preparation
        self._layout = _layout(port)
        self._batch = (port.shape[0] if len(port.shape) == 4 else None) or answer.batch or 1

    def prepare(self, picture: Picture) -> NDArray[Any]:
        last, channels = self._layout
        if channels == _GREY:
            grey = np.asarray(Image.fromarray(picture).convert("L"))
            picture = np.repeat(grey[:, :, None], _COLOURS, axis=2)
        pixels = self.preparation.apply(picture)[:, :, :channels].astype(self._port.dtype, copy=False)
        return np.ascontiguousarray(pixels if last else pixels.transpose(2, 0, 1))

    def run(self, inputs: NDArray[Any], sizes: Sequence[Size]) -> Any:
        shape, wants = inputs.shape[1:], self._port.shape[-3:]
        if any(want not in (None, have) for want, have in zip(wants, shape, strict=True)):
            raise CounterfactoryError(
                f"{self._path} takes pictures as {_shape(wants)}, and {self.preparation.text!r} gives {_shape(shape)}: "
                "declare resize and crop by --preprocess"
            )
        size = (shape[0], shape[1]) if self._layout[0] else (shape[1], shape[2])
        filled = np.concatenate([inputs, np.zeros((-len(inputs) % self._batch, *shape), inputs.dtype)])
        batches = filled.reshape(-1, self._batch, *shape)
        pictures: list[dict[str, Any]] = []
        for outputs in self._graph.run([self._feeds(feed, size) for feed in batches]):
            used = {name: outputs[name] for name in self._answer.names}
            pictures += [used] if self._batch == 1 else split(used, self._batch)
        return self._answer.read(pictures[: len(inputs)], size)

    def _feeds(self, feed: NDArray[Any], size: Size) -> dict[str, NDArray[Any]]:
        feeds = {self._port.name: feed if len(self._port.shape) == 4 else feed[0]}
        for port in self._graph.inputs:
            if port is not self._port:
                value = np.asarray(_CONSTANTS[plain_name(port.name)](size))
                feeds[port.name] = np.stack([value] * self._batch).astype(port.dtype)
        return feeds


def _picture_port(path: Path, graph: ForeignGraph) -> Port:
    ports = [port for port in graph.inputs if plain_name(port.name) not in _CONSTANTS]
    if len(ports) != 1:
        several = f"{len(ports)} inputs ({', '.join(port.name for port in ports)})"
        raise CounterfactoryError(f"{path} takes {several}: a model of pictures takes one")
    (port,) = ports
    if len(port.shape) not in (3, 4) or _layout(port)[1] == 0 or port.dtype in ("bool", "int8", "string"):
        raise CounterfactoryError(
            f"{path} takes {port.name} as {port.dtype} {_shape(port.shape)}: a model of pictures takes [N, 3, H, W] or "
            "[N, H, W, 3], in colours or 1 grey"
        )
    return port


def _layout(port: Port) -> tuple[bool, int]:
    """Whether a picture's channels are its last axis, and how many; 0 where no axis can be theirs."""
    first, _, last = port.shape[-3:]
    for channels in (_COLOURS, _GREY):
        if channels in (first, last):
            return first != channels, channels
    return first is not None, _COLOURS if None in (first, last) else 0


def _size(port: Port) -> Size | None:
    """The (height, width) that a port fixes."""
    height, width = port.shape[-3:-1] if _layout(port)[0] else port.shape[-2:]
    return None if height is None or width is None else (height, width)


def _published(path: Path, graph: ForeignGraph, port: Port) -> Published:
    """What the file says of itself, or a configuration beside it."""
    own = dict(graph.metadata)
    if (listed := path.with_name("metadata.yaml")).is_file() and path.suffix == ".xml":
        try:
            table = yaml.safe_load(read_text(listed))
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise CounterfactoryError(f"{listed} is no YAML: {error!s:.80}") from error
        own |= {str(key): value for key, value in table.items()} if isinstance(table, Mapping) else {}
    info = {key.removeprefix("model_info "): value for key, value in own.items() if key.startswith("model_info ")}
    known = of_ultralytics(own) or of_openvino(info or (own if path.suffix == ".xml" else {}), _size(port))
    if known is None and (config := configuration_beside(path)) is not None:
        known = Published(read_published(config))
        names = path.with_name("config.json")
        table = read_json(names) if names.is_file() else None
        if isinstance(table, Mapping):
            known = replace(known, classes=class_names_of(table.get("id2label")))
    return known or Published()


def _preparation(path: Path, port: Port, declared: str | None, known: Preparation | None) -> Preparation:
    """How pictures become the input: as declared, as the file says, or untouched where it takes whole numbers."""
    size, whole = _size(port), port.dtype != "float32"
    if declared is None and known is None and not whole:
        example = "" if size is None else f"resize={size[0]}x{size[1]} "
        raise CounterfactoryError(
            f"{path} takes {port.dtype} and does not say how pictures become its input: declare it by --preprocess, "
            f"such as '{example}mean=imagenet std=imagenet', or scale=255 where pixels go from 0 to 1"
        )
    preparation = read_preparation(declared) if declared is not None else known or Preparation()
    if size is not None and preparation.crop is preparation.resize is preparation.pad is None:
        preparation = replace(preparation, resize=size)
    floats = preparation.scale is not None or preparation.mean is not None
    if floats == whole and (floats or declared is not None):
        wants = "uint8 pixels: leave out scale, mean and std" if floats else "numbers: add scale, or mean and std"
        raise CounterfactoryError(f"{path} takes {wants}; its preparation is {preparation.text!r}")
    return preparation


def _shape(lengths: Sequence[int | None]) -> str:
    return f"[{', '.join('any' if n is None else str(n) for n in lengths)}]"
