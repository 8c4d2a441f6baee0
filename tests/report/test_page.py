"""What stands on the page and in its data, and what the page says it leaves out."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

import numpy as np
import pytest
from conftest import MadeSuite
from PIL import Image
from report_pages import Reader, frame, page_of, strip

from counterfactory.engine.api.pages import describe_suite
from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.check import SCORES
from counterfactory.engine.report import page as page_module
from counterfactory.engine.report.album import Answer, add_scores
from counterfactory.engine.report.coloured_masks import draw_mask
from counterfactory.engine.report.findings import ReportFinding
from counterfactory.engine.report.folder import write_report
from counterfactory.engine.report.forest import Forest, ForestRow
from counterfactory.engine.report.page import ReportText
from counterfactory.engine.report.score_words import score_words
from counterfactory.engine.report.table import Table
from counterfactory.engine.suite import PictureRow, read_metadata

NIGHT, RED = Edit("time", "day", "at night"), Edit("colour", "blue", "red")


def report_on(suite: MadeSuite, rows: list[PictureRow], folder: Path, **options: Any) -> Reader:
    write_report(folder, rows, suite.path, options.pop("text", ReportText("t", "s")), **options)
    return Reader((folder / "index.html").read_text(encoding="utf-8"))


def test_data_of_a_frame_says_all_that_it_is_found_by(picture: Path, tmp_path: Path) -> None:
    scores = {"image_text": 0.25, "edit_weather": -1.0}
    one = frame(
        picture, edits=(NIGHT, RED, NIGHT), file_name="images/bus/1/a.png", scores=scores, answer=Answer("car", False)
    )
    two = frame(picture, reason="so: edit 0.1 is below 0.2", answer=Answer("bus", True))
    page = page_of(tmp_path, strip(one, two, frame(picture), name="bus/1", label="bus", control=frame(picture)))
    first, second, third = page.frames
    named = [first[key] for key in ("name", "caption", "values", "reason", "failed", "answer", "scores")]
    values = ["time: at night", "colour: red"]
    assert named == ["images/bus/1/a.png", "a foggy street.", values, None, "", ["car", False], scores]
    assert first["edits"][:2] == [["time", "time", "day", "at night", None], ["colour", "colour", "blue", "red", None]]
    assert (second["reason"], second["failed"], second["answer"]) == (two.row.reason, "edit", ["bus", True])
    assert third["answer"] is None
    (section,) = page.strips
    assert (section["source"], section["label"], section["place"]) == ("bus/1", "bus", 0)
    assert section["control"] == {"image": section["image"], "reason": None, "answer": None}


def test_how_pictures_were_painted_is_told_where_they_differ(made_suite: MadeSuite, tmp_path: Path) -> None:
    def edited(row: PictureRow) -> PictureRow:
        painting = row.painting and replace(row.painting, self_attention=0.6)
        return replace(row, painting=painting, level=row.number + 1, levels=2) if row.kind == "variant" else row

    frames = report_on(made_suite, list(map(edited, made_suite.rows)), tmp_path / "edited").frames
    held = "source held 60 % of steps"
    assert [one["circumstances"] for one in frames] == [["level 1 of 2", held], ["level 2 of 2", held]] * 3
    plain = report_on(made_suite, made_suite.rows, tmp_path / "plain").frames
    assert {len(one["circumstances"]) for one in plain} == {0}


def test_every_score_with_words_is_explained_and_no_other_is_shown(picture: Path, tmp_path: Path) -> None:
    scores = {"edit": 0.5, "edit_weather": 0.25, "said_the sky": 0.1, "recall_road": 0.1, "odd": 0.1, "odd_thing": 0.2}
    limits = {"edit": (0.4, None)}
    page = page_of(tmp_path, strip(frame(picture, scores=scores)), limits=limits)
    assert set(page.album["words"]) == {"edit", "edit_weather", "said_the sky", "recall_road"}
    assert "the sky" in page.album["words"]["said_the sky"]
    assert page.album["limits"] == {"edit": [0.4, None]}
    described = {score.name for score in SCORES}
    assert set(score_words(described)) == described, "each score of the checks has words"


def test_findings_stand_first_then_charts_pictures_and_tables_with_their_notes(picture: Path, tmp_path: Path) -> None:
    finding = ReportFinding("Night costs 5 points.", True, (("value", "time: at night"),))
    row = ForestRow("time: at night", "-5 (-9 ... -1)", 7, True, 10.0, 20.0, 30.0, "value")
    forest = Forest("What edits do", (("", (row,)),), (), 50.0)
    table = Table("Effects", ("edit", "q"), (("time", "0.1"),), ("a note of it",), of="type")
    album = strip(frame(picture, edits=(NIGHT,)), frame(picture))
    page = page_of(tmp_path, album, findings=(finding,), forests=(forest,), tables=(table,), remarks=("last",))
    words = page.words
    order = ["Night costs 5", "What edits do", "Edit value", "Effects", "a note of it", "the columns", "last"]
    assert [words.index(text) for text in order] == sorted(words.index(text) for text in order)
    places = [attributes.get("id") for _, attributes in page.tags]
    assert places.index("pictures") < places.index("tables")
    links = [str(a["href"]) for a in page.all("a") if "shows" in str(a.get("class"))]
    assert [parse_qs(link[1:]) for link in links] == [
        {"value": ["time: at night"]},
        {"value": ["time: at night"]},
        {"type": ["time"]},
    ]
    (bar, dot) = (i["style"] for i in page.all("i"))
    assert (bar, dot) == ("left: 10.0%; width: 30.0%", "left: 20.0%")


def test_rows_and_cells_open_what_is_on_the_page(picture: Path, tmp_path: Path) -> None:
    rows = (("time", "1"), ("weather", "1"), ("painting alone", "1"))
    table = Table("t", ("edit", "points"), rows, of="type")
    finding = ReportFinding("x", True, (("class", "road"),))
    page = page_of(tmp_path, strip(frame(picture, edits=(NIGHT,))), tables=(table,), findings=(finding,))
    assert [str(a["href"]) for a in page.all("a") if a.get("class") == "shows"] == ["#type=time"]
    table = Table(
        *("t", ("class", "bus", "car"), (("bus", "60.0 %", "40.0 %"), ("car", "0.0 %", "100.0 %"))),
        of="class",
        confusion=True,
    )
    shown = [strip(frame(picture, answer=Answer(a, a == b)), label=b) for a, b in (("bus", "bus"), ("car", "bus"))]
    page = page_of(tmp_path, *shown, strip(frame(picture), label="car"), tables=(table,))
    links = [parse_qs(str(a["href"])[1:]) for a in page.all("a") if a.get("class") == "shows"]
    assert links == [
        {"class": ["bus"]},
        {"class": ["bus"], "said": ["bus"]},
        {"class": ["bus"], "said": ["car"]},
        {"class": ["car"]},
        {"class": ["car"], "said": ["car"]},
    ]


def test_lists_offer_what_differs_scores_for_the_order_and_what_failed(picture: Path, tmp_path: Path) -> None:
    alone = page_of(tmp_path, strip(frame(picture)))
    assert alone.options == {"sort": ["source"]}
    scored = frame(picture, scores={"image_text": 0.5, "visible": 0.1}, answer=Answer("bus", True))
    wrong = replace(scored, answer=Answer("car", False))
    page = page_of(
        tmp_path, strip(scored, frame(picture, edits=(NIGHT,))), strip(wrong, label="car"), strip(label=None)
    )
    assert page.options == {
        "class": ["bus", "car"],
        "said": ["bus", "car"],
        "value": ["time: at night", "weather: foggy"],
        "sort": ["suite", "source", "score:image_text", "score:visible"],
    }
    low = [frame(picture, reason=f"so: {name} 0.1 is below 0.2") for name in ("layout", "edit", "edit")]
    page = page_of(tmp_path, strip(*low, frame(picture, scores={"edit": 0.5, "layout": 0.1})))
    assert page.options["failed"] == ["edit", "layout"]
    assert "an edit does not show" in page.text
    assert [one["failed"] for one in page.frames] == ["layout", "edit", "edit", ""]
    assert "failed" not in page_of(tmp_path, strip(*low[1:])).options, "one check is no choice"


def test_worst_masks_come_first_where_no_answer_is_wrong(picture: Path, tmp_path: Path) -> None:
    scored = [
        strip(frame(picture, scores={"picture mIoU": value}), name=str(value), answer=Answer("x", True))
        for value in (0.5, 0.2, 0.9)
    ]
    page = page_of(tmp_path, *scored)
    assert [one["source"] for one in page.strips] == ["0.2", "0.5", "0.9"]
    assert page.all("form")[0]["data-order"] == "score:picture mIoU"
    assert page_of(tmp_path, strip(frame(picture))).all("form")[0]["data-order"] == ""


def test_sources_that_fail_most_come_first_and_the_rest_lies_beside(
    picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, right = (frame(picture, answer=Answer("x", answer)) for answer in (False, True))
    rejected = frame(picture, answer=Answer("x", False), reason="dark")
    album = [strip(right, rejected, name="a"), strip(wrong, right, name="b"), strip(wrong, wrong, name="c</script>")]
    page = page_of(tmp_path, *album)
    assert [(one["source"], one["place"]) for one in page.strips] == [("c</script>", 2), ("b", 1), ("a", 0)]
    monkeypatch.setattr(page_module, "_SHARD", 1)
    page = page_of(tmp_path, *album)
    assert [one["source"] for one in page.strips] == ["c</script>"]
    assert (page.album["more"], page.album["variants"]) == (["album/1.js", "album/2.js"], 6)
    beside = [(tmp_path / name).read_text() for name in page.album["more"]]
    read = [json.loads(text.removeprefix("addStrips(").removesuffix(");\n")) for text in beside]
    assert [one["source"] for some in read for one in some] == ["b", "a"]


def test_strips_are_as_wide_as_the_longest(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture), control=frame(picture)), strip(*[frame(picture)] * 4))
    (pictures,) = (attributes for _, attributes in page.tags if attributes.get("id") == "pictures")
    assert pictures["style"] == "--n: 4"
    page = page_of(tmp_path, strip(*[frame(picture)] * 4, control=frame(picture)))
    assert "--n: 5" in [attributes.get("style") for _, attributes in page.tags]


def test_masks_can_be_laid_over_the_pictures_that_share_them(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture), mask=picture, edges=picture, control=frame(picture)))
    assert (tmp_path / os.fsdecode(unquote_to_bytes(page.strips[0]["mask"]))).samefile(picture)
    assert [i for i in page.all("input") if i["name"] == "masks"]
    bare = page_of(tmp_path, strip(frame(picture)))
    assert not [i for i in bare.all("input") if i["name"] == "masks"]
    assert bare.strips[0]["mask"] is None


def test_masks_are_drawn_in_colours_void_left_clear(tmp_path: Path) -> None:
    numbers = np.array([[0, 1], [20, 255]], np.uint8)
    for array, name in ((numbers, "a"), (numbers.astype(np.uint16) + np.uint16(0), "b")):
        Image.fromarray(array).save(tmp_path / f"{name}.png")
        draw_mask(tmp_path / f"{name}.png", tmp_path / "drawn" / f"{name}.png", tmp_path)
        drawn = np.asarray(Image.open(tmp_path / "drawn" / f"{name}.png"))
        assert drawn[..., 3].tolist() == [[255, 255], [255, 0]]
        assert (drawn[0, 0] == drawn[1, 0]).all(), "after the last colour comes the first"
        assert (drawn[0, 0] != drawn[0, 1]).any()
    Image.new("RGB", (2, 2), (9, 8, 7)).save(tmp_path / "c.png")
    draw_mask(tmp_path / "c.png", tmp_path / "drawn" / "c.png", tmp_path)
    assert Image.open(tmp_path / "drawn" / "c.png").getpixel((1, 1)) == (9, 8, 7, 255)
    (tmp_path / "d.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    for name in ("d.png", "missing.png"):
        draw_mask(tmp_path / name, tmp_path / "drawn" / name, tmp_path)
        assert not (tmp_path / "drawn" / name).exists()


def test_a_legend_names_the_colours_of_masks(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture), mask=picture), classes=("sky", "road"))
    colours = [str(i["style"]).removeprefix("background: ") for i in page.all("i")]
    Image.fromarray(np.array([[0, 1]], np.uint8)).save(tmp_path / "m.png")
    draw_mask(tmp_path / "m.png", tmp_path / "d.png", tmp_path)
    assert colours == ["#" + pixel[:3].tobytes().hex() for pixel in np.asarray(Image.open(tmp_path / "d.png"))[0]]
    assert page.text.index("sky") < page.text.index("road")
    for bare in (page_of(tmp_path, strip(frame(picture)), classes=("sky",)), page_of(tmp_path, strip(mask=picture))):
        assert not bare.all("i")


def test_a_report_draws_the_masks_of_its_sources(made_suite: MadeSuite, tmp_path: Path) -> None:
    page = report_on(made_suite, read_metadata(made_suite.path), tmp_path)
    drawn = [tmp_path / unquote_to_bytes(one["mask"]).decode() for one in page.strips]
    assert len(drawn) == len(made_suite.street.names)
    assert all(file.is_file() for file in drawn)


def test_what_is_left_out_is_said(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    page = report_on(made_suite, rows, tmp_path)
    assert "are on this page" not in page.text
    page = report_on(made_suite, rows, tmp_path, limit=2)
    assert "2 of 3 sources are on this page, evenly from all; --limit N shows more" in page.text
    lonely = [row for row in rows if row.source != rows[0].source or row.kind == "original"]
    control = replace(rows[-1], kind="control", number=1, edits=())
    page = report_on(made_suite, [*lonely, control], tmp_path)
    assert "1 source has no variant, and no place here" in page.text
    assert "of each source the first control is shown; 1 more are in the suite" in page.text


def test_a_report_s_first_words_are_of_the_suite(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    control = replace(next(row for row in rows if row.kind == "variant"), kind="control", number=0, reason="too dark")
    text = describe_suite(made_suite.path, [*rows, control])
    assert text.notes == ("no control was accepted: what painting does by itself cannot be told from what edits do",)
    assert text.figures == (("sources", "3"), ("variants accepted", "5 of 6"))
    assert text.title == f"Suite {made_suite.path.parent.name}", "a folder called suite says nothing"
    assert text.subtitle == "3 sources, 6 variants, 5 accepted; profile mine; made 2026-01-01"
    page = report_on(made_suite, rows, tmp_path, text=text)
    assert page.words.index(text.notes[0]) < page.words.index("5 of 6 variants are accepted")
    assert "No model was asked" in page.words
    with_notes = Image.open(tmp_path / "contact_sheet.png").height
    report_on(made_suite, rows, tmp_path, text=replace(text, notes=()))
    assert with_notes > Image.open(tmp_path / "contact_sheet.png").height


def test_scores_are_added_by_picture(made_suite: MadeSuite) -> None:
    rows = read_metadata(made_suite.path)
    added = add_scores(rows, "mIoU", {rows[1].file_name: 0.5})
    assert added[1].scores == {**rows[1].scores, "mIoU": 0.5}
    assert [*added[:1], *added[2:]] == [*rows[:1], *rows[2:]]
