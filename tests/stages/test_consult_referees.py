"""Referees' sights held against labels, masks and boxes, by hand; and the stage that asks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_desk import IMAGE, tiny_run, tiny_sources, tiny_variants

from counterfactory.engine.content_keys import source_key
from counterfactory.engine.keys import content_key
from counterfactory.engine.models.referee import Sight
from counterfactory.engine.profile.referees import RefereeSettings
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import Mask, Source, load_mask, load_pixels
from counterfactory.engine.stages.check.consult_referees import box_scores, consult_referees, mask_scores
from counterfactory.engine.variant import Variant

Pixels = NDArray[np.uint8]

CLASSES = ("road", "Traffic light", "bus")


def referee(kind: Any, run: str = "tests:none", classes: tuple[str, ...] = CLASSES, batch: int = 2) -> RefereeSettings:
    return RefereeSettings(kind, run, batch, classes)


def test_masks_are_compared_class_by_class() -> None:
    truth = np.zeros((10, 10), np.uint8)
    truth[:5], truth[9, :5], truth[9, 5:] = 1, 7, 255  # half class 1; 7 and 255 are no class of the referee's
    seen = truth.copy().astype(np.int64)
    seen[9] = 0
    assert mask_scores(truth, seen, CLASSES) == dict.fromkeys(
        ("miou", "recall", "recall_road", "recall_traffic_light"), 1.0
    )
    seen[0] = 0  # 10 of 50 pixels of class 1 are taken for class 0, which has 40
    found = mask_scores(truth, seen, CLASSES)
    assert found["recall_traffic_light"] == found["recall"] == 0.8
    assert found["recall_road"] == 1.0
    assert found["miou"] == pytest.approx((0.8 + 40 / 50) / 2)
    seen[:] = 2
    assert mask_scores(truth, seen, CLASSES)["miou"] == 0.0


def test_classes_of_a_few_pixels_are_not_counted() -> None:
    truth = np.zeros((50, 50), np.uint8)
    truth[0, :10] = 1
    assert "recall_traffic_light" in mask_scores(truth, truth, CLASSES)
    truth[0, 9] = 0
    assert mask_scores(truth, truth, CLASSES) == {"miou": 1.0, "recall": 1.0, "recall_road": 1.0}
    assert mask_scores(np.full((9, 9), 200, np.uint8), np.zeros((9, 9), np.int64), CLASSES) == {}
    assert mask_scores(np.zeros((9, 9, 3), np.uint8), np.zeros((9, 9), np.int64), CLASSES) == {}, "in colours"


def test_boxes_are_found_by_class_and_overlap_each_once() -> None:
    truth = [Box(0, 0, 10, 10, "bus"), Box(20, 0, 30, 10, "bus"), Box(0, 20, 10, 30, "road"), Box(0, 0, 5, 5, "dog")]
    right = [(0.0, 0.0, 10.0, 10.0, 2), (20.0, 0.0, 30.0, 10.0, 2), (0.0, 20.0, 10.0, 30.0, 0)]
    assert box_scores(truth, right, CLASSES) == {"boxes": 1.0}
    assert box_scores(truth, [*right[:2], (0.0, 20.0, 10.0, 30.0, 1)], CLASSES) == {"boxes": round(2 / 3, 6)}
    assert box_scores(truth[:2], [right[0]] * 2, CLASSES) == {"boxes": 0.5}
    assert box_scores(truth[:1], [(0.0, 0.0, 10.0, 5.0, 2)], CLASSES) == {"boxes": 1.0}, "an IoU of half"
    assert box_scores(truth[:1], [(0.0, 0.0, 10.0, 4.9, 2)], CLASSES) == {"boxes": 0.0}
    assert box_scores(truth[:1], [(11.0, 0.0, 20.0, 10.0, 2)], CLASSES) == {"boxes": 0.0}
    assert box_scores(truth[3:], right, CLASSES) == {}, "a class that the referee does not know"
    # A box takes the nearest of those that are like it, and the other one is left for that which it alone is like.
    near = [Box(0, 0, 10, 10, "bus"), Box(4, 0, 14, 10, "bus")]
    assert box_scores(near, [(3.0, 0.0, 13.0, 10.0, 2), (0.0, 0.0, 10.0, 10.0, 2)], CLASSES) == {"boxes": 1.0}


@pytest.fixture
def four_sources(tmp_path: Path) -> list[Source]:
    found = tiny_sources(tmp_path / "sources", 4)
    labels = ("bus", "road", None, "dog")
    return [replace(source, label=label) for source, label in zip(found, labels, strict=True)]


def pixels_of(variant: Variant) -> Pixels:
    return load_pixels(variant.source, IMAGE)


def opened(sights: dict[str, Sight]) -> tuple[list[str], Callable[[RefereeSettings], Sight]]:
    asked: list[str] = []

    def open_sight(referee: RefereeSettings) -> Sight:
        asked.append(referee.run)
        return sights[referee.run]

    return asked, open_sight


def test_an_ensemble_says_how_many_agree(four_sources: list[Source], tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = []

    def sure(images: Pixels) -> Any:
        shapes.append(images.shape)
        return np.tile([0.1, 0.2, 0.7], (len(images), 1))

    def unsure(images: Pixels) -> Any:
        return np.tile([0.6, 0.4], (len(images), 1))

    asked, open_sight = opened({"json:dumps": sure, "json:loads": unsure})
    both = [referee("labels", "json:dumps"), referee("labels", "json:loads", ("road", "bus"))]
    variants = tiny_variants(four_sources, 1)
    with tiny_run(tmp_path / "suite", four_sources, variants=4) as run:
        painted = run.paint(variants, pixels_of)
        found = consult_referees(run.of(referees=tuple(both)), painted, open_sight)
        by_label = {v.source.label: found[v] for v in variants}
        assert by_label["bus"] == {"agreement": 0.5, "ensemble": 0.55}
        assert by_label["road"] == {"agreement": 0.5, "ensemble": 0.35}
        assert by_label[None] == by_label["dog"] == {}
        assert asked == ["json:dumps", "json:loads"]
        assert sorted(shapes) == [(1, 32, 32, 3), (1, 32, 48, 3)], "pictures of one size go together"
        assert run.run.meter.current == "check"
        assert run.run.meter.work("check", "referee json:dumps").rows == 2
        assert consult_referees(run.of(referees=tuple(both)), painted, open_sight) == found
        assert (len(asked), len(shapes)) == (2, 2), "what they said is on record"
        row, bus = painted[variants[0]], variants[0].source.key
        broken = run.run.keys.referee_key(row.image.sha256, bus, both[0].digest())
        run.run.suite.ledger.put("check", {broken: {"right": 1.0}})
        assert consult_referees(run.of(referees=tuple(both)), painted, open_sight) == found
        assert (len(asked), len(shapes)) == (3, 3), "what is no answer about a label is none"
        other = [replace(both[0], batch=3), both[1]]
        assert consult_referees(run.of(referees=tuple(other)), painted, open_sight) == found
        assert len(asked) == 4, "another referee looks anew"


def test_masks_and_boxes_are_those_carried_over(four_sources: list[Source], tmp_path: Path) -> None:
    plain, boxes = replace(four_sources[0], label=None), (Box(0, 0, *four_sources[0].size[::-1], "bus"),)
    _, digest = Mask(str(plain.mask_path), None).read(plain.size)
    told = [{name: value for name, value in asdict(box).items() if name != "ignored"} for box in boxes]
    key = source_key(plain.name, plain.digest, None, content_key(digest, told))
    crowd = Box(0, 0, 9, 9, "bus", ignored="crowd")
    boxed = [replace(plain, boxes=(crowd, *boxes), listed=boxes, key=key)]
    variants = tiny_variants(boxed, 2)
    size = load_pixels(boxed[0], IMAGE).shape[:2]
    truth, whole = load_mask(boxed[0], size).astype(np.int64), (0.0, 0.0, float(size[1]), float(size[0]), 2)
    known = tuple(f"class {i}" for i in range(256))
    masks = {"json:dumps": lambda images: np.stack([truth] * len(images))}
    asked, open_sight = opened({**masks, "json:loads": lambda images: [[whole]] * len(images)})
    with tiny_run(tmp_path / "suite", boxed, variants=2) as run:
        both = [referee("masks", "json:dumps", known), referee("boxes", "json:loads")]
        found = consult_referees(run.of(referees=tuple(both)), run.paint(variants, pixels_of), open_sight)
        assert all((scores["miou"], scores["recall"], scores["boxes"]) == (1.0, 1.0, 1.0) for scores in found.values())
        bare = [replace(v, source=replace(v.source, mask_path=None, boxes=(crowd,))) for v in variants]
        unseen = consult_referees(run.of(referees=tuple(both)), run.paint(bare, pixels_of), open_sight)
        assert unseen == {variant: {} for variant in bare}
    assert len(asked) == 2
