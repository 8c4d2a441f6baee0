"""Small copies of pictures: in files, for a page that shows hundreds of large ones and opens the pictures themselves;
or inside the page, as addresses, of as many sources as a mail takes.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from PIL import Image

from ..files.writing import open_whole
from ..schedule.overlap import prefetch
from ..suite.images import open_png
from .album import Strip, pick_evenly

# Pictures of which a side is longer get a copy with that side so long, in pixels.
_LARGE, _SIDE = 640, 480
_QUALITY = 82
_WORKERS = min(4, os.cpu_count() or 1)
# Of all pictures together, in the page: a mail encodes them once more, and many servers take 20 MB.
MOST_BYTES = 12_000_000
_EMBEDDED_SIDE, _EMBEDDED_QUALITY = 256, 70
# Sources that tell what the others take.
_SAMPLE = 8
_EMPTY = "data:,"


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

    drawn = prefetch(shown, draw, 2 * _WORKERS, _WORKERS)
    return {image: copy for image, copy in drawn if isinstance(copy, Path)}


def small_copy(picture: Image.Image, side: int) -> Image.Image:
    """The picture with no side longer than `side` pixels, RGB or, where it has transparency, RGBA."""
    small = picture.convert("RGBA" if picture.mode == "RGBA" else "RGB")
    small.thumbnail((side, side), Image.Resampling.BOX)
    return small


def embed_pictures(album: Sequence[Strip], most: int = MOST_BYTES) -> tuple[list[Strip], dict[Path, str]]:
    """As many strips, evenly from all, as fit into `most` bytes, and their pictures, edges and masks as addresses; what
    is no picture is empty.
    """
    sample = _addresses(pick_evenly(album, _SAMPLE))
    taken = sum(map(len, sample.values())) / max(1, min(len(album), _SAMPLE))
    chosen = pick_evenly(album, max(1, int(most / max(taken, 1))))
    while True:
        addresses = _addresses(chosen)
        size = sum(map(len, addresses.values()))
        if size <= most or len(chosen) == 1:
            return chosen, addresses
        chosen = pick_evenly(album, max(1, min(len(chosen) - 1, int(len(chosen) * most / size))))


def _addresses(album: Sequence[Strip]) -> dict[Path, str]:
    files = dict.fromkeys(file for strip in album for file in strip.files)
    drawn = prefetch(files, _address, 2 * _WORKERS, _WORKERS)
    return {file: address if isinstance(address, str) else _EMPTY for file, address in drawn}


def _address(file: Path) -> str:
    small = open_png(file, lambda picture: small_copy(picture, _EMBEDDED_SIDE))
    written = BytesIO()
    small.save(written, "WEBP", quality=_EMBEDDED_QUALITY)
    return f"data:image/webp;base64,{b64encode(written.getvalue()).decode()}"
