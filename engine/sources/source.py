"""Sources: a user's images, each with its label, its mask, its boxes, and a key made of its content.

`Reader` makes sources of a listing's entries. It reads and decodes every file once, so that a broken one is found
before any work is spent on it. Pixels are not kept, since a data set may have 100,000 images: `load_pixels` decodes
again when a shard needs them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..content_keys import source_key
from ..errors import CounterfactoryError
from ..keys import content_key
from ..profile.image import ImageSettings
from ..schedule.overlap import prefetch
from .blobs import CHANGED, Blob, path_of, read_blob, read_known
from .boxes import BoxCensus
from .class_map import ClassMap
from .depth import Depth, DepthValues, fit_depth, open_depth
from .given import GivenPicture, GivenPictures, open_given
from .jpeg import damage, ends_grey
from .listing import Cells, Entry, Problem
from .mask_contents import UNNAMED, MaskFacts, count_classes, examine_mask
from .pixels import UnreadableError, fit, fit_mask, mask_palette, picture_size, read_mask, read_picture
from .sequences import look_of
from .shapes import Box, DrawnMask, things

__all__ = ["Examine", "Image", "ImageSettings", "Mask", "Pictures", "Problem", "Reader", "Source"]
__all__ += ["load_depth", "load_mask", "load_pixels"]

Image = NDArray[np.uint8]
# Whether a picture, uint8 RGB [H, W, 3] as it is in its file, is within what the models know.
Examine = Callable[[Image], bool]
# Is called with (images verified, images) now and then.
Progress = Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True)
class Mask:
    """Where a mask lies or how it is drawn, the set's class map of its numbers, and the names of its class numbers."""

    of: Blob | DrawnMask
    class_map: ClassMap | None
    names: Mapping[int, str] | None = None

    def read(self, size: tuple[int, int]) -> tuple[NDArray[Any], str]:
        """The mask of a picture of `size` (height, width), and what names it. Raises UnreadableError."""
        if isinstance(self.of, DrawnMask):
            try:
                return self.of.draw(*size), self.of.digest()
            except ValueError as error:
                raise UnreadableError(str(error)) from error
        return self._decode(read_blob(self.of))[1:]

    def examine(self, size: tuple[int, int]) -> tuple[NDArray[Any], str, MaskFacts]:
        """As `read`, with what the mask holds: in its file, or by a class map of colours."""
        if isinstance(self.of, DrawnMask):
            numbers, digest = self.read(size)
            return numbers, digest, count_classes(numbers)
        data = read_blob(self.of)
        mask, numbers, digest = self._decode(data)
        if self.class_map is not None and self.class_map.colours:
            return numbers, digest, count_classes(numbers, digest)
        if self.class_map is not None and mask.ndim == 3:
            mask = mask[..., 0]
        return numbers, digest, examine_mask(mask, mask_palette(data), digest)

    def _decode(self, data: bytes) -> tuple[NDArray[Any], NDArray[Any], str]:
        """The mask as it is in a file, its class numbers, and what names it."""
        digest, class_map = hashlib.sha256(data).hexdigest(), self.class_map
        mask = read_mask(data, colours=class_map is not None and bool(class_map.colours))
        if class_map is None:
            return mask, mask, digest
        return mask, class_map.apply(mask), content_key(digest, class_map.key)


@dataclass(frozen=True, slots=True)
class Source:
    """One usable image.

    `name` is unique in its set and path-like ("bus/0003"). `file` is its path as the set names it, `path` the file that
    holds it, `size` (height, width) in pixels, upright. `mask_path` is the file that its mask comes from, None without
    one. `digest` is the SHA-256 of the image's bytes, `key` the content key of name, digest, label, mask, boxes, depth.
    `boxes` are in the pixels of the image, upright; `classes` the names of the classes that its mask or its boxes show,
    each once and sorted, where the set names them. `known_world` is whether the picture is within what the models know,
    None where that was not examined. `given` are pictures of it that somebody painted, None where none are given;
    `caption` is what the set says it shows, None where it says nothing, `cells` what else its row says, and `look` is
    the picture's (`sequences`), b"" where it was not read.
    By its `turn` a source takes values of a painter's menu, None where it takes none (tasks/choose.py).
    """

    name: str
    file: str
    path: Path
    size: tuple[int, int]
    label: str | None
    mask_path: Path | None
    digest: str
    key: str
    # Left out of comparisons: the key covers them. It names noise: boxes are in it as they are `listed`, doubled
    # and without marks, however they are read. `blob` and `mask` are None where the paths say it all, `depth` where
    # there is no map.
    boxes: tuple[Box, ...] = field(default=(), compare=False)
    listed: tuple[Box, ...] = field(default=(), compare=False)
    classes: tuple[str, ...] = field(default=(), compare=False)
    blob: Blob | None = field(default=None, compare=False)
    mask: Mask | None = field(default=None, compare=False)
    known_world: bool | None = field(default=None, compare=False)
    depth: Depth | None = field(default=None, compare=False)
    # Not in the key either: another picture of it leaves the source as it is, and so does what it is grouped by.
    given: GivenPictures | None = field(default=None, compare=False)
    caption: str | None = field(default=None, compare=False)
    cells: Cells = field(default=(), compare=False)
    look: bytes = field(default=b"", compare=False)
    turn: int | None = field(default=None, compare=False)

    @property
    def truth_key(self) -> str:
        """The key of the source with what its boxes mean."""
        return content_key(self.key, [asdict(box) for box in self.boxes]) if self.boxes != self.listed else self.key

    @property
    def whole_key(self) -> str:
        """The key of the source with what its boxes mean, the pictures that are given of it, its turn and its own
        caption.
        """
        more: list[Any] = [] if self.given is None else [self.given.key]
        more += [] if self.turn is None else [self.turn]
        more += [] if self.caption is None else [{"caption": self.caption}]
        return content_key(self.truth_key, *more) if more else self.truth_key

    @property
    def things(self) -> tuple[Box, ...]:
        """The boxes of what a model has to find."""
        return things(self.boxes)


def load_pixels(source: Source, settings: ImageSettings) -> NDArray[np.uint8]:
    """A picture at `settings.size_for` its size: uint8 RGB [H, W, 3]. Raises CounterfactoryError if it has changed."""
    try:
        pixels = read_picture(read_known(source.blob or str(source.path), source.digest))
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.path}: {error}") from error
    return fit(pixels, settings.size_for(*pixels.shape[:2]))


def load_mask(source: Source, size: tuple[int, int]) -> NDArray[Any]:
    """The source's mask at `size` (height, width: `load_pixels(...).shape[:2]`), cropped as the pixels are.

    By the set's class map uint8 or uint16 [height, width]; without one as in its file, [height, width], or [height,
    width, channels] if it is colour-coded; nearest neighbour. Raises CounterfactoryError if the file has changed since
    `read_set` read it, ValueError without a mask.
    """
    if source.mask_path is None:
        raise ValueError(f"source {source.name} has no mask")
    try:
        mask, digest = (source.mask or Mask(str(source.mask_path), None)).read(source.size)
        truth = _truth_key(digest, source.listed, source.depth)
        if source_key(source.name, source.digest, source.label, truth) != source.key:
            raise UnreadableError(CHANGED)
        return fit_mask(mask, size)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.mask_path}: {error}") from error


def load_depth(source: Source, size: tuple[int, int]) -> NDArray[np.uint16]:
    """The painter's map of the source's depth at `size` (height, width), uint16 [height, width], by `fit_depth`. Raises
    CounterfactoryError if the file has changed since `read_set` read it, ValueError without a map.
    """
    if source.depth is None:
        raise ValueError(f"source {source.name} has no depth map")
    try:
        numbers, depth = open_depth(source.depth.of, source.depth.values)
        if depth != source.depth:
            raise UnreadableError(CHANGED)
        return fit_depth(numbers, depth.values, size)
    except UnreadableError as error:
        raise CounterfactoryError(f"{path_of(source.depth.of)}: {error}") from error


def _truth_key(mask_digest: str | None, boxes: Sequence[Box], depth: Depth | None) -> str | None:
    """The key of a picture's mask, boxes and depth map: the mask's digest where there is nothing else."""
    told = [{name: value for name, value in asdict(box).items() if name != "ignored"} for box in boxes]
    if depth is not None:
        return content_key(mask_digest, told, depth.digest)
    return content_key(mask_digest, told) if told else mask_digest


# Decoding releases the GIL, and a 24-megapixel photograph holds 72 MB while it lasts.
_READERS = min(4, os.cpu_count() or 1)


@dataclass
class Reader:
    """Reads entries' files and decodes them completely, a few at a time. `names` are those of the set's class numbers,
    `depth_values` the meaning of its depth maps' numbers; `on_progress` is called with (images verified, images), and
    `boxes` judges boxes before they are clipped. Of more pictures than `whole`, where that is given, so many are read,
    evenly spread, and of the others the headers: these have no digests. `grey` are the names of pictures that may have
    been broken once, and `lost` the pictures of sources that were given and cannot be used.
    """

    class_map: ClassMap | None
    names: Mapping[int, str] | None
    depth_values: DepthValues
    on_progress: Progress
    examine: Examine | None
    boxes: BoxCensus
    whole: int | None = None
    facts: dict[str, MaskFacts] = field(default_factory=dict)
    grey: list[str] = field(default_factory=list)
    lost: list[Problem] = field(default_factory=list)
    skimmed: int = 0
    done: int = 0
    total: int = 0

    def verify(self, entries: Sequence[Entry]) -> Iterator[Source | Problem]:
        """Each entry as a source, or why it is none, in order; what masks hold is left in `facts`, by names."""
        self.total += len(entries)
        every = 1 if self.whole is None else -(-len(entries) // self.whole)

        def read(numbered: tuple[int, Entry]) -> tuple[Source | Problem, MaskFacts | None]:
            number, entry = numbered
            plain = entry.mask is None and entry.depth is None and entry.given is None and isinstance(entry.blob, str)
            return (self._skim_entry(entry), None) if number % every and plain else self._verify_entry(entry)

        for _, verified in prefetch(enumerate(entries), read, depth=8 * _READERS, workers=_READERS):
            if isinstance(verified, Exception):
                raise verified
            result, facts = verified
            if facts is not None:
                self.facts[result.name] = facts
            self.done += 1
            if self.on_progress is not None and (self.done % 64 == 0 or self.done == self.total):
                self.on_progress(self.done, self.total)
            yield result

    def read_as(self, sources: Iterable[Source], class_map: ClassMap) -> Iterator[Source]:
        """The sources with their masks by another class map."""
        self.class_map, self.names = class_map, class_map.names
        for _, source in prefetch(sources, self._read_mask, depth=8 * _READERS, workers=_READERS):
            if isinstance(source, Exception):
                raise source
            yield source

    def _read_mask(self, source: Source) -> Source:
        if source.mask is None or self.class_map is None:
            return source
        mask = replace(source.mask, class_map=self.class_map, names=self.names)
        try:
            numbers, digest = mask.read(source.size)
        except UnreadableError as error:
            raise CounterfactoryError(f"{source.mask_path}: {error}") from error
        key = source_key(source.name, source.digest, source.label, _truth_key(digest, source.listed, source.depth))
        named = self.class_map.shown(numbers) if self.class_map.names != UNNAMED else ()
        shown = {*named, *(box.label for box in source.things)}
        return replace(source, mask=mask, key=key, classes=tuple(sorted(shown)))

    def _skim_entry(self, entry: Entry) -> Source | Problem:
        """As `_verify_entry`, of what the header of its picture says."""
        try:
            path = path_of(entry.blob)
            size = picture_size(path)
            boxes, listed = self._boxes_of(entry, size)
        except UnreadableError as error:
            return Problem(entry.file, str(error))
        name, classes = entry.name, tuple(sorted({box.label for box in things(boxes)}))
        self.skimmed += 1
        own = Source(name, entry.file, path, size, entry.label, None, name, name, boxes, listed, classes)
        return replace(own, caption=entry.caption, cells=entry.cells)

    def _boxes_of(self, entry: Entry, size: tuple[int, int]) -> tuple[tuple[Box, ...], tuple[Box, ...]]:
        """The parts of boxes that a picture of this size shows, as the set means them, and of things as they are
        listed. Raises UnreadableError for a thing of which nothing is seen, and another size.
        """
        if entry.size not in (None, size):
            raise UnreadableError(f"is {_by(size)}, its annotations are for {_by(entry.size or size)}")
        across, down = (size[1], size[0]) if entry.relative else (1, 1)
        boxes = tuple(box.scaled(across, down) for box in entry.boxes)
        meant = (_inside(box, size) for box in self.boxes.settle(entry.name, boxes, size))
        listed = (replace(_clip(box, size), ignored=None) for box in boxes if box.ignored != "crowd")
        return tuple(box for box in meant if box is not None), tuple(box for box in listed if _has_sides(box))

    def _verify_entry(self, entry: Entry) -> tuple[Source | Problem, MaskFacts | None]:
        what, facts = "", None
        try:
            data = read_blob(entry.blob)
            picture = read_picture(data)
            if (wrong := damage(data, picture)) is not None:
                raise UnreadableError(f"a broken JPEG: {wrong}; take the original, or save it again as it is")
            if ends_grey(picture):
                self.grey.append(entry.name)
            size = picture.shape[:2]
            boxes, listed = self._boxes_of(entry, size)
            known_world = None if self.examine is None else self.examine(picture)
            look = look_of(picture)
            del picture  # before the mask is read: pictures can be large
            digest, shown, mask_digest, mask = hashlib.sha256(data).hexdigest(), set[str](), None, None
            if entry.mask is not None:
                mask = Mask(entry.mask, None if isinstance(entry.mask, DrawnMask) else self.class_map, self.names)
                what = "mask: " if isinstance(entry.mask, DrawnMask) else f"mask {path_of(entry.mask).name}: "
                numbers, mask_digest, facts = mask.examine(size)
                _require_size(numbers, size)
                if self.class_map is not None:
                    shown.update(self.class_map.shown(numbers))
            depth = None
            if entry.depth is not None:
                what = f"depth {path_of(entry.depth).name}: "
                numbers, depth = open_depth(entry.depth, self.depth_values)
                _require_size(numbers, size)
                fit_depth(numbers, depth.values, size)
        except UnreadableError as error:
            return Problem(entry.file, f"{what}{error}"), None
        truth = _truth_key(mask_digest, listed, depth)
        source = Source(
            name=entry.name,
            file=entry.file,
            path=path_of(entry.blob),
            size=size,
            label=entry.label,
            mask_path=None if mask is None else path_of(entry.blob if isinstance(mask.of, DrawnMask) else mask.of),
            digest=digest,
            key=source_key(entry.name, digest, entry.label, truth),
            boxes=boxes,
            listed=boxes if boxes == listed else listed,
            classes=tuple(sorted(shown.union(box.label for box in things(boxes)))),
            blob=None if isinstance(entry.blob, str) else entry.blob,
            mask=mask,
            known_world=known_world,
            depth=depth,
            given=None if entry.given is None else self._open_given(entry.given, size),
            caption=entry.caption,
            cells=entry.cells,
            look=look,
        )
        return source, facts

    def _open_given(self, given: GivenPictures, size: tuple[int, int]) -> GivenPictures:
        """The pictures of an original of `size` that can be used."""
        opened: dict[str, GivenPicture] = {}
        for picture in given.pictures:
            try:
                one = open_given(picture, size)
            except UnreadableError as error:
                self.lost.append(Problem(picture.file, str(error)))
                continue
            if one.key in opened:
                first = opened[one.key].file
                self.lost.append(Problem(picture.file, f"the same picture as {first}, with the same edit; one counts"))
            else:
                opened[one.key] = one
        return replace(given, pictures=tuple(opened.values()))


def _require_size(numbers: NDArray[Any], size: tuple[int, int]) -> None:
    """Raises UnreadableError where a mask or a depth map is of another size than its picture."""
    if numbers.shape[:2] != size:
        raise UnreadableError(f"is {_by(numbers.shape)}, the image {_by(size)}; save both at one size")


def _clip(box: Box, size: tuple[int, int]) -> Box:
    x0, y0, x1, y1 = max(box.x0, 0.0), max(box.y0, 0.0), min(box.x1, float(size[1])), min(box.y1, float(size[0]))
    return replace(box, x0=x0, y0=y0, x1=x1, y1=y1)


def _has_sides(box: Box) -> bool:
    return box.x0 < box.x1 and box.y0 < box.y1


def _inside(box: Box, size: tuple[int, int]) -> Box | None:
    """The part of a box that its picture shows; None of what is ignored and not seen. Raises UnreadableError for a
    thing of which nothing is seen, or whose corners are reversed.
    """
    if _has_sides(clipped := _clip(box, size)):
        return clipped
    if box.ignored:
        return None
    where = f"a box ({box.label}: x {box.x0:g} to {box.x1:g}, y {box.y0:g} to {box.y1:g})"
    if not _has_sides(box):
        raise UnreadableError(f"{where} has its corners reversed, or a size below 0; correct it")
    raise UnreadableError(f"{where} lies outside of the picture, {_by(size)}; correct it")


def _by(size: tuple[int, ...]) -> str:
    return f"{size[1]} x {size[0]}"


class Pictures:
    """The pictures of a shard's sources at the size to paint: read when first needed, several at a time, and cached.
    One that cannot be read is reported once, in `problems`, and left out.
    """

    def __init__(self, settings: ImageSettings, read: Mapping[str, Image] = MappingProxyType({})) -> None:
        """`read` are pictures by source key that need not be read."""
        self.problems: list[Problem] = []
        self._settings = settings
        self._read: dict[str, Image | None] = dict(read)

    def of(self, sources: Iterable[Source]) -> dict[str, Image]:
        """Pictures, uint8 RGB [H, W, 3], by source key; those that cannot be read are missing."""
        wanted = {source.key: source for source in sources}
        missing = [source for key, source in wanted.items() if key not in self._read]
        load = partial(load_pixels, settings=self._settings)
        for source, pixels in prefetch(missing, load, depth=2 * _READERS, workers=_READERS):
            if isinstance(pixels, CounterfactoryError):
                self.problems.append(Problem(source.name, str(pixels)))
                self._read[source.key] = None
            elif isinstance(pixels, Exception):
                raise pixels
            else:
                self._read[source.key] = pixels
        return {key: image for key in wanted if (image := self._read[key]) is not None}
