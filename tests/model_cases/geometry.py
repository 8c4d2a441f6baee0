"""What goes in is undone for what comes out: boxes and maps of prepared pictures, and published configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .sets import save
from .table import Outcome, Told, Workshop, case

# (height, width): wide, tall and square, so that a batch has pictures of three sizes.
SIZES = ((72, 120), (121, 80), (90, 90), (72, 120))
NAMES = ("red", "green")
_ULTRALYTICS = "ultralytics #5138, newcomer's letterbox=640"
_SEGMENTERS = "transformers #20255, PR #19105, PR #28420"


def coloured(height: int, width: int) -> tuple[NDArray[np.uint8], dict[str, tuple[int, int, int, int]]]:
    """A grey picture with a red and a green thing in its middle, and their boxes: left, top, right, bottom."""
    picture = np.full((height, width, 3), 70, np.uint8)
    top, left = height // 2 - 20, width // 2 - 25
    boxes = {"red": (left, top, left + 22, top + 40), "green": (left + 26, top + 4, left + 50, top + 36)}
    for number, (x0, y0, x1, y1) in enumerate(boxes.values()):
        picture[y0:y1, x0:x1] = 0
        picture[y0:y1, x0:x1, number] = 250
    return picture, boxes


def things(root: Path) -> None:
    """COCO's layout of `coloured` pictures."""
    images, annotations = [], []
    for i, (height, width) in enumerate(SIZES):
        picture, boxes = coloured(height, width)
        images.append({"id": i + 1, "file_name": f"{i}.png", "width": width, "height": height})
        for number, (x0, y0, x1, y1) in enumerate(boxes.values()):
            box = {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0), "iscrowd": 0}
            annotations.append({"id": 2 * i + number + 1, "image_id": i + 1, "category_id": number + 1, **box})
        save(root / "val" / f"{i}.png", picture)
    categories = [{"id": number + 1, "name": name} for number, name in enumerate(NAMES)]
    file = root / "annotations" / "instances_val.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def masked(root: Path) -> None:
    """`coloured` pictures with masks: 0 is ground, 1 red, 2 green."""
    for i, (height, width) in enumerate(SIZES):
        picture, boxes = coloured(height, width)
        mask = np.zeros((height, width), np.uint8)
        for number, (x0, y0, x1, y1) in enumerate(boxes.values()):
            mask[y0:y1, x0:x1] = number + 1
        save(root / "images" / f"{i}.png", picture)
        save(root / "masks" / f"{i}.png", mask)


def centred(root: Path) -> None:
    """Class folders of pictures 64 x 64 whose middle half is dark or bright, and whose rim is the other."""
    for name, level in (("bright", 200), ("dark", 40)):
        for i in range(3):
            picture = np.full((64, 64, 3), 240 - level + i, np.uint8)
            picture[16:48, 16:48] = level
            save(root / name / f"{i}.png", picture)


def boxes_seen(inputs: NDArray[Any], order: str = "rgb") -> list[dict[str, Any]]:
    """A detector that sees the red and the green thing of each input [N, h, w, 3], in the input's pixels."""
    answers = []
    for pixels in inputs.astype(np.float32) / max(1.0, float(inputs.max())):
        found: dict[str, Any] = {"boxes": [], "scores": [], "labels": []}
        for number in range(2):
            others = np.delete(pixels, [number, 2 - number][order == "bgr"], axis=2).max(axis=2)
            near = pixels[:, :, [number, 2 - number][order == "bgr"]] - others > 0.5
            if near.any():
                edges = [np.flatnonzero(near.any(axis=axis))[[0, -1]] for axis in (0, 1)]
                found["boxes"].append([edges[0][0], edges[1][0], edges[0][1] + 1, edges[1][1] + 1])
                found["scores"].append(0.9)
                found["labels"].append(number)
        answers.append(found)
    return answers


def segmenter(path: Path, order: str = "rgb") -> None:
    """An ONNX file of the scores of ground, red and green in each pixel, for pictures from 0 to 1 of any size."""
    weights = np.zeros((3, 3, 1, 1), np.float32)
    weights[1] = np.array([2, -1, -1], np.float32).reshape(3, 1, 1)
    weights[2] = np.array([-1, 2, -1], np.float32).reshape(3, 1, 1)
    if order == "bgr":
        weights = weights[:, ::-1].copy()
    bias = np.array([0.98, 0, 0], np.float32)  # half of what a thing has, so that edges stay where they are
    graph = helper.make_graph(
        [helper.make_node("Conv", ["pixel_values", "w", "b"], ["logits"])],
        "segmenter",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def brightness(path: Path, side: int, turning: float) -> None:
    """An ONNX file of the scores bright and dark of pictures [N, 3, side, side]: the mean, and `turning` twice less."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["pixel_values"], ["mean"]),
            helper.make_node("Conv", ["mean", "w", "b"], ["wide"]),
            helper.make_node("Flatten", ["wide"], ["logits"]),
        ],
        "brightness",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, side, side])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2])],
        [
            numpy_helper.from_array(np.stack([np.full((3, 1, 1), s / 3, np.float32) for s in (1, -1)]), "w"),
            numpy_helper.from_array(np.array([-turning, turning], np.float32), "b"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def detect(at: Workshop, words: str, order: str = "rgb") -> Mapping[str, Any]:
    """What `boxes_seen` comes to with this preparation, in percent of AP."""
    things(at.folder / "set")
    at.module("net", f"from model_cases.geometry import boxes_seen\ndef see(x): return boxes_seen(x, {order!r})\n")
    at.suite(task="detection")
    outcome = at.ask("--model", "net:see", "--preprocess", words)
    return {"originals": outcome.score(), "status": outcome.status}


def segment(at: Workshop, words: str, order: str = "rgb") -> Outcome:
    """What `segmenter` comes to with this preparation."""
    masked(at.folder / "set")
    (at.folder / "names.toml").write_text('[classes]\n0 = "ground"\n1 = "red"\n2 = "green"\n')
    segmenter(at.folder / "model.onnx", order)
    at.suite("set", "segmentation", "--class-map", "names.toml")
    return at.ask("--model", "model.onnx", "--preprocess", words)


def classify(at: Workshop, config: Mapping[str, Any], side: int, turning: float, name: str) -> Mapping[str, Any]:
    """What `brightness` comes to with a published configuration."""
    centred(at.folder / "set")
    brightness(at.folder / "model.onnx", side, turning)
    (at.folder / name).write_text(json.dumps(config))
    at.suite()
    (at.folder / "names.txt").write_text("bright\ndark\n")
    outcome = at.ask("--model", "model.onnx", "--preprocess", name, "--classes", "names.txt")
    return {"originals": outcome.score(), "status": outcome.status, "said": outcome.said}


RIGHT = {"originals": 100.0, "status": 0}


@case("n7 a letterbox", _ULTRALYTICS, RIGHT)
def a_letterbox(at: Workshop) -> Mapping[str, Any]:
    return detect(at, "letterbox=512")


@case("n7 a letterbox that is not square, blue first", _ULTRALYTICS, RIGHT)
def a_wide_letterbox(at: Workshop) -> Mapping[str, Any]:
    return detect(at, "letterbox=384x640 scale=255 channels=bgr", "bgr")


@case("boxes of pictures that are squeezed", "yolov5 #2293", RIGHT)
def squeezed_boxes(at: Workshop) -> Mapping[str, Any]:
    return detect(at, "resize=500x300")


@case("boxes of pictures that are padded", "transformers run_object_detection.py", RIGHT)
def padded_boxes(at: Workshop) -> Mapping[str, Any]:
    return detect(at, "resize=480x480 keep=fit pad=480x480 fill=0")


@case("boxes of a crop", "torchvision CenterCrop", RIGHT)
def boxes_of_a_crop(at: Workshop) -> Mapping[str, Any]:
    return detect(at, "resize=400 crop=380")


@case("boxes of a crop that is greater than the picture", "torchvision CenterCrop", RIGHT)
def boxes_of_a_great_crop(at: Workshop) -> Mapping[str, Any]:
    return detect(at, "crop=201x255")


@case("boxes by the configuration of a DETR", "transformers, DetrImageProcessor", RIGHT)
def boxes_of_a_detr(at: Workshop) -> Mapping[str, Any]:
    config = {"image_processor_type": "DetrImageProcessor", "size": {"max_height": 480, "max_width": 480}}
    config |= {"do_pad": True, "pad_size": {"height": 480, "width": 480}, "do_normalize": False}
    (at.folder / "preprocessor_config.json").write_text(json.dumps(config))
    return detect(at, "preprocessor_config.json")


@case("07 a segmenter with a crop", _SEGMENTERS, {"originals": 100.0, "share": 71.0})
def a_cropped_segmenter(at: Workshop) -> Mapping[str, Any]:
    config = {"size": {"shortest_edge": 144}, "do_center_crop": True, "crop_size": 144, "do_normalize": False}
    (at.folder / "preprocessor_config.json").write_text(json.dumps(config))
    outcome = segment(at, "preprocessor_config.json")
    share = re.search(r"(\d+) % of the pixels", outcome.said)
    return {"originals": outcome.score(), "share": share and float(share[1])}


@case("07 a segmenter that MobileViT's processor prepares", _SEGMENTERS, {"originals": 100.0})
def a_segmenter_of_mobilevit(at: Workshop) -> Mapping[str, Any]:
    config = {"feature_extractor_type": "MobileViTFeatureExtractor", "size": 144, "crop_size": 128, "resample": 2}
    (at.folder / "preprocessor_config.json").write_text(json.dumps(config))
    return {"originals": segment(at, "preprocessor_config.json", "bgr").score()}


@case("a segmenter in a letterbox", "ultralytics, segment", {"originals": 100.0, "cut": None})
def a_letterboxed_segmenter(at: Workshop) -> Mapping[str, Any]:
    outcome = segment(at, "letterbox=480 scale=255")
    return {"originals": outcome.score(), "cut": "% of the pixels, which count" in outcome.said or None}


@case("a configuration that crops by a share", "transformers, ConvNextImageProcessor", RIGHT)
def a_share_that_is_cropped(at: Workshop) -> Mapping[str, Any]:
    config = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 32}, "crop_pct": 0.5}
    return classify(at, config | {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}, 32, 0.0, "preprocessor_config.json")


@case("a configuration of timm", "timm, crop_pct", RIGHT)
def a_configuration_of_timm(at: Workshop) -> Mapping[str, Any]:
    own = {"input_size": [3, 32, 32], "crop_pct": 0.5, "interpolation": "bilinear", "mean": [0.5] * 3, "std": [0.5] * 3}
    return classify(at, {"architecture": "resnet18", "pretrained_cfg": own}, 32, 0.0, "config.json")


@case("a configuration with an offset", "transformers, EfficientNetImageProcessor", RIGHT)
def an_offset(at: Workshop) -> Mapping[str, Any]:
    config = {"image_processor_type": "EfficientNetImageProcessor", "size": {"height": 64, "width": 64}}
    config |= {"do_center_crop": True, "crop_size": {"height": 32, "width": 32}, "do_normalize": False}
    config |= {"rescale_factor": 1 / 127.5, "rescale_offset": True, "include_top": False, "resample": 2}
    return classify(at, config, 32, 0.0, "preprocessor_config.json")


@case("a key that is not understood", "transformers", {"status": 2, "said": Told("'do_sharpen' is not understood")})
def an_unknown_key(at: Workshop) -> Mapping[str, Any]:
    config = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "do_sharpen": True}
    return classify(at, config, 32, 0.0, "preprocessor_config.json")


@case("a configuration of another network", "optimum", {"status": 2, "said": Told(r"preprocessor_config\.json")})
def a_model_s_own_configuration(at: Workshop) -> Mapping[str, Any]:
    return classify(at, {"model_type": "vit", "image_size": 32}, 32, 0.0, "config.json")
