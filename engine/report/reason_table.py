"""Why variants were rejected, counted: a table for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..stages.check.verdict import check_meaning, failed_check
from ..suite import PictureRow
from .table import Table


def reason_table(rows: Sequence[PictureRow]) -> Table | None:
    """The rejected variants by the check that each failed first, most often first; None where none was rejected."""
    variants = [row for row in rows if row.kind == "variant"]
    counts = Counter((_why(row, row.reason), failed_check(row.reason)) for row in variants if row.reason is not None)
    if not counts:
        return None
    lines = [
        (why, name, f"{count:,}", f"{100 * count / len(variants):.1f} %")
        for (why, name), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table("Rejected variants", ("why", "check", "variants", "of all"), tuple(lines))


def _why(row: PictureRow, reason: str) -> str:
    """What it means that a check failed; of "valid", to which all checks come, what was doubted most."""
    name = failed_check(reason)
    doubted = reason.rpartition(f": {name} ")[0] if name == "valid" else ""
    shown = [edit.type for edit in row.edits if doubted.startswith(repr(edit.alternative or edit.keyword))]
    if shown:
        return f"an edit of {shown[0]} does not show"
    return doubted or check_meaning(name) or name
