"""What exported detectors give for a picture in which they see a bus and a car, in each exporter's form: at `BOXES` in
an input of 96 x 128, of which `sets.detected` shows the half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BOXES = np.array([[16, 8, 48, 40], [64, 32, 112, 80]], np.float32)
SCORES, LABELS = np.array([0.9, 0.8], np.float32), np.array([0, 1])
SHARES = (BOXES / np.array([128, 96, 128, 96])).astype(np.float32)
MIDDLES = np.concatenate([(BOXES[:, :2] + BOXES[:, 2:]) / 2, BOXES[:, 2:] - BOXES[:, :2]], axis=1)
# How many boxes YOLO's heads have for the input: at strides 8, 16 and 32, one at a place.
ANCHORS = 12 * 16 + 6 * 8 + 3 * 4


@dataclass(frozen=True)
class Form:
    """Outputs by name; the file's metadata; whether classes count from 1."""

    outputs: Mapping[str, Array]
    metadata: Mapping[str, str] = field(default_factory=dict)
    from_one: bool = False


def yolo(sure: bool, turned: bool, anchors: int, extra: int = 0, shares: bool = False) -> Array:
    """Both boxes among others of nothing, one of them twice, a bit moved and less sure."""
    rows = np.zeros((anchors, 4 + sure + 2 + extra), np.float32)
    rows[:, :4] = 10
    boxes = np.concatenate([MIDDLES, MIDDLES[:1] + 1, MIDDLES[:1]])
    rows[3:7, :4] = boxes / (128, 96, 128, 96) if shares else boxes
    if shares:
        rows[:3, :4] = rows[7:, :4] = 0.1
    if sure:
        rows[3:7, 4] = (0.9, 0.8, 0.5, 0.0)
    of_class = np.array([[1, 0], [0, 1], [1, 0], [0, 1]]) if sure else np.array([[0.9, 0], [0, 0.8], [0.5, 0], [0, 0]])
    rows[3:7, 4 + sure : 6 + sure] = of_class
    return (rows.T if turned else rows)[None]


def yolox() -> Array:
    """Before its grid is applied, as its export leaves it."""
    rows = np.zeros((ANCHORS, 7), np.float32)
    rows[:, 2:4] = -1
    for place, (x, y, w, h), number in ((0, MIDDLES[0], 0), (12 * 16 + 9, MIDDLES[1], 1)):
        stride, across = (8, 16) if place < 12 * 16 else (16, 8)
        at = place if stride == 8 else place - 12 * 16
        rows[place, :4] = x / stride - at % across, y / stride - at // across, np.log(w / stride), np.log(h / stride)
        rows[place, 4:] = (SCORES[number], number == 0, number == 1)
    return rows[None]


def padded(rows: Array, count: int, fill: float = 0) -> Array:
    """Rows with more below them, behind a batch's axis."""
    return np.concatenate([rows, np.full((count - len(rows), *rows.shape[1:]), fill, rows.dtype)])[None]


def logit(shares: Array) -> Array:
    return np.asarray(np.log(shares / (1 - shares)), np.float32)


SIXES = np.concatenate([BOXES, SCORES[:, None], LABELS[:, None]], axis=1).astype(np.float32)
NUMBERS = np.zeros((2, 1), np.float32)
QUERIES = np.concatenate([MIDDLES / (128, 96, 128, 96), np.full((8, 4), 0.1)])[None].astype(np.float32)
NOTHING = np.tile(np.array([-4, -4, 4], np.float32), (10, 1))
NOTHING[:2] = [[5, -4, -2], [-4, 5, -2]]
SOFT = np.tile(np.array([0.98, 0.01, 0.01], np.float32), (10, 1))
SOFT[:2] = [[0.05, 0.9, 0.05], [0.1, 0.1, 0.8]]
EACH = np.tile(np.array([0.0002, 0.0003], np.float32), (10, 1))
EACH[:2] = [[0.9, 0.01], [0.02, 0.8]]
ULTRALYTICS = {"task": "detect", "names": "{0: 'bus', 1: 'car'}", "imgsz": "[96, 128]", "stride": "32"}
DOWN_FIRST = SHARES[:, [1, 0, 3, 2]]

FORMS: Mapping[str, Form] = {
    "yolov5": Form({"output0": yolo(True, False, 3 * ANCHORS)}),
    "yolov5 of few boxes": Form({"output": yolo(True, False, 9)}),
    "yolov5 in shares": Form({"output": yolo(True, False, 3 * ANCHORS, shares=True)}),
    "yolov8": Form({"output0": yolo(False, True, ANCHORS)}),
    "yolov8 of few boxes": Form({"output0": yolo(False, True, 9)}),
    "yolov8, rows first": Form({"output0": yolo(False, False, ANCHORS)}, ULTRALYTICS),
    "yolov8 with its metadata": Form({"output0": yolo(False, True, ANCHORS)}, ULTRALYTICS),
    "yolov8 with masks": Form(
        {"output0": yolo(False, True, ANCHORS, 32), "output1": np.zeros((1, 32, 24, 32), np.float32)},
        {**ULTRALYTICS, "task": "segment"},
    ),
    "yolov8 with a pose": Form(
        {"output0": yolo(False, True, ANCHORS, 51)}, {**ULTRALYTICS, "task": "pose", "kpt_shape": "[17, 3]"}
    ),
    "yolox": Form({"output": yolox()}),
    "yolov10 end to end": Form({"output0": padded(SIXES, 300)}),
    "yolov7 end to end": Form(
        {"output": np.concatenate([NUMBERS, BOXES, LABELS[:, None], SCORES[:, None]], axis=1, dtype=np.float32)}
    ),
    "rows without a batch": Form({"output": SIXES}),
    "rows of box, class and score": Form({"output": padded(SIXES[:, [0, 1, 2, 3, 5, 4]], 300)}),
    "paddle": Form(
        {"multiclass_nms3_0.tmp_0": np.concatenate([LABELS[:, None], SCORES[:, None], BOXES], axis=1, dtype=np.float32)}
    ),
    "tensorflow": Form(
        {
            "detection_boxes": padded(DOWN_FIRST, 10),
            "detection_classes": padded(np.array([1, 2], np.float32), 10),
            "detection_scores": padded(SCORES, 10),
            "num_detections": np.array([2], np.float32),
            "raw_detection_boxes": np.zeros((1, 40, 4), np.float32),
        },
        from_one=True,
    ),
    "torchvision": Form({"boxes": BOXES, "labels": LABELS + 1, "scores": SCORES}, from_one=True),
    "torchvision without names": Form({"6379": BOXES, "6381": LABELS + 1, "6383": SCORES}, from_one=True),
    "detr": Form({"logits": NOTHING[None], "pred_boxes": QUERIES}),
    "detr's successors": Form({"logits": logit(EACH)[None], "pred_boxes": QUERIES}),
    "rf-detr": Form({"dets": QUERIES, "labels": logit(EACH)[None]}),
    "rt-detr": Form({"labels": LABELS[None], "boxes": BOXES[None], "scores": SCORES[None]}),
    "ssd": Form({"scores": SOFT[None], "boxes": np.concatenate([SHARES, SHARES[:1].repeat(8, 0)])[None]}),
    "yolo-nas": Form({"boxes": np.concatenate([BOXES, BOXES[:1].repeat(8, 0)])[None], "scores": EACH[None]}),
    "mmdeploy": Form({"dets": padded(SIXES[:, :5], 10), "labels": padded(LABELS, 10, -1)}),
    "efficient nms": Form(
        {
            "num_dets": np.array([[2]], np.int32),
            "det_boxes": padded(BOXES, 10, 7),
            "det_scores": padded(SCORES, 10, 0.5),
            "det_classes": padded(LABELS.astype(np.int32), 10),
        }
    ),
    "openvino": Form(
        {
            "detection_out": padded(
                np.concatenate([NUMBERS, LABELS[:, None] + 1, SCORES[:, None], SHARES], axis=1, dtype=np.float32),
                10,
                -1,
            )[None]
        },
        from_one=True,
    ),
}
