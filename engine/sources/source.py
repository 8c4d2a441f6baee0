"""Sources: a user's images, each with its label, its mask, and a key made of its content.

`find_sources` takes a folder or a table and returns the usable sources and the problems of the others. It reads and
decodes every file once, so that a broken one is found before any work is spent on it. Pixels are not kept, since a
data set may have 100,000 images: `load_pixels` decodes again when a shard needs them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.tables import SUFFIXES as TABLES
from ..recipes import source_key
from .boxes import Box
from .listing import Entry, Problem, list_folder, list_table
from .pixels import UnreadableError, fit, fit_mask, read_mask, read_picture, target_size

__all__ = ["ImageSettings", "Problem", "Source", "find_sources", "load_mask", "load_pixels"]

_MAX_FILE_BYTES = 512 * 2**20
_LAYOUTS = (
    "accepted are a folder of images (class folders give labels), a folder with images/ and masks/, "
    "or a .csv or .jsonl file with the columns image, label, mask"
)


@dataclass(frozen=True)
class ImageSettings:
    """The size to paint at, in pixels: the short side, what both sides are a multiple of, the longest long side."""

    short_side: int
    multiple: int
    max_long_side: int

    def __post_init__(self) -> None:
        if self.multiple < 1 or self.short_side < 1:
            raise ValueError(f"[image] short_side and multiple start at 1, found {self.short_side} and {self.multiple}")
        for name in ("short_side", "max_long_side"):
            if getattr(self, name) % self.multiple:
                raise ValueError(f"[image] {name} must be a multiple of {self.multiple}, found {getattr(self, name)}")
        if self.max_long_side < self.short_side:
            raise ValueError(f"[image] max_long_side {self.max_long_side} is below short_side {self.short_side}")


@dataclass(frozen=True)
class Source:
    """One usable image.

    `name` is unique in its set and path-like ("bus/0003"). `file` is its path as the set names it, `size` (height,
    width) in pixels, upright. `digest` is the SHA-256 of the image file, `key` the content key of name, digest, label
    and the mask file's digest. `boxes` are in the pixels of the file, upright; `classes` the names of the classes that
    its mask or its boxes show, each once and sorted, where the set names them.
    """

    name: str
    file: str
    path: Path
    size: tuple[int, int]
    label: str | None
    mask_path: Path | None
    digest: str
    key: str
    # Left out of comparisons: the key covers them.
    boxes: tuple[Box, ...] = field(default=(), compare=False)
    classes: tuple[str, ...] = field(default=(), compare=False)


def find_sources(
    root: Path,
    *,
    labels: Path | None = None,
    masks: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Source], list[Problem]]:
    """The sources and the problems of a data set, each sorted by name.

    `root` is a folder (class folders, flat, or images/ beside masks/) or a .csv or .jsonl file with the columns image,
    label, mask. `labels` is such a file about a folder's images, and then says of which images the set consists;
    `masks` a folder of masks with the images' stems. `on_progress` is called with (images verified, images) now and
    then. Raises CounterfactoryError if `root` has no image at all, or a table has unknown columns.
    """
    entries, problems = _listed(root, labels, masks)
    if not entries and not problems:
        raise CounterfactoryError(f"no images found in {root}; {_LAYOUTS}")
    sources: list[Source] = []
    # A few threads: decoding releases the GIL, and a 24-megapixel photograph holds 72 MB while it lasts.
    pool = ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1))
    try:
        for done, result in enumerate(pool.map(_verified, entries), start=1):
            if isinstance(result, Source):
                sources.append(result)
            else:
                problems.append(result)
            if on_progress is not None and (done % 64 == 0 or done == len(entries)):
                on_progress(done, len(entries))
    finally:
        pool.shutdown(cancel_futures=True)  # or Ctrl-C would wait for the whole set
    return sorted(sources, key=lambda s: s.name), sorted(problems, key=lambda p: (p.name, p.reason))


def refuse_suite_among_sources(root: Path, suite: Path) -> None:
    """Raises CounterfactoryError where a suite would lie inside the folder of its sources, and be read as sources the
    next time.
    """
    if root.is_dir() and suite.resolve().is_relative_to(root.resolve()):
        raise CounterfactoryError(f"the suite {suite} would lie among its sources in {root}; name a folder outside")


def load_pixels(source: Source, short_side: int, multiple: int, max_long_side: int) -> NDArray[np.uint8]:
    """The source's picture at the size to paint: uint8 [H, W, 3] RGB. See `pixels.target_size` for H and W.

    Raises CounterfactoryError if the file has changed since `find_sources` read it.
    """
    try:
        data = _read(source.path)
        if hashlib.sha256(data).hexdigest() != source.digest:
            raise UnreadableError("the file has changed since the run began; run again to use the new one")
        pixels = read_picture(data)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.path}: {error}") from error
    height, width = pixels.shape[:2]
    return fit(pixels, target_size(height, width, short_side, multiple, max_long_side))


def load_mask(source: Source, size: tuple[int, int]) -> NDArray[Any]:
    """The source's mask at `size` (height, width: `load_pixels(...).shape[:2]`), cropped as the pixels are.

    uint8 or uint16 as in its file, [height, width], or [height, width, channels] if it is colour-coded; nearest
    neighbour. Raises CounterfactoryError if the file has changed since `find_sources` read it, ValueError without a
    mask.
    """
    if source.mask_path is None:
        raise ValueError(f"source {source.name} has no mask")
    try:
        data = _read(source.mask_path)
        if source_key(source.name, source.digest, source.label, hashlib.sha256(data).hexdigest()) != source.key:
            raise UnreadableError("the file has changed since the run began; run again to use the new one")
        return fit_mask(read_mask(data), size)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.mask_path}: {error}") from error


def _listed(root: Path, labels: Path | None, masks: Path | None) -> tuple[list[Entry], list[Problem]]:
    try:
        if root.is_dir():
            if labels is not None and labels.suffix.lower() not in TABLES:
                raise CounterfactoryError(f"labels come in a .csv or .jsonl file, not in {labels}")
            return list_folder(root, masks, labels)
        if not root.exists():
            raise CounterfactoryError(f"there is no {root}; {_LAYOUTS}")
        if root.suffix.lower() not in TABLES:
            raise CounterfactoryError(f"{root} is not a set of images; {_LAYOUTS}")
        if labels is not None:
            raise CounterfactoryError(f"{root} has a label column of its own; leave {labels} out")
        return list_table(root, masks)
    except OSError as error:
        raise CounterfactoryError(f"cannot read {error.filename or root}: {error.strerror}") from error


def _verified(entry: Entry) -> Source | Problem:
    """Read an entry's files and decode them completely."""
    what = "image"
    try:
        data = _read(entry.path)
        height, width = read_picture(data).shape[:2]
        digest, mask_digest = hashlib.sha256(data).hexdigest(), None
        if entry.mask is not None:
            what = f"mask {entry.mask.name}"
            mask_data = _read(entry.mask)
            mask_size = read_mask(mask_data).shape[:2]
            if mask_size != (height, width):
                raise UnreadableError(f"is {mask_size[1]} x {mask_size[0]}, the image {width} x {height}")
            mask_digest = hashlib.sha256(mask_data).hexdigest()
    except UnreadableError as error:
        return Problem(entry.file, str(error) if what == "image" else f"{what}: {error}")
    key = source_key(entry.name, digest, entry.label, mask_digest)
    return Source(entry.name, entry.file, entry.path, (height, width), entry.label, entry.mask, digest, key)


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would block for ever
            raise UnreadableError("not a regular file")
        if status.st_size > _MAX_FILE_BYTES:
            raise UnreadableError(
                f"the file has {status.st_size / 2**20:.0f} MiB; at most {_MAX_FILE_BYTES >> 20} are read"
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UnreadableError(f"there is no file {path}") from error
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
