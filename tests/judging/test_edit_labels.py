"""Text edits go to people on a table and come back as counts of what is right, by type, and of what filters keep."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from checks import held_to
from picture_rows import control_row, picture_row
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.edit_labels import (
    COLUMNS,
    EditJudgement,
    Success,
    draw,
    planned_edits,
    read_labelled,
    successes,
    suite_edits,
    write_edits,
)
from counterfactory.engine.sources.source import Source
from counterfactory.engine.variant import Variant

DRY, BLUE = Edit("weather", "dry", "snowy"), Edit("colour", "red", "blue")
STRICT = held_to(max_text_label=0.5)
HEAD = "type,right_type,right_label,coherent,dropped,text_label\n"
REASON = "an edit's words mean nearly what the label says: text_label 0.600 is above 0.500"


def test_a_suite_s_edits_are_rows_with_what_filters_say_and_repeats_and_further_levels_are_none() -> None:
    rows = [
        control_row(),
        picture_row(0, scores={"edit": 0.5, "text_label": 0.6}, protected=("bus", "coach"), edits=(DRY, BLUE)),
        picture_row(1, repeat=1),
        picture_row(1, level=2, levels=2),
        picture_row(2, label=None, scores={}),
    ]
    one, two, three = suite_edits(rows, STRICT)
    assert (one.key, two.key, three.key) == ("0" * 16 + "-0", "0" * 16 + "-1", f"{2:064x}"[:16] + "-0")
    assert (one.edit, two.edit) == (DRY, BLUE)
    assert one.scores == {"text_label": 0.6}, "the picture's own scores are of no use here"
    assert (one.dropped, three.dropped) == (REASON, None)
    assert (one.source, one.label, three.label) == ("bus/0000", "bus", None)
    assert one.protected == ("bus", "coach")
    assert (one.caption, one.edited_caption) == ("A red bus on a dry road.", "A red bus on a snowy road.")


def test_a_plan_s_edits_are_those_that_break_no_rule() -> None:
    source = Source("1.jpg", "1.jpg", Path("1.jpg"), (8, 8), "bus", None, "d", "k")
    fine = Variant("a" * 64, source, 0, "a dry bus", (DRY,), "a snowy bus", 0, None)
    near = replace(fine, key="b" * 64, dropped=REASON)
    broken = replace(fine, key="c" * 64, dropped="it lacks 'bus'")
    control = replace(fine, key="d" * 64, kind="control", edits=(), edited_caption="a dry bus")
    again = replace(fine, key="e" * 64, repeat=1)
    found = planned_edits([fine, near, broken, control, again], {near: {"text_label": 0.6}}, STRICT)
    assert [(row.key, row.dropped) for row in found] == [("a" * 16 + "-0", None), ("b" * 16 + "-0", REASON)]
    assert [row.scores for row in found] == [{}, {"text_label": 0.6}]
    assert (found[0].source, found[0].label) == ("1.jpg", "bus")


def test_what_is_drawn_follows_from_the_edits_and_the_seed_alone() -> None:
    rows = suite_edits([picture_row(i, key=f"{i}" * 64) for i in range(9)], STRICT)
    assert draw(rows, 4, 0) == draw(rows[::-1], 4, 0)
    assert draw(rows, 4, 0) != draw(rows, 4, 1)
    assert len(draw(rows, 20, 0)) == 9
    assert draw(rows, 5, 0)[:4] == draw(rows, 4, 0)


@pytest.mark.parametrize("name", ["edits.csv", "edits.JSONL"])
def test_a_table_is_written_labelled_and_read_back(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    scored = {"text_label": 0.6, "perplexity": 12.5}
    plain, kept = picture_row(1, source="Köln", label=None), picture_row(2, protected=("a", "b"))
    rows = suite_edits([picture_row(0, scores=scored), plain, kept], STRICT)
    write_edits(file, rows)
    text = file.read_bytes().decode()
    assert "\r" not in text
    assert "Köln" in text, "people read it"
    lines = text.splitlines()
    table = list(csv.DictReader(lines)) if name.endswith("csv") else list(map(json.loads, lines))
    assert all(tuple(row) == COLUMNS for row in table)
    assert (table[0]["dropped"], table[1]["dropped"]) == (REASON, "")
    assert (float(table[0]["perplexity"]), table[1]["perplexity"]) == (12.5, "")
    assert [row["label"] for row in table] == ["bus", "", "bus"]
    assert (table[2]["protected"], table[2]["type"]) == ("a, b", "weather")
    assert read_labelled(file) == ([], 3), "nobody has labelled any"
    for row, said in zip(table, (("1", "Yes", "TRUE"), ("y", "0", "no"), ("1", "", "1")), strict=True):
        row.update(zip(("right_type", "right_label", "coherent"), said, strict=True))
    if name.endswith("csv"):
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS)
            writer.writeheader()
            writer.writerows(table)
    else:
        table[0]["right_type"], table[1]["right_label"], table[2]["right_label"] = 1, False, None
        file.write_text("\n".join(map(json.dumps, table)), encoding="utf-8")
    first = EditJudgement("weather", True, True, True, True)
    second = EditJudgement("weather", True, False, False, False)
    assert read_labelled(file) == ([first, second], 1)
    loose = held_to(max_perplexity=12.5)
    assert read_labelled(file, loose) == ([replace(first, dropped=False), second], 1), "verdicts follow from scores"
    assert read_labelled(file, held_to(max_perplexity=12.4))[0][0] == first


def test_files_that_may_hold_labels_stay(tmp_path: Path) -> None:
    file = tmp_path / "edits.csv"
    file.write_text("mine")
    with refusal(r"edits.csv is there already and may hold labels; name another file"):
        write_edits(file, [])
    assert file.read_text() == "mine"
    with refusal(r"edits.txt: edits are written as .csv or .jsonl"):
        write_edits(tmp_path / "edits.txt", [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}weather,maybe,1,1,,\n", r"edits.csv:2: right_type is 1 or 0, yes or no, or empty; found 'maybe'"),
        (f"{HEAD},1,1,1,,\n", "edits.csv:2: every row needs the type of its edit"),
        (f"{HEAD}weather,1,1,1,,high\n", "edits.csv:2: text_label is a number or empty; found 'high'"),
        (f"{HEAD}weather,1,1,1,,,,,\n", r"edits.csv:2 has 9 fields"),
        ("type,right_type,coherent\n", "no column 'right_label'"),
    ],
)
def test_a_label_that_is_none_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "edits.csv").write_text(text)
    with refusal(message):
        read_labelled(tmp_path / "edits.csv", held_to())


def test_success_is_all_three_and_filters_are_held_to_it() -> None:
    good, wrong = EditJudgement("weather", True, True, True, False), EditJudgement("weather", False, True, True, False)
    labelled = [*[good] * 3, replace(good, dropped=True), wrong, replace(wrong, dropped=True)]
    labelled += [EditJudgement("colour", True, *answers, True) for answers in ((False, True), (True, False))]
    found = successes(labelled)
    assert list(found) == ["weather", "colour", "all"]
    assert found["weather"] == Success(6, 4, 6, 6, 4, 4, 3)
    assert found["colour"] == Success(2, 2, 1, 1, 0, 0, 0)
    assert found["all"] == Success(8, 6, 7, 7, 4, 4, 3)
    assert (found["weather"].precision, found["weather"].recall) == (0.75, 0.75)
    assert (found["colour"].precision, found["colour"].recall) == (None, None)
