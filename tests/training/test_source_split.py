"""Which sources train and which judge."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import original_row, picture_row

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.groups import group_rows
from counterfactory.engine.suite import Origin, PictureRow
from counterfactory.engine.training.source_split import require_classes, split_sources, split_suites


def rows_of(sources: list[tuple[int, str, int]]) -> list[PictureRow]:
    """Rows of sources (file, label, variants): their original and variants."""
    rows: list[PictureRow] = []
    for index, (file, label, variants) in enumerate(sources):
        about = {"source": f"{label}/{index}", "label": label, "origin": Origin("x.png", f"{file:064x}", 8, 8)}
        rows.append(original_row(index, **about))
        rows += [picture_row(index, file_name=f"images/{index}/{k}.png", **about) for k in range(variants)]
    return rows


# At least two files of each label, some of them there twice; a file has one label.
SOURCES = st.integers(1, 3).flatmap(
    lambda labels: st.lists(
        st.tuples(st.integers(0, 11), st.integers(0, 4)), max_size=20
    ).map(lambda some: [(f % 4 + 4 * (f // 4 % labels), f"label{f // 4 % labels}", n) for f, n in some]
          + [(4 * k + j, f"label{k}", 1) for k in range(labels) for j in (0, 1)])
)  # fmt: skip


@given(SOURCES, st.floats(0.01, 0.99), st.integers(0, 5))
def test_no_file_is_on_both_sides_and_nothing_is_lost(
    sources: list[tuple[int, str, int]], share: float, seed: int
) -> None:
    rows = rows_of(sources)
    split = split_sources(rows, share, seed)
    sides = [{row.origin.sha256 for row in side} for side in (split.train, split.held)]
    assert not sides[0] & sides[1]
    assert Counter(row.file_name for row in (*split.train, *split.held)) == Counter(row.file_name for row in rows)
    labels = {row.label for row in rows}
    assert labels == {row.label for row in split.train} == {row.label for row in split.held}
    for label in labels:
        files = {row.origin.sha256 for row in rows if row.label == label}
        held = {row.origin.sha256 for row in split.held if row.label == label}
        assert len(held) == min(max(1, round(share * len(files))), len(files) - 1)


@given(SOURCES, st.randoms())
def test_the_side_does_not_depend_on_order_and_depends_on_the_seed(
    sources: list[tuple[int, str, int]], random: object
) -> None:
    rows = rows_of(sources)
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    held = {row.file_name for row in split_sources(rows, 0.5, 1).held}
    assert {row.file_name for row in split_sources(mixed, 0.5, 1).held} == held


def test_another_seed_holds_out_others() -> None:
    rows = rows_of([(index, "bus", 1) for index in range(20)])
    drawn = {frozenset(row.source for row in split_sources(rows, 0.25, seed).held) for seed in range(5)}
    assert len(drawn) == 5


def test_a_class_of_one_source_is_refused_by_name() -> None:
    rows = rows_of([(0, "bus", 1), (1, "bus", 1), (2, "tram", 1), (2, "tram", 2)])  # the same file twice
    with pytest.raises(CounterfactoryError, match="class 'tram' has a single source"):
        split_sources(rows, 0.5, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=6, max_size=40), st.integers(0, 5))
def test_no_group_is_on_both_sides(sources: list[tuple[int, int]], seed: int) -> None:
    """Groups have several labels, and a file may lie in several groups."""
    rows = rows_of([(file, "ab"[file % 2], 1) for file, _ in sources])
    groups = {row.source: f"drive {group}" for row, (_, group) in zip(rows[::2], sources, strict=True)}
    grouped = group_rows(rows, groups)
    try:
        split = split_sources(grouped, 0.3, seed)
    except CounterfactoryError:
        return
    for of in (lambda row: row.unit, lambda row: row.origin.sha256):
        assert {of(row) for row in split.train}.isdisjoint({of(row) for row in split.held})
    assert len(split.train) + len(split.held) == len(rows)
    assert {row.label for row in split.train} == {row.label for row in split.held} == {row.label for row in rows}


def test_groups_are_held_out_by_their_number_of_each_label() -> None:
    rows = rows_of([(index, "ab"[index % 2], 1) for index in range(80)])
    groups = {row.source: f"{row.label} {int(row.source[2:]) % 16}" for row in rows}
    held = split_sources(group_rows(rows, groups), 0.25, 0).held
    assert [len({row.unit for row in held if row.label == label}) for label in "ab"] == [2, 2]


@pytest.mark.parametrize("groups", [["one"] * 4 + ["two", "three"], ["one", "two", "one", "two", "one", "two"]])
def test_labels_that_groups_do_not_let_apart_are_refused(groups: list[str]) -> None:
    """A class in one group; and two classes in the same two groups, which can be split."""
    rows = rows_of([(index, "bus" if index < 4 else "tram", 1) for index in range(6)])
    grouped = group_rows(rows, dict(zip([row.source for row in rows[::2]], groups, strict=True)))
    if groups[1] == "two":
        assert {row.unit for row in split_sources(grouped, 0.5, 0).held} in ({"one"}, {"two"})
    else:
        with pytest.raises(CounterfactoryError, match=r"class 'bus' has sources of one group \(one\)"):
            split_sources(grouped, 0.5, 0)


def test_groups_that_train_do_not_judge_in_another_suite() -> None:
    rows, test = rows_of([(0, "bus", 1), (1, "bus", 1)]), rows_of([(8, "bus", 2), (5, "bus", 1), (6, "bus", 0)])
    of = ({"bus/0": "d1", "bus/1": "d2"}, {"bus/0": "d2", "bus/1": "d3"})
    split, left_out = split_suites(*(group_rows(some, groups) for some, groups in zip((rows, test), of, strict=True)))
    assert (len(split.train), left_out) == (4, 1)
    assert {row.origin.sha256 for row in split.held} == {f"{file:064x}" for file in (5, 6)}


def test_what_trains_does_not_judge_in_another_suite() -> None:
    rows, test = rows_of([(0, "bus", 1), (1, "bus", 1)]), rows_of([(1, "bus", 2), (5, "bus", 1), (6, "bus", 0)])
    split, left_out = split_suites(rows, test)
    assert (len(split.train), left_out) == (4, 1)
    assert {row.origin.sha256 for row in split.held} == {f"{file:064x}" for file in (5, 6)}


@pytest.mark.parametrize(("lacking", "verb"), [(0, "trains"), (1, "judges")])
def test_a_class_that_one_side_alone_shows_is_refused(lacking: int, verb: str) -> None:
    sides = [frozenset({"road", "rider"})] * 2
    require_classes(*sides)
    sides[lacking] = frozenset({"road"})
    with pytest.raises(CounterfactoryError, match=f"no source that {verb} shows the class 'rider'"):
        require_classes(*sides)
