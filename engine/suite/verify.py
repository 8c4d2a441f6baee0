"""Whether a suite is, byte for byte, what was written.

Every file that the ledger knows is read and compared with its digest, superseded ones too; so are the table, run.json,
by_hand.json, the ledger's rows and the answers kept in predictions/. Nothing is written of a sound suite. A file that
is not as it was written gets a new time, so that the next `generate` reads it again, and makes it anew; a ledger gets a
word for its next opening. Works where nothing may be written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError
from ..meter.meter import Progress
from .by_hand import FILE as HAND_FILE
from .by_hand import read_by_hand
from .contents import NEXT_TABLE, RUN_FILE, TABLE, Contents, digest_of, read_contents
from .ledger import Ledger
from .lock import reading_lock
from .metadata import require_finished
from .paths import Folder, is_name
from .picture_store import FileRecord, digest_files, file_records
from .run_record import read_run
from .suite import LEDGER, LOCK
from .verdicts import read_verdicts

_REMADE = "the `counterfactory generate` that made the suite makes it anew"
_OLDER = "of an older version, which noted no digests: the next `counterfactory generate` adds them"
_PAGE = 4096  # files between two calls for progress


@dataclass(frozen=True)
class Fault:
    """What is wrong with `file`, a path in the suite, and what remakes it; "" where the fault says that too."""

    file: str
    fault: str
    remedy: str


@dataclass(frozen=True)
class Verification:
    """`files` of `bytes` were read. `digest` names the suite's bytes, if run.json does and nothing is wrong with them;
    `notes` say what could not be compared.
    """

    files: int
    bytes: int
    digest: str | None
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def verify_suite(suite: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Verification:
    """Compare all that a suite holds with what is on record. Raises CounterfactoryError for a folder without a finished
    suite, and for one that is in use.
    """
    require_finished(suite)
    with reading_lock(suite / LOCK):
        return _Verifier(suite, on_progress).verification()


class _Verifier:
    """Compares one suite with its records."""

    def __init__(self, suite: Path, on_progress: Callable[[Progress], None]) -> None:
        self._suite, self._on_progress = suite, on_progress
        self._faults: list[Fault] = []
        self._unsound: list[str] = []  # ledgers with rows that are not as written
        self._notes: list[str] = []

    def verification(self) -> Verification:
        contents = self._record()
        listed, pictures = self._table()
        known = self._ledger()
        if lost := listed - known.keys() if known else ():
            self._add(LEDGER, f"it has lost rows of {len(lost):,} files", _REMADE.replace("makes it", "makes them"))
            self._unsound.append(LEDGER)
        for name in listed - known.keys():
            known[name] = FileRecord(True, -1, pictures.get(name, ""))
        for name, sha256 in pictures.items():
            if known[name].sha256 not in ("", sha256):
                self._add(TABLE, f"it has another digest of {name} than the ledger", _REMADE)
        files, size = self._files(known, listed)
        self._by_hand(contents)
        self._answers()
        if contents is not None and contents.files and not self._faults:
            of = ((name, known[name].bytes, known[name].sha256) for name in sorted(listed))
            if Contents.of(of, contents.table, contents.by_hand) != contents:
                self._add(RUN_FILE, "its digest is of other files than the table and the ledger have", _REMADE)
        for name in self._unsound:
            with suppress(CounterfactoryError), closing(Ledger(self._suite / name)) as ledger:
                ledger.ask_to_mend()
        digest = contents.digest or None if contents is not None and not self._faults else None
        return Verification(files, size, digest, tuple(self._faults), tuple(self._notes))

    def _add(self, file: str, fault: str, remedy: str) -> None:
        self._faults.append(Fault(file, fault, remedy))

    def _broken(self, file: str, error: CounterfactoryError) -> None:
        """A fault by an error's sentence, which ends in what to do."""
        self._add(file, str(error).removeprefix(f"{self._suite / file} "), "")

    def _record(self) -> Contents | None:
        try:
            record = read_run(self._suite)
        except CounterfactoryError as error:
            self._broken(RUN_FILE, error)
            return None
        contents = read_contents(self._suite)
        if record is None:
            self._add(RUN_FILE, "is missing", "the next `counterfactory generate` or `check` begins a new one")
        elif contents is None:
            self._notes.append(f"{RUN_FILE} is {_OLDER}; the table was compared with nothing")
        return contents

    def _table(self) -> tuple[set[str], dict[str, str]]:
        """The files that the table lists, and the digests of pictures among them."""
        try:
            verdicts = read_verdicts(self._suite)
        except CounterfactoryError as error:
            self._broken(TABLE, error)
            return set(), {}
        if (self._suite / NEXT_TABLE).exists():
            self._notes.append(f"{NEXT_TABLE} was left by a run that was killed; the next command puts it in order")
        names, digests = (verdicts.table.column(name).to_pylist() for name in ("file_name", "sha256"))
        return set(verdicts.files), dict(zip(names, digests, strict=True))

    def _ledger(self) -> dict[str, FileRecord]:
        """The files that the ledger knows."""
        try:
            with closing(Ledger(self._suite / LEDGER, read_only=True)) as ledger:
                if not ledger.has_digests:
                    self._notes.append(f"{LEDGER} is {_OLDER}")
                elif unsound := ledger.unsound():
                    rows = "a row is" if unsound == 1 else f"{unsound:,} rows are"
                    self._add(LEDGER, f"{rows} not as written", _REMADE.replace("makes it", "makes them"))
                    self._unsound.append(LEDGER)
                return {name: record for page in file_records(ledger) for name, record in page.items() if is_name(name)}
        except CounterfactoryError as error:
            self._broken(LEDGER, error)
            return {}

    def _files(self, known: dict[str, FileRecord], listed: set[str]) -> tuple[int, int]:
        """Compares the files; returns how many there are, and their bytes."""
        inner = {True: Folder(self._suite), False: Folder(self._suite, "superseded")}
        names, done, size, unknown = sorted(known), 0, 0, 0
        at = {name: inner[known[name].here].path(name) for name in names}
        for name, digest in zip(names, digest_files(at[name] for name in names), strict=True):
            record, path, done = known[name], at[name], done + 1
            if done % _PAGE == 0 or done == len(names):
                self._on_progress(Progress("verify", done, len(names)))
            there = os.stat(path).st_size if digest is not None else None  # noqa: PTH116
            size += there or 0
            shown = name if record.here else f"superseded/{name}"
            if there is None:
                if name in listed:
                    self._add(shown, "is missing or cannot be read", _REMADE)
            elif not record.sha256:
                unknown += 1
            elif digest != record.sha256:
                moved = f", {there:,} bytes in place of {record.bytes:,}" if there != record.bytes >= 0 else ""
                self._add(shown, f"is not as it was written{moved}", _REMADE)
                with suppress(OSError):
                    os.utime(path)  # `generate` reads what has another time
        if unknown:
            self._notes.append(f"{unknown:,} files have no digest on record, and were compared with nothing")
        return len(names), size

    def _by_hand(self, contents: Contents | None) -> None:
        path = self._suite / HAND_FILE
        try:
            read_by_hand(self._suite)
            digest = digest_of(path) if path.exists() else None
        except CounterfactoryError as error:
            self._broken(HAND_FILE, error)
            return
        if contents is not None and digest != contents.by_hand:
            remedy = "look at what it decides; `counterfactory check` brings the table to it"
            self._add(HAND_FILE, "is not what the table follows", remedy)

    def _answers(self) -> None:
        for path in sorted((self._suite / "predictions").glob("*.sqlite")):
            name = f"predictions/{path.name}"
            try:
                with closing(Ledger(path, read_only=True)) as ledger:
                    if ledger.has_digests and (unsound := ledger.unsound()):
                        again = "`counterfactory evaluate` of that model asks for them again"
                        self._add(name, f"{unsound:,} answers are not as written", again)
                        self._unsound.append(name)
            except CounterfactoryError as error:
                self._add(name, str(error), "remove the file: the model is asked again")
