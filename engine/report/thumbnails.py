"""Small copies of large pictures, for a page that shows hundreds of them; the viewer opens the pictures themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from ..files.writing import open_whole
from ..schedule.overlap import prefetch
from .album import Strip

# Pictures of which a side is longer get a copy with that side so long, in pixels.
_LARGE, _SIDE = 640, 480
_QUALITY = 82
_WORKERS = min(4, os.cpu_count() or 1)


def draw_thumbnails(album: Sequence[Strip], suite: Path, folder: Path) -> Mapping[Path, Path]:
    """The small copies, written below `folder`, of the large pictures of an album, by picture; a picture that cannot be
    read has none, and the page shows it as it is.
    """
    frames = [frame for strip in album for frame in (*strip.frames, *([strip.control] if strip.control else []))]
    shown = dict.fromkeys([*(strip.image for strip in album), *(frame.image for frame in frames)])

    def draw(image: Path) -> Path | None:
        with Image.open(image, formats=["PNG"]) as picture:
            if max(picture.size) <= _LARGE:
                return None
            small = picture.convert("RGB")
        small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
        path = (folder / image.relative_to(suite)).with_suffix(".jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_whole(path, sync="nothing") as file:
            small.save(file, "JPEG", quality=_QUALITY)
        return path

    drawn = prefetch(shown, draw, 2 * _WORKERS, _WORKERS)
    return {image: copy for image, copy in drawn if isinstance(copy, Path)}
