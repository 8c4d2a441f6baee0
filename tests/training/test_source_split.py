"""Which sources train and which judge."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import original_row, picture_row

from counterfactory.engine.errors import CounterfactoryError
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
