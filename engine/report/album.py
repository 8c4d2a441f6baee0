"""The album: what a person is shown of a suite, ready for the contact sheet and for the page.

It makes one strip per source, with its original, its control and its variants in order, from the suite's rows (as
`read_metadata` returns them). Edge maps are drawn beside the page. The answers of models under test may be added;
nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..edit import Edit
from ..suite import PictureRow
from ..suite.names import safe_name


@dataclass(frozen=True)
class Answer:
    """What the model under test answered to a picture, and whether that was right."""

    text: str
    right: bool


@dataclass(frozen=True)
class Frame:
    """One variant, or a control, as shown: its picture, what was changed, and what became of it."""

    image: Path
    edits: tuple[Edit, ...]
    caption: str
    accepted: bool
    reason: str
    answer: Answer | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its edits, each once, in order."""
        return tuple(dict.fromkeys(edit.type for edit in self.edits))


@dataclass(frozen=True)
class Strip:
    """One source: its original `image`, the edges found in it, None where they were not drawn, its first control, None
    without one, and its variants.
    """

    name: str
    label: str | None
    caption: str
    image: Path
    edges: Path | None
    control: Frame | None
    frames: tuple[Frame, ...]
    answer: Answer | None = None


def edges_path(name: str, folder: Path) -> Path:
    """Where the edge map of a source lies below `folder`."""
    stem = folder / safe_name(name)
    return stem.with_name(f"{stem.name}.png")


def mark_answers(rows: Sequence[PictureRow], labels: Sequence[str | None]) -> dict[str, Answer]:
    """What a classifier answered, by pictures' `file_name`, as `group_by_source` takes it.

    `labels[i]` is the answer to row i's picture, None for none.
    """
    return {
        row.file_name: Answer(answer, answer == row.label)
        for row, answer in zip(rows, labels, strict=True)
        if answer is not None
    }


def group_by_source(
    rows: Sequence[PictureRow],
    suite: Path,
    edges: Path,
    answers: Mapping[str, Answer] | None = None,
) -> list[Strip]:
    """A strip per source of a suite that has a variant, in the rows' order.

    `rows` are the suite's metadata, `suite` its folder, `edges` that of the edge maps (see `edges_path`). `answers`
    maps a picture's `file_name` to the model's answer.
    """
    answers = answers or {}
    grouped: dict[str, list[PictureRow]] = {}
    for row in rows:
        grouped.setdefault(row.source, []).append(row)
    album = []
    for name, group in grouped.items():
        variants = sorted((row for row in group if row.kind == "variant"), key=lambda row: row.number)
        controls = [row for row in group if row.kind == "control" and row.number == 0]
        if not variants:
            continue
        outline = edges_path(name, edges)
        album.append(
            Strip(
                name=name,
                label=group[0].label,
                caption=group[0].caption,
                image=suite / group[0].original,
                edges=outline if outline.is_file() else None,
                control=_frame(controls[0], suite, answers) if controls else None,
                frames=tuple(_frame(row, suite, answers) for row in variants),
                answer=answers.get(group[0].original),
            )
        )
    return album


def _frame(row: PictureRow, suite: Path, answers: Mapping[str, Answer]) -> Frame:
    return Frame(
        image=suite / row.file_name,
        edits=row.edits,
        caption=row.edited_caption,
        accepted=row.accepted,
        reason=row.reason or "",
        answer=answers.get(row.file_name),
    )


def pick_evenly(album: Sequence[Strip], count: int) -> list[Strip]:
    """At most `count` strips, evenly from the whole album, first and last included."""
    if len(album) <= count:
        return list(album)
    return [album[round(i)] for i in np.linspace(0, len(album) - 1, count)]
