"""A segmenter's masks from a folder: each beside its truth, and clear words for what does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MadeSuite
from numpy.typing import NDArray
from picture_rows import picture_row
from PIL import Image
from refusing import refusal

from counterfactory.engine.judging.confusion import confusion_matrix
from counterfactory.engine.judging.evaluate import evaluate_masks
from counterfactory.engine.judging.evaluation import Evaluation, Unanswered
from counterfactory.engine.judging.mask_answers import AnswerTally, compare_masks
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import PictureRow


@pytest.fixture
def answers(made_suite: MadeSuite, tmp_path: Path) -> Path:
    """The truths, with class 2 where they say 1."""
    for row in made_suite.rows:
        mask = np.asarray(Image.open(made_suite.path / str(row.mask)))
        file = tmp_path / "answers" / row.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.where(mask == 1, 2, mask).astype(np.uint8)).save(file)
    return tmp_path / "answers"


def test_masks_are_compared_with_those_that_were_carried_over(made_suite: MadeSuite, answers: Path) -> None:
    counts, classes = compare_masks(answers, made_suite.path, made_suite.rows, EMBEDDED.classes)
    assert classes == EMBEDDED.classes
    for row, found in zip(made_suite.rows, counts, strict=True):
        truth = np.asarray(Image.open(made_suite.path / str(row.mask)))
        given = np.asarray(Image.open(answers / row.file_name))
        np.testing.assert_array_equal(found, confusion_matrix(truth, given, len(EMBEDDED.classes)))
        assert found[1, 2] == (truth == 1).sum()


def test_classes_without_names_go_by_their_numbers_and_void_is_not_counted(
    made_suite: MadeSuite, answers: Path
) -> None:
    row = made_suite.rows[1]
    truth = np.array(Image.open(made_suite.path / str(row.mask)))
    truth[:64] = 255
    Image.fromarray(truth).save(made_suite.path / str(row.mask))
    (_, counts, *_), classes = compare_masks(answers, made_suite.path, made_suite.rows)
    highest = max(int(np.asarray(Image.open(file)).max()) for file in answers.rglob("*.png"))
    assert classes == tuple(map(str, range(highest + 1)))
    assert counts.sum() == truth[64:].size


def test_originals_and_controls_may_all_be_left_out(made_suite: MadeSuite, answers: Path) -> None:
    for row in made_suite.rows:
        if row.kind == "original" or not row.accepted:
            (answers / row.file_name).unlink()
    counts, _ = compare_masks(answers, made_suite.path, made_suite.rows)
    assert [c is None for c in counts] == [r.kind == "original" or not r.accepted for r in made_suite.rows]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (Image.new("L", (8, 9)).save, "is 8 x 9, its picture 128 x 128: write masks at"),
        (Image.new("RGB", (128, 128)).save, "is coloured: write class numbers"),
        (lambda file: file.write_bytes(b"no picture"), "not an image in a format that is read"),
        (Image.fromarray(np.full((128, 128), 1024, np.uint16)).save, "masks hold class 1024; at most 1024"),
    ],
)
def test_what_does_not_fit_is_named(
    made_suite: MadeSuite, answers: Path, damage: Callable[[Path], object], told: str
) -> None:
    damage(answers / next(row.file_name for row in made_suite.rows if row.kind == "variant"))
    with refusal(told):
        list(compare_masks(answers, made_suite.path, made_suite.rows)[0])


def test_masks_that_are_missing_are_said_and_none_at_all_is_refused(made_suite: MadeSuite, answers: Path) -> None:
    rows = made_suite.rows
    accepted = [row.file_name for row in rows if row.kind == "variant" and row.accepted]
    for file in accepted[:2]:
        (answers / file).unlink()
    lacking = evaluate_masks(rows, *compare_masks(answers, made_suite.path, rows)).unanswered
    assert lacking == (Unanswered("variant", 2, 5, accepted[0]),)
    for file in accepted[2:]:
        (answers / file).unlink()
    with refusal(r"5 of 5 variants have no mask in .*, the first is images/.*; name masks as metadata"):
        compare_masks(answers, made_suite.path, rows)


def settled(
    answers: Path, suite: Path, rows: list[PictureRow], names: Mapping[int, str] | Sequence[str] | None = None
) -> tuple[Evaluation, list[str]]:
    """The evaluation, and what was warned of."""
    tally, told = AnswerTally(answers, suite), list[str]()
    evaluation = evaluate_masks(rows, *compare_masks(answers, suite, rows, names, tally))
    tally.settle(told.append)
    return evaluation, told


def test_more_classes_than_names_are_refused(made_suite: MadeSuite, answers: Path) -> None:
    with refusal(r"has numbers that are no class of the suite in \d+\.\d % of the"):
        settled(answers, made_suite.path, made_suite.rows, ("sky", "road"))


def one_pair(folder: Path, truth: Image.Image, answer: Image.Image) -> tuple[Path, Path, list[PictureRow]]:
    """A suite of one picture whose mask is `truth`, and a folder with the `answer`, as `compare_masks` takes them."""
    for name, mask in (("suite/masks", truth), ("answers/images", answer)):
        (folder / name).mkdir(parents=True)
        mask.save(folder / name / "a.png")
    row = picture_row(0, file_name="images/a.png", original="images/a.png", mask="masks/a.png")
    return folder / "answers", folder / "suite", [row]


def test_the_highest_class_may_be_the_truths_alone_and_void_is_none_however_many_there_are(tmp_path: Path) -> None:
    ((counts,), classes) = compare_masks(*one_pair(tmp_path, Image.new("L", (8, 8), 3), Image.new("L", (8, 8), 1)))
    assert classes == ("0", "1", "2", "3")
    assert (counts[3, 1], counts.sum()) == (64, 64)
    pair = one_pair(tmp_path / "void", Image.new("L", (8, 8), 255), Image.new("L", (8, 8), 7))
    ((counts,), _) = compare_masks(*pair, [f"class {i}" for i in range(300)])
    assert counts.sum() == 0
    white = one_pair(tmp_path / "white", Image.new("L", (8, 8), 255), Image.new("L", (8, 8), 255))
    assert compare_masks(*white)[1] == ("0",), "white is no number of its own"
    for truth, answer in ((3, 255), (1, 7)):
        pair = one_pair(tmp_path / str(answer), Image.new("L", (8, 8), truth), Image.new("L", (8, 8), answer))
        assert len(compare_masks(*pair)[1]) == answer + 1


def street(*numbers: int) -> NDArray[np.uint8]:
    """Eight rows of each number."""
    return np.repeat(np.array(numbers, np.uint8), 8)[:, None].repeat(40, 1)


# As Cityscapes' labelIds have them; and a suite of two classes.
STREET = street(7, 8, 11, 23, 26, 255)
STREET_NAMES = {7: "road", 8: "sidewalk", 11: "building", 23: "sky", 26: "car", 33: "bicycle"}
CRACK = np.repeat(np.array([0, 1], np.uint8), [30, 10])[:, None].repeat(40, 1)
CRACK_NAMES = {0: "ground", 1: "crack"}


def judged(
    folder: Path, truth: NDArray[Any], answer: NDArray[Any], names: Mapping[int, str] | None
) -> tuple[Evaluation, list[str]]:
    return settled(*one_pair(folder, Image.fromarray(truth), Image.fromarray(answer)), names)


@pytest.mark.parametrize(
    ("truth", "names", "answer", "cause"),
    [
        (STREET, STREET_NAMES, street(0, 1, 2, 10, 13, 0), "Cityscapes' trainIds"),
        (STREET, STREET_NAMES, street(0, 1, 2, 3, 4, 255), "the classes' places, counted from 0"),
        (STREET, STREET_NAMES, street(1, 2, 3, 4, 5, 255), "the classes' places, counted from 1"),
        (STREET, STREET_NAMES, street(8, 9, 12, 24, 27, 255), "numbers from 1, where the suite"),
        (STREET, STREET_NAMES, street(6, 7, 10, 22, 25, 255), "numbers from 0, where the suite"),
        (STREET, None, STREET + 1, "numbers from 1, where the suite's are from 0"),
        (CRACK, CRACK_NAMES, CRACK + 1, "the classes' places, counted from 1"),
        (CRACK, None, CRACK + 1, "the classes' places, counted from 1"),
        (
            street(0, 1, 2, 10, 13, 255),
            {0: "road", 1: "sidewalk", 2: "building", 10: "sky", 13: "car"},
            STREET,
            "Cityscapes' labelIds",
        ),
        (CRACK + 5, {5: "background", 6: "aeroplane"}, CRACK, "the numbers of the class map voc"),
    ],
)
def test_right_answers_in_other_numbers_are_refused_with_their_cause(
    truth: NDArray[Any], names: dict[int, str] | None, answer: NDArray[Any], cause: str, tmp_path: Path
) -> None:
    with refusal(rf"; they look like {cause}.*; write the numbers of the suite's masks, "):
        judged(tmp_path, truth, answer, names)


def test_numbers_of_the_record_are_the_rows_by_name_and_a_right_model_is_right(tmp_path: Path) -> None:
    evaluation, told = judged(tmp_path, STREET, STREET, STREET_NAMES)
    assert evaluation.classes == ("road", "sidewalk", "building", "sky", "car", "bicycle")
    assert (evaluation.variants.score.value, told) == (1, [])
    assert evaluation.variants.by_class == {name: None if name == "bicycle" else 1 for name in evaluation.classes}


@pytest.mark.parametrize(("rows", "refused"), [(3, False), (4, True), (30, True)])
def test_from_a_tenth_on_numbers_that_are_no_class_are_refused(rows: int, refused: bool, tmp_path: Path) -> None:
    """Of 40 rows that count, `rows` are answered 91 or 90; below a tenth they are wrong, and no class of their own."""
    answer = STREET.copy()
    answer[:rows] = 91
    answer[0] = 90
    if refused:
        classes = "7 (road), 8 (sidewalk), 11 (building), 23 (sky), 26 (car) and 1 more"
        advice = f"; where they are classes, name all by --classes; write the numbers of the suite's masks, {classes}"
        with refusal(rf"in {2.5 * rows:.1f} % of the pixels: 91 .*, 90 \(2\.5 %\){re.escape(advice)}$"):
            judged(tmp_path, STREET, answer, STREET_NAMES)
        return
    evaluation, (told,) = judged(tmp_path, STREET, answer, STREET_NAMES)
    assert told.endswith("in 7.5 % of the pixels: 91 (5.0 %), 90 (2.5 %); they count as wrong")
    assert evaluation.variants.by_class["road"] == 5 / 8
    assert evaluation.variants.score.value == (4 + 5 / 8) / 5
    assert len(evaluation.variants.confusion) == len(evaluation.variants.confusion[0]) == 6


@pytest.mark.parametrize(
    ("rows", "cause"), [(5, "they look like Cityscapes' trainIds"), (4, "where they"), (3, "where they")]
)
def test_other_numbers_are_the_cause_where_most_is_right_by_them(rows: int, cause: str, tmp_path: Path) -> None:
    """Of eight rows of each class, `rows` are in trainIds, one is in the suite's own numbers, the others in none."""
    row = np.arange(len(STREET))[:, None] % 8
    answer = np.where(row < rows, street(0, 1, 2, 10, 13, 200), np.where(row == 7, STREET, 200)).astype(np.uint8)
    with refusal(f"; {cause}"):
        judged(tmp_path, STREET, answer, STREET_NAMES)


def test_two_classes_of_five_or_one_of_two_right_by_other_numbers_are_no_cause(tmp_path: Path) -> None:
    crack = np.repeat(np.array([1, 2, 200], np.uint8), [30, 4, 6])[:, None].repeat(40, 1)
    with refusal("; where they are classes"):
        judged(tmp_path / "five", STREET, street(0, 1, 200, 200, 200, 200), STREET_NAMES)
    with refusal("; where they are classes"):
        judged(tmp_path / "two", CRACK, crack, CRACK_NAMES)


def test_other_numbers_that_are_all_classes_are_refused_too(tmp_path: Path) -> None:
    with refusal(r"answers has other numbers than the suite; they look like numbers from 1, where the suite's are"):
        judged(tmp_path, CRACK + 1, CRACK + 2, {1: "ground", 2: "crack", 3: "hole"})


def test_void_truth_is_asked_for_nothing(tmp_path: Path) -> None:
    evaluation, told = judged(tmp_path, STREET, street(7, 8, 11, 23, 26, 200), STREET_NAMES)
    assert (evaluation.variants.score.value, told) == (1, [])


@pytest.mark.parametrize("names", [CRACK_NAMES, None])
@pytest.mark.parametrize("white", [255, 65_535])
def test_black_and_white_answer_two_classes(white: int, names: dict[int, str] | None, tmp_path: Path) -> None:
    answer = CRACK.astype(np.uint16) * white
    crack = "1 (crack)" if names else "1"
    evaluation, (told,) = judged(tmp_path, CRACK, answer, names)
    assert told == f"1 masks in {tmp_path / 'answers'} are black and white: white is read as {crack}"
    assert (evaluation.variants.score.value, len(evaluation.classes)) == (1, 2)
    evaluation, told_of_blind = judged(tmp_path / "blind", CRACK, 0 * CRACK, names)
    assert (evaluation.variants.score.value, told_of_blind) == (0.75 / 2, [])
    with refusal(r"numbers that are no class of the suite in 12.5 %"):
        judged(tmp_path / "both", np.hstack([CRACK, CRACK]), np.hstack([CRACK, answer]), CRACK_NAMES)


def test_a_bad_model_is_judged(tmp_path: Path) -> None:
    """One that swaps two classes, or answers one alone, is wrong in the suite's own numbers."""
    for i, answer in enumerate((1 - CRACK, 0 * CRACK + 1)):
        evaluation, told = judged(tmp_path / str(i), CRACK, answer, CRACK_NAMES)
        assert (evaluation.variants.score.value or 0) < 0.2
        assert told == []


@pytest.mark.parametrize(("number", "shown"), [(255, "nothing"), (1, r"1 \(crack\) alone")])
def test_masks_of_one_class_judge_nobody(number: int, shown: str, tmp_path: Path) -> None:
    truth = np.repeat(np.array([number, 255], np.uint8), 8)[:, None].repeat(16, 1)
    advice = "make the suite of masks with two classes or more, and say by --class-map what their numbers are"
    with refusal(f"show {shown}, so that a model that sees nothing could be right; {advice}$"):
        judged(tmp_path, truth, np.ones((16, 16), np.uint8), CRACK_NAMES)


def test_truths_without_a_name_are_said(tmp_path: Path) -> None:
    answer = STREET.copy()
    answer[36:38] = 7  # whatever the model answers there
    _, (told,) = judged(tmp_path, STREET, answer, {7: "road", 8: "sidewalk", 11: "building", 23: "sky"})
    assert told == "numbers in the suite's masks that have no name are not counted: 26 (20.0 %)"


def test_a_mask_that_cannot_be_read_is_named(made_suite: MadeSuite, answers: Path) -> None:
    (made_suite.path / str(made_suite.rows[0].mask)).unlink()
    with refusal(r"^cannot read .*masks/.*\.png: No such file or directory$"):
        compare_masks(answers, made_suite.path, made_suite.rows)


def test_a_suite_without_masks_says_what_to_do(tmp_path: Path) -> None:
    with refusal(r"has no masks: judge labels by a table of predictions, or make the suite with --masks$"):
        compare_masks(tmp_path, tmp_path, [picture_row(0)])
