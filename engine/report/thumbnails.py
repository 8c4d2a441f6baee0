"""Small copies of large pictures, for a page that shows hundreds of them; the viewer opens the pictures themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from PIL import Image

from ..files.writing import open_whole
from ..schedule.overlap import prefetch
from ..suite.images import open_png
from .album import Strip

# Pictures of which a side is longer get a copy with that side so long, in pixels.
_LARGE, _SIDE = 640, 480
_QUALITY = 82
WORKERS = min(4, os.cpu_count() or 1)


def draw_thumbnails(album: Sequence[Strip], suite: Path, folder: Path, below: Path) -> Mapping[Path, Path]:
    """The small copies, written to `folder`, below `below`, of the large pictures of an album, by picture; a picture
    that cannot be read has none, and the page shows it as it is. Copies that are younger than their pictures stay.
    """
    shown = dict.fromkeys(picture for strip in album for picture in strip.pictures)

    def draw(image: Path) -> Path | None:
        path = (folder / image.relative_to(suite)).with_suffix(".jpg")
        with suppress(FileNotFoundError):
            if path.stat().st_mtime_ns > image.stat().st_mtime_ns:
                return path
        small = open_png(image, lambda picture: small_copy(picture, _SIDE) if max(picture.size) > _LARGE else None)
        if small is None:
            return None
        with open_whole(path, sync="nothing", below=below) as file:
            small.convert("RGB").save(file, "JPEG", quality=_QUALITY)
        return path

    drawn = prefetch(shown, draw, 2 * WORKERS, WORKERS)
    return {image: copy for image, copy in drawn if isinstance(copy, Path)}


def small_copy(picture: Image.Image, side: int) -> Image.Image:
    """The picture with no side longer than `side` pixels, RGB or, where it has transparency, RGBA."""
    small = picture.convert("RGBA" if picture.mode == "RGBA" else "RGB")
    small.thumbnail((side, side), Image.Resampling.BOX)
    return small
