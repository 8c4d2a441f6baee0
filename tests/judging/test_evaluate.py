"""Metrics against slow, obvious loops."""

from __future__ import annotations

import json
import math
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from picture_rows import picture_row
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.compare import compare
from counterfactory.engine.judging.confusion import (
    Counts,
    accuracy,
    confusion_matrix,
    iou,
    mean_iou,
    recall,
    row_normalised,
)
from counterfactory.engine.judging.evaluate import evaluate_labels, evaluate_masks
from counterfactory.engine.judging.evaluation import Effects, MeanScore
from counterfactory.engine.judging.groups import group_rows
from counterfactory.engine.suite import PictureRow

# A busy machine must not fail a property.
patient = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
LABELS = ("bus", "car", "truck")


def row(
    source: str, label: str | None, *edits: tuple[str, str], verdict: str = "accepted", kind: str = "variant"
) -> PictureRow:
    name = f"{kind}s/{source}.png" if kind != "variant" else "images/bus.png"
    sha256 = {"original": "0", "control": "1", "variant": "2"}[kind] * 64
    files = {"file_name": name, "original": f"originals/{source}.png", "sha256": sha256}
    changed = tuple(Edit(type_, "x", alternative) for type_, alternative in edits)
    reason = None if verdict == "accepted" else "too dark"
    return picture_row(**files, kind=kind, source=source, label=label, edits=changed, reason=reason)


edits = st.lists(st.sampled_from([("weather", "snowy"), ("weather", "foggy"), ("time", "night")]), max_size=3)
rows_strategy = st.lists(
    st.builds(
        lambda source, label, changes, verdict, kind: row(
            source, label, *(changes if kind == "variant" else ()), verdict=verdict, kind=kind
        ),
        st.sampled_from("abcd"),
        st.sampled_from(LABELS),
        edits,
        st.sampled_from(["accepted", "rejected"]),
        st.sampled_from(["original", "control", "variant", "variant", "variant"]),
    ),
    max_size=12,
)
maps = st.integers(1, 5).flatmap(
    lambda c: st.tuples(
        st.just(c), st.lists(st.tuples(st.integers(0, c), st.integers(0, c - 1)), max_size=60).map(tuple)
    )
)


@patient
@given(maps)
def test_confusion_and_its_measures_agree_with_loops(case: tuple[int, tuple[tuple[int, int], ...]]) -> None:
    classes, pixels = case  # truth `classes` is one beyond the last: void
    truth = np.array([t for t, _ in pixels], np.uint8)
    said = np.array([p for _, p in pixels], np.uint8)
    counts = confusion_matrix(truth, said, classes)
    assert counts.dtype == np.int64
    with np.errstate(all="raise"):  # what never occurs is divided by nothing
        shares_of, recalls, ious_of = row_normalised(counts), recall(counts), iou(counts)
    seen = [(t, p) for t, p in pixels if t < classes]
    ious = []
    for i in range(classes):
        for j in range(classes):
            assert counts[i, j] == sum(1 for t, p in seen if t == i and p == j)
        of_class = [p for t, p in seen if t == i]
        shares = shares_of[i]
        if of_class:
            assert shares.sum() == pytest.approx(1)
            assert shares == pytest.approx([of_class.count(j) / len(of_class) for j in range(classes)])
            assert recalls[i] == pytest.approx(of_class.count(i) / len(of_class))
        else:
            assert np.isnan(shares).all()
            assert math.isnan(recalls[i])
        inter = sum(1 for t, p in seen if t == i and p == i)
        union = sum(1 for t, p in seen if t == i or p == i)
        if union:
            ious.append(inter / union)
            assert ious_of[i] == pytest.approx(inter / union)
        else:
            assert math.isnan(ious_of[i])
    assert mean_iou(counts) == (pytest.approx(sum(ious) / len(ious)) if ious else None)
    assert accuracy(counts) == (pytest.approx(sum(t == p for t, p in seen) / len(seen)) if seen else None)


def shown(rows: list[PictureRow], answers: list[Any]) -> dict[str, list[tuple[PictureRow, Any]]]:
    """The rows that count with their answers, by kind."""
    pairs = [(r, a) for r, a in zip(rows, answers, strict=True) if r.accepted and a is not None]
    return {kind: [(r, a) for r, a in pairs if r.kind == kind] for kind in ("original", "control", "variant")}


@patient
@given(rows_strategy, st.data())
def test_label_evaluation_agrees_with_loops(rows: list[PictureRow], data: st.DataObject) -> None:
    answer = st.sampled_from((*LABELS, "bicycle", None))
    said = [*data.draw(st.lists(answer, min_size=len(rows), max_size=len(rows))), "car"]
    rows = [*rows, row("z", "car", kind="original")]  # so that labels and answers meet
    result = evaluate_labels(rows, said)
    used = shown(rows, said)

    def share(answers: list[bool]) -> float | None:
        return pytest.approx(answers.count(True) / len(answers)) if answers else None

    assert result.classes == tuple(
        sorted({r.label for kind in used.values() for r, _ in kind} | {s for kind in used.values() for _, s in kind})
    )
    assert result.excluded == sum(r.kind == "variant" and not r.accepted for r in rows)
    assert result.excluded_controls == sum(r.kind == "control" and not r.accepted for r in rows)
    for kind, side in (("original", result.originals), ("control", result.controls), ("variant", result.variants)):
        assert side.score.count == len(used[kind])
        assert side.score.value == share([r.label == s for r, s in used[kind]])
        for i, true in enumerate(result.classes):
            answers = [s for r, s in used[kind] if r.label == true]
            for j, name in enumerate(result.classes):
                assert side.confusion[i][j] == share([s == name for s in answers])
            assert side.by_class[true] == share([s == true for s in answers])
    wrong = {r.source: [t.label != s for t, s in used["variant"] if t.source == r.source] for r, _ in used["variant"]}
    assert result.sources == len(wrong)
    assert result.all_fail == share([all(w) for w in wrong.values()])
    assert result.none_fail == share([not any(w) for w in wrong.values()])
    json.dumps(result.to_json(), allow_nan=False)


@patient
@given(rows_strategy, st.randoms(use_true_random=False))
def test_mask_evaluation_sums_confusions(rows: list[PictureRow], random: Any) -> None:
    pictures = [np.array([[random.randrange(4) for _ in range(12)] for _ in "ts"]) for _ in rows]
    confusions = [confusion_matrix(t, s, 4) for t, s in pictures]
    result = evaluate_masks(rows, confusions, ("sky", "road", "car", "person"))
    used = shown(rows, pictures)

    def slow(members: list[Any]) -> float | None:
        if not members:
            return None
        truth, said = (np.concatenate([p[side] for p in members]).tolist() for side in (0, 1))
        pairs, ious = list(zip(truth, said, strict=True)), []
        for c in range(4):
            union = sum(1 for t, s in pairs if c in (t, s))
            if union:
                ious.append(sum(1 for pair in pairs if pair == (c, c)) / union)
        return pytest.approx(sum(ious) / len(ious))

    for kind, side in (("original", result.originals), ("control", result.controls), ("variant", result.variants)):
        assert side.score == MeanScore(len(used[kind]), slow([p for _, p in used[kind]]))
    assert result.sources == len({r.source for r, _ in used["variant"]})
    assert result.excluded == sum(r.kind == "variant" and not r.accepted for r in rows)
    assert result.excluded_controls == sum(r.kind == "control" and not r.accepted for r in rows)
    assert (result.measure, result.all_fail, result.none_fail) == ("pooled_miou", None, None)
    json.dumps(result.to_json(), allow_nan=False)


def suite_of(sources: int, **outcomes: Any) -> tuple[list[PictureRow], list[str | None]]:
    """An original, a control, a foggy and a red variant of each source; `outcomes` say which sources are right."""
    rows: list[PictureRow] = []
    said: list[str | None] = []
    kinds = {"original": (), "control": (), "foggy": (("weather", "foggy"),), "red": (("colour", "red"),)}
    for g in range(sources):
        for name, edits in kinds.items():
            kind = name if name in ("original", "control") else "variant"
            rows.append(row(f"s{g}", LABELS[g % 2], *edits, kind=kind))
            right = outcomes.get(name, lambda g: True)
            said.append(None if right is None else LABELS[g % 2] if right(g) else "truck")
    return rows, said


def test_effects_are_against_the_controls_and_the_painter_s_stands_beside() -> None:
    """Painting costs a tenth, fog half, colour nothing of its own."""
    painted = lambda g: g % 10 != 0  # noqa: E731
    rows, said = suite_of(40, control=painted, red=painted, foggy=lambda g: g % 2 == 1)
    effects = evaluate_labels(rows, said).effects
    assert effects.against == "control"
    assert (effects.painter.name, effects.painter.value) == ("painting", pytest.approx(-0.1))
    assert {e.name: e.value for e in effects.by_type} == {"weather": pytest.approx(-0.4), "colour": pytest.approx(0)}
    by_value = {e.name: e.value for e in effects.by_value}
    assert by_value == {"weather: foggy": pytest.approx(-0.4), "colour: red": pytest.approx(0)}
    with_painter = {e.name: e.value for e in effects.by_type_with_painter}
    assert with_painter == {"weather": pytest.approx(-0.5), "colour": pytest.approx(-0.1)}
    # Of 36 controls that are right, the 16 of even number stand before a foggy variant that is wrong.
    assert {f.name: f.rate for f in effects.flips} == {"painting": 0.1, "weather": pytest.approx(16 / 36), "colour": 0}
    # Sources of even number are buses, and lose all of the fog's and the painter's.
    assert {e.name: e.value for e in effects.by_class} == {"bus": pytest.approx(-0.4), "car": pytest.approx(0)}


def test_effects_without_answered_controls_are_against_the_originals_and_say_so() -> None:
    rows, said = suite_of(10, control=None, foggy=lambda g: g % 2 == 1)
    effects = evaluate_labels(rows, said).effects
    assert (effects.against, effects.painter) == ("original", None)
    assert {e.name: e.value for e in effects.by_type}["weather"] == pytest.approx(-0.5)
    rows, said = suite_of(10, control=None, original=None)
    assert evaluate_labels(rows, said).effects == Effects(None, None, (), (), (), (), ())
    rows, said = suite_of(10, original=None)
    effects = evaluate_labels(rows, said).effects
    assert (effects.against, effects.painter, effects.by_type_with_painter) == ("control", None, ())


def test_one_edit_alone_is_of_variants_with_no_other_and_answers_turn_wrong_there() -> None:
    """Colour costs nothing but beside time, which costs half by itself: 5 sources of 10."""
    rows, right = list[PictureRow](), list[bool]()
    red, night = ("colour", "red"), ("time", "night")
    for g in range(10):
        fine = g != 0  # wrong on whatever is painted
        rows += [row(f"s{g}", "bus", kind=kind) for kind in ("original", "control")]
        rows += [row(f"s{g}", "bus", *edits) for edits in ((red,), (night,), (red, night))]
        right += [True, fine, fine, fine and g % 2 == 1, False]
    found = evaluate_labels(rows, ["bus" if answer else "car" for answer in right]).effects
    alone = {e.name: (e.value, e.pictures) for e in (*found.by_type_alone, *found.by_value_alone)}
    nothing, loss = (pytest.approx(0), 10), (pytest.approx(-0.4), 10)
    assert alone == {"colour": nothing, "time": loss, "colour: red": nothing, "time: night": loss}
    assert all((e.value or 0) < -0.1 for e in found.by_type), "over the mix of edits colour costs as well"
    assert [(e.name, e.value) for e in found.interactions] == [("colour with time", pytest.approx(-0.5))]
    turned = [(f.name, f.right, f.flipped) for f in found.flips]
    assert turned == [("painting", 10, 1), ("colour", 9, 0), ("time", 9, 4)]


def test_controls_that_are_their_originals_measure_no_painting() -> None:
    rows, said = suite_of(10, foggy=lambda g: g % 2 == 1)
    copied = [replace(r, sha256="0" * 64) if r.kind == "control" else r for r in rows]
    found = evaluate_labels(copied, said).effects
    assert (found.against, found.painter, found.copies) == ("original", None, 10)
    assert "painting" not in {f.name for f in found.flips}
    assert {e.name: e.value for e in found.by_type}["weather"] == pytest.approx(-0.5)
    some = [replace(r, sha256="0" * 64) if r.kind == "control" and r.source < "s4" else r for r in rows]
    found = evaluate_labels(some, said).effects
    assert (found.against, found.copies) == ("control", 4)
    assert found.painter.sources == 6


def test_what_light_draws_is_exact_where_it_draws_all() -> None:
    """Of variants; the painter of an original is nobody's."""
    rows = [row(str(i), "bus", *(() if kind == "original" else (("weather", "foggy"),)), kind=kind)
            for i in range(3) for kind in ("original", "variant")]  # fmt: skip

    def exact(*painters: str | None) -> bool:
        of = iter(painters)
        drawn = [replace(one, painter=next(of)) if one.kind == "variant" else one for one in rows]
        return evaluate_labels(drawn, ["bus"] * len(drawn)).effects.exact

    assert exact("light", "light", "light")
    assert not exact("light", None, "light")
    assert not exact("light", "light", "server")


def test_rejections_are_counted_by_type_and_value() -> None:
    rows = [row("a", "bus", kind="control"), row("a", "bus", kind="control", verdict="rejected")]
    rows += [row("a", "bus", ("weather", "foggy"), ("time", "night"), verdict="rejected")]
    rows += [row("a", "bus", ("weather", "foggy"), ("weather", "snowy"))]
    counts = [
        ("time", 1, 1),
        ("weather", 2, 1),
        ("time: night", 1, 1),
        ("weather: foggy", 2, 1),
        ("weather: snowy", 1, 0),
    ]
    masks = evaluate_masks(rows, [np.eye(2, dtype=np.int64)] * 4, ("sky", "road"))
    for judged in (evaluate_labels(rows, ["bus"] * 4), masks):
        assert [(r.name, r.variants, r.rejected) for r in judged.rejections] == counts


def test_what_painting_does_is_known_without_variants_and_rejected_controls_are_no_baseline() -> None:
    rows, said = suite_of(10, foggy=None, red=None, control=lambda g: g % 2 == 0)
    painter = evaluate_labels(rows, said).effects.painter
    assert painter.value == -0.5
    rows, said = suite_of(10, control=lambda g: False)
    rows = [replace(r, reason="too dark") if r.kind == "control" else r for r in rows]
    found = evaluate_labels(rows, said)
    assert (found.excluded_controls, found.effects.against) == (10, "original")


def test_effects_on_masks_are_of_each_picture_s_mean_iou() -> None:
    right, half = np.array([[4, 0], [0, 4]], np.int64), np.array([[4, 0], [4, 0]], np.int64)
    rows = [r for g in range(6) for r in (row(f"s{g}", None, kind="control"), row(f"s{g}", None, ("time", "night")))]
    found = evaluate_masks(rows, [right, half] * 6, ("sky", "road"))
    (night,) = found.effects.by_type
    assert night.value == pytest.approx((0.5 + 0) / 2 - 1)
    assert {e.name: e.value for e in found.effects.by_class} == {"sky": pytest.approx(-0.5), "road": pytest.approx(-1)}
    assert found.effects.flips == ()


def test_nothing_at_all() -> None:
    assert evaluate_labels([], []).classes == ()
    assert evaluate_labels([row("a", None, verdict="rejected")], ["car"]).excluded == 1
    assert evaluate_masks([], [], ("sky",)).variants.by_class == {"sky": None}


def test_two_edits_of_one_type_count_a_variant_once() -> None:
    rows = [row("a", "car", kind="control"), row("a", "car", ("colour", "red"), ("colour", "blue"))]
    effects = evaluate_labels(rows, ["car", "car"]).effects
    assert [(e.name, e.pictures) for e in effects.by_type] == [("colour", 1)]
    assert [(e.name, e.pictures) for e in effects.by_value] == [("colour: blue", 1), ("colour: red", 1)]
    rows[1] = picture_row(source="a", label="car", edits=(Edit("object", "tree", ""),))
    assert [e.name for e in evaluate_labels(rows, ["car", "car"]).effects.by_value] == ["object: without tree"]


def test_what_does_not_fit_is_refused() -> None:
    with refusal("2 pictures need as many answers of the model, got 1"):
        evaluate_labels([row("a", "car")] * 2, ["car"])
    with refusal("1 pictures need as many answers of the model, got more"):
        evaluate_labels([row("a", "car")], ["car", "car"])
    with refusal("1 pictures need as many answers of the model, got 0"):
        evaluate_masks([row("a", None)], [], ("sky",))
    with refusal(r"source 'a' has none; give labels to the sources \(class folders or --labels\) or "):
        evaluate_labels([row("a", None)], ["car"])
    with refusal("2 classes need confusion matrices of 2 x 2, got 3 x 3"):
        evaluate_masks([row("a", None)], [np.zeros((3, 3), np.int64)], ("sky", "road"))
    with refusal(r"shape \(2, 2\)"):
        confusion_matrix(np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8), 2)
    for answers, named in (([0, 2], 2), ([-1, 3], 3), ([-1, 1], -1)):
        with refusal(f"^the model answered class {named}; there are 2 classes, 0 to 1$"):
            confusion_matrix(np.zeros(2, np.int64), np.array(answers), 2)


def test_confusions_are_held_one_at_a_time() -> None:
    made: list[weakref.ref[Any]] = []

    def confusions() -> Iterator[Counts]:
        for _ in range(4):
            assert all(earlier() is None for earlier in made[:-1])
            counts = np.eye(2, dtype=np.int64)
            made.append(weakref.ref(counts))
            yield counts

    rows = [row(source, None, kind=kind) for source in "ab" for kind in ("control", "variant")]
    assert evaluate_masks(rows, confusions(), ("sky", "road")).variants.score == MeanScore(2, 1.0)


def test_other_measures_of_the_same_answers_have_means_and_effects_of_their_own() -> None:
    rows, said = suite_of(6)
    rows = [replace(r, reason="too dark") if i == 3 else r for i, r in enumerate(rows)]
    sure: list[float | None] = [{"original": 0.9, "control": 0.8}.get(r.kind, 0.5) for r in rows]
    sure[2] = None
    result = evaluate_labels(rows, said, {"confidence": sure, "other": [1.0] * len(rows)})
    confidence, other = result.measures
    as_json = result.to_json()
    assert "outcomes" not in as_json
    assert [measure["name"] for measure in as_json["beside"]] == ["confidence", "other"]
    for kind, count, mean in (
        (confidence.originals, 6, 0.9),
        (confidence.controls, 6, 0.8),
        (confidence.variants, 10, 0.5),
    ):
        assert kind == MeanScore(count, pytest.approx(mean))
    fall = pytest.approx(-0.3)
    assert {e.name: e.value for e in confidence.effects.by_type} == {"weather": fall, "colour": fall}
    assert {e.name for e in confidence.effects.by_class} == {"bus", "car"}
    assert confidence.effects.flips == ()
    assert other.variants == MeanScore(11, 1.0)
    assert evaluate_labels([], [], {"confidence": []}).measures[0].variants == MeanScore(0, None)


def test_outcomes_go_by_file_and_answers_that_no_picture_has_are_known() -> None:
    rows = [picture_row(0), picture_row(1), picture_row(2, reason="too dark")]
    assert evaluate_labels(rows, ["bus", "car", "bus"]).outcomes == {rows[0].file_name: 1.0, rows[1].file_name: 0.0}
    counts = [np.array([[4, 4], [0, 8]], np.int64)] * 3
    assert evaluate_masks(rows, counts, ("sky", "road")).outcomes == {
        row.file_name: pytest.approx((4 / 8 + 8 / 12) / 2) for row in rows[:2]
    }
    rows = [row("a", "car", kind="original"), row("a", "car"), row("b", "bus", verdict="rejected")]
    found = evaluate_labels(rows, ["car", "Car", "bus"])
    assert (found.unknown_classes, found.measure_name) == (("Car",), "accuracy")
    masks = evaluate_masks(rows, [np.eye(2, dtype=np.int64)] * 3, ("sky", "road"))
    assert (masks.unknown_classes, masks.measure_name) == ((), "pooled mIoU")


def test_groups_of_sources_are_what_every_interval_is_of() -> None:
    """Five drives of twenty frames, of which one fails by fog as a whole, and its buses with it."""
    rows, said = list[PictureRow](), list[str]()
    for g in range(100):
        label = "bus" if g % 2 else "car"
        some = [row(f"s{g}", "bus", kind="original"), row(f"s{g}", "bus", kind="control")]
        some += [row(f"s{g}", "bus", ("weather", value)) for value in ("foggy", "rainy")]
        rows += [replace(one, label=label) for one in some]
        said += [label] * 2 + [label if g % 5 else "neither"] * 2
    drives = group_rows(rows, {f"s{g}": f"drive {g % 5}" for g in range(100)})
    grouped, single = (evaluate_labels(some, said) for some in (drives, group_rows(rows, {})))
    for effects in (grouped.effects, single.effects):
        assert [one.value for one in effects.by_type] == [pytest.approx(-0.2)]
    every = [
        (*of.effects.by_type, *of.effects.by_value_alone, *of.effects.by_class, *of.effects.by_type_with_painter)
        for of in (grouped, single)
    ]
    assert {one.sources for one in every[0]} == {5}
    assert {one.sources for one in every[1]} == {100, 50}
    assert all(one.clear for one in every[1])
    assert not any(one.clear for one in every[0])
    assert grouped.effects.flips[1].low == 0 < single.effects.flips[1].low
    assert grouped.insights == (), "five drives say nothing of a class"
    worse = dict(zip([one.file_name for one in rows], map(float, np.array(said) != "neither"), strict=True))
    same = dict.fromkeys(worse, 1.0)
    gaps = [compare(some, same, worse, ("a", "b")).sides[-1].effect for some in (drives, rows)]
    assert [gap.sources for gap in gaps] == [5, 100]


def test_what_stands_out_and_what_the_mix_says_more_are_of_the_edit_alone() -> None:
    """By night alone every second source fails, at dusk none; whatever carries two edits fails."""
    rows, said = list[PictureRow](), list[str]()
    night, dusk, red = ("time", "night"), ("time", "dusk"), ("colour", "red")
    for g in range(40):
        rows += [row(f"s{g}", "bus", kind="control")]
        rows += [row(f"s{g}", "bus", *edits) for edits in ((night,), (dusk,), (red,), (dusk, red), (night, red))]
        said += ["bus", "bus" if g % 2 else "car", "bus", "bus", "car", "car"]
    effects = evaluate_labels(rows, said).effects
    assert (effects.leads_alone, effects.mixed) == (True, True)
    assert effects.leading_types == effects.by_type_alone
    assert {one.name: one.clear for one in effects.standouts} == {"time: dusk": False, "time: night": True}
    assert [one.others for one in effects.standouts] == pytest.approx([-0.5, 0], abs=1e-9)
    gaps = {one.name: (one.value, one.clear) for one in effects.mix_gaps}
    mix, alone = ({one.name: one.value for one in some} for some in (effects.by_type, effects.by_type_alone))
    assert gaps == {name: (pytest.approx(mix[name] - alone[name]), True) for name in ("colour", "time")}
    several = [one for one in rows if one.kind == "control" or len(one.edits) > 1]
    never = evaluate_labels(several, ["bus"] * len(several)).effects
    assert (never.leads_alone, never.mixed, never.by_type_alone) == (False, True, ())
    assert never.leading_values == never.by_value
    single = [one for one in rows if len(one.edits) < 2]
    assert not evaluate_labels(single, ["bus"] * len(single)).effects.mixed
