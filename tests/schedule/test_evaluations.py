"""The scheduler of evaluations: nothing lost, nothing mixed up, batches full, groups whole, whatever the jobs."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.schedule.evaluations import run_jobs

# Job, step, group, row; and which queue it belongs to.
Row = tuple[int, int, int, int, str]
Groups = list[list[Row]]
# By step: the size of each group.
Plan = list[list[int]]

plans = st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.lists(st.integers(1, 4), max_size=3), max_size=5)))


def job(number: int, plan: Plan, queue: str = "") -> Generator[Groups, Sequence[Sequence[Row]], list[Row]]:
    """A job of len(plan) steps; its product is all that it got back."""
    got: list[Row] = []
    for step, sizes in enumerate(plan):
        asked = [[(number, step, group, row, queue) for row in range(size)] for group, size in enumerate(sizes)]
        answers = yield asked
        assert [list(answer) for answer in answers] == asked
        got += [row for answer in answers for row in answer]
    return got


def rows_of(number: int, plan: Plan, queue: str = "") -> list[Row]:
    return [
        (number, step, group, row, queue)
        for step, sizes in enumerate(plan)
        for group, size in enumerate(sizes)
        for row in range(size)
    ]


def test_few_jobs_are_open_at_once_and_they_finish_early() -> None:
    opened, closed, most = 0, 0, 0

    def counted(number: int) -> Generator[Groups, Sequence[Sequence[Row]], list[Row]]:
        nonlocal opened, closed, most
        opened += 1
        most = max(most, opened - closed)
        product = yield from job(number, [[1, 1]] * 10)
        closed += 1
        return product

    finished = [number for number, _ in run_jobs((counted(i) for i in range(200)), lambda rows: rows, 8)]
    assert most <= 5  # four jobs fill a batch of eight with their two rows each
    assert all(abs(number - place) <= 5 for place, number in enumerate(finished))


def batches_by_rule(jobs: Sequence[tuple[str, Plan]], batch: int) -> list[list[tuple[int, int, int]]]:
    """The slow oracle: the groups (job, step, group) of each batch, every waiting group looked at each time.

    A job is begun when no queue fills a batch. Of the queues that fill one (of all, when none does and no job is
    left) that with the oldest group is next; its groups go oldest first, as far as each fits.
    """
    waiting: set[tuple[int, int, int]] = set()
    begun, step_of, found = 0, dict[int, int](), []

    def size(group: tuple[int, int, int]) -> int:
        return jobs[group[0]][1][group[1]][group[2]]

    def queued(queue: str) -> list[tuple[int, int, int]]:
        return sorted(group for group in waiting if jobs[group[0]][0] == queue)

    def go_on(number: int, step: int) -> None:
        plan = jobs[number][1]
        while step < len(plan) and not plan[step]:
            step += 1
        step_of[number] = step
        waiting.update((number, step, group) for group in range(len(plan[step]) if step < len(plan) else 0))

    while True:
        full = [queue for queue in "ab" if sum(map(size, queued(queue))) >= batch]
        if not full and begun < len(jobs):
            go_on(begun, 0)
            begun += 1
            continue
        if not waiting:
            return found
        queue = min(full or [q for q in "ab" if queued(q)], key=lambda q: (queued(q)[0][0], queued(q)[0][2]))
        taken: list[tuple[int, int, int]] = []
        for group in queued(queue):
            if sum(map(size, taken)) + size(group) <= batch:
                taken.append(group)
        found.append(taken)
        waiting.difference_update(taken)
        for number in dict.fromkeys(group[0] for group in taken):
            if not any(group[0] == number for group in waiting):
                go_on(number, step_of[number] + 1)


@given(plans, st.integers(4, 9))
def test_batches_go_by_the_rule_and_every_job_gets_its_own_rows_back(jobs: list[tuple[str, Plan]], batch: int) -> None:
    """So batches are full while jobs are left to begin, groups are whole, and the oldest job moves on with each."""
    seen: list[Sequence[Row]] = []

    def evaluate(rows: Sequence[Row]) -> Sequence[Row]:
        seen.append(list(rows))
        return rows

    products = dict(run_jobs((job(i, p, q) for i, (q, p) in enumerate(jobs)), evaluate, batch, lambda row: row[4]))
    assert products == {i: rows_of(i, plan, queue) for i, (queue, plan) in enumerate(jobs)}
    evaluated = [row for rows in seen for row in rows]
    assert len(evaluated) == len(set(evaluated)) == sum(map(len, products.values()))
    assert [list(dict.fromkeys(row[:3] for row in rows)) for rows in seen] == batches_by_rule(jobs, batch)


@pytest.mark.parametrize("sizes", [[5], [0], [2, 9]])
def test_a_group_that_no_batch_holds_is_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"a group is 1 to 4 rows of one queue, got \d rows"):
        list(run_jobs([job(0, [sizes])], lambda rows: rows, 4))


def test_a_group_of_two_queues_is_refused() -> None:
    def mixed() -> Generator[Groups, Sequence[Sequence[Row]], None]:
        yield [[(0, 0, 0, 0, "a"), (0, 0, 0, 1, "b")]]

    with pytest.raises(ValueError, match="2 rows of 2"):
        list(run_jobs([mixed()], lambda rows: rows, 4, lambda row: row[4]))


def test_a_failing_evaluation_is_not_swallowed() -> None:
    def broken(rows: Sequence[Row]) -> Sequence[Row]:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        list(run_jobs([job(0, [[1]])], broken, 4))
