"""Configurations that models are published with: how pictures become the input, what classes are called, and what the
model answers.

They are files (preprocessor_config.json of Hugging Face, config.json of timm), or what ultralytics and OpenVINO's Model
API write into a model's own file. Each is read whole: a key that is not understood is refused by its name.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import read_json
from .configuration_keys import ConfigurationKeys
from .declared_words import IMAGENET, read_words, triple
from .image_processors import of_hugging_face
from .placement import Size
from .preparation import FILTERS, Preparation, Triple
from .under_test import class_names_of

# Of timm's `pretrained_cfg`, what says where weights come from and what they were measured on: no pixel of a picture.
_OF_WEIGHTS = frozenset(
    {
        *("url", "file", "state_dict", "hf_hub_id", "hf_hub_filename", "source", "architecture", "tag"),
        *("custom_load", "num_classes", "pool_size", "first_conv", "classifier", "fixed_input_size"),
        *("min_input_size", "license", "test_input_size", "test_crop_pct", "label_offset", "label_names"),
        *("label_descriptions", "description", "origin_url", "paper_name", "paper_ids", "notes", "features_only"),
        *("num_features", "global_pool", "model_args", "pretrained_cfg", "image_processor_type"),
    }
)
# Of OpenVINO's `model_info`, what is said of answers, of tiles and of how the file was made.
_OF_ANSWERS = frozenset(
    {
        *("model_type", "model_name", "model_short_name", "task_type", "task", "labels", "label_ids", "label_info"),
        *("otx_version", "optimization_config", "confidence_threshold", "iou_threshold", "agnostic_nms", "topk"),
        *("multilabel", "hierarchical", "hierarchical_config", "hierarchical_postproc", "output_raw_scores"),
        *("return_soft_prediction", "soft_threshold", "blur_strength", "path_to_labels", "anchors", "masks"),
        *("postprocess_semantic_masks", "nms_execute", "nms_max_predictions", "image_threshold", "pixel_threshold"),
        *("normalization_scale", "image_shape", "tile_size", "tiles_overlap", "max_pred_number", "apply_softmax"),
        *("tile_with_full_img", "embedded_processing", "input_frame_width", "input_frame_height"),
        *("orig_width", "orig_height"),
    }
)
_LEAST = {"mean": -math.inf, "scale": 0.0}
_YES = ("True", "YES")


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
        names, sides = (_literal(metadata[name]) for name in ("names", "imgsz"))
        height, width = (sides, sides) if isinstance(sides, int) else sides
        words = f"letterbox={height}x{width}"
        if metadata["task"] == "classify":
            words = f"resize={height if height == width else f'{height}x{width}'} crop={height}x{width}"
        return Published(read_words(f"{words} scale=255"), class_names_of(names), str(metadata["task"]))
    except (ValueError, SyntaxError, TypeError, CounterfactoryError) as error:
        raise CounterfactoryError(f"what ultralytics wrote into the model is not understood: {error!s:.120}") from error


def of_openvino(info: Mapping[str, str], size: Size | None) -> Published | None:
    """What OpenVINO's Model API wrote as `model_info` into a model that takes pictures of `size` (height, width); None
    where it wrote nothing. Names in it have "_" for a blank.
    """
    if not info:
        return None
    try:
        preparation = None if info.get("embedded_processing") in _YES else _of_model_api(info, size)
    except (ValueError, CounterfactoryError) as error:
        raise CounterfactoryError(f"'model_info' in the model is not understood: {error!s:.120}") from error
    labels = class_names_of(info["labels"].split()) if info.get("labels") else None
    return Published(preparation, labels, info.get("task_type") or info.get("model_type"))


def read_preparation(declared: str) -> Preparation:
    """What is declared in words, or in a published configuration, a file that ends in .json. Raises CounterfactoryError
    for words that say nothing, and for a file that cannot be read.
    """
    return read_published(Path(declared)) if declared.endswith(".json") else read_words(declared)


def read_published(path: Path) -> Preparation:
    """The preparation in a preprocessor_config.json of Hugging Face or a config.json of timm. Raises
    CounterfactoryError for a file that is neither, and names the key that is not understood.
    """
    try:
        table = read_json(path)
        if not isinstance(table, Mapping):
            raise ValueError("it holds no table")
        if "pretrained_cfg" in table or "architecture" in table:
            own = ConfigurationKeys(table, ())("pretrained_cfg", {}, dict)
            return _of_timm({**table, **own})
        if not table or "model_type" in table:
            raise ValueError("it does not say how pictures become the input: that is in preprocessor_config.json")
        return of_hugging_face(table.get("image_processor") or table)  # the former in processor_config.json
    except (ValueError, CounterfactoryError) as error:
        reason = str(error).removeprefix("--preprocess: ")
        raise CounterfactoryError(f"{path} as --preprocess: {reason:.200}; declare it in words") from error


def configuration_beside(path: Path) -> Path | None:
    """The published configuration that lies beside a model's file, as optimum writes it; None where none does."""
    file = path.with_name("preprocessor_config.json")
    return file if file.is_file() else None


def _of_timm(table: Mapping[str, Any]) -> Preparation:
    """timm's transform for measuring a model by its `pretrained_cfg`."""
    keys = ConfigurationKeys(table, _OF_WEIGHTS)
    channels, height, width = keys("input_size", [3, 224, 224], lambda sides: [int(side) for side in sides])
    if channels != 3:
        raise ValueError(f"'input_size' of {channels} channels is not understood: pictures have 3")
    tall, wide = keys("crop_pct", 0.875, lambda share: [math.floor(side / share) for side in (height, width)])
    mean, std = keys("mean", IMAGENET["mean"], triple), keys("std", IMAGENET["std"], lambda std: triple(std, 0.0))
    ways: dict[str, dict[str, Any]] = {
        "center": {"resize": tall} if tall == wide else {"resize": (tall, wide), "keep": "cover"},
        "squash": {"resize": (tall, wide)},
        "border": {"resize": (tall, wide), "keep": "fit", "fill": tuple(float(round(255 * part)) for part in mean)},
    }
    filter_ = keys("interpolation", "bicubic", lambda name: (name, FILTERS[name])[0])
    way = keys("crop_mode", "center", ways.__getitem__)
    keys.require_all()
    return Preparation(**way, crop=(height, width), interpolation=filter_, scale=255.0, mean=mean, std=std)


def _of_model_api(info: Mapping[str, str], size: Size | None) -> Preparation:
    keys = ConfigurationKeys({key: value for key, value in info.items() if value}, _OF_ANSWERS)
    for name, value in {"intensity_mode": "none", "input_dtype": "u8", "interpolation_mode": "LINEAR"}.items():
        keys(name, value, (value,).index)
    fill = keys("pad_value", "0", lambda value: triple([float(value)]))
    ways: dict[str, dict[str, Any]] = {
        "standard": {},
        "fit_to_window": {"keep": "fit", "pad": size, "fill": fill},
        "fit_to_window_letterbox": {"keep": "fit", "crop": size, "fill": fill},
        # Its own crop to a size that is not square is of another shape than that size.
        **({"crop": {"middle": 1.0}} if size is None or size[0] == size[1] else {}),
    }
    mean, std = (keys(f"{name}_values", "", partial(_numbers, least=least)) for name, least in _LEAST.items())
    parts = keys("resize_type", "standard", ways.__getitem__) | {
        "channels": _order(keys("reverse_input_channels", "False") in _YES, "otx_version" in info),
        "scale": None if mean is std is None else 1.0,
    }
    keys.require_all()
    return Preparation(resize=size, antialias=False, mean=mean, std=std, **parts)


def _order(reverse: bool, red_first: bool) -> str:
    """Model API is given blue first, as OpenCV reads, and reverses it where told; OTX and Geti give it red first."""
    return "bgr" if reverse == red_first else "rgb"


def _numbers(text: str, least: float) -> Triple | None:
    return triple([float(value) for value in text.replace(",", " ").split()], least) if text else None


def _literal(value: Any) -> Any:
    """A value that is written as Python writes it, or is there as itself."""
    return ast.literal_eval(value) if isinstance(value, str) else value
