"""What a crop takes from sources is said before anything is painted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.inputs import lost_lines, usable_inputs
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import ImageSettings, Source

SQUARE = ImageSettings(32, 16, 32)


def source(name: str, height: int, width: int, *boxes: Box) -> Source:
    return Source(name, name, Path(name), (height, width), None, None, "d", name, boxes)


def test_nothing_is_said_where_nothing_is_lost() -> None:
    assert lost_lines([source("a", 40, 40, Box(0, 0, 40, 40, "car")), source("b", 100, 111)], SQUARE) == []


def test_boxes_and_areas_that_the_crop_takes() -> None:
    boxes = (Box(0, 0, 9, 40, "car"), Box(0, 0, 80, 40, "bus"), Box(70, 0, 80, 9, "dog"))
    boxes += (Box(0, 0, 5, 40, "car", ignored="crowd"),)
    lines = lost_lines([source("a", 40, 40), source("b", 40, 80, *boxes), source("c", 40, 50)], SQUARE)
    assert lines == [
        "2 of 3 boxes keep less than 30 % of their area in the crop and are left out, the first is car in b",
        "2 of 3 sources lose more than 10 % of their area to the crop, b most (50 %): [image] of the profile says "
        "which sizes there are",
    ]
    wide = ImageSettings(32, 16, 64, ((32, 32), (32, 64)))
    assert len(lost_lines([source("b", 40, 80, *boxes)], wide)) == 0


def test_tiny_pictures_are_named() -> None:
    """Exactly four times as large is nothing to say, as 32 x 32 for the pocket's 128."""
    assert lost_lines([source("a", 8, 8), source("b", 16, 16)], SQUARE) == []
    large = ImageSettings(512, 64, 512)
    assert lost_lines([source("a", 32, 32), source("b", 127, 127), source("c", 128, 128)], large) == [
        "2 of 3 sources are enlarged more than 4 times, a most (32 x 32, 16 times): such pictures show little of a "
        "photograph"
    ]


@pytest.mark.parametrize(
    ("task", "lacking", "told"),
    [
        ("detection", "boxes", "their variants tell of false alarms and nothing else"),
        ("segmentation", "masks", "no model can be judged by their variants"),
    ],
)
def test_sources_without_what_a_task_s_model_is_judged_by(task: str, lacking: str, told: str) -> None:
    def notes(sources: list[Source], judged_by: str | None = task) -> tuple[str, ...]:
        return usable_inputs(load_profile("light"), sources, allow_out_of_domain=False, judged_by=judged_by).notes

    crowd = Box(0, 0, 40, 40, "car", ignored="crowd")
    bare, whole = source("a", 40, 40, crowd), source("b", 40, 40, Box(0, 0, 40, 40, "car"))
    whole = replace(whole, mask_path=Path("b"))
    (note,) = notes([whole, bare, bare])
    assert note.startswith(f"2 of 3 sources lack {lacking}")
    assert note.endswith(f", the first is a: {told}")
    assert notes([whole]) == notes([bare], None) == ()
    with pytest.raises(CounterfactoryError, match=f"^{task} needs {lacking}.*, and no source has one"):
        notes([bare])
