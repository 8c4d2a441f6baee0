"""Insights of simulated suites: a planted weakness is named, none is invented, and groups are an oracle's."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.detections import SeenBox, evaluate_boxes
from counterfactory.engine.judging.evaluate import evaluate_labels, evaluate_masks
from counterfactory.engine.judging.insights import (
    Insight,
    bags_of_words,
    choose_groups,
    join_small,
    k_means,
    silhouette,
    unit,
)
from counterfactory.engine.judging.standouts import Standout
from counterfactory.engine.light.menu import MENU
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow

LABELS = ("bus", "car", "truck")
# Of each type what the captions say, and what edits bring.
WORDS = {
    "time": ("during the day", ("at night", "at dusk", "late at night", "in the evening", "at dawn")),
    "weather": ("clear", ("snowy", "foggy", "rainy", "stormy", "hazy")),
    "background": ("brick", ("wooden", "concrete", "glass")),
}
Chance = Callable[[str, Sequence[Edit]], float]


def suite_rows(sources: int, seed: int = 0, variants: int = 5) -> list[PictureRow]:
    """Originals, controls, and variants with one edit or two, of sources of three classes."""
    draw = random.Random(seed)
    rows: list[PictureRow] = []
    for source in range(sources):
        label = LABELS[source % 3]
        caption = f"a {label} on a clear street during the day. there are brick buildings."
        same = {"label": label, "caption": caption, "source": str(source)}
        rows += [original_row(source, **same), control_row(source, **same)]
        for number in range(variants):
            edits = tuple(
                Edit(kind, WORDS[kind][0], draw.choice(WORDS[kind][1]))
                for kind in draw.sample(sorted(WORDS), 1 + number % 2)
            )
            edited = caption
            for edit in edits:
                edited = edited.replace(edit.keyword, edit.alternative)
            more = {"file_name": f"{source}/{number}.png", "key": f"{source}-{number}", "edits": edits}
            rows.append(picture_row(3 * source, **same, **more, edited_caption=edited))
    return rows


def answers(rows: Sequence[PictureRow], chance: Chance, seed: int) -> list[str | None]:
    """Of a model that fails with this chance, and on hard sources more often."""
    rng = np.random.default_rng(seed)
    hard = {row.source: share for row, share in zip(rows, rng.beta(1, 9, len(rows)), strict=True)}
    wrong = [max(hard[row.source], chance(str(row.label), row.edits)) for row in rows]
    luck = rng.random(len(rows)) < wrong
    return ["boat" if unlucky else row.label for row, unlucky in zip(rows, luck, strict=True)]


def needs_daylight(label: str, edits: Sequence[Edit]) -> float:
    return 0.5 if label == "bus" and any(edit.type == "time" for edit in edits) else 0.0


def no_weakness(label: str, edits: Sequence[Edit]) -> float:
    return 0.0


def insights(rows: Sequence[PictureRow], chance: Chance, seed: int) -> tuple[Insight, ...]:
    return evaluate_labels(rows, answers(rows, chance, seed)).insights


def test_a_planted_weakness_is_named_with_its_size() -> None:
    named, held = 0, 0
    for seed in range(20):
        clear = [one for one in insights(suite_rows(150, seed), needs_daylight, seed) if one.clear]
        if not clear:
            continue
        first = clear[0]
        named += (first.label, first.type, first.keyword) == ("bus", "time", "during the day")
        # Nine in a hundred are hard anyway, and fail with or without an edit.
        held += first.low <= 100 * 0.5 - 6 <= first.high
        assert {value.partition(":")[0] for value in first.values} == {"time"}
        assert set(first.worst) <= {row.key for row in suite_rows(150, seed) if needs_daylight("bus", row.edits)}
        assert first.worst
        assert 0 < first.more_low < 50 < first.more_high
        assert first.others < 20
        assert 'bus relies on "during the day"' in first.sentence
    assert named >= 16
    assert held >= 15


def test_what_all_classes_lose_alike_is_no_class_s_weakness() -> None:
    """The night costs every class half: no class relies on the day more than others, in 19 of 20 suites at least."""

    def night(label: str, edits: Sequence[Edit]) -> float:
        return 0.5 if any(edit.type == "time" for edit in edits) else 0.0

    found = [insights(suite_rows(150, seed), night, seed) for seed in range(20)]
    assert sum(any(one.q < 0.05 for one in some) for some in found) == 20, "each loses for certain"
    assert sum(any(one.clear for one in some) for some in found) <= 1


def test_a_group_that_does_not_tell_by_itself_is_judged_by_all_edits_of_its_type() -> None:
    first = insights(suite_rows(150), needs_daylight, 2)[0]
    clear, unclear, wide = (Standout("x", -0.1, low, high) for low, high in ((-0.6, -0.2), (-0.5, 0.1), (-0.9, 0.4)))
    cases = [
        (clear, clear, 20, False),
        (clear, None, 20, False),
        (unclear, clear, 20, True),
        (None, clear, 20, True),
        (unclear, wide, -10, False),
        (None, wide, -40, True),
    ]
    for group, type_, low, by_type in cases:
        one = first.judged(0.01, group, type_)
        assert (one.more_low, one.by_type, one.clear) == (pytest.approx(low), by_type, low > 0)
        assert ("all edits of time" in one.sentence) == by_type
        assert one.others == pytest.approx(10)
    assert not first.judged(0.06, clear, clear).clear
    assert first.judged(0.01, None, None).more_low is None


def test_classes_that_share_pictures_are_compared_on_them() -> None:
    """A picture's two classes fall together by its hardness: their difference is far surer than either."""
    rows = [replace(row, mask="m.png") for row in suite_rows(60)]
    hard = {row.source: share for row, share in zip(rows, np.random.default_rng(1).random(len(rows)), strict=True)}

    def counts(row: PictureRow, lost: int) -> np.ndarray:
        fall = int(40 * hard[row.source]) if row.edits and row.kind == "variant" else 0
        more = lost if any(edit.type == "time" for edit in row.edits) and row.kind == "variant" else 0
        return np.array([[100 - fall, 0, fall], [0, 100 - fall - more, fall + more]])

    more, alike = (evaluate_masks(rows, [counts(r, n) for r in rows], ("road", "bus")).insights for n in (20, 0))
    assert {(one.label, one.type) for one in more if one.clear} == {("bus", "time")}
    assert min(one.more_high - one.more_low for one in more if one.type == "time") < 15
    assert not any(one.clear for one in alike)


def test_a_weakness_of_some_edits_of_a_type_is_told_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buses are lost by night, however that is said, and not in the morning."""
    when = [f"{early} {time}" for time in ("night", "morning") for early in ("early in the", "late in the", "in the")]
    monkeypatch.setitem(WORDS, "time", ("during the day", tuple(when)))
    rows = suite_rows(180)

    def by_night(label: str, edits: Sequence[Edit]) -> float:
        return 0.5 if label == "bus" and any("night" in edit.alternative for edit in edits) else 0.0

    clear = [one for one in insights(rows, by_night, 2) if one.clear]
    assert clear
    assert {one.label for one in clear} == {"bus"}
    assert all("night" in value for one in clear for value in one.values)


@pytest.mark.slow
def test_no_weakness_is_invented() -> None:
    """Of suites of a model without one, some have an insight all the same: one in twenty."""
    alarms = sum(any(one.clear for one in insights(suite_rows(90, s), no_weakness, s)) for s in range(60))
    assert alarms <= 6


def test_the_order_of_rows_changes_nothing() -> None:
    rows = suite_rows(60)
    pairs = list(zip(rows, answers(rows, needs_daylight, 1), strict=True))
    before = evaluate_labels(rows, [answer for _, answer in pairs]).insights
    random.Random(5).shuffle(pairs)
    after = evaluate_labels([row for row, _ in pairs], [answer for _, answer in pairs]).insights
    assert before
    assert [one.sentence for one in after] == [one.sentence for one in before]
    assert after[0].drop == pytest.approx(before[0].drop)


def test_small_classes_one_label_and_no_baseline() -> None:
    """Five sources could all turn wrong by chance: nothing is said. Of six a type's edits stay together."""
    assert insights(suite_rows(15), needs_daylight, 0) == ()
    few = insights(suite_rows(42), needs_daylight, 0)
    assert sorted((one.label, one.type) for one in few) == sorted(itertools.product(LABELS, WORDS))
    assert any(len(one.values) > 2 for one in few)
    rows = [row for row in suite_rows(150) if row.label == "bus"]
    lone = insights(rows, needs_daylight, 0)[0]
    assert (lone.type, lone.q < 0.05) == ("time", True)
    assert (lone.more_low, lone.clear) == (None, False), "it loses, but there is no class to lose more than"
    variants = [row for row in rows if row.kind == "variant"]
    assert insights(variants, needs_daylight, 0) == ()


def test_values_of_too_few_sources_each_have_no_insight_though_their_type_has_enough() -> None:
    """One variant a source, each value on few: as in a suite whose values are spread over its sources."""
    draw, values = random.Random(0), [Edit(type_, "", value) for type_, some in MENU.items() for value in some]
    rows = [
        replace(row, caption=f"a {row.label}", edited_caption=f"a {row.label}, {edit.alternative}", edits=(edit,))
        if row.kind == "variant"
        else replace(row, caption=f"a {row.label}")
        for row in suite_rows(36, variants=1)
        if row.kind != "control"
        for edit in [draw.choice(values)]
    ]
    assert evaluate_labels(rows, [row.label for row in rows]).insights == ()


def test_two_values_of_many_sources_are_not_grouped() -> None:
    rows = [replace(row, edits=row.edits[:1]) for row in suite_rows(150)]
    rows = [row for row in rows if not row.edits or row.edits[0].alternative in ("at night", "at dusk")]
    assert all(one.values == (one.name,) for one in insights(rows, no_weakness, 0))
    assert {one.name for one in insights(rows, no_weakness, 0)} == {"time: at night", "time: at dusk"}


# By the direction in which an edit changes captions, in degrees, and how many sources show it.
TIMES = {"a dusk": (0, 2), "at dawn": (25, 14), "at dusk": (-2, 14), "at night": (-30, 14)}
TIMES |= {"in fog": (180, 14), "in rain": (175, 13)}


def test_a_group_is_called_by_that_of_its_common_edits_which_is_nearest_to_its_centre() -> None:
    vectors = {
        f"time: {edit}": (math.cos(math.radians(turn)), math.sin(math.radians(turn)))
        for edit, (turn, _) in TIMES.items()
    }

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.array([vectors.get(text, (0.0, 0.0)) for text in texts])

    shown = [edit for edit, (_, count) in TIMES.items() for _ in range(count)]
    rows = [control_row(i, source=str(i)) for i in range(len(shown))]
    for i, alternative in enumerate(shown):
        edits = (Edit("time", "by day", alternative),)
        rows.append(picture_row(i, source=str(i), key=f"k{i:02}", caption="", edited_caption="", edits=edits))
    wrong = {f"k{i:02}" for i in (2, 20, 31)}
    judged = evaluate_labels(rows, ["car" if row.key in wrong else "bus" for row in rows], embed=embed)
    dusk, fog = sorted(judged.insights, key=lambda one: one.name)
    assert (dusk.name, dusk.type, dusk.keyword, dusk.alternative) == ("time: at dusk", "time", "by day", "at dusk")
    assert dusk.values == ("time: at dawn", "time: at dusk", "time: at night", "time: a dusk")
    assert (dusk.worst, dusk.drop, dusk.pictures) == (tuple(sorted(wrong)), pytest.approx(100 * 3 / 44), 44)
    assert (fog.values, fog.worst, fog.drop) == (("time: in fog", "time: in rain"), (), pytest.approx(0))


def test_no_class_loses_more_than_all() -> None:
    """Fog turns what the night alone mends: by the sum of the two it costs twice as much as there is."""
    foggy, night, red = Edit("weather", "", "foggy"), Edit("time", "", "night"), Edit("colour", "", "red")
    rows, right = list[PictureRow](), list[bool]()
    for i in range(16):
        edits = (night, red) if i % 2 else (foggy, night, red)
        rows += [control_row(i), picture_row(3 * i, edits=edits)]
        right += [i % 2 == 0, i % 2 == 1]
    judged = evaluate_labels(rows, ["bus" if one else "car" for one in right])
    assert {one.name: one.drop for one in judged.insights} == pytest.approx({"weather: foggy": 100})
    assert judged.insights[0].more_low is None, "no other class"
    assert not judged.insights[0].clear
    assert all(-100 <= one.low <= one.drop <= one.high <= 100 for one in judged.insights)


def test_small_groups_join_the_nearest() -> None:
    vectors = unit(np.array([[1.0, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 1, 0.1], [0.2, 1, 0.5]]))
    many, few = {str(i) for i in range(20)}, {"0", "1"}
    labels = np.array([0, 0, 1, 1, 2])
    assert join_small(vectors, labels, [many, few, many, few, few]).tolist() == [0, 0, 1, 1, 1]
    assert join_small(vectors, labels, [many, few, many, few, many]).tolist() == labels.tolist()
    # What changes the opposite, or something else, joins nothing.
    assert join_small(unit(np.array([[1.0, 0], [-1, 0], [0, 1]])), np.arange(3), [few] * 3).tolist() == [0, 1, 2]


def test_pictures_without_captions_are_grouped_by_their_words() -> None:
    rows = [replace(row, caption="", edited_caption="") for row in suite_rows(150)]
    first = insights(rows, needs_daylight, 2)[0]
    assert (first.clear, first.label, first.type) == (True, "bus", "time")


def test_machines_are_told_which_insights_are_clear() -> None:
    rows = suite_rows(150)
    found = evaluate_labels(rows, answers(rows, needs_daylight, 2))
    data = found.to_json()["insights"]
    assert [(one["clear"], one["sentence"]) for one in data] == [(one.clear, one.sentence) for one in found.insights]
    assert len({one["clear"] for one in data}) == 2


def test_an_added_word_breaks_what_relies_on_nothing() -> None:
    added = {"keyword": "", "alternative": "foggy", "name": "weather: foggy", "type": "weather"}
    first = insights(suite_rows(150), needs_daylight, 3)[0]
    sentence = replace(first, **added, more_low=32.6, more_high=48.3, pictures=120).sentence
    assert all(fact in sentence for fact in ('bus breaks with "foggy"', "33 to 48 points more", "120 pictures"))


def test_masks_have_insights_by_class() -> None:
    """The second class's IoU falls at night, the first's never."""
    rows = [replace(row, mask="m.png") for row in suite_rows(60)]
    rng = np.random.default_rng(0)

    def counts(row: PictureRow) -> np.ndarray:
        lost = 60 if needs_daylight("bus", row.edits) else int(rng.integers(0, 5))
        return np.array([[100, 0], [lost, 100 - lost]])

    first, *others = evaluate_masks(rows, map(counts, rows), ("road", "bus")).insights
    assert (first.label, first.type, first.measure, first.clear) == ("bus", "time", "IoU", True)
    # Wrong pixels of the bus are in the road's union as well.
    assert all(one.drop < first.drop for one in others)


def test_boxes_have_insights_by_class() -> None:
    """Half of the buses are missed when the time changes, and no car."""
    things = (Box(0, 0, 10, 10, "bus"), Box(20, 20, 40, 40, "bus"), Box(50, 0, 60, 20, "car"))
    rows = [replace(row, boxes=things, label="bus") for row in suite_rows(60)]

    def seen(row: PictureRow) -> list[SeenBox]:
        missed = things[:1] if needs_daylight("bus", row.edits) else ()
        return [SeenBox(b.x0, b.y0, b.x1, b.y1, 0.5, b.label) for b in things if b not in missed]

    some = evaluate_boxes(rows, {row.file_name: seen(row) for row in rows}).insights
    assert {(one.label, one.type, one.measure) for one in some if one.clear} == {("bus", "time", "recall")}
    assert all(one.drop == pytest.approx(50) for one in some if one.clear)
    assert "car" in {one.label for one in some}


def slow_silhouette(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Rousseeuw's definition, one point after another."""
    widths = []
    for i in range(len(vectors)):
        by_group: dict[int, list[float]] = {}
        for j in range(len(vectors)):
            if i != j:
                by_group.setdefault(int(labels[j]), []).append(1 - float(vectors[i] @ vectors[j]))
        own = by_group.pop(int(labels[i]), None)
        if own is None:
            widths.append(0.0)
            continue
        here, there = float(np.mean(own)), min(float(np.mean(some)) for some in by_group.values())
        widths.append((there - here) / max(here, there) if max(here, there) > 0 else 0.0)
    return float(np.mean(widths))


@given(st.integers(0, 2**32 - 1), st.integers(4, 12), st.integers(2, 4))
def test_silhouettes_are_as_defined(seed: int, count: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = unit(rng.normal(size=(count, 3)))
    labels = np.concatenate([np.arange(2), rng.integers(0, groups, count - 2)])
    assert silhouette(1 - vectors @ vectors.T, labels) == pytest.approx(slow_silhouette(vectors, labels))


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_clear_groups_are_those_that_are_there(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    centres = np.eye(8)[rng.permutation(8)[:groups]]
    truth = np.concatenate([np.repeat(np.arange(groups), 3), rng.integers(0, groups, 9)])
    labels = choose_groups(unit(centres[truth] + rng.normal(0, 0.05, (len(truth), 8))))
    pairs = {(a, b) for a, b in zip(truth.tolist(), labels.tolist(), strict=True)}
    assert len(pairs) == groups == len(set(labels.tolist()))


@given(st.integers(0, 2**32 - 1))
def test_no_point_of_k_means_is_nearer_to_another_mean(seed: int) -> None:
    vectors = unit(np.random.default_rng(seed).normal(size=(20, 4)))
    labels = k_means(vectors, 3)
    assert np.array_equal(labels, k_means(vectors, 3))
    means = unit(np.stack([vectors[labels == k].sum(axis=0) for k in range(3)]))
    assert np.array_equal(np.argmax(vectors @ means.T, axis=1), labels)


def test_what_changes_nothing_is_no_group_of_its_own() -> None:
    assert k_means(np.array([[1.0, 0], [0, 1], [0, 0]]), 3).tolist() == [0, 1, 0]


def test_bags_of_words() -> None:
    bags = bags_of_words(["A bus, a Bus!", "bus", ""])
    assert bags.sum(axis=1).tolist() == [4, 1, 0]
    assert np.count_nonzero(bags[0]) == 2
    assert bags[0] @ bags[1] == 2
