"""Lists the images of a data set, a folder or a table, opening none but a few that may be masks; whether the files are
images at all is checked by `source`. A set may have millions of images, so what is listed lies on the disk.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from ..errors import CounterfactoryError, list_some
from ..files.disk_list import DiskList, repeated
from ..files.tables import Row, read_table
from .aside import leave_aside
from .blobs import Blob, StoredObject, printable, unprintable
from .boxes import BoxCensus, BoxForm
from .class_folders import label_folders
from .class_map import ClassMap
from .given import GivenPictures
from .labels import alike, label_text, whole_numbers
from .objects import COLUMN, objects_of_rows
from .shapes import Box, DrawnMask

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm")
)
# Where file servers, macOS and Windows keep thumbnails and what was thrown away.
_SYSTEM = frozenset(("@eadir", "__macosx", "#recycle", "#snapshot", "$recycle.bin", "lost+found"))
# These are photographs too: skipping them silently would lose a user's data.
UNREAD_SUFFIXES = frozenset((".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".psd"))

# A table's columns, and other names for them, such as Hugging Face's; of several in one row the first counts.
_COLUMNS = {
    "image": ("image", "file_name", "filename"),
    "label": ("label", "class"),
    "mask": ("mask", "mask_file_name"),
}
CAPTION = "caption"  # read where it is text, and no reason to leave a row out
# Columns that a sentence names, and characters of a cell that is kept.
_SHOWN, _LONGEST = 20, 200
Cells = tuple[tuple[str, str | int | float], ...]


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
    they are `relative`, in shares of its width and height; its depth map lies at `depth`. `given` are pictures of it
    that somebody painted, `caption` is what the set says it shows, `cells` what else its row says, by columns. Nothing
    is known to exist.
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
    given: GivenPictures | None = None
    cells: Cells = ()
    caption: str | None = None


@dataclass
class Listing:
    """The entries of a data set of a `layout`, unsorted. `class_map` is that of its masks, `class_names` the classes of
    its boxes and masks, `notes` are sentences about what was left out, and `labels` the images' labels, one for each of
    their folders in the order of the folders' names. `boxes` judges boxes whose numbers may mean something else than
    the layout says.
    """

    layout: str
    problems: list[Problem] = field(default_factory=list)
    class_map: ClassMap | None = None
    class_names: tuple[str, ...] = ()
    entries: DiskList[Entry] = field(default_factory=DiskList)
    notes: list[str] = field(default_factory=list)
    labels: tuple[str, ...] = ()
    boxes: BoxCensus | None = None
    unused: list[tuple[str, str]] = field(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Notes why an image, or a row, cannot be used."""
        self.problems.append(Problem(printable(name), reason))

    def add(self, root: Path, relative: str, mask: str | None, reason: str) -> None:
        """Adds an image with its mask, both by their paths below `root`, or without a mask the reason as a problem."""
        if mask is None:
            self.skip(relative, reason)
        else:
            self.entries.append(entry_of(root, relative, mask=f"{root}/{mask}"))

    def note_unused(self, grouped_by: str | None) -> None:
        """Notes, first, the columns of tables that nothing reads, where sources are grouped by one."""
        unused: dict[str, list[str]] = {}
        for table, column in self.unused:
            unused.setdefault(table, []).extend([repr(printable(column))] if column != grouped_by else [])
        texts = [
            f"{table}: columns that are not used: {list_some(names, _SHOWN)}"
            for table, names in unused.items()
            if names
        ]
        self.notes[:0] = texts

    def note_first(self, paths: Sequence[str], what: str) -> None:
        """Notes how many files there are of a kind and the first of them, if there are any."""
        if paths:
            self.notes.append(f"{len(paths)} {what}, the first is {printable(paths[0])}")


def list_folder(
    root: Path,
    masks: Path | None,
    labels: Path | None,
    depth: Path | None = None,
    form: BoxForm | None = None,
    *,
    every: bool = False,
) -> Listing:
    """The images under a folder, with a folder of masks, a table of labels and a folder of depth maps, which are no
    images. Without `every`, or a table that says it, masks and thumbnails beside images are none; `form` is that of the
    boxes of a table's `objects` that are no sizes.
    """
    root, masks = _image_root(root, masks, depth)
    files, problems = image_files(root, skip=[folder for folder in (masks, depth) if folder is not None])
    notes: list[str] = []
    if labels is None and not every:
        files, notes = leave_aside(root, files)
    listing = Listing("folders", problems, notes=notes)
    of_folders, label_of = label_folders(files, first=every)
    listing.entries = DiskList(entry_of(root, path, label_of(path)) for path in files)
    if labels is not None:
        listing.entries = _apply_labels(listing, root, labels, form)
    else:
        listing.notes += of_folders
    return finish(listing, masks)


def list_remote(url: str) -> Listing:
    """The images below the URL of an object store, such as s3://bucket/photos, labelled as those of a folder.
    Raises CounterfactoryError where it cannot be read.
    """
    from fsspec.core import url_to_fs

    listing, root, paths = Listing("folders"), url.rstrip("/"), DiskList[str]()
    try:
        store, base = url_to_fs(root)
        for folder, _, files in store.walk(base):
            inner = str(folder)[len(base) :].strip("/")
            if not _SYSTEM.isdisjoint(inner.lower().split("/")):
                continue
            for path in (f"{inner}/{name}" if inner else name for name in sorted(files)):
                if _is_picture(path, listing.problems):
                    paths.append(path)
    except Exception as error:  # each store's client has exceptions of its own
        reason = f"{url} cannot be read ({(str(error) or type(error).__name__).splitlines()[0]})"
        raise CounterfactoryError(f"{reason}: see that the address and the rights are right") from error
    listing.notes, label_of = label_folders(paths)
    blobs = ((path, StoredObject(f"{root}/{path}")) for path in paths)
    listing.entries = DiskList(Entry(path, printable(path), blob, label_of(path)) for path, blob in blobs)
    return finish(listing)


def list_table(table: Path, masks: Path | None, form: BoxForm | None = None) -> Listing:
    """The images of a CSV or JSONL file; its paths are relative to the file itself."""
    listing, root = Listing("table"), absolute(table.parent)
    entries: dict[str, Entry] = {}
    rows = _Rows(table, listing)
    for where, row in rows:
        path = absolute(root, row["image"])
        # "_" for each step upward: a name must not lead out of a suite's folder.
        parts = Path(os.path.relpath(path, root)).parts
        name = "/".join("_" if part == ".." else part for part in parts) or "."
        if rows.accept(path, name, row.get("label"), where):
            mask = absolute(root, row["mask"]) if "mask" in row else None
            mask, text = absolute(root, row["mask"]) if "mask" in row else None, row.get("caption")
            own = Entry(name, printable(name), path, row.get("label"), mask, caption=text)
            entries[path] = replace(own, cells=rows.cells)
    listing.entries = number_labels(rows.usable(entries, form))
    return finish(listing, masks)


def entry_of(root: Path, relative: str, label: str | None = None, mask: Blob | DrawnMask | None = None) -> Entry:
    """The entry of an image file, by its path below `root`."""
    return Entry(relative, printable(relative), f"{root}/{relative}", label, mask)


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


def image_files(
    root: Path, skip: Collection[Path] = (), suffixes: Collection[str] = SUFFIXES
) -> tuple[DiskList[str], list[Problem]]:
    """The paths below `root`, with "/", of all image files but hidden ones, or of files with other `suffixes`, and
    problems of photographs in other formats. Links to folders are followed, each folder once, real ones first: loops
    end, and a picture that is reached twice is one.
    """
    files = DiskList[str]()
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
                problems.append(Problem(printable(folder), f"a link to {real}, a folder that has been read already"))
            continue
        seen.add(real)
        inner, others = list[tuple[str, bool]](), list[Problem]()
        try:
            with os.scandir(path) as children:
                for name in DiskList.ordered(_pictures(children, folder, suffixes, inner, others), key=str):
                    files.append(name)
        except OSError as error:
            problems.append(Problem(printable(folder or "."), f"cannot be read: {error.strerror}"))
            continue
        problems += others
        for name, linked in sorted(inner):
            (links if linked else folders).append(name)
    return files, problems


def _pictures(
    children: Iterable[os.DirEntry[str]],
    folder: str,
    suffixes: Collection[str],
    inner: list[tuple[str, bool]],
    others: list[Problem],
) -> Iterator[str]:
    """The image files in a folder, by their paths; notes folders, whether they are links, and other photographs."""
    for entry in children:
        relative = f"{folder}/{entry.name}" if folder else entry.name
        if entry.name.lower() in _SYSTEM:
            continue
        if not entry.name.startswith(".") and _is_folder(entry):
            inner.append((relative, entry.is_symlink()))
        elif _is_picture(relative, others, suffixes):
            yield relative


def _is_picture(relative: str, others: list[Problem], suffixes: Collection[str] = SUFFIXES) -> bool:
    """Whether a path is that of an image file, and no hidden one; notes photographs in formats that are not read."""
    name = relative.rpartition("/")[2]
    stem, _, ending = name.rpartition(".")
    if stem and name[0] != "." and f".{ending.lower()}" in UNREAD_SUFFIXES:
        others.append(Problem(printable(relative), f".{ending} files are not read; convert them to JPEG or PNG"))
    return bool(stem) and name[0] != "." and f".{ending.lower()}" in suffixes


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; also not where it may not be looked at, which costs that folder alone."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises PermissionError


def is_file(path: Path) -> bool:
    """As `is_folder`, of a file."""
    return os.path.isfile(path)  # noqa: PTH113


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, also through links, sorted. Of its files no list is held."""
    with os.scandir(folder) as children:
        return sorted(Path(entry) for entry in children if _is_folder(entry))


def contents(folder: Path) -> list[Path]:
    """What lies in a folder, sorted; nothing where it may not be listed."""
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Also through a link; a link to itself is none."""
    with suppress(OSError):
        return entry.is_dir()
    return False


def _apply_labels(listing: Listing, root: Path, table: Path, form: BoxForm | None) -> DiskList[Entry]:
    """The entries with the table's labels and masks; an image that is not in the table becomes a problem. The table's
    paths may be relative to the images' folder or to the table itself.
    """
    by_path = {absolute(str(entry.blob)): entry for entry in listing.entries}
    labelled: dict[str, Entry] = {}
    rows = _Rows(table, listing)
    for where, row in rows:
        paths = [absolute(base, row["image"]) for base in (root, table.parent)]
        path = next((path for path in paths if path in by_path), None)
        if path is None:
            listing.skip(row["image"], f"named by {where}, but there is no such image in {root}")
        elif rows.accept(path, row["image"], row.get("label"), where):
            masks = [absolute(base, row["mask"]) for base in (root, table.parent)] if "mask" in row else [None]
            mask = next((mask for mask in masks if mask is None or Path(mask).exists()), masks[-1])
            label = row.get("label", by_path[path].label)
            text = row.get("caption")
            labelled[path] = replace(by_path[path], label=label, mask=mask, caption=text, cells=rows.cells)
    for path, entry in by_path.items():
        if path not in labelled:
            listing.skip(entry.file, f"{table.name} says nothing about this image")
    return number_labels(rows.usable(labelled, form))


def number_labels(entries: Sequence[Entry]) -> DiskList[Entry]:
    """The entries with their labels, "3" for "3.0" where all are whole numbers."""
    labels = whole_numbers([entry.label for entry in entries])
    return DiskList(replace(entry, label=label) for entry, label in zip(entries, labels, strict=True))


class _Rows:
    """The usable rows of a table of images; others become problems of its listing. Of two rows about one image the
    first counts, and where they give it two labels neither does.
    """

    def __init__(self, table: Path, listing: Listing) -> None:
        self._contradicted: set[str] = set()
        self._table, self._listing = table, listing
        self._seen: dict[str, tuple[str, str | None]] = {}
        # What the row that was read last says of things and in columns that are not read, and the first row about each
        # picture.
        self._last: Any = None
        self.cells: Cells = ()
        self._objects = dict[str, Any]()

    def __iter__(self) -> Iterator[tuple[str, dict[str, str]]]:
        """("file:line", the columns that are not empty under their own names, "image" always among them)."""
        extra: dict[str, None] = {}
        for line, row in read_table(self._table, required=[_COLUMNS["image"]]):
            where = f"{self._table.name}:{line}"
            values = row if isinstance(row, str) else check_values(row, _COLUMNS)
            if isinstance(row, str) or isinstance(values, str):
                self._listing.skip(where, str(values))
                continue
            used = [next((name for name in names if name in row), None) for names in _COLUMNS.values()]
            self._last = row.get(COLUMN)
            used += [COLUMN] if isinstance(self._last, dict | list) else []
            others = [name for name in row if name not in used]
            self.cells = cells_of({name: row[name] for name in others})
            if isinstance(text := row.get(CAPTION), str) and not unprintable(text := " ".join(text.split())):
                others.remove(CAPTION)  # sources are grouped by it as well
                values |= {CAPTION: text} if text else {}
            extra |= dict.fromkeys(others)
            yield where, values
        self._listing.unused += [(self._table.name, column) for column in extra]

    def accept(self, path: str, name: str, label: str | None, where: str) -> bool:
        """Whether this row is the first about its image."""
        if path not in self._seen:
            self._seen[path] = where, label
            if isinstance(self._last, dict | list):
                self._objects[path] = self._last
            return True
        first, first_label = self._seen[path]
        if None not in (label, first_label) and label != first_label:
            self._contradicted.add(path)
            reason = f"has two labels, {first_label!r} ({first}) and {label!r} ({where}); keep the right one"
        else:
            reason = f"named a second time, by {where}; the first row counts"
        self._listing.skip(name, reason)
        return False

    def usable(self, entries: Mapping[str, Entry], form: BoxForm | None) -> list[Entry]:
        """The entries, by path, whose labels agree, with the boxes of their rows, of a form that is not sizes."""
        kept = {path: entry for path, entry in entries.items() if path not in self._contradicted}
        if not self._objects:
            return list(kept.values())
        self._listing.boxes = BoxCensus.of(self._table, "sizes", form)
        objects = objects_of_rows([self._objects.get(path) for path in kept], self._listing.boxes)
        for number, reason in objects.problems.items():
            self._listing.skip(list(kept.values())[number].file, reason)
        self._listing.notes += objects.notes
        self._listing.class_names = tuple(sorted({box.label for boxes in objects.boxes for box in boxes}))
        pairs = enumerate(zip(kept.values(), objects.boxes, strict=True))
        return [replace(entry, boxes=boxes) for number, (entry, boxes) in pairs if number not in objects.problems]


def check_values(
    row: Row, columns: Mapping[str, Sequence[str]], numbers: Collection[str] = ("label",)
) -> dict[str, str] | str:
    """The row's values as text, without the empty ones, by their columns' own names; or why they cannot be used. The
    first of `columns`, each with its names, has to be there; of `numbers` floats that are whole may be, too.
    """
    values: dict[str, str] = {}
    for column, names in columns.items():
        value = next((row[name] for name in names if name in row), None)
        whole = isinstance(value, float) and (value.is_integer() or value != value)
        if column in numbers and (whole or isinstance(value, str)):
            value = label_text(value)
        if type(value) not in (str, int, type(None)):
            return f"column {column!r} holds {shortened(value)}; text is needed"
        if text := "" if value is None else str(value).strip():
            values[column] = text
    if (first := next(iter(columns))) not in values:
        return f"names no {first}"
    if unprintable("".join(values.values())):
        return "holds control characters or half a surrogate pair"
    return values


def cells_of(row: Mapping[str, Any]) -> Cells:
    """What a row says that is short text or a number."""
    return tuple(
        (name, value)
        for name, value in row.items()
        if isinstance(value, (str, int, float)) and len(str(value)) <= _LONGEST
    )


def finish(listing: Listing, masks: Path | None = None) -> Listing:
    """The listing with its entries' labels, masks and final names; a suffix is dropped where the name stays unique."""
    _settle_labels(listing)
    entries = listing.entries
    if masks is not None:
        if not masks.is_dir():
            raise CounterfactoryError(f"no folder of masks at {masks}; --masks takes a folder with one mask per image")
        by_stem = files_by_stem(image_files(masks)[0])
        # Of several with one stem the PNG counts.
        matched = ((entry, f"{masks}/{match_stem(entry, by_stem, '.png')}") for entry in entries)
        entries = DiskList(entry if entry.mask else replace(entry, mask=mask) for entry, mask in matched)
    # A million names are not held: only those that may be there twice.
    listing.entries = DiskList(_named(listing, entries, several(lambda: (file_stem(entry.name) for entry in entries))))
    foreign = several(
        lambda: (unicodedata.normalize("NFC", of.name) for of in listing.entries if not of.name.isascii())
    )
    listing.note_first(list(foreign), "names are there in two Unicode forms, which macOS takes for one")
    return listing


def _named(listing: Listing, entries: Iterable[Entry], stems: Collection[str]) -> Iterator[Entry]:
    """The entries with their final names; `stems` are there several times. Problems where names cannot be used."""

    def name_of(entry: Entry) -> str:
        stem = file_stem(entry.name)
        return entry.name if stem in stems else stem

    twice, first = several(lambda: map(name_of, entries)), dict[str, Entry]()
    for entry in entries:
        name = name_of(entry)
        if unprintable(name):
            listing.skip(entry.file, "its name holds control characters or is not UTF-8; rename it")
        elif name in first:
            listing.skip(entry.file, f"{entry.blob} and {first[name].blob} would have the same name")
        else:
            if name in twice:
                first[name] = entry
            yield replace(entry, name=name)


def several(texts: Callable[[], Iterable[str]]) -> dict[str, int]:
    """How often texts are there that are there more than once, in their order."""
    hashes = repeated(texts())
    counts = Counter(text for text in texts() if hash(text) in hashes) if hashes else {}
    return {text: count for text, count in counts.items() if count > 1}


def _settle_labels(listing: Listing) -> None:
    """Writes the labels in one form, without those that stand for none, and notes those that look alike."""
    counts = Counter(entry.label for entry in listing.entries if entry.label is not None)
    text_of = {label: label_text(label) for label in sorted(counts)}
    if changed := {label for label, text in text_of.items() if text != label}:
        entries = listing.entries
        listing.entries = DiskList(replace(e, label=text_of[e.label]) if e.label in changed else e for e in entries)
    # A folder that is no class of its own has its place all the same where folders are numbered.
    listing.labels = tuple(text or label for label, text in text_of.items() if not unprintable(label))
    texts = [text for text in text_of.values() if text is not None and not unprintable(text)]
    empty = [f"{label!r} is read as none (images: {counts[label]})" for label, text in text_of.items() if text is None]
    listing.notes += [f"the label {one}; rename it if it is a class" for one in empty]
    if several := [text for text, count in Counter(texts).items() if count > 1]:
        listing.notes.append(f"labels in two Unicode forms are one class: {list_some(several, 5)}")
    if groups := [" and ".join(map(repr, group)) for group in alike(dict.fromkeys(texts))]:
        listing.notes.append(f"labels that look alike are classes of their own: {list_some(groups, 3)}")


def files_by_stem(paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths, sorted, by what they are without their suffixes."""
    by_stem: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_stem.setdefault(file_stem(path), []).append(path)
    return by_stem


def match_stem(entry: Entry, by_stem: Mapping[str, Sequence[str]], suffix: str) -> str:
    """The only file in the same sub-folder with an image's stem, else the only one with that stem at the top; if there
    is none, the path with `suffix`, which the reader reports where it does not exist.
    """
    stem = file_stem(entry.file)
    for key in (stem, stem.rpartition("/")[2]):
        if len(by_stem.get(key, ())) == 1:
            return by_stem[key][0]
    return stem + suffix


def absolute(*parts: Path | str) -> str:
    """The parts as one absolute path."""
    return os.path.abspath(os.path.join(*parts))  # noqa: PTH100, PTH118 resolve() would follow links, rename sources


def file_stem(name: str) -> str:
    """The name without its file's suffix; a dot at the end, or at the beginning, is no suffix."""
    dot = name.rfind(".")
    return name[:dot] if name.rfind("/") + 1 < dot < len(name) - 1 else name
