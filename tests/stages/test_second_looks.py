"""How likely the captioner would write what was painted, where the edited caption has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import NO_LIMITS
from numpy.typing import NDArray
from tiny_desk import IMAGE, IMAGE_BATCH, image_name, tiny_run, tiny_sources, tiny_variants

from counterfactory.engine.content_keys import source_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.keys import content_key
from counterfactory.engine.models.referee import Sight
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.profile.referees import RefereeSettings
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import Mask, Source, load_mask, load_pixels
from counterfactory.engine.stages.check.consult_referees import box_scores, consult_referees, mask_scores
from counterfactory.engine.stages.check.recaption import (
    PictureQuestions,
    Words,
    answers,
    ask,
    recaption,
    recaption_scores,
)
from counterfactory.engine.variant import Variant

DECODING = DecodingSettings("greedy", 1, 1.0, 1.0, 0, 20, 1.0, 1.0)


LOOKS = replace(NO_LIMITS, recaption=True)


@pytest.fixture
def variant(tmp_path: Path) -> Variant:
    source = tiny_sources(tmp_path, 1)[0]
    return replace(tiny_variants([source], 1)[0], source=replace(source, label="bus"))


def asked(variant: Variant, caption: str, edited: str, *edits: Edit) -> PictureQuestions:
    return ask(replace(variant, caption=caption, edited_caption=edited, edits=edits))


def shown(found: PictureQuestions) -> list[tuple[str, ...] | None]:
    """The words that should be there, and those that should be gone."""

    def read(words: Words | None) -> str:
        return ", ".join(words.text[a:b] for a, b in words.spans) if words else ""

    return [None if one is None else (read(one.shown), read(one.gone)) for one in found]


@pytest.mark.parametrize(
    ("caption", "edited", "edit", "words"),
    [
        ("a bus on a dry road", "a bus on a snowy road", Edit("weather", "dry", "snowy"), ("snowy", "dry")),
        ("a green bus, a car", "an orange bus, a car", Edit("colour", "green bus", "orange bus"), ("orange", "green")),
        ("a red car", "a dark blue car", Edit("colour", "red car", "dark blue car"), ("dark blue", "red")),
        ("a street", "a street in the snow", Edit("weather", "", "in the snow"), ("snow", "")),
        ("a street with a red bus", "a street", Edit("object", "with a red bus", ""), ("", "red bus")),
        ("a car on the road", "a car at the road", Edit("place", "on", "at"), None),
    ],
)
def test_an_edit_s_own_words_are_asked_for(
    variant: Variant, caption: str, edited: str, edit: Edit, words: tuple[str, str] | None
) -> None:
    assert shown(asked(variant, caption, edited, edit))[0] == words


def test_the_label_is_asked_for_where_the_source_s_caption_names_it(variant: Variant) -> None:
    edit = Edit("weather", "dry", "wet")
    found = asked(variant, "a road, dry, with two buses and a bus", "a road, wet, with two buses and a bus", edit)
    assert shown(found) == [("wet", "dry"), ("buses", "")], "where it is first named"
    assert asked(variant, "a dry road", "a wet road with a bus", edit)[-1] is None
    unlabelled = replace(variant, source=replace(variant.source, label=None))
    assert asked(unlabelled, "a bus, dry", "a bus, wet", edit)[-1] is None
    truck = replace(variant, source=replace(variant.source, label="fire_truck"))
    assert shown(asked(truck, "a fire truck, dry", "a fire truck, wet", edit))[1] == ("fire truck", "")
    assert asked(variant, "a bus", "a road") == (None,)


def test_what_nobody_wants_to_know_is_not_asked(variant: Variant) -> None:
    edits = (Edit("colour", "red", "blue"), Edit("weather", "dry", "wet"))
    both = replace(variant, caption="a red bus, dry", edited_caption="a blue bus, wet", edits=edits)
    assert shown(ask(both)) == [("blue", "red"), ("wet", "dry"), ("bus", "")]
    assert shown(ask(both, {"colour"}.__contains__)) == [("blue", "red"), None, None]
    assert shown(ask(both, {"weather", "label"}.__contains__)) == [None, ("wet", "dry"), ("bus", "")]
    assert recaption_scores(both, answers(ask(both, {"colour"}.__contains__), [[0.3], [0.1]])) == {
        "said_edits": 0.75,
        "said_colour": 0.75,
    }


def test_the_worst_edit_counts_and_the_worst_of_each_type(variant: Variant) -> None:
    edits = [Edit(t, "old", "new") for t in ("colour", "weather", "colour", "time")]
    many = replace(variant, edits=tuple(edits))
    assert recaption_scores(many, [0.9, 0.6, 0.7, None, 0.8]) == {
        "said_edits": 0.6,
        "said_colour": 0.7,
        "said_weather": 0.6,
        "said_label": 0.8,
    }
    assert recaption_scores(many, [None, None, None, None, None]) == {}


@pytest.mark.parametrize(
    ("caption", "edited", "edit", "read", "answer"),
    [
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.6], [0.2]], 0.75),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.6, 0.3], [0.1, 0.2]], 0.6),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.6], [None]], None),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.0], [0.0]], 0.0),
        ("a road", "a road with a car", Edit("object", "", "with a car"), [[0.3]], 0.3),
        ("a road with a car", "a road", Edit("object", "with a car", ""), [[0.2, 0.7]], 0.3),
        ("a road with a car", "a road", Edit("object", "with a car", ""), [[None]], None),
    ],
)
def test_words_are_held_against_those_they_replace(
    variant: Variant, caption: str, edited: str, edit: Edit, read: list[list[float | None]], answer: float | None
) -> None:
    assert answers(asked(variant, caption, edited, edit), read) == [answer, None]


@pytest.mark.parametrize(("prefix", "before"), [("a photo of ", "a photo of "), ("a photo of a {label}", "")])
def test_pictures_are_read_once_and_no_prefix_names_the_label(prefix: str, before: str, tmp_path: Path) -> None:
    sources = tiny_sources(tmp_path / "sources", 5)
    settings = CaptionSettings(IMAGE_BATCH, 1, prefix, DECODING)
    edit = Edit("other", "dry", "wet")
    texts = {"caption": "a dry road", "edited_caption": "a wet road", "edits": (edit,)}
    variants = [replace(v, **texts) for v in tiny_variants(sources, 1)]
    variants[1] = replace(variants[1], caption="a road", edited_caption="a road", edits=())
    with tiny_run(tmp_path / "suite", sources, variants=5) as run:
        run.networks.likely |= {f"{before}wet": 0.1, f"{before}dry": 0.3}
        pixels = {v: 255 - load_pixels(v.source, IMAGE) for v in variants}
        painted = run.paint(variants, pixels.__getitem__)
        found = recaption(run.of(caption=settings, check=LOOKS), painted)
        scores = {"said_edits": 0.25, "said_other": 0.25}
        assert found == {v: scores if v.edits else {} for v in variants}
        calls = run.networks.calls["blip2 reads"]
        assert [name for call in calls for name in call] == [image_name(pixels[v]) for v in variants if v.edits]
        assert [len(call) for call in calls] == [4], "of several batches together"
        assert run.networks.entered == ["caption"]
        assert run.run.meter.current == "check"
        assert recaption(run.of(caption=settings, check=LOOKS), painted) == found
        assert len(run.networks.calls["blip2 reads"]) == 1, "readings are on record"
        assert recaption(run.of(caption=settings, check=replace(LOOKS, recaption_of=("colour",))), painted) == {
            v: {} for v in variants
        }
        assert len(run.networks.calls["blip2 reads"]) == 1, "nobody wants to know of edits of this type"
        longer = replace(settings, decoding=replace(DECODING, max_tokens=21))
        assert recaption(run.of(caption=longer, check=LOOKS), painted) == found
        assert len(run.networks.calls["blip2 reads"]) == 2, "with more room more may be read"


# Referees' sights held against labels, masks and boxes, by hand; and the stage that asks them.

Pixels = NDArray[np.uint8]
CLASSES = ("road", "Traffic light", "bus")


def referee(kind: Any, run: str = "tests:none", classes: tuple[str, ...] = CLASSES, batch: int = 2) -> RefereeSettings:
    return RefereeSettings(kind, run, batch, classes)


def test_masks_are_compared_class_by_class() -> None:
    truth = np.zeros((10, 10), np.uint8)
    truth[:5], truth[9, :5], truth[9, 5:] = 1, 7, 255  # half class 1; 7 and 255 are no class of the referee's
    seen = truth.copy().astype(np.int64)
    seen[9] = 0
    assert mask_scores(truth, seen, CLASSES) == {
        "miou": 1.0,
        "recall": 1.0,
        "recall_road": 1.0,
        "recall_traffic_light": 1.0,
    }
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
    # The nearer of two takes the better of two boxes, and the other one is left for it.
    near = [Box(0, 0, 10, 10, "bus"), Box(2, 0, 12, 10, "bus")]
    assert box_scores(near, [(2.0, 0.0, 12.0, 10.0, 2), (0.0, 0.0, 10.0, 10.0, 2)], CLASSES) == {"boxes": 1.0}


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
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


def test_an_ensemble_says_how_many_agree(sources: list[Source], tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = []

    def sure(images: Pixels) -> Any:
        shapes.append(images.shape)
        return np.tile([0.1, 0.2, 0.7], (len(images), 1))

    def unsure(images: Pixels) -> Any:
        return np.tile([0.6, 0.4], (len(images), 1))

    asked, open_sight = opened({"json:dumps": sure, "json:loads": unsure})
    both = [referee("labels", "json:dumps"), referee("labels", "json:loads", ("road", "bus"))]
    variants = tiny_variants(sources, 1)
    with tiny_run(tmp_path / "suite", sources, variants=4) as run:
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
        other = [replace(both[0], batch=3), both[1]]
        assert consult_referees(run.of(referees=tuple(other)), painted, open_sight) == found
        assert len(asked) == 3, "another referee looks anew"


def test_masks_and_boxes_are_those_carried_over(sources: list[Source], tmp_path: Path) -> None:
    plain, boxes = replace(sources[0], label=None), (Box(0, 0, *sources[0].size[::-1], "bus"),)
    _, digest = Mask(str(plain.mask_path), None).read(plain.size)
    key = source_key(plain.name, plain.digest, None, content_key(digest, boxes))
    boxed = [replace(plain, boxes=boxes, key=key)]
    variants = tiny_variants(boxed, 2)
    size = load_pixels(boxed[0], IMAGE).shape[:2]
    truth = load_mask(boxed[0], size)
    known = tuple(f"class {i}" for i in range(256))
    asked, open_sight = opened(
        {
            "json:dumps": lambda images: np.stack([truth.astype(np.int64)] * len(images)),
            "json:loads": lambda images: [[(0.0, 0.0, float(size[1]), float(size[0]), 2)]] * len(images),
        }
    )
    with tiny_run(tmp_path / "suite", boxed, variants=2) as run:
        both = [referee("masks", "json:dumps", known), referee("boxes", "json:loads")]
        found = consult_referees(run.of(referees=tuple(both)), run.paint(variants, pixels_of), open_sight)
        assert all((scores["miou"], scores["recall"], scores["boxes"]) == (1.0, 1.0, 1.0) for scores in found.values())
        bare = [replace(v, source=replace(v.source, mask_path=None, boxes=())) for v in variants]
        assert consult_referees(run.of(referees=tuple(both)), run.paint(bare, pixels_of), open_sight) == {
            v: {} for v in bare
        }
    assert len(asked) == 2
