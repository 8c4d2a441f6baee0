"""Real pictures under real conditions, to hold painted ones against: a table with a row per picture.

Its columns are `image`, `label` or `mask` (a picture's own: no two need show the same scene), `condition`, written as
an edit, "weather: rainy", several with ";", or empty for a plain day, and `place`: the town, the drive or the camera.
Pictures are compared within a place. Files lie below the table's folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ..edit import Edit
from ..errors import CounterfactoryError
from ..files.tables import read_table
from ..keys import file_digest
from .given import leads_out, parse_edits
from .listing import check_values

_NAMES = ("image", "place", "label", "mask", "condition")
_COLUMNS: Mapping[str, Sequence[str]] = MappingProxyType({name: (name,) for name in _NAMES})
_LONGEST = 1000


@dataclass(frozen=True)
class RealPicture:
    """A picture at `path`, called `file_name` by its table; without edits it was taken on a plain day."""

    file_name: str
    path: Path
    sha256: str
    source: str
    label: str | None
    mask: Path | None
    edits: tuple[Edit, ...]
    accepted: bool = True

    @property
    def kind(self) -> Literal["original", "variant"]:
        """What it would be in a suite."""
        return "variant" if self.edits else "original"


def read_real(table: Path) -> list[RealPicture]:
    """The pictures of a table. Raises CounterfactoryError, with the line, for a row that cannot be used: a figure of
    what is left would be of another set; and for a table without a plain picture, or without any other.
    """
    root = os.path.realpath(table.parent)
    pictures: dict[str, RealPicture] = {}
    for line, row in read_table(table, ("image", "place", "condition")):
        values = row if isinstance(row, str) else check_values(row, _COLUMNS)
        if isinstance(values, str):
            raise CounterfactoryError(f"{table}:{line} {values}")
        try:
            picture = _picture(root, values)
        except (ValueError, OSError) as error:
            reason = f"cannot read {error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            raise CounterfactoryError(f"{table}:{line}: {reason}") from error
        if picture.file_name in pictures:
            raise CounterfactoryError(f"{table}:{line}: {picture.file_name} is there twice")
        pictures[picture.file_name] = picture
    for kind, what in (("original", "an empty condition"), ("variant", "a condition, such as 'weather: rainy'")):
        if not any(one.kind == kind for one in pictures.values()):
            raise CounterfactoryError(f"{table} has no picture with {what}: both are needed, to tell what it costs")
    return list(pictures.values())


def _picture(root: str, values: Mapping[str, str]) -> RealPicture:
    if "place" not in values:
        raise ValueError("names no place, within which pictures are compared: a town, a drive or a camera")
    if ("label" in values) == ("mask" in values):
        raise ValueError("has a label or a mask, one of the two")
    condition = values.get("condition", "")
    if len(condition) > _LONGEST:
        raise ValueError(f"its condition has {len(condition)} characters; at most {_LONGEST} are read")
    path = _inside(root, values["image"])
    mask = _inside(root, values["mask"]) if "mask" in values else None
    edits = parse_edits(condition) if condition else ()
    return RealPicture(values["image"], path, file_digest(path), values["place"], values.get("label"), mask, edits)


def _inside(root: str, name: str) -> Path:
    """Where a file lies. Raises ValueError for one that is not below the table's folder, links followed."""
    path = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 a Path would not say what a link leads out of
    if os.path.commonpath([root, path]) != root:
        raise ValueError(f"{name} {leads_out(root)}")
    return Path(path)
