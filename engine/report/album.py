"""The album: what a person is shown of a suite, ready for the contact sheet and for the page.

It makes one strip per source, with its variants in order, from the suite's rows (as `read_metadata` returns them) and
the sources' pictures. Sources and their edge maps are written beside the page, as the models saw them. The answers of
models under test may be added; nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..edit import Edit
from ..suite import VariantRow
from ..suite.names import safe_name

SOURCE_SUFFIX, EDGES_SUFFIX = ".png", ".edges.png"


@dataclass(frozen=True)
class Answer:
    """What the model under test answered to a picture, and whether that was right."""

    text: str
    right: bool


@dataclass(frozen=True)
class Frame:
    """One variant as shown: its picture, what was changed, and what became of it."""

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
    """One source and its variants. `image` and `edges` are None where only the suite is at hand."""

    name: str
    label: str | None
    caption: str
    image: Path | None
    edges: Path | None
    frames: tuple[Frame, ...]
    answer: Answer | None = None


def picture_paths(name: str, folder: Path) -> tuple[Path, Path]:
    """Where a source's picture and its edge map lie below `folder`."""
    stem = folder / safe_name(name)
    return stem.with_name(stem.name + SOURCE_SUFFIX), stem.with_name(stem.name + EDGES_SUFFIX)


def write_pictures(name: str, pixels: NDArray[np.uint8], edges: NDArray[np.uint8], folder: Path) -> None:
    """Write a source's picture, uint8 RGB [H, W, 3], and its edge map, uint8 [H, W], below `folder`."""
    picture, outline = picture_paths(name, folder)
    picture.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(picture)
    Image.fromarray(edges).save(outline)


def mark_answers(
    rows: Sequence[VariantRow], predicted: Sequence[str], originals: Mapping[str, tuple[str, str]]
) -> dict[str, Answer]:
    """What a classifier answered, by variants' `file_name` and sources' names, as `group_by_source` takes it.

    `predicted[i]` is the answer to row i's picture ("" for none; fewer answers than rows are the first rows'),
    `originals` maps a source's name to (label, answer).
    """
    answers = {name: Answer(answer, answer == label) for name, (label, answer) in originals.items()}
    for row, answer in zip(rows, predicted, strict=False):
        if answer:
            answers[row.file_name] = Answer(answer, answer == row.label)
    return answers


def group_by_source(
    rows: Sequence[VariantRow],
    suite: Path,
    pictures: Path,
    answers: Mapping[str, Answer] | None = None,
) -> list[Strip]:
    """A strip per source of a suite, in the rows' order.

    `rows` are the suite's metadata, `suite` its folder, `pictures` where `write_pictures` put the sources'. `answers`
    maps a variant's `file_name`, or a source's name, to the model's answer.
    """
    answers = answers or {}
    grouped: dict[str, list[VariantRow]] = {}
    for row in rows:
        grouped.setdefault(row.source, []).append(row)
    album = []
    for name, group in grouped.items():
        picture, outline = picture_paths(name, pictures)
        album.append(
            Strip(
                name=name,
                label=group[0].label,
                caption=group[0].caption,
                image=picture if picture.is_file() else None,
                edges=outline if outline.is_file() else None,
                frames=tuple(_frame(row, suite, answers) for row in sorted(group, key=lambda row: row.variant)),
                answer=answers.get(name),
            )
        )
    return album


def _frame(row: VariantRow, suite: Path, answers: Mapping[str, Answer]) -> Frame:
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
