"""Fills fixed batches with evaluations of a network, from any number of jobs at any of their steps.

A job is a generator: it yields the rows that its next step needs, is sent their results, and returns its product.
Rows come in groups that share a batch (most groups have one row). This module knows nothing of a row but its queue:
rows of different queues, such as latents of different shapes, never share a batch.

Queues that can fill a batch go first, then the oldest job; a new job is begun only when no queue can fill a batch. So
few jobs are open at once, each finishes as early as it can, and none waits for more than the jobs before it and, if
its queue is too short to fill a batch, for the rest to be begun.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")
Product = TypeVar("Product")
# Yields groups of rows, is sent the results of each group, returns its product.
Job = Generator[Sequence[Sequence[Row]], Sequence[Sequence[Result]], Product]


@dataclass
class _Open(Generic[Row, Result, Product]):
    """A job that waits for results: those received, one list per group, and how many groups are missing."""

    number: int
    job: Job[Row, Result, Product]
    results: list[Sequence[Result]] = field(default_factory=list)
    missing: int = 0


@dataclass(frozen=True)
class _Waiting(Generic[Row, Result, Product]):
    opened: _Open[Row, Result, Product]
    place: int
    rows: Sequence[Row]


_Queue = list[_Waiting[Row, Result, Product]]


def run_jobs(
    jobs: Iterable[Job[Row, Result, Product]],
    evaluate: Callable[[Sequence[Row]], Sequence[Result]],
    batch: int,
    queue_of: Callable[[Row], Hashable] = lambda _: None,
) -> Iterator[tuple[int, Product]]:
    """Run every job to its end and yield (its number, its product) as each finishes.

    `evaluate` takes at most `batch` rows of one queue and returns their results in order; it gets fewer rows only when
    no job is left to begin, or when groups do not add up to a batch. Jobs are drawn lazily. Raises ValueError for a
    group that is empty, larger than a batch or of two queues, and whatever `evaluate` or a job raises.
    """
    numbered = enumerate(jobs)
    queues: dict[Hashable, _Queue[Row, Result, Product]] = {}
    exhausted = False

    def ask(opened: _Open[Row, Result, Product], groups: Sequence[Sequence[Row]]) -> None:
        opened.results, opened.missing = [()] * len(groups), len(groups)
        for place, rows in enumerate(groups):
            names = {queue_of(row) for row in rows}
            if not 1 <= len(rows) <= batch or len(names) != 1:
                raise ValueError(f"a group is 1 to {batch} rows of one queue, got {len(rows)} rows of {len(names)}")
            # The oldest job's groups first.
            queue = queues.setdefault(names.pop(), [])
            insort(queue, _Waiting(opened, place, rows), key=lambda waiting: waiting.opened.number)

    def go_on(
        opened: _Open[Row, Result, Product], results: Sequence[Sequence[Result]] | None
    ) -> Iterator[tuple[int, Product]]:
        """Take a job to its next rows, past steps that need none; yields its product if that was the end."""
        try:
            groups = next(opened.job) if results is None else opened.job.send(results)
            while not groups:
                groups = opened.job.send([])
            ask(opened, groups)
        except StopIteration as stop:
            yield opened.number, stop.value

    while True:
        while not exhausted and not any(_rows(queue) >= batch for queue in queues.values()):
            following = next(numbered, None)
            if following is None:
                exhausted = True
            else:
                yield from go_on(_Open(*following), None)
        waiting = [name for name, queue in queues.items() if queue]
        if not waiting:
            return
        full = [name for name in waiting if _rows(queues[name]) >= batch]
        taken = _take(queues[min(full or waiting, key=lambda name: queues[name][0].opened.number)], batch)
        results = iter(evaluate([row for group in taken for row in group.rows]))
        ready: list[_Open[Row, Result, Product]] = []
        for group in taken:
            group.opened.results[group.place] = [next(results) for _ in group.rows]
            group.opened.missing -= 1
            if not group.opened.missing:
                ready.append(group.opened)
        for opened in ready:
            yield from go_on(opened, opened.results)


def _rows(queue: _Queue[Row, Result, Product]) -> int:
    return sum(len(group.rows) for group in queue)


def _take(queue: _Queue[Row, Result, Product], batch: int) -> _Queue[Row, Result, Product]:
    """Remove from a queue its oldest group and, in order of age, the others that still fit the batch."""
    taken: _Queue[Row, Result, Product] = []
    left: _Queue[Row, Result, Product] = []
    room = batch
    for group in queue:
        fits = len(group.rows) <= room
        (taken if fits else left).append(group)
        room -= len(group.rows) * fits
    queue[:] = left
    return taken
