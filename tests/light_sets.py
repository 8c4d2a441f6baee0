"""Small photographs, and suites of them by the profile that needs no network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from counterfactory.engine.api.finished import FinishedSuite
from counterfactory.engine.api.verbs import generate


def photographs(root: Path, indices: Iterable[int]) -> Path:
    """Class folders a/ and b/ of smooth pictures, 48 x 64; equal indices are equal pictures."""
    for index in indices:
        numbers = np.random.default_rng(index)
        grey = Image.fromarray(numbers.integers(30, 226, (6, 8, 3), dtype=np.uint8))
        path = root / "ab"[index % 2] / f"{index:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        grey.resize((64, 48), Image.Resampling.BICUBIC).save(path)
    return root


def make_suite(photos: Path, out: Path, **options: Any) -> FinishedSuite:
    """A suite of two variants a source."""
    asked: dict[str, Any] = {"profile": "light", "variants": 2, "anyway": True, "warn": lambda _: None}
    return generate(photos, out=out, **asked | options)
