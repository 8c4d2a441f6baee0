"""A segmenter's masks from a folder: each beside its truth, and clear words for what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import MadeSuite
from picture_rows import picture_row
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.confusion import confusion_matrix
from counterfactory.engine.judging.evaluate import evaluate_masks
from counterfactory.engine.judging.evaluation import Unanswered
from counterfactory.engine.judging.mask_answers import compare_masks
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
        assert found is not None
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
    assert counts is not None
    assert counts.sum() == truth[64:].size


def test_originals_and_controls_may_all_be_left_out(made_suite: MadeSuite, answers: Path) -> None:
    for row in made_suite.rows:
        if row.kind == "original" or not row.accepted:
            (answers / row.file_name).unlink()
    counts, _ = compare_masks(answers, made_suite.path, made_suite.rows)
    assert [c is None for c in counts] == [r.kind == "original" or not r.accepted for r in made_suite.rows]


@pytest.mark.parametrize(
    ("kind", "damage", "told"),
    [
        ("variant", Image.new("L", (8, 9)).save, "is 8 x 9, its picture 128 x 128: write masks at"),
        ("variant", Image.new("RGB", (128, 128)).save, "is coloured: write class numbers"),
        ("variant", lambda file: file.write_bytes(b"no picture"), "not an image in a format that is read"),
        ("variant", Image.fromarray(np.full((128, 128), 1024, np.uint16)).save, "masks hold class 1024; at most 1024"),
    ],
)
def test_what_does_not_fit_is_named(
    made_suite: MadeSuite, answers: Path, kind: str, damage: Callable[[Path], object], told: str
) -> None:
    damage(answers / next(row.file_name for row in made_suite.rows if row.kind == kind))
    with pytest.raises(CounterfactoryError, match=told):
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
    told = r"5 of 5 variants have no mask in .*, the first is images/.*; name masks as metadata"
    with pytest.raises(CounterfactoryError, match=told):
        compare_masks(answers, made_suite.path, rows)


def test_more_classes_than_names_are_refused(made_suite: MadeSuite, answers: Path) -> None:
    with pytest.raises(CounterfactoryError, match="there are 2 classes, 0 to 1"):
        list(compare_masks(answers, made_suite.path, made_suite.rows, ("sky", "road"))[0])


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
    assert counts is not None
    assert (counts[3, 1], counts.sum()) == (64, 64)
    pair = one_pair(tmp_path / "void", Image.new("L", (8, 8), 255), Image.new("L", (8, 8), 7))
    ((counts,), _) = compare_masks(*pair, [f"class {i}" for i in range(300)])
    assert counts is not None
    assert counts.sum() == 0


def test_a_mask_that_cannot_be_read_is_named(made_suite: MadeSuite, answers: Path) -> None:
    (made_suite.path / str(made_suite.rows[0].mask)).unlink()
    with pytest.raises(CounterfactoryError, match=r"^cannot read .*masks/.*\.png: No such file or directory$"):
        compare_masks(answers, made_suite.path, made_suite.rows)


def test_a_suite_without_masks_says_what_to_do(tmp_path: Path) -> None:
    told = r"has no masks: judge labels by a table of predictions, or make the suite with --masks$"
    with pytest.raises(CounterfactoryError, match=told):
        compare_masks(tmp_path, tmp_path, [picture_row(0)])
