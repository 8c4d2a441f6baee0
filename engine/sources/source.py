"""Sources: a user's images, each with its label, its mask, its boxes, and a key made of its content.

`read_set` takes a data set as it lies on the disk and returns the usable sources and the problems of the others. It
reads and decodes every file that is used once, so that a broken one is found before any work is spent on it. Pixels are
not kept, since a data set may have 100,000 images: `load_pixels` decodes again when a shard needs them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..keys import content_key
from ..recipes import source_key
from ..schedule.overlap import ahead
from .blobs import Blob, path_of, read_blob
from .boxes import Box
from .class_map import BACKGROUND, ClassMap, load_class_map
from .imagenet import is_synset
from .layouts import ACCEPTED, list_set
from .listing import Entry, Listing, Problem
from .masks import Mask
from .pixels import ImageSettings, UnreadableError, fit, fit_mask, read_picture
from .sampling import Selection, draw, groups, require_known
from .shapes import Drawn

__all__ = ["DataSet", "ImageSettings", "Problem", "Selection", "SetOptions", "Source", "find_sources", "read_set"]

# Whether a picture, uint8 RGB [H, W, 3] as it is in its file, is within what the models know.
Examine = Callable[[NDArray[np.uint8]], bool]


@dataclass(frozen=True)
class Source:
    """One usable image.

    `name` is unique in its set and path-like ("bus/0003"). `file` is its path as the set names it, `path` the file that
    holds it, `size` (height, width) in pixels, upright. `mask_path` is the file that its mask comes from, None without
    one. `digest` is the SHA-256 of the image's bytes, `key` the content key of name, digest, label, mask and boxes.
    `boxes` are in the pixels of the image, upright; `classes` the names of the classes that its mask or its boxes show,
    each once and sorted, where the set names them. `known_world` is whether the picture is within what the models know,
    None where nobody looked.
    """

    name: str
    file: str
    path: Path
    size: tuple[int, int]
    label: str | None
    mask_path: Path | None
    digest: str
    key: str
    # Left out of comparisons: the key covers them. `blob` and `mask` are None where the paths say it all.
    boxes: tuple[Box, ...] = field(default=(), compare=False)
    classes: tuple[str, ...] = field(default=(), compare=False)
    blob: Blob | None = field(default=None, compare=False)
    mask: Mask | None = field(default=None, compare=False)
    known_world: bool | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SetOptions:
    """What a user says of a data set: `labels` is a file about a folder's images, and then says of which images the set
    consists; `masks` a folder of masks with the images' stems; `layout` one of `layouts.LAYOUTS`, None to recognise it;
    `pairs` a pattern such as "{stem}_img.jpg={stem}_seg.png"; `class_map` a file or a published map's name.
    """

    labels: Path | None = None
    masks: Path | None = None
    layout: str | None = None
    pairs: str | None = None
    class_map: str | None = None
    selection: Selection = field(default_factory=Selection)


@dataclass(frozen=True)
class DataSet:
    """A data set as it was read: its usable sources and the problems of the others, each sorted by name, sentences on
    what was left out, and the names of its masks' class numbers.
    """

    layout: str
    sources: list[Source]
    problems: list[Problem]
    notes: list[str]
    class_names: Mapping[int, str]
    selection: Selection

    @property
    def classes(self) -> list[str]:
        """The names, sorted, of what the set's masks and boxes may show, but for the background."""
        shown = {name for source in self.sources for name in source.classes}
        return sorted(shown.union(self.class_names.values()) - {BACKGROUND})

    def record(self) -> dict[str, Any]:
        """What a suite's record says of it."""
        names = {str(number): name for number, name in sorted(self.class_names.items())}
        return {"layout": self.layout, "selection": asdict(self.selection), "classes": names}


def find_sources(
    root: Path,
    *,
    labels: Path | None = None,
    masks: Path | None = None,
    examine: Examine | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Source], list[Problem]]:
    """The sources and the problems of a data set; see `read_set`."""
    found = read_set(str(root), SetOptions(labels=labels, masks=masks), on_progress, examine)
    return found.sources, found.problems


def read_set(
    root: str,
    options: SetOptions,
    on_progress: Callable[[int, int], None] | None = None,
    examine: Examine | None = None,
) -> DataSet:
    """The data set at `root`: a folder or a file in one of the layouts (docs/data.md), or "hf:ID[:SPLIT]".

    `on_progress` is called with (images verified, images) now and then; `examine` sees each picture while it is read.
    Raises CounterfactoryError if `root` has no image at all, is no such layout, or an option contradicts it.
    """
    given = None if options.class_map is None else load_class_map(options.class_map)
    listing = list_set(root, options.labels, options.masks, options.layout, options.pairs)
    if not listing.entries and not listing.problems:
        raise CounterfactoryError(f"no images found in {root}; {ACCEPTED}")
    if given is not None and any(isinstance(entry.mask, Drawn) for entry in listing.entries):
        raise CounterfactoryError(f"{listing.layout} names its own classes; leave --class-map {options.class_map} out")
    class_map = given or listing.class_map
    if given is not None:
        listing.entries = _name_labels(listing.entries, given)
    chosen = options.selection
    known = listing.class_names or (() if class_map is None else tuple(class_map.names.values()))
    of_group = groups(listing.entries, chosen)
    unlabelled = chosen.classes is not None and all(entry.label is None for entry in listing.entries)
    if unlabelled:
        require_known(chosen.classes or (), known)
    problems = listing.problems
    reader = _Reader(class_map, on_progress, examine)

    def check(entries: Sequence[Entry]) -> Iterator[Source | None]:
        for result in reader.verify(entries):
            if isinstance(result, Problem):
                problems.append(result)
                yield None
            else:
                shown = not unlabelled or not set(chosen.classes or ()).isdisjoint(result.classes)
                yield result if shown else None

    sources = sorted(draw(of_group, check), key=lambda source: source.name)
    return DataSet(
        layout=listing.layout,
        sources=sources,
        problems=sorted(problems, key=lambda p: (p.name, p.reason)),
        notes=[
            *listing.notes,
            *_odd_labels(listing.entries),
            *_shortfalls(listing, sources, chosen),
            *_double_labels(sources),
        ],
        class_names={} if class_map is None else class_map.names,
        selection=chosen,
    )


def _name_labels(entries: list[Entry], class_map: ClassMap) -> list[Entry]:
    """The entries of a set without masks, whose labels are the class map's numbers, with its names."""
    if any(entry.mask is not None for entry in entries):
        return entries
    names = {str(number): name for number, name in class_map.names.items()}
    strange = next((e for e in entries if e.label is not None and e.label not in names), None)
    if strange is not None:
        raise CounterfactoryError(f"{class_map.where} does not name the label {strange.label!r} of {strange.file}")
    return [entry if entry.label is None else replace(entry, label=names[entry.label]) for entry in entries]


def _odd_labels(entries: Iterable[Entry]) -> list[str]:
    """A sentence about labels that are no synsets in a set where nearly all others are."""
    labels = {entry.label for entry in entries if entry.label is not None}
    odd = sorted(label for label in labels if not is_synset(label))
    if not odd or len(odd) * 10 > len(labels):
        return []
    return [f"labels that are no synsets, as the {len(labels) - len(odd)} others are: {', '.join(odd[:5])}"]


def _shortfalls(listing: Listing, sources: Sequence[Source], selection: Selection) -> list[str]:
    """What was asked for and is not there."""
    if selection.sample is not None and len(sources) < selection.sample:
        return [f"{selection.sample} sources were asked for, and {len(sources)} can be used"]
    if selection.per_class is None:
        return []
    counts = dict.fromkeys(
        (e.label for e in listing.entries if e.label and (not selection.classes or e.label in selection.classes)), 0
    )
    for source in sources:
        if source.label is not None:
            counts[source.label] += 1
    short = [f"{label} ({count})" for label, count in sorted(counts.items()) if count < selection.per_class]
    if not short:
        return []
    more = f" and {len(short) - 5} more" if len(short) > 5 else ""
    return [f"classes with fewer than {selection.per_class} usable images: {', '.join(short[:5])}{more}"]


def _double_labels(sources: Iterable[Source]) -> list[str]:
    """A sentence about images that are there under two labels; one of them is wrong."""
    first: dict[str, Source] = {}
    twice = [
        (known, source)
        for source in sources
        if (known := first.setdefault(source.digest, source)).label != source.label
    ]
    if not twice:
        return []
    one, other = twice[0]
    return [
        f"{len(twice)} image{'s are' if len(twice) > 1 else ' is'} there under two labels, the first as {one.name} "
        f"({one.label}) and {other.name} ({other.label}): remove the wrong ones"
    ]


def refuse_suite_among_sources(root: Path, suite: Path) -> None:
    """Raises CounterfactoryError where a suite would lie inside the folder of its sources, and be read as sources the
    next time.
    """
    if root.is_dir() and suite.resolve().is_relative_to(root.resolve()):
        raise CounterfactoryError(f"the suite {suite} would lie among its sources in {root}; name a folder outside")


def load_pixels(source: Source, settings: ImageSettings) -> NDArray[np.uint8]:
    """The source's picture at the size to paint: uint8 [H, W, 3] RGB, of `settings.size_for` its size.

    Raises CounterfactoryError if the file has changed since `read_set` read it.
    """
    try:
        data = read_blob(source.blob or str(source.path))
        if hashlib.sha256(data).hexdigest() != source.digest:
            raise UnreadableError("the file has changed since the run began; run again to use the new one")
        pixels = read_picture(data)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.path}: {error}") from error
    height, width = pixels.shape[:2]
    return fit(pixels, settings.size_for(height, width))


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
        if source_key(source.name, source.digest, source.label, _truth_key(digest, source.boxes)) != source.key:
            raise UnreadableError("the file has changed since the run began; run again to use the new one")
        return fit_mask(mask, size)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.mask_path}: {error}") from error


def _truth_key(mask_digest: str | None, boxes: Sequence[Box]) -> str | None:
    """Names what a model is judged by, beside the label: the mask alone where there are no boxes."""
    return content_key(mask_digest, boxes) if boxes else mask_digest


# Decoding releases the GIL, and a 24-megapixel photograph holds 72 MB while it lasts.
_READERS = min(4, os.cpu_count() or 1)


class _Reader:
    """Reads entries' files and decodes them completely, a few at a time."""

    def __init__(
        self,
        class_map: ClassMap | None,
        on_progress: Callable[[int, int], None] | None,
        examine: Examine | None,
    ) -> None:
        self._class_map, self._on_progress, self._examine = class_map, on_progress, examine
        self._done = self._total = 0

    def verify(self, entries: Sequence[Entry]) -> Iterator[Source | Problem]:
        """Each entry as a source, or why it is none, in their order."""
        self._total += len(entries)
        for _, result in ahead(entries, self._verified, depth=8 * _READERS, workers=_READERS):
            if isinstance(result, Exception):
                raise result
            self._done += 1
            if self._on_progress is not None and (self._done % 64 == 0 or self._done == self._total):
                self._on_progress(self._done, self._total)
            yield result

    def _verified(self, entry: Entry) -> Source | Problem:
        what = ""
        try:
            data = read_blob(entry.blob)
            picture = read_picture(data)
            size = picture.shape[:2]
            if entry.size not in (None, size):
                raise UnreadableError(f"is {_by(size)}, its annotations are for {_by(entry.size or size)}")
            across, down = (size[1], size[0]) if entry.relative else (1, 1)
            boxes = tuple(_inside(box.scaled(across, down), size) for box in entry.boxes)
            known = None if self._examine is None else self._examine(picture)
            del picture  # before the mask is read: pictures can be large
            digest, shown, mask_digest, mask = hashlib.sha256(data).hexdigest(), set[str](), None, None
            if entry.mask is not None:
                mask = Mask(entry.mask, None if isinstance(entry.mask, Drawn) else self._class_map)
                what = "mask: " if isinstance(entry.mask, Drawn) else f"mask {path_of(entry.mask).name}: "
                numbers, mask_digest = mask.read(size)
                if numbers.shape[:2] != size:
                    raise UnreadableError(f"is {_by(numbers.shape)}, the image {_by(size)}")
                if self._class_map is not None:
                    shown.update(self._class_map.shown(numbers))
        except UnreadableError as error:
            return Problem(entry.file, f"{what}{error}")
        return Source(
            name=entry.name,
            file=entry.file,
            path=path_of(entry.blob),
            size=size,
            label=entry.label,
            mask_path=_mask_path(entry),
            digest=digest,
            key=source_key(entry.name, digest, entry.label, _truth_key(mask_digest, boxes)),
            boxes=boxes,
            classes=tuple(sorted(shown.union(box.label for box in boxes))),
            blob=None if isinstance(entry.blob, str) else entry.blob,
            mask=mask,
            known_world=known,
        )


def _mask_path(entry: Entry) -> Path | None:
    if entry.mask is None:
        return None
    return path_of(entry.blob if isinstance(entry.mask, Drawn) else entry.mask)


def _inside(box: Box, size: tuple[int, int]) -> Box:
    """The part of a box that its picture shows. Raises UnreadableError where it shows none of it."""
    height, width = size
    x0, y0, x1, y1 = max(box.x0, 0.0), max(box.y0, 0.0), min(box.x1, float(width)), min(box.y1, float(height))
    if not (x0 < x1 and y0 < y1):
        where = f"x {box.x0:g} to {box.x1:g}, y {box.y0:g} to {box.y1:g}"
        raise UnreadableError(f"a box ({box.label}: {where}) lies outside of the picture, {_by(size)}; correct it")
    return Box(x0, y0, x1, y1, box.label, box.keypoints)


def _by(size: tuple[int, ...]) -> str:
    return f"{size[1]} x {size[0]}"
