"""What models return is read into one answer per picture, and comes back from JSON the same."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.asking.one_channel import tell_channel
from counterfactory.engine.asking.outputs import (
    UNSEEN,
    BoxAnswer,
    Detection,
    LabelAnswer,
    MapAnswer,
    ModelAnswer,
    ScoreAnswer,
    UnusableError,
    Wanted,
    from_json,
    to_json,
)
from counterfactory.engine.asking.placement import Placement
from counterfactory.engine.asking.reading_outputs import read_outputs
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
        (None, "NoneType"),
        ("bus", "str"),
        (np.zeros((2, 3)), "given 1 pictures, and returned 2"),
        (np.zeros((1, 2, 3, 4, 5)), r"\[1, 2, 3, 4, 5\]"),
        (np.zeros((1, 2), complex), "complex128"),
        ({"a": np.zeros((1, 3)), "b": np.zeros((1, 3))}, "--output"),
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


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1, 5, 1, 1), ScoreAnswer), ((1, 1, 5), ScoreAnswer), ((1, 1, 1, 5), ScoreAnswer), ((1, 1), ScoreAnswer)],
)
def test_axes_of_one_are_dropped_of_scores(shape: tuple[int, ...], kind: type) -> None:
    answer = one(np.arange(np.prod(shape)).reshape(shape) / 7)
    assert isinstance(answer, kind)
    assert isinstance(answer, ScoreAnswer)
    assert np.allclose(answer.scores * 7, np.arange(np.prod(shape)))
    assert one(np.full((1, 1), 3)) == LabelAnswer(3)
    assert one(np.array([["bus"]])) == LabelAnswer("bus")


@pytest.mark.parametrize("dtype", ["float16", "float64", "float32"])
def test_a_map_s_classes_are_where_its_sizes_say(dtype: str) -> None:
    numbers = np.arange(24).reshape(SIZE) % 5
    first = np.eye(5, dtype=dtype)[numbers].transpose(2, 0, 1)
    for outputs in (first[None], first.transpose(1, 2, 0)[None]):
        answer = one(outputs)
        assert isinstance(answer, MapAnswer)
        assert np.array_equal(answer.numbers, numbers)


@pytest.mark.parametrize("shape", [(1, 1, *SIZE), (1, *SIZE), (1, *SIZE, 1)])
@pytest.mark.parametrize("logits", [False, True])
def test_one_channel_is_two_classes_by_all_answers_together(shape: tuple[int, ...], logits: bool) -> None:
    likely = np.linspace(0.01, 0.99, 24).reshape(SIZE)
    sure = 0.6 + likely / 4
    values = [np.log(part / (1 - part)) if logits else part for part in (likely, sure)]
    answers: dict[str, ModelAnswer] = {str(i): one(part.reshape(shape)) for i, part in enumerate(values)}
    channel = tell_channel(answers)
    assert channel is not None
    assert channel.logits == logits
    for i, part in enumerate((likely, sure)):
        settled = channel.settle(answers[str(i)])
        assert isinstance(settled, MapAnswer)
        assert np.array_equal(settled.numbers, part > 0.5)


@pytest.mark.parametrize("scores", [(0.1, 0.8, 1.004), (-1.5, 0.3, 0.9)])
def test_one_score_is_two(scores: tuple[float, ...]) -> None:
    read = read_outputs(np.array(scores)[:, None], [Placement.whole(SIZE)] * 3)
    answers: dict[str, ModelAnswer] = {str(i): one for i, one in enumerate(read) if not isinstance(one, UnusableError)}
    channel = tell_channel(answers)
    assert channel is not None
    pairs = [channel.settle(answer) for answer in answers.values()]
    second = [pair.scores.argmax() for pair in pairs if isinstance(pair, ScoreAnswer)]
    assert second == [score > (0 if min(scores) < 0 else 0.5) for score in scores]


def test_parts_that_were_cropped_away_are_not_told_of_by_one_channel() -> None:
    place = Placement((4, 6), (4, 4), (4, 6), 0, -1)
    (answer,) = read_outputs(np.full((1, 1, 4, 4), 0.9), [place])
    channel = tell_channel({"a": answer}) if not isinstance(answer, UnusableError) else None
    assert channel is not None
    assert isinstance(answer, MapAnswer)
    settled = channel.settle(answer)
    assert isinstance(settled, MapAnswer)
    assert settled.numbers[0].tolist() == [UNSEEN, 1, 1, 1, 1, UNSEEN]


WANTED: tuple[Wanted, ...] = ("labels", "maps", "boxes")


@pytest.mark.parametrize(
    ("array", "fits"),
    [
        (np.zeros((1, 5)), "labels"),
        (np.zeros((1,), int), "labels"),
        (np.zeros((1, *SIZE), int), "maps"),
        (np.zeros((1, 5, *SIZE)), "maps"),
        (np.zeros((1, 300, 6)), "boxes"),
    ],
)
def test_an_answer_of_another_task_is_refused_in_the_task_s_own_words(array: Any, fits: Wanted) -> None:
    for wanted in WANTED:
        if wanted == fits:
            assert read_outputs(array, [Placement.whole(SIZE)], frozenset({wanted}))
        elif (wanted, fits) != ("maps", "boxes"):  # a map of 300 x 6 is a map
            with pytest.raises(CounterfactoryError, match=wanted if wanted != "maps" else "pixels"):
                read_outputs(array, [Placement.whole(SIZE)], frozenset({wanted}))


def test_several_outputs_of_a_function() -> None:
    class Pair(NamedTuple):
        features: Any
        logits: Any

    scores, features = np.array([[1.0, 3]]), np.zeros((1, 7))
    for outputs in (Pair(features, scores), {"features": features, "logits": scores, "hidden": None}):
        answer = one(outputs)
        assert isinstance(answer, ScoreAnswer)
        assert answer.scores.tolist() == [1, 3]
    with pytest.raises(CounterfactoryError, match="--output"):
        one((features, scores))


@given(scores=st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=9), number=st.integers(0, 65_535))
def test_answers_come_back_from_json(scores: list[float], number: int) -> None:
    def back(answer: ModelAnswer) -> Any:
        return from_json(json.loads(json.dumps(to_json(answer))))

    boxes = BoxAnswer((BOX, Detection(0.0, 0.0, 1e-3, 7.25, 1.0, "bus")))
    for answer in (LabelAnswer(number), LabelAnswer("a bus"), boxes):
        assert back(answer) == answer
    assert np.array_equal(back(ScoreAnswer(np.array(scores, np.float32))).scores, np.array(scores, np.float32))
    numbers = np.full((3, 5), number)
    for levels in (False, True):
        map_ = back(MapAnswer.of(numbers, levels))
        assert np.array_equal(map_.numbers, numbers)
        assert map_.levels == levels
