"""Rendered streets as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.pocket.worlds import EMBEDDED


def save_picture(path: Path, pixels: NDArray[Any], **how: Any) -> None:
    """A picture or mask, in a folder that may not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **how)


def write_streets(root: Path, count: int = 3) -> list[str]:
    """So many scenes, `root`/images/KIND/NNNN.png with masks beside; their names."""
    names = []
    for index in range(count):
        scene = EMBEDDED.scene(1, index)
        names.append(f"{scene.label}/{index:04d}")
        for kind, array in zip(("images", "masks"), EMBEDDED.draw(scene).pair, strict=True):
            save_picture(root / kind / f"{names[-1]}.png", array)
    return names
