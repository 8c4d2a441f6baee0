"""A row of metadata.parquet: a picture of the suite and how it was made; and a variant that has no picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from ..edit import Edit
from ..sources.shapes import Box, Keypoint
from ..variant import KINDS, Kind
from .fields import Fields
from .paths import checked_name


class Verdict(StrEnum):
    """Whether the checks accepted a picture."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Painting:
    """How a picture was painted: `steps` of denoising, of which step i was guided by `guidance_scale` while
    guidance_start <= i / steps < guidance_stop, from noise of `seed` and the row's key. Of an edited source
    `self_attention` is the share of the steps on which its self-attention was taken over; None of other pictures.
    """

    seed: int
    steps: int
    guidance_scale: float
    guidance_start: float
    guidance_stop: float
    self_attention: float | None = None


@dataclass(frozen=True)
class Origin:
    """The file that a picture goes back to: its `path` as the set of sources names it, its SHA-256, its size in pixels,
    and the box of it that was scaled to the picture: `left`, `top`, `width` and `height` in its pixels.
    """

    path: str
    sha256: str
    width: int
    height: int
    crop: tuple[float, float, float, float]


@dataclass(frozen=True)
class PictureRow:
    """Picture number `number` (from 0) of its kind of a source.

    An original is the source as the painter saw it, a control its own caption painted anew, a variant an edited one.
    `file_name`, `mask` and `original` are files of the suite (an original's own `original` is itself), `control` is
    the source's first control, None without one; `sha256` is of the picture's file. `painting` is None of an original.
    `scores` holds what the checks measured, by name, `edit_scores` how far it shows each of its edits; empty where that
    was not measured. `reason` says why the picture was rejected; None where it was accepted. `protected` are the words
    of the source's caption that no edit may touch, since they name what it is labelled with; none where nothing does.
    `boxes` are in the picture's pixels. `known_world` is False where the source is outside of what the models know:
    then the row is meaningless. `repeat` is how many variants of the source with the same edits came before: they
    differ in their noise. Of `levels` at which the same edits are painted, from faint to full, it is number `level`.
    """

    file_name: str
    sha256: str
    kind: Kind
    source: str
    label: str | None
    mask: str | None
    original: str
    control: str | None
    caption: str
    edited_caption: str
    edits: tuple[Edit, ...]
    number: int
    painting: Painting | None
    scores: Mapping[str, float]
    reason: str | None
    origin: Origin
    source_key: str
    key: str
    protected: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    known_world: bool = True
    repeat: int = 0
    level: int = 1
    levels: int = 1
    edit_scores: tuple[float, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the picture counts."""
        return self.reason is None

    @property
    def verdict(self) -> Verdict:
        """Accepted, or rejected for a reason."""
        return Verdict.ACCEPTED if self.reason is None else Verdict.REJECTED

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names: picture, mask, original and control, each once."""
        names = dict.fromkeys((self.file_name, self.mask, self.original, self.control))
        return tuple(name for name in names if name is not None)

    @property
    def edit_types(self) -> tuple[str, ...]:
        """The edits' types, in the edits' order."""
        return tuple(edit.type for edit in self.edits)

    def to_json(self) -> dict[str, Any]:
        """The row as the table holds it, verdict and types of edits included, which follow from the rest."""
        scores = self.edit_scores or [None] * len(self.edits)
        painting = dict.fromkeys(_PAINTING) if self.painting is None else asdict(self.painting)
        left, top, width, height = self.origin.crop
        return {
            "file_name": self.file_name,
            "sha256": self.sha256,
            "kind": self.kind,
            "source": self.source,
            "label": self.label,
            "mask_file_name": self.mask,
            "boxes": [asdict(box) for box in self.boxes],
            "original_file_name": self.original,
            "control_file_name": self.control,
            "caption": self.caption,
            "protected": list(self.protected),
            "edited_caption": self.edited_caption,
            "edits": [{**asdict(edit), "score": score} for edit, score in zip(self.edits, scores, strict=True)],
            "edit_types": list(self.edit_types),
            "number": self.number,
            "repeat": self.repeat,
            "level": self.level,
            "levels": self.levels,
            **painting,
            "scores": dict(self.scores) or None,  # a table's struct of no fields is null
            "verdict": str(self.verdict),
            "reason": self.reason,
            "source_path": self.origin.path,
            "source_sha256": self.origin.sha256,
            "source_width": self.origin.width,
            "source_height": self.origin.height,
            "crop": {"left": left, "top": top, "width": width, "height": height},
            "known_world": self.known_world,
            "source_key": self.source_key,
            "key": self.key,
        }

    @classmethod
    def from_json(cls, value: object, where: str, advice: str) -> PictureRow:
        """The row that `to_json` gave, or that the table holds, where a score that the row lacks is null.

        `where` is what to call its place in errors, `advice` what to do about one. Raises CounterfactoryError for a
        missing key, a value of another type, a file name that leaves the suite, and a verdict that its reason denies.
        """
        row = Fields(value, where, advice)
        scores, crop, edits = row.table_or_none("scores"), row.table("crop"), row.tables("edits")
        picture = cls(
            file_name=checked_name(row.text("file_name"), row.label("file_name")),
            sha256=row.text("sha256"),
            kind=_kind(row),
            source=row.text("source"),
            label=row.text_or_none("label"),
            mask=_name_or_none(row, "mask_file_name"),
            original=checked_name(row.text("original_file_name"), row.label("original_file_name")),
            control=_name_or_none(row, "control_file_name"),
            caption=row.text("caption"),
            edited_caption=row.text("edited_caption"),
            edits=tuple(Edit(edit.text("type"), edit.text("keyword"), edit.text("alternative")) for edit in edits),
            number=row.whole("number"),
            repeat=row.whole("repeat"),
            level=row.whole("level"),
            levels=row.whole("levels"),
            painting=_painting(row),
            scores={} if scores is None else scores.numbers(),
            reason=row.text_or_none("reason"),
            origin=Origin(
                row.text("source_path"),
                row.text("source_sha256"),
                row.whole("source_width"),
                row.whole("source_height"),
                (crop.number("left"), crop.number("top"), crop.number("width"), crop.number("height")),
            ),
            source_key=row.text("source_key"),
            key=row.text("key"),
            protected=row.text_list("protected"),
            boxes=tuple(map(_box, row.tables("boxes"))),
            known_world=row.flag("known_world"),
            edit_scores=_edit_scores(edits),
        )
        if row.text("verdict") != picture.verdict:
            raise row.refuse("verdict", f"{picture.verdict.value!r}, as there is {_reason(picture)}")
        return picture


@dataclass(frozen=True)
class DroppedVariant:
    """A variant whose text broke the task's rules, so that it was never painted: number `variant` of its source."""

    source: str
    variant: int
    edited_caption: str
    reason: str

    @classmethod
    def from_fields(cls, row: Fields) -> DroppedVariant:
        """The variant that `asdict` gave. Raises CounterfactoryError for anything else."""
        return cls(row.text("source"), row.whole("variant"), row.text("edited_caption"), row.text("reason"))


_PAINTING = tuple(field.name for field in fields(Painting))


def _kind(row: Fields) -> Kind:
    for kind in KINDS:
        if row.text("kind") == kind:
            return kind
    raise row.refuse("kind", " or ".join(map(repr, KINDS)))


def _box(box: Fields) -> Box:
    points = tuple(Keypoint(p.number("x"), p.number("y"), p.whole("visibility")) for p in box.tables("keypoints"))
    return Box(box.number("x0"), box.number("y0"), box.number("x1"), box.number("y1"), box.text("label"), points)


def _painting(row: Fields) -> Painting | None:
    if row.text("kind") == "original":
        return None
    return Painting(
        row.whole("seed"),
        row.whole("steps"),
        row.number("guidance_scale"),
        row.number("guidance_start"),
        row.number("guidance_stop"),
        row.number_or_none("self_attention"),
    )


def _name_or_none(row: Fields, key: str) -> str | None:
    name = row.text_or_none(key)
    return None if name is None else checked_name(name, row.label(key))


def _edit_scores(edits: Sequence[Fields]) -> tuple[float, ...]:
    """All of them or none."""
    scored = edits and edits[0].number_or_none("score") is not None
    return tuple(edit.number("score") for edit in edits) if scored else ()


def _reason(row: PictureRow) -> str:
    return "no reason to reject it" if row.reason is None else f"the reason {row.reason!r}"
