"""Published configurations are read whole: as their libraries read them, or refused by the key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import published_kinds
import pytest
from published_kinds import DETR, HALVES, IMAGENET, KINDS, LEVELS, SIZES, hugging_face, read, square

from counterfactory.engine.asking.image_processors import _CLASSES, of_hugging_face
from counterfactory.engine.asking.placement import Placement
from counterfactory.engine.asking.published_inputs import (
    configuration_beside,
    of_openvino,
    of_ultralytics,
    read_preparation,
)
from counterfactory.engine.errors import CounterfactoryError

# Here few and small pictures; `python tests/published_kinds.py` takes all.
SMALL = SIZES[2:4]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_makes_what_its_library_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_kinds, "SIZES", SMALL)
    try:
        rows = published_kinds.differences(KINDS[name])
    except ImportError:
        pytest.skip(f"{KINDS[name].library} is not installed: docs/configurations.json has what it makes")
    assert min(rows.values()) <= LEVELS


def test_the_kept_rows_hold_for_this_code() -> None:
    kept = json.loads((published_kinds.ROOT / "docs" / "configurations.json").read_text())
    assert kept["code"] == published_kinds.code_digest(), "run: python tests/published_kinds.py --write"
    assert kept["kinds"].keys() == KINDS.keys()
    assert len(KINDS) >= 25
    assert all(min(row.values()) <= LEVELS for row in kept["kinds"].values())
    assert {kind.library for kind in KINDS.values()} == {
        *("transformers", "timm", "torchvision", "ultralytics", "model_api")
    }


@pytest.mark.parametrize("name", _CLASSES)
def test_what_a_configuration_leaves_out_is_as_in_its_class(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    try:
        processor = getattr(transformers, f"{name}ImageProcessorPil")()
    except (ImportError, AttributeError):
        pytest.skip(f"{name} needs torchvision")
    pixels = published_kinds.picture(*SMALL[0])
    expected = processor(images=[pixels], return_tensors="np")["pixel_values"][0]
    for config in ({"image_processor_type": f"{name}ImageProcessor"}, json.loads(processor.to_json_string())):
        made = of_hugging_face(config).apply(pixels).transpose(2, 0, 1)
        assert made.shape == expected.shape
        assert np.abs(made - expected).max() < 1e-3


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_read_is_declared_again_by_its_words(kind: published_kinds.Kind) -> None:
    preparation = read(kind)
    assert read_preparation(preparation.text) == preparation


def test_the_example_of_hugging_face_that_fits_and_pads() -> None:
    """size of max_height and max_width, as run_object_detection.py of transformers writes it."""
    transformers = pytest.importorskip("transformers")
    config = {**DETR, "size": {"max_height": 120, "max_width": 120}, "pad_size": square(120), **IMAGENET}
    pixels = published_kinds.picture(97, 131)
    own = transformers.DetrImageProcessorPil(**config)(images=[pixels], return_tensors="np")["pixel_values"][0]
    preparation = of_hugging_face(hugging_face("Detr", **config).config)
    assert np.abs(preparation.apply(pixels).transpose(2, 0, 1) - own).max() < 1e-3
    assert preparation.place((97, 131)) == Placement((97, 131), (120, 120), (88, 120))


VIT: dict[str, Any] = {"size": square(32), "resample": 2, **HALVES}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (hugging_face("ImageGPT", size=32, do_color_quantize=True).config, "do_color_quantize"),
        (hugging_face("LayoutLMv2", size=224, apply_ocr=True).config, "apply_ocr"),
        (hugging_face("Donut", size=[1920, 2560], do_thumbnail=True, **HALVES).config, "do_thumbnail"),
        (hugging_face("Owlv2", size=square(960), do_pad=True, **HALVES).config, "do_pad"),
        (hugging_face("Swin2SR", do_pad=True, pad_size=8).config, "do_pad"),
        (hugging_face("ViT", **VIT, do_sharpen=True).config, "do_sharpen"),
        (hugging_face("ViT", **VIT, auto_map={"AutoImageProcessor": "x--y.Z"}).config, "auto_map"),
        (hugging_face("ViT", **{**VIT, "size": {"longest_edge": 32}}).config, "longest_edge"),
        (hugging_face("ViT", **{**VIT, "size": {"depth": 3}}).config, "depth"),
        (hugging_face("ViT", **{**VIT, "size": []}).config, "size"),
        (hugging_face("ViT", **{**VIT, "size": "224"}).config, "size"),
        (hugging_face("ViT", **{**VIT, "resample": 99}).config, "resample"),
        (hugging_face("ViT", **{**VIT, "image_std": [0, 0, 0]}).config, "image_std"),
        (hugging_face("ViT", **{**VIT, "image_mean": [1, 2]}).config, "image_mean"),
        (hugging_face("ViT", **{**VIT, "rescale_factor": 0}).config, "rescale_factor"),
        (hugging_face("ViT", **{**VIT, "rescale_factor": "x"}).config, "rescale_factor"),
        (hugging_face("CLIP", crop_size={"height": 3}).config, "crop_size"),
        (hugging_face("Perceiver", size=square(224), crop_size={"height": 256, "width": 200}).config, "crop_size"),
        ({"model_type": "vit", "hidden_size": 3}, "preprocessor_config.json"),
        ({}, "preprocessor_config.json"),
        ({"architecture": "resnet18", "pretrained_cfg": {"fold": 3}}, "fold"),
        ({"architecture": "resnet18", "pretrained_cfg": {"crop_mode": "corner"}}, "corner"),
        ({"architecture": "resnet18", "pretrained_cfg": {"input_size": [1, 28, 28]}}, "input_size"),
        ({"architecture": "resnet18", "pretrained_cfg": {"interpolation": "random"}}, "random"),
        ({"architecture": "resnet18", "pretrained_cfg": {"crop_pct": 0}}, "crop_pct"),
        ({"architecture": "resnet18", "pretrained_cfg": {"crop_pct": "x"}}, "crop_pct"),
        ({"architecture": "resnet18", "pretrained_cfg": 3}, "pretrained_cfg"),
    ],
)
def test_a_key_that_is_not_understood_is_named(config: dict[str, Any], key: str, tmp_path: Path) -> None:
    file = tmp_path / "some_config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(CounterfactoryError, match=re.escape(key)) as refused:
        read_preparation(str(file))
    assert str(file) in str(refused.value)


def test_what_is_off_or_touches_no_pixel_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "preprocessor_config.json"
    off = {"do_sharpen": False, "patch_size": None, "do_reduce_labels": True, "processor_class": "X", "id2label": {}}
    file.write_text(json.dumps({**hugging_face("Unheard", **VIT).config, **off}))
    assert (
        read_preparation(str(file)).text
        == "resize=32x32 interpolation=bilinear scale=255 mean=0.5,0.5,0.5 std=0.5,0.5,0.5"
    )


def test_a_processor_that_holds_an_image_processor(tmp_path: Path) -> None:
    """processor_config.json, as transformers 5 writes it for models of pictures and words."""
    file = tmp_path / "processor_config.json"
    file.write_text(
        json.dumps({"image_processor": hugging_face("ViT", **VIT).config, "processor_class": "CLIPProcessor"})
    )
    assert read_preparation(str(file)) == read_preparation("resize=32x32 mean=0.5 std=0.5")


def test_what_ultralytics_says_of_itself() -> None:
    own = of_ultralytics(
        {"names": "{0: 'bus', 1: \"driver's cab\"}", "task": "detect", "imgsz": "[384, 640]", "x": "y"}
    )
    assert own is not None
    assert (own.classes, own.task) == ({0: "bus", 1: "driver's cab"}, "detect")
    assert own.preparation == read_preparation("letterbox=384x640 scale=255")
    assert own.preparation.place((100, 100)) == Placement((100, 100), (384, 640), (384, 384), 0, 128)
    as_yaml: dict[str, Any] = {"names": {0: "bus"}, "task": "segment", "imgsz": [64, 64]}
    assert of_ultralytics(as_yaml) is not None
    assert of_ultralytics({}) is None
    assert of_ultralytics({"producer": "pytorch", "names": "x"}) is None
    for broken in (
        {"imgsz": "__import__('os').getcwd()"},
        {"imgsz": "[0, 64]"},
        {"names": "{0: "},
        {"imgsz": "[1,2,3]"},
    ):
        with pytest.raises(CounterfactoryError, match="ultralytics"):
            of_ultralytics({"names": "{0: 'bus'}", "task": "detect", "imgsz": "[64, 64]", **broken})


def test_what_openvino_says_of_a_model() -> None:
    info = {"model_type": "ssd", "labels": "bus traffic_light", "resize_type": "fit_to_window", "pad_value": "7"}
    own = of_openvino(info, (64, 96))
    assert own is not None
    assert (own.classes, own.task) == ({0: "bus", 1: "traffic_light"}, "ssd")
    assert own.preparation is not None
    assert own.preparation.text == (
        "resize=64x96 keep=fit pad=64x96 fill=7,7,7 interpolation=bilinear antialias=no channels=bgr"
    )
    assert own.preparation.place((64, 64)) == Placement((64, 64), (64, 96), (64, 64))
    orders = {
        (): "bgr",
        (("reverse_input_channels", "YES"),): "rgb",
        (("otx_version", "2.1.0"), ("reverse_input_channels", "False")): "rgb",
        (("otx_version", "2.1.0"), ("reverse_input_channels", "True")): "bgr",
    }
    for more, order in orders.items():
        read_order = of_openvino({**info, **dict(more)}, (64, 96))
        assert read_order is not None
        assert read_order.preparation is not None
        assert read_order.preparation.channels == order
    inside = of_openvino({**info, "embedded_processing": "True"}, (64, 96))
    assert inside is not None
    assert inside.preparation is None
    assert of_openvino({}, None) is None
    for key, value in (
        ("resize_type", "stretch"),
        ("sharpen", "1"),
        ("intensity_mode", "window"),
        ("mean_values", "1 2"),
    ):
        with pytest.raises(CounterfactoryError, match=key):
            of_openvino({**info, key: value}, (64, 96))


def test_the_configuration_beside_a_model(tmp_path: Path) -> None:
    assert configuration_beside(tmp_path / "model.onnx") is None
    (tmp_path / "preprocessor_config.json").write_text("{}")
    assert configuration_beside(tmp_path / "model.onnx") == tmp_path / "preprocessor_config.json"
