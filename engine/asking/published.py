"""Configurations that models are published with: how pictures become the input, what classes are called, and what the
model answers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError
from .preparation import Preparation, read_preparation
from .under_test import class_names_of


@dataclass(frozen=True)
class Published:
    """What a model's own file says of it; None where it says nothing. A preparation without scale, mean and std leaves
    pixels in 0..255, also where the model takes floats. `task` is in the library's own word, such as "detect".
    """

    preparation: Preparation | None = None
    classes: Mapping[int, str] | None = None
    task: str | None = None


def of_ultralytics(metadata: Mapping[str, str]) -> Published | None:
    """What ultralytics wrote into an exported file (ONNX: `metadata_props`; OpenVINO: metadata.yaml); None where it
    wrote nothing.
    """
    if not {"names", "task", "imgsz"} <= metadata.keys():
        return None
    try:
        names, (height, width) = ast.literal_eval(str(metadata["names"])), ast.literal_eval(str(metadata["imgsz"]))
        words = f"resize={height} crop={height}" if metadata["task"] == "classify" else f"letterbox={height}x{width}"
        return Published(read_preparation(f"{words} scale=255"), class_names_of(names), str(metadata["task"]))
    except (ValueError, SyntaxError, TypeError) as error:
        raise CounterfactoryError(f"ultralytics' metadata is not understood: {error!s:.80}") from error


def of_openvino(info: Mapping[str, str]) -> Published | None:
    """What `model_info` in an OpenVINO or ONNX file says, as OpenVINO's Model API wrote it; None where it is empty."""
    return None


def read_published(path: Path) -> Preparation:
    """The preparation in a preprocessor_config.json of Hugging Face or a config.json of timm. Raises
    CounterfactoryError for a file that is neither, and names the key that is not understood.
    """
    return read_preparation(str(path))


def beside(path: Path) -> Path | None:
    """The one published configuration that lies beside a model's file."""
    found = path.with_name("preprocessor_config.json")
    return found if found.is_file() else None
