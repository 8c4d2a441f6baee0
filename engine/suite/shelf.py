"""Which of a suite's files lie in place, and which are superseded.

File bytes arrive by relative path (images/…, masks/…) and leave synced; names go to superseded/ and come back. The
ledger knows every file from before it is written until after it is moved, so that nothing here walks through 25,000
folders: not the opening after a crash, not the superseding. What an image is, and which are wanted, is decided
elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..files.writing import TEMPORARY_SUFFIX, explain_os_errors, make_folder, move_file, sync_folder, write_whole
from .ledger import Ledger

_FILES = "suite/files"  # path: true while the file lies (or is about to lie) in place
_OPEN = "suite/open"
# Goes into the commit that records a batch's results.
BATCH_DONE: dict[str, dict[str, list[str]]] = {_OPEN: {"batch": []}}
_TOPS = ("images", "masks")
_OURS = re.compile(r"[0-9a-f]{16}\.png")
# Only names that we give to unfinished files are ever removed, and only names that we give are ever moved.
_ASIDE = re.compile(rf"([0-9a-f]{{16}}\.png|metadata\.parquet|run\.json|draft)\.[0-9]+{re.escape(TEMPORARY_SUFFIX)}")


class Shelf:
    """The files under `root`; the caller holds the suite's lock. Opening removes what a killed process left half."""

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._root = root
        self._ledger = ledger
        state = ledger.get(_OPEN, ["adopted", "batch"])
        if "adopted" not in state:
            self._adopt()
        batch = state.get("batch", [])
        for folder in {root, *(root / Path(name).parent for name in batch)}:
            if folder.is_dir():
                self._remove_unfinished(folder, [path.name for path in folder.iterdir()])

    def place(self, files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
        """Writes and syncs the files, returning {"path", "bytes", "sha256"} of each by path.

        The batch is open until the caller commits its results with `BATCH_DONE`.
        """
        self._ledger.put_stages({_OPEN: {"batch": list(files)}, _FILES: dict.fromkeys(files, True)})
        folders = dict.fromkeys((self._root / name).parent for name in files)
        for folder in folders:
            make_folder(folder)
        for name, data in files.items():
            write_whole(self._root / name, data, sync="bytes")
        _sync(folders)
        return {
            name: {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        }

    def size(self, name: str) -> int | None:
        """Bytes of a file in place; None when there is none."""
        try:
            return os.stat(f"{self._root}/{name}").st_size  # noqa: PTH116 (half the time of a Path, 250,000 times)
        except OSError:
            return None

    def restore(self, names: Iterable[str]) -> None:
        """Moves those of the names that are superseded back into place."""
        found = [name for name in names if self._superseded(name).is_file()]
        self._ledger.put(_FILES, dict.fromkeys(found, True))
        for name in found:
            move_file(self._superseded(name), self._root / name)
        _sync({(self._root / name).parent for name in found})
        self._remove_empty({self._superseded(name).parent for name in found})

    def supersede_all_but(self, wanted: Callable[[Sequence[str]], set[str]]) -> None:
        """Moves every file of ours that is in place to superseded/, but those that `wanted` picks when asked."""
        for page in self._ledger.walk(_FILES):
            here = [name for name, is_here in page.items() if is_here]
            kept = wanted(here)
            gone = [name for name in here if name not in kept]
            for name in gone:
                if self.size(name) is not None:
                    move_file(self._root / name, self._superseded(name))
            self._ledger.put(_FILES, dict.fromkeys(gone, False))
            self._remove_empty({(self._root / name).parent for name in gone})

    def _superseded(self, name: str) -> Path:
        return self._root / "superseded" / name

    def _adopt(self) -> None:
        """Takes up the files that an older ledger, now moved away, knew; once in a ledger's life."""
        for top in _TOPS:
            for folder, _, names in os.walk(self._root / top):
                self._remove_unfinished(Path(folder), names)
                prefix = Path(folder).relative_to(self._root).as_posix()
                self._ledger.put(_FILES, {f"{prefix}/{name}": True for name in names if _OURS.fullmatch(name)})
        self._ledger.put(_OPEN, {"adopted": True})

    def _remove_unfinished(self, folder: Path, names: Iterable[str]) -> None:
        for name in filter(_ASIDE.fullmatch, names):
            with explain_os_errors(folder / name):
                (folder / name).unlink(missing_ok=True)

    def _remove_empty(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            with suppress(OSError):  # not empty, or gone with an earlier one
                for empty in (folder, *folder.parents):
                    if empty == self._root:
                        break
                    empty.rmdir()


def _sync(folders: Iterable[Path]) -> None:
    for folder in folders:
        with explain_os_errors(folder):
            sync_folder(folder)
