"""What sources depend on each other by: the groups of `--group-by`, such as the drives that frames are of.

Of sources, each with its path and the cells of its row in a table, it makes the group of each. It does not know what
groups are used for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import CounterfactoryError
from ..files.fill import nearest
from .labels import label_text
from .sequences import Member, find_sequences

AUTO, NONE = "auto", "none"
_FORM = "write the part that names the group in parentheses, such as '(.+)_[0-9]+'"
# What no column's name has, and a regular expression does.
_PATTERN = re.compile(r"[()\[\]{}*+?\\^$|/]")


@dataclass(frozen=True)
class SourceGroups:
    """`of` has the groups of sources by their names; a source without one stands by itself. `by` says what they are by:
    a column of the set's table, a regular expression, "auto" (what looks like frames of a sequence, and copies) or
    "none".
    """

    by: str = NONE
    of: Mapping[str, str] = field(default_factory=dict)

    @property
    def sequences(self) -> Counter[str]:
        """How many sources each group has that has several, the largest first."""
        return Counter({name: count for name, count in Counter(self.of.values()).most_common() if count > 1})

    def among(self, names: Container[str]) -> SourceGroups:
        """Those of the sources of these names."""
        return replace(self, of={name: group for name, group in self.of.items() if name in names})


def join_groups(parts: Sequence[SourceGroups | None]) -> SourceGroups | None:
    """The groups of several suites together, in which a name is one group; None where one of them says nothing."""
    there = [one for one in parts if one is not None]
    of = {name: group for one in reversed(there) for name, group in one.of.items()}
    return SourceGroups(there[0].by, of) if there and len(there) == len(parts) else None


def group_members(by: str, members: Sequence[Member], advice: str = "") -> SourceGroups:
    """The groups of the members by `by`, as `SourceGroups` has it; `advice` is for a column that is not there. Raises
    CounterfactoryError for a column that is not there or has holes, a pattern that is none or does not match all paths,
    and one group for everything.
    """
    if by in (AUTO, NONE):
        return SourceGroups(by, find_sequences(members) if by == AUTO else {})
    columns = sorted({column for one in members for column in one.cells})
    if by in columns:
        texts = [label_text(one.cells.get(by)) for one in members]
        what = f"the column {by!r}", "is empty for", "fill it"
    elif _PATTERN.search(by):
        texts = _captured(by, members)
        what = f"the pattern {by!r}", "does not match", "widen it"
    else:
        there = nearest(by, columns) if columns else f"there are none; to group by parts of paths, {_FORM}"
        raise CounterfactoryError("; ".join(filter(None, (f"--group-by {by}: no such column; {there}", advice))))
    return SourceGroups(by, _whole(members, texts, *what))


def _captured(pattern: str, members: Sequence[Member]) -> list[str | None]:
    """What the pattern's parts in parentheses hold of each path, None where it does not match."""
    try:
        form = re.compile(pattern)
    except re.error as error:
        raise CounterfactoryError(f"--group-by {pattern} is no regular expression ({error}): {_FORM}") from error
    if not form.groups:
        raise CounterfactoryError(f"--group-by {pattern} says of a path what to look for and not what of it: {_FORM}")
    matches = [form.search(one.file) for one in members]
    return [None if match is None else "/".join(filter(None, match.groups())) for match in matches]


def _whole(
    members: Sequence[Member], texts: Sequence[str | None], what: str, lacks: str, advice: str
) -> dict[str, str]:
    """The groups that texts name. Raises CounterfactoryError where some name none, or all the same."""
    pairs = list(zip(members, texts, strict=True))
    if lacking := [one.file for one, text in pairs if not text]:
        raise CounterfactoryError(
            f"--group-by: {what} {lacks} {len(lacking):,} of {len(members):,} sources, the first is {lacking[0]}: "
            f"{advice}, or take another, or {AUTO}"
        )
    if len(members) > 1 and len({*texts}) == 1:
        raise CounterfactoryError(
            f"--group-by: {what} puts all {len(members):,} sources into one group, {texts[0]!r}, and of one group "
            f"nothing can be told: name smaller ones, or {NONE} where sources do not depend on each other"
        )
    return {one.name: text for one, text in pairs if text}
