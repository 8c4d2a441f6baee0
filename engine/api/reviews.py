"""A study of a suite by people, begun or gone on with, and what it says facts a model and the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..judging.threshold_curve import rejection
from ..review.agreement import AGREE
from ..review.answer_book import FILE, AnswerBook, create_book
from ..review.answer_tables import read_answers
from ..review.question_set import load_questions
from ..review.study import StudyPlan, draw_study
from ..review.study_results import StudyResults, SuiteFacts, find_results, follow_people
from ..suite import PictureRow
from ..suite.recorded import recorded_check
from ..suite.verdicts import read_verdicts
from .finished import FinishedSuite

_RATERS = 5


def open_study(
    suite: FinishedSuite,
    file: Path | None = None,
    *,
    rows: Sequence[PictureRow] | None = None,
    questions: str | None = None,
    raters: Sequence[str] = (),
    wrong: Mapping[str, bool] | None = None,
    **plan: Any,
) -> AnswerBook:
    """The study in `file` (review.sqlite in the suite), begun where there is none, with these raters, of the suite's
    `rows` with their groups (those that it was made with). `plan` are fields of `StudyPlan`, None for what a study has
    that is there, or the default; `wrong` are a model's wrong answers.

    Raises CounterfactoryError for options of another study than the one that is there.
    """
    path = suite.path / FILE if file is None else file
    asked = {name: value for name, value in plan.items() if value is not None}
    if not path.exists():
        fresh = StudyPlan(**{"per_picture": min(len(raters), _RATERS) or _RATERS} | asked)
        settings = recorded_check(suite.path) if fresh.draw == "uncertain" else None
        drawn = draw_study(rows or suite.grouped(), load_questions(questions or "dillema"), fresh, settings, wrong)
        create_book(path, drawn)
    book = AnswerBook(path)
    try:
        other = [name for name, value in asked.items() if getattr(book.study.plan, name) != value]
        if questions is not None and load_questions(questions) != book.study.questions:
            other.append("questions")
        if other:
            raise CounterfactoryError(
                f"{path} is of another study ({', '.join(other)}): leave these options out to go on with it, or begin "
                "another one by --study FILE"
            )
        book.add_raters(raters)
    except BaseException:
        book.close()
        raise
    return book


def take_answers(book: AnswerBook, path: Path) -> tuple[int, int]:
    """Takes a table's answers into the study: how many are new, and how many it lacks. Raises CounterfactoryError, and
    takes none, for a table of another study.
    """
    ratings, empty = read_answers(path, book.study, book.ratings())
    book.add_raters(list(dict.fromkeys(one.rater for one in ratings)), links=False)
    book.record(ratings)
    return len(ratings), empty


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
    book: AnswerBook,
    facts: SuiteFacts,
    *,
    agree: float = AGREE,
    without: Sequence[str] = (),
) -> StudyResults:
    """What a study says, where a share `agree` of a picture's raters agree, without those of some raters."""
    ratings = book.ratings()
    if not ratings:
        raise CounterfactoryError(f"nobody has answered in {book.path} yet: `counterfactory review` prints the links")
    if unknown := sorted({*without} - {"careless", *(one.rater for one in ratings)}):
        raise CounterfactoryError(f"nobody called {', '.join(unknown)} answered in {book.path}")
    return find_results(book.study, ratings, facts, agree, without)


def follow_study(suite: FinishedSuite, book: AnswerBook, results: StudyResults) -> Any:
    """Brings the suite's verdicts to what people agree on, by hand, with the answers and who gave them."""
    return suite.check(rulings=follow_people(book.study, results, gate_accepts(suite)))
