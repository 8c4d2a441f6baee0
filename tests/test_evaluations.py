"""The scheduler of evaluations: nothing lost, nothing mixed up, batches full, whatever the jobs."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.schedule.evaluations import Fill, run_jobs

Row = tuple[int, int, int]


def job(number: int, shape: Sequence[int]) -> Generator[list[Row], Sequence[Row], list[Row]]:
    """A job of len(shape) steps with shape[i] rows in step i; its product is all that it got back."""
    got: list[Row] = []
    for step, rows in enumerate(shape):
        asked = [(number, step, row) for row in range(rows)]
        answers = yield asked
        assert list(answers) == asked
        got += answers
    return got


@given(
    st.lists(st.lists(st.integers(1, 4), max_size=5), max_size=12),
    st.integers(1, 7),
)
def test_every_job_gets_its_own_rows_back_and_batches_are_full_until_the_end(
    shapes: list[list[int]], batch: int
) -> None:
    seen: list[Sequence[Row]] = []

    def evaluate(rows: Sequence[Row]) -> Sequence[Row]:
        seen.append(list(rows))
        return rows

    fill = Fill(batch)
    products = dict(run_jobs((job(i, shape) for i, shape in enumerate(shapes)), evaluate, batch, fill))
    expected = {
        i: [(i, step, row) for step, rows in enumerate(shape) for row in range(rows)] for i, shape in enumerate(shapes)
    }
    assert products == expected
    assert sum(map(len, seen)) == sum(map(sum, shapes)) == fill.rows
    assert all(0 < len(rows) <= batch for rows in seen)


@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 8))
def test_batches_are_full_while_jobs_are_left_to_begin(jobs: int, steps: int, batch: int) -> None:
    begun = 0

    def counted() -> Generator[Generator[list[Row], Sequence[Row], list[Row]], None, None]:
        nonlocal begun
        for i in range(jobs):
            begun += 1
            yield job(i, [2] * steps)

    def evaluate(rows: Sequence[Row]) -> Sequence[Row]:
        assert len(rows) == batch or begun == jobs
        return rows

    assert len(list(run_jobs(counted(), evaluate, batch))) == jobs


def test_few_jobs_are_open_at_once() -> None:
    opened, closed, most = 0, 0, 0

    def counted(number: int) -> Generator[list[Row], Sequence[Row], list[Row]]:
        nonlocal opened, closed, most
        opened += 1
        most = max(most, opened - closed)
        product = yield from job(number, [2] * 10)
        closed += 1
        return product

    list(run_jobs((counted(i) for i in range(200)), lambda rows: rows, 8))
    assert most <= 5  # four jobs fill a batch of eight with their two rows each


def test_a_failing_evaluation_is_not_swallowed() -> None:
    def broken(rows: Sequence[Row]) -> Sequence[Row]:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        list(run_jobs([job(0, [1])], broken, 4))
