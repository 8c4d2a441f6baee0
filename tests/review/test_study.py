"""What a study draws: which variants, in which shares, and checks whose answers are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from picture_rows import picture_row
from refusing import refusal
from reviewing import rows_of, study_of

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.groups import group_rows
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.review.question_set import load_questions
from counterfactory.engine.review.study import StudyPlan, draw_study
from counterfactory.engine.sources.shapes import Box

ROWS = rows_of(20)
BY_NAME = {row.file_name: row for row in ROWS}


def test_a_draw_is_of_its_seed_alone() -> None:
    first = study_of(ROWS, sample=10)
    assert first == study_of(reversed(ROWS), sample=10)
    assert first.items != study_of(ROWS, sample=10, seed=1).items
    assert [item.number for item in first.items] == list(range(1, len(first.items) + 1))


def test_checks_look_like_any_variant_and_their_answers_are_known() -> None:
    study = study_of(ROWS, sample=40, checks=0.5)
    kinds = Counter(item.kind for item in study.items)
    assert kinds == {"variant": 40, "control": 10, "other": 10}
    for item in study.items:
        host, shown = BY_NAME[item.image], BY_NAME[item.shown]
        assert (host.kind, item.asks) == ("variant", ("label", "protected: person"))
        assert item.sha256 == shown.sha256
        if item.kind == "variant":
            assert item.shown == item.image
            assert study.right_answer(item, "label") is None
        elif item.kind == "control":
            assert (shown.kind, shown.source, study.right_answer(item, "label")) == ("control", host.source, 1)
        else:
            assert shown.label != host.label
            assert (study.right_answer(item, "label"), study.right_answer(item, "protected: person")) == (0, None)
    places = [item.number for item in study.items if item.kind != "variant"]
    assert places != list(range(41, 61)), "numbers would tell them"
    rows = [replace(row, label="bus") for row in ROWS]
    kinds = Counter(item.kind for item in study_of(rows, sample=20, checks=0.5).items)
    assert kinds == {"variant": 20, "control": 5}


def test_accepted_ones_are_drawn_unless_the_gate_is_asked_about() -> None:
    rows = [replace(row, reason="edit 0.1 is below 0.2") if row.number == 2 else row for row in ROWS]
    accepted = {item.image for item in study_of(rows, checks=0).items}
    assert accepted == {row.file_name for row in rows if row.kind == "variant" and row.number < 2}
    assert len(study_of(rows, checks=0, draw="gate").items) == 60


def test_any_beginning_has_the_same_share_of_every_group() -> None:
    rows = rows_of(40)
    sources = list(dict.fromkeys(row.source for row in rows))
    groups = {source: "large" if at < 20 else f"drive {at % 4}" for at, source in enumerate(sources)}
    drives = group_rows(rows, groups)
    unit = {row.file_name: row.unit for row in drives}
    for seed in range(5):
        drawn = Counter(unit[item.image] for item in study_of(drives, sample=24, checks=0, seed=seed).items)
        assert drawn["large"] in (11, 12, 13)
        assert all(2 <= drawn[f"drive {k}"] <= 4 for k in range(4))
    assert study_of(drives, sample=24) == study_of(reversed(drives), sample=24)


def test_slices_take_turns() -> None:
    fog, night = Edit("weather", "dry", "foggy"), Edit("time", "day", "night")
    rows = [picture_row(i, edits=(night if i < 5 else fog,), edit_scores=()) for i in range(100)]
    drawn = {row.file_name: row for row in rows}

    def count(**plan: object) -> Counter[str]:
        return Counter(drawn[item.image].edits[0].type for item in study_of(rows, checks=0, sample=10, **plan).items)

    assert count(by="type") == {"weather": 5, "time": 5}
    assert count(by="value") == {"weather": 5, "time": 5}
    assert count()["time"] < 5


def test_uncertain_ones_lie_nearest_to_a_threshold() -> None:
    settings = load_profile("pocket").check
    settings = replace(settings, least={"edit": 0.5}, most={})
    rows = [picture_row(i, scores={"edit": i / 100}) for i in range(100)]
    study = draw_study(rows, load_questions("dillema"), StudyPlan("uncertain", sample=5, checks=0), settings)
    drawn = {rows.index(next(row for row in rows if row.file_name == item.image)) for item in study.items}
    assert drawn == {48, 49, 50, 51, 52}


def test_misclassified_ones_are_those_of_the_model_and_without_variants_there_is_nothing() -> None:
    wrong = {row.file_name: row.number == 1 for row in ROWS if row.kind == "variant"}
    study = draw_study(ROWS, load_questions("dillema"), StudyPlan("misclassified", checks=0), wrong=wrong)
    assert {item.image for item in study.items} == {name for name, is_wrong in wrong.items() if is_wrong}
    with refusal("--model or --predictions"):
        study_of(ROWS, draw="misclassified")
    with refusal("answers all of them rightly"):
        draw_study(ROWS, load_questions("dillema"), StudyPlan("misclassified"), wrong={})
    with refusal(r"no variants to review.*none is accepted"):
        study_of([row for row in ROWS if row.kind != "variant"])


def test_what_is_asked_goes_by_label_caption_boxes_and_edits() -> None:
    words = {"protected": ("bus", "people", "person"), "caption": "A person and a bus."}
    boxes = (Box(0, 0, 9, 9, "car"), Box(1, 1, 2, 2, "car"), Box(1, 1, 2, 2, "dog", ignored="crowd"))

    def asks(**changes: Any) -> tuple[str, ...]:
        (item,) = study_of([picture_row(0, **words | changes)], checks=0).items
        return item.asks

    assert asks() == ("label", "protected: person"), "people is another word for the same"
    assert asks(boxes=boxes) == ("label", "protected: person", "protected: car")
    assert asks(label=None) == ("protected: bus", "protected: person")
    assert asks(label=None, protected=()) == ("label",)
    edits = (Edit("weather", "dry", "foggy"), Edit("time", "day", "night"))
    study = study_of([picture_row(0, edits=edits, edit_scores=())], "edits")
    assert sorted((item.edit, item.kind) for item in study.items) == [(0, "variant"), (1, "variant")]
