"""Lists the images of a data set, a folder or a table, without opening a single one.

In a folder every image file is an entry, and the first folder under the root is its label; in a CSV or JSONL file
every row is one. Whether the files are images at all is checked by `source`. A set may have millions of images, so an
entry is small: paths are plain text.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import CounterfactoryError
from .blobs import Blob
from .boxes import Box
from .class_map import ClassMap
from .rows import read_image_rows, unprintable
from .shapes import DrawnMask

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm")
)
# These are photographs too: skipping them silently would lose a user's data.
UNREAD_SUFFIXES = frozenset((".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".psd"))

_SPLIT = re.compile(r"(train|training|val|valid|validation|dev|test|testing)(\d{4})?", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """A source that cannot be used: it is reported with its `name` and the `reason`, and skipped."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An image that the data set lists. `file` is its path as the user wrote it, `name` the same without its suffix
    where that is unique; the bytes are at `blob`. `mask` is where its mask lies or how it is drawn, None without one.
    `size` is the (height, width) that the set says it has, None where it says nothing; `boxes` are in pixels or, where
    they are `relative`, in shares of its width and height; its depth map lies at `depth`. Nothing is known to exist.
    """

    name: str
    file: str
    blob: Blob
    label: str | None = None
    mask: Blob | DrawnMask | None = None
    boxes: tuple[Box, ...] = ()
    size: tuple[int, int] | None = None
    relative: bool = False
    depth: Blob | None = None


@dataclass
class Listing:
    """The entries of a data set of a `layout`, unsorted. `class_map` is that of its masks, `class_names` the classes of
    its boxes and masks, and `notes` are sentences about what was left out.
    """

    layout: str
    entries: list[Entry]
    problems: list[Problem]
    class_map: ClassMap | None = None
    class_names: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def list_folder(root: Path, masks: Path | None, labels: Path | None, depth: Path | None = None) -> Listing:
    """List the images under a folder. `masks` is a folder of masks, `labels` a table about the images, and `depth` a
    folder of depth maps, which are no images.
    """
    root, masks = _image_root(root, masks, depth)
    files, problems = image_files(root, skip=[folder for folder in (masks, depth) if folder is not None])
    splits = _splits(files)
    entries = [entry_of(root, relative, _label_of(relative, splits)) for relative in files]
    listing = Listing("folders", entries, problems)
    if splits and labels is None:
        listing.notes.append(f"{', '.join(sorted(splits))}: taken for splits of the set, not for classes")
    if labels is not None:
        listing.entries = _apply_labels(listing, root, labels)
    return finish(listing, masks)


def list_table(table: Path, masks: Path | None) -> Listing:
    """List the images of a CSV or JSONL file; its paths are relative to the file itself."""
    listing = Listing("table", [], [])
    entries: dict[str, Entry] = {}
    rows = _Rows(table, listing)
    root = _absolute(table.parent)
    for where, row in rows:
        path = _absolute(os.path.join(root, row["image"]))  # noqa: PTH118 paths are plain text here
        name = _relative_name(path, root)
        if rows.accept(path, printable(name), row.get("label"), where):
            mask = _absolute(os.path.join(root, row["mask"])) if "mask" in row else None  # noqa: PTH118
            entries[path] = Entry(name, printable(name), path, row.get("label"), mask)
    listing.entries = [entry for path, entry in entries.items() if path not in rows.contradicted]
    return finish(listing, masks)


def entry_of(root: Path, relative: str, label: str | None = None, mask: Blob | DrawnMask | None = None) -> Entry:
    """The entry of an image file, by its path below `root`."""
    return Entry(relative, printable(relative), f"{root}/{relative}", label, mask)


def _splits(files: Iterable[str]) -> set[str]:
    """The first folders where all of them are called as splits are; then the second ones are the classes."""
    first = {relative.partition("/")[0] if "/" in relative else "" for relative in files}
    return first if all(_SPLIT.fullmatch(folder) for folder in first) else set()


def _label_of(relative: str, splits: Collection[str]) -> str | None:
    """The first folder, or the second where the first is a split."""
    label, slash, rest = relative.partition("/")
    if slash and label in splits:
        label, slash, _ = rest.partition("/")
    return label if slash else None


def _image_root(root: Path, masks: Path | None, depth: Path | None) -> tuple[Path, Path | None]:
    """The folder of the images: images/ if masks/ is beside it or if nothing else is; else the root."""
    images = root / "images"
    if not images.is_dir():
        return root, masks
    if masks is None and (root / "masks").is_dir():
        return images, root / "masks"
    folders = {images.resolve(), *(folder.resolve() for folder in (masks, depth) if folder is not None)}
    others = [path for path in root.iterdir() if not path.name.startswith(".") and path.resolve() not in folders]
    return (root if any(path.is_dir() or path.suffix.lower() in SUFFIXES for path in others) else images), masks


def image_files(root: Path, skip: Collection[Path] = ()) -> tuple[list[str], list[Problem]]:
    """The paths below `root`, with "/", of all image files but hidden ones (macOS writes a ._photo.jpg beside each
    photo.jpg), and the problems of photographs in formats that are not read.

    Links to folders are followed, each folder once, real folders first, so that a loop of links ends and a picture
    that can be reached twice is one source.
    """
    files: list[str] = []
    problems: list[Problem] = []
    skipped = {folder.resolve() for folder in skip}
    seen = set(skipped)
    folders, links = [""], list[str]()
    while folders or links:
        folder = folders.pop() if folders else links.pop(0)
        path = root / folder
        real = path.resolve()
        if real in seen:
            if path.is_symlink() and real not in skipped:
                reason = f"a link to {real}, a folder that has been read already"
                problems.append(Problem(printable(folder), reason))
            continue
        seen.add(real)
        try:
            children = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            problems.append(Problem(printable(folder or "."), f"cannot be read: {error.strerror}"))
            continue
        for entry in children:
            if entry.name.startswith("."):
                continue
            relative = f"{folder}/{entry.name}" if folder else entry.name
            suffix = _suffix(entry.name)
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(relative)
            elif suffix in SUFFIXES:
                files.append(relative)
            elif suffix in UNREAD_SUFFIXES:
                reason = f"{Path(entry.name).suffix} files are not read; convert them to JPEG or PNG"
                problems.append(Problem(printable(relative), reason))
    return files, problems


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Also through a link; a link to itself is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _apply_labels(listing: Listing, root: Path, table: Path) -> list[Entry]:
    """The entries with the table's labels and masks; an image that is not in the table becomes a problem.

    The table's paths may be relative to the images' folder or to the table itself.
    """
    by_path = {_absolute(str(entry.blob)): entry for entry in listing.entries}
    bases = (_absolute(root), _absolute(table.parent))
    labelled: dict[str, Entry] = {}
    rows = _Rows(table, listing)
    for where, row in rows:
        paths = [_absolute(os.path.join(base, row["image"])) for base in bases]  # noqa: PTH118
        path = next((path for path in paths if path in by_path), None)
        if path is None:
            listing.problems.append(
                Problem(printable(row["image"]), f"named by {where}, but there is no such image in {root}")
            )
        elif rows.accept(path, printable(row["image"]), row.get("label"), where):
            candidates = [_absolute(os.path.join(base, row["mask"])) for base in bases] if "mask" in row else [None]  # noqa: PTH118
            mask = next((p for p in candidates if p is None or os.path.exists(p)), candidates[-1])  # noqa: PTH110
            labelled[path] = replace(by_path[path], label=row.get("label", by_path[path].label), mask=mask)
    for path, entry in by_path.items():
        if path not in labelled:
            listing.problems.append(Problem(entry.file, f"{table.name} says nothing about this image"))
    return [entry for path, entry in labelled.items() if path not in rows.contradicted]


class _Rows:
    """The usable rows of a table of images; those that cannot be used become problems of its listing.

    Of two rows about one image the first counts, and where they give it two labels neither does (`contradicted`).
    """

    def __init__(self, table: Path, listing: Listing) -> None:
        self.contradicted: set[str] = set()
        self._table, self._listing = table, listing
        self._seen: dict[str, tuple[str, str | None]] = {}

    def __iter__(self) -> Iterator[tuple[str, dict[str, str]]]:
        extra: dict[str, None] = {}
        for where, row, others in read_image_rows(self._table):
            if isinstance(row, str):
                self._listing.problems.append(Problem(where, row))
            else:
                extra |= dict.fromkeys(others)
                yield where, row
        if extra:
            names = ", ".join(map(repr, map(printable, extra)))
            self._listing.notes.append(f"{self._table.name}: columns that are not used: {names}")

    def accept(self, path: str, name: str, label: str | None, where: str) -> bool:
        """Whether this row is the first about its image."""
        if path not in self._seen:
            self._seen[path] = where, label
            return True
        first, first_label = self._seen[path]
        if None not in (label, first_label) and label != first_label:
            self.contradicted.add(path)
            reason = f"has two labels, {first_label!r} ({first}) and {label!r} ({where}); keep the right one"
        else:
            reason = f"named a second time, by {where}; the first row counts"
        self._listing.problems.append(Problem(name, reason))
        return False


_GONE = Entry("", "", "")


def finish(listing: Listing, masks: Path | None = None) -> Listing:
    """The listing with its entries' masks and final names; a suffix is dropped where the name stays unique."""
    entries, problems = listing.entries, listing.problems
    if masks is not None:
        by_stem = _masks_by_stem(masks)
        entries = [entry if entry.mask else replace(entry, mask=_mask_of(entry, masks, by_stem)) for entry in entries]
    stems = [file_stem(entry.name) for entry in entries]
    short = Counter(stems)
    finished: dict[str, int] = {}
    final: list[Entry] = []
    for i, stem in enumerate(stems):
        # A million entries are not held twice.
        entry, entries[i] = entries[i], _GONE
        name = stem if short[stem] == 1 else entry.name
        if unprintable(name):
            problems.append(Problem(entry.file, "its name holds control characters or is not UTF-8; rename it"))
        elif name in finished:
            places = f"{entry.blob} and {final[finished[name]].blob}"
            problems.append(Problem(entry.file, f"{places} would have the same name"))
        else:
            finished[name] = len(final)
            final.append(replace(entry, name=name))
    listing.entries = final
    return listing


def _masks_by_stem(masks: Path) -> dict[str, list[str]]:
    if not masks.is_dir():
        raise CounterfactoryError(f"no folder of masks at {masks}; --masks takes a folder with one mask per image")
    by_stem: dict[str, list[str]] = {}
    for path in sorted(image_files(masks)[0]):
        by_stem.setdefault(file_stem(path), []).append(path)
    return by_stem


def _mask_of(entry: Entry, masks: Path, by_stem: dict[str, list[str]]) -> str:
    """The mask in the same sub-folder with the same stem, else the one with that stem at the top of `masks`.

    If there is none, a path that does not exist, which `source` reports. Of several with one stem the PNG counts.
    """
    stem = file_stem(entry.name)
    for key in (stem, stem.rpartition("/")[2]):
        if len(by_stem.get(key, [])) == 1:
            return str(masks / by_stem[key][0])
    return str(masks / f"{stem}.png")


def _absolute(path: Path | str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 resolve() would follow links and so rename their sources


def _relative_name(path: str, root: str) -> str:
    """The path relative to `root`, with "_" for each step upward: a name must not lead out of a suite's folder."""
    return "/".join("_" if part == ".." else part for part in Path(os.path.relpath(path, root)).parts) or "."


def file_stem(name: str) -> str:
    """The name without its file's suffix; a dot at the end, or at the beginning, is no suffix."""
    dot = name.rfind(".")
    return name[:dot] if name.rfind("/") + 1 < dot < len(name) - 1 else name


def _suffix(name: str) -> str:
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def printable(name: str) -> str:
    """A file's name with bytes escaped that could not be printed or stored."""
    if name.isascii() and name.isprintable():
        return name
    return "".join(c.encode("unicode_escape").decode() if unprintable(c) else c for c in name)
