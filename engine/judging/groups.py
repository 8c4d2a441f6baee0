"""Pictures whose sources depend on each other, such as the frames of a drive: the group is what intervals are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from ..suite import PictureRow


@dataclass(frozen=True, slots=True)
class GroupedRow(PictureRow):
    """A row whose source is of a `group`: "" of none."""

    group: str = ""

    @property
    def unit(self) -> str:
        """What stands for itself among pictures: the group, or the source where it has none."""
        return self.group or self.source


def count_groups(rows: Iterable[PictureRow]) -> int | None:
    """How many units the rows' sources are, None where each is one by itself."""
    units = {(row.unit, row.source) for row in rows}
    return len({unit for unit, _ in units}) if any(unit != source for unit, source in units) else None


def group_rows(rows: Sequence[PictureRow], groups: Mapping[str, str]) -> list[PictureRow]:
    """The rows with the group of each source; a source without one stands by itself."""
    names = [field.name for field in fields(PictureRow)]
    return [
        GroupedRow(**{name: getattr(row, name) for name in names}, group=groups.get(row.source, "")) for row in rows
    ]
