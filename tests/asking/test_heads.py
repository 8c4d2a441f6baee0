"""Heads of exported detectors come to the boxes that they say, from the form alone and through the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from model_cases.detector_heads import BOXES, FORMS, LABELS, SCORES
from model_cases.graphs import constant
from model_cases.sets import detected
from model_cases.table import Workshop, working_in
from numpy.typing import NDArray

from counterfactory.engine.asking.heads import find_head
from counterfactory.engine.asking.outputs import BoxAnswer
from counterfactory.engine.asking.placement import Placement
from counterfactory.engine.asking.reading_outputs import read_outputs
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.session import Port

SIZE = (96, 128)


def ports(outputs: Mapping[str, NDArray[Any]]) -> list[Port]:
    return [Port(name, array.shape, array.dtype.name) for name, array in outputs.items()]


@pytest.mark.parametrize("name", FORMS)
def test_a_form_comes_to_its_boxes(name: str) -> None:
    form = FORMS[name]
    classes = 2 if form.metadata or "few" in name or "rows" in name else None
    head = find_head(ports(form.outputs), SIZE, classes, form.metadata.get("task"))
    assert head is not None
    rows = head.read({part: form.outputs[part] for part in head.names}, SIZE)
    sure = rows[rows[:, 4] > 0.3]
    assert np.abs(sure[:, :4] - BOXES).max() < 1e-3
    assert np.abs(sure[:, 4] - SCORES).max() < 0.2
    assert sure[:, 5].tolist() == (LABELS + form.from_one).tolist()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A suite of detections, and files of names that count from 0 and from 1."""
    with working_in(tmp_path_factory.mktemp("heads")) as at:
        detected(at.folder / "set")
        at.suite("set", "detection")
        (at.folder / "0.txt").write_text("bus\ncar\n")
        (at.folder / "1.txt").write_text("background\nbus\ncar\n")
        yield at


@pytest.mark.parametrize("name", FORMS)
def test_a_file_is_judged_right(name: str, workshop: Workshop) -> None:
    form = FORMS[name]
    constant(workshop.folder / f"{name}.onnx", form.outputs, metadata=form.metadata)
    told = () if form.metadata else ("--preprocess", "scale=255", "--classes", f"{int(form.from_one)}.txt")
    outcome = workshop.ask("--model", f"{name}.onnx", *told)
    assert (outcome.score(), outcome.status) == (100.0, 0), outcome.said


@pytest.mark.parametrize("name", ["yolov5", "yolov8", "yolov10 end to end", "detr", "ssd", "mmdeploy", "tensorflow"])
def test_a_function_may_return_a_batch_of_them(name: str) -> None:
    form = FORMS[name]
    batch = {part: np.concatenate([array, array]) for part, array in form.outputs.items()}
    places = [Placement((48, 64), SIZE, SIZE)] * 2
    for outputs in (batch, next(iter(batch.values()))) if len(batch) == 1 else (batch,):
        answers = read_outputs(outputs, places, frozenset({"boxes"}))
        for answer in answers:
            assert isinstance(answer, BoxAnswer)
            sure = [box for box in answer.boxes if box.score > 0.3]
            assert np.allclose([[box.x0, box.y0, box.x1, box.y1] for box in sure], BOXES / 2, atol=1e-3)


def test_rows_of_7_go_to_their_pictures() -> None:
    rows = np.array([[1, 2, 2, 8, 8, 0, 0.5], [0, 1, 1, 9, 9, 1, 0.7], [1, 3, 3, 7, 7, 1, 0.9]])
    answers = read_outputs(rows, [Placement.whole(SIZE)] * 3, frozenset({"boxes"}))
    labels = [[box.label for box in answer.boxes] for answer in answers if isinstance(answer, BoxAnswer)]
    assert labels == [[1], [1, 0], []]


@pytest.mark.parametrize(
    ("outputs", "word"),
    [
        ({"a": np.zeros((1, 3, 9, 9, 85))}, "85"),
        ({"a": np.zeros((1, 10))}, "10"),
        ({"a": np.full((1, 300, 6), 0.5)}, "rows of 6"),
        ({"boxes": np.zeros((1, 9, 4))}, "boxes"),
        ({"scores": np.zeros((1, 9, 4)), "features": np.zeros((1, 3, 9, 9))}, "features"),
    ],
)
def test_what_is_no_form_is_refused_by_its_shape(outputs: dict[str, NDArray[Any]], word: str) -> None:
    with pytest.raises(CounterfactoryError, match=word):
        read_outputs(outputs, [Placement.whole(SIZE)], frozenset({"boxes"}))


def test_turned_boxes_are_refused() -> None:
    with pytest.raises(CounterfactoryError, match="obb"):
        find_head(ports({"output0": np.zeros((1, 7, 252))}), SIZE, 2, "obb")


def test_overlaps_are_dropped_by_class_as_slowly_as_can_be() -> None:
    random = np.random.default_rng(0)
    rows = np.zeros((400, 7))
    rows[:, :2] = random.uniform(10, 60, (400, 2))
    rows[:, 2:4] = random.uniform(5, 40, (400, 2))
    rows[:, 4] = 1
    rows[np.arange(400), 5 + random.integers(0, 2, 400)] = random.uniform(0, 1, 400)
    head = find_head(ports({"o": rows[None]}), SIZE, 2)
    assert head is not None
    found = head.read({"o": rows[None]}, SIZE)
    expected: list[NDArray[Any]] = []
    corners = np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], axis=1)
    for i in np.argsort(-rows[:, 5:].max(axis=1)):
        one = np.array([*corners[i], rows[i, 5:].max(), rows[i, 5:].argmax()])
        if one[4] > 0.001 and all(one[5] != other[5] or overlap(one, other) <= 0.7 for other in expected):
            expected.append(one)
    assert len(expected) < 390
    assert np.allclose(found, np.stack(expected[:300]))


def overlap(one: NDArray[Any], other: NDArray[Any]) -> float:
    sides = np.minimum(one[2:4], other[2:4]) - np.maximum(one[:2], other[:2])
    common = max(0.0, sides[0]) * max(0.0, sides[1])
    return float(common / (np.prod(one[2:4] - one[:2]) + np.prod(other[2:4] - other[:2]) - common))
