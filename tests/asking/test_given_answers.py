"""Answers that a caller gives: what they are called, in whose words they are read, and why they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MadeSuite
from models_of_tests import pictures
from numpy.typing import NDArray
from picture_rows import original_row, picture_row, written

import counterfactory as cf
from counterfactory.engine.api.answers import Judged
from counterfactory.engine.api.box_files import json_boxes
from counterfactory.engine.api.model_answers import label_predictions, renumbering, write_maps
from counterfactory.engine.api.reviews import gate_accepts
from counterfactory.engine.asking.outputs import LabelAnswer, MapAnswer, ScoreAnswer
from counterfactory.engine.asking.under_test import ModelUnderTest
from counterfactory.engine.judging.answer_labels import Vocabulary
from counterfactory.engine.judging.detections import SeenBox
from counterfactory.engine.judging.evaluate import evaluate_masks
from counterfactory.engine.judging.order import fall_answers
from counterfactory.engine.judging.predictions import Prediction
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow

LEVELS = (20, 120, 220, 250)


def silent(_: str) -> None:
    """Hear no warning."""


@pytest.fixture
def rows() -> list[PictureRow]:
    """A bus and a car, each with a variant."""
    of = (("bus", 0), ("car", 1))
    return [
        row
        for label, place in of
        for row in (
            original_row(place, label=label, source=f"{label}/{place}"),
            picture_row(3 * place, label=label, source=f"{label}/{place}"),
        )
    ]


@pytest.fixture
def suite(tmp_path: Path, rows: list[PictureRow]) -> Path:
    return written(tmp_path / "suite", rows)


@pytest.fixture
def shown(tmp_path: Path, rows: list[PictureRow]) -> Path:
    """The same, with pictures of four levels of grey, in the rows' order."""
    plain = pictures(tmp_path / "shown", LEVELS)
    same = [
        picture_row(
            i, file_name=one.file_name, sha256=one.sha256, label=row.label, boxes=(Box(0, 0, 4, 4, str(row.label)),)
        )
        for i, (one, row) in enumerate(zip(plain, rows, strict=True))
    ]
    return written(tmp_path / "shown", same)


def model(run: Callable[[NDArray[Any]], Any], classes: Mapping[int, str] | None = None) -> ModelUnderTest:
    return ModelUnderTest(
        "mine", lambda inputs, _: run(inputs), lambda one: one, "as it is", classes=classes, named_by="me"
    )


def right(inputs: NDArray[Any]) -> list[int]:
    """The place of each picture among the levels."""
    return [LEVELS.index(int(one[0, 0, 0])) for one in inputs]


def as_table(suite: Path, folder: Path) -> Path:
    rows = cf.open(suite).rows
    (folder / "mine.csv").write_text("\n".join(["image,prediction", *(f"{row.file_name},{row.label}" for row in rows)]))
    return folder / "mine.csv"


def as_scores(suite: Path, folder: Path) -> Path:
    np.save(folder / "mine.npy", np.eye(2)[[int(row.label == "car") for row in cf.open(suite).rows]])
    return folder / "mine.npy"


def as_lists(suite: Path, folder: Path) -> Path:
    listed = {row.file_name: [{"label": row.label, "score": 1.0}] for row in cf.open(suite).rows}
    (folder / "mine.json").write_text(json.dumps(listed))
    return folder / "mine.json"


@pytest.mark.parametrize("given", [as_table, as_scores, as_lists])
def test_answers_in_a_file_go_by_its_name(given: Callable[[Path, Path], Path], suite: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("bus\ncar")
    file = given(suite, tmp_path)
    result = cf.evaluate(suite, file, classes=tmp_path / "names.txt", warn=silent)
    assert result.judged.name == str(file)
    assert result.evaluation.variants.score.value == 1


def test_answers_of_no_file_are_predictions(suite: Path, rows: list[PictureRow]) -> None:
    said = {row.file_name: str(row.label) for row in rows}
    assert cf.evaluate(suite, said, warn=silent).judged.name == "predictions"


def test_boxes_go_by_their_file_s_name_and_by_the_list(shown: Path, tmp_path: Path) -> None:
    box = {"bbox": [0, 0, 4, 4], "score": 0.9}
    listed = [
        {"image_id": i, "category_id": int(row.label == "car"), **box} for i, row in enumerate(cf.open(shown).rows)
    ]
    file, names = tmp_path / "boxes.json", tmp_path / "names.txt"
    file.write_text(json.dumps(listed))
    names.write_text("bus\ncar")
    judged = cf.evaluate(shown, file, classes=names).judged
    assert judged.name == str(file)
    assert f"{file}: classes by {names}" in judged.notes


def detect(inputs: NDArray[Any]) -> list[dict[str, Any]]:
    return [{"boxes": [[0, 0, 4, 4]], "scores": [0.9], "labels": [int(one > 1)]} for one in right(inputs)]


def test_a_detector_s_own_names_say_its_numbers(shown: Path) -> None:
    judged = cf.evaluate(shown, model(detect, {0: "bus", 1: "car"})).judged
    assert judged.evaluation.variants.score.value == pytest.approx(1)
    assert judged.name == "mine"
    assert "mine: classes by me" in judged.notes
    told: list[str] = []
    cf.evaluate(
        shown, model(lambda inputs: [{**one, "labels": [0]} for one in detect(inputs)], {0: "bus"}), warn=told.append
    )
    assert told == ["me lacks labels of the suite, which no answer can name: car"]


def test_a_classifier_s_own_names_say_its_numbers(shown: Path) -> None:
    judged = cf.evaluate(
        shown, model(lambda inputs: np.eye(2)[[int(one > 1) for one in right(inputs)]], {0: "bus", 1: "car"})
    ).judged
    assert judged.evaluation.variants.score.value == 1
    assert "mine: classes 0 to 1 by me" in judged.notes


def test_labels_are_read_by_a_list_which_a_note_names(shown: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("bus\ncar")
    judged = cf.evaluate(shown, model(lambda inputs: [int(one > 1) for one in right(inputs)]), classes=names).judged
    assert judged.evaluation.variants.score.value == 1
    assert judged.notes[0].startswith("mine: input as it is, answers are not kept")
    assert judged.notes[1] == f"mine: classes by {names}"


def test_a_label_in_composed_and_in_decomposed_letters_is_one(tmp_path: Path) -> None:
    apart = picture_row(label="cafe\N{COMBINING ACUTE ACCENT}")
    suite = written(tmp_path / "suite", [apart])
    whole = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    assert cf.evaluate(suite, {apart.file_name: whole}, warn=silent).evaluation.variants.score.value == 1


def test_a_model_answers_every_picture_alike(shown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfactory.engine.asking.under_test.BATCH", 1)

    calls = list[int]()

    def two_kinds(inputs: NDArray[Any]) -> Any:
        calls.append(len(inputs))
        return ["bus"] if len(calls) < 3 else np.array([[0.5, 0.5]])

    def two_sizes(inputs: NDArray[Any]) -> Any:
        calls.append(len(inputs))
        return np.full((1, 2), 0.5) if len(calls) < 3 else np.full((1, 3), 1 / 3)

    with pytest.raises(cf.CounterfactoryError, match="mine gives pictures answers of different kinds: label and score"):
        cf.evaluate(shown, model(two_kinds))
    calls.clear()
    with pytest.raises(cf.CounterfactoryError, match="mine gives 2 and 3 scores for pictures: give one per class"):
        cf.evaluate(shown, model(two_sizes))


def test_columns_that_are_not_read_are_named_up_to_five(suite: Path, tmp_path: Path) -> None:
    table = as_table(suite, tmp_path)
    first, *others = table.read_text().splitlines()
    for count, shown_names in ((5, "a0, a1, a2, a3, a4"), (6, "a0, a1, a2, a3, a4 and so on")):
        more = "," + ",".join(f"a{i}" for i in range(count))
        table.write_text("\n".join([first + more, *(line + "," * count for line in others)]))
        told: list[str] = []
        cf.evaluate(suite, table, warn=told.append)
        assert f"{table}: columns that are not read: {shown_names}" in told


def test_masks_order_variants_by_how_far_they_fall(rows: list[PictureRow]) -> None:
    counts = [np.array([[9 - i, 4 * i], [0, i]]) for i in range(len(rows))]
    evaluation = evaluate_masks(rows, counts, ("sky", "road"))
    judged = Judged(rows, evaluation, None)
    assert judged.variant_answers() == fall_answers(rows, evaluation)
    assert set(judged.variant_answers()) == {row.file_name for row in rows if row.kind == "variant"}


def test_scores_of_a_picture_without_a_label_have_no_share_of_truth() -> None:
    vocabulary = Vocabulary(
        ("bus", "car"), frozenset(("bus", "car")), ("bus", "car"), {"0": "bus", "1": "car", "2": "bus"}
    )
    scores = ScoreAnswer(np.array([0.25, 0.5, 0.25], np.float32))
    found = label_predictions({"a": scores, "b": scores, "c": LabelAnswer(1)}, vocabulary, {"a": "bus", "b": None})
    assert found == {
        "a": Prediction("car", 0.5, None, 0.5),
        "b": Prediction("car", 0.5, None, None),
        "c": Prediction("car"),
    }


def test_boxes_of_strangers_are_counted_and_boxes_of_none_refused(rows: list[PictureRow], tmp_path: Path) -> None:
    file, told = tmp_path / "boxes.json", list[str]()
    box = {"category_id": "bus", "bbox": [1, 2, 3, 4], "score": 0.5}
    file.write_text(json.dumps([{**box, "image_id": 3}, {**box, "image_id": "nobody"}]))
    found, form = json_boxes(file, rows, told.append)
    assert (list(found.values()), form) == ([(), (), (), (SeenBox(1, 2, 4, 6, 0.5, "bus"),)], "sizes")
    assert told == [f"{file}: 1 boxes are of no picture of the suite, such as 'nobody': not counted"]
    file.write_text(json.dumps([{**box, "image_id": "nobody"}]))
    with pytest.raises(cf.CounterfactoryError) as refused:
        json_boxes(file, rows, told.append)
    assert str(refused.value) == (
        f"{file} names no picture of the suite, the first is 'nobody': image_id is a file_name of metadata.parquet, or "
        "the number of its row"
    )


def test_maps_are_written_in_the_suite_s_numbers(tmp_path: Path) -> None:
    own, theirs = {0: "Sky", 1: "road", 3: "cat"}, {7: "road", 8: "sky"}
    place = renumbering(own, theirs)
    assert place is not None
    assert [place[i] for i in range(5)] == [8, 7, 65535, 65535, 65535]
    assert renumbering(None, theirs) is renumbering(own, None) is None
    numbers = np.array([[0, 1], [2, 3]], np.uint8)
    for names, written_numbers in ((own, [[8, 7], [65535, 65535]]), (None, [[0, 1], [2, 3]])):
        write_maps(tmp_path, {"a/b.png": MapAnswer.of(numbers), "c.png": LabelAnswer(1)}, names, theirs)
        assert MapAnswer((tmp_path / "a" / "b.png").read_bytes()).numbers.tolist() == written_numbers
    assert not (tmp_path / "c.png").exists()


def test_the_gate_s_word_is_of_variants(made_suite: MadeSuite) -> None:
    accepted = {row.file_name: row.reason is None for row in made_suite.rows if row.kind == "variant"}
    assert gate_accepts(cf.open(made_suite.path)) == accepted


def test_a_misspelt_option_names_its_verb(suite: Path) -> None:
    for verb in ("evaluate", "report"):
        with pytest.raises(TypeError, match=rf"^{verb}\(\) has no option 'classses'; did you mean 'classes'\?"):
            getattr(cf.open(suite), verb)(**{"classses": 1} | ({"model": {}} if verb == "evaluate" else {}))


def test_a_file_of_limits_needs_limits(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(cf.CounterfactoryError, match="--junit writes what became of limits: give --max-drop"):
        cf.evaluate(suite, {}, junit=tmp_path / "junit.xml")
