"""What sources depend on each other, by a set as it was read or by a suite, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ..judging.groups import group_rows
from ..sources.data_set import DataSet
from ..sources.sequences import Member, look_of
from ..sources.source_groups import AUTO, NONE, SourceGroups, group_members
from ..suite import PictureRow, read_run
from ..suite.images import open_png
from ..suite.paths import Folder
from .options import Warn


def group_set(data: DataSet, by: str | None, warn: Warn) -> DataSet:
    """The data set with its groups: by a column of its table, a pattern, or what looks like sequences, which is said.
    Raises CounterfactoryError as `group_members` does.
    """
    if by == NONE or not data.sources:
        return data
    members = [Member(one.name, one.file, one.look, dict(one.cells)) for one in data.sources]
    groups = group_members(by or AUTO, members)
    if by is not None or groups.of:
        warn(f"groups     {groups_line(groups, len(members))}")
    return replace(data, groups=groups)


def groups_line(groups: SourceGroups, sources: int) -> str:
    """What so many sources come to, in words."""
    several, units = groups.sequences, len(set(groups.of.values())) + sources - len(groups.of)
    if groups.by != AUTO:
        return f"{sources:,} sources are {units:,} groups by {groups.by!r}: each counts as one"
    if not several:
        return f"no two of {sources:,} sources look like frames of one sequence, or like copies of each other"
    name, most = next(iter(several.items()))
    return (
        f"{several.total():,} of {sources:,} sources look like frames of {len(several):,} sequences or like copies, "
        f"{most:,} of {name}: each sequence counts as one (--group-by none: each picture)"
    )


def group_suite(suite: Path, rows: Sequence[PictureRow], by: str | None) -> list[PictureRow]:
    """The rows with their groups: those that the suite was made with, or by a column of its table, a pattern, or what
    its originals look like. Raises CounterfactoryError as `group_members` does.
    """
    record = read_run(suite)
    known = record.standing.groups if record is not None and record.standing is not None else None
    if by is None or (known is not None and by == known.by):
        groups = known or SourceGroups()
    else:
        again = (
            f"generate keeps a column of its set's table: run it again with --group-by {by}, which paints nothing anew"
        )
        groups = group_members(by, _members(suite, rows, look=by == AUTO), again)
    return group_rows(rows, groups.of) if groups.of else list(rows)


def _members(suite: Path, rows: Sequence[PictureRow], *, look: bool) -> list[Member]:
    """A member for each source, with what the table says of the source."""
    inside, members = Folder(suite), dict[str, Member]()
    for row in rows:
        if row.source not in members:
            cells = {"label": row.label, "caption": row.caption, "painter": row.painter}
            seen = look_of(open_png(inside.path(row.original), _pixels)) if look else b""
            members[row.source] = Member(row.source, row.origin.path, seen, cells)
    return list(members.values())


def _pixels(image: Image) -> NDArray[np.uint8]:
    return np.asarray(image.convert("RGB"))
