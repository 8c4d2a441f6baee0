"""Fills fixed batches with evaluations of a network, from any number of jobs at any of their steps.

A job is a generator: it yields the rows that its next step needs, gets their results back, and returns its product.
What the rows are is none of this module's business. Rows wait in one line in which the jobs already begun go first,
so that jobs finish early and few are open at once; a new job is begun only when the line cannot fill a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")
Product = TypeVar("Product")
Job = Generator[Sequence[Row], Sequence[Result], Product]


@dataclass
class Fill:
    """How full the batches were: `rows` evaluated in `batches` of `size`."""

    size: int
    rows: int = 0
    batches: int = 0

    @property
    def share(self) -> float:
        """Rows over the batches' capacity, 0..1; 1 when nothing ran."""
        return self.rows / (self.batches * self.size) if self.batches else 1.0


@dataclass
class _Open(Generic[Row, Result, Product]):
    """A job that waits for results: those that came, and how many are still out."""

    order: int
    job: Job[Row, Result, Product]
    results: list[Result | None] = field(default_factory=list)
    missing: int = 0


def run_jobs(
    jobs: Iterable[Job[Row, Result, Product]],
    evaluate: Callable[[Sequence[Row]], Sequence[Result]],
    batch: int,
    fill: Fill | None = None,
) -> Iterator[tuple[int, Product]]:
    """Run every job to its end and yield (its number, its product) as each finishes.

    `evaluate` gets `batch` rows at a time, fewer only when nothing else is left to begin. Jobs are drawn lazily.
    Raises what `evaluate` or a job raises.
    """
    line: deque[tuple[_Open[Row, Result, Product], int, Row]] = deque()
    numbered = enumerate(jobs)
    exhausted = False

    def ask(
        opened: _Open[Row, Result, Product], rows: Sequence[Row]
    ) -> list[tuple[_Open[Row, Result, Product], int, Row]]:
        opened.results, opened.missing = [None] * len(rows), len(rows)
        return [(opened, i, row) for i, row in enumerate(rows)]

    while True:
        while len(line) < batch and not exhausted:
            following = next(numbered, None)
            if following is None:
                exhausted = True
                break
            opened = _Open(following[0], following[1])
            try:
                line.extend(ask(opened, next(opened.job)))
            except StopIteration as stop:
                yield opened.order, stop.value
        if not line:
            return
        taken = [line.popleft() for _ in range(min(batch, len(line)))]
        results = evaluate([row for _, _, row in taken])
        if fill is not None:
            fill.rows, fill.batches = fill.rows + len(taken), fill.batches + 1
        begun: list[tuple[_Open[Row, Result, Product], int, Row]] = []
        for (opened, i, _), result in zip(taken, results, strict=True):
            opened.results[i] = result
            opened.missing -= 1
            if opened.missing:
                continue
            try:
                begun += ask(opened, opened.job.send([r for r in opened.results if r is not None]))
            except StopIteration as stop:
                yield opened.order, stop.value
        # Oldest first, before whatever has not begun: the open jobs stay few.
        line.extend(begun)
