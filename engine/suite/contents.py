"""What a suite's bytes are, as run.json has it: one digest that names all of them, and the table that it goes with.

run.json seals itself by its key `sha256`, and names the table by its digest: it is what decides which table counts. A
new table is written beside the old one, as metadata.parquet.next; then run.json changes, by one rename; then the table
takes its name. So whoever reads after a crash has the old pair or the new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.fill import fill_record
from ..files.reading import open_file, read_bytes, read_json
from ..files.writing import write_whole
from .paths import Folder

RUN_FILE, TABLE, NEXT_TABLE = "run.json", "metadata.parquet", "metadata.parquet.next"
FORMAT = 5
_UNSEALED = 4  # the format of records without a digest
ADVICE = (
    "move it out of the folder and run the same command again, which begins a new one: the suite itself stays, and the "
    "costs in the old file are no longer added"
)
AGAIN = "run the `counterfactory generate` that made it again, which writes it anew and repaints nothing"


@dataclass(frozen=True)
class Contents:
    """The bytes of a suite. `digest` names them: it is the SHA-256 of the lines `files` and `table`.

    `files` is the SHA-256 of the lines that `sha256sum` prints of all files that the table lists, sorted by their paths
    in the suite, "" where an older version kept no digest of one of them; `table` is that of metadata.parquet,
    `by_hand` that of by_hand.json, None without one. There are `count` files of `bytes`, the table not among them.
    """

    digest: str
    files: str
    table: str
    by_hand: str | None
    count: int
    bytes: int

    @classmethod
    def of(cls, files: Iterable[tuple[str, int, str]], table: str, by_hand: str | None) -> Contents:
        """Those of a suite with these files: path, bytes and SHA-256, sorted by path."""
        lines, count, size, known = hashlib.sha256(), 0, 0, True
        for path, size_of, sha256 in files:
            lines.update(f"{sha256}  {path}\n".encode())
            count, size, known = count + 1, size + size_of, known and sha256 != ""
        return cls("", lines.hexdigest() if known else "", table, by_hand, count, size).named()

    def named(self) -> Contents:
        """The same with the digest that follows from the others; none where the files' are not known."""
        digest = hashlib.sha256(f"{self.files}\n{self.table}\n".encode()).hexdigest() if self.files else ""
        return Contents(digest, self.files, self.table, self.by_hand, self.count, self.bytes)


def read_contents(suite: Path) -> Contents | None:
    """What run.json says of a suite's bytes; None where it says nothing, cannot be read, or is of an older version."""
    with suppress(CounterfactoryError):
        record = read_record(suite)
        standing = record.get("standing") if isinstance(record, Mapping) else None
        contents = standing.get("contents") if isinstance(standing, Mapping) else None
        return None if contents is None else fill_record(Contents, contents, str(suite / RUN_FILE), ADVICE)
    return None


def suite_digest(suite: Path) -> str | None:
    """The digest that names a suite's bytes; None where run.json has none."""
    contents = read_contents(suite)
    return contents.digest or None if contents is not None else None


def read_table(suite: Path) -> bytes:
    """The bytes of the table that run.json goes with, or of any table where that names none; takes no lock. Raises
    CounterfactoryError where there is none, or another one.
    """
    Folder(suite).refuse_outward_links([TABLE, NEXT_TABLE])
    path, there = suite / TABLE, False
    for _ in range(2):  # a run may have ended in between
        contents = read_contents(suite)
        for table in (path, suite / NEXT_TABLE) if contents is not None else (path,):
            try:
                data = read_bytes(table)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CounterfactoryError(f"{path} cannot be read ({error.strerror or error}): {AGAIN}") from error
            if contents is None or hashlib.sha256(data).hexdigest() == contents.table:
                return data
            there = True
    if not there:
        raise unfinished(suite)
    raise CounterfactoryError(f"{path} is damaged: it is not the table that {RUN_FILE} names by its digest; {AGAIN}")


def digest_of(path: Path | str) -> str:
    """SHA-256 of a file's bytes, as 64 hex digits. Raises OSError."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unfinished(suite: Path) -> CounterfactoryError:
    """The error for a folder without a finished suite."""
    return CounterfactoryError(f"{suite} holds no finished suite ({TABLE} is missing): run `counterfactory generate`")


def read_record(suite: Path) -> Any:
    """What run.json holds, as JSON has it; None where there is none. Takes no lock. Raises CounterfactoryError for a
    file that cannot be read, is no JSON, is not as it was written, or is a link out of the suite.
    """
    path = suite / RUN_FILE
    Folder(suite).refuse_outward_links([RUN_FILE])
    if not path.exists():
        return None
    value = read_json(path, ADVICE)
    if isinstance(value, dict):
        seal = value.pop("sha256", None)
        if seal != _seal(value) and (seal is not None or value.get("format") == FORMAT):
            raise CounterfactoryError(f"{path} is not as it was written, by its own digest: {ADVICE}")
        if "format" in value and value["format"] not in (_UNSEALED, FORMAT):
            raise CounterfactoryError(f"{path} has format {value['format']!r}, this is for {FORMAT}: {ADVICE}")
    return value


def write_record(suite: Path, value: Mapping[str, Any]) -> None:
    """Writes run.json with its digest, whole or not at all. Raises CounterfactoryError, also for what is not finite, as
    the sum of a stranger's costs may be.
    """
    value = {"format": FORMAT, **value}
    try:
        text = json.dumps(value | {"sha256": _seal(value)}, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise CounterfactoryError(f"{suite / RUN_FILE} would hold a number that is not finite: {ADVICE}") from error
    write_whole(suite / RUN_FILE, f"{text}\n")


def _seal(value: Mapping[str, Any]) -> str:
    """The digest of a record: SHA-256 of its JSON without spaces, in the order of its keys."""
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
