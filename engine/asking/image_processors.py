"""What an image processor of Hugging Face does to one picture, from its configuration, a preprocessor_config.json.

The configuration is read whole: a key is understood, or touches no pixel of a picture (`_WITHOUT_PIXELS`), or is off
(null, false), or else is refused by its name. What a configuration leaves out is the default of its class
(transformers 5.23). A class that is not in the table does what its keys say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from .declared_words import triple
from .placement import Size
from .preparation import Preparation

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
_MOBILE = _own(_BILINEAR, _HALF, {"shortest_edge": 256}, 224)
_CLIPS = _own(_BICUBIC, _CLIP, {"shortest_edge": 224}, 224)
_CLASSES: Mapping[str, Mapping[str, Any]] = {
    "Beit": _own(_BICUBIC, _HALF, _square(224), crop_size=224),
    "Bit": _CLIPS,
    "Blip": _own(_BICUBIC, _CLIP, _square(384)),
    "CLIP": _CLIPS,
    "ChineseCLIP": _CLIPS,
    "ConditionalDetr": _DETR,
    "ConvNext": _own(_BICUBIC, _HALF, {"shortest_edge": 384}, crop_pct=224 / 256),
    "DINOv3ViT": _own(_BILINEAR, _IMAGENET, _square(224)),
    "DPT": _own(_BICUBIC, _HALF, _square(384)),
    "DeformableDetr": _DETR,
    "DeiT": _own(_BICUBIC, _HALF, _square(256), 224),
    "Detr": _DETR,
    "EfficientNet": _own(_BICUBIC, _HALF, _square(346), crop_size=289, include_top=True),
    "Levit": _own(_BICUBIC, _IMAGENET, {"shortest_edge": 224}, 224),
    "Mask2Former": _MASKS,
    "MaskFormer": _MASKS,
    "MobileNetV1": _MOBILE,
    "MobileNetV2": _MOBILE,
    "MobileViT": _own(_BICUBIC, _HALF, {"shortest_edge": 224}, 256, do_normalize=False, do_flip_channel_order=True),
    "OneFormer": _DETR,
    "OwlViT": _own(_BICUBIC, _CLIP, _square(768), crop_size=768),
    "Perceiver": _own(_BICUBIC, _IMAGENET, _square(224), 256),
    "PoolFormer": _own(_BICUBIC, _IMAGENET, {"shortest_edge": 224}, 224, crop_pct=0.9),
    "Pvt": _own(_BICUBIC, _IMAGENET, _square(224)),
    "RTDetr": {**_DETR, "size": _square(640), "do_normalize": False},
    "Segformer": _own(_BILINEAR, _IMAGENET, _square(512)),
    "Siglip": {**_own(_BICUBIC, _HALF, _square(224)), "default_to_square": False},
    "TextNet": _own(_BILINEAR, _IMAGENET, {"shortest_edge": 640}, crop_size=224, size_divisor=32),
    "ViT": _own(_BILINEAR, _HALF, _square(224)),
    "Yolos": _DETR,
}
# Classes with rules of their own that no key tells of.
_REFUSED = frozenset({"Donut"})
_ENDINGS = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")
# Labels, texts, file forms and batches: what is without influence on the pixels of one picture.
_WITHOUT_PIXELS = frozenset(
    {
        *("image_processor_type", "feature_extractor_type", "processor_class", "_processor_class", "backend"),
        *("_valid_processor_keys", "do_convert_rgb", "do_reduce_labels", "reduce_labels", "ignore_index"),
        *("num_labels", "id2label", "data_format", "input_data_format", "default_to_square", "max_size", "device"),
        *("return_tensors", "disable_grouping", "format", "do_convert_annotations", "class_info_file", "metadata"),
        *("num_text", "repo_path", "task_seq_length", "max_seq_length", "return_segmentation_masks", "masks_path"),
        *("pad_and_return_pixel_mask", "transformers_version", "model_input_names", "_name_or_path", "crop_pct"),
    }
)


def of_hugging_face(table: Mapping[str, Any]) -> Preparation:
    """What an image processor of this configuration does. Raises ValueError with the key that is not understood."""
    name = str(table.get("image_processor_type") or table.get("feature_extractor_type") or "")
    name = next((name.removesuffix(end) for end in _ENDINGS if name.endswith(end)), name)
    if name in _REFUSED:
        raise ValueError(f"what {name} does is not understood")
    given = {key: value for key, value in table.items() if value is not None}
    guessed = {"do_resize": "size" in given, "resample": _BILINEAR, "do_normalize": "image_mean" in given}
    keys = _Keys({**_CLASSES.get(name, guessed), **given})
    if name not in _CLASSES and keys("do_pad", False):
        raise ValueError(f"'do_pad' of {name or 'a class that is not named'} is not understood")
    parts = _geometry(name, keys) | _values(keys)
    keys.require_all()
    return Preparation(**parts)


class _Keys:
    """A configuration, and which of its keys were read."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table, self._read = table, set(_WITHOUT_PIXELS)

    def __call__(self, name: str, other: Any = None) -> Any:
        """The value of a key, or `other` where there is none."""
        self._read.add(name)
        return self._table.get(name, other)

    def require_all(self) -> None:
        """Raises ValueError for a key that was not read, unless it is off."""
        for name, value in self._table.items():
            if name not in self._read and value is not False:
                raise ValueError(f"{name!r} is not understood")


def _geometry(name: str, keys: _Keys) -> dict[str, Any]:
    filters = {int(one): one.name.lower() for one in Image.Resampling}
    parts: dict[str, Any] = {"interpolation": filters[int(keys("resample"))]}
    size, cropped, padded = keys("size"), keys("crop_size"), keys("pad_size")
    crop = _sides(cropped, "crop_size") if keys("do_center_crop", False) else None
    if keys("do_resize"):
        parts |= _size(size, keys("default_to_square", True), keys("max_size"))
        crop = _of_class(name, keys, parts, crop)
    if keys("do_pad", False) and padded is not None:
        parts["pad"] = _sides(padded, "pad_size")
    return parts if crop is None else {**parts, "crop": crop, "offset": "floor"}


def _of_class(name: str, keys: _Keys, parts: dict[str, Any], crop: Size | None) -> Size | None:
    """Changes `parts` to what this class makes of its size; returns its crop."""
    size = parts["resize"]
    if name == "ConvNext" and isinstance(size, int):
        parts["resize"] = int(size / keys("crop_pct")) if size < 384 else (size, size)
        return (size, size) if size < 384 else crop
    if name == "PoolFormer":
        sides = [int(side / keys("crop_pct")) for side in ((size, size) if isinstance(size, int) else size)]
        parts["resize"] = sides[0] if sides[0] == sides[1] else (sides[0], sides[1])
    elif name == "Levit" and isinstance(size, int):
        parts["resize"] = int(256 / 224 * size)
    elif name == "Perceiver" and crop is not None:
        if len({*size, *crop}) > 2 or size[0] != size[1]:
            raise ValueError("'crop_size' with sides of two lengths is not understood")
        parts["middle"] = size[0] / crop[0]
        return None
    elif name == "Yolos" and "longest" in parts:
        parts |= {"multiple": 16, "rounding": "down"}
    elif name == "DPT":
        multiple = keys("ensure_multiple_of", 1)
        parts |= {"keep": "nearest"} if keys("keep_aspect_ratio", False) else {}
        parts |= {"multiple": int(multiple), "rounding": "nearest"} if multiple != 1 else {}
    elif name in ("MaskFormer", "Mask2Former", "TextNet"):
        divisor = keys("size_divisibility", keys("size_divisor"))
        parts |= {"multiple": int(divisor)} if divisor else {}
    return crop


def _values(keys: _Keys) -> dict[str, Any]:
    """How pixels become numbers. EfficientNet takes 1 off before it normalises, and divides by the deviation twice."""
    factor, rescale, normal = keys("rescale_factor", 1 / 255), keys("do_rescale", True), keys("do_normalize", False)
    mean, std = _colours(keys("image_mean", 0), normal, 0.0), _colours(keys("image_std", 1), True, 1.0)
    if rescale and keys("rescale_offset", False):
        mean = [value + 1 for value in mean]
    if keys("include_top", False):
        std = [value * value if normal else value for value in std]
    elif not normal:
        std = [1.0] * 3
    return {
        "scale": 1 / float(factor) if rescale else None,
        "mean": triple(mean) if any(mean) else None,
        "std": triple(std, 0.0) if set(std) != {1.0} else None,
        "channels": "bgr" if keys("do_flip_channel_order", False) else "rgb",
    }


def _colours(value: Any, used: bool, other: float) -> list[float]:
    numbers = value if isinstance(value, list) else [value]
    return [float(number) for number in numbers] * (3 if len(numbers) == 1 else 1) if used else [other] * 3


def _size(value: Any, square: bool, most: Any) -> dict[str, Any]:
    """`resize` and `longest` of a size; an old one is a number."""
    if isinstance(value, int | float):
        return {"resize": (int(value), int(value))} if square else {"resize": int(value), **_longest(most)}
    held = {key: number for key, number in value.items() if number is not None} if isinstance(value, Mapping) else {}
    if held.keys() <= {"shortest_edge", "longest_edge"} and "shortest_edge" in held:
        return {"resize": int(held["shortest_edge"]), **_longest(held.get("longest_edge"))}
    return {"resize": _sides(value, "size")}


def _longest(most: Any) -> dict[str, int]:
    return {} if most is None else {"longest": int(most)}


def _sides(value: Any, name: str) -> Size:
    """A (height, width), of a mapping, of two numbers, or of one."""
    if isinstance(value, Mapping):
        held = {key: number for key, number in value.items() if number is not None}
        if held.keys() != {"height", "width"}:
            raise ValueError(f"{name!r} of {' and '.join(map(repr, held)) or 'nothing'} is not understood")
        value = (held["height"], held["width"])
    sides = value if isinstance(value, list | tuple) else [value, value]
    if len(sides) != 2 or not all(isinstance(side, int | float) and side >= 1 for side in sides):
        raise ValueError(f"{name!r} is not understood: {value!r:.40}")
    return int(sides[0]), int(sides[1])
