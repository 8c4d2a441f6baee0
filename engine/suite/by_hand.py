"""by_hand.json: what people decided of single pictures, which stands whatever the scores say.

A picture is excluded or accepted by its file name, which names its content: the verdict holds through every run, check
and threshold, and for a picture that left the suite, should it come back. The file is written before the table, whole
or not at all; the next `check` or `generate` brings a table that was not written to it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..files.reading import read_json
from ..files.tables import read_table
from ..files.writing import write_whole
from .paths import Folder
from .picture_row import PictureRow
from .verdicts import ScoredRow

FILE = "by_hand.json"
EXCLUDED = "excluded by hand"
_ADVICE = "mend it, or move it out of the folder, which forgets what people decided"
Ruling = Literal["exclude", "accept", "undo"]
RULINGS: tuple[Ruling, ...] = ("exclude", "accept", "undo")
Row = TypeVar("Row", PictureRow, ScoredRow)


@dataclass(frozen=True)
class HandVerdict:
    """A person's verdict of a picture, with the reason, which may be empty, and when it was given."""

    verdict: Literal["exclude", "accept"]
    reason: str
    date: str


@dataclass(frozen=True)
class ByHand:
    """The verdicts by the pictures' file names."""

    pictures: Mapping[str, HandVerdict] = field(default_factory=dict)

    def judge(self, row: Row) -> Row:
        """The row with the verdict that a person gave of it, if any."""
        if (by_hand := self.pictures.get(row.file_name)) is None:
            return row
        if by_hand.verdict == "accept":
            return replace(row, reason=None)
        return replace(row, reason=f"{EXCLUDED}: {by_hand.reason}" if by_hand.reason else EXCLUDED)

    def ruled(self, rulings: Mapping[str, tuple[Ruling, str]]) -> ByHand:
        """The verdicts after more of them, with their reasons. Raises CounterfactoryError for one that is undone and is
        not there.
        """
        pictures, now = dict(self.pictures), datetime.now(UTC).isoformat(timespec="seconds")
        for image, (ruling, reason) in rulings.items():
            if ruling != "undo":
                pictures[image] = HandVerdict(ruling, reason, now)
            elif pictures.pop(image, None) is None:
                raise CounterfactoryError(f"{image} has no verdict by hand that could be undone")
        return ByHand(pictures)

    def write(self, suite: Path) -> None:
        """Writes the file; the caller holds the suite's lock. Raises CounterfactoryError."""
        text = json.dumps({"pictures": {name: plain(one) for name, one in self.pictures.items()}}, indent=2)
        write_whole(suite / FILE, f"{text}\n".encode())


def read_by_hand(suite: Path) -> ByHand:
    """What people decided of a suite's pictures. Raises CounterfactoryError for a file that is none of ours."""
    path = suite / FILE
    Folder(suite).refuse_outward_links([FILE])
    if not path.exists():
        return ByHand()
    return fill_record(ByHand, read_json(path, _ADVICE), str(path), _ADVICE)


def read_rulings(path: Path) -> list[tuple[str, Ruling, str]]:
    """Pictures with rulings and reasons from a table with the columns `image`, `verdict` and, where wanted, `by` and
    `reason`. Raises CounterfactoryError for what cannot be read as such a table.
    """
    rulings = list[tuple[str, Ruling, str]]()
    for line, row in read_table(path, required=("image", "verdict")):
        if isinstance(row, str):
            raise CounterfactoryError(f"{path}:{line} {row}")
        word = str(row.get("verdict") or "").strip().lower()
        ruling = next((one for one in RULINGS if one == word), None)
        if ruling is None:
            raise CounterfactoryError(f"{path}:{line}: verdict is {', '.join(RULINGS)}, found {row.get('verdict')!r}")
        rulings.append((str(row.get("image") or ""), ruling, word_ruling(row.get("by"), row.get("reason"))))
    if not rulings:
        raise CounterfactoryError(f"{path} names no picture; write the columns image, verdict and reason")
    return rulings


def word_ruling(by: object, reason: object) -> str:
    """The reason that is recorded: who says so, and why."""
    return ": ".join(str(one) for one in (by, reason) if one)


def settle_rulings(
    asked: Sequence[tuple[str, Ruling, str]], suite: Path, rows: Iterable[ScoredRow], by_hand: ByHand
) -> dict[str, tuple[Ruling, str]]:
    """Rulings by the pictures' file names in the suite, which may be given as paths of the files too. Raises
    CounterfactoryError for a picture that the suite does not have, for an original, and for two different rulings of
    one picture.
    """
    kinds = {row.file_name: row.kind for row in rows}
    settled: dict[str, tuple[Ruling, str]] = {}
    for picture, ruling, reason in asked:
        name = picture
        if name not in kinds and Path(picture).resolve().is_relative_to(suite.resolve()):
            name = Path(picture).resolve().relative_to(suite.resolve()).as_posix()
        if name not in kinds and not (ruling == "undo" and name in by_hand.pictures):
            near = difflib.get_close_matches(picture, kinds, n=1, cutoff=0.3)
            hint = f"did you mean {near[0]!r}?" if near else "name a file_name of metadata.parquet"
            raise CounterfactoryError(f"the suite has no picture {picture!r}; {hint}")
        if kinds.get(name) == "original":
            raise CounterfactoryError(f"{name} is an original, which has no verdict: exclude its variants and controls")
        if settled.setdefault(name, (ruling, reason))[0] != ruling:
            raise CounterfactoryError(f"{name} is to be both {settled[name][0]!r} and {ruling!r}: give one of them")
    return settled
