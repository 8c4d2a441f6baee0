"""What the page's script reads of the page: data- attributes, names and ids; and what the page says it leaves out."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pytest
from conftest import MadeSuite
from PIL import Image
from test_report import Reader, frame, strip

from counterfactory.engine.edit import Edit
from counterfactory.engine.report.album import Answer, Strip, add_scores
from counterfactory.engine.report.coloured_masks import draw_mask
from counterfactory.engine.report.folder import describe_suite, write_report
from counterfactory.engine.report.page import ReportText, write_page
from counterfactory.engine.report.table import Table
from counterfactory.engine.suite import PictureRow, read_metadata

NIGHT, RED = Edit("time", "day", "at night"), Edit("colour", "blue", "red")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a b#(1)'\".png"
    Image.new("RGB", (16, 16), (10, 200, 30)).save(path)
    return path


def page_of(folder: Path, *album: Strip, **text: Any) -> Reader:
    write_page(album, folder / "p.html", ReportText("t", "s", **text))
    return Reader((folder / "p.html").read_text(encoding="utf-8"))


def options(page: Reader) -> dict[str, list[str]]:
    """What each list offers, by its name; the first option is that of choosing none."""
    found: dict[str, list[str]] = {}
    for tag, attributes in page.tags:
        if tag == "select":
            found[str(attributes["name"])] = []
        elif tag == "option" and attributes["value"]:
            found[list(found)[-1]].append(str(attributes["value"]))
    return found


def report_on(suite: MadeSuite, rows: list[PictureRow], folder: Path, **options: Any) -> Reader:
    write_report(folder, rows, suite.path, options.pop("text", ReportText("t", "s")), **options)
    return Reader((folder / "index.html").read_text(encoding="utf-8"))


def test_a_figure_says_all_that_it_is_found_by(picture: Path, tmp_path: Path) -> None:
    scores = {"image_text": 0.25, "edit_weather": -1.0}
    one = frame(
        picture, edits=(NIGHT, RED, NIGHT), file_name="images/bus/1/a.png", scores=scores, answer=Answer("car", False)
    )
    two = frame(picture, reason="too dark", file_name="images/bus/1/b.png", answer=Answer("bus", True))
    page = page_of(tmp_path, strip(one, two, frame(picture), name="bus/1", label="bus", control=frame(picture)))
    control, first, second, third = page.all("figure")
    assert "data-name" not in control
    assert {key: first[f"data-{key}"] for key in ("name", "types", "verdict", "answer", "said", "reason")} == {
        "name": "images/bus/1/a.png",
        "types": '["time", "colour"]',
        "verdict": "accepted",
        "answer": "wrong",
        "said": "car",
        "reason": "",
    }
    assert json.loads(str(first["data-values"])) == ["time: at night", "colour: red"]
    assert json.loads(str(first["data-scores"])) == scores
    assert (second["data-verdict"], second["data-answer"], second["data-reason"]) == ("rejected", "right", "too dark")
    assert (third["data-answer"], third["data-said"]) == ("", "")
    (section,) = page.all("section")
    assert (section["data-source"], section["data-class"]) == ("bus/1", "bus")
    assert "edit-weather -1.00" in page.text


def test_how_pictures_were_painted_is_told_where_they_differ(made_suite: MadeSuite, tmp_path: Path) -> None:
    def edited(row: PictureRow) -> PictureRow:
        painting = row.painting and replace(row.painting, self_attention=0.6)
        return replace(row, painting=painting, level=row.number + 1, levels=2) if row.kind == "variant" else row

    told = report_on(made_suite, list(map(edited, made_suite.rows)), tmp_path / "edited").text
    sources = len(made_suite.street.names)
    assert told.count("level 1 of 2") == told.count("level 2 of 2") == sources
    assert told.count("source held 60 % of steps") == 2 * sources
    plain = report_on(made_suite, made_suite.rows, tmp_path / "plain").text
    assert "level 1 of" not in plain
    assert "source held" not in plain


def test_words_that_came_or_went_are_shown_as_such(picture: Path, tmp_path: Path) -> None:
    edits = (Edit("object", "", "a dog"), Edit("object", "a bus", ""), NIGHT)
    page = page_of(tmp_path, strip(frame(picture, edits=edits, edit_scores=(0.25, 0.5, 0.125))))
    words = " ".join(page.text.split())
    assert words.index("a dog 0.25") < words.index("a bus 0.50") < words.index("at night 0.12")
    assert "+ a dog" in words
    assert "\N{MINUS SIGN} a bus" in words
    assert "day \N{RIGHTWARDS ARROW} at night" in words
    assert not page_of(tmp_path, strip(frame(picture))).all("small")[1:], "the source's name alone"
    (figure,) = page.all("figure")
    assert json.loads(str(figure["data-values"])) == ["object: a dog", "object: without a bus", "time: at night"]


def test_the_script_finds_what_it_asks_for(picture: Path, tmp_path: Path) -> None:
    """Every id, class and name in the script is on the page, so that neither is renamed alone."""
    answered = frame(picture, answer=Answer("car", False), scores={"x": 0.5})
    failed = [frame(picture, reason=f"{name} 0.1 is below 0.2") for name in ("edit", "layout")]
    album = strip(answered, *failed, mask=picture, control=frame(picture), edges=picture)
    album = replace(album, answer=Answer("bus", True))
    page = page_of(tmp_path, album, strip(frame(picture, edits=(NIGHT,)), label="car"))
    script = files("counterfactory.engine.report").joinpath("page.js").read_text(encoding="utf-8")
    ids = {str(attributes["id"]) for _, attributes in page.tags if "id" in attributes}
    classes = {name for _, attributes in page.tags for name in str(attributes.get("class", "")).split()}
    names = {attributes["name"] for tag, attributes in page.tags if tag in ("input", "select")}
    given = {key for _, attributes in page.tags for key in attributes}
    assert set(re.findall(r'querySelector\w*\("#(\w+)', script)) <= ids
    assert set(re.findall(r'target\.id === "(\w+)"', script)) <= ids
    selectors = " ".join(re.findall(r"querySelector\w*\(['\"]([^'\"]+)", script))
    assert set(re.findall(r"\.([a-z]+)", selectors)) <= classes
    assert set(re.findall(r"want\.(\w+)", script)) | set(re.findall(r"elements\.(\w+)", script)) <= {*names, "masks"}
    assert (
        set(re.findall(r"\[(data-\w+)\]", selectors)) | {f"data-{x}" for x in re.findall(r"dataset\.(\w+)", script)}
        <= given
    )
    skip = next(a for a in page.all("a") if a.get("class") == "skip")
    assert str(skip["href"]).removeprefix("#") in ids


def test_lists_offer_what_differs_and_every_score_for_the_order(picture: Path, tmp_path: Path) -> None:
    alone = page_of(tmp_path, strip(frame(picture)))
    assert options(alone) == {"sort": ["source"]}
    scored = frame(picture, scores={"image_text": 0.5, "image": 0.1}, answer=Answer("bus", True))
    page = page_of(
        tmp_path, strip(scored, frame(picture, edits=(NIGHT,))), strip(scored, label="car"), strip(label=None)
    )
    assert options(page) == {
        "class": ["bus", "car"],
        "value": ["time: at night", "weather: foggy"],
        "sort": ["wrong", "source", "score:image", "score:image_text"],
    }


def test_rejected_variants_can_be_chosen_by_what_failed(picture: Path, tmp_path: Path) -> None:
    low = [frame(picture, reason=f"so: {name} 0.1 is below 0.2") for name in ("layout", "edit", "edit")]
    page = page_of(tmp_path, strip(*low, frame(picture, scores={"edit": 0.5, "layout": 0.1})))
    assert options(page)["failed"] == ["edit", "layout"]
    assert "an edit does not show" in page.text
    assert [figure["data-failed"] for figure in page.all("figure")] == ["layout", "edit", "edit", ""]
    assert "failed" not in options(page_of(tmp_path, strip(*low[1:]))), "one check is no choice"
    marked = page_of(tmp_path, strip(replace(low[0], row=replace(low[0].row, scores={"edit": 0.5, "layout": 0.1}))))
    assert [span.get("class") for span in marked.all("span") if "class" in span][-1:] == ["bad"]


def test_strips_are_as_wide_as_the_longest(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture), control=frame(picture)), strip(*[frame(picture)] * 4))
    (pictures,) = (attributes for _, attributes in page.tags if attributes.get("id") == "pictures")
    assert pictures["style"] == "--n: 4"
    page = page_of(tmp_path, strip(*[frame(picture)] * 4, control=frame(picture)))
    assert "--n: 5" in [attributes.get("style") for _, attributes in page.tags]


def test_masks_lie_over_the_pictures_that_share_them(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture), mask=picture, edges=picture, control=frame(picture)))
    (section,) = page.all("section")
    (url,) = re.findall(r'^--mask: url\("([^"\\)]+)"\)$', str(section["style"]))
    assert (tmp_path / os.fsdecode(unquote_to_bytes(url))).samefile(picture)
    kinds = [link["class"] for link in page.all("a") if str(link["class"]).startswith("picture")]
    assert kinds == ["picture original masked", "picture", "picture masked", "picture masked"]
    assert [i for i in page.all("input") if i["name"] == "masks"]
    bare = page_of(tmp_path, strip(frame(picture)))
    assert not [i for i in bare.all("input") if i["name"] == "masks"]
    assert "style" not in bare.all("section")[0]
    assert all("masked" not in str(link["class"]) for link in bare.all("a"))


def test_masks_are_drawn_in_colours_void_left_clear(tmp_path: Path) -> None:
    numbers = np.array([[0, 1], [20, 255]], np.uint8)
    for array, name in ((numbers, "a"), (numbers.astype(np.uint16) + np.uint16(0), "b")):
        Image.fromarray(array).save(tmp_path / f"{name}.png")
        draw_mask(tmp_path / f"{name}.png", tmp_path / "drawn" / f"{name}.png")
        drawn = np.asarray(Image.open(tmp_path / "drawn" / f"{name}.png"))
        assert drawn[..., 3].tolist() == [[255, 255], [255, 0]]
        assert (drawn[0, 0] == drawn[1, 0]).all(), "after the last colour comes the first"
        assert (drawn[0, 0] != drawn[0, 1]).any()
    Image.new("RGB", (2, 2), (9, 8, 7)).save(tmp_path / "c.png")
    draw_mask(tmp_path / "c.png", tmp_path / "drawn" / "c.png")
    assert Image.open(tmp_path / "drawn" / "c.png").getpixel((1, 1)) == (9, 8, 7, 255)
    (tmp_path / "d.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    for name in ("d.png", "missing.png"):
        draw_mask(tmp_path / name, tmp_path / "drawn" / name)
        assert not (tmp_path / "drawn" / name).exists()


def test_a_legend_names_the_colours_of_masks(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture), mask=picture), classes=("sky", "road"))
    colours = [str(i["style"]).removeprefix("background: ") for i in page.all("i")]
    Image.fromarray(np.array([[0, 1]], np.uint8)).save(tmp_path / "m.png")
    draw_mask(tmp_path / "m.png", tmp_path / "d.png")
    assert colours == ["#" + pixel[:3].tobytes().hex() for pixel in np.asarray(Image.open(tmp_path / "d.png"))[0]]
    assert page.text.index("sky") < page.text.index("road")
    for bare in (page_of(tmp_path, strip(frame(picture)), classes=("sky",)), page_of(tmp_path, strip(mask=picture))):
        assert not bare.all("i")


def test_a_report_draws_the_masks_of_its_sources(made_suite: MadeSuite, tmp_path: Path) -> None:
    page = report_on(made_suite, read_metadata(made_suite.path), tmp_path)
    drawn = [tmp_path / unquote_to_bytes(str(s["style"]).split('"')[1]).decode() for s in page.all("section")]
    assert len(drawn) == len(made_suite.street.names)
    assert all(file.is_file() for file in drawn)


def test_notes_stand_first_and_remarks_behind_the_tables(picture: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, strip(frame(picture)), notes=("first note",), remarks=("a remark",))
    assert page.text.index("first note") < page.text.index("a remark") < page.text.index("bus/1")
    assert [ul["class"] for ul in page.all("ul")] == ["notes", "remarks"]
    assert page_of(tmp_path, strip(frame(picture))).all("ul") == []


def test_what_is_left_out_is_said(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    unanswered = "nothing is said of a model: its answers were not given (--predictions)"
    page = report_on(made_suite, rows, tmp_path)
    assert unanswered in page.text
    assert "are on this page" not in page.text
    page = report_on(made_suite, rows, tmp_path, limit=2, answers={rows[0].file_name: Answer("bus", True)})
    assert "2 of 3 sources are on this page, evenly from all; --limit N shows more" in page.text
    assert unanswered not in page.text
    judged = ReportText("t", "s", tables=(Table("t", ("a",), (("1",),)),))
    assert unanswered not in report_on(made_suite, rows, tmp_path, text=judged).text
    lonely = [row for row in rows if row.source != rows[0].source or row.kind == "original"]
    control = replace(rows[-1], kind="control", number=1, edits=())
    page = report_on(made_suite, [*lonely, control], tmp_path)
    assert "1 source has no variant, and no place here" in page.text
    assert "of each source the first control is shown; 1 more are in the suite" in page.text


def test_a_report_s_first_words_are_of_the_suite(made_suite: MadeSuite, tmp_path: Path) -> None:
    rows = read_metadata(made_suite.path)
    control = replace(next(row for row in rows if row.kind == "variant"), kind="control", number=0, reason="too dark")
    text = describe_suite([*rows, control], figures=(("accuracy", "90 %"),), remarks=("compared",))
    assert text.notes == ("no control was accepted: what painting does by itself cannot be told from what edits do",)
    assert text.figures == (("sources", "3"), ("variants accepted", "5 of 6"), ("accuracy", "90 %"))
    page = report_on(made_suite, rows, tmp_path, text=text)
    assert text.notes[0] in page.text
    with_notes = Image.open(tmp_path / "contact_sheet.png").height
    report_on(made_suite, rows, tmp_path, text=replace(text, notes=()))
    assert with_notes > Image.open(tmp_path / "contact_sheet.png").height


def test_scores_are_added_by_picture(made_suite: MadeSuite) -> None:
    rows = read_metadata(made_suite.path)
    added = add_scores(rows, "mIoU", {rows[1].file_name: 0.5})
    assert added[1].scores == {**rows[1].scores, "mIoU": 0.5}
    assert [*added[:1], *added[2:]] == [*rows[:1], *rows[2:]]
