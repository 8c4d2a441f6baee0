"""Heads are read as the libraries read their own: ultralytics' suppression, and DETR's processors of Hugging Face."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from counterfactory.engine.asking.heads import find_head
from counterfactory.engine.runtime.session import Port

SIZE = (96, 128)


def read(classes: int | None, **outputs: NDArray[Any]) -> NDArray[Any]:
    ports = [Port(name, array.shape, array.dtype.name) for name, array in outputs.items()]
    head = find_head(ports, SIZE, classes)
    assert head is not None
    return head.read({name: outputs[name] for name in head.names}, SIZE)


def close(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether rows are the same, those of equal scores in any order."""
    places = [np.lexsort((rows[:, 0].round(2), -rows[:, 4].round(5))) for rows in (ours, theirs)]
    return len(ours) == len(theirs) and np.allclose(ours[places[0]], theirs[places[1]], atol=1e-3)


@pytest.mark.parametrize("classes", [1, 3, 80])
def test_yolo_as_ultralytics(classes: int) -> None:
    nms = pytest.importorskip("ultralytics.utils.nms", reason="how ultralytics drops overlaps goes unchecked")
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(classes)
    rows = random.uniform(0, 1, (1, 4 + classes, 252)).astype(np.float32) ** 4
    rows[:, :2] = random.uniform(20, 80, (1, 2, 252))
    rows[:, 2:4] = random.uniform(10, 60, (1, 2, 252))
    (theirs,) = nms.non_max_suppression(torch.from_numpy(rows.copy()), conf_thres=0.001, iou_thres=0.7)
    assert len(theirs) < 252 or classes == 80
    assert close(read(classes, output0=rows), theirs.numpy())


@pytest.mark.parametrize("name", ["DetrImageProcessor", "RTDetrImageProcessor"])
def test_queries_as_hugging_face(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="how Hugging Face reads queries goes unchecked")
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3)
    sigmoid = name.startswith("RT")
    logits = random.normal(-2, 2, (1, 50, 5 if sigmoid else 6)).astype(np.float32)
    boxes = random.uniform(0.1, 0.6, (1, 50, 4)).astype(np.float32)
    outputs = SimpleNamespace(logits=torch.from_numpy(logits), pred_boxes=torch.from_numpy(boxes))
    (theirs,) = getattr(transformers, name)().post_process_object_detection(
        outputs, threshold=0.001, target_sizes=torch.tensor([SIZE])
    )
    parts = [theirs[part].numpy().astype(float) for part in ("boxes", "scores", "labels")]
    rows = np.concatenate([parts[0], parts[1][:, None], parts[2][:, None]], axis=1)
    ours = read(5, logits=logits, pred_boxes=boxes)[: len(rows)]  # it gives no more than there are queries
    assert len(rows) > 40
    assert close(ours, rows)
