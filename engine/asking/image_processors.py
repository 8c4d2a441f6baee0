"""What an image processor of Hugging Face does to one picture, from its configuration, a preprocessor_config.json.

The configuration is read whole: a key is understood, or touches no pixel of a picture (`_WITHOUT_PIXELS`), or is off
(null, false), or else is refused by its name. What a configuration leaves out is the default of its class
(transformers 5.23). A class that is not in the table does what its keys say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from PIL import Image

from .configuration_keys import ConfigurationKeys
from .declared_words import triple
from .placement import Size
from .preparation import Preparation, Triple

_HALF, _IMAGENET = ([0.5] * 3, [0.5] * 3), ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
_CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
_BICUBIC, _BILINEAR = 3, 2


def _own(resample: int, norm: tuple[list[float], list[float]], size: Any, crop: int | None = None, **more: Any) -> Any:
    """A class's defaults; its `size`, as a number, is of the shorter side where the default is so."""
    cropped = {} if crop is None else {"do_center_crop": True, "crop_size": crop}
    shorter = {"default_to_square": "height" in size}
    norms = {"do_normalize": True, "image_mean": norm[0], "image_std": norm[1]}
    return {"do_resize": True, "resample": resample, "size": size, **norms, **shorter, **cropped, **more}


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


_DETR = _own(_BILINEAR, _IMAGENET, {"shortest_edge": 800, "longest_edge": 1333}, do_pad=True, max_size=1333)
_MASKS = {**_DETR, "size_divisor": 32}
_CLASSES: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("Bit", "CLIP", "ChineseCLIP"), _own(_BICUBIC, _CLIP, {"shortest_edge": 224}, 224)),
    **dict.fromkeys(("ConditionalDetr", "DeformableDetr", "Detr", "OneFormer", "Yolos"), _DETR),
    **dict.fromkeys(("Mask2Former", "MaskFormer"), _MASKS),
    **dict.fromkeys(("MobileNetV1", "MobileNetV2"), _own(_BILINEAR, _HALF, {"shortest_edge": 256}, 224)),
    "Beit": _own(_BICUBIC, _HALF, _square(224), crop_size=224),
    "Blip": _own(_BICUBIC, _CLIP, _square(384)),
    "ConvNext": _own(_BICUBIC, _HALF, {"shortest_edge": 384}, crop_pct=224 / 256),
    "DINOv3ViT": _own(_BILINEAR, _IMAGENET, _square(224)),
    "DPT": _own(_BICUBIC, _HALF, _square(384)),
    "DeiT": _own(_BICUBIC, _HALF, _square(256), 224),
    "EfficientNet": _own(_BICUBIC, _HALF, _square(346), crop_size=289, include_top=True),
    "Levit": _own(_BICUBIC, _IMAGENET, {"shortest_edge": 224}, 224),
    "MobileViT": _own(_BICUBIC, _HALF, {"shortest_edge": 224}, 256, do_normalize=False, do_flip_channel_order=True),
    "OwlViT": _own(_BICUBIC, _CLIP, _square(768), crop_size=768),
    "Perceiver": _own(_BICUBIC, _IMAGENET, _square(224), 256),
    "PoolFormer": _own(_BICUBIC, _IMAGENET, {"shortest_edge": 224}, 224, crop_pct=0.9),
    "Pvt": _own(_BICUBIC, _IMAGENET, _square(224)),
    "RTDetr": {**_DETR, "size": _square(640), "do_normalize": False},
    "Segformer": _own(_BILINEAR, _IMAGENET, _square(512)),
    "Siglip": {**_own(_BICUBIC, _HALF, _square(224)), "default_to_square": False},
    "TextNet": _own(_BILINEAR, _IMAGENET, {"shortest_edge": 640}, crop_size=224, size_divisor=32),
    "ViT": _own(_BILINEAR, _HALF, _square(224)),
}
_FILTERS = {int(one): one.name.lower() for one in Image.Resampling}
_ENDINGS = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")
# Labels, texts, file forms and batches: what is without influence on the pixels of one picture.
_WITHOUT_PIXELS = frozenset(
    {
        *("image_processor_type", "feature_extractor_type", "processor_class", "_processor_class", "backend"),
        *("_valid_processor_keys", "do_convert_rgb", "do_reduce_labels", "reduce_labels", "ignore_index"),
        *("num_labels", "id2label", "data_format", "input_data_format", "size", "crop_size", "pad_size", "device"),
        *("return_tensors", "disable_grouping", "format", "do_convert_annotations", "class_info_file", "metadata"),
        *("num_text", "repo_path", "task_seq_length", "max_seq_length", "return_segmentation_masks", "masks_path"),
        *("pad_and_return_pixel_mask", "transformers_version", "model_input_names", "_name_or_path"),
    }
)


def of_hugging_face(table: Mapping[str, Any]) -> Preparation:
    """What an image processor of this configuration does. Raises ValueError with the key that is not understood."""
    name = str(table.get("image_processor_type") or table.get("feature_extractor_type") or "")
    name = next((name.removesuffix(end) for end in _ENDINGS if name.endswith(end)), name)
    given = {key: value for key, value in table.items() if value is not None}
    guessed = {"do_resize": "size" in given, "resample": _BILINEAR, "do_normalize": "image_mean" in given}
    keys = ConfigurationKeys({**_CLASSES.get(name, guessed), **given}, _WITHOUT_PIXELS)
    if name not in _CLASSES and keys("do_pad", False):
        raise ValueError(f"'do_pad' of {name or 'a class that is not named'} is not understood")
    parts = _geometry(name, keys) | _values(keys)
    keys.require_all()
    return Preparation(**parts)


def _geometry(name: str, keys: ConfigurationKeys) -> dict[str, Any]:
    parts: dict[str, Any] = {"interpolation": keys("resample", to=lambda number: _FILTERS[int(number)])}
    crop = keys("crop_size", to=_sides) if keys("do_center_crop", False) else None
    square, most, padded = keys("default_to_square", True), keys("max_size", 0, int) or None, keys("pad_size")
    if keys("do_resize"):
        parts |= keys("size", to=lambda size: _size(size, square, most))
        crop = _of_class(name, keys, parts, crop)
    if keys("do_pad", False) and padded is not None:
        parts["pad"] = keys("pad_size", to=_sides)
    return parts if crop is None else {**parts, "crop": crop, "offset": "floor"}


def _of_class(name: str, keys: ConfigurationKeys, parts: dict[str, Any], crop: Size | None) -> Size | None:
    """Changes `parts` to what this class makes of its size; returns its crop."""
    size = parts["resize"]
    height, width = (size, size) if isinstance(size, int) else size
    if name in ("ConvNext", "PoolFormer"):
        tall, wide = keys("crop_pct", to=lambda share: (int(height / share), int(width / share)))
        parts["resize"] = tall if tall == wide else (tall, wide)
        if name == "ConvNext":
            parts["resize"] = tall if height < 384 else (height, width)
            return (height, width) if height < 384 else crop
    elif name == "Levit" and isinstance(size, int):
        parts["resize"] = int(256 / 224 * size)
    elif name == "Perceiver" and crop is not None:
        if height != width or crop[0] != crop[1]:
            raise ValueError("'crop_size' with sides of two lengths is not understood")
        parts["middle"] = height / crop[0]
        return None
    elif name == "Yolos" and parts.get("longest") is not None:
        parts |= {"multiple": 16, "rounding": "down"}
    elif name == "DPT":
        multiple = keys("ensure_multiple_of", 1, int)
        parts |= {"keep": "nearest"} if keys("keep_aspect_ratio", False) else {}
        parts |= {"multiple": multiple, "rounding": "nearest"} if multiple != 1 else {}
    elif name in ("MaskFormer", "Mask2Former", "TextNet"):
        divisor = keys("size_divisibility", keys("size_divisor"), int)
        parts |= {"multiple": divisor} if divisor else {}
    return crop


def _values(keys: ConfigurationKeys) -> dict[str, Any]:
    """How pixels become numbers. EfficientNet takes 1 off before it normalises, and divides by the deviation twice."""
    scale = keys("rescale_factor", 1 / 255, lambda factor: 1 / float(factor))
    normal = keys("do_normalize", False, _flag)
    scale = scale if keys("do_rescale", True) else None
    mean, std = keys("image_mean", 0, _colours), keys("image_std", 1, lambda value: _colours(value, 0.0))
    mean = mean if normal else [0.0] * 3
    if keys("rescale_offset", False) and scale is not None:
        mean = [value + 1 for value in mean]
    times = int(normal) + int(keys("include_top", False, _flag))
    return {
        "scale": 1.0 if scale is None and times else scale,
        "mean": triple(mean) if any(mean) else None,
        "std": triple([value**times for value in std]) if times else None,
        "channels": "bgr" if keys("do_flip_channel_order", False) else "rgb",
    }


def _flag(value: Any) -> bool:
    if not isinstance(value, int):
        raise ValueError
    return bool(value)


def _colours(value: Any, least: float = -math.inf) -> Triple:
    return triple(value if isinstance(value, list | tuple) else [value], least)


def _size(value: Any, square: bool, most: Any) -> dict[str, Any]:
    """`resize`, and what goes with it, of a size; an old one is a number."""
    if isinstance(value, int | float):
        return {"resize": (int(value), int(value))} if square else {"resize": int(value), "longest": most}
    given = {key: int(number) for key, number in value.items() if number} if isinstance(value, Mapping) else {}
    if given.keys() <= {"shortest_edge", "longest_edge"} and "shortest_edge" in given:
        return {"resize": given["shortest_edge"], "longest": given.get("longest_edge")}
    if given.keys() == {"max_height", "max_width"}:
        sides = given["max_height"], given["max_width"]
        return {"resize": sides, "keep": "fit", "multiple": 1, "rounding": "down"}
    return {"resize": _sides(value)}


def _sides(value: Any) -> Size:
    """A (height, width), of a mapping, of two numbers, or of one."""
    if isinstance(value, Mapping):
        given = {key: number for key, number in value.items() if number}
        value = (given.pop("height"), given.pop("width"), *given)
    height, width = value if isinstance(value, list | tuple) else (value, value)
    if min(height, width) < 1:
        raise ValueError
    return int(height), int(width)
