"""review.sqlite: each answer is there when it was given, whatever comes after; and a bad file is one sentence."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusal
from reviewing import book_of, rows_of, served, study_of, suite_of

from counterfactory.engine.review.answer_book import AnswerBook, Rating, create_book

STUDY = study_of(rows_of(4), sample=4, checks=0)


def values(book: AnswerBook) -> dict[tuple[str, int, str], int]:
    return {(one.rater, one.item, one.asked): one.value for one in book.ratings()}


def test_the_study_comes_back_as_it_was_drawn(tmp_path: Path) -> None:
    book = book_of(tmp_path, STUDY, "anna", "ben")
    assert book.study == STUDY
    assert list(book.raters) == ["anna", "ben"]
    assert min(map(len, book.raters.values())) > 20
    assert len(set(book.raters.values())) == 2


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.integers(-1, 1)), max_size=12))
def test_the_last_answer_counts_and_undo_takes_it_back(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, int, int]]
) -> None:
    """-1 is an undo. The oracle keeps each rater's answers in a list."""
    book, oracle = book_of(tmp_path_factory.mktemp("book"), STUDY), dict[str, list[tuple[int, int]]](a=[], b=[])
    for rater, item, value in acts:
        if value >= 0:
            book.record([Rating(rater, item, "label", value)])
            oracle[rater].append((item, value))
        else:
            last = oracle[rater].pop() if oracle[rater] else None
            assert book.undo(rater) == (None if last is None else last[0])
    assert values(book) == {(rater, item, "label"): v for rater, all_ in oracle.items() for item, v in all_}
    book.close()


def test_two_raters_of_one_name_are_refused(tmp_path: Path) -> None:
    book = book_of(tmp_path, STUDY, "anna")
    tokens = book.raters
    with refusal("two raters are called 'Ben'"):
        book.add_raters(["ben", "Ben"])
    with refusal("a rater is called 'anna' already"):
        book.add_raters(["Anna"])
    for name in ("", " x", "a\nb", "x" * 61):
        with refusal("no name of a rater"):
            book.add_raters([name])
    book.add_raters(["anna"])
    assert book.raters == tokens, "who comes again keeps the link"


def test_all_answers_of_a_table_or_none(tmp_path: Path) -> None:
    book = book_of(tmp_path, STUDY, "anna")
    with pytest.raises(sqlite3.Error):
        book.record([Rating("anna", 1, "label", 1), Rating("anna", 2, "label", None)])  # type: ignore[arg-type]
    assert values(book) == {}
    book.record([Rating("anna", 1, "label", 1)])
    assert len(values(book)) == 1


def test_what_the_study_did_not_ask_counts_as_missing(tmp_path: Path) -> None:
    book = book_of(tmp_path, STUDY)
    strange = [Rating("a", 99, "label", 1), Rating("a", 1, "sky", 1), Rating("a", 1, "label", 7)]
    book.record([*strange, Rating("a", 1, "label", 0)])
    assert values(book) == {("a", 1, "label"): 0}


_REPLACE = "UPDATE study SET value = replace(value, '{}', '{}') WHERE name = 'items'"


def spoil(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (lambda path: path.write_bytes(b"no database at all" * 99), "none of ours|no study of ours|damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:3000]), "damaged|no study"),
        (lambda path: spoil(path, "CREATE TABLE more (a)"), "no study of ours"),
        (
            lambda path: spoil(path, "CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END"),
            "no study",
        ),
        (lambda path: spoil(path, "UPDATE study SET value = '[]'"), "should be|no study"),
        (lambda path: spoil(path, "DELETE FROM study WHERE name = 'plan'"), "'plan' is missing"),
        (lambda path: spoil(path, "PRAGMA application_id = 7"), "no study of ours"),
        (lambda path: spoil(path, _REPLACE.format("label", "sky")), "none of its questions"),
        (lambda path: spoil(path, _REPLACE.format('number": 2', 'number": 1')), "numbered twice"),
        (lambda path: path.rename(path.with_name("x")) and path.symlink_to("x"), "no regular file"),
        (lambda path: path.unlink(), "there is no study"),
        (lambda path: path.with_name("review.sqlite-journal").write_text("x"), "is a journal"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    tmp_path: Path, harm: Callable[[Path], object], word: str
) -> None:
    book_of(tmp_path, STUDY, "anna").close()
    path = tmp_path / "review.sqlite"
    harm(path)
    before = path.read_bytes() if path.exists() else None
    with refusal(word):
        AnswerBook(path)
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_bit_that_turned_in_a_name_is_seen_in_the_name(tmp_path: Path) -> None:
    book_of(tmp_path, STUDY, "anna").close()
    path = next(tmp_path.glob("**/review.sqlite"))
    spoil(path, "UPDATE raters SET name = CAST(x'616efa61' AS TEXT)")
    with closing(AnswerBook(path)) as book:
        assert list(book.raters) == ["an\ufffda"]


def test_closing_waits_for_who_reads(tmp_path: Path) -> None:
    """SQLite does not: a request that was on its way when a review ended took the process with it."""
    book = book_of(tmp_path, STUDY, "anna")
    closing_thread = threading.Thread(target=book.close)
    with book._lock:
        closing_thread.start()
        closing_thread.join(0.2)
        assert list(book.raters) == ["anna"]
    closing_thread.join()
    with pytest.raises(sqlite3.ProgrammingError):
        _ = book.raters


def test_a_study_is_never_written_over(tmp_path: Path) -> None:
    book_of(tmp_path, STUDY).close()
    with refusal("is there already"):
        create_book(tmp_path / "review.sqlite", STUDY)


def test_no_answer_is_lost_by_a_kill(tmp_path: Path) -> None:
    """The server is killed in the midst of answers: those that it acknowledged are there, and the next one goes on."""
    suite = suite_of(tmp_path / "suite", rows_of(8))
    ledger = sorted(path.name for path in suite.iterdir())
    acknowledged = 0
    for kill_after in (3, 9):
        with served(suite, "--port", "0", "--raters", "anna") as (process, said):
            link = said["links"]["anna"]
            item = json.load(urlopen(f"{link}item"))
            for _ in range(kill_after):
                asked = next(one["asked"] for one in item["questions"] if one["value"] is None)
                body = {"item": item["number"], "asked": asked, "value": 1, "note": "", "seconds": 1.5}
                origin = "/".join(link.split("/")[:3])
                headers = {"Content-Type": "application/json", "Origin": origin}
                json.load(urlopen(Request(f"{link}answer", json.dumps(body).encode(), headers)))
                acknowledged += 1
                item = json.load(urlopen(f"{link}item"))
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    with closing(AnswerBook(suite / "review.sqlite")) as book:
        assert len(book.ratings()) == acknowledged == 12
        assert book.raters["anna"] in link
    assert sorted({*(path.name for path in suite.iterdir())} - {*ledger}) in (
        ["review.sqlite"],
        ["review.sqlite", "review.sqlite-shm", "review.sqlite-wal"],
    )
