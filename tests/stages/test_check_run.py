"""The check stage's `run`: each picture is compared with its own source, captions, edits, classes and control; texts
and pictures are embedded once; what is on record is not scored again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import NO_LIMITS
from numpy.typing import NDArray
from tiny_desk import IMAGE, IMAGE_BATCH, TEXT_BATCH, TinyRun, image_name, tiny_run, tiny_sources, tiny_variants, unit

from counterfactory.engine.content_keys import source_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import content_key
from counterfactory.engine.models.referee import Sight
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.profile.referees import RefereeSettings
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import Mask, Source, load_mask, load_pixels
from counterfactory.engine.stages.check import score_pictures as stage
from counterfactory.engine.stages.check.clip_scores import edit_scores, label_score, score
from counterfactory.engine.stages.check.colours import Region, recolouring, source_colours
from counterfactory.engine.stages.check.consult_referees import box_scores, consult_referees, mask_scores
from counterfactory.engine.stages.check.kept import find_things, kept_score
from counterfactory.engine.stages.check.quality import (
    distance,
    look_at_source,
    outlined_share,
    quality_scores,
    small_outlines,
    thumbnail,
)
from counterfactory.engine.stages.check.recaption import (
    PictureQuestions,
    Words,
    answers,
    ask,
    recaption,
    recaption_scores,
)
from counterfactory.engine.stages.check.registration import registration_scores, source_map
from counterfactory.engine.stages.check.score_pictures import PictureScores, score_pictures
from counterfactory.engine.suite import PaintedRow
from counterfactory.engine.variant import Variant

Pixels = NDArray[np.uint8]

CHECK = CheckSettings(IMAGE_BATCH, "one {label}", 7.0).having(
    min_image_text=0.0, min_directional=0.0, min_image_image=0.0, min_edit=0.0, min_label=-1.0, min_layout=0.0
)
# Its keyword stands in no caption: undone, the caption is left.
FOG = Edit("weather", "dry", "foggy")


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Seven, of three sizes."""
    return tiny_sources(tmp_path / "sources", 7)


def noise(variant: Variant) -> Pixels:
    """A picture that stands for a painted one."""
    rng = np.random.default_rng(list(hashlib.sha256(variant.key.encode()).digest()[:8]))
    return rng.integers(0, 256, load_pixels(variant.source, IMAGE).shape, np.uint8)


def expected(
    run: TinyRun,
    variant: Variant,
    row: PaintedRow,
    control: PaintedRow | None = None,
    earlier: Sequence[PaintedRow] = (),
) -> PictureScores:
    """The scores of one picture by itself; its edits' texts are the edited caption and the caption."""
    picture, source = run.run.suite.load_image(row), load_pixels(variant.source, IMAGE)
    shown, original = unit(image_name(picture)), unit(image_name(source))
    scores = score(original, unit(variant.caption), shown, unit(variant.edited_caption))
    scores |= quality_scores(picture, thumbnail(picture), look_at_source(source))
    if earlier:
        others = [thumbnail(run.run.suite.load_image(other)) for other in earlier]
        scores["distinct"] = min(distance(thumbnail(picture), other) for other in others)
    pairs = [(unit(variant.edited_caption), unit(variant.caption))] * len(variant.edits)
    edits = edit_scores(shown, pairs, 7.0)
    if edits:
        scores["edit"] = edits[0]
    names = run.run.classes.names
    if names and variant.source.label in names:
        compared = [shown, original]
        if control is not None:
            compared.append(unit(image_name(run.run.suite.load_image(control))))
        classes = np.stack([unit(f"one {name}") for name in names])
        scores["label"] = label_score(compared, classes, names.index(variant.source.label), 7.0)
    scores |= registration_scores(small_outlines(picture), source_map(small_outlines(source)))
    mask = None if variant.source.mask_path is None else load_mask(variant.source, picture.shape[:2])
    things = find_things(source_colours(source), mask)
    scores |= kept_score(picture, variant.caption, variant.edits, lambda: things)
    if variant.source.mask_path is not None:
        scores["layout"] = outlined_share(small_outlines(picture), load_mask(variant.source, picture.shape[:2]))
    return PictureScores(scores, tuple(edits))


def checked(run: TinyRun, painted: Mapping[Variant, PaintedRow]) -> dict[Variant, PictureScores]:
    return score_pictures(run.of(check=CHECK), painted, run.pictures)


def same(found: PictureScores, wanted: PictureScores) -> bool:
    return found.scores == pytest.approx(wanted.scores, abs=1e-6) and found.edits == pytest.approx(wanted.edits)


def test_every_picture_is_scored_against_its_own_source_and_captions(sources: list[Source], tmp_path: Path) -> None:
    variants = [replace(v, edits=(FOG,)) for v in tiny_variants(sources, 1)]
    with tiny_run(tmp_path / "suite", sources, variants=7) as first:
        painted = first.paint(variants, noise)
        wanted = {variant: expected(first, variant, row) for variant, row in painted.items()}
        sources[3].path.unlink()
        found = checked(first, painted)
        assert list(found) == [variant for variant in variants if variant.source != sources[3]]
        assert all(same(scored, wanted[variant]) for variant, scored in found.items())
        assert len({str(scored) for scored in found.values()}) == 6
        assert all("layout" in s.scores and "edit" in s.scores and "label" not in s.scores for s in found.values())
        texts = [text for call in first.networks.calls["clip_text"] for text in call]
        assert len(texts) == len(set(texts)) == 5, "a caption is embedded once"
        assert [len(call) for call in first.networks.calls["clip_text"]] == [TEXT_BATCH, 2]
        assert [len(call) for call in first.networks.calls["clip_image"]] == [3 * IMAGE_BATCH] * 2, "full rounds"
        assert first.made("check") == 6
        assert first.done("check") == (6, 7)
        assert first.run.meter.current == "check"
    with tiny_run(tmp_path / "suite", sources, variants=7) as second:
        known = {variant: row for variant, row in painted.items() if variant in found}
        assert checked(second, known) == found
        assert checked(second, {}) == {}
        assert (second.networks.opened, second.networks.entered) == ([], [])
        (variant, row), *_, (_, another_row) = known.items()  # of the same size
        others = [
            {replace(variant, caption="another 0"): row},
            {replace(variant, edited_caption="another"): row},
            {replace(variant, edits=(replace(FOG, alternative="2"),)): row},
            {replace(variant, source=replace(variant.source, key="another", mask_path=None)): row},
            {variant: another_row},
        ]
        for other in others:
            assert checked(second, other).keys() == other.keys()
        assert second.made("check") == 5, "a picture is scored anew for other words or another source, as another is"
        second.networks.opened.clear()
        # None can be read: nothing is opened, nothing is scored.
        gone = {variant: row for variant, row in painted.items() if variant.source == sources[3]}
        assert checked(second, gone) == {}
        assert second.networks.opened == []


def test_the_worst_edit_is_the_variant_s_and_each_has_its_own(
    sources: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(
        tiny_variants(sources, 1)[0],
        caption="a red car in fog",
        edited_caption="a blue car in rain",
        edits=(Edit("colour", "red", "blue"), Edit("weather", "fog", "rain")),
    )
    bare = replace(one, source=replace(sources[1], mask_path=None), edits=(), key="1" * 64)
    where = Region(np.arange(8), 1.0)
    monkeypatch.setattr(stage, "find_colour", lambda source, colour: (where,) if colour == "red" else ())
    with tiny_run(tmp_path / "suite", sources, variants=2) as run:
        painted = run.paint([one, bare], noise)
        found = checked(run, painted)
        shown = unit(image_name(run.run.suite.load_image(painted[one])))
        texts = [unit("a blue car in rain"), unit("a red car in rain"), unit("a blue car in fog")]
        wanted = edit_scores(shown, [(texts[0], texts[1]), (texts[0], texts[2])], 7.0)
        assert found[one].edits == pytest.approx(wanted, abs=1e-6)
        assert found[one].scores["edit"] == min(found[one].edits) < max(found[one].edits)
        picture = run.run.suite.load_image(painted[one])
        new = recolouring(picture, one.edits, lambda colour: (where,) if colour == "red" else ())
        assert {name: value for name, value in found[one].scores.items() if "recoloured" in name} == new
        assert set(new) == {"recoloured", "recoloured_colour"}
        assert set(found[bare].scores) == {
            *("image_text", "directional", "image_image", "source_text", "nearer"),
            *("sharp", "spread", "exposed", "changed", "in_place", "shift", "scale", "aligned"),
        }
        assert found[bare].edits == ()


def with_controls(sources: Sequence[Source]) -> list[Variant]:
    """Two controls and two variants of each source."""
    found = []
    for number, variant in enumerate(tiny_variants(sources, 2)):
        key = f"{number + 100:064x}"
        found.append(replace(variant, key=key, kind="control", edited_caption=variant.caption))
        found.append(variant)
    return found


def test_labels_are_compared_with_the_original_and_the_first_control(sources: list[Source], tmp_path: Path) -> None:
    labels = ("car", "bus", "17")
    named = [replace(source, label=labels[i % 3], mask_path=None) for i, source in enumerate(sources[:5])]
    variants = with_controls(named)
    first = {v.source: v for v in variants if v.kind == "control" and v.index == 0}
    with tiny_run(tmp_path / "suite", named, variants=20) as run:
        assert run.run.classes.names == ("bus", "car")
        painted = run.paint(variants[::-1], noise)  # controls may come after their variants
        controls = {v: painted[first[v.source]] if v.kind == "variant" else None for v in variants}
        before = {v: [o for o in variants if o.source == v.source and o.kind == v.kind == "variant"] for v in variants}
        earlier = {v: [painted[o] for o in before[v] if o.index < v.index] for v in variants}
        assert sorted(map(len, earlier.values())) == [0] * 15 + [1] * 5
        wanted = {v: expected(run, v, row, controls[v], earlier[v]) for v, row in painted.items()}
        found = checked(run, painted)
        assert found.keys() == wanted.keys()
        for v in variants:
            assert found[v].scores == pytest.approx(wanted[v].scores, abs=1e-6), v
        assert {v.source.label for v in variants if "label" in found[v].scores} == {"car", "bus"}
        alone = expected(run, variants[1], painted[variants[1]])
        assert found[variants[1]].scores["label"] >= alone.scores["label"]
        texts = [text for call in run.networks.calls["clip_text"] for text in call]
        assert [text for text in texts if text.startswith("one")] == ["one bus", "one car"], "once a run"
        pictures = [name for call in run.networks.calls["clip_image"] for name in call]
        assert len(pictures) == len(set(pictures)) == 25, "a picture is embedded once"
        # A variant that comes later is compared with the control that is on record.
        late = replace(variants[1], key="7" * 64, index=2)
        more = painted | run.paint([late], noise)
        again = checked(run, more)
        assert same(
            again[late],
            expected(run, late, more[late], controls[variants[1]], [painted[v] for v in before[variants[1]]]),
        )
        assert run.made("check") == 21


def test_other_classes_or_another_control_score_labels_anew(sources: list[Source], tmp_path: Path) -> None:
    named = [
        replace(source, label=label, mask_path=None) for source, label in zip(sources[:2], ("car", "bus"), strict=True)
    ]
    control, variant, *_ = with_controls(named)
    with tiny_run(tmp_path / "suite", named, variants=2) as run:
        painted = run.paint([control, variant], noise)
        checked(run, painted)
        checked(run, {variant: painted[variant]})
        assert run.made("check") == 3, "without its control"
        other = run.paint([replace(control, key="8" * 64)], noise)
        checked(run, {control: next(iter(other.values())), variant: painted[variant]})
        assert run.made("check") == 5, "beside another control"
    with tiny_run(tmp_path / "suite", [*named, replace(sources[2], label="truck")], variants=2) as wider:
        checked(wider, painted)
        assert wider.made("check") == 2, "among more classes"
        nameless = {replace(variant, source=replace(variant.source, label=None, key="nameless")): painted[variant]}
        checked(wider, nameless)
        assert wider.made("check") == 3
    with tiny_run(tmp_path / "suite", named, variants=2) as fewer:
        checked(fewer, nameless)
        assert fewer.made("check") == 0, "a picture without a label is compared with no class"
    with tiny_run(tmp_path / "suite", named[:1], variants=2) as single:
        found = checked(single, painted)
        assert single.made("check") == 2
        assert all("label" not in scored.scores for scored in found.values())
        bare = {v: row for v, row in painted.items() if v.kind == "variant"}
        checked(single, bare)
        assert single.made("check") == 2, "where labels are not compared, controls do not count"


def test_a_variant_is_held_to_those_before_it_alone(sources: list[Source], tmp_path: Path) -> None:
    """So that more variants of a source score the first ones no other; and what is on record is compared with."""
    three = tiny_variants(sources[:1], 3)
    with tiny_run(tmp_path / "suite", sources, variants=3) as run:
        painted = run.paint(three[::-1], noise)
        twin = replace(three[2], key="7" * 64)
        painted[twin] = painted.pop(three[1])  # variant 2 is painted as variant 1 was
        alone = {three[0]: painted[three[0]]}
        first = checked(run, alone)
        found = checked(run, {three[0]: painted[three[0]], three[1]: painted[twin]})
        assert run.made("check") == 2
        assert found[three[0]] == first[three[0]]
        assert "distinct" not in first[three[0]].scores
        assert found[three[1]].scores["distinct"] > 0.01
        more = checked(run, {twin: painted[twin], three[1]: painted[twin], three[0]: painted[three[0]]})
        assert run.made("check") == 3
        assert more[twin].scores["distinct"] == 0.0
        (other,) = run.paint([replace(three[0], key="9" * 64)], noise).values()
        checked(run, {three[0]: other, three[1]: painted[twin]})
        assert run.made("check") == 5, "one before it is another picture"


def test_a_picture_that_was_changed_since_is_not_scored(sources: list[Source], tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", sources, variants=2) as run:
        painted = run.paint(tiny_variants(sources[:2], 1), noise)
        (tmp_path / "suite" / list(painted.values())[1].image.path).write_bytes(b"another")
        with pytest.raises(CounterfactoryError, match="has changed since it was painted"):
            checked(run, painted)


# The captioner's second look: how likely it would write what was painted, where the edited caption has it.

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
        other = [replace(both[0], batch=3), both[1]]
        assert consult_referees(run.of(referees=tuple(other)), painted, open_sight) == found
        assert len(asked) == 3, "another referee looks anew"


def test_masks_and_boxes_are_those_carried_over(four_sources: list[Source], tmp_path: Path) -> None:
    plain, boxes = replace(four_sources[0], label=None), (Box(0, 0, *four_sources[0].size[::-1], "bus"),)
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
