"""Models of ultralytics under test: detectors, segmenters' boxes, and classifiers, by name or by file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..runtime.installing import releases
from ..runtime.onnx_file import read_onnx_file
from .placement import Size
from .preparation import Preparation
from .torch_models import library
from .under_test import ModelUnderTest

# Boxes of less confidence change no figure, and are many.
_LEAST = 0.001
# Whose releases decide its answers.
_RUN_BY = ("ultralytics", "torch", "openvino", "onnxruntime")


def load_ultralytics(name: str, preprocess: str | None) -> ModelUnderTest:
    """The model that ultralytics calls so: "ultralytics:yolo11n.pt". It prepares pictures by itself."""
    if preprocess is not None:
        raise CounterfactoryError(f"--model {name} prepares pictures by itself: leave out --preprocess")
    package, weights = library("ultralytics", name), name.partition(":")[2]
    logging.getLogger("ultralytics").setLevel(logging.ERROR)  # it writes to standard output, where the results go
    exported = Path(weights).suffix.lower() == ".onnx" and Path(weights).is_file()
    task = {"task": read_onnx_file(Path(weights)).metadata.get("task")} if exported else {}
    try:
        model = package.YOLO(weights, **task)
    except Exception as error:
        raise CounterfactoryError(f"--model {name} cannot be opened: {error!s:.200}") from error

    def run(inputs: NDArray[Any], _: Sequence[Size]) -> Any:
        # It takes arrays as OpenCV has them, blue first.
        pictures = [np.ascontiguousarray(picture[:, :, ::-1]) for picture in inputs]
        results = model.predict(pictures, conf=_LEAST, verbose=False)
        if results[0].boxes is None and results[0].probs is None:
            raise CounterfactoryError(f"{name} gives neither upright boxes nor classes: its task is {model.task}")
        if results[0].probs is not None:
            return np.stack([result.probs.data.cpu().numpy() for result in results])
        return [result.boxes.data.cpu().numpy()[:, :6] for result in results]

    file = Path(getattr(model, "ckpt_path", None) or weights)
    return ModelUnderTest(
        name=name,
        run=run,
        prepare=lambda picture: picture,
        input=f"{Preparation().text}, prepared by ultralytics",
        digest=content_key("ultralytics", file_digest(file), releases(_RUN_BY)) if file.is_file() else None,
        unknown="folder of weights",
        classes={int(number): str(label) for number, label in model.names.items()},
        named_by="ultralytics",
    )
