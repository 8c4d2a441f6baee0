"""The report folder: `index.html`, `contact_sheet.png` and the sources' edges, made from a suite.

The suite itself is only read. Made again without edges, a report keeps those that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ..errors import CounterfactoryError
from ..suite import PictureRow
from ..suite.paths import Folder
from .album import Answer, Strip, edges_path, group_by_source, pick_evenly
from .outlines import EdgeDetector
from .page import write_page
from .sheet import write_sheet
from .table import Table

SHEET_ROWS = 8
_AGAIN = "run the `counterfactory generate` that made it again"


@dataclass(frozen=True)
class ReportText:
    """What a report says beside its pictures."""

    title: str
    subtitle: str
    figures: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    footer: str = ""


@dataclass(frozen=True)
class ReportFiles:
    """Where a person looks."""

    page: Path
    sheet: Path


def describe_suite(rows: Sequence[PictureRow], tables: tuple[Table, ...] = ()) -> ReportText:
    """What a report says of a suite whose models under test it does not know."""
    variants = [row for row in rows if row.kind == "variant"]
    sources, accepted = len({row.source for row in variants}), sum(row.accepted for row in variants)
    return ReportText(
        title="A counterfactual suite",
        subtitle=f"{sources} sources, {len(variants)} variants, {accepted} accepted.",
        figures=(("sources", str(sources)), ("variants accepted", f"{accepted} of {len(variants)}")),
        tables=tables,
    )


def write_report(
    folder: Path,
    rows: Sequence[PictureRow],
    suite: Path,
    text: ReportText,
    *,
    edges: EdgeDetector | None = None,
    answers: Mapping[str, Answer] | None = None,
    limit: int = 200,
) -> ReportFiles:
    """Write the report of a suite into `folder`: at most `limit` sources on the page, `SHEET_ROWS` on the sheet.

    `rows` are the suite's metadata; `edges` finds those of the originals on the page; `answers` as in
    `group_by_source`. Raises CounterfactoryError for a suite without variants, and for a report in the suite that a
    link would lead out of it.
    """
    if not any(row.kind == "variant" for row in rows):
        raise CounterfactoryError(f"{suite} holds no variant to show")
    files = ReportFiles(folder / "index.html", folder / "contact_sheet.png")
    outlines = folder / "edges"
    if folder.is_relative_to(suite):  # a suite may come from anybody, with links in it
        Folder(suite).refuse_outward_links([folder.relative_to(suite).as_posix()])
        Folder(folder).refuse_outward_links([path.name for path in (files.page, files.sheet, outlines)])
    album = pick_evenly(group_by_source(rows, suite, outlines, answers), limit)
    if edges is not None:
        for strip in album:
            _write_edges(edges, strip, edges_path(strip.name, outlines))
        album = pick_evenly(group_by_source(rows, suite, outlines, answers), limit)
    write_sheet(pick_evenly(album, SHEET_ROWS), files.sheet, text.title, text.subtitle)
    write_page(
        album,
        files.page,
        title=text.title,
        subtitle=text.subtitle,
        figures=text.figures,
        tables=text.tables,
        footer=text.footer,
    )
    return files


def _write_edges(edges: EdgeDetector, strip: Strip, path: Path) -> None:
    try:
        pixels = np.asarray(Image.open(strip.image, formats=["PNG"]).convert("RGB"))
    except FileNotFoundError as error:
        raise CounterfactoryError(f"{strip.image} is missing: {_AGAIN}") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise CounterfactoryError(f"{strip.image} is no picture of ours: delete it, and {_AGAIN}") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(edges(pixels[None])[0]).save(path)
