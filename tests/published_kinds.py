"""Kinds of configuration that models are published with, as in well-known checkpoints, and what their own libraries
make of a picture by them.

    python tests/published_kinds.py [--write]

Prints a row for each kind: how many pixels differ, and how far. `--write` keeps the rows in docs/configurations.json
with the digest of the code that they hold for, and their number in docs/evaluation.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from mutants import write_figures
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.asking.preparation import Preparation
from counterfactory.engine.asking.published_inputs import of_openvino, of_ultralytics, read_preparation

ROOT = Path(__file__).parents[1]
CODE = ("preparation", "declared_words", "configuration_keys", "image_processors", "published_inputs")
# (height, width): wide, tall, odd, small, square.
SIZES = ((375, 500), (480, 301), (97, 131), (33, 47), (224, 224), (640, 427))
# OpenCV's fixed-point numbers may be one of 256 levels off. Where transformers does a thing in two ways, by Pillow and
# by torchvision, the nearer one counts: the two are up to 3 levels from each other, and far apart with resample 0.
LEVELS = 1.01

Picture = NDArray[np.uint8]
HALF, CLIP = [0.5] * 3, [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
IMAGENET = {"image_mean": MEAN, "image_std": STD}
HALVES = {"image_mean": HALF, "image_std": HALF}


def square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


@dataclass(frozen=True)
class Kind:
    """A configuration, the library whose it is, and the (height, width) that its model takes, where it does not say."""

    library: str
    config: Mapping[str, Any]
    size: tuple[int, int] | None = None


def hugging_face(kind: str, **keys: Any) -> Kind:
    return Kind("transformers", {"image_processor_type": f"{kind}ImageProcessor", **keys})


DETR = {"size": {"shortest_edge": 800, "longest_edge": 1333}, "do_pad": True, "format": "coco_detection"}
KINDS: Mapping[str, Kind] = {
    "google/vit-base-patch16-224": hugging_face("ViT", size=square(224), resample=2, do_resize=True, **HALVES),
    "a ViT of before 2022": Kind(
        "transformers", {"feature_extractor_type": "ViTFeatureExtractor", "size": 384, "resample": 2, **HALVES}
    ),
    "microsoft/beit-base-patch16-224": hugging_face(
        "Beit", size=square(224), crop_size=square(224), do_center_crop=False, resample=2, **HALVES, reduce_labels=True
    ),
    "facebook/deit-base-distilled-patch16-224": hugging_face(
        "DeiT", size=square(256), crop_size=square(224), do_center_crop=True, resample=3, **IMAGENET
    ),
    "microsoft/swin-tiny-patch4-window7-224": hugging_face("ViT", size=square(224), resample=3, **IMAGENET),
    "facebook/convnext-tiny-224": hugging_face("ConvNext", size={"shortest_edge": 224}, crop_pct=0.875, **IMAGENET),
    "facebook/convnext-base-384": hugging_face("ConvNext", size=384, crop_pct=0.875, resample=3, **IMAGENET),
    "microsoft/resnet-50": hugging_face("ConvNext", size=224, crop_pct=0.875, resample=3, **IMAGENET),
    "facebook/dinov2-base": hugging_face(
        "Bit", size={"shortest_edge": 256}, crop_size=square(224), resample=3, do_center_crop=True, **IMAGENET
    ),
    "google/bit-50": hugging_face("Bit", size={"shortest_edge": 448}, crop_size=square(448), resample=2, **HALVES),
    "openai/clip-vit-base-patch32": hugging_face(
        "CLIP", size=224, crop_size=224, image_mean=CLIP, image_std=CLIP_STD, resample=3, do_center_crop=True
    ),
    "google/siglip-base-patch16-224": hugging_face("Siglip", size=square(224), resample=3, **HALVES),
    "google/mobilenet_v1_1.0_224": hugging_face(
        "MobileNetV1", size={"shortest_edge": 256}, crop_size=square(224), resample=2, **HALVES
    ),
    "google/mobilenet_v2_1.0_224": hugging_face(
        "MobileNetV2", size={"shortest_edge": 256}, crop_size=square(224), resample=2, **HALVES
    ),
    "google/efficientnet-b0": hugging_face(
        "EfficientNet",
        size=square(224),
        crop_size=square(289),
        do_center_crop=False,
        resample=0,
        include_top=True,
        rescale_offset=False,
        image_mean=MEAN,
        image_std=[0.47853944, 0.4732864, 0.47434163],
    ),
    "an EfficientNet with an offset": hugging_face(
        "EfficientNet",
        size=square(240),
        rescale_factor=1 / 127.5,
        rescale_offset=True,
        include_top=False,
        do_normalize=False,
    ),
    "apple/mobilevit-small": hugging_face(
        "MobileViT", size={"shortest_edge": 288}, crop_size=square(256), resample=2, do_flip_channel_order=True
    ),
    "apple/deeplabv3-mobilevit-small": hugging_face(
        "MobileViT", size={"shortest_edge": 544}, crop_size=square(512), resample=2, do_flip_channel_order=True
    ),
    "facebook/levit-128S": hugging_face("Levit", size={"shortest_edge": 224}, crop_size=square(224), **IMAGENET),
    "sail/poolformer_s12": hugging_face("PoolFormer", size=224, crop_size=224, crop_pct=0.9, resample=3, **IMAGENET),
    "deepmind/vision-perceiver-conv": hugging_face(
        "Perceiver", size=square(224), crop_size=square(256), do_center_crop=True, resample=3, **IMAGENET
    ),
    "Zetatech/pvt-tiny-224": hugging_face("Pvt", size=square(224), **IMAGENET),
    "nvidia/segformer-b0-finetuned-ade-512-512": hugging_face(
        "Segformer", size=square(512), do_reduce_labels=True, resample=2, **IMAGENET
    ),
    "Intel/dpt-large-ade": hugging_face("DPT", size=square(480), resample=2, ensure_multiple_of=1, **HALVES),
    "a DPT that keeps shapes": hugging_face(
        "DPT", size=square(518), keep_aspect_ratio=True, ensure_multiple_of=14, resample=3, **IMAGENET
    ),
    "facebook/detr-resnet-50": hugging_face("Detr", **DETR, **IMAGENET),
    "a DETR of before 2022": Kind(
        "transformers",
        {"feature_extractor_type": "DetrFeatureExtractor", "size": 800, "max_size": 1333, "format": "coco_detection"},
    ),
    "a DETR in one size": hugging_face("Detr", **{**DETR, "size": square(480)}, pad_size=square(512), **IMAGENET),
    "SenseTime/deformable-detr": hugging_face("DeformableDetr", **DETR, **IMAGENET),
    "microsoft/conditional-detr-resnet-50": hugging_face("ConditionalDetr", **DETR, **IMAGENET),
    "hustvl/yolos-tiny": hugging_face(
        "Yolos", **{**DETR, "size": {"shortest_edge": 512, "longest_edge": 1333}}, **IMAGENET
    ),
    "PekingU/rtdetr_r50vd": hugging_face("RTDetr", size=square(640), do_normalize=False, do_pad=False, resample=2),
    "facebook/mask2former-swin-tiny-ade-semantic": hugging_face(
        "Mask2Former", size={"shortest_edge": 512, "longest_edge": 2048}, size_divisor=32, ignore_index=255, **IMAGENET
    ),
    "facebook/maskformer-swin-base-ade": hugging_face(
        "MaskFormer", size={"shortest_edge": 640, "longest_edge": 2560}, size_divisor=32, **IMAGENET
    ),
    "google/owlvit-base-patch32": hugging_face(
        "OwlViT", size=square(768), crop_size=square(768), do_center_crop=False, image_mean=CLIP, image_std=CLIP_STD
    ),
    "czczup/textnet-tiny": hugging_face("TextNet", size={"shortest_edge": 640}, size_divisor=32, **IMAGENET),
    "facebook/dinov3-vits16": hugging_face("DINOv3ViT", size=square(224), resample=2, **IMAGENET),
    "timm/resnet50.a1_in1k": Kind(
        "timm",
        {
            "architecture": "resnet50",
            "num_classes": 1000,
            "pretrained_cfg": {
                "tag": "a1_in1k",
                "input_size": [3, 224, 224],
                "fixed_input_size": False,
                "interpolation": "bicubic",
                "crop_pct": 0.95,
                "crop_mode": "center",
                "mean": MEAN,
                "std": STD,
                "num_classes": 1000,
                "pool_size": [7, 7],
                "first_conv": "conv1",
                "classifier": "fc",
            },
        },
    ),
    "timm/vit_base_patch16_clip_384": Kind(
        "timm",
        {
            "architecture": "vit_base_patch16_clip_384",
            "num_classes": 1000,
            "pretrained_cfg": {
                "input_size": [3, 384, 384],
                "interpolation": "bicubic",
                "crop_pct": 1.0,
                "crop_mode": "squash",
                "mean": CLIP,
                "std": CLIP_STD,
            },
        },
    ),
    "timm, border": Kind(
        "timm",
        {
            "architecture": "x",
            "pretrained_cfg": {
                "input_size": [3, 224, 224],
                "interpolation": "bilinear",
                "crop_pct": 0.9,
                "crop_mode": "border",
                "mean": HALF,
                "std": HALF,
            },
        },
    ),
    "timm, not square": Kind(
        "timm",
        {
            "architecture": "x",
            "pretrained_cfg": {
                "input_size": [3, 224, 320],
                "interpolation": "bicubic",
                "crop_pct": 0.875,
                "mean": MEAN,
                "std": STD,
            },
        },
    ),
    "torchvision, ResNet50_Weights.IMAGENET1K_V2": Kind(
        "torchvision",
        {
            "preset": ("ImageClassification", {"crop_size": 224, "resize_size": 232}),
            "words": "resize=232 crop=224 mean=imagenet std=imagenet",
        },
    ),
    "torchvision, ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1": Kind(
        "torchvision",
        {
            "preset": ("ImageClassification", {"crop_size": 384, "resize_size": 384, "interpolation": "bicubic"}),
            "words": "resize=384 crop=384 interpolation=bicubic mean=imagenet std=imagenet",
        },
    ),
    "torchvision, DeepLabV3_ResNet50_Weights": Kind(
        "torchvision",
        {"preset": ("SemanticSegmentation", {"resize_size": 520}), "words": "resize=520 mean=imagenet std=imagenet"},
    ),
    "torchvision, FasterRCNN_ResNet50_FPN_Weights": Kind(
        "torchvision", {"preset": ("ObjectDetection", {}), "words": "scale=255"}
    ),
    "ultralytics, yolo11n": Kind(
        "ultralytics", {"task": "detect", "imgsz": "[640, 640]", "names": "{0: 'person', 1: 'car'}", "stride": "32"}
    ),
    "ultralytics, yolo11n-seg in a wide size": Kind(
        "ultralytics", {"task": "segment", "imgsz": "[384, 640]", "names": "{0: 'person', 1: 'car'}", "batch": "1"}
    ),
    "ultralytics, yolo11n-cls": Kind(
        "ultralytics", {"task": "classify", "imgsz": "[224, 224]", "names": "{0: 'tench', 1: 'goldfish'}"}
    ),
    "OpenVINO, efficientnet of Open Model Zoo": Kind(
        "model_api",
        {
            "model_type": "Classification",
            "mean_values": "123.675 116.28 103.53",
            "labels": "tench goldfish",
            "scale_values": "58.395 57.12 57.375",
            "reverse_input_channels": "YES",
        },
        (240, 240),
    ),
    "OpenVINO, a YOLO of Open Model Zoo": Kind(
        "model_api",
        {"model_type": "YOLOX", "resize_type": "fit_to_window_letterbox", "pad_value": "114"},
        (416, 416),
    ),
    "OpenVINO, SSD that fits": Kind(
        "model_api",
        {"model_type": "SSD", "resize_type": "fit_to_window", "reverse_input_channels": "True", "pad_value": "0"},
        (300, 400),
    ),
    "OpenVINO, a crop": Kind(
        "model_api",
        {"model_type": "Classification", "resize_type": "crop", "reverse_input_channels": "YES"},
        (224, 224),
    ),
}


def read(kind: Kind) -> Preparation:
    """The preparation that the product reads out of a kind's configuration."""
    if kind.library == "torchvision":
        return read_preparation(kind.config["words"])
    if kind.library in ("ultralytics", "model_api"):
        own = of_ultralytics(kind.config) if kind.library == "ultralytics" else of_openvino(kind.config, kind.size)
        assert own is not None
        assert own.preparation is not None
        return own.preparation
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / ("config.json" if kind.library == "timm" else "preprocessor_config.json")
        file.write_text(json.dumps(kind.config))
        return read_preparation(str(file))


def oracles(kind: Kind) -> dict[str, Callable[[Picture], NDArray[Any]]]:
    """What the kind's library makes of a picture [H, W, 3]: values [h, w, 3], by the classes that do it here. Raises
    ImportError where the library is not installed.
    """
    return {"transformers": _processors, "timm": _timm, "torchvision": _preset, "ultralytics": _ultralytics}.get(
        kind.library, _model_api
    )(kind)


def _processors(kind: Kind) -> dict[str, Callable[[Picture], NDArray[Any]]]:
    transformers = import_module("transformers")
    config = dict(kind.config)
    name = str(config.pop("image_processor_type", None) or config.pop("feature_extractor_type"))
    name = name.replace("FeatureExtractor", "ImageProcessor")
    made = {}
    for backend in (f"{name}Pil", name):
        try:
            processor = getattr(transformers, backend).from_dict(dict(config))
        except (ImportError, AttributeError):
            continue
        made[backend] = lambda picture, own=processor: _rows(
            own(images=[picture], return_tensors="np" if own.backend == "pil" else "pt")["pixel_values"][0]
        )
    if not made:
        raise ImportError(name)
    return made


def _timm(kind: Kind) -> dict[str, Callable[[Picture], NDArray[Any]]]:
    data = import_module("timm.data")
    settings = data.resolve_data_config(pretrained_cfg=kind.config["pretrained_cfg"])
    transform = data.create_transform(**settings, is_training=False)
    return {"create_transform": lambda picture: _rows(transform(Image.fromarray(picture)))}


def _preset(kind: Kind) -> dict[str, Callable[[Picture], NDArray[Any]]]:
    name, words = kind.config["preset"]
    modes = import_module("torchvision.transforms").InterpolationMode
    named = {"interpolation": modes(words["interpolation"])} if "interpolation" in words else {}
    preset = getattr(import_module("torchvision.transforms._presets"), name)(**{**words, **named})
    return {name: lambda picture: _rows(preset(Image.fromarray(picture)))}


def _ultralytics(kind: Kind) -> dict[str, Callable[[Picture], NDArray[Any]]]:
    augment = import_module("ultralytics.data.augment")
    size = json.loads(kind.config["imgsz"])
    if kind.config["task"] == "classify":
        transform = augment.classify_transforms(size)
        return {"classify_transforms": lambda picture: _rows(transform(Image.fromarray(picture)))}
    box = augment.LetterBox(size, auto=False, stride=32)
    return {"LetterBox": lambda picture: box(image=picture[:, :, ::-1])[:, :, ::-1] / np.float32(255)}


def _model_api(kind: Kind) -> dict[str, Callable[[Picture], NDArray[Any]]]:
    adapters, models = import_module("model_api.adapters"), import_module("model_api.models")
    openvino = import_module("openvino")
    assert kind.size is not None
    ops = openvino.opset13
    pixels = ops.parameter([1, 3, *kind.size], openvino.Type.f32, "image")
    graph = openvino.Model([ops.result(ops.multiply(pixels, ops.constant(np.float32(1))))], [pixels])
    for key, value in kind.config.items():
        graph.set_rt_info(value, ["model_info", key])
    with tempfile.TemporaryDirectory() as folder:
        openvino.save_model(graph, f"{folder}/model.xml", compress_to_fp16=False)
        adapter = adapters.OpenvinoAdapter(adapters.create_core(), f"{folder}/model.xml", device="CPU")
        model = models.ImageModel(adapter, {})

    def prepare(picture: Picture) -> NDArray[Any]:
        blue_first = np.ascontiguousarray(picture[None, :, :, ::-1])
        (values,) = adapter.infer_sync({model.image_blob_name: blue_first}).values()
        return _rows(values[0].copy())  # the next answer is written into the same memory

    return {"ImageModel": prepare}


def _rows(values: Any) -> NDArray[Any]:
    """Channels last."""
    return np.asarray(values).transpose(1, 2, 0)


def picture(height: int, width: int) -> Picture:
    """Soft shapes and some noise, so that a resized picture still has contrast."""
    random = np.random.default_rng(height * 1000 + width)
    coarse = random.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=np.uint8)
    soft = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    return np.asarray(np.clip(soft + random.integers(-12, 13, soft.shape), 0, 255), np.uint8)


def differences(kind: Kind) -> dict[str, float]:
    """By what reads the kind here, how far the product's values are from it at most, in levels of 0..255; infinite
    where an input has another size.
    """
    preparation = read(kind)
    return {
        name: max(_difference(preparation, oracle, picture(*size)) for size in SIZES)
        for name, oracle in oracles(kind).items()
    }


def _difference(preparation: Preparation, oracle: Callable[[Picture], NDArray[Any]], pixels: Picture) -> float:
    own, right = preparation.apply(pixels).astype(np.float64), oracle(pixels).astype(np.float64)
    if own.shape != right.shape:
        return float("inf")
    # What the library makes of one level, by what it makes of black and of white.
    black, white = (oracle(np.full_like(pixels, level)) for level in (0, 255))
    level = np.abs(white - black).max(axis=(0, 1)).astype(np.float64) / 255
    return float((np.abs(own - right) / level).max())


def code_digest() -> str:
    """Of the code that the kept rows hold for."""
    files = [ROOT / "engine" / "asking" / f"{name}.py" for name in CODE]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def main(argv: Sequence[str]) -> int:
    """Compare, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(description="Are published configurations read as their libraries read them?")
    parser.add_argument("--write", action="store_true", help="keep the rows in docs/configurations.json")
    args = parser.parse_args(argv)
    rows = {name: {by: round(levels, 2) for by, levels in differences(kind).items()} for name, kind in KINDS.items()}
    off = [name for name, row in rows.items() if not min(row.values()) <= LEVELS]
    for name, row in rows.items():
        print(f"{'off ' if name in off else 'held'}  {name:<55} {', '.join(f'{by} {d:g}' for by, d in row.items())}")
    print(f"{len(off)} of {len(rows)} kinds are off")
    if args.write:
        day = datetime.now(UTC).date().isoformat()
        kept = {"date": day, "code": code_digest(), "most_levels": LEVELS, "kinds": rows}
        (ROOT / "docs" / "configurations.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        write_figures(ROOT / "docs" / "evaluation.json", {"configurations": len(rows), "configurations_off": len(off)})
    return int(bool(off))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
