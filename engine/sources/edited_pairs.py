"""Pairs of an original and an edited picture, whoever painted it: a table about them, or two folders.

A table has the columns `original` and `edited`, paths below its own folder, and where it can `edit`, `caption`,
`edited_caption`, `label`, `mask`, `kind` and `level`. In a folder originals/NAME.* belongs to edited/NAME/EDIT.* or to
edited/EDIT/NAME.*; NAME may begin with a class's folder. What neither says is noted and not made up.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ..edit import Edit
from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
from ..files.tables import PARQUET, SUFFIXES, read_table
from .blobs import printable, unprintable
from .given import GivenPicture, GivenPictures, leads_out, parse_edits
from .listing import Entry, Listing, absolute, check_values, file_stem, finish, image_files, list_folder, number_labels

_ORIGINALS, _EDITED, _MASKS = "originals", "edited", "masks"
_NAMES = ("original", _EDITED, "edit", "caption", "edited_caption", "label", "mask", "kind", "level")
_COLUMNS: Mapping[str, Sequence[str]] = MappingProxyType({name: (name,) for name in _NAMES})
_LEVELS = tuple(map(str, range(1, 10)))
# Characters of a caption or an edit: a text encoder reads some hundred.
_LONGEST = 1000
_CONTROL = re.compile(r"controls?(?:[ _-]?[0-9]+)?", re.IGNORECASE)
# What an edit is that nobody names: its type, and as its value the column that its picture stands in.
_UNNAMED = (Edit("other", "", _EDITED),)


def list_edited(root: Path, masks: Path | None = None) -> Listing:
    """The originals of the pairs in a table or a folder, each with the pictures of it that are given. Raises
    CounterfactoryError for what is neither, and for a table that says of no picture what was edited.
    """
    if not root.exists():
        raise CounterfactoryError(f"there is no {root}; {_WANTED}")
    if root.is_dir():
        return _list_folders(root, masks)
    if root.suffix.lower() not in (*SUFFIXES, PARQUET):
        raise CounterfactoryError(f"{root} is no table of pairs; {_WANTED}")
    return _Table(root).list(masks)


_WANTED = (
    "pairs come as a .csv, .jsonl or .parquet table with the columns original and edited, or as a folder with "
    f"{_ORIGINALS}/NAME.* and {_EDITED}/NAME/EDIT.* or {_EDITED}/EDIT/NAME.*"
)


@dataclass
class _Original:
    """An original at `path`: its pictures by their paths, and what rows say of it, each with its place."""

    path: str
    pictures: dict[str, GivenPicture] = field(default_factory=dict)
    about: dict[str, tuple[str, str]] = field(default_factory=dict)
    contradicted: bool = False


class _Table:
    """Reads a table of pairs; what cannot be used of it becomes problems of the listing."""

    def __init__(self, path: Path) -> None:
        self._path, self._root = path, os.path.abspath(path.parent)  # noqa: PTH100 resolve() would rename sources
        self._real = os.path.realpath(self._root)
        self._listing = Listing("pairs of pictures")
        self._originals: dict[str, _Original] = {}  # by their paths
        self._folders: dict[str, str] = {}  # of pictures, and where links lead to
        self._counts = Counter[str]()

    def list(self, masks: Path | None) -> Listing:
        """The listing of the table."""
        extra: dict[str, None] = {}
        for line, row in read_table(self._path, ("original", _EDITED)):
            where = f"{self._path.name}:{line}"
            values = row if isinstance(row, str) else check_values(row, _COLUMNS, ("label", "level"))
            if isinstance(row, str) or isinstance(values, str):
                self._listing.skip(where, str(values))
                continue
            extra |= dict.fromkeys(name for name in row if name not in _COLUMNS)
            try:
                self._take(where, values)
            except ValueError as error:
                self._listing.skip(where, str(error))
        if self._counts["variant"] and self._counts["variant"] == self._counts["unnamed"]:
            raise CounterfactoryError(
                f"{self._path} says of no picture what was edited: add a column edit, such as 'weather: foggy' or "
                "'weather: sunny -> foggy', or a column edited_caption"
            )
        self._listing.unused += [(self._path.name, column) for column in extra]
        levels = max((one.level for of in self._originals.values() for one in of.pictures.values()), default=0)
        entries = [self._entry(of, levels) for of in self._originals.values() if not of.contradicted]
        self._listing.entries = number_labels(entries)
        listing = finish(self._listing, masks)
        if unnamed := self._counts["unnamed"]:
            first = f"{_UNNAMED[0].type}: {_UNNAMED[0].alternative}"
            listing.notes.append(f"{unnamed} of {self._counts['variant']} pairs say no edit and count as {first!r}")
        _note_missing(listing)
        return listing

    def _take(self, where: str, values: Mapping[str, str]) -> None:
        """Takes a row. Raises ValueError for one that cannot be used."""
        path, edited = (self._inside(values.get(name), name) for name in ("original", _EDITED))
        mask = self._inside(values["mask"], "mask") if "mask" in values else None
        picture = _picture(values, edited)
        of = self._originals.setdefault(path, _Original(path))
        if edited in of.pictures:
            raise ValueError(f"the pair of {values['original']} and {values[_EDITED]} is there twice; the first counts")
        self._tell(of, where, {"label": values.get("label"), "mask": mask, "caption": values.get("caption")})
        of.pictures[edited] = picture
        self._counts[picture.kind] += 1
        self._counts["unnamed"] += picture.edits == _UNNAMED

    def _tell(self, of: _Original, where: str, about: Mapping[str, str | None]) -> None:
        """Notes what a row says of an original: the first caption counts, of two labels or masks neither does."""
        for name, value in about.items():
            if value is None:
                continue
            first, place = of.about.setdefault(name, (value, where))
            if first == value:
                continue
            wrong = f"has two {name}s, {first!r} ({place}) and {value!r} ({where})"
            if name == "caption":
                self._listing.skip(where, f"its original {wrong}; the first counts")
            elif not of.contradicted:
                of.contradicted = True
                self._listing.skip(self._name(of), f"{wrong}; keep the right one")

    def _inside(self, text: str | None, column: str) -> str:
        """The path of a file that a row names. Raises ValueError for one outside of the table's folder."""
        if text is None:
            raise ValueError(f"names no {column}")
        path = absolute(self._root, text)
        if "\\" in text and not os.path.lexists(path):  # written on Windows
            path = absolute(self._root, text.replace("\\", "/"))
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        real = os.path.realpath(path) if os.path.islink(path) else f"{self._folders[folder]}/{name}"  # noqa: PTH114
        if not real.startswith(f"{self._real.rstrip('/')}/"):
            raise ValueError(f"{column} {text} {leads_out(self._root)}")
        # By its real path, a folder behind a link has another name than the table's own.
        return path if path.startswith(f"{self._root}/") else absolute(self._root, os.path.relpath(real, self._real))

    def _name(self, of: _Original) -> str:
        return os.path.relpath(of.path, self._root)

    def _entry(self, of: _Original, levels: int) -> Entry:
        label, mask, caption = (of.about.get(name, (None,))[0] for name in ("label", "mask", "caption"))
        name, given = self._name(of), GivenPictures(tuple(of.pictures.values()), caption, max(levels, 1))
        return Entry(name, printable(name), of.path, label, mask, given=given)


def _picture(values: Mapping[str, str], path: str) -> GivenPicture:
    """The edited picture that a row names. Raises ValueError for a row that says something else than it may."""
    for name in ("edit", "caption", "edited_caption"):
        if len(values.get(name, "")) > _LONGEST:
            raise ValueError(f"column {name!r} has {len(values[name])} characters; at most {_LONGEST} are read")
    kind, level = values.get("kind", "variant").lower(), values.get("level")
    if kind not in ("variant", "control"):
        raise ValueError(f"kind is variant or control, found {values['kind']!r}")
    if level is not None and level not in _LEVELS:
        raise ValueError(f"level is a whole number from 1 to {_LEVELS[-1]}, found {level!r}")
    file, edit, caption = printable(values[_EDITED]), values.get("edit"), values.get("edited_caption")
    if kind == "control":
        if edit is not None:
            raise ValueError(f"a control has no edit, found {edit!r}; kind is variant where something was edited")
        return GivenPicture(file, path, (), caption, "control")
    if edit is not None:
        return GivenPicture(file, path, parse_edits(edit), caption, level=int(level or 0))
    told = caption is not None and caption != values.get("caption")
    return GivenPicture(file, path, () if told else _UNNAMED, caption, level=int(level or 0))


def _list_folders(root: Path, masks: Path | None) -> Listing:
    originals, edited = root / _ORIGINALS, root / _EDITED
    if not (originals.is_dir() and edited.is_dir()):
        raise CounterfactoryError(f"{root} has no folders {_ORIGINALS}/ and {_EDITED}/; {_WANTED}")
    if masks is None and (root / _MASKS).is_dir():
        masks = root / _MASKS
    listing = list_folder(originals, masks, None)
    listing.layout = "pairs of pictures"
    files, problems = image_files(edited)
    listing.problems += [replace(problem, name=f"{_EDITED}/{problem.name}") for problem in problems]
    stems = Counter(file_stem(entry.file) for entry in listing.entries)
    if not files:
        raise CounterfactoryError(f"no images found in {edited}; {_WANTED}")
    # The original's name and the edit, of NAME/EDIT.* and of EDIT/NAME.*.
    by_name = [(name, edit) for name, _, edit in (file_stem(path).rpartition("/") for path in files)]
    by_edit = [(name, edit) for edit, _, name in (file_stem(path).partition("/") for path in files)]
    matched = [sum(name in stems for name, _ in read) for read in (by_name, by_edit)]
    if matched[0] == matched[1]:
        fault = "both readings fit it, and a table says which is which" if matched[0] else "no original is called so"
        raise CounterfactoryError(f"{edited / files[0]} is the first of {len(files)} files there: {fault}; {_WANTED}")
    read, form = (by_name, "NAME/EDIT") if matched[0] > matched[1] else (by_edit, "EDIT/NAME")
    pictures: dict[str, list[GivenPicture]] = {}
    for path, (name, edit) in zip(files, read, strict=True):
        file = printable(f"{_EDITED}/{path}")
        if name not in stems:
            listing.skip(file, f"there is no original {printable(f'{_ORIGINALS}/{name}')}.*; the form is {form}")
            continue
        try:
            pictures.setdefault(name, []).append(_named_picture(file, f"{edited}/{path}", edit))
        except ValueError as error:
            listing.skip(file, str(error))
    kept = DiskList[Entry]()
    for entry in listing.entries:
        stem = file_stem(entry.file)
        if stems[stem] > 1:
            listing.skip(entry.file, f"{stems[stem]} originals are called {stem}; keep one of them")
        elif stem not in pictures:
            listing.skip(entry.file, f"has no edited picture in {_EDITED}/")
        else:
            kept.append(replace(entry, given=GivenPictures(tuple(pictures[stem]))))
    listing.entries = kept
    listing.notes.append(f"edited pictures lie as {_EDITED}/{form}: {sum(map(len, pictures.values()))}")
    _note_missing(listing)
    return listing


def _named_picture(file: str, path: str, edit: str) -> GivenPicture:
    """The picture whose file or folder is called by its edit. Raises ValueError for a name that is none."""
    if unprintable(edit):
        raise ValueError("its name holds control characters or is not UTF-8; rename it")
    if _CONTROL.fullmatch(edit):
        return GivenPicture(file, path, (), kind="control")
    text = edit.replace("=", ":")  # which a file's name may hold everywhere
    return GivenPicture(file, path, parse_edits(text) if ":" in text else (Edit("other", "", edit),))


def _note_missing(listing: Listing) -> None:
    """Notes what the user does not say of originals."""
    given = [entry.given for entry in listing.entries if entry.given is not None]
    if untold := sum(one.caption is None for one in given):
        listing.notes.append(f"{untold} of {len(given)} originals have no caption: the profile says what they show")
    if bare := sum(all(picture.kind == "variant" for picture in one.pictures) for one in given):
        unknown = "have no control: what their painter does besides its edits is unknown"
        listing.notes.append(f"{bare} of {len(given)} originals {unknown}")
