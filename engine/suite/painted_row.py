"""The ledger's row of a painted picture: which files hold it and its mask, their sizes and digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..files.fill import fill_record, plain
from .paths import checked_name


@dataclass(frozen=True)
class StoredFile:
    """A file of the suite: its `path` seen from there, its size in `bytes`, and the `sha256` of what it holds."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class PaintedRow:
    """The files of a painted picture: the `image`, and the `mask` that was carried over, where there is one.

    `self_attention` is the share of the steps on which an edited source's self-attention was taken over, of the shares
    that were tried the one whose picture was kept; None where nothing was tried.
    """

    image: StoredFile
    mask: StoredFile | None
    self_attention: float | None = None

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """The picture, and its mask where it has one."""
        return (self.image,) if self.mask is None else (self.image, self.mask)

    def to_json(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        row = plain(self)
        if self.self_attention is None:  # rows of pictures painted anew stay what they were
            del row["self_attention"]
        return row

    @classmethod
    def from_json(cls, value: object, where: str, advice: str) -> PaintedRow:
        """The row that `to_json` gave. `where` is what to call its place in errors, `advice` what to do about one.

        Raises CounterfactoryError for anything else, and for a path that leaves the suite.
        """
        row = fill_record(cls, value, where, advice)
        for name, file in (("image", row.image), ("mask", row.mask)):
            if file is not None:
                checked_name(file.path, f"{where}: '{name}.path'")
        return row
