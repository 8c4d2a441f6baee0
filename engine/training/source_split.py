"""Which sources train and which judge: a picture and all that was painted of it are on one side, never on both.

Sources that are the same file count as one, whatever they are called. Each label is split by itself. A source's side
depends on the seed and on the digests of its label's files alone.
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
    """Holds out about `share` of the sources of each label, one at least of two.

    Raises CounterfactoryError for a label whose sources are one file: it would be missing from one side.
    """
    label_of = {row.origin.sha256: row.label for row in rows}
    by_label: dict[str | None, list[str]] = {}
    for digest, label in label_of.items():
        by_label.setdefault(label, []).append(digest)
    held: set[str] = set()
    for label, files in by_label.items():
        if len(files) < 2:
            of = "the suite" if label is None else f"class {label!r}"
            raise CounterfactoryError(
                f"{of} has a single source, so that it would be missing where models are trained or where they are "
                "judged: add sources of it, or name another suite by --test"
            )
        count = min(max(1, round(share * len(files))), len(files) - 1)
        held |= set(sorted(files, key=lambda digest: content_key(seed, digest))[:count])
    sides: tuple[list[PictureRow], list[PictureRow]] = ([], [])
    for row in rows:
        sides[row.origin.sha256 in held].append(row)
    return SourceSplit(tuple(sides[0]), tuple(sides[1]))


def split_suites(rows: Sequence[PictureRow], test: Sequence[PictureRow]) -> tuple[SourceSplit, int]:
    """All `rows` train, and those of another suite judge, but for sources that train as well, which are counted."""
    trained = {row.origin.sha256 for row in rows}
    held = tuple(row for row in test if row.origin.sha256 not in trained)
    return SourceSplit(tuple(rows), held), len({row.source for row in test}) - len({row.source for row in held})


def require_classes(train: frozenset[str], held: frozenset[str]) -> None:
    """Raises CounterfactoryError for a class that the originals of only one side show."""
    for has, lacks, what in ((train, held, "judges"), (held, train, "trains")):
        if missing := sorted(has - lacks):
            raise CounterfactoryError(
                f"no source that {what} shows the class {missing[0]!r}: take another --seed or --held, or add sources"
            )
