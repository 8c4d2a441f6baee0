"""The report folder: `index.html`, `contact_sheet.png` and the sources' pictures, made from a suite.

It is made from a suite's rows and, if they are at hand, the sources. Made again without sources, it keeps the pictures
that it has. The suite itself is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..sources.source import ImageSettings, Source, load_pixels
from ..suite import VariantRow
from ..suite.paths import Folder
from .album import Answer, group_by_source, pick_evenly, write_pictures
from .page import write_page
from .sheet import write_sheet
from .table import Table

SHEET_ROWS = 8


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


def write_report(
    folder: Path,
    rows: Sequence[VariantRow],
    suite: Path,
    text: ReportText,
    *,
    sources: Sequence[Source] = (),
    image: ImageSettings,
    edges: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
    answers: Mapping[str, Answer] | None = None,
    limit: int = 200,
) -> ReportFiles:
    """Write the report of a suite into `folder`: at most `limit` sources on the page, `SHEET_ROWS` on the sheet.

    `rows` are the suite's metadata; `sources` those whose pictures are to be shown as the models saw them, by `image`
    and by `edges`, which takes uint8 [B, H, W, 3] to uint8 [B, H, W]; `answers` as in `group_by_source`. Raises
    CounterfactoryError for sources that changed since, and for a report in the suite that a link would lead out of it.
    """
    files = ReportFiles(folder / "index.html", folder / "contact_sheet.png")
    pictures = folder / "pictures"
    if folder.is_relative_to(suite):  # a suite may come from anybody, with links in it
        Folder(suite).refuse_outward_links([folder.relative_to(suite).as_posix()])
        Folder(folder).refuse_outward_links([path.name for path in (files.page, files.sheet, pictures)])
    album = pick_evenly(group_by_source(rows, suite, pictures, answers), limit)
    shown = {strip.name for strip in album}
    for source in sources:
        if source.name in shown:
            pixels = load_pixels(source, image.short_side, image.multiple, image.max_long_side)
            write_pictures(source.name, pixels, edges(pixels[None])[0], pictures)
    album = pick_evenly(group_by_source(rows, suite, pictures, answers), limit)
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
