"""What reports are rebuilt of: pictures whose class is told by place, and small graphs that tell it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CLASSES = ("bus", "car", "truck")


def classified(root: Path, per_class: int = 4, classes: Sequence[str] = CLASSES) -> None:
    """Class folders of pictures 64 x 48: the class is the third of the picture that is bright."""
    for number, name in enumerate(classes):
        for i in range(per_class):
            picture = np.random.default_rng(100 * number + i).integers(20, 60, (48, 64, 3), dtype=np.uint8)
            edges = np.linspace(0, 64, len(classes) + 1).astype(int)
            picture[:, edges[number] : edges[number + 1]] += 150
            save(root / name / f"{i}.png", picture)


def save(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Write a picture, or a mask."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def thirds(pictures: NDArray[np.uint8], classes: int = len(CLASSES)) -> NDArray[np.float64]:
    """Scores [N, C] of a model that is right about `classified` pictures [N, H, W, 3]: how bright each part is."""
    edges = np.linspace(0, pictures.shape[2], classes + 1).astype(int)
    parts = [pictures[:, :, a:b].mean(axis=(1, 2, 3)) for a, b in pairwise(edges)]
    return np.asarray(np.stack(parts, axis=1) / 255)


# What each picture of `detected` shows, in pixels: left, top, right, bottom.
TRUE_BOXES = {"bus": (8, 4, 24, 20), "car": (32, 16, 56, 40)}


def detected(root: Path, count: int = 3) -> None:
    """COCO's layout of pictures 64 x 48 that all show a bus and a car at `TRUE_BOXES`."""
    images, annotations = [], []
    for i in range(count):
        picture = np.random.default_rng(i).integers(20, 60, (48, 64, 3), dtype=np.uint8)
        images.append({"id": i + 1, "file_name": f"{i}.png", "width": 64, "height": 48})
        for number, (x0, y0, x1, y1) in enumerate(TRUE_BOXES.values()):
            picture[y0:y1, x0:x1] += 150
            box = {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0), "iscrowd": 0}
            annotations.append({"id": 2 * i + number + 1, "image_id": i + 1, "category_id": number + 1, **box})
        save(root / "val" / f"{i}.png", picture)
    categories = [{"id": number + 1, "name": name} for number, name in enumerate(TRUE_BOXES)]
    file = root / "annotations" / "instances_val.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def segmented(root: Path, numbers: Sequence[int] = (0, 1, 2), count: int = 3) -> None:
    """Pictures 64 x 48 in stripes of different brightness, and masks of these numbers."""
    for i in range(count):
        edges = np.linspace(0, 64, len(numbers) + 1).astype(int) + np.array([0, *[i] * (len(numbers) - 1), 0])
        mask = np.zeros((48, 64), np.uint8)
        picture = np.random.default_rng(i).integers(0, 20, (48, 64, 3), dtype=np.uint8)
        for part, (a, b) in enumerate(pairwise(edges)):
            mask[:, a:b] = numbers[part]
            picture[:, a:b] += np.uint8(200 * part // max(1, len(numbers) - 1))
        save(root / "images" / f"{i}.png", picture)
        save(root / "masks" / f"{i}.png", mask)
