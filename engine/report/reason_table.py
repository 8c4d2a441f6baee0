"""Why variants were rejected, counted: a table for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..stages.verdict import check_meaning, failed_check
from ..suite import PictureRow
from .table import Table


def reason_table(rows: Sequence[PictureRow]) -> Table | None:
    """The rejected variants by the check that each failed first, most often first; None where none was rejected."""
    variants = [row for row in rows if row.kind == "variant"]
    counts = Counter(failed_check(row.reason) for row in variants if row.reason is not None)
    if not counts:
        return None
    lines = [
        (check_meaning(name) or name, name, f"{count:,}", f"{100 * count / len(variants):.1f} %")
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table("Rejected variants", ("why", "check", "variants", "of all"), tuple(lines))
