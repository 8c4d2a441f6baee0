"""Answers as tables: what is written reads again, crowds' tables read, and those of other studies are refused."""

from __future__ import annotations

import csv
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from reviewing import answered, book_of, rows_of, study_of, truth

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.review.answer_book import Rating
from counterfactory.engine.review.answer_tables import read_answers, write_answers
from counterfactory.engine.review.study import StudyItem
from counterfactory.engine.review.study_results import SuiteFacts, find_results

ROWS = rows_of(6)
STUDY = study_of(ROWS, sample=6, checks=0.4)
LANCE = study_of(ROWS, "lance", sample=3, checks=0)
VARIANT = next(item for item in STUDY.items if item.kind == "variant")


def plain(ratings: list[Rating]) -> set[tuple[str, int, str, int, str]]:
    return {one[:5] for one in ratings}


def table(folder: Path, text: str) -> Path:
    (folder / "t.csv").write_text(text)
    return folder / "t.csv"


def test_what_is_written_reads_again(tmp_path: Path) -> None:
    def value(item: StudyItem, asked: str, rater: int) -> int | None:
        return None if item.number == 2 or (rater == 1 and asked == "realism") else 1 + rater % 2 * (asked == "realism")

    ratings = [one._replace(note="=cmd, odd") if one.asked == "ethics" else one for one in answered(LANCE, 3, value)]
    rows = write_answers(tmp_path / "a.csv", LANCE, ratings, ROWS, tmp_path)
    assert rows == 2 * 3 + 1, "and what nobody answered, to be asked"
    back, empty = read_answers(tmp_path / "a.csv", LANCE, [])
    assert (plain(back), empty) == (plain(ratings), 2)
    assert read_answers(tmp_path / "a.csv", LANCE, ratings)[0] == [], "again, nothing is new"


def test_it_says_what_to_ask_and_is_safe_in_a_spreadsheet(tmp_path: Path) -> None:
    ratings = [Rating("=anna", VARIANT.number, "label", 0)]
    write_answers(tmp_path / "a.csv", STUDY, ratings, ROWS, tmp_path)
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = {int(row["item"]): row for row in csv.DictReader(file)}
    assert list(rows) == [item.number for item in STUDY.items]
    row = rows[VARIANT.number]
    host = next(one for one in ROWS if one.file_name == VARIANT.image)
    pictures = [row[name] for name in ("image", "source_picture", "control_picture")]
    assert pictures == [host.file_name, host.original, host.control]
    assert (row["class"], row["edits"], row["label"]) == (host.label, "weather: dry -> snowy", "no")
    assert row["rater"] == "'=anna"
    back, _ = read_answers(tmp_path / "a.csv", STUDY, [])
    assert plain(back) == plain(ratings)
    rows = [replace(row, edits=tuple(replace(edit, keyword="") for edit in row.edits)) for row in ROWS]
    write_answers(tmp_path / "a.csv", STUDY, [], rows, tmp_path)
    with (tmp_path / "a.csv").open(newline="") as file:
        assert {row["edits"] for row in csv.DictReader(file) if row["kind"] == "variant"} == {"weather: snowy"}


def test_batch_results_of_mechanical_turk_read(tmp_path: Path) -> None:
    """Radio buttons give a column per value; five workers, a tie, and one who did not finish."""
    head = '"HITId","WorkerId","WorkTimeInSeconds","Input.image","Answer.label.yes","Answer.label.no","Answer.submit"\n'
    given = ['"true","false"'] * 2 + ['"false","true"'] * 2 + ['"false","false"']
    lines = [f'"3X","A{worker}","30","{VARIANT.image}",{ticks},"go"\n' for worker, ticks in enumerate(given)]
    ratings, empty = read_answers(table(tmp_path, head + "".join(lines)), STUDY, [])
    assert [(one.rater, one.value) for one in ratings] == [("A0", 1), ("A1", 1), ("A2", 0), ("A3", 0)]
    assert {one.seconds for one in ratings} == {30.0}
    assert empty == 1
    text = f"WorkerId,Input.image,Answer.label,Answer.protected: person\nA1,{VARIANT.image},Yes,\n"
    ratings, empty = read_answers(table(tmp_path, text), STUDY, [])
    assert ([one[:4] for one in ratings], empty) == ([("A1", VARIANT.number, "label", 1)], 1)


def test_columns_per_rater_and_rows_per_answer_read(tmp_path: Path) -> None:
    """Four of five agree, three of five do not, and two have answered yet."""
    images = [item.image for item in STUDY.items if item.kind == "variant"][:3]
    lines = zip(images, ("yes,yes,no,yes,yes", "yes,yes,no,no,yes", "1,1,,,"), strict=True)
    text = "image,Rater 1,Rater 2,Rater 3,Rater 4,Rater 5\n" + "".join(f"{image},{given}\n" for image, given in lines)
    ratings, empty = read_answers(table(tmp_path, text), STUDY, [])
    assert ({one.rater for one in ratings}, empty) == ({f"Rater {n}" for n in range(1, 6)}, 3)
    (label,) = find_results(STUDY, ratings, SuiteFacts(ROWS, {})).questions
    assert (label.asked, label.answers, label.discarded) == ("label", 12, 1)
    assert (label.share.value, label.share.count) == (1.0, 1)
    text = f"image,rater,question,answer\n{VARIANT.image},a,label,no\n{VARIANT.image},a,protected: person,1\n"
    ratings, _ = read_answers(table(tmp_path, text), STUDY, [])
    assert [one[2:4] for one in ratings] == [("label", 0), ("protected: person", 1)]


@pytest.mark.parametrize("seconds", ["nan", "-3", "1e400", "x", ""])
def test_an_odd_time_is_none(tmp_path: Path, seconds: str) -> None:
    text = f"image,rater,label,seconds\n{VARIANT.image},a,no,{seconds}\n"
    ratings, _ = read_answers(table(tmp_path, text), STUDY, [])
    assert [(one.value, one.seconds) for one in ratings] == [(0, 0.0)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("image,rater,realism\n{image},a,5\n", "answers none of this study's questions"),
        ("image,rater,question,answer\n{image},a,realism,5\n", "does not ask 'realism'"),
        ("image,rater,label\nimages/x/1.png,a,yes\n", "does not ask about 'images/x/1.png'"),
        ("item,image,rater,label\n99,{image},a,yes\n", "as item 99"),
        ("item,image,rater,label\n1,images/x/1.png,a,yes\n", "of another study or suite"),
        ("image,rater,label\n{image},a,maybe\n", "'maybe' is no answer"),
        ("image,rater,label\n{image},a,yes\n{image},a,no\n", "two raters are called 'a'"),
        ("image,rater,label\n{image},Ann,yes\n{image},ann,yes\n", "two raters are called 'ann' and 'Ann'"),
        ("image,rater,label\n{image},known,no\n", "two raters are called 'known'"),
        ("image,label\n{image},yes\n", "no column rater or WorkerId"),
        ("image,rater,label\n{image},a,yes,1\n", "has 4 fields"),
        ("image,rater,label\n", "answers none"),
    ],
)
def test_another_study_s_table_is_one_sentence_and_takes_nothing(tmp_path: Path, text: str, word: str) -> None:
    known = [Rating("known", VARIANT.number, "label", 1)]
    with pytest.raises(CounterfactoryError) as error:
        read_answers(table(tmp_path, text.replace("{image}", VARIANT.image)), STUDY, known)
    assert word in str(error.value)
    assert "t.csv" in str(error.value)


def test_taken_answers_are_the_book_s(tmp_path: Path) -> None:
    with closing(book_of(tmp_path, STUDY, "anna")) as book:
        ratings = answered(STUDY, 2, truth)
        book.add_raters(["rater 0", "rater 1"], links=False)
        book.record(ratings)
        assert plain(book.ratings()) == plain(ratings)
        assert list(book.raters) == ["anna"], "a crowd's raters have no links"
        book.add_raters(["rater 0"])
        assert sorted(book.raters) == ["anna", "rater 0"]
