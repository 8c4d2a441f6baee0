"""What models return is read into one answer per picture, and comes back from JSON the same."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.asking.outputs import (
    BoxAnswer,
    Detection,
    LabelAnswer,
    MapAnswer,
    ModelAnswer,
    ScoreAnswer,
    UnusableError,
    from_json,
    read_outputs,
    to_json,
)
from counterfactory.engine.asking.placement import Placement
from counterfactory.engine.errors import CounterfactoryError

SIZE = (4, 6)
BOX = Detection(1.0, 2.0, 3.0, 4.5, 0.25, 7)


def one(outputs: Any) -> ModelAnswer:
    (answer,) = read_outputs(outputs, [Placement.whole(SIZE)])
    assert not isinstance(answer, UnusableError)
    return answer


class Tensor:
    """As torch's are."""

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self._array


def test_scores() -> None:
    rows = [[1.0, 3.0]]
    logits = SimpleNamespace(logits=Tensor(rows)), {"logits": np.array(rows)}
    for outputs in (rows, np.array([[1, 3]]), Tensor(rows), *logits):
        answer = one(outputs)
        assert isinstance(answer, ScoreAnswer)
        assert answer.scores.tolist() == [1, 3]


def test_labels_and_class_numbers() -> None:
    assert [one(outputs) for outputs in (["bus"], np.array(["bus"]), ("bus",))] == [LabelAnswer("bus")] * 3
    assert read_outputs(np.array([3, 1]), [Placement.whole(SIZE)] * 2) == [LabelAnswer(3), LabelAnswer(1)]


def test_class_maps_of_numbers_and_of_scores_at_the_picture_s_size() -> None:
    numbers = np.arange(24).reshape(SIZE)
    answer = one(numbers[None])
    assert isinstance(answer, MapAnswer)
    assert np.array_equal(answer.numbers, numbers)
    scores = np.zeros((1, 3, 2, 3))
    scores[0, 1, :, :2] = 5
    scores[0, 2, :, 2:] = 9
    half = one({"out": scores, "aux": None})
    assert isinstance(half, MapAnswer)
    assert half.numbers.shape == SIZE
    assert half.numbers[:, 0].tolist() == [1] * 4
    assert half.numbers[:, -1].tolist() == [2] * 4


@pytest.mark.parametrize(
    "outputs",
    [
        [{"boxes": np.array([[1.0, 2, 3, 4.5]]), "scores": np.array([0.25]), "labels": np.array([7])}],
        {"boxes": [[1.0, 2, 3, 4.5]], "scores": [0.25], "labels": [7]},
        [np.array([[1.0, 2, 3, 4.5, 0.25, 7]])],
        [{"boxes": Tensor([[1.0, 2, 3, 4.5]]), "scores": Tensor([0.25]), "labels": Tensor([7])}],
    ],
)
def test_boxes(outputs: Any) -> None:
    assert one(outputs) == BoxAnswer((BOX,))
    assert one([{"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0)}]) == BoxAnswer(())


def test_nan_is_no_answer() -> None:
    boxes = [{"boxes": [[1, 2, np.nan, 4]], "scores": [0.5], "labels": [1]}]
    for outputs in ([[1.0, np.nan]], [[1.0, np.inf]], np.full((1, 3, *SIZE), np.nan), boxes):
        (answer,) = read_outputs(outputs, [Placement.whole(SIZE)])
        assert isinstance(answer, UnusableError)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (None, "returned a NoneType"),
        ("bus", "returned a str"),
        (np.zeros((2, 3)), "given 1 pictures, and returned 2 labels"),
        (np.zeros((1, 1)), "two or more for each picture"),
        (np.zeros((1, 1, 1, 1, 1)), r"shape \[1, 1, 1, 1, 1\]"),
        (np.zeros((1, *SIZE)), "class maps are whole numbers"),
        (np.full((1, *SIZE), -1), "holds -1 to -1"),
        ([{"boxes": [[1, 2, 3, 4]]}], "boxes without scores and labels"),
        ([{"boxes": [[1, 2, 3, 4]], "scores": [], "labels": [1]}], "1 boxes, 0 scores and 1 labels"),
        ([{"boxes": [[1, 2, 3]], "scores": [1], "labels": [1]}], "a box of 3 numbers"),
        ([{"boxes": [[1, 2, 3, 4]], "scores": [5], "labels": [1]}], "scores are from 0 to 1"),
    ],
)
def test_what_is_no_answer_is_refused(outputs: Any, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        read_outputs(outputs, [Placement.whole(SIZE)])


@given(scores=st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=9), number=st.integers(0, 65_535))
def test_answers_come_back_from_json(scores: list[float], number: int) -> None:
    def back(answer: ModelAnswer) -> Any:
        return from_json(json.loads(json.dumps(to_json(answer))))

    boxes = BoxAnswer((BOX, Detection(0.0, 0.0, 1e-3, 7.25, 1.0, "bus")))
    for answer in (LabelAnswer(number), LabelAnswer("a bus"), boxes):
        assert back(answer) == answer
    assert np.array_equal(back(ScoreAnswer(np.array(scores, np.float32))).scores, np.array(scores, np.float32))
    numbers = np.full((3, 5), number, np.uint8 if number < 256 else np.uint16)
    assert np.array_equal(back(MapAnswer.of(numbers)).numbers, numbers)
