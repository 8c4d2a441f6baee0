"""Which sources train and which judge: a picture, all that was painted of it, and what it depends on are on one side.

Sources that are the same file count as one, whatever they are called, and so do those of a group, such as the frames of
a drive. Each label is split by itself. A source's side depends on the seed and on the digests of its label's files
alone, or, where there are groups, on those of the files of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CounterfactoryError
from ..keys import content_key
from ..suite import PictureRow


@dataclass(frozen=True)
class SourceSplit:
    """The rows that train, and those that are held out of it."""

    train: tuple[PictureRow, ...]
    held: tuple[PictureRow, ...]


def split_sources(rows: Sequence[PictureRow], share: float, seed: int) -> SourceSplit:
    """Holds out about `share` of the sources, or groups of them, of each label, one at least of two.

    Raises CounterfactoryError for a label whose sources are one file, or of one group, or of groups that the other
    labels need on one side: it would be missing from the other.
    """
    unit_of, labels = _units(rows), dict[str | None, set[str]]()
    for row in rows:
        labels.setdefault(row.label, set()).add(unit_of[row.origin.sha256])
    held = set[str]()
    # Where a group has several labels, those of fewest groups choose first.
    for label, units in sorted(labels.items(), key=lambda of: len(of[1])):
        count = min(max(1, round(share * len(units))), len(units) - 1)
        for unit in sorted(units - held, key=lambda unit: content_key(seed, unit)):
            if len(units & held) >= count:
                break
            if not any(others <= held | {unit} for others in labels.values() if unit in others):
                held.add(unit)
        if not units & held:
            raise _missing(label, units, rows, unit_of)
    sides: tuple[list[PictureRow], list[PictureRow]] = ([], [])
    for row in rows:
        sides[unit_of[row.origin.sha256] in held].append(row)
    return SourceSplit(tuple(sides[0]), tuple(sides[1]))


def _units(rows: Sequence[PictureRow]) -> dict[str, str]:
    """By digest of a file the least digest of all that it depends on: by groups, and by being in several of them."""
    least = {row.origin.sha256: row.origin.sha256 for row in rows}

    def root(digest: str) -> str:
        while least[digest] != digest:
            digest = least[digest]
        return digest

    of_unit = dict[str, str]()
    for row in rows:
        first, other = sorted((root(row.origin.sha256), root(of_unit.setdefault(row.unit, row.origin.sha256))))
        least[other] = first
    return {digest: root(digest) for digest in least}


def _missing(
    label: str | None, units: set[str], rows: Sequence[PictureRow], unit_of: dict[str, str]
) -> CounterfactoryError:
    of = "the suite" if label is None else f"class {label!r}"
    names = sorted({row.unit for row in rows if row.label == label and row.unit != row.source})
    what, more = "a single source", "add sources of it"
    if names:
        what = f"{'sources of one group' if len(units) == 1 else 'no group that can be held out'} ({names[0]})"
        more = "add groups that show it, name smaller ones by --group-by"
    return CounterfactoryError(
        f"{of} has {what}, so that it would be missing where models are trained or where they are judged: {more}, or "
        "name another suite by --test"
    )


def split_suites(rows: Sequence[PictureRow], test: Sequence[PictureRow]) -> tuple[SourceSplit, int]:
    """All `rows` train, and those of another suite judge, but for sources, and their groups, that train as well, which
    are counted.
    """
    trained = {row.origin.sha256 for row in rows} | {row.unit for row in rows if row.unit != row.source}
    held = tuple(row for row in test if trained.isdisjoint((row.origin.sha256, row.unit)))
    return SourceSplit(tuple(rows), held), len({row.source for row in test}) - len({row.source for row in held})


def require_classes(train: frozenset[str], held: frozenset[str]) -> None:
    """Raises CounterfactoryError for a class that the originals of only one side show."""
    for has, lacks, what in ((train, held, "judges"), (held, train, "trains")):
        if missing := sorted(has - lacks):
            raise CounterfactoryError(
                f"no source that {what} shows the class {missing[0]!r}: take another --seed or --held, or add sources"
            )
