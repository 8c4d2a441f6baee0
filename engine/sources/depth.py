"""Depth maps of sources: which file belongs to a picture, how its numbers are read, and the map that the painter gets.

A file has a number for each pixel of its picture: a distance, or the inverse of one (a disparity, what MiDaS and its
like estimate), in any unit. Where it is 0, infinite or NaN the depth is unknown, as in the sky. The painter takes
the inverse, so that near things have most of the range, and 0 where nothing is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.arrays import MAGIC, parse_array
from ..files.disk_list import DiskList
from ..keys import content_key
from .blobs import Blob, read_blob
from .listing import Entry, files_by_stem, match_stem
from .pixels import MAX_PIXELS, UnreadableError, fit_mask, read_mask

DepthValues = Literal["distance", "inverse"]
DEPTH_VALUES: tuple[DepthValues, ...] = get_args(DepthValues)
NEAREST = 65535
_SUFFIXES = (".npy", ".png", ".tif", ".tiff")


@dataclass(frozen=True, slots=True)
class Depth:
    """Where a source's depth map lies, the meaning of its numbers, and a digest of both."""

    of: Blob
    values: DepthValues
    digest: str


def with_depth(entries: Iterable[Entry], folder: Path) -> DiskList[Entry]:
    """The entries with their depth maps below `folder`, by `match_stem`. Raises CounterfactoryError where there is no
    such folder, or two files are called as one picture.
    """
    if not folder.is_dir():
        raise CounterfactoryError(f"no folder of depth maps at {folder}; --depth takes a folder with one map per image")
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES]
    by_stem = files_by_stem(path.as_posix() for path in files if not any(part[0] == "." for part in path.parts))
    for first, *others in by_stem.values():
        if others:
            twice = f"{first} and {others[0]}, two depth maps of one picture; keep one"
            raise CounterfactoryError(f"{folder} holds {twice}")
    return DiskList(replace(entry, depth=f"{folder}/{match_stem(entry, by_stem, '.npy')}") for entry in entries)


def open_depth(blob: Blob, values: DepthValues) -> tuple[NDArray[Any], Depth]:
    """The numbers of a depth map [H, W], and the map. Raises UnreadableError as `read_depth` does."""
    data = read_blob(blob)
    return read_depth(data), Depth(blob, values, content_key("depth", hashlib.sha256(data).hexdigest(), values))


def read_depth(data: bytes) -> NDArray[Any]:
    """The numbers of a depth map, [H, W]: those of a NumPy file, or the grey levels of a picture of 8 or 16 bits.
    Raises UnreadableError for bytes that are neither, and for an array that is not two-dimensional.
    """
    if not data.startswith(MAGIC):
        return read_mask(data, greyscale=True)
    try:
        numbers = parse_array(data)
    except ValueError as error:
        raise UnreadableError(f"a broken NumPy file ({error})") from error
    if numbers.ndim != 2 or numbers.dtype.kind not in "fiu":
        raise UnreadableError(f"depth is a plane of numbers [H, W], found {numbers.dtype} {list(numbers.shape)}")
    if not 0 < numbers.size <= MAX_PIXELS:
        raise UnreadableError(f"of {numbers.size:,} pixels; 1 to {MAX_PIXELS:,} are read")
    return numbers


def fit_depth(numbers: NDArray[Any], values: DepthValues, size: tuple[int, int]) -> NDArray[np.uint16]:
    """The painter's map of a depth map [H, W], at `size` (height, width): uint16 [height, width], the inverse of the
    distance over that of the nearest pixel shown, 65535 there and 0 where nothing is known.

    Cropped as the picture is, by nearest neighbour: between a thing and what is behind it there is nothing. Raises
    UnreadableError where nothing is known at all.
    """
    shown = fit_mask(numbers, size).astype(np.float64)
    if values == "distance":
        with np.errstate(divide="ignore", over="ignore"):
            shown = 1 / shown
    inverse = np.where(np.isfinite(shown) & (shown > 0), shown, 0.0)
    if (most := inverse.max()) == 0:
        raise UnreadableError(f"has no {'distance' if values == 'distance' else 'inverse distance'} above 0")
    return np.asarray(np.rint(inverse / most * NEAREST), np.uint16)
