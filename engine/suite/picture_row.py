"""Rows of pictures: of metadata.parquet, how a picture of the suite was made; of the ledger, which files hold it; and a
variant that has no picture.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import pyarrow as pa

from ..edit import Edit
from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..sources.shapes import Box, things
from ..variant import Kind
from .paths import checked_name


def _columns(kind: pa.DataType, names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, kind) for name in names.split()]


_EDIT = pa.struct([*_columns(pa.string(), "type keyword alternative"), ("score", pa.float64())])
_CROP = pa.struct(_columns(pa.float64(), "left top width height"))
_KEYPOINT = pa.struct([*_columns(pa.float64(), "x y"), ("visibility", pa.int64())])
_BOX = pa.struct(
    [
        *_columns(pa.float64(), "x0 y0 x1 y1"),
        ("label", pa.string()),
        ("keypoints", pa.list_(_KEYPOINT)),
        ("ignored", pa.string()),
    ]
)
_TEXTS = pa.list_(pa.string())
BEFORE_SCORES = (
    *_columns(pa.string(), "file_name sha256 kind source label mask_file_name"),
    ("boxes", pa.list_(_BOX)),
    *_columns(pa.string(), "original_file_name control_file_name caption"),
    ("protected", _TEXTS),
    ("edited_caption", pa.string()),
    ("edits", pa.list_(_EDIT)),
    ("edit_types", _TEXTS),
    *_columns(pa.int64(), "number repeat level levels seed steps"),
    *_columns(pa.float64(), "guidance_scale guidance_start guidance_stop self_attention"),
    ("painter", pa.string()),
)
AFTER_SCORES = (
    *_columns(pa.string(), "verdict reason source_path source_sha256"),
    *_columns(pa.int64(), "source_width source_height"),
    ("crop", _CROP),
    ("known_world", pa.bool_()),
    *_columns(pa.string(), "source_key key"),
)
COLUMNS = tuple(name for name, _ in (*BEFORE_SCORES, ("scores", None), *AFTER_SCORES))


Verdict = Literal["accepted", "rejected"]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a picture goes back to: its `path` as the set of sources names it, its SHA-256, and its pixels."""

    path: str
    sha256: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Crop:
    """The box of a source's file that was scaled to the picture, in the file's pixels."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class _EditScores:
    """The scores in a row's edits."""

    @dataclass(frozen=True)
    class Item:
        score: float | None

    edits: tuple[Item, ...]


PAINTING = tuple(field.name for field in fields(Painting))
_SOURCE = tuple(field.name for field in fields(Origin))
# The fields that hold a file's name, by their columns.
_FILES = {"file_name": "file_name"} | {name: f"{name}_file_name" for name in ("mask", "original", "control")}


@dataclass(frozen=True, slots=True)
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
    `painter` is who painted it (profile/painter.py); None of an original, and in suites older than that.
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
    painting: Painting | None = field(metadata={"prefix": "", "names": PAINTING})
    scores: Mapping[str, float]
    reason: str | None
    origin: Origin = field(metadata={"prefix": "source_", "names": _SOURCE})
    crop: Crop
    source_key: str
    key: str
    protected: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    known_world: bool = True
    repeat: int = 0
    level: int = 1
    levels: int = 1
    edit_scores: tuple[float, ...] = ()
    painter: str | None = None

    @property
    def unit(self) -> str:
        """What stands for itself among pictures: the source."""
        return self.source

    @property
    def accepted(self) -> bool:
        """Whether the picture counts."""
        return self.reason is None

    @property
    def verdict(self) -> Verdict:
        """Accepted, or rejected for a reason."""
        return "accepted" if self.reason is None else "rejected"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names: picture, mask, original and control, each once."""
        names = dict.fromkeys((self.file_name, self.mask, self.original, self.control))
        return tuple(name for name in names if name is not None)

    @property
    def things(self) -> tuple[Box, ...]:
        """The boxes of what a model has to find."""
        return things(self.boxes)

    @property
    def edit_types(self) -> tuple[str, ...]:
        """The edits' types, in the edits' order."""
        return tuple(edit.type for edit in self.edits)

    def to_json(self) -> dict[str, Any]:
        """The row as the table holds it, verdict and types of edits included, which follow from the rest."""
        table, scores = plain(self), self.edit_scores or [None] * len(self.edits)
        table |= {column: table[name] for name, column in _FILES.items()}
        table |= {
            "edits": [{**edit, "score": score} for edit, score in zip(table["edits"], scores, strict=True)],
            "edit_types": list(self.edit_types),
            "scores": dict(self.scores) or None,  # a table's struct of no fields is null
            "verdict": self.verdict,
        }
        return {name: table[name] for name in COLUMNS}

    @classmethod
    def from_json(cls, value: object, where: str, advice: str, shared: dict[Hashable, Any] | None = None) -> PictureRow:
        """The row that `to_json` gave, or that the table holds, where a score that the row lacks is null.

        `where` is what to call its place in errors, `advice` what to do about one; `shared` is as for `fill_record`.
        Raises CounterfactoryError for a missing key, a value of another type, a file name that leaves the suite, and a
        verdict that its reason denies.
        """
        edit_scores = [edit.score for edit in fill_record(_EditScores, value, where, advice).edits]
        table = dict(value) if isinstance(value, Mapping) else {}
        for name, column in _FILES.items():
            table[name] = table.get(column)
            if table[name] is not None or name in ("file_name", "original"):
                checked_name(table[name], f"{where}: {column!r}")
        if isinstance(scores := table.get("scores") or {}, Mapping):
            table["scores"] = {name: score for name, score in scores.items() if score is not None}
        table["edit_scores"] = edit_scores if any(score is not None for score in edit_scores) else []
        row = fill_record(cls, table, where, advice, shared)
        wrong = ""
        if table.get("verdict") != row.verdict:
            why = "no reason to reject it" if row.reason is None else f"the reason {row.reason!r}"
            wrong = f"'verdict' should be {row.verdict!r}, as there is {why}, found {table.get('verdict')!r}"
        elif row.painting is None and row.kind != "original":
            wrong = f"a {row.kind} needs seed and steps"
        if wrong:
            raise CounterfactoryError(f"{where}: {wrong}; {advice}")
        return row


@dataclass(frozen=True)
class DroppedVariant:
    """A variant whose text broke the task's rules, so that it was never painted: number `variant` of its source."""

    source: str
    variant: int
    edited_caption: str
    reason: str


@dataclass(frozen=True)
class StoredFile:
    """A file of the suite: its `path` seen from there, its size in `bytes`, and the `sha256` of what it holds."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class PaintedRow:
    """The files of a painted picture: the `image`, and the `mask` that was carried over, where there is one.

    `self_attention` is the share of the steps on which an edited source's self-attention was taken over, of the shares
    that were tried the one whose picture was kept; None where nothing was tried.
    """

    image: StoredFile
    mask: StoredFile | None
    self_attention: float | None = None

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """The picture, and its mask where it has one."""
        return (self.image,) if self.mask is None else (self.image, self.mask)

    def to_json(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        row = plain(self)
        if self.self_attention is None:  # rows of pictures painted anew stay what they were
            del row["self_attention"]
        return row

    @classmethod
    def from_json(cls, value: object, where: str, advice: str) -> PaintedRow:
        """The row that `to_json` gave. `where` is what to call its place in errors, `advice` what to do about one.
        Raises CounterfactoryError for anything else, and for a path that leaves the suite.
        """
        row = fill_record(cls, value, where, advice)
        for name, file in (("image", row.image), ("mask", row.mask)):
            if file is not None:
                checked_name(file.path, f"{where}: '{name}.path'")
        return row


def count_outside(rows: Iterable[PictureRow]) -> tuple[int, int]:
    """How many of the rows' sources are outside of what the models know, and how many sources there are."""
    in_domain = {row.source: row.known_world for row in rows}
    return list(in_domain.values()).count(False), len(in_domain)


def caution(outside: int, sources: int) -> str | None:
    """The sentence for so many of the sources; None where the models know all of them."""
    if not outside:
        return None
    which = "the source is" if sources == 1 else f"{outside} of {sources} sources are"
    of_it = "it" if sources == 1 else "them"
    return (
        f"{which} unlike anything that the models were trained on: pictures painted from {of_it}, and figures about "
        f"{of_it}, are meaningless"
    )
