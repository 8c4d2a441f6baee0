"""Which of a suite's files lie in place, and which are superseded.

Files are written by relative path (images/…, masks/…) and synced; they move to superseded/ and back. The ledger knows
every file from before it is written until after it is moved, so that nothing here walks through 25,000 folders: not the
opening after a crash, not the superseding. The suite decides which images are wanted.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

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
from .ledger import Ledger
from .paths import TOPS, Folder, is_name
from .picture_row import StoredFile

_FILES = "suite/files"  # path: true while the file lies (or is about to lie) in place
_OPEN = "suite/open"
# Goes into the commit that records a batch's results.
BATCH_DONE: dict[str, dict[str, list[str]]] = {_OPEN: {"batch": []}}
_OURS = re.compile(r"[0-9a-f]{16}\.png")
# Only names that we give to unfinished files are ever removed, and only names that we give are ever moved.
_ASIDE = re.compile(
    rf"([0-9a-f]{{16}}\.png|metadata\.parquet|run\.json|by_hand\.json|ledger\.sqlite|draft)\.[0-9]+{re.escape(TEMPORARY_SUFFIX)}"
)


class PictureStore:
    """The files under `root`; the caller holds the suite's lock. Opening removes what a killed process left half.

    Raises CounterfactoryError, here and in every method, for a file name that leaves `root`, by its text or through a
    link, before anything is done to that file.
    """

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._root = root
        self._folder, self._superseded = Folder(root), Folder(root, "superseded")
        self._ledger = ledger
        state = ledger.get(_OPEN, ["adopted", "batch"])
        if "adopted" not in state:
            self._adopt()
        batch = fill_value(tuple[str, ...], state.get("batch", []), *ledger.place(_OPEN, "batch"))
        for folder in {root, *(self._folder.path(name).parent for name in batch)}:
            if folder.is_dir():
                self._remove_unfinished(folder, [path.name for path in folder.iterdir()])

    def place(self, files: Mapping[str, bytes]) -> dict[str, StoredFile]:
        """Writes and syncs the files, returning what lies there by path.

        The batch is open until the caller commits its results with `BATCH_DONE`.
        """
        paths = {name: self._folder.path(name) for name in files}
        self._ledger.put_stages({_OPEN: {"batch": list(files)}, _FILES: dict.fromkeys(files, True)})
        folders = dict.fromkeys(path.parent for path in paths.values())
        for folder in folders:
            make_folder(folder, self._root)
        for name, data in files.items():
            write_whole(paths[name], data, sync="bytes", below=self._root)
        self._sync(folders)
        return {name: StoredFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()}

    def size(self, name: str) -> int | None:
        """Bytes of a file in place; None when there is none."""
        return self._folder.size(name)

    def restore(self, names: Iterable[str]) -> None:
        """Moves those of the names that are superseded back into place."""
        superseded = [name for name in names if self._superseded.path(name).is_file()]
        self._ledger.put(_FILES, dict.fromkeys(superseded, True))
        for name in superseded:
            move_file(self._superseded.path(name), self._folder.path(name), self._root)
        self._sync({self._folder.path(name).parent for name in superseded})
        remove_empty({self._superseded.path(name).parent for name in superseded}, self._root)

    def supersede_all_but(self, wanted: Callable[[Sequence[str]], set[str]]) -> None:
        """Moves every file of ours that is in place to superseded/, but for those of a page that `wanted` returns."""
        for page in self._ledger.walk(_FILES):
            here = [name for name, is_here in page.items() if is_here]
            listed = wanted(here)
            gone = [name for name in here if name not in listed]
            for name in gone:
                if self.size(name) is not None:
                    move_file(self._folder.path(name), self._superseded.path(name), self._root)
            self._ledger.put(_FILES, dict.fromkeys(gone, False))
            remove_empty({self._folder.path(name).parent for name in gone}, self._root)

    def _adopt(self) -> None:
        """Takes up the files that an older ledger, now moved away, knew; once in a ledger's life."""
        for top in TOPS:
            for folder, _, names in os.walk(self._root / top):
                self._remove_unfinished(Path(folder), names)
                prefix = Path(folder).relative_to(self._root).as_posix()
                ours = [f"{prefix}/{name}" for name in names if _OURS.fullmatch(name)]
                self._ledger.put(_FILES, dict.fromkeys(filter(is_name, ours), True))
        self._ledger.put(_OPEN, {"adopted": True})

    def _remove_unfinished(self, folder: Path, names: Iterable[str]) -> None:
        for name in filter(_ASIDE.fullmatch, names):
            remove_file(folder / name, self._root)

    def _sync(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            sync_folder(folder, self._root)
