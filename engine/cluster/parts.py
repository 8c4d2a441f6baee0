"""Parts: what shards came to on other boxes, on their way into a suite.

A part is one file, a ZIP archive without compression: `part.json` says of which shard and by what maker it is,
`rows.json` has the rows of the ledger, and the other members are the files of the suite, by their names. It is written
under another name, synced and renamed, or put as one object, and its directory comes last: half a part is no part, and
is never read. The driver compares every digest, places the files, commits the rows, and only then removes the part; so
a kill at any point leaves a part that is taken again, or a suite that has it.

The place of parts is a folder that all workers share, or an URL of fsspec (`s3://bucket/parts`).
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..files.reading import open_file, parse_json, read_bytes
from ..files.writing import make_folder, open_whole, remove_empty, remove_file
from ..sources.source import Problem
from ..suite import Suite
from ..suite.paths import checked_name
from ..suite.picture_store import FileRecord

FORMAT = 1
_HEAD, _ROWS = "part.json", "rows.json"
_FILES = "suite/files"
_OBJECTS = re.compile("(s3a?|gs|gcs|abfss?|az|adl|oci|oss)://")
_NAME = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}\.part")
# What reading half a part, or none, raises; RuntimeError where a member is said to be encrypted.
_BROKEN = (
    ValueError,
    KeyError,
    AttributeError,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True)
class PartHead:
    """What a part says of itself: the `shard`'s key, its `maker`'s, and the `problems` of sources that could not be
    read. `rows` is the SHA-256 of its rows.
    """

    format: int
    shard: str
    maker: str
    problems: tuple[Problem, ...]
    rows: str


def part_name(shard: str, maker: str) -> str:
    """The name of a shard's part."""
    return f"{shard}-{maker[:16]}.part"


class PartError(CounterfactoryError):
    """A part is none, or not whole."""


class FolderPlace:
    """A folder of a file system that all workers see under the same path; with `own` nobody else has files there, and
    what killed workers and drivers left half goes at the end.
    """

    def __init__(self, folder: Path, *, own: bool = False) -> None:
        self._folder, self._own = folder, own
        make_folder(folder)

    def names(self) -> set[str]:
        """The whole parts."""
        return {path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name)}

    def put(self, name: str, data: Path) -> None:
        """Puts a file there, whole or not at all."""
        with open_file(data) as file, open_whole(self._folder / name, below=self._folder) as whole:
            while block := file.read(1 << 20):
                whole.write(block)

    @contextmanager
    def fetched(self, name: str) -> Iterator[Path]:
        """A context with the file's path on this box. Reading raises OSError where there is none."""
        yield self._folder / name

    def remove(self, name: str) -> None:
        """Removes a file; one that is not there is no error."""
        remove_file(self._folder / name, self._folder)

    def close(self) -> None:
        """Nothing more is to come: removes the place where it is empty."""
        for path in self._folder.iterdir() if self._own else ():
            if not _NAME.fullmatch(path.name):
                self.remove(path.name)
        remove_empty([self._folder], self._folder.parent)


class UrlPlace:
    """The same in an object store or another file system of fsspec, whose clients put a file whole or not at all."""

    def __init__(self, url: str) -> None:
        import fsspec

        self._url = url
        with _explained(url):
            self._store, self._root = fsspec.core.url_to_fs(url.rstrip("/"))
            if not _OBJECTS.match(url):  # which have no folders, and where this would make a bucket
                self._store.makedirs(self._root, exist_ok=True)

    def names(self) -> set[str]:
        with _explained(self._url):
            self._store.invalidate_cache()
            try:
                names = {str(path).rpartition("/")[2] for path in self._store.ls(self._root, detail=False)}
            except FileNotFoundError:  # nothing has been put there
                names = set()
        return {name for name in names if _NAME.fullmatch(name)}

    def put(self, name: str, data: Path) -> None:
        with _explained(self._url):
            self._store.put_file(str(data), f"{self._root}/{name}")

    @contextmanager
    def fetched(self, name: str) -> Iterator[Path]:
        with TemporaryDirectory(prefix="counterfactory-") as folder:
            path = Path(folder) / "part"
            with _explained(self._url, FileNotFoundError):
                self._store.invalidate_cache()
                self._store.get_file(f"{self._root}/{name}", str(path))
            yield path

    def remove(self, name: str) -> None:
        with _explained(self._url), suppress(FileNotFoundError):
            self._store.rm_file(f"{self._root}/{name}")

    def close(self) -> None:
        """A store's folders are names alone, and gone with their files."""


# Where parts wait, as the driver and the workers see it.
PartPlace = FolderPlace | UrlPlace


def open_place(place: str) -> PartPlace:
    """The place of parts: a folder, which is made, or an URL. Raises CounterfactoryError."""
    return UrlPlace(place) if "://" in place else FolderPlace(Path(place))


@contextmanager
def _explained(url: str, *raised: type[Exception]) -> Iterator[None]:
    """Whatever an object store's client raises, but for what may be `raised`, as a sentence."""
    try:
        yield
    except raised:
        raise
    except Exception as error:  # each client has exceptions of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CounterfactoryError(
            f"{url} cannot be used ({reason}): see that the address, the rights and the package for it are there"
        ) from error


def write_part(path: Path, suite: Suite, noted: set[tuple[str, str]], head: Mapping[str, Any]) -> None:
    """Writes what a shard put into a box's suite, rows and files by their `noted` stages and keys, to `path`."""
    keys: dict[str, list[str]] = {}
    for stage, key in sorted(noted):
        if stage == _FILES or not stage.startswith(("suite/", "ledger/")):
            keys.setdefault(stage, []).append(key)
    rows = {stage: suite.ledger.get(stage, of) for stage, of in keys.items()}
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    whole = PartHead(FORMAT, rows=hashlib.sha256(text).hexdigest(), **head)
    with open_whole(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # The bytes of a ZipInfo depend on no clock.
        archive.writestr(zipfile.ZipInfo(_HEAD), json.dumps(plain(whole)))
        archive.writestr(zipfile.ZipInfo(_ROWS), text)
        for name in rows.get(_FILES, {}):
            archive.writestr(zipfile.ZipInfo(name), read_bytes(suite.path / name))


class Part(AbstractContextManager["Part"]):
    """A whole part that was read from `path`, every digest compared. A context manager. Raises CounterfactoryError for
    what is none: half of one, one of another shard or maker, a byte that is another.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        with ExitStack() as opened, self._refusing():
            self._archive = opened.enter_context(zipfile.ZipFile(opened.enter_context(open_file(path))))
            if any(info.compress_type != zipfile.ZIP_STORED for info in self._archive.infolist()):
                raise ValueError("its members are compressed")
            self.head: PartHead = fill_record(PartHead, parse_json(self._archive.read(_HEAD)), name, "")
            if self.head.format != FORMAT or part_name(self.head.shard, self.head.maker) != name:
                raise ValueError("it is of another shard")
            text = self._archive.read(_ROWS)
            if hashlib.sha256(text).hexdigest() != self.head.rows:
                raise ValueError("its rows are not as they were written")
            rows = parse_json(text)
            if not all(isinstance(of, dict) for of in (rows, *rows.values())):
                raise ValueError("its rows are none of a ledger")
            records = {name: FileRecord.from_json(row) for name, row in rows.pop(_FILES, {}).items()}
            for of, record in records.items():
                checked_name(of, f"a file of {name}")
                if hashlib.sha256(self._archive.read(of)).hexdigest() != record.sha256:
                    raise ValueError(f"{of} is not as it was written")
            if any(stage.startswith(("suite/", "ledger/")) for stage in rows):
                raise ValueError("it has rows that are a suite's own")
            self._rows, self._files = rows, list(records)
            self._opened = opened.pop_all()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise PartError(f"the part {self._name} is no whole part ({error})") from error

    def put_into(self, suite: Suite) -> None:
        """Takes the part into a suite: its files first, then its rows in one commit."""
        suite.take((name, self._archive.read(name)) for name in self._files)
        suite.ledger.put_stages(self._rows)

    def __exit__(self, *_: object) -> None:
        self._opened.close()
