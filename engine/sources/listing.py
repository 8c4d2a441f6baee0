"""Lists the images of a data set, a folder or a table, without opening a single one.

In a folder every image file is an entry, and the first folder under the root is its label; in a CSV or JSONL file
every row is one. Whether the files are images at all is checked by `source`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import CounterfactoryError
from .rows import read_image_rows, unprintable

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm")
)
# These are photographs too: skipping them silently would lose a user's data.
UNREAD_SUFFIXES = frozenset((".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".psd"))


@dataclass(frozen=True)
class Problem:
    """A source that cannot be used: it is reported with its `name` and the `reason`, and skipped."""

    name: str
    reason: str


@dataclass(frozen=True)
class Entry:
    """An image that the data set lists. `file` is its path as the user wrote it, `name` the same without its suffix
    where that is unique. `mask` is None if the data set has no masks. Neither file is known to exist.
    """

    name: str
    file: str
    path: Path
    label: str | None
    mask: Path | None


def list_folder(root: Path, masks: Path | None, labels: Path | None) -> tuple[list[Entry], list[Problem]]:
    """List the images under a folder, unsorted. `masks` is a folder of masks, `labels` a table about the images."""
    root, masks = _image_root(root, masks)
    files, problems = _walk(root, skip=masks)
    entries = []
    for path in files:
        relative = path.relative_to(root)
        if path.suffix.lower() in UNREAD_SUFFIXES:
            reason = f"{path.suffix} files are not read; convert them to JPEG or PNG"
            problems.append(Problem(_printable(relative.as_posix()), reason))
        else:
            label = relative.parts[0] if len(relative.parts) > 1 else None
            entries.append(_entry(relative.as_posix(), path, label, None))
    if labels is not None:
        entries = _apply_labels(entries, root, labels, problems)
    return _finish(entries, masks, problems)


def list_table(table: Path, masks: Path | None) -> tuple[list[Entry], list[Problem]]:
    """List the images of a CSV or JSONL file, unsorted; its paths are relative to the file itself."""
    problems: list[Problem] = []
    entries: dict[Path, Entry] = {}
    root = _absolute(table.parent)
    for where, row in _usable_rows(table, problems):
        path = _absolute(root / row["image"])
        name = _relative_name(path, root)
        mask = _absolute(root / row["mask"]) if "mask" in row else None
        if path in entries:
            problems.append(Problem(_printable(name), f"named a second time, by {where}; the first row counts"))
        else:
            entries[path] = _entry(name, path, row.get("label"), mask)
    return _finish(list(entries.values()), masks, problems)


def _image_root(root: Path, masks: Path | None) -> tuple[Path, Path | None]:
    """The folder of the images: images/ if masks/ is beside it or if nothing else is; else the root."""
    images = root / "images"
    if not images.is_dir():
        return root, masks
    if masks is None and (root / "masks").is_dir():
        return images, root / "masks"
    known = {images.resolve(), masks.resolve() if masks is not None else None}
    beside = [path for path in root.iterdir() if not path.name.startswith(".") and path.resolve() not in known]
    return (root if any(path.is_dir() or path.suffix.lower() in SUFFIXES for path in beside) else images), masks


def _walk(root: Path, skip: Path | None) -> tuple[list[Path], list[Problem]]:
    """Every image file under `root`, but hidden ones (macOS writes a ._photo.jpg beside each photo.jpg).

    Links to folders are followed, each folder once, real folders first, so that a loop of links ends and a picture
    that can be reached twice is one source.
    """
    files: list[Path] = []
    problems: list[Problem] = []
    seen = {skip.resolve()} if skip is not None else set()
    folders, links = [root], list[Path]()
    while folders or links:
        folder = folders.pop() if folders else links.pop(0)
        real = folder.resolve()
        if real in seen:
            if folder.is_symlink() and (skip is None or real != skip.resolve()):
                reason = f"a link to {real}, a folder that has been read already"
                problems.append(Problem(_printable(folder.relative_to(root).as_posix()), reason))
            continue
        seen.add(real)
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            problems.append(
                Problem(_printable(folder.relative_to(root).as_posix()), f"cannot be read: {error.strerror}")
            )
            continue
        for entry in found:
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            if path.is_dir():  # not entry.is_dir(), which raises for a link to itself
                (links if entry.is_symlink() else folders).append(path)
            elif path.suffix.lower() in SUFFIXES | UNREAD_SUFFIXES:
                files.append(path)
    return files, problems


def _apply_labels(entries: list[Entry], root: Path, table: Path, problems: list[Problem]) -> list[Entry]:
    """The entries with the table's labels and masks; an image that is not in the table becomes a problem.

    The table's paths may be relative to the images' folder or to the table itself.
    """
    by_path = {_absolute(entry.path): entry for entry in entries}
    bases = (_absolute(root), _absolute(table.parent))
    labelled: dict[Path, Entry] = {}
    for where, row in _usable_rows(table, problems):
        path = next((p for base in bases if (p := _absolute(base / row["image"])) in by_path), None)
        if path is None:
            problems.append(
                Problem(_printable(row["image"]), f"named by {where}, but there is no such image in {root}")
            )
        elif path in labelled:
            problems.append(Problem(_printable(row["image"]), f"named a second time, by {where}; the first row counts"))
        else:
            candidates = [_absolute(base / row["mask"]) for base in bases] if "mask" in row else [None]
            mask = next((p for p in candidates if p is None or _exists(p)), candidates[-1])
            labelled[path] = replace(by_path[path], label=row.get("label", by_path[path].label), mask=mask)
    for path, entry in by_path.items():
        if path not in labelled:
            problems.append(Problem(entry.file, f"{table.name} says nothing about this image"))
    return list(labelled.values())


def _usable_rows(table: Path, problems: list[Problem]) -> Iterator[tuple[str, dict[str, str]]]:
    for where, row in read_image_rows(table):
        if isinstance(row, str):
            problems.append(Problem(where, row))
        else:
            yield where, row


def _finish(entries: list[Entry], masks: Path | None, problems: list[Problem]) -> tuple[list[Entry], list[Problem]]:
    """The entries with their masks and final names; a suffix is dropped where the name stays unique."""
    if masks is not None:
        found = _masks_by_stem(masks)
        entries = [entry if entry.mask else replace(entry, mask=_mask_of(entry, masks, found)) for entry in entries]
    short: dict[str, int] = {}
    for entry in entries:
        short[_stem(entry.name)] = short.get(_stem(entry.name), 0) + 1
    finished: dict[str, Entry] = {}
    for entry in entries:
        name = _stem(entry.name) if short[_stem(entry.name)] == 1 else entry.name
        if unprintable(name):
            problems.append(Problem(entry.file, "its name holds control characters or is not UTF-8; rename it"))
        elif name in finished:
            problems.append(Problem(entry.file, f"{entry.path} and {finished[name].path} would have the same name"))
        else:
            finished[name] = replace(entry, name=name)
    return list(finished.values()), problems


def _masks_by_stem(masks: Path) -> dict[str, list[Path]]:
    if not masks.is_dir():
        raise CounterfactoryError(f"no folder of masks at {masks}; --masks takes a folder with one mask per image")
    found: dict[str, list[Path]] = {}
    for path in sorted(_walk(masks, skip=None)[0]):
        found.setdefault(_stem(path.relative_to(masks).as_posix()), []).append(path)
    return found


def _mask_of(entry: Entry, masks: Path, found: dict[str, list[Path]]) -> Path:
    """The mask in the same sub-folder with the same stem, else the one with that stem at the top of `masks`.

    If there is none, a path that does not exist, which `source` reports. Of several with one stem the PNG counts.
    """
    stem = _stem(entry.name)
    for key in (stem, stem.rpartition("/")[2]):
        if len(found.get(key, [])) == 1:
            return found[key][0]
    return masks / f"{stem}.png"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 resolve() would follow links and so rename their sources


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 Path.exists() raises where a name is too long


def _relative_name(path: Path, root: Path) -> str:
    """The path relative to `root`, with "_" for each step upward: a name must not lead out of a suite's folder."""
    return "/".join("_" if part == ".." else part for part in Path(os.path.relpath(path, root)).parts) or "."


def _stem(name: str) -> str:
    folder, slash, file = name.rpartition("/")
    return folder + slash + Path(file).stem


def _entry(name: str, path: Path, label: str | None, mask: Path | None) -> Entry:
    return Entry(name, _printable(name), path, label, mask)


def _printable(name: str) -> str:
    """A file's name with bytes escaped that could not be printed or stored."""
    return "".join(c.encode("unicode_escape").decode() if unprintable(c) else c for c in name)
