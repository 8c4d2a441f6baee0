"""The report folder: `index.html`, `contact_sheet.png`, `report.json`, the sources' edges and masks in colours.

The suite itself is only read. Made again without edges, a report keeps those that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import CounterfactoryError
from ..files.writing import make_folder, open_whole, place_below, write_whole
from ..light.menu import MENU
from ..profile.painter import NO_EDGES
from ..profile.profile import Profile
from ..schedule.overlap import prefetch, write_behind
from ..stages.maps.draw_maps import edge_maps
from ..suite import PictureRow
from ..suite.images import open_png
from ..tasks.spread import spread_of
from .album import Answer, Strip, add_drawn, drawn_path, group_by_source, pick_evenly
from .coloured_masks import draw_mask
from .page import ReportText, write_page
from .sheet import draw_sheet
from .suite_text import edit_table, reason_table, skew_notes
from .summary import markdown_summary, report_json
from .thumbnails import draw_thumbnails, embed_pictures

SHEET_ROWS = 8
# Sources on the page, where nobody asks for another number.
LIMIT = 2000
# Pictures that are read ahead of finding their edges, and edges that wait to be written.
_AHEAD = 8
Images = NDArray[np.uint8]
# Takes uint8 RGB [B, H, W, 3] to uint8 [B, H, W].
EdgeDetector = Callable[[Images], Images]
_AGAIN = "run the `counterfactory generate` that made it again"


@dataclass(frozen=True)
class ReportFiles:
    """Where a person looks, and a program (`data`); `left_out` says what of the suite is not on the page."""

    page: Path
    sheet: Path
    data: Path
    left_out: tuple[str, ...] = ()


def write_report(
    folder: Path,
    rows: Sequence[PictureRow],
    suite: Path,
    text: ReportText,
    *,
    edges: EdgeDetector | None = None,
    answers: Mapping[str, Answer] | None = None,
    limit: int = LIMIT,
    single_file: Path | None = None,
    markdown: Path | None = None,
) -> ReportFiles:
    """Write the report of a suite into `folder`: at most `limit` sources on the page, `SHEET_ROWS` on the sheet.

    `rows` are the suite's metadata; `edges` finds those of the originals on the page; `answers` as in
    `group_by_source`. What is left out is said on the page. `single_file` is another page to write, which holds its
    pictures, and `markdown` a summary. Raises CounterfactoryError for a suite without variants, and for a report in the
    suite that a link would lead out of it.
    """
    if not any(row.kind == "variant" for row in rows):
        raise CounterfactoryError(f"{suite} holds no variant to show")
    folder, below = place_below(folder, suite)  # a suite may come from anybody, with links in it
    make_folder(folder, below)
    below = below or folder
    files = ReportFiles(folder / "index.html", folder / "contact_sheet.png", folder / "report.json")
    album = group_by_source(rows, suite, folder, answers)
    sources, album = len(album), pick_evenly(album, limit)
    masks = {row.source: row.mask for row in rows}
    if edges is not None:
        _write_edges(edges, album, folder, below)
    for strip in album:
        mask = masks[strip.name]
        if mask is not None:
            draw_mask(suite / mask, drawn_path("masks", strip.name, folder), below)
    album = [add_drawn(strip, folder, masks[strip.name] is not None) for strip in album]
    sheet = draw_sheet(pick_evenly(album, SHEET_ROWS), text.title, text.subtitle, text.notes)
    with open_whole(files.sheet, sync="nothing", below=below) as file:
        sheet.save(file, "PNG")
    text = _with_edits(text, rows)
    left_out = tuple(_left_out(rows, sources, len(album)))
    shown = replace(text, remarks=(*text.remarks, *left_out))
    write_page(album, files.page, shown, draw_thumbnails(album, suite, folder / "thumbnails", below), below=below)
    if single_file is not None:
        some, pictures = embed_pictures(album)
        left_out = tuple(_left_out(rows, sources, len(some)))
        page, root = place_below(single_file, suite)
        make_folder(page.parent, root)
        write_page(some, page, replace(text, remarks=(*text.remarks, *left_out)), embedded=pictures, below=root)
    for path, words in ((files.data, report_json), (markdown, markdown_summary)):
        if path is not None:
            path, root = place_below(path, suite)
            write_whole(path, words(text), sync="nothing", below=root)
    return replace(files, left_out=left_out)


def _with_edits(text: ReportText, rows: Sequence[PictureRow]) -> ReportText:
    """The same, with why variants were rejected, and how edits are spread."""
    edits = spread_of(edit for row in rows if row.kind == "variant" and row.accepted for edit in row.edits)
    rejected = reason_table(rows)
    tables = (*text.tables, *([rejected] if rejected else []), *([edit_table(edits)] if edits else []))
    by_rule = all(row.painter == "light" for row in rows if row.kind == "variant")
    skew = skew_notes(edits, [type_ for type_, values in MENU.items() if by_rule and len(values) == 1])
    return replace(text, tables=tables, remarks=(*text.remarks, *skew))


def _left_out(rows: Sequence[PictureRow], sources: int, shown: int) -> list[str]:
    """What a reader might look for on the page and not find."""
    notes = []
    if shown < sources:
        notes.append(f"{shown:,} of {sources:,} sources are on this page, evenly from all; --limit N shows more")
    without = len({row.source for row in rows}) - sources
    if without:
        notes.append(f"{without} source{'s have' if without > 1 else ' has'} no variant, and no place here")
    more = sum(row.kind == "control" and row.number > 0 for row in rows)
    if more:
        notes.append(f"of each source the first control is shown; {more} more are in the suite")
    return notes


def _write_edges(edges: EdgeDetector, album: Sequence[Strip], folder: Path, below: Path) -> None:
    """Draw the edges of the originals; pictures are read ahead and written behind."""

    def drawn() -> Iterator[tuple[Path, Images]]:
        for strip, pixels in prefetch(album, _pixels, _AHEAD):
            if isinstance(pixels, Exception):
                raise pixels
            yield drawn_path("edges", strip.name, folder), edges(pixels[None])[0]

    for _ in write_behind(drawn(), partial(_save, below=below), _AHEAD):
        pass


def _pixels(strip: Strip) -> Images:
    try:
        return open_png(strip.image, lambda image: np.asarray(image.convert("RGB")))
    except ValueError as error:
        if not strip.image.exists():
            raise CounterfactoryError(f"{strip.image} is missing: {_AGAIN}") from error
        raise CounterfactoryError(f"{strip.image} is no picture of ours: delete it, and {_AGAIN}") from error


def _save(drawn: tuple[Path, Images], below: Path) -> None:
    path, pixels = drawn
    with open_whole(path, sync="nothing", below=below) as file:
        Image.fromarray(pixels).save(file, "PNG")


def edge_detector(profile: Profile) -> EdgeDetector | None:
    """The detector of `profile`, None where nothing follows edges. Raises CounterfactoryError, when it is used, where
    its network is missing.
    """
    if profile.edges is NO_EDGES:
        return None
    if profile.edges.hed is None:
        return partial(edge_maps, settings=profile.edges)
    from ..meter.meter import Meter
    from ..models.model_pool import ModelPool
    from ..models.networks import library_of

    models = ModelPool(library_of(profile), Meter(lambda _: None))

    def detect(images: Images) -> Images:
        try:
            return edge_maps(images, profile.edges, models.hed(*images.shape[1:3]))
        except CounterfactoryError as error:
            raise CounterfactoryError(
                f"the edges of {profile.name} are found by the network hed: {error}; report on the box that has it, or "
                "with --no-edges"
            ) from error

    return detect
