"""A study of a suite by people, begun or gone on with, and what it says facts a model and the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..judging.threshold_curve import rejection
from ..review.agreement import AGREE
from ..review.answer_book import FILE, AnswerBook, create_book
from ..review.answer_tables import read_answers, write_answers
from ..review.question_set import load_questions
from ..review.study import StudyPlan, draw_study
from ..review.study_results import StudyResults, SuiteFacts, find_results, follow_people
from ..suite.recorded import recorded_check
from ..suite.verdicts import read_verdicts
from .finished import FinishedSuite

_RATERS = 5


@dataclass(frozen=True)
class StudyOptions:
    """What is asked for of a study: fields as in `StudyPlan`, None for its default, or what a study that is there has.
    `wrong` are a model's wrong answers, by variant.
    """

    questions: str | None = None
    raters: Sequence[str] = ()
    draw: Any = None
    by: Any = None
    sample: int | None = None
    checks: float | None = None
    seed: int | None = None
    per_picture: int | None = None


def open_study(
    suite: FinishedSuite, file: Path | None, options: StudyOptions, wrong: Mapping[str, bool] | None = None
) -> AnswerBook:
    """The study in `file` (review.sqlite in the suite), begun where there is none, with these raters.

    Raises CounterfactoryError for options of another study than the one that is there.
    """
    path = suite.path / FILE if file is None else file
    names = [field.name for field in fields(StudyPlan)]
    asked = {name: value for name in names if (value := getattr(options, name)) is not None}
    if not path.exists():
        asked.setdefault("per_picture", min(len(options.raters), _RATERS) or _RATERS)
        questions, settings = load_questions(options.questions or "dillema"), None
        if options.draw == "uncertain":
            settings = recorded_check(suite.path)
        create_book(path, draw_study(suite.rows, questions, StudyPlan(**asked), settings, wrong))
    book = AnswerBook(path)
    try:
        plan = book.study.plan
        other = [name for name, value in asked.items() if getattr(plan, name) != value]
        if options.questions is not None and load_questions(options.questions) != book.study.questions:
            other.append("questions")
        if other:
            raise CounterfactoryError(
                f"{path} is of another study ({', '.join(other)}): leave these options out to go on with it, or begin "
                "another one by --study FILE"
            )
        book.add_raters(options.raters)
    except BaseException:
        book.close()
        raise
    return book


def take_answers(suite: FinishedSuite, book: AnswerBook, path: Path) -> tuple[int, int]:
    """Takes a table's answers into the study: how many are new, and how many it lacks. Raises CounterfactoryError, and
    takes none, for a table of another study.
    """
    ratings, empty = read_answers(path, book.study, book.ratings())
    book.add_raters(list(dict.fromkeys(one.rater for one in ratings)), links=False)
    book.record(ratings)
    return len(ratings), empty


def give_answers(suite: FinishedSuite, book: AnswerBook, path: Path) -> int:
    """Writes a study's answers, or what to ask, as a table; says how many rows it has."""
    return write_answers(path, book.study, book.ratings(), suite.rows, suite.path)


def wrong_answers(suite: FinishedSuite, model: Any, **options: Any) -> dict[str, bool]:
    """Whether a classifier answers each variant wrongly, rejected ones left out. Raises CounterfactoryError for a model
    of another kind.
    """
    evaluation = suite.evaluate(model, **options).evaluation
    if evaluation.measure != "accuracy":
        raise CounterfactoryError("misclassified are a classifier's pictures: name one, or its answers")
    variants = {row.file_name for row in suite.rows if row.kind == "variant"}
    return {name: outcome == 0 for name, outcome in evaluation.outcomes.items() if name in variants}


def gate_accepts(suite: FinishedSuite) -> dict[str, bool]:
    """Whether the gate accepts each variant, by its scores alone, whatever people decided of it."""
    settings = recorded_check(suite.path)
    rows = read_verdicts(suite.path).rows
    return {row.file_name: rejection(row, settings) is None for row in rows if row.kind == "variant"}


def study_results(
    suite: FinishedSuite,
    book: AnswerBook,
    *,
    wrong: Mapping[str, bool] | None = None,
    agree: float = AGREE,
    without: Sequence[str] = (),
) -> StudyResults:
    """What a study says, where a share `agree` of a picture's raters agree, without those of some raters."""
    if unknown := sorted({*without} - {"careless", *(one.rater for one in book.ratings())}):
        raise CounterfactoryError(f"nobody called {', '.join(unknown)} answered in {book.path}")
    facts = SuiteFacts(suite.rows, gate_accepts(suite), wrong)
    return find_results(book.study, book.ratings(), facts, agree, without)


def follow_study(suite: FinishedSuite, book: AnswerBook, results: StudyResults) -> Any:
    """Brings the suite's verdicts to what people agree on, by hand, with the answers and who gave them."""
    return suite.check(rulings=follow_people(book.study, results, gate_accepts(suite)))
