"""Small copies of large pictures, for a page that shows hundreds of them; the viewer opens the pictures themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from PIL import Image

from ..files.writing import open_whole
from ..schedule.overlap import prefetch
from .album import Strip

# Pictures of which a side is longer get a copy with that side so long, in pixels.
_LARGE, _SIDE = 640, 480
_QUALITY = 82
WORKERS = min(4, os.cpu_count() or 1)


def draw_thumbnails(album: Sequence[Strip], suite: Path, folder: Path) -> Mapping[Path, Path]:
    """The small copies, written below `folder`, of the large pictures of an album, by picture; a picture that cannot be
    read has none, and the page shows it as it is. Copies that are younger than their pictures stay.
    """
    shown = dict.fromkeys(picture for strip in album for picture in strip.pictures)

    def draw(image: Path) -> Path | None:
        path = (folder / image.relative_to(suite)).with_suffix(".jpg")
        with suppress(FileNotFoundError):
            if path.stat().st_mtime_ns > image.stat().st_mtime_ns:
                return path
        with Image.open(image, formats=["PNG"]) as picture:
            if max(picture.size) <= _LARGE:
                return None
            small = small_copy(picture.convert("RGB"), _SIDE)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_whole(path, sync="nothing") as file:
            small.save(file, "JPEG", quality=_QUALITY)
        return path

    drawn = prefetch(shown, draw, 2 * WORKERS, WORKERS)
    return {image: copy for image, copy in drawn if isinstance(copy, Path)}


def small_copy(picture: Image.Image, side: int) -> Image.Image:
    """The picture with no side longer than `side` pixels."""
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.BOX)
    return small
