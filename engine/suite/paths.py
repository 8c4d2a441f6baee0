"""Names of a suite's files, and the folder that no such name leaves.

A suite may come from anybody, and its table and ledger name files that are read, moved and repainted. A name is
relative, has "/" between its parts and lies below images/, masks/ or originals/; a link on the way that leads
elsewhere is refused as well. What a source's name becomes as a folder is the business of `folder_names`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from ..errors import CounterfactoryError

TOPS = ("images", "masks", "originals")
# The colon is of Windows' drives; our own names have none (see `folder_names`).
_PART = r"(?!\.\.?(?:/|\Z))[^/\\:\x00]+"
_NAME = re.compile(rf"(?:{'|'.join(TOPS)})(?:/{_PART})+")
_LONGEST, _LONGEST_PART = 3000, 255  # bytes
# Names come folder by folder: memory need not hold all folders of a suite.
_MOST_FOLDERS = 4096


def is_name(name: str) -> bool:
    """Whether `name` can be a file of a suite."""
    if _NAME.fullmatch(name) is None:
        return False
    data = name.encode(errors="surrogatepass")
    return len(data) <= _LONGEST_PART or (
        len(data) <= _LONGEST and max(map(len, data.split(b"/"))) <= _LONGEST_PART  # what a file system takes
    )


def checked_name(name: object, where: str) -> str:
    """`name`, if it can be a file of a suite: below one of `TOPS`, and not out of it again. Raises CounterfactoryError,
    beginning with `where` the name was found, for anything else: an absolute path, "..", an empty part, a backslash, a
    Windows drive, what is no text.
    """
    if isinstance(name, str) and is_name(name):
        return name
    raise CounterfactoryError(
        f"{where} is {name!r}, which names no file below {' or '.join(TOPS)} of the suite; nothing was touched: use a "
        "suite that Counterfactory made"
    )


class Folder:
    """The folder of a suite at `root`, which need not exist yet; every file of the suite is reached through it.

    With `inner`, names are those of files below that folder of the suite.
    """

    def __init__(self, root: Path, inner: str = "") -> None:
        self.root = root
        self._inner = f"{inner}/" if inner else ""
        self._real = os.path.realpath(root)
        self._inside: set[str] = set()  # folders that were found to lie in the suite

    def path(self, name: str) -> Path:
        """Where the file `name` lies or would lie. Raises CounterfactoryError for a name that leaves the suite, by its
        text or through a link.
        """
        path = self.root / self._checked(name)
        if path.is_symlink():
            self.refuse_outward_links([self._inner + name])
        return path

    def status(self, name: str) -> os.stat_result | None:
        """Size and times of the file `name`; None when there is none. Raises CounterfactoryError as `path` does."""
        path = f"{self.root}/{self._checked(name)}"
        try:
            status = os.lstat(path)  # half the time of a Path, 250,000 times
            if stat.S_ISLNK(status.st_mode):
                self.refuse_outward_links([self._inner + name])
                status = os.stat(path)  # noqa: PTH116
        except OSError:
            return None
        return status

    def refuse_outward_links(self, names: Iterable[str]) -> None:
        """Raises CounterfactoryError if one of the files or folders `names`, present or not, lies elsewhere."""
        for name in names:
            real = os.path.realpath(f"{self.root}/{name}")
            if os.path.commonpath([self._real, real]) != self._real:
                raise CounterfactoryError(
                    f"{self.root / name} is, through a link, {real}, outside of the suite; nothing was touched: put "
                    "the file or folder itself there, or use a suite that Counterfactory made"
                )

    def _checked(self, name: str) -> str:
        """The name seen from `root`."""
        checked_name(name, f"a file of {self.root}")
        inside = self._inner + name
        folder = inside.rpartition("/")[0]
        if folder not in self._inside:
            self.refuse_outward_links([folder])
            if len(self._inside) >= _MOST_FOLDERS:
                self._inside.clear()
            self._inside.add(folder)
        return inside
