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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from threading import Lock as OneThread
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.reading import read_bytes
from ..files.writing import make_folder, open_whole
from .by_hand import FILE as HAND_FILE
from .folder_names import safe_name
from .images import NewPicture, Top, encode_mask, encode_picture, read_png
from .ledger import Ledger
from .lock import Lock
from .metadata import FILE, write_table
from .open_session import NOTE_S, OpenSession, forget_open_session, load_open_session
from .paths import TOPS, Folder
from .picture_row import PaintedRow, PictureRow, StoredFile
from .picture_store import BATCH_DONE, PictureStore
from .row_spool import RowSpool
from .run_record import FILE as RUN_FILE
from .run_record import RunRecord, Standing, read_run, write_run
from .session_record import Costs, SessionFacts, SessionRecord

_LEDGER, _LOCK = "ledger.sqlite", "suite.lock"
# Files and folders that are opened before any name is read from them.
_OWN = (_LOCK, _LEDGER, f"{_LEDGER}-wal", f"{_LEDGER}-shm", FILE, RUN_FILE, HAND_FILE, *TOPS, "superseded")


def image_path(key: str, source: str, top: Top = "images") -> str:
    """Where a picture lies, relative to the suite: <top>/<source>/<first 16 digits of key>.png."""
    if re.fullmatch(r"[0-9a-f]{16,}", key) is None:
        raise ValueError(f"a key is at least 16 hex digits, got {key!r}")
    return str(PurePosixPath(top, safe_name(source), f"{key[:16]}.png"))


def mask_path(image: str) -> str:
    """The mask's path that pairs with a picture's: they differ in their first part alone."""
    return "masks/" + image.partition("/")[2]


# Pixels of the last pictures written, which the checks read next, a shard of photographs among them: decoding takes
# longer than reading the file.
_RECENT_BYTES = 256 * 2**20
# Pictures of a batch that are encoded at once.
_ENCODERS = min(4, os.cpu_count() or 1)


class Suite:
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
        """Opens or creates the suite at `path`; a new folder's parents are created too.

        Raises CounterfactoryError when another process has it, when it cannot be written, when the ledger is damaged
        or newer, when the folder holds somebody else's images, and when a file of its own is a link out of it.
        """
        if path.exists() and not path.is_dir():
            raise CounterfactoryError(f"{path} is not a folder: name a folder for the suite")
        _refuse_foreign(path)
        Folder(path).refuse_outward_links(_OWN)
        make_folder(path)
        with ExitStack() as opened:
            lock = Lock(path / _LOCK)
            opened.callback(lock.release)
            ledger = Ledger(path / _LEDGER)
            opened.callback(ledger.close)
            suite = cls(path, ledger, PictureStore(path, ledger))
            if (killed := load_open_session(ledger)) is not None:
                suite.book(killed, None)  # it counts with what it last noted
            suite._opened = opened.pop_all()
            return suite

    def close(self) -> None:
        """Closes the ledger and lets go of the folder; a second call does nothing."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

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
            encoded = list(encoders.map(lambda painted: self._encode(painted.pixels), batch))
        for painted, data in zip(batch, encoded, strict=True):
            path = paths[painted.key]
            files[path] = data
            if painted.mask is not None:
                files[mask_path(path)] = encode_mask(painted.mask)
        with self._filing:
            placed = self._store.place(files)
            shares = {painted.key: painted.self_attention for painted in batch}
            rows = {key: PaintedRow(placed[p], placed.get(mask_path(p)), shares[key]) for key, p in paths.items()}
            self.ledger.put_stages({stage: {key: row.to_json() for key, row in rows.items()}, **BATCH_DONE})
        for painted in batch:
            self._keep_pixels(rows[painted.key].image, painted.pixels)
        return rows

    def _encode(self, pixels: NDArray[np.uint8]) -> bytes:
        """PNG bytes; where the very same array was written just now, as a control's that is its source, that file's."""
        for digest, (file, kept) in list(self._recent.items()):
            if kept is pixels:
                with suppress(OSError):
                    data = read_bytes(self._folder.path(file.path))
                    if hashlib.sha256(data).hexdigest() == digest:
                        return data
        return encode_picture(pixels)

    def _keep_pixels(self, file: StoredFile, pixels: NDArray[np.uint8]) -> None:
        if file.sha256 not in self._recent:
            self._recent[file.sha256] = file, pixels
            self._free_bytes -= pixels.nbytes
            while self._free_bytes < 0:
                self._free_bytes += self._recent.pop(next(iter(self._recent)))[1].nbytes

    def images(self, stage: str, keys: Sequence[str]) -> dict[str, PaintedRow]:
        """The rows of `write_images` among `keys` whose files are there; a key without is to be painted (again).

        There means: in place with its size; superseded files are moved back for it. Raises CounterfactoryError for a
        row that names a file outside of the suite.
        """
        stored = self.ledger.get(stage, keys)
        rows = {key: PaintedRow.from_json(row, *self.ledger.place(stage, key)) for key, row in stored.items()}
        missing = {key: row for key, row in rows.items() if not self._is_whole(row)}
        if not missing:
            return rows
        with self._filing:
            files = [file for row in missing.values() for file in row.files]
            self._store.restore([file.path for file in files if not self.holds({file.path: file.bytes})])
        return {key: row for key, row in rows.items() if key not in missing or self._is_whole(row)}

    def holds(self, files: Mapping[str, int]) -> bool:
        """Whether all the files (bytes by path) are in place with their sizes."""
        return all(self._store.size(path) == size for path, size in files.items())

    def _is_whole(self, row: PaintedRow) -> bool:
        return self.holds({file.path: file.bytes for file in row.files})

    def load_image(self, row: PaintedRow) -> NDArray[np.uint8]:
        """Pixels uint8 [H, W, 3] of a row from `images`. Raises CounterfactoryError when the file was changed since."""
        path = self._folder.path(row.image.path)
        try:
            data = read_bytes(path)
        except OSError as error:
            raise CounterfactoryError(
                f"{path} cannot be read ({error.strerror}): run the same command again, which repaints it"
            ) from error
        if hashlib.sha256(data).hexdigest() != row.image.sha256:
            raise CounterfactoryError(
                f"{path} has changed since it was painted: delete it and run the same command again, which repaints it"
            )
        recent = self._recent.get(row.image.sha256)  # the same bytes hold the same pixels
        return read_png(data).astype(np.uint8, copy=False) if recent is None else recent[1]

    def write_metadata(self, rows: Iterable[PictureRow]) -> None:
        """Writes metadata.parquet and makes the folders hold what it lists.

        The rows are drawn once, in any order, and never held together; the table depends on them alone. Listed files
        come back from superseded/ before it is written and unlisted ones go there after: killed in between, the table
        never lists a file that is not there. Raises CounterfactoryError for a listed file that is gone, and
        ValueError for two rows of one file; the old table stays then.
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
                with open_whole(self.path / FILE) as file:
                    write_table(spool, spool.score_names, file)
                self._store.supersede_all_but(spool.listed)

    def read_run(self) -> RunRecord:
        """The record of all sessions so far; an empty one for a suite without. Raises as `run_record.read_run`."""
        return read_run(self.path) or RunRecord()

    def write_run(self, record: RunRecord) -> None:
        """Writes run.json."""
        write_run(self.path, record)

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


def _refuse_foreign(path: Path) -> None:
    """Superseding moves images away, which must never happen to other images in a folder named by mistake."""
    if any((path / own).exists() for own in (_LOCK, _LEDGER)):
        return
    for name in (*TOPS, "superseded", FILE):
        if (path / name).exists():
            raise CounterfactoryError(
                f"{path} has {name} that Counterfactory did not make: name a new or an empty folder for the suite"
            )
