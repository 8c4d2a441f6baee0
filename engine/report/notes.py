"""What readers have to know of a suite, in sentences: the first lines of the page, of the sheet and of `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence

from ..suite import PictureRow, caution, count_outside


def suite_notes(rows: Sequence[PictureRow]) -> tuple[str, ...]:
    """What a suite's rows say about all that is read off them; empty where all is as it should be."""
    warning = caution(*count_outside(rows))
    first = () if warning is None else (warning,)
    variants = [row for row in rows if row.kind == "variant"]
    if variants and not any(row.accepted for row in variants):
        return (*first, "no variant was accepted: there is nothing to compare")
    return (*first, *_control_notes(rows))


def _control_notes(rows: Sequence[PictureRow]) -> list[str]:
    varied = {row.source for row in rows if row.kind == "variant" and row.accepted}
    painted = {row.source for row in rows if row.kind == "control"}
    controlled = {row.source for row in rows if row.kind == "control" and row.accepted}
    if not painted or not varied - controlled:
        return []
    if not varied & controlled:
        return ["no control was accepted: what painting does by itself cannot be told from what edits do"]
    return [
        f"{len(varied - controlled)} of {len(varied)} sources have no accepted control: their variants are compared "
        "with one another only"
    ]
