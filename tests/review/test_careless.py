"""Raters who answer without looking are told from those who look."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reviewing import answered, rows_of, study_of, truth

from counterfactory.engine.review.answer_book import Rating
from counterfactory.engine.review.careless import judge_raters
from counterfactory.engine.review.study import StudyItem

ROWS = rows_of(40)


@pytest.mark.parametrize("questions", ["dillema", "lance"])
def test_one_who_answers_by_chance_comes_first(questions: str) -> None:
    study, rng = study_of(ROWS, questions, sample=40, checks=0.3), random.Random(1)

    def value(item: StudyItem, asked: str, rater: int) -> int:
        question = study.questions.question(asked)
        if rater == 3:
            return rng.choice(question.values)
        if question.kind == "scale":
            return 4 + (rng.random() < 0.3) - (rng.random() < 0.3)
        return truth(item, asked) if asked != "ethics" else 0

    records = judge_raters(study, answered(study, 5, value))
    assert [one.careless for one in records] == [True, False, False, False, False]
    assert (records[0].rater, records[0].items) == ("rater 3", len(study.items))
    assert all(one.right == one.checks > 0 for one in records[1:])
    assert records[0].right < records[0].checks
    assert records[0].seconds == 2 * len(study.items[0].asks)


def test_one_alone_is_judged_by_the_checks() -> None:
    study = study_of(ROWS, sample=40, checks=0.5)
    (yes,) = judge_raters(study, answered(study, 1, lambda *_: 1))
    (good,) = judge_raters(study, answered(study, 1, truth))
    assert (yes.careless, good.careless) == (True, False)
    assert (yes.right, good.right, good.checks) == (20, 30, 30), "who is protected on another's picture is not known"


def test_a_majority_that_errs_does_not_accuse_who_agrees_with_the_checks() -> None:
    """Three who say yes to everything fail the checks; the two who look disagree with them, and are not accused."""
    study = study_of(ROWS, sample=60, checks=0.5)
    invalid = {item.number for item in study.items if item.number % 4 == 0}

    def value(item: StudyItem, asked: str, rater: int) -> int:
        known = item.kind != "variant" or asked != "label"
        return 1 if rater < 3 else truth(item, asked) if known else int(item.number not in invalid)

    records = {one.rater: one for one in judge_raters(study, answered(study, 5, value))}
    assert all(records[f"rater {n}"].suspicion > records[f"rater {m}"].suspicion for n in (0, 1, 2) for m in (3, 4))
    assert not records["rater 4"].careless


@settings(max_examples=15)
@given(st.randoms(use_true_random=False))
def test_the_order_of_answers_does_not_matter(rng: random.Random) -> None:
    study = study_of(ROWS, sample=10)
    ratings = answered(study, 3, lambda item, asked, rater: int((item.number + rater) % 3 > 0))
    shuffled = list[Rating](ratings)
    rng.shuffle(shuffled)
    first, second = judge_raters(study, ratings), judge_raters(study, shuffled)
    assert [one.rater for one in first] == [one.rater for one in second]
    assert [one.suspicion for one in first] == pytest.approx([one.suspicion for one in second])
