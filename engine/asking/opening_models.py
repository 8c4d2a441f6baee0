"""Opens a model under test by what the user calls it: a file, `module:callable`, or a library's own name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CounterfactoryError
from .callables import load_callable
from .outputs import ANYTHING, Wanted
from .under_test import ModelUnderTest, with_output

SUFFIXES = (".onnx", ".xml")
# Files that run code when they are opened.
_PICKLED = (".pt", ".pth", ".pkl", ".pickle", ".joblib", ".ckpt")
# Libraries that name models, as they stand before the colon.
LIBRARIES = ("timm", "torchvision", "hf", "ultralytics", "clip")
_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def names_model(text: str) -> bool:
    """Whether a text names a model, rather than a file of its answers."""
    path, named = Path(text), _library(text) is not None or _CALLABLE.fullmatch(text) is not None
    return path.suffix.lower() in (*SUFFIXES, *_PICKLED) or (named and not path.exists())


def open_model(
    text: str,
    preprocess: str | None = None,
    labels: Sequence[str] = (),
    output: str | None = None,
    wanted: frozenset[Wanted] = ANYTHING,
) -> ModelUnderTest:
    """The model that `text` names; `preprocess` declares its input, `labels` are what a zero-shot model may answer, and
    `output` names the one of its outputs that is the answer, of a `wanted` kind.

    Raises CounterfactoryError for a model that cannot be opened, in one sentence.
    """
    kind = _library(text)
    if kind is None and Path(text).suffix.lower() in SUFFIXES:
        from .model_file import open_model_file

        return open_model_file(Path(text), preprocess, labels, output, wanted)
    if kind == "ultralytics":
        from .ultralytics_models import load_ultralytics

        return with_output(load_ultralytics(text, preprocess), output)
    if kind is not None:
        from . import torch_models

        if kind == "clip":
            return with_output(torch_models.load_clip(text, labels, preprocess), output)
        loaders = {"timm": torch_models.load_timm, "torchvision": torch_models.load_torchvision}
        return with_output(loaders.get(kind, torch_models.load_hugging_face)(text, preprocess), output)
    if _CALLABLE.fullmatch(text):
        return load_callable(text, preprocess, output)
    if Path(text).suffix.lower() in _PICKLED:
        raise CounterfactoryError(
            f"--model {text} is a pickle, which may run anything when it is opened: export it to ONNX, or write "
            "module:callable that builds the net and takes its weights by torch.load(..., weights_only=True); YOLO's "
            "file is ultralytics:FILE"
        )
    raise CounterfactoryError(
        f"--model {text} names no model: give an .onnx or .xml file, module:callable, or a name after "
        f"{', '.join(f'{name}:' for name in LIBRARIES)}"
    )


def _library(text: str) -> str | None:
    before, colon, name = text.partition(":")
    return before if colon and name and before in LIBRARIES else None
