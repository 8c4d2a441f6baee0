"""Questions: the papers' own, and those of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusing import refusal

from counterfactory.engine.cli import review_arguments
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.review import question_set, study
from counterfactory.engine.review.question_set import Question, known_answer, load_questions


def test_the_papers_ask_what_they_ask_and_checks_have_their_answers() -> None:
    dillema, lance, edits = map(load_questions, question_set.SETS)
    assert dillema.ids(["road", "person", "road"]) == ("label", "protected: road", "protected: person")
    assert [one.kind for one in lance.questions] == ["scale"] * 3 + ["yes-no"] * 2
    assert [one.name for one in lance.questions] == ["realism", "edit success", "fidelity", "label", "ethics"]
    assert [one.name for one in lance.questions if one.note] == ["ethics"]
    assert (edits.of, [one.name for one in edits.questions]) == ("edits", ["right_type", "right_label", "coherent"])
    assert "person" in dillema.text("protected: person", "bus")
    assert "bus" in dillema.text("label", "bus")
    label, protected = load_questions("dillema").questions
    assert [known_answer(label, kind) for kind in ("control", "other", "variant")] == [1, 0, None]
    assert [known_answer(protected, kind) for kind in ("control", "other")] == [1, None]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *(("yes-no", text, 1) for text in ("yes", "Y", " true ", "1")),
        *(("yes-no", text, 0) for text in ("no", "false", "0")),
        *(("yes-no", text, None) for text in ("", "2", "maybe", "²")),
        *(("scale", text, int(text)) for text in "12345"),
        *(("scale", text, None) for text in ("0", "6", "yes", "3.5", "-1")),
    ],
)
def test_cells_are_answers_or_none(kind: str, text: str, value: int | None) -> None:
    assert Question("q", "?", kind).value(text) == value  # type: ignore[arg-type]


def questions_in(folder: Path, text: str) -> str:
    (folder / "own.toml").write_text(text)
    return str(folder / "own.toml")


def test_own_questions_come_from_a_file(tmp_path: Path) -> None:
    text = '[[questions]]\nname = "sky"\ntext = "{label} under a sky?"\nkind = "yes-no"\nvalid = "yes"\n'
    own = load_questions(questions_in(tmp_path, text))
    assert (own.ids([]), own.text("sky", "bus"), own.of) == (("sky",), "bus under a sky?", "pictures")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "'questions' is missing"),
        ("questions = []", "names, each its own"),
        ('[[questions]]\nname = "a"\ntext = ""\nkind = "yes"', "'questions[0].kind'"),
        ('[[questions]]\nname = "rater"\ntext = ""\nkind = "scale"', "'rater' names no question"),
        ('[[questions]]\nname = "A!"\ntext = ""\nkind = "scale"', "'A!' names no question"),
        ('[[questions]]\nname = "a"\ntext = ""\nkind = "scale"\nvalid = "yes"', "no yes and no to be right"),
        ('[[questions]]\nname = "a"\ntext = ""\nkind = "scale"\nends = ["low"]', "1 ends"),
        (2 * '[[questions]]\nname = "a"\ntext = ""\nkind = "scale"\n', "names, each its own"),
        ("[[questions", "not valid TOML"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(CounterfactoryError) as error:
        load_questions(questions_in(tmp_path, text))
    assert word in str(error.value)
    assert "own.toml" in str(error.value)


def test_what_is_no_set_is_named() -> None:
    with refusal("'lanse' are no questions"):
        load_questions("lanse")


def test_the_command_line_knows_the_same_words() -> None:
    assert (review_arguments.SETS, review_arguments.DRAWS) == (question_set.SETS, study.DRAWS)
    assert review_arguments.SLICES == study.SLICES
