"""The pictures of a page inside it: small WebP copies as addresses, as many sources as a mail takes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from ..schedule.overlap import prefetch
from ..suite.images import open_png
from .album import Strip, pick_evenly
from .thumbnails import WORKERS, small_copy

# Of all pictures together, in the page: a mail encodes them once more, and many servers take 20 MB.
MOST_BYTES = 12_000_000
_SIDE, _QUALITY = 256, 70
# Sources that tell what the others take.
_SAMPLE = 8
_EMPTY = "data:,"


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
    drawn = prefetch(files, _address, 2 * WORKERS, WORKERS)
    return {file: address if isinstance(address, str) else _EMPTY for file, address in drawn}


def _address(file: Path) -> str:
    small = open_png(file, lambda picture: small_copy(picture, _SIDE))
    written = BytesIO()
    small.save(written, "WEBP", quality=_QUALITY)
    return f"data:image/webp;base64,{b64encode(written.getvalue()).decode()}"
