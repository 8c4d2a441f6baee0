"""A row of metadata.parquet: one variant that has a picture, and everything that made it; and one that has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from ..edit import Edit
from .fields import Fields
from .paths import checked_name


class Verdict(StrEnum):
    """What the checks made of a variant."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True)
class VariantRow:
    """Variant number `variant` (from 0) of a source.

    `file_name` and `mask` are files of the suite, `sha256` is of the picture's file. `steps` of denoising were taken;
    step i was guided by `guidance_scale` while guidance_start <= i / steps < guidance_stop. `scores` holds what the
    checks measured, by name. `reason` says why the variant was rejected; None where it was accepted.
    """

    file_name: str
    sha256: str
    source: str
    label: str | None
    mask: str | None
    caption: str
    edited_caption: str
    edits: tuple[Edit, ...]
    variant: int
    seed: int
    steps: int
    guidance_scale: float
    guidance_start: float
    guidance_stop: float
    scores: Mapping[str, float]
    reason: str | None
    source_key: str
    variant_key: str

    @property
    def accepted(self) -> bool:
        """Whether the variant counts."""
        return self.reason is None

    @property
    def verdict(self) -> Verdict:
        """Accepted, or rejected for a reason."""
        return Verdict.ACCEPTED if self.reason is None else Verdict.REJECTED

    @property
    def edit_types(self) -> tuple[str, ...]:
        """The edits' types, in the edits' order."""
        return tuple(edit.type for edit in self.edits)

    def to_json(self) -> dict[str, Any]:
        """The row as JSON holds it, verdict and types of edits included, which follow from the rest."""
        values = {name: getattr(self, name) for name in _NAMES}
        edits = [asdict(edit) for edit in self.edits]
        return {
            **values,
            "edits": edits,
            "edit_types": list(self.edit_types),
            "scores": dict(self.scores) or None,  # a table's struct of no fields is null
            "verdict": str(self.verdict),
        }

    @classmethod
    def from_json(cls, value: object, where: str, advice: str) -> VariantRow:
        """The row that `to_json` gave, or that the table holds, where a score that the row lacks is null.

        `where` is what to call its place in errors, `advice` what to do about one. Raises CounterfactoryError for a
        missing key, a value of another type, a file name that leaves the suite, and a verdict that its reason denies.
        """
        row = Fields(value, where, advice)
        scores, mask = row.table_or_none("scores"), row.text_or_none("mask")
        found = cls(
            file_name=checked_name(row.text("file_name"), row.label("file_name")),
            sha256=row.text("sha256"),
            source=row.text("source"),
            label=row.text_or_none("label"),
            mask=None if mask is None else checked_name(mask, row.label("mask")),
            caption=row.text("caption"),
            edited_caption=row.text("edited_caption"),
            edits=tuple(
                Edit(edit.text("type"), edit.text("keyword"), edit.text("alternative")) for edit in row.tables("edits")
            ),
            variant=row.whole("variant"),
            seed=row.whole("seed"),
            steps=row.whole("steps"),
            guidance_scale=row.number("guidance_scale"),
            guidance_start=row.number("guidance_start"),
            guidance_stop=row.number("guidance_stop"),
            scores={} if scores is None else scores.numbers(),
            reason=row.text_or_none("reason"),
            source_key=row.text("source_key"),
            variant_key=row.text("variant_key"),
        )
        if row.text("verdict") != found.verdict:
            raise row.refuse("verdict", f"{found.verdict.value!r}, as there is {_reason(found)}")
        return found


@dataclass(frozen=True)
class Dropped:
    """A variant whose text broke the task's rules, so that it was never painted: number `variant` of its source."""

    source: str
    variant: int
    edited_caption: str
    reason: str

    @classmethod
    def from_fields(cls, row: Fields) -> Dropped:
        """The variant that `asdict` gave. Raises CounterfactoryError for anything else."""
        return cls(row.text("source"), row.whole("variant"), row.text("edited_caption"), row.text("reason"))


_NAMES = tuple(field.name for field in fields(VariantRow))


def _reason(row: VariantRow) -> str:
    return "no reason to reject it" if row.reason is None else f"the reason {row.reason!r}"
