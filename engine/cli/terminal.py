"""The terminal: progress while a suite is made, and the result at the end.

Progress and warnings go to standard error, results to standard output. On a terminal progress is a bar per stage with
rate and time left; anywhere else it is one plain line per stage. Shards take turns through the stages, so times and
rates are of the stage alone. With `json` nothing but one JSON object, given to `finish`, reaches standard output.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from math import ceil
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid
from rich.text import Text

from ..api.options import OnProgress
from ..files.escaping import for_terminal
from ..meter.meter import Progress
from ..report.table import Table

_WINDOW_S = 30.0  # rates look back so far, or items that were on record would count as fast work for ever

_GAP = 2  # spaces between the columns of a table


class _Pace:
    """How long a stage took so far, and its items per second.

    The time between two progress calls, of any stages, belongs to the stage of the later one. So a stage with a single
    call has its time too, and one that waited for its turn is not slower for it.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._readings: deque[tuple[float, int]] = deque()

    def record(self, seconds: float, done: int) -> None:
        """`done` items after `seconds` more."""
        self.seconds += seconds
        self._readings.append((self.seconds, done))
        while len(self._readings) > 2 and self.seconds - self._readings[1][0] >= _WINDOW_S:
            self._readings.popleft()

    @property
    def rate(self) -> float | None:
        """Items per second of late; None before the second reading, as the first may be of items on record."""
        (since, before), (until, now) = self._readings[0], self._readings[-1]
        return (now - before) / (until - since) if until > since and now > before else None


class _Paces:
    """The paces of all stages, from their progress calls in order."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._last = clock, clock()
        self._of: dict[str, _Pace] = {}

    def record(self, progress: Progress) -> _Pace:
        now = self._clock()
        pace = self._of.setdefault(progress.stage, _Pace())
        pace.record(now - self._last, progress.done)
        self._last = now
        return pace


class _Console(Console):
    """A console that raises BrokenPipeError, where rich's own would end the process with status 1."""

    def on_broken_pipe(self) -> None:
        raise


class Terminal:
    """What a command says, to a person or (`as_json`) to a machine."""

    def __init__(
        self,
        as_json: bool = False,
        out: Console | None = None,
        err: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.as_json = as_json
        self._clock = clock
        self._out = out or _Console(highlight=False)
        self._err = err or _Console(stderr=True, highlight=False)

    def say(self, *lines: str) -> None:
        """Lines of the result. Paths in them are never broken over lines."""
        for line in () if self.as_json else lines:
            self._out.print(_text(line), soft_wrap=True)

    def note(self, *sentences: str) -> None:
        """Sentences of the result, broken at words where one is wider than the terminal."""
        for sentence in () if self.as_json else sentences:
            self._out.print(_text(sentence))

    def warn(self, text: str) -> None:
        """A line that a person should see whatever becomes of the result."""
        self._err.print(_text(text, "yellow"), soft_wrap=True)

    def error(self, text: str) -> None:
        """The one sentence that says why a command cannot go on."""
        self._err.print(Text.assemble(("error: ", "bold red"), _text(text)), soft_wrap=True)

    def show(self, *tables: Table) -> None:
        """Tables under their titles. Where one is wider than the terminal, its widest column is broken over lines, so
        that words of the others, such as a state, stay whole.
        """
        for table in () if self.as_json else tables:
            self._show(table)

    def _show(self, table: Table) -> None:
        table = replace(
            table,
            columns=tuple(map(for_terminal, table.columns)),
            rows=tuple(tuple(map(for_terminal, row)) for row in table.rows),
        )
        # Gaps of two: the widest table, a run's cost by stage, fills the 80 columns.
        grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        widths = [max(map(cell_len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
        room = self._out.width - _GAP * (len(widths) - 1)
        broken = widths.index(max(widths)) if sum(widths) > room else None
        for i, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
            if i == broken:
                grid.add_column(Text(column), justify="left", overflow="fold")
            else:
                grid.add_column(Text(column), justify="right" if i else "left", no_wrap=True, min_width=width)
        for row in table.rows:
            grid.add_row(*map(Text, row))
        self._out.print("", _text(table.title, "bold"), grid, "", sep="\n")

    def finish(self, data: Mapping[str, Any]) -> None:
        """The result for machines: one JSON object on standard output, if that was asked for."""
        if self.as_json:
            self._out.file.write(json.dumps(data, allow_nan=False) + "\n")
            self._out.file.flush()  # a command may serve from here on

    @contextmanager
    def progress(self) -> Iterator[OnProgress]:
        """A callback for `Journey.run` that shows the progress it is given."""
        if self.as_json:
            yield lambda _: None
        elif self._err.is_terminal:
            with self._bars() as bars:
                yield _bar_updater(bars, _Paces(self._clock))
        else:
            with _lines(self._err, _Paces(self._clock)) as update:
                yield update

    @contextmanager
    def callbacks(self) -> Iterator[dict[str, Any]]:
        """The keywords by which a verb of `api` tells of its progress and warns."""
        with self.progress() as on_progress:
            yield {"on_progress": on_progress, "warn": self.warn}

    def _bars(self) -> Bars:
        return Bars(
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>9}", style="progress.data.speed"),
            TextColumn("{task.fields[time]:>8}", style="progress.remaining"),
            console=self._err,
        )


def _text(text: str, style: str = "") -> Text:
    """Text that does nothing to a terminal but be read: all that a command says comes by here."""
    return Text(for_terminal(text), style=style)


def _bar_updater(bars: Bars, paces: _Paces) -> OnProgress:
    rows: dict[str, Any] = {}

    def update(progress: Progress) -> None:
        pace = paces.record(progress)
        if progress.stage not in rows:
            rows[progress.stage] = bars.add_task(progress.stage, total=progress.total, rate="", time="")
        bars.update(
            rows[progress.stage],
            completed=progress.done,
            total=progress.total,
            rate="" if pace.rate is None else f"{pace.rate:.{0 if pace.rate >= 1000 else 1}f}/s",
            time=_time(progress, pace),
        )

    return update


def _time(progress: Progress, pace: _Pace) -> str:
    """The time that is left to the stage or, when it is complete, what it took."""
    left = progress.total - progress.done
    if left > 0:
        return "" if pace.rate is None else str(timedelta(seconds=ceil(left / pace.rate)))
    return str(timedelta(seconds=round(pace.seconds)))


@contextmanager
def _lines(console: Console, paces: _Paces) -> Iterator[OnProgress]:
    """One line per stage: when it is complete or, for one that ends short of its total, at the end."""
    waiting: dict[str, tuple[Progress, _Pace]] = {}

    def tell(stage: str) -> None:
        progress, pace = waiting.pop(stage)
        console.print(f"{stage:<9} {progress.done}/{progress.total}  {pace.seconds:.1f} s", soft_wrap=True)

    def update(progress: Progress) -> None:
        waiting[progress.stage] = (progress, paces.record(progress))
        if progress.done >= progress.total:
            tell(progress.stage)

    try:
        yield update
    finally:
        for stage in list(waiting):
            tell(stage)
