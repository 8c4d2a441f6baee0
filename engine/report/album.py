"""The album: what a person is shown of a suite, ready for the contact sheet and for the page.

It makes one strip per source, with its original, its control and its variants in order, from the suite's rows (as
`read_metadata` returns them). Edges and masks are drawn into the report's folder. The answers of models under test may
be added; nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ..edit import Edit
from ..stages.check.verdict import failed_check
from ..suite import PictureRow
from ..suite.folder_names import safe_name


@dataclass(frozen=True)
class Answer:
    """What the model under test answered to a picture, and whether that was right."""

    text: str
    right: bool


@dataclass(frozen=True)
class Frame:
    """One variant, or a control, as shown: its `row` of the suite's table, its picture, and the model's answer."""

    row: PictureRow
    image: Path
    answer: Answer | None = None

    @property
    def changes(self) -> tuple[tuple[Edit, float | None], ...]:
        """Its edits, each with its score, None where there is none."""
        scores = self.row.edit_scores or (None,) * len(self.row.edits)
        return tuple(zip(self.row.edits, scores, strict=True))

    @property
    def failed(self) -> str:
        """The name of the check that it was rejected for, "" where it was accepted."""
        return failed_check(self.row.reason) if self.row.reason else ""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its edits, each once, in order."""
        return tuple(dict.fromkeys(self.row.edit_types))

    @property
    def values(self) -> tuple[str, ...]:
        """What each edit came to (`Edit.value`), each once, in order."""
        return tuple(dict.fromkeys(edit.value for edit in self.row.edits))

    @property
    def circumstances(self) -> Iterator[str]:
        """How it was painted, where that differs from picture to picture."""
        if self.row.levels > 1:
            yield f"level {self.row.level} of {self.row.levels}"
        if self.row.painting is not None and self.row.painting.self_attention is not None:
            yield f"source held {100 * self.row.painting.self_attention:.0f} % of steps"


@dataclass(frozen=True)
class Strip:
    """One source: its original `image`, the edges found in it and its mask in colours, None where they were not drawn,
    its first control, None without one, and its variants.
    """

    name: str
    label: str | None
    caption: str
    image: Path
    edges: Path | None
    control: Frame | None
    frames: tuple[Frame, ...]
    answer: Answer | None = None
    mask: Path | None = None

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The files of its original, control and variants."""
        controls = [self.control] if self.control else []
        return (self.image, *(frame.image for frame in (*controls, *self.frames)))

    @property
    def files(self) -> tuple[Path, ...]:
        """The same, with its edges and its mask."""
        return (*self.pictures, *(path for path in (self.edges, self.mask) if path is not None))


def drawn_path(kind: Literal["edges", "masks"], name: str, report: Path) -> Path:
    """Where the edges or the coloured mask of a source lie in the folder of a report."""
    stem = report / kind / safe_name(name)
    return stem.with_name(f"{stem.name}.png")


def mark_answers(rows: Sequence[PictureRow], labels: Sequence[str | None]) -> dict[str, Answer]:
    """What a classifier answered, by pictures' `file_name`, as `group_by_source` takes it.

    `labels[i]` is the answer to row i's picture, None for none.
    """
    pairs = zip(rows, labels, strict=True)
    return {row.file_name: Answer(answer, answer == row.label) for row, answer in pairs if answer is not None}


def add_scores(rows: Sequence[PictureRow], name: str, scores: Mapping[str, float]) -> list[PictureRow]:
    """The rows with another score, called `name`, where `scores` has one for the `file_name`."""
    return [
        replace(row, scores={**row.scores, name: scores[row.file_name]}) if row.file_name in scores else row
        for row in rows
    ]


def group_by_source(
    rows: Sequence[PictureRow], suite: Path, report: Path, answers: Mapping[str, Answer] | None = None
) -> list[Strip]:
    """A strip per source of a suite that has a variant, in the rows' order.

    `rows` are the suite's metadata, `suite` its folder, `report` that of what was drawn (see `drawn_path`). `answers`
    maps a picture's `file_name` to the model's answer.
    """
    given = answers or {}
    grouped: dict[str, list[PictureRow]] = {}
    for row in rows:
        grouped.setdefault(row.source, []).append(row)
    album = []

    def frame(row: PictureRow) -> Frame:
        return Frame(row, suite / row.file_name, given.get(row.file_name))

    for name, group in grouped.items():
        variants = sorted((row for row in group if row.kind == "variant"), key=lambda row: row.number)
        controls = [row for row in group if row.kind == "control" and row.number == 0]
        if not variants:
            continue
        first, control = group[0], frame(controls[0]) if controls else None
        named, image = (name, first.label, first.caption), suite / first.original
        strip = Strip(*named, image, None, control, tuple(map(frame, variants)), given.get(first.original))
        album.append(add_drawn(strip, report, first.mask is not None))
    return album


def add_drawn(strip: Strip, report: Path, masked: bool) -> Strip:
    """The strip with the edges, and if it is `masked` the mask, that lie in the folder of a report."""
    outline, mask = drawn_path("edges", strip.name, report), drawn_path("masks", strip.name, report)
    there = masked and _is_drawn(mask, report)
    return replace(strip, edges=outline if _is_drawn(outline, report) else None, mask=mask if there else None)


def _is_drawn(path: Path, report: Path) -> bool:
    """Whether the file is there, and no link to another one: a report that keeps its pictures may be anybody's."""
    return path.is_file() and path.resolve() == report.resolve() / path.relative_to(report)


def pick_evenly(album: Sequence[Strip], count: int) -> list[Strip]:
    """At most `count` strips, evenly from the whole album, first and last included."""
    if len(album) <= count:
        return list(album)
    return [album[round(i)] for i in np.linspace(0, len(album) - 1, count)]
