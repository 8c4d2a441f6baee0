"""The order to look at variants: a greedy oracle, the definition of APFD, and models that chose nothing."""

from __future__ import annotations

import csv
import io
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.evaluate import evaluate_masks
from counterfactory.engine.judging.groups import group_rows
from counterfactory.engine.judging.order import (
    VariantAnswer,
    apfd,
    failures_shown,
    fall_answers,
    label_answers,
    order_text,
    order_variants,
)
from counterfactory.engine.judging.predictions import Prediction
from counterfactory.engine.suite import PictureRow

LABELS = ("bus", "car", "truck")
VALUES = {"time": ("night", "dusk"), "weather": ("snowy", "foggy", "rainy"), "colour": ("red", "blue", "green")}


def suite_rows(sources: int, seed: int = 0) -> list[PictureRow]:
    """Five variants of each source, with one edit or two."""
    draw = random.Random(seed)
    rows = []
    for source, number in itertools.product(range(sources), range(5)):
        kinds = draw.sample(sorted(VALUES), 1 + number % 2)
        edits = tuple(Edit(kind, "", draw.choice(VALUES[kind])) for kind in kinds)
        name = f"{source:04}/{number}.png"
        rows.append(picture_row(0, file_name=name, source=str(source), label=LABELS[source % 3], edits=edits))
    return rows


def answers(rows: Sequence[PictureRow], seed: int, shared: int = 7) -> dict[str, VariantAnswer]:
    """A model's: some pictures, and some cells of class and value, are hard for all models, a few for it alone."""
    common, own = np.random.default_rng(shared), np.random.default_rng((seed, 1))
    hard = {row.file_name: chance for row, chance in zip(rows, common.beta(0.05, 0.5, len(rows)), strict=True)}
    cells = sorted({(row.label, edit.value) for row in rows for edit in row.edits})
    broken = dict(zip(cells, common.beta(0.05, 1, len(cells)), strict=True))
    given_answers = {}
    for row in rows:
        chance = max(hard[row.file_name], *(broken[row.label, edit.value] for edit in row.edits))
        chance = max(chance, 0.03 * float(own.random() < 0.5))
        others = [label for label in LABELS if label != row.label]
        wrong = others[int(own.random() < 0.8)] if own.random() < chance else None
        given_answers[row.file_name] = VariantAnswer(float(wrong is not None), wrong)
    return given_answers


def shown(rows: Sequence[PictureRow], model: Mapping[str, VariantAnswer]) -> list[frozenset[tuple[str, str, str]]]:
    return [failures_shown(row, model[row.file_name]) for row in rows]


def test_apfd_is_as_defined_and_a_half_of_drawn_orders() -> None:
    """Rothermel's example of five tests and ten faults, with the percentages of the paper."""
    faults = {"A": (1, 5), "B": (6, 7), "C": (1, 2, 3, 4, 5, 6, 7), "D": (5,), "E": (8, 9, 10)}
    orders = {"ABCDE": 0.50, "EDCBA": 0.64, "CEBAD": 0.84}
    for order, percentage in orders.items():
        assert apfd([faults[test] for test in order]) == pytest.approx(percentage)
    assert apfd([(), ()]) is None
    assert apfd([]) is None
    values = [apfd(order) for order in itertools.permutations([(), ("a",), (), ("b",), ()])]
    assert np.mean([value for value in values if value is not None]) == pytest.approx(0.5)


def test_the_order_shows_failures_soon_of_models_that_chose_nothing() -> None:
    rows = suite_rows(60)
    ordered, drawn = [], []
    for seed in range(8):
        places = order_variants(rows, [answers(rows, 100 + seed)])
        model = answers(rows, seed)
        counts = Counter(failure for of in shown(rows, model) for failure in of)
        once = {failure for failure, count in counts.items() if count == 1}
        ordered.append(apfd([of & once for of in shown([place.row for place in places], model)]))
        mixed = random.Random(seed).sample(rows, len(rows))
        drawn.append(apfd([of & once for of in shown(mixed, model)]))
    assert np.mean([value or 0.0 for value in ordered]) > np.mean([value or 0.0 for value in drawn]) + 0.15


def test_of_the_models_own_failures_the_distinct_ones_come_first() -> None:
    rows = suite_rows(60)
    model = answers(rows, 0)
    places = order_variants(rows, [model])
    failures = shown([place.row for place in places], model)
    different = set().union(*failures)
    first = next(i for i in range(len(rows)) if set().union(*failures[: i + 1]) == different)
    assert first <= len(different)
    assert (apfd(failures) or 0) > 0.9


@given(st.integers(0, 10**6), st.integers(0, 3), st.integers(1, 8))
def test_every_accepted_variant_comes_once_and_no_gain_grows(seed: int, models: int, sources: int) -> None:
    rows = suite_rows(sources, seed)
    given_answers = [answers(rows, seed + number) for number in range(models)]
    assert all(a.gain >= b.gain - 1e-12 for a, b in itertools.pairwise(order_variants(rows, given_answers)))
    extra = [original_row(0), control_row(0), picture_row(0, file_name="x.png", reason="too dark")]
    bare = picture_row(0, file_name="a.png", edits=())
    *names, last = [place.row.file_name for place in order_variants([*extra, bare, *rows], given_answers)]
    assert last == "a.png", "what names no edit shows no failure that could be told"
    assert sorted(names) == sorted(row.file_name for row in rows)
    mixed = random.Random(seed).sample(rows, len(rows))
    assert [place.row.file_name for place in order_variants(mixed, given_answers)] == names


def test_a_variant_of_every_group_comes_before_a_second_one() -> None:
    rows = suite_rows(30)
    drives = group_rows(rows, {row.source: f"drive {int(row.source) % 5}" for row in rows})
    places = [place.row.unit for place in order_variants(drives, [answers(rows, 0)])]
    assert all(len(set(places[at : at + 5])) == 5 for at in range(0, 25, 5))
    assert sorted(places) == sorted(row.unit for row in drives)


def test_without_answers_every_class_and_value_comes_before_one_comes_again() -> None:
    rows = [row for row in suite_rows(30) if len(row.edits) == 1]
    cells = [(place.row.label, place.row.edits[0].value) for place in order_variants(rows, [])]
    different = len(set(cells))
    first = order_variants(rows, [])[0]
    assert first.gain == pytest.approx(first.risk), "of one edit's failures one is shown as often as the model fails"
    assert len(set(cells[:different])) == different < len(rows)


def test_labels_and_what_the_true_one_is_given() -> None:
    rows = [picture_row(i) for i in range(4)]
    predictions = [Prediction("bus"), Prediction("car"), Prediction("bus", true=0.6), None]
    assert label_answers(rows, predictions) == {
        rows[0].file_name: VariantAnswer(0.0, None),
        rows[1].file_name: VariantAnswer(1.0, "car"),
        rows[2].file_name: VariantAnswer(0.2, None),
    }


def test_masks_fail_by_how_far_they_fall() -> None:
    control = control_row(0, mask="m.png", label=None)
    rows = [control, *(picture_row(i, mask="m.png", label=None, control=control.file_name) for i in range(3))]
    counts = [np.array([[8, 0], [8 - right, right]]) for right in (8, 8, 2, 6)]
    evaluation = evaluate_masks(rows, counts, ("road", "car"))
    model = fall_answers(rows, evaluation)
    assert model[rows[1].file_name] == VariantAnswer(0.0, None)
    assert model[rows[2].file_name].fails > model[rows[3].file_name].fails > 0
    places = order_variants(rows, [model])
    assert places[0].row == rows[2]
    (first, *_, last) = csv.DictReader(io.StringIO(order_text(places, model)))
    assert (last["file_name"], last["wrong_answer"]) == (rows[1].file_name, "")
    assert (first["file_name"], first["wrong_answer"]) == (rows[2].file_name, "pooled_miou")
    assert float(first["risk"]) == pytest.approx(places[0].risk, abs=1e-4)
    assert float(first["new_failures"]) == pytest.approx(places[0].gain, abs=1e-4)
