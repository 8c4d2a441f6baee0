"""The terminal: progress while a suite is made, and what is said at the end.

Progress and warnings go to standard error, results to standard output. On a terminal progress is a bar a stage with
rate and time left; anywhere else it is one plain line a stage. With `json` nothing but one JSON object, given to
`finish`, reaches standard output.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid
from rich.text import Text

from .report.album import Table

if TYPE_CHECKING:
    from .journey import Progress

OnProgress = Callable[["Progress"], None]


class _Rate(ProgressColumn):
    """Items a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s".rjust(8), style="progress.data.speed")


class Terminal:
    """What a command says, to a person or (`as_json`) to a machine."""

    def __init__(self, as_json: bool = False, out: Console | None = None, err: Console | None = None) -> None:
        self.as_json = as_json
        self._out = out or Console(highlight=False)
        self._err = err or Console(stderr=True, highlight=False)

    def say(self, text: str = "", style: str = "") -> None:
        """A line of the result. Paths in it are never broken over lines."""
        if not self.as_json:
            self._out.print(Text(text, style=style), soft_wrap=True)

    def warn(self, text: str) -> None:
        """A line that a person should see whatever becomes of the result."""
        self._err.print(Text(text, style="yellow"), soft_wrap=True)

    def error(self, text: str) -> None:
        """The one sentence that says why a command cannot go on."""
        self._err.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)

    def show(self, table: Table) -> None:
        """A table, within 80 columns as long as its words are."""
        if self.as_json:
            return
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for i, column in enumerate(table.columns):
            grid.add_column(column, justify="right" if i else "left", no_wrap=True)
        for row in table.rows:
            grid.add_row(*map(Text, row))
        self._out.print(grid)

    def finish(self, data: Mapping[str, Any]) -> None:
        """The result for machines: one JSON object on standard output, if that was asked for."""
        if self.as_json:
            self._out.file.write(json.dumps(data, allow_nan=False) + "\n")

    @contextmanager
    def progress(self) -> Iterator[OnProgress]:
        """A callback for `Journey.run` that shows what it is told."""
        if self.as_json:
            yield lambda _: None
        elif self._err.is_terminal:
            with self._bars() as bars:
                yield _bar_updater(bars)
        else:
            lines = _Lines(self._err)
            try:
                yield lines.update
            finally:
                lines.close()

    def _bars(self) -> Bars:
        return Bars(
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._err,
        )


def _bar_updater(bars: Bars) -> OnProgress:
    rows: dict[str, Any] = {}

    def update(progress: Progress) -> None:
        if progress.stage not in rows:
            rows[progress.stage] = bars.add_task(progress.stage, total=progress.total)
        bars.update(rows[progress.stage], completed=progress.done, total=progress.total)

    return update


class _Lines:
    """One line a stage: when it is complete or, for one that ends short of its total, at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: dict[str, tuple[float, float, Progress]] = {}

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        began = self._open[progress.stage][0] if progress.stage in self._open else now
        self._open[progress.stage] = (began, now, progress)
        if progress.done >= progress.total:
            self._print(progress.stage)

    def close(self) -> None:
        for stage in list(self._open):
            self._print(stage)

    def _print(self, stage: str) -> None:
        began, last, progress = self._open.pop(stage)
        self._console.print(f"{stage:<9} {progress.done}/{progress.total}  {last - began:.1f} s", soft_wrap=True)
