"""Referees: a user's own networks that look at painted pictures and report masks, boxes or labels.

A referee is an ONNX file or a function of a Python module, `module:function`. Either takes pictures of one size and
gives, for each, a mask of class numbers, boxes, or the probabilities of classes. The comparison with the truth is made
elsewhere. A profile that names a function runs it: name only what you trust.

    masks     function: whole numbers [N, H, W]; ONNX: logits [N, C, h, w], at any size
    labels    function: probabilities [N, C]; ONNX: logits [N, C]
    boxes     function: for each picture a list of (x0, y0, x1, y1, class number) in its pixels; ONNX: boxes [N, B, 4],
              classes [N, B] and scores [N, B], of which those from 0.5 on count

A function takes uint8 RGB [N, H, W, 3], at most a batch of them. A graph takes one input, f32 [N, 3, h, w]: RGB from 0
to 1, less `mean`, by `std`, scaled to `size`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ..errors import CounterfactoryError
from ..profile.referees import RefereeSettings, load_function
from ..profile.runtime import RuntimeSettings
from ..runtime.session import Session

Pixels = NDArray[np.uint8]
# Masks [N, H, W], probabilities [N, C], or boxes of each picture.
Sight = Callable[[Pixels], Any]
RefereeBox = tuple[float, float, float, float, int]

_LEAST_SCORE = 0.5


def open_referee(settings: RefereeSettings, runtime: RuntimeSettings) -> Sight:
    """The referee that the settings name. Raises CounterfactoryError where there is no such file or function, and for a
    graph under a runtime that opens none.
    """
    if not settings.is_graph:
        return _check_results(settings, load_function(settings.run))
    if runtime.backend != "openvino":
        raise CounterfactoryError(
            f'referee {settings.run} is a graph, which [runtime] backend = "openvino" opens, found '
            f'"{runtime.backend}": name a function that runs it, such as "my_module:look"'
        )
    from ..runtime.openvino import open_session  # profiles hold the settings, and --help does not wait for a runtime

    session = open_session(settings.file(), batch=settings.batch, precision="f32", threads=runtime.threads)
    return _check_results(settings, lambda images: _look(session, settings, images))


def _check_results(settings: RefereeSettings, sight: Sight) -> Sight:

    def refuse(wanted: str, result: str) -> CounterfactoryError:
        return CounterfactoryError(f"referee {settings.run} of {settings.kind} gives {wanted}, got {result}")

    def look(images: Pixels) -> Any:
        sightings, count = sight(images), len(images)
        if settings.kind == "boxes":
            if len(sightings) != count:
                raise refuse(f"a list of boxes for each of {count} pictures", f"{len(sightings)}")
            return [[(*map(float, box[:4]), int(box[4])) for box in boxes] for boxes in sightings]
        values = np.asarray(sightings)
        shape = images.shape[:3] if settings.kind == "masks" else (count, len(settings.classes))
        if values.shape != shape or (settings.kind == "masks" and values.dtype.kind not in "iu"):
            wanted = "whole numbers" if settings.kind == "masks" else "probabilities"
            raise refuse(f"{wanted} {list(shape)}", f"{values.dtype} {list(values.shape)}")
        return values

    return look


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
    if settings.kind == "masks":  # the likeliest class of every pixel, [C, h, w] to [H, W]
        likeliest, size = out[0].argmax(axis=1).astype(np.uint16), (images.shape[2], images.shape[1])
        masks = [cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST_EXACT) for mask in likeliest]
        return np.stack(masks).astype(np.int64)
    if settings.kind == "labels":
        powers = np.exp(out[0] - out[0].max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    scale = np.array([images.shape[2] / width, images.shape[1] / height] * 2)
    return [
        [(*(box * scale), kind) for box, kind, score in zip(*seen, strict=True) if score >= _LEAST_SCORE]
        for seen in zip(*out, strict=True)
    ]
