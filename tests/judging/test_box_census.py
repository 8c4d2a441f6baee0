"""What four numbers are is told by the true boxes, on strong evidence alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from picture_rows import original_row
from refusing import refusal

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.box_census import BoxEvidence, box_notes, settle_boxes
from counterfactory.engine.judging.detections import SeenBox
from counterfactory.engine.sources.boxes import BoxForm
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow
from counterfactory.engine.suite.picture_row import Crop

HEIGHT, WIDTH = 300, 400
Four = tuple[float, float, float, float]
Way = Callable[[Four], Iterable[float]]


def anywhere(rng: np.random.Generator, count: int) -> list[Four]:
    boxes = []
    for _ in range(count):
        width, height = (
            float(share * side) for share, side in zip(rng.uniform(0.1, 0.4, 2), (WIDTH, HEIGHT), strict=True)
        )
        x, y = float(rng.uniform(0, WIDTH - width)), float(rng.uniform(0, HEIGHT - height))
        boxes.append((x, y, x + width, y + height))
    return boxes


def near(rng: np.random.Generator, box: Four, share: float) -> Four:
    width, height = box[2] - box[0], box[3] - box[1]
    x0, y0, x1, y1 = (float(part) for part in np.array(box) + rng.normal(0, share, 4) * (width, height, width, height))
    return x0, y0, x1, y1


def true_rows(rng: np.random.Generator, pictures: int, each: int) -> list[PictureRow]:
    crop = Crop(20, 10, WIDTH * 2, HEIGHT * 2)
    return [
        original_row(i, source=str(i), crop=crop, boxes=tuple(Box(*box, "car") for box in anywhere(rng, each)))
        for i in range(pictures)
    ]


def seen(boxes: Iterable[Iterable[float]], score: float = 0.9) -> tuple[SeenBox, ...]:
    return tuple(SeenBox(*map(float, box), score, "car") for box in boxes)


def corners(box: Box) -> Four:
    return box.x0, box.y0, box.x1, box.y1


def settle(
    rows: list[PictureRow], answers: dict[str, tuple[SeenBox, ...]], form: BoxForm = "corners"
) -> tuple[str, ...]:
    settled, notes = settle_boxes("m", rows, answers, form, lambda _: (HEIGHT, WIDTH))
    if not notes or notes[0].startswith("warning"):
        assert settled == answers
    return notes


WAYS: dict[str, Way] = {
    "a corner and a size, in pixels": lambda b: (b[0], b[1], b[2] - b[0], b[3] - b[1]),
    "middle and size, in pixels": lambda b: ((b[0] + b[2]) / 2, (b[1] + b[3]) / 2, b[2] - b[0], b[3] - b[1]),
    "two corners, y before x, in pixels": lambda b: (b[1], b[0], b[3], b[2]),
    "two corners, in shares of the picture": lambda b: (b[0] / WIDTH, b[1] / HEIGHT, b[2] / WIDTH, b[3] / HEIGHT),
    "two corners, in thousandths of the picture": lambda b: (
        2.5 * b[0], b[1] / 0.3, 2.5 * b[2], b[3] / 0.3,
    ),
    "two corners, in pixels of the sources' files": lambda b: (
        20 + 2 * b[0], 10 + 2 * b[1], 20 + 2 * b[2], 10 + 2 * b[3],
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_good_boxes_are_read_as_they_are_meant(way: str) -> None:
    rng = np.random.default_rng(0)
    rows = true_rows(rng, 10, 3)
    answers = {row.file_name: seen(WAYS[way](near(rng, corners(box), 0.02)) for box in row.boxes) for row in rows}
    settled, notes = settle_boxes("m", rows, answers, "corners", lambda _: (HEIGHT, WIDTH))
    assert f"boxes are {way}: so 30 of 30" in notes[0]
    assert BoxEvidence(rows, settled).labels() == [("car", "car")] * 30


INPUTS: dict[str, Way] = {
    "an input of 640 x 640:": lambda b: (b[0] * 1.6, b[1] * 640 / 300, b[2] * 1.6, b[3] * 640 / 300),
    "an input of 640 x 640 with even borders:": lambda b: (
        b[0] * 1.6, b[1] * 1.6 + 80, b[2] * 1.6, b[3] * 1.6 + 80,
    ),
    "a shorter side of 800:": lambda b: tuple(part * 800 / 300 for part in b),
}  # fmt: skip


@pytest.mark.parametrize("way", INPUTS)
def test_boxes_in_the_pixels_of_an_input_are_refused_by_its_name(way: str) -> None:
    rng = np.random.default_rng(0)
    rows = true_rows(rng, 10, 3)
    answers = {row.file_name: seen(INPUTS[way](corners(box)) for box in row.boxes) for row in rows}
    with refusal(f"boxes are two corners, in pixels of {way}.*pictures' own pixels"):
        settle(rows, answers)


BAD: dict[str, Callable[[np.random.Generator, PictureRow, list[Four]], Iterable[Four]]] = {
    "one anywhere": lambda rng, row, same: anywhere(rng, 1),
    "twenty anywhere": lambda rng, row, same: anywhere(rng, 20),
    "a hundred anywhere": lambda rng, row, same: anywhere(rng, 100),
    "the same": lambda rng, row, same: same,
    "about there": lambda rng, row, same: [near(rng, corners(box), 0.35) for box in row.boxes],
    "there": lambda rng, row, same: [near(rng, corners(box), 0.05) for box in row.boxes],
    "half of them": lambda rng, row, same: [corners(box) for box in row.boxes if rng.random() < 0.5],
    "small in the middle": lambda rng, row, same: [
        ((3 * b.x0 + b.x1) / 4, (3 * b.y0 + b.y1) / 4, (b.x0 + 3 * b.x1) / 4, (b.y0 + 3 * b.y1) / 4) for b in row.boxes
    ],
}


@pytest.mark.parametrize("model", BAD)
@pytest.mark.parametrize("form", ["corners", "sizes"])
def test_no_bad_detector_is_read_otherwise(model: str, form: BoxForm) -> None:
    rng, read = np.random.default_rng(2), 0
    for pictures, each in ((3, 1), (6, 1), (6, 3), (20, 2)) * 5:
        rows, same = true_rows(rng, pictures, each), anywhere(rng, 2)
        answers = {row.file_name: seen(BAD[model](rng, row, same)) for row in rows}
        try:
            notes = settle(rows, answers, form)
            read += bool(notes) and "read so" in notes[0]
        except CounterfactoryError:
            read += 1
    assert not read


def test_shares_are_told_by_themselves() -> None:
    rows = true_rows(np.random.default_rng(0), 1, 1)
    notes = settle(rows, {rows[0].file_name: seen([(0.9, 0.9, 0.95, 0.95)])})
    assert "shares of the picture: so 0 of 1" in notes[0]


def test_too_few_boxes_are_said() -> None:
    rng = np.random.default_rng(0)
    rows = true_rows(rng, 3, 1)
    answers = {row.file_name: seen((b.y0, b.x0, b.y1, b.x1) for b in row.boxes) for row in rows}
    (note,) = settle(rows, answers)
    assert note.startswith("warning: m: boxes are two corners, y before x")


def test_a_detector_that_sees_nothing_or_always_the_same_is_said() -> None:
    box, other = seen([(0, 0, 1, 1)]), seen([(0, 0, 2, 1)])
    assert "no box in any of 2" in box_notes("m", {"a": (), "b": ()})[0]
    assert "0.3 is its highest" in box_notes("m", {"a": seen([(0, 0, 1, 1)], 0.3)})[0]
    assert "the same boxes in all 2" in box_notes("m", {"a": box, "b": box})[0]
    assert box_notes("m", {"a": box}) == box_notes("m", {"a": box, "b": other}) == ()
