"""One picture without an answer costs itself, by whatever way it is missing; a pipeline's lists are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterfactory.engine.asking.listed_answers import read_answers
from counterfactory.engine.asking.outputs import (
    ANYTHING,
    BoxAnswer,
    Detection,
    LabelAnswer,
    MapAnswer,
    ScoreAnswer,
    UnusableError,
    from_json,
    to_json,
)
from counterfactory.engine.asking.placement import Placement
from counterfactory.engine.errors import CounterfactoryError

SIZE = (4, 5)


class NAType:
    """As pandas has it: it cannot be compared."""

    def __bool__(self) -> bool:
        raise TypeError


def read(outputs: Any, count: int = 3, wanted: Any = ANYTHING) -> list[Any]:
    return list(read_answers(outputs, [Placement.whole(SIZE)] * count, wanted))


def pipeline(*pairs: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"label": label, "score": score} for label, score in pairs]


@pytest.mark.parametrize(
    "nothing",
    [None, float("nan"), np.float32("nan"), "", "  ", [], (), {}, NAType()],
    ids=lambda one: type(one).__name__,
)
def test_nothing_is_no_answer_and_the_others_are_read(nothing: Any) -> None:
    def generated(listed: list[Any]) -> Any:
        yield from listed

    as_objects = np.empty(3, object)
    as_objects[:] = ["bus", nothing, "car"]
    for outputs in (["bus", nothing, "car"], ("bus", nothing, "car"), generated(["bus", nothing, "car"]), as_objects):
        first, second, third = read(outputs)
        assert (first, third) == (LabelAnswer("bus"), LabelAnswer("car"))
        assert isinstance(second, UnusableError)
    scores = read([[0.1, 0.9], nothing, np.array([0.7, 0.3])])
    assert [type(one) for one in scores] == [ScoreAnswer, UnusableError, ScoreAnswer]
    maps = read([np.zeros(SIZE, int), nothing, np.ones(SIZE, int)])
    assert [type(one) for one in maps] == [MapAnswer, UnusableError, MapAnswer]
    boxes = read([{"boxes": [[1, 2, 3, 4]], "scores": [0.5], "labels": [1]}, nothing], 2)
    assert isinstance(boxes[0], BoxAnswer)


def test_labels_in_every_type_are_texts_and_whole_numbers() -> None:
    given = [np.str_("bus"), np.int64(3), 3.0, np.float32(2)]
    assert [one.label for one in read(given, 4)] == ["bus", 3, 3, 2]
    assert [type(one.label) for one in read(given, 4)] == [str, int, int, int]
    assert [type(one) for one in read(np.array([1.0, np.nan, 2.0]))] == [LabelAnswer, UnusableError, LabelAnswer]
    assert [type(one) for one in read(np.array(["bus", "", "car"]))] == [LabelAnswer, UnusableError, LabelAnswer]
    torch = pytest.importorskip("torch")
    assert [one.label for one in read([torch.tensor(4), torch.tensor(0)], 2)] == [4, 0]
    for wrong in (0.5, True, [1, "a"], {"a": "b"}, float("inf"), b"bus"):
        with pytest.raises(CounterfactoryError, match="a label is a text or a whole number"):
            read(["bus", wrong], 2)


def test_a_pipeline_s_labels_come_with_their_probabilities() -> None:
    (answer,) = read([pipeline(("car", 0.2), ("bus", 0.7), ("tram", 0.1))], 1)
    assert answer == LabelAnswer("bus", (("bus", 0.7), ("car", 0.2), ("tram", 0.1)))
    assert from_json(to_json(answer)) == answer
    assert len(read([pipeline(*((str(i), 0.1) for i in range(9)))], 1)[0].ranked) == 5
    assert read([{"label": "bus", "score": 0.7}], 1) == [LabelAnswer("bus", (("bus", 0.7),))]
    mixed = read([pipeline(("bus", 0.7)), None, []])
    assert [type(one) for one in mixed] == [LabelAnswer, UnusableError, UnusableError]
    for wrong in ({"label": "bus", "score": 7.5}, {"label": "bus"}, {"label": "a", "score": None, "mask": 1}):
        with pytest.raises(CounterfactoryError, match="dicts of label and score, from 0 to 1"):
            read([[wrong]], 1)


def test_a_pipeline_s_boxes_are_read_and_a_detector_that_sees_nothing_has_an_answer() -> None:
    box = {"label": "bus", "score": 0.5, "box": {"xmin": 1, "ymin": 2, "xmax": 5, "ymax": 4}}
    seen = BoxAnswer((Detection(1, 2, 5, 4, 0.5, "bus"),))
    assert read([[box], [], None])[:2] == [seen, BoxAnswer(())]
    assert isinstance(read([[box], [], None])[2], UnusableError)
    assert read([[], []], 2, frozenset(("boxes",))) == [BoxAnswer(())] * 2
    with pytest.raises(CounterfactoryError, match="xmin"):
        read([[{**box, "box": [1, 2, 3, 4]}]], 1)


def test_another_number_of_answers_than_pictures_is_refused() -> None:
    for outputs in (["bus"], ["bus", None], [], np.zeros((4, 2))):
        with pytest.raises(CounterfactoryError, match=r"was given 3 pictures, and returned [0124] "):
            read(outputs)


def test_tensors_in_a_tuple_are_not_pictures() -> None:
    logits = np.array([[1.0, 2.0], [3.0, 1.0]])
    assert all(isinstance(one, ScoreAnswer) for one in read({"logits": logits}, 2))
    assert read(logits, 2)[0].scores.tolist() == [1, 2]
