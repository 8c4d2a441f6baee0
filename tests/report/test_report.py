"""The album, the contact sheet and the page: what is shown, that it is found, and that nothing escapes."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, unquote_to_bytes, urlparse

import numpy as np
import pytest
from conftest import MadeSuite
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from refusing import refusal
from report_pages import Reader, frame, page_of, strip

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.report.album import Answer, Frame, group_by_source, pick_evenly
from counterfactory.engine.report.findings import ReportFinding
from counterfactory.engine.report.folder import write_report
from counterfactory.engine.report.forest import Forest, ForestRow
from counterfactory.engine.report.page import ReportText
from counterfactory.engine.report.sheet import CELL, HUES, draw_sheet
from counterfactory.engine.report.table import Table
from counterfactory.engine.suite import read_metadata
from counterfactory.kernels.edges import EdgeSettings, canny_edges

OUTLINES = partial(canny_edges, settings=EdgeSettings())
HOSTILE = '</script><script>alert("x")</script> & \' "quoted" {{ 7 * 7 }} {% raw %} {# no #} --> 雨'


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "grey.png"
    Image.new("L", (8, 8)).save(path)
    return path


def test_report_of_a_suite_links_files_that_exist_and_a_limit_shows_both_ends(
    made_suite: MadeSuite, tmp_path: Path
) -> None:
    rows = read_metadata(made_suite.path)
    text = ReportText(title="Title", subtitle="Subtitle", figures=(("cost", "1.5"),))
    folder = tmp_path / "elsewhere" / "report"
    files = write_report(folder, rows, made_suite.path, text, edges=OUTLINES)
    text_of_page = files.page.read_text(encoding="utf-8")
    assert not re.search("http:|https:|@import", text_of_page), "it asks nothing of the network"
    page = Reader(text_of_page)
    links, variants = list(page.images), sum(row.kind == "variant" for row in rows)
    assert len(links) == variants + 3 * len(made_suite.street.names)
    for link in links:
        assert not urlparse(link).scheme
        assert (folder / unquote(link)).is_file()
    assert len(page.frames) == page.album["variants"] == variants
    assert [frame["reason"] is None for frame in page.frames].count(False) == 1
    files = write_report(tmp_path / "r", rows, made_suite.path, ReportText("t", "s"), limit=2)
    page = Reader(files.page.read_text(encoding="utf-8"))
    assert len(page.frames) == 4
    assert {one["source"] for one in page.strips} == {rows[0].source, rows[-1].source}
    assert files.left_out == ("2 of 3 sources are on this page, evenly from all; --limit N shows more",)


def test_sources_are_shown_as_the_suite_holds_them_with_their_edges(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    write_report(tmp_path / "report", rows, made_suite.path, ReportText("t", "s"), edges=OUTLINES)
    for shown in group_by_source(rows, made_suite.path, tmp_path / "report"):
        pixels = np.asarray(Image.open(shown.image).convert("RGB"))
        np.testing.assert_array_equal(
            pixels, np.asarray(Image.open(made_suite.street.root / "images" / f"{shown.name}.png").convert("RGB"))
        )
        assert shown.edges is not None
        np.testing.assert_array_equal(np.asarray(Image.open(shown.edges)), OUTLINES(pixels[None])[0])


def test_the_page_says_how_accepted_edits_are_spread(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    assert not all(row.accepted for row in rows)
    red, blue = Edit("colour", "green", "red"), Edit("colour", "green", "blue")
    kept = replace(next(row for row in rows if row.kind == "variant"), edits=(red,) * 25, edit_scores=())
    changed = [kept if row.key == kept.key else replace(row, edits=(), edit_scores=()) for row in rows]
    changed = [row if row.accepted else replace(row, edits=(blue,) * 25, edit_scores=()) for row in changed]
    answered = ReportText("t", "s", remarks=("mine",))
    write_report(tmp_path, changed, made_suite.path, answered)
    page = Reader((tmp_path / "index.html").read_text(encoding="utf-8")).words
    assert re.search(r"Edits ?type ?edits ?share ?values ?most often ?colour ?25 ?100 % ?1 ?red 100 %", page)
    assert page.index("mine") < page.index("100 % of the 25 edits of type colour bring 'red'")
    write_report(tmp_path, [replace(row, edits=(), edit_scores=()) for row in rows], made_suite.path, answered)
    assert "most often" not in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_control_stands_beside_its_source_and_is_no_variant(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    control = replace(rows[1], kind="control", number=0, edits=(), control=rows[1].file_name)
    rows = [rows[0], control, *rows[2:]]
    (first, *others) = group_by_source(rows, made_suite.path, tmp_path)
    assert first.control.image == made_suite.path / control.file_name
    assert len(first.frames) == 1
    assert all(strip.control is None for strip in others)
    write_report(tmp_path, rows, made_suite.path, ReportText("t", "s"))
    page = Reader((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert [one["control"] is None for one in page.strips] == [False, True, True]
    assert page.strips[0]["control"]["image"] == [os.path.relpath(made_suite.path / control.file_name, tmp_path)]
    sheets = [draw_sheet([strip], "", "") for strip in (first, others[0])]
    assert sheets[0].width == sheets[1].width  # one variant less, and the control


def test_an_original_that_is_no_picture_is_named(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    (made_suite.path / rows[0].original).write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    with refusal(rf"{rows[0].original} is no picture of ours: delete it, and run"):
        write_report(tmp_path, rows, made_suite.path, ReportText("t", "s"), edges=OUTLINES)
    write_report(tmp_path, rows, made_suite.path, ReportText("t", "s"))  # its cell is empty
    (made_suite.path / rows[0].original).unlink()
    with refusal(rf"{rows[0].original} is missing: run"):
        write_report(tmp_path, rows, made_suite.path, ReportText("t", "s"), edges=OUTLINES)


def test_a_sheet_opens_nothing_but_pngs(picture: Path, tmp_path: Path) -> None:
    """What a suite from somebody else calls .png may be meant for another decoder."""
    jpeg = tmp_path / "jpeg.png"
    Image.new("RGB", (8, 8), (10, 200, 30)).save(jpeg, "JPEG")
    for file in (jpeg, tmp_path / "missing.png"):
        sheet = np.asarray(draw_sheet([strip(frame(file))], "", ""))
        assert not (sheet == (10, 200, 30)).all(axis=-1).any()


def test_a_report_without_edges_keeps_those_that_it_has(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    pages = []
    for edges in (OUTLINES, None):
        files = write_report(tmp_path / "report", rows, made_suite.path, ReportText("t", "s"), edges=edges)
        pages.append((files.page.read_bytes(), files.sheet.read_bytes()))
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    "name", ["<script>alert(1)<", "'\" onerror='x", "javascript:x", "{{ 7 * 7 }}&amp;%41?#", "雨\udcff"]
)
def test_any_file_name_is_a_link_to_that_file(name: str, tmp_path: Path) -> None:
    image = tmp_path / "pictures" / name / "a.png"
    image.parent.mkdir(parents=True)
    Image.new("L", (8, 8)).save(image)
    page = page_of(tmp_path, strip(frame(image), image=image, edges=image, mask=image))
    links = list(page.images)
    assert len(links) == 4
    for path in links:
        assert not urlparse(path).scheme
        assert not set(path) & set("<>\"'() "), "it stands in an attribute, and in CSS's url()"
        assert (tmp_path / os.fsdecode(unquote_to_bytes(path))).samefile(image)
    assert len(page.all("script")) == 2


def test_words_from_outside_are_escaped(picture: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = dict.fromkeys(("file_name", "edited_caption", "reason"), HOSTILE)
    edits, wrong = (Edit(HOSTILE, HOSTILE, HOSTILE),), Answer(HOSTILE, False)
    hostile = frame(picture, **words, edits=edits, answer=wrong, scores={"edit": 0.5, HOSTILE: 0.5})
    album = strip(
        hostile,
        *(frame(picture, answer=Answer("car", False)), frame(picture, scores={f"edit_{HOSTILE}": 0.1})),
        control=frame(picture, answer=wrong),
        **dict.fromkeys(("name", "label", "caption"), HOSTILE),
        answer=Answer(HOSTILE, True),
    )
    other = strip(frame(picture, reason="edit 0.1 is below 0.2"), label="bus")
    table = Table(HOSTILE, (HOSTILE, "q"), ((HOSTILE, HOSTILE),), (HOSTILE,), of="class", confusion=True)
    row = ForestRow(HOSTILE, HOSTILE, 1, True, 1.0, 2.0, 3.0, "class")
    forest = Forest(HOSTILE, ((HOSTILE, (row,)),), ((1.0, HOSTILE),), 0.0)
    finding = ReportFinding(HOSTILE, True, (("class", HOSTILE),))
    page = page_of(
        *(tmp_path, album, other),
        figures=((HOSTILE, HOSTILE),),
        tables=(table,),
        footer=HOSTILE,
        notes=(HOSTILE,),
        remarks=(HOSTILE,),
        findings=(finding,),
        forests=(forest,),
        limits={HOSTILE: (0.1, None)},
    )
    assert len(page.all("script")) == 2
    assert page.words.count(HOSTILE) >= 20
    first = page.frames[0]
    assert {first[key] for key in ("name", "caption", "reason")} == {HOSTILE}
    assert first["edits"] == [[HOSTILE, "other", HOSTILE, HOSTILE, None]]
    links = [a["href"] for a in page.all("a") if "shows" in str(a.get("class"))]
    assert len(links) >= 3, "of the finding, of the chart's row, of the table's row"
    assert all(parse_qs(str(link)[1:]) == {"class": [HOSTILE]} for link in links)


def test_the_script_writes_no_markup() -> None:
    script = files("counterfactory.engine.report").joinpath("page.js").read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|javascript:", script
    )
    assert "textContent" in script


def test_filters_offer_what_differs(picture: Path, tmp_path: Path) -> None:
    def choices(*frames: Frame) -> set[tuple[str | None, str | None]]:
        inputs = page_of(tmp_path, strip(*frames)).all("input")
        return {(i["name"], i["value"]) for i in inputs if i["type"] == "radio" and i["value"]}

    night = frame(picture, edits=(Edit("time", "day", "night"),))
    assert choices(frame(picture), night) == {("type", "weather"), ("type", "time")}
    assert choices(frame(picture, edits=(Edit("the sky", "blue", "red"),))) == {("type", "the sky")}
    assert ("verdict", "rejected") in choices(frame(picture), frame(picture, reason="too dark"))
    assert ("answer", "wrong") in choices(frame(picture, answer=Answer("car", False)))


def test_sheet_has_a_cell_for_every_picture(picture: Path) -> None:
    assert set(HUES) == set(EDIT_TYPES)
    one = strip(frame(picture), image=picture, edges=picture)
    three = strip(*[frame(picture)] * 3, image=picture, edges=picture)
    sheet = draw_sheet([one, three], "Title", "Subtitle")
    green = (np.asarray(sheet) == (10, 200, 30)).all(axis=-1)
    pieces = green.sum() / CELL**2
    assert pieces == pytest.approx(3 + 5, rel=0.02)  # the corners are round


def test_sheet_marks_rejected_and_wrong(picture: Path) -> None:
    def red(changed: Frame, control: Frame | None = None) -> int:
        sheet = np.asarray(draw_sheet([strip(changed, control=control)], "", "")).astype(int)
        return int(((sheet[..., 0] > 180) & (sheet[..., 1] < 60) & (sheet[..., 2] < 80)).sum())

    assert red(frame(picture)) == 0
    assert red(frame(picture, answer=Answer("bus", True))) == 0
    assert red(frame(picture, answer=Answer("car", False))) > 50
    assert red(frame(picture, reason="unlike its caption")) > 4 * CELL
    assert red(frame(picture), frame(picture)) == 0
    assert red(frame(picture), frame(picture, reason="unlike its caption")) > 4 * CELL


@settings(max_examples=30)
@given(st.text(max_size=300), st.text(max_size=300))
def test_sheet_takes_any_words(grey: Path, keyword: str, alternative: str) -> None:
    worded = frame(grey, edits=(Edit("weather", keyword, alternative),), answer=Answer(alternative, False))
    sheet = draw_sheet([strip(worded, name=keyword, label=alternative)], keyword, alternative)
    assert sheet.width == draw_sheet([strip(frame(grey))], "", "").width


@given(st.integers(1, 60), st.integers(2, 20))
def test_strips_are_picked_evenly_and_in_order(length: int, count: int) -> None:
    album = [strip(name=str(i)) for i in range(length)]
    chosen = [int(s.name) for s in pick_evenly(album, count)]
    assert len(chosen) == min(length, count)
    assert chosen == sorted(set(chosen))
    assert (chosen[0], chosen[-1]) == (0, length - 1)


def test_strips_keep_the_suite_s_order(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    answers = {rows[1].file_name: Answer("car", False), rows[0].file_name: Answer("bus", True)}
    album = group_by_source(list(reversed(rows)), made_suite.path, tmp_path, answers)
    assert sorted(s.name for s in album) == list(made_suite.street.names)
    for made in album:
        assert [f.image.parent.name for f in made.frames] == [made.name.split("/")[1]] * 2
    frames = {f.image: f for s in album for f in s.frames}
    shown = {row.file_name: row for row in rows}
    assert all(f.row == shown[f.row.file_name] for f in frames.values())
    assert frames[made_suite.path / rows[1].file_name].answer == Answer("car", False)
    assert next(strip for strip in album if strip.name == rows[0].source).answer == Answer("bus", True)
    assert sum(not f.row.accepted for f in frames.values()) == 1
