"""Studies for tests: a small suite with pictures, and raters who answer as they are told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from picture_rows import control_row, original_row, picture_row, written
from PIL import Image

from counterfactory.engine.review.answer_book import AnswerBook, Rating, create_book
from counterfactory.engine.review.question_set import load_questions
from counterfactory.engine.review.study import Study, StudyItem, StudyPlan, draw_study
from counterfactory.engine.suite import PictureRow

CLASSES = ("bus", "car")


def rows_of(sources: int = 6, **changes: Any) -> list[PictureRow]:
    """A source of each class by turns, with a control and three variants each; a person is protected in all."""
    rows: list[PictureRow] = []
    for number in range(sources):
        control = control_row(number)
        shared = {"label": CLASSES[number % 2], "control": control.file_name, "protected": ("person",)}
        shared["original"] = original_row(number).file_name
        rows += [original_row(number, **shared), control_row(number, **shared)]
        rows += [picture_row(3 * number + k, **shared, **changes) for k in range(3)]
    return rows


def suite_of(folder: Path, rows: Iterable[PictureRow]) -> Path:
    """The rows with a picture each, of a colour of its own."""
    rows = list(rows)
    for place, row in enumerate(rows):
        file = folder / row.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (48, 32), (place * 37 % 256, place * 11 % 256, 99)).save(file)
    return written(folder, rows)


def study_of(rows: Iterable[PictureRow], questions: str = "dillema", **plan: Any) -> Study:
    return draw_study(list(rows), load_questions(questions), StudyPlan(**plan))


def book_of(folder: Path, study: Study, *raters: str) -> AnswerBook:
    create_book(folder / "review.sqlite", study)
    book = AnswerBook(folder / "review.sqlite")
    book.add_raters(raters)
    return book


def answered(study: Study, raters: int, value: Callable[[StudyItem, str, int], int | None]) -> list[Rating]:
    """What raters 0, 1, ... answer to everything that is asked; None of what they leave out."""
    return [
        Rating(f"rater {rater}", item.number, asked, number, seconds=2.0)
        for item in study.items
        for asked in item.asks
        for rater in range(raters)
        if (number := value(item, asked, rater)) is not None
    ]


def truth(item: StudyItem, asked: str = "label", rater: int = 0) -> int:
    """What a careful rater answers where all variants are valid."""
    return int(item.kind != "other" or asked != "label")


def checked(study: Study, **changes: Any) -> Study:
    """The study with another plan."""
    return Study(study.questions, replace(study.plan, **changes), study.items)


@contextmanager
def served(suite: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`counterfactory review` in a process of its own, with what it says once it serves."""
    command = [sys.executable, "-m", "counterfactory.engine", "review", str(suite), "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()
