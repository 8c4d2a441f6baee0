"""A suite: a folder of images made from sources, with the record of how.

    images/<source>/<16 hex>.png   masks/<source>/<the same>.png   originals/<source>/<16 hex>.png
    metadata.parquet   run.json   by_hand.json   superseded/images/… and so on   ledger.sqlite   suite.lock

Variants and controls lie in images/, the sources as the painter saw them in originals/. Pictures are written in
batches, metadata at the end; both are whole on the disk or absent. Which variants there should be is decided by the
journey.

`datasets.load_dataset("imagefolder", data_dir=suite)` (5.2) takes the pictures from metadata.parquet alone, unless a
name holds a word for a split (train, test, eval …) set off by "-._ " or digits: then it reads only such files. Names
of sources are escaped for that (see folder_names.py); do not put an `evaluation.json` in the suite.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from threading import Lock as OneThread
from typing import Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.reading import read_bytes
from ..files.writing import make_folder, move_file, open_whole, remove_file, sync_folder
from .by_hand import FILE as HAND_FILE
from .contents import NEXT_TABLE, RUN_FILE, TABLE, Contents, digest_of, read_contents
from .folder_names import safe_name
from .images import NewPicture, Top, encode_mask, encode_picture, mark_picture, read_png
from .ledger import Ledger
from .lock import Lock
from .metadata import write_parts, write_table
from .open_session import NOTE_S, OpenSession, forget_open_session, load_open_session
from .paths import TOPS, Folder
from .picture_row import PaintedRow, PictureRow, StoredFile
from .picture_store import FileRecord, PictureStore
from .row_spool import RowSpool
from .run_record import RunRecord, Standing, read_run, write_run
from .session_record import Costs, SessionFacts, SessionRecord

T = TypeVar("T")

LEDGER, LOCK = "ledger.sqlite", "suite.lock"
# Files and folders that are opened before any name is read from them.
_OWN = (LOCK, LEDGER, f"{LEDGER}-wal", f"{LEDGER}-shm", TABLE, NEXT_TABLE, RUN_FILE, HAND_FILE, *TOPS, "superseded")


def image_path(key: str, source: str, top: Top = "images") -> str:
    """Where a picture lies, relative to the suite: <top>/<source>/<first 16 digits of key>.png."""
    if re.fullmatch(r"[0-9a-f]{16,}", key) is None:
        raise ValueError(f"a key is at least 16 hex digits, got {key!r}")
    return str(PurePosixPath(top, safe_name(source), f"{key[:16]}.png"))


def mask_path(image: str) -> str:
    """The mask's path that pairs with a picture's: they differ in their first part alone."""
    return "masks/" + image.partition("/")[2]


_PAGE = 10_000  # files whose digests are held at a time
# Pixels of the last pictures written, which the checks read next, a shard of photographs among them: decoding takes
# longer than reading the file.
_RECENT_BYTES = 256 * 2**20
# Files of another suite that are held at a time.
_TAKEN_BYTES = 2**25
# Pictures of a batch that are encoded at once.
_ENCODERS = min(4, os.cpu_count() or 1)


class Suite(AbstractContextManager["Suite"]):
    """An open suite, this process's alone; its threads may share it. Use `Suite.open` as a context manager."""

    def __init__(self, path: Path, ledger: Ledger, store: PictureStore) -> None:
        self.path = path
        self.ledger = ledger
        # The files with their pixels, by digest; one thread adds to them.
        self._recent: dict[str, tuple[StoredFile, NDArray[np.uint8]]] = {}
        self._free_bytes = _RECENT_BYTES
        self._opened = ExitStack()
        self._store = store
        self._folder = Folder(path)
        # The store knows one open batch, and removes folders that it finds empty: one thread at a time moves files.
        self._filing = OneThread()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens or creates the suite at `path`; a new folder's parents are created too. Raises CounterfactoryError when
        another process has it, when it cannot be written, when the ledger is damaged or newer, when the folder holds
        somebody else's images, and when a file of its own is a link out of it.
        """
        if path.exists() and not path.is_dir():
            raise CounterfactoryError(f"{path} is not a folder: name a folder for the suite")
        _refuse_foreign(path)
        Folder(path).refuse_outward_links(_OWN)
        make_folder(path)
        with ExitStack() as opened:
            lock = Lock(path / LOCK)
            opened.callback(lock.release)
            ledger = Ledger(path / LEDGER)
            opened.callback(ledger.close)
            suite = cls(path, ledger, PictureStore(path, ledger))
            suite._settle_table()
            if (killed := load_open_session(ledger)) is not None:
                suite.book(killed, None)  # it counts with what it last noted
            suite._opened = opened.pop_all()
            return suite

    def close(self) -> None:
        """Closes the ledger and lets go of the folder; a second call does nothing."""
        self._opened.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_images(self, stage: str, batch: Sequence[NewPicture]) -> dict[str, PaintedRow]:
        """Keeps a batch: every file first, then the ledger's rows in one commit. Returns the rows by key.

        Killed before the commit, the files are written again by the next run; killed after it, all is there. Raises
        CounterfactoryError, after which nothing of the batch counts.
        """
        files: dict[str, bytes] = {}
        paths = {painted.key: image_path(painted.key, painted.source, painted.top) for painted in batch}
        with ThreadPoolExecutor(_ENCODERS) as encoders:  # a photograph takes as long to encode as to paint
            encoded = list(encoders.map(lambda painted: encode_picture(painted.pixels), batch))
        before = self.ledger.get(stage, list(paths))
        for painted, data in zip(batch, encoded, strict=True):
            path = paths[painted.key]
            files[path] = data
            # Where an older version wrote it, it is written as it was.
            if painted.provenance is not None and not _is_of(before.get(painted.key), data):
                files[path] = mark_picture(data, painted.provenance)
            if painted.mask is not None:
                files[mask_path(path)] = encode_mask(painted.mask)
        with self._filing:
            placed, done = self._store.place(files)
            shares = {painted.key: painted.self_attention for painted in batch}
            rows = {key: PaintedRow(placed[p], placed.get(mask_path(p)), shares[key]) for key, p in paths.items()}
            self.ledger.put_stages({stage: {key: row.to_json() for key, row in rows.items()}, **done})
        for painted in batch:
            self._keep_pixels(rows[painted.key].image, painted.pixels)
        return rows

    def _keep_pixels(self, file: StoredFile, pixels: NDArray[np.uint8]) -> None:
        if file.sha256 not in self._recent:
            self._recent[file.sha256] = file, pixels
            self._free_bytes -= pixels.nbytes
            while self._free_bytes < 0:
                self._free_bytes += self._recent.pop(next(iter(self._recent)))[1].nbytes

    def take(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Keeps files that another suite had, by their names: written and synced some at a time, each time before the
        ledger has them. Raises CounterfactoryError for a name that leaves the suite.
        """
        for batch in in_batches(files, lambda file: len(file[1]), _TAKEN_BYTES):
            with self._filing:
                self.ledger.put_stages(self._store.place(dict(batch))[1])

    def images(self, stage: str, keys: Sequence[str]) -> dict[str, PaintedRow]:
        """The rows of `write_images` among `keys` whose files are there; a key without is to be painted (again).

        There means: in place as they were written; superseded files are moved back for it. Raises CounterfactoryError
        for a row that names a file outside of the suite.
        """
        stored = self.ledger.get(stage, keys)
        rows = {key: PaintedRow.from_json(row, *self.ledger.place(stage, key)) for key, row in stored.items()}
        changed = self._changed(rows.values())
        if not changed:
            return rows
        with self._filing:
            self._store.restore(changed)
            self._copy_masks(rows.values(), changed)
        gone = set(self._changed(row for row in rows.values() if any(file.path in changed for file in row.files)))
        return {key: row for key, row in rows.items() if not any(file.path in gone for file in row.files)}

    def _copy_masks(self, rows: Iterable[PaintedRow], changed: set[str]) -> None:
        """Masks of sound pictures, written again from another of the same bytes beside it: a source's are alike."""
        files: dict[str, bytes] = {}
        for row in rows:
            if row.mask is None or row.mask.path not in changed or row.image.path in changed:
                continue
            folder = row.mask.path.rpartition("/")[0]
            with suppress(OSError):
                names = [f"{folder}/{path.name}" for path in self._folder.path(folder).iterdir()]
                for name, record in self._store.records(sorted(names)).items():
                    if record.sha256 == row.mask.sha256 and name not in changed:
                        data = read_bytes(self._folder.path(name))
                        if hashlib.sha256(data).hexdigest() == row.mask.sha256:
                            files[row.mask.path] = data
                            break
        if files:
            self.ledger.put_stages(self._store.place(files)[1])

    def _changed(self, rows: Iterable[PaintedRow]) -> set[str]:
        return set(self._store.changed({file.path: file.bytes for row in rows for file in row.files}))

    def holds(self, files: Mapping[str, int], times: Sequence[int] = ()) -> bool:
        """Whether all the files (bytes by path; `times` of them, where known) are in place as they were written."""
        return not self._store.changed(files, () if self.ledger.mended else times)

    def times(self, files: Iterable[str]) -> list[int]:
        """When the files were written, in nanoseconds; 0 of one that the ledger does not know."""
        names = list(files)
        records = self._store.records(names)
        return [records[name].mtime_ns if name in records else 0 for name in names]

    def load_image(self, row: PaintedRow) -> NDArray[np.uint8]:
        """Pixels uint8 [H, W, 3] of a row from `images`. Raises CounterfactoryError when the file was changed since."""
        path, again = self._folder.path(row.image.path), "run the same command again, which repaints it"
        try:
            data = read_bytes(path)
        except OSError as error:
            raise CounterfactoryError(f"{path} cannot be read ({error.strerror}): {again}") from error
        if hashlib.sha256(data).hexdigest() != row.image.sha256:
            raise CounterfactoryError(f"{path} has changed since it was painted: delete it and {again}")
        recent = self._recent.get(row.image.sha256)  # the same bytes hold the same pixels
        return read_png(data).astype(np.uint8, copy=False) if recent is None else recent[1]

    def write_metadata(
        self, rows: Iterable[PictureRow], commit: Callable[[Contents], RunRecord] | None = None
    ) -> RunRecord:
        """Writes metadata.parquet and makes the folders hold what it lists; `commit` writes run.json with the contents.

        The rows are drawn once, in any order, and never held together; the table depends on them alone. Listed files
        come back from superseded/ before it is written and unlisted ones go there after: killed in between, the table
        never lists a file that is not there. Raises CounterfactoryError for a listed file that is gone, and
        ValueError for two rows of one file; the old table stays then. Returns what `commit` does.
        """
        with RowSpool(self.path) as spool:
            for row in rows:
                spool.add(row)
            with self._filing:
                missing = [name for name in spool.files() if self._store.size(name) is None]
                self._store.restore(missing)
                for name in missing:
                    if self._store.size(name) is None:
                        raise CounterfactoryError(f"{self.path / name} has vanished: run the same command again for it")
                with open_whole(self.path / NEXT_TABLE) as file:
                    write_table(spool, spool.score_names, file)
                result = (commit or self._note)(self._contents(spool.files(), NEXT_TABLE))
                self._take_table()
                self._store.supersede_all_but(spool.listed)
                return result

    def _note(self, contents: Contents) -> RunRecord:
        record = self.read_run().with_contents(contents)
        if record.sessions:
            self.write_run(record)
        return record

    def _settle_table(self) -> None:
        """Of a table that a killed process left beside the old one: run.json decides whether it counts."""
        path = self.path / NEXT_TABLE
        if path.exists():
            contents = read_contents(self.path)
            if contents is not None and digest_of(path) == contents.table:
                self._take_table()
            else:
                remove_file(path, self.path)

    def replace_table(self, table: pa.Table | None, files: Iterable[str], record: RunRecord | None) -> None:
        """Writes `table`, of the same `files` as before, and `record`, both or none; None leaves what is there."""
        if table is not None:
            with open_whole(self.path / NEXT_TABLE) as file:
                write_parts(table, file)
        if record is not None:
            self.write_run(record.with_contents(self._contents(files, TABLE if table is None else NEXT_TABLE)))
        if table is not None:
            self._take_table()

    def _take_table(self) -> None:
        """The new table, which run.json names, takes the old one's name."""
        move_file(self.path / NEXT_TABLE, self.path / TABLE, self.path)
        sync_folder(self.path)

    def _contents(self, files: Iterable[str], table: str) -> Contents:
        def known() -> Iterator[tuple[str, int, str]]:
            names = iter(files)
            while part := list(islice(names, _PAGE)):
                records = self._store.records(part)
                for name in part:
                    record = records.get(name, FileRecord(True))
                    yield name, record.bytes, record.sha256

        by_hand = self.path / HAND_FILE
        return Contents.of(known(), digest_of(self.path / table), digest_of(by_hand) if by_hand.exists() else None)

    def read_run(self) -> RunRecord:
        """The record of all sessions so far; an empty one for a suite without. Raises as `run_record.read_run`."""
        return read_run(self.path) or RunRecord()

    def write_run(self, record: RunRecord) -> RunRecord:
        """Writes run.json, and returns its record."""
        write_run(self.path, record)
        return record

    @contextmanager
    def session(
        self, facts: SessionFacts, costs: Callable[[], Costs], interval_s: float = NOTE_S
    ) -> Iterator[OpenSession]:
        """A session, whose time and `costs` (called from any thread) are the suite's from now on, however it ends.

        They are noted in the ledger every `interval_s`, so that a kill loses no more, and go to run.json at the end.
        Raises CounterfactoryError for a run.json that cannot be added to, before anything is spent.
        """
        self.read_run()
        session = OpenSession(self.ledger, facts, costs, self.book, interval_s)
        try:
            yield session
        except BaseException as error:
            try:
                session.end()
            except CounterfactoryError as other:  # what it cost stays in the ledger, for the next opening
                error.add_note(f"besides, the session could not be put on record: {other}")
            raise
        session.end()

    def book(self, session: SessionRecord, standing: Standing | None) -> RunRecord:
        """Puts a session on record: first into run.json, then out of the ledger, so that it is there once at least, and
        by its name once at most.
        """
        record = self.read_run().with_session(session, standing)
        write_run(self.path, record)
        forget_open_session(self.ledger)
        return record


def in_batches(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Lists of items, in order, that are closed once their sizes reach `most`."""
    batch, held = list[T](), 0
    for item in items:
        batch.append(item)
        held += size(item)
        if held >= most:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _is_of(row: object, data: bytes) -> bool:
    """Whether a row on record is of a picture with these bytes."""
    image = row.get("image") if isinstance(row, Mapping) else None
    return isinstance(image, Mapping) and image.get("sha256") == hashlib.sha256(data).hexdigest()


def _refuse_foreign(path: Path) -> None:
    """Superseding moves images away, which must never happen to other images in a folder named by mistake."""
    if any((path / own).exists() for own in (LOCK, LEDGER)):
        return
    for name in (*TOPS, "superseded", TABLE):
        if (path / name).exists():
            raise CounterfactoryError(
                f"{path} has {name} that Counterfactory did not make: name a new or an empty folder for the suite"
            )
