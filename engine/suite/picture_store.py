"""Which of a suite's files lie in place, and which are superseded.

Files are written by relative path (images/…, masks/…) and synced; they move to superseded/ and back. The ledger knows
every file from before it is written until after it is moved, so that nothing here walks through 25,000 folders: not the
opening after a crash, not the superseding. It has each file's size, digest and time: a file that moved in one of them
is read again. The suite decides which images are wanted.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from ..files.fill import fill_value
from ..files.writing import (
    TEMPORARY_SUFFIX,
    make_folder,
    move_file,
    remove_empty,
    remove_file,
    sync_folder,
    write_whole,
)
from .contents import digest_of
from .ledger import Ledger
from .paths import TOPS, Folder, is_name
from .picture_row import PaintedRow, StoredFile

_FILES = "suite/files"  # a FileRecord by path
_OPEN = "suite/open"
_PICTURES = ("paint", "original", "baseline")  # the stages whose rows are PaintedRows
READERS = min(4, os.cpu_count() or 1)  # files that are digested at once
_AT_ONCE = 64  # of which each thread takes so many in turn
_OURS = re.compile(r"[0-9a-f]{16}\.png")
# Only names that we give to unfinished files are ever removed, and only names that we give are ever moved.
_ASIDE = re.compile(
    r"([0-9a-f]{16}\.png|metadata\.parquet(\.next)?|run\.json|by_hand\.json|ledger\.sqlite|draft)\.[0-9]+"
    + re.escape(TEMPORARY_SUFFIX)
)


@dataclass(frozen=True)
class FileRecord:
    """What the ledger has of a file: whether it lies (or is about to lie) in place or is superseded, its `bytes` and
    `sha256`, -1 and "" where an older version noted none, and when it was written as its file system says, 0 until
    that is known.
    """

    here: bool
    bytes: int = -1
    sha256: str = ""
    mtime_ns: int = 0

    def to_json(self) -> list[Any]:
        """The record as the ledger has it."""
        return [self.here, self.bytes, self.sha256, self.mtime_ns]

    @classmethod
    def from_json(cls, value: object) -> FileRecord:
        """What `to_json` gave; of anything else only whether the file is here, as older ledgers have it."""
        match value:
            case [bool(here), int(size), str(sha256), int(mtime_ns)]:
                return cls(here, size, sha256, mtime_ns)
        return cls(bool(value))


def file_records(ledger: Ledger) -> Iterator[dict[str, FileRecord]]:
    """All files that a ledger knows, by path, some at a time."""
    for page in ledger.walk(_FILES):
        yield {name: FileRecord.from_json(value) for name, value in page.items()}


def digest_files(paths: Iterable[Path | str]) -> Iterator[str | None]:
    """The SHA-256 of each file, several at once, in their order; None of one that cannot be read."""
    with ThreadPoolExecutor(READERS) as readers:
        line = iter(paths)
        while part := list(islice(line, 64 * _AT_ONCE)):
            groups = (part[at : at + _AT_ONCE] for at in range(0, len(part), _AT_ONCE))
            for digests in readers.map(lambda group: list(map(_digest, group)), groups):
                yield from digests


class PictureStore:
    """The files under `root`; the caller holds the suite's lock. Opening removes what a killed process left half.
    Raises CounterfactoryError, here and in every method, for a file name that leaves `root`, by its text or through a
    link, before anything is done to that file.
    """

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._root = root
        self._folder, self._superseded = Folder(root), Folder(root, "superseded")
        self._ledger = ledger
        state = ledger.get(_OPEN, ["adopted", "digests", "batch"])
        if "adopted" not in state:
            self._adopt()
        if "digests" not in state:
            self._note_digests()
        batch = fill_value(tuple[str, ...], state.get("batch", []), *ledger.place(_OPEN, "batch"))
        for folder in {root, *(self._folder.path(name).parent for name in batch)}:
            if folder.is_dir():
                self._remove_unfinished(folder, [path.name for path in folder.iterdir()])

    def place(self, files: Mapping[str, bytes]) -> tuple[dict[str, StoredFile], dict[str, dict[str, Any]]]:
        """Writes and syncs the files, returning what lies there by path, and the ledger's rows that close the batch.

        The batch is open until the caller commits its results with those rows.
        """
        paths = {name: self._folder.path(name) for name in files}
        placed = {name: StoredFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()}
        records = {name: FileRecord(True, file.bytes, file.sha256) for name, file in placed.items()}
        self._ledger.put_stages({_OPEN: {"batch": list(files)}, **_rows(records)})
        folders = dict.fromkeys(path.parent for path in paths.values())
        for folder in folders:
            make_folder(folder, self._root)
        for name, data in files.items():
            write_whole(paths[name], data, sync="bytes", below=self._root)
            records[name] = replace(records[name], mtime_ns=paths[name].stat().st_mtime_ns)
        self._sync(folders)
        return placed, {_OPEN: {"batch": []}, **_rows(records)}

    def size(self, name: str) -> int | None:
        """Bytes of a file in place; None when there is none."""
        status = self._folder.status(name)
        return None if status is None else status.st_size

    def records(self, names: Sequence[str]) -> dict[str, FileRecord]:
        """What the ledger has of the files; one that it does not know is left out."""
        return {name: FileRecord.from_json(row) for name, row in self._ledger.get(_FILES, names).items()}

    def changed(self, sizes: Mapping[str, int], times: Sequence[int] = ()) -> list[str]:
        """Those of the files (bytes by path) that are not in place as they were written, at `times` where those are
        given.

        A file of which only the time moved, as in a copied suite, is read: its bytes decide. One without a digest on
        record has its size alone.
        """
        changed, looked_up = [], dict[str, int]()
        for (name, size), time in zip_longest(sizes.items(), times[: len(sizes)]):
            status = self._folder.status(name)
            if status is None or status.st_size != size:
                changed.append(name)
            elif status.st_mtime_ns != time:
                looked_up[name] = status.st_mtime_ns
        records, moved = self.records(list(looked_up)), dict[str, int]()
        for name, at in looked_up.items():
            record = records.get(name)
            if record is None or (record.sha256 and record.mtime_ns != at):
                moved[name] = at
        digests = digest_files(self._folder.path(name) for name in moved)
        for name, digest in zip(list(moved), digests, strict=True):
            if name not in records or digest != records[name].sha256:
                changed.append(name)
                del moved[name]
        self._ledger.put_stages(
            _rows({name: replace(records[name], here=True, mtime_ns=at) for name, at in moved.items()})
        )
        return changed

    def restore(self, names: Iterable[str]) -> None:
        """Moves those of the names that are superseded back into place."""
        superseded = [name for name in names if self._superseded.path(name).is_file()]
        self._mark(superseded, here=True)
        for name in superseded:
            move_file(self._superseded.path(name), self._folder.path(name), self._root)
        self._sync({self._folder.path(name).parent for name in superseded})
        remove_empty({self._superseded.path(name).parent for name in superseded}, self._root)

    def supersede_all_but(self, wanted: Callable[[Sequence[str]], set[str]]) -> None:
        """Moves every file of ours that is in place to superseded/, but for those of a page that `wanted` returns."""
        for page in file_records(self._ledger):
            here = [name for name, record in page.items() if record.here]
            listed = wanted(here)
            gone = [name for name in here if name not in listed]
            for name in gone:
                if self.size(name) is not None:
                    move_file(self._folder.path(name), self._superseded.path(name), self._root)
            self._mark(gone, here=False)
            remove_empty({self._folder.path(name).parent for name in gone}, self._root)

    def _mark(self, names: Sequence[str], *, here: bool) -> None:
        records = self.records(names)
        self._ledger.put_stages(
            _rows({name: replace(records.get(name, FileRecord(here)), here=here) for name in names})
        )

    def _note_digests(self) -> None:
        """Takes over what the rows of pictures say of files that an older version noted without; once in a ledger."""
        for stage in _PICTURES:
            for page in self._ledger.walk(stage):
                rows = [PaintedRow.from_json(row, *self._ledger.place(stage, key)) for key, row in page.items()]
                files = {file.path: file for row in rows for file in row.files}
                news = dict[str, FileRecord]()
                for name, record in self.records(list(files)).items():
                    if not record.sha256:
                        news[name] = replace(record, bytes=files[name].bytes, sha256=files[name].sha256)
                self._ledger.put_stages(_rows(news))
        self._ledger.put(_OPEN, {"digests": True})

    def _adopt(self) -> None:
        """Takes up the files that an older ledger, now moved away, knew; once in a ledger's life."""
        for top in TOPS:
            for folder, _, names in os.walk(self._root / top):
                self._remove_unfinished(Path(folder), names)
                prefix = Path(folder).relative_to(self._root).as_posix()
                ours = [f"{prefix}/{name}" for name in names if _OURS.fullmatch(name)]
                self._ledger.put_stages(_rows(dict.fromkeys(filter(is_name, ours), FileRecord(True))))
        self._ledger.put(_OPEN, {"adopted": True})

    def _remove_unfinished(self, folder: Path, names: Iterable[str]) -> None:
        for name in filter(_ASIDE.fullmatch, names):
            remove_file(folder / name, self._root)

    def _sync(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            sync_folder(folder, self._root)


def _rows(records: Mapping[str, FileRecord]) -> dict[str, dict[str, Any]]:
    return {_FILES: {name: record.to_json() for name, record in records.items()}}


def _digest(path: Path | str) -> str | None:
    try:
        return digest_of(path)
    except OSError:
        return None
