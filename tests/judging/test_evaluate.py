"""Metrics against slow, obvious loops."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from variant_rows import variant_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.confusion import accuracy, confusion_matrix, iou, mean_iou, recall, row_normalised
from counterfactory.engine.judging.evaluate import Evaluation, Score, Side, evaluate_labels, evaluate_masks
from counterfactory.engine.suite import VariantRow

# A busy machine must not fail a property.
patient = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
LABELS = ("bus", "car", "truck")


def row(source: str, label: str | None, *edits: tuple[str, str], verdict: str = "accepted") -> VariantRow:
    return variant_row(
        source=source,
        label=label,
        edits=tuple(Edit(kind, "x", alternative) for kind, alternative in edits),
        reason=None if verdict == "accepted" else "too dark",
    )


edits = st.lists(st.sampled_from([("weather", "snowy"), ("weather", "foggy"), ("time", "night")]), max_size=3)
rows_strategy = st.lists(
    st.builds(
        lambda source, label, changes, verdict: row(source, label, *changes, verdict=verdict),
        st.sampled_from("abcd"),
        st.sampled_from(LABELS),
        edits,
        st.sampled_from(["accepted", "rejected"]),
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
    seen = [(t, p) for t, p in pixels if t < classes]
    ious = []
    for i in range(classes):
        for j in range(classes):
            assert counts[i, j] == sum(1 for t, p in seen if t == i and p == j)
        of_class = [p for t, p in seen if t == i]
        shares = row_normalised(counts)[i]
        if of_class:
            assert shares.sum() == pytest.approx(1)
            assert shares == pytest.approx([of_class.count(j) / len(of_class) for j in range(classes)])
            assert recall(counts)[i] == pytest.approx(of_class.count(i) / len(of_class))
        else:
            assert np.isnan(shares).all()
            assert math.isnan(recall(counts)[i])
        inter = sum(1 for t, p in seen if t == i and p == i)
        union = sum(1 for t, p in seen if t == i or p == i)
        if union:
            ious.append(inter / union)
            assert iou(counts)[i] == pytest.approx(inter / union)
        else:
            assert math.isnan(iou(counts)[i])
    assert mean_iou(counts) == (pytest.approx(sum(ious) / len(ious)) if ious else None)
    assert accuracy(counts) == (pytest.approx(sum(t == p for t, p in seen) / len(seen)) if seen else None)


@patient
@given(rows_strategy, st.data())
def test_label_evaluation_agrees_with_loops(rows: list[VariantRow], data: st.DataObject) -> None:
    said = data.draw(st.lists(st.sampled_from((*LABELS, "bicycle")), min_size=len(rows), max_size=len(rows)))
    originals = {name: ("car", data.draw(st.sampled_from(LABELS))) for name in "abcd"}
    result = evaluate_labels(rows, said, originals)
    used = [(r, s) for r, s in zip(rows, said, strict=True) if r.verdict == "accepted"]

    def share(answers: list[bool]) -> float | None:
        return pytest.approx(answers.count(True) / len(answers)) if answers else None

    assert result.excluded == len(rows) - len(used)
    assert (result.variants.score.count, result.originals.score.count) == (len(used), 4)
    assert result.variants.score.value == share([r.label == s for r, s in used])
    assert result.originals.score.value == share([t == s for t, s in originals.values()])
    for kind in {t for r, _ in used for t in r.edit_types}:
        group = [r.label == s for r, s in used if kind in r.edit_types]
        assert (result.by_edit_type[kind].count, result.by_edit_type[kind].value) == (len(group), share(group))
    for value in {(e.type, e.alternative) for r, _ in used for e in r.edits}:
        group = [r.label == s for r, s in used if value in [(e.type, e.alternative) for e in r.edits]]
        score = result.by_edit_value[": ".join(value)]
        assert (score.count, score.value) == (len(group), share(group))
    sources = {r.source for r, _ in used}
    wrong = {name: [r.label != s for r, s in used if r.source == name] for name in sources}
    assert result.sources == len(sources)
    assert result.all_fail == share([all(w) for w in wrong.values()])
    assert result.none_fail == share([not any(w) for w in wrong.values()])
    for i, true in enumerate(result.classes):
        answers = [s for r, s in used if r.label == true]
        for j, name in enumerate(result.classes):
            expected = share([s == name for s in answers])
            assert result.variants.confusion[i][j] == expected
        assert result.variants.by_class[true] == share([s == true for s in answers])
    json.dumps(result.to_json(), allow_nan=False)


@patient
@given(rows_strategy, st.randoms(use_true_random=False))
def test_mask_evaluation_sums_confusions(rows: list[VariantRow], random: Any) -> None:
    pictures = [np.array([[random.randrange(4) for _ in range(12)] for _ in "ts"]) for _ in rows]
    confusions = [confusion_matrix(t, s, 4) for t, s in pictures]
    result = evaluate_masks(rows, confusions, {}, ("sky", "road", "car", "person"))
    used = [(r, p) for r, p in zip(rows, pictures, strict=True) if r.verdict == "accepted"]

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

    assert result.variants.score.value == slow([p for _, p in used])
    assert result.originals.score.value is None
    for kind, score in result.by_edit_type.items():
        assert score.value == slow([p for r, p in used if kind in r.edit_types])
    assert (result.all_fail, result.none_fail) == (None, None)
    json.dumps(result.to_json(), allow_nan=False)


def test_no_variants_leave_no_scores_but_the_originals() -> None:
    result = evaluate_labels([], [], {"a": ("car", "car"), "b": ("bus", "car")})
    assert result.originals.score.value == 0.5
    assert (result.variants.score.count, result.variants.score.value) == (0, None)
    assert (result.all_fail, result.none_fail, result.by_edit_type) == (None, None, {})
    assert result.variants.confusion == ((None, None), (None, None))


def test_nothing_at_all() -> None:
    assert evaluate_labels([], [], {}).classes == ()
    assert evaluate_masks([], [], {}, ("sky",)).variants.by_class == {"sky": None}


def test_one_class() -> None:
    result = evaluate_labels([row("a", "car"), row("a", "car")], ["car", "car"], {"a": ("car", "car")})
    assert result.classes == ("car",)
    assert result.variants.confusion == ((1.0,),)
    assert (result.all_fail, result.none_fail) == (0.0, 1.0)


def test_an_answer_outside_the_labels_is_wrong_and_gets_a_column() -> None:
    result = evaluate_labels([row("a", "car", ("time", "night"))], ["zebra"], {"a": ("car", "car")})
    assert result.classes == ("car", "zebra")
    assert result.variants.confusion == ((0.0, 1.0), (None, None))
    assert (result.all_fail, result.none_fail) == (1.0, 0.0)
    assert result.by_edit_value["time: night"].value == 0.0


def test_two_edits_of_one_type_count_a_variant_once() -> None:
    result = evaluate_labels([row("a", "car", ("colour", "red"), ("colour", "blue"))], ["car"], {})
    assert result.by_edit_type["colour"].count == 1
    assert {name: s.count for name, s in result.by_edit_value.items()} == {"colour: blue": 1, "colour: red": 1}


def test_rejected_variants_need_no_label() -> None:
    assert evaluate_labels([row("a", None, verdict="rejected")], ["car"], {}).excluded == 1


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match="2 variants need as many answers of the model, got 1"):
        evaluate_labels([row("a", "car")] * 2, ["car"], {})
    with pytest.raises(CounterfactoryError, match="source 'a' has none"):
        evaluate_labels([row("a", None)], ["car"], {})
    with pytest.raises(CounterfactoryError, match="2 classes need confusion matrices of 2 x 2, got 3 x 3"):
        evaluate_masks([row("a", None)], [np.zeros((3, 3), np.int64)], {}, ("sky", "road"))
    with pytest.raises(CounterfactoryError, match=r"shape \(2, 2\)"):
        confusion_matrix(np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8), 2)
    with pytest.raises(CounterfactoryError, match="answered class 7; there are 2"):
        confusion_matrix(np.zeros(3, np.uint8), np.full(3, 7, np.uint8), 2)


def test_counts_and_names_of_masks() -> None:
    rows = [row("a", None), row("a", None), row("b", None), row("c", None, verdict="rejected")]
    counts = [np.array([[3, 1], [0, 4]], np.int64)] * 4
    result = evaluate_masks(rows, counts, {"a": counts[0]}, ("sky", "road"))
    assert (result.measure, result.sources, result.excluded) == ("miou", 2, 1)
    assert result.variants.score == Score(3, pytest.approx((3 / 4 + 4 / 5) / 2))
    assert result.originals.score.count == 1
    grouped = evaluate_masks([row("a", None, ("time", "night"))] * 2, counts[:2], {}, ("sky", "road"))
    assert grouped.by_edit_type["time"].count == grouped.by_edit_value["time: night"].count == 2


def test_measures_of_classes_that_never_occur_divide_by_nothing() -> None:
    counts = np.array([[2, 1, 0], [0, 0, 0], [0, 0, 0]], np.int64)
    with np.errstate(all="raise"):
        assert np.isnan(row_normalised(counts)[1:]).all()
        assert np.isnan(iou(counts)[2])
        assert iou(counts)[:2].tolist() == [2 / 3, 0.0]


def test_an_evaluation_as_json() -> None:
    side = Side(Score(2, 0.5), {"car": 0.5}, ((0.5, None),))
    as_json = {"score": {"count": 2, "value": 0.5}, "by_class": {"car": 0.5}, "confusion": [[0.5, None]]}
    found = Evaluation(
        measure="accuracy",
        classes=("car", "bus"),
        originals=side,
        variants=side,
        by_edit_type={"time": Score(1, None)},
        by_edit_value={"time: night": Score(1, 1.0)},
        sources=3,
        all_fail=0.25,
        none_fail=0.75,
        excluded=4,
    ).to_json()
    assert found == {
        "measure": "accuracy",
        "classes": ["car", "bus"],
        "originals": as_json,
        "variants": as_json,
        "by_edit_type": {"time": {"count": 1, "value": None}},
        "by_edit_value": {"time: night": {"count": 1, "value": 1.0}},
        "sources": 3,
        "all_fail": 0.25,
        "none_fail": 0.75,
        "excluded": 4,
    }
    assert evaluate_labels([], [], {}).measure == "accuracy"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([0, 2], "the model answered class 2; there are 2 classes, 0 to 1"),
        ([-1, 3], "the model answered class 3; there are 2 classes, 0 to 1"),
        ([-1, 1], "the model answered class -1; there are 2 classes, 0 to 1"),
    ],
)
def test_answers_of_no_class_are_named(answers: list[int], message: str) -> None:
    with pytest.raises(CounterfactoryError, match=f"^{message}$"):
        confusion_matrix(np.zeros(2, np.int64), np.array(answers), 2)


def test_the_error_for_a_missing_label_says_what_to_do() -> None:
    with pytest.raises(
        CounterfactoryError, match=r"has none; give labels to the sources \(class folders or --labels\) or "
    ):
        evaluate_labels([row("a", None)], ["car"], {})
