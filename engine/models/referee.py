"""Referees: networks of a user's own that look at painted pictures and say what they see.

A referee is an ONNX file or a function of a Python module, `module:function`. Either takes pictures of one size and
gives, for each, a mask of class numbers, boxes, or the probabilities of classes. What that is held against is not known
here. A profile that names a function runs it: name only what you trust.

    masks     function: whole numbers [N, H, W]; ONNX: logits [N, C, h, w], at any size
    labels    function: probabilities [N, C]; ONNX: logits [N, C]
    boxes     function: for each picture a list of (x0, y0, x1, y1, class number) in its pixels; ONNX: boxes [N, B, 4],
              classes [N, B] and scores [N, B], of which those from 0.5 on count

A function takes uint8 RGB [N, H, W, 3], at most a batch of them. A graph takes one input, f32 [N, 3, h, w]: RGB from 0
to 1, less `mean`, by `std`, scaled to `size`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..runtime.session import RuntimeSettings, Session

Pixels = NDArray[np.uint8]
# Masks [N, H, W], probabilities [N, C], or boxes of each picture.
Sight = Callable[[Pixels], Any]
Box = tuple[float, float, float, float, int]

_LEAST_SCORE = 0.5


@dataclass(frozen=True)
class RefereeSettings:
    """A referee `run` (an .onnx file or "module:function") in batches of `batch`; `classes` are the names of its class
    numbers from 0 on. `size` (height, width), `mean` and `std` are an ONNX graph's.
    """

    kind: Literal["masks", "labels", "boxes"]
    run: str
    batch: int
    classes: tuple[str, ...]
    size: tuple[int, int] | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"[[referees]] batch is at least 1, got {self.batch}")
        if not self.classes:
            raise ValueError("[[referees]] classes names what the referee's numbers mean: at least one name")
        if self.is_graph != (self.size is not None):
            wanted = "needs" if self.is_graph else "has no"
            raise ValueError(f"[[referees]] {self.run!r} {wanted} size = [height, width]: a graph has one, no function")
        if not self.is_graph and (self.run.count(":") != 1 or self.mean or self.std):
            raise ValueError(
                f'[[referees]] run is a file NAME.onnx, or "module:function" without mean and std, found {self.run!r}'
            )
        if self.std is not None and min(self.std) <= 0:
            raise ValueError(f"[[referees]] std is above 0, got {list(self.std)}")

    @property
    def is_graph(self) -> bool:
        """Whether it is an ONNX file."""
        return self.run.endswith(".onnx")

    def digest(self) -> str:
        """Names what it computes: the settings, and the content of its file. Raises CounterfactoryError without one."""
        return content_key("referee", self, file_digest(self._file()))

    def _file(self) -> Path:
        if self.is_graph:
            path = Path(self.run).expanduser()
            if not path.is_file():
                raise CounterfactoryError(f"referee {path} is missing: correct [[referees]] run in the profile")
            return path
        return Path(inspect.getsourcefile(_function(self.run)) or __file__)


def open_referee(settings: RefereeSettings, runtime: RuntimeSettings) -> Sight:
    """What the settings name, ready to look. Raises CounterfactoryError where there is no such thing, and for a graph
    under a runtime that opens none.
    """
    if not settings.is_graph:
        return _checked(settings, _function(settings.run))
    if runtime.backend != "openvino":
        raise CounterfactoryError(
            f'referee {settings.run} is a graph, which [runtime] backend = "openvino" opens, found '
            f'"{runtime.backend}": name a function that runs it, such as "my_module:look"'
        )
    from ..runtime.openvino import open_session  # profiles hold the settings, and --help does not wait for a runtime

    session = open_session(settings._file(), batch=settings.batch, precision="f32", threads=runtime.threads)
    return _checked(settings, lambda images: _look(session, settings, images))


def _function(named: str) -> Callable[..., Any]:
    module, _, name = named.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CounterfactoryError(f"referee {named!r} is not found ({error}): correct [[referees]] run") from error
    if not inspect.isfunction(found):
        raise CounterfactoryError(f"referee {named!r} is no function, found {type(found).__name__}")
    return found


def _checked(settings: RefereeSettings, sight: Sight) -> Sight:
    """What a referee sees, in a form that can be relied upon."""

    def look(images: Pixels) -> Any:
        found, count = sight(images), len(images)
        if settings.kind == "boxes":
            if len(found) != count:
                raise _wrong(settings, f"a list of boxes for each of {count} pictures", f"{len(found)}")
            return [[(*map(float, box[:4]), int(box[4])) for box in boxes] for boxes in found]
        values = np.asarray(found)
        shape = images.shape[:3] if settings.kind == "masks" else (count, len(settings.classes))
        if values.shape != shape or (settings.kind == "masks" and values.dtype.kind not in "iu"):
            wanted = "whole numbers" if settings.kind == "masks" else "probabilities"
            raise _wrong(settings, f"{wanted} {list(shape)}", f"{values.dtype} {list(values.shape)}")
        return values

    return look


def _wrong(settings: RefereeSettings, wanted: str, found: str) -> CounterfactoryError:
    return CounterfactoryError(f"referee {settings.run} of {settings.kind} gives {wanted}, got {found}")


def _look(session: Session, settings: RefereeSettings, images: Pixels) -> Any:
    """One run of a graph, padded to its batch."""
    assert settings.size is not None, "checked by the settings"
    height, width = settings.size
    mean = np.array(settings.mean or (0, 0, 0), np.float32)
    std = np.array(settings.std or (1, 1, 1), np.float32)
    feed = np.zeros((settings.batch, 3, height, width), np.float32)
    for i, image in enumerate(images):
        scaled = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.float32)
        feed[i] = ((scaled / 255 - mean) / std).transpose(2, 0, 1)
    (name,) = [port.name for port in session.signature.inputs]
    out = [np.asarray(values)[: len(images)] for values in session.run({name: feed}).values()]
    across = (images.shape[2] / width, images.shape[1] / height)
    if settings.kind == "masks":
        return np.stack([_enlarged(logits, images.shape[1:3]) for logits in out[0]])
    if settings.kind == "labels":
        powers = np.exp(out[0] - out[0].max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    return [_found(boxes, kinds, scores, across) for boxes, kinds, scores in zip(*out, strict=True)]


def _enlarged(logits: NDArray[Any], size: Sequence[int]) -> NDArray[np.int64]:
    """The likeliest class of every pixel, [C, h, w] to [H, W]."""
    best = logits.argmax(axis=0).astype(np.uint16)
    return np.asarray(cv2.resize(best, (size[1], size[0]), interpolation=cv2.INTER_NEAREST_EXACT), np.int64)


def _found(
    boxes: NDArray[Any], kinds: NDArray[Any], scores: NDArray[Any], across: tuple[float, float]
) -> list[tuple[float, ...]]:
    scale = np.array([*across, *across])
    return [
        (*(box * scale), kind) for box, kind, score in zip(boxes, kinds, scores, strict=True) if score >= _LEAST_SCORE
    ]
