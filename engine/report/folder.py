"""The report folder: `index.html`, `contact_sheet.png` and the sources' pictures, made from a suite.

It is made from a suite's rows and, if they are at hand, the sources. Made again without sources, it keeps the pictures
that it has. The suite itself is only read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError
from ..sources.source import load_pixels
from ..suite import VariantRow
from ..suite.paths import Folder
from .album import Answer, group_by_source, pick_evenly, write_pictures
from .originals import Originals
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


def describe_suite(rows: Sequence[VariantRow], tables: tuple[Table, ...] = ()) -> ReportText:
    """What a report says of a suite whose models under test it does not know."""
    sources, accepted = len({row.source for row in rows}), sum(row.accepted for row in rows)
    return ReportText(
        title="A counterfactual suite",
        subtitle=f"{sources} sources, {len(rows)} variants, {accepted} accepted.",
        figures=(("sources", str(sources)), ("variants accepted", f"{accepted} of {len(rows)}")),
        tables=tables,
    )


def write_report(
    folder: Path,
    rows: Sequence[VariantRow],
    suite: Path,
    text: ReportText,
    *,
    originals: Originals | None = None,
    answers: Mapping[str, Answer] | None = None,
    limit: int = 200,
) -> ReportFiles:
    """Write the report of a suite into `folder`: at most `limit` sources on the page, `SHEET_ROWS` on the sheet.

    `rows` are the suite's metadata, of which there is at least one; `originals` the sources to show beside their
    variants; `answers` as in `group_by_source`. Raises CounterfactoryError for a suite without variants, for sources
    that changed since, and for a report in the suite that a link would lead out of it.
    """
    if not rows:
        raise CounterfactoryError(f"{suite} holds no variant to show")
    files = ReportFiles(folder / "index.html", folder / "contact_sheet.png")
    pictures = folder / "pictures"
    if folder.is_relative_to(suite):  # a suite may come from anybody, with links in it
        Folder(suite).refuse_outward_links([folder.relative_to(suite).as_posix()])
        Folder(folder).refuse_outward_links([path.name for path in (files.page, files.sheet, pictures)])
    album = pick_evenly(group_by_source(rows, suite, pictures, answers), limit)
    shown = {strip.name for strip in album}
    if originals is not None:
        _write_originals(originals, shown, pictures)
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


def _write_originals(originals: Originals, shown: Collection[str], pictures: Path) -> None:
    size = originals.image
    for source in originals.sources:
        if source.name in shown:
            pixels = load_pixels(source, size.short_side, size.multiple, size.max_long_side)
            write_pictures(source.name, pixels, originals.edges(pixels[None])[0], pictures)
