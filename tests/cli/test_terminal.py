"""What reaches a terminal, a pipe and a machine."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import Clock
from rich.console import Console

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.report.table import Table


def made(
    as_json: bool = False, tty: bool = False, clock: Callable[[], float] = time.monotonic
) -> tuple[Terminal, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    to_out, to_err = (Console(file=file, force_terminal=tty, width=80, highlight=False) for file in (out, err))
    return Terminal(as_json, to_out, to_err, clock), out, err


def shown(news: Sequence[tuple[float, str, int, int]], tty: bool) -> dict[str, list[str]]:
    """The last line that is shown of each stage, in words; news are (seconds since the last, stage, done, total)."""
    clock = Clock()
    terminal, _, err = made(tty=tty, clock=clock)
    with terminal.progress() as on_progress:
        for seconds, stage, done, total in news:
            clock.now += seconds
            on_progress(step(stage, done, total))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err.getvalue()).replace("\r", "\n")
    assert max(map(len, plain.splitlines())) <= 80
    lines = [line.replace("\u2501", " ").split() for line in plain.splitlines() if line.strip()]
    return {words[0]: [word for word in words[1:] if any(letter.isdigit() for letter in word)] for words in lines}


def step(stage: str, done: int, total: int) -> Any:
    return SimpleNamespace(stage=stage, done=done, total=total)


def test_progress_off_a_terminal_is_a_plain_line_a_stage() -> None:
    terminal, out, err = made()
    with terminal.progress() as on_progress:
        for done in range(5):
            on_progress(step("caption", done, 4))
        on_progress(step("paint", 1, 1))
    lines = err.getvalue().splitlines()
    assert [line.split()[:2] for line in lines] == [["caption", "4/4"], ["paint", "1/1"]]
    assert "\x1b" not in err.getvalue()
    assert out.getvalue() == ""


def test_a_stage_that_ends_short_of_its_total_is_told_at_the_end() -> None:
    terminal, _, err = made()
    with terminal.progress() as on_progress:
        on_progress(step("paint", 0, 10))
        on_progress(step("paint", 9, 10))
        on_progress(step("check", 9, 9))
    assert [line.split()[:2] for line in err.getvalue().splitlines()] == [["check", "9/9"], ["paint", "9/10"]]


# A run of two shards: words are rewritten in one step a shard, and half of the pictures are on record.
TWO_SHARDS = (
    (0.0, "rewrite", 0, 48),
    (6.0, "rewrite", 24, 48),
    (0.5, "paint", 10, 240),
    (55.0, "paint", 120, 240),
    (9.0, "rewrite", 48, 48),
    (1.0, "paint", 120, 240),
    (60.0, "paint", 240, 240),
)


def test_the_time_of_a_stage_is_its_own() -> None:
    """A stage that tells of itself once a shard has its time, and not that of the stages between."""
    lines = shown(TWO_SHARDS, tty=False)
    assert lines == {"rewrite": ["48/48", "15.0"], "paint": ["240/240", "116.5"]}


def test_a_bar_has_rate_and_time_of_its_stage_alone() -> None:
    assert shown(TWO_SHARDS[:4], tty=True)["paint"] == ["120/240", "2.0/s", "0:01:00"]
    lines = shown(TWO_SHARDS, tty=True)
    assert lines == {"rewrite": ["48/48", "3.2/s", "0:00:15"], "paint": ["240/240", "2.0/s", "0:01:56"]}


def test_bars_are_drawn_letter_by_letter() -> None:
    """Name, bar, count, rate and time, each in its colour; the stage that has no rate yet shows none."""
    err, clock = io.StringIO(), Clock()
    console = Console(file=err, force_terminal=True, color_system="standard", width=80, legacy_windows=False)
    terminal = Terminal(err=console, clock=clock)
    with terminal.progress() as on_progress:
        for seconds, stage, done, total in (*TWO_SHARDS[:4], (0.0, "check", 0, 7)):
            clock.now += seconds
            on_progress(step(stage, done, total))

    def coloured(*parts: tuple[int, str]) -> str:
        return "".join(f"\x1b[{colour}m{text}\x1b[0m" for colour, text in parts)

    def row(name: str, bar: list[tuple[int, str]], count: str, rate: str, time: str) -> str:
        cells = [coloured(*bar), *(coloured(cell) for cell in ((32, count), (31, f"{rate:>9}"), (36, f"{time:>8}")))]
        return f"{name:<9} {' '.join(cells)}"

    half = [(91, "\u2501" * 14), (90, "\u257a"), (90, "\u2501" * 13)]
    moves = re.compile(r"\x1b\[2K|\x1b\[1A|\x1b\[\?25h")
    last = [line for line in moves.sub("", err.getvalue()).splitlines() if line.strip()][-3:]
    assert last == [
        row("rewrite", half, "24/48  ", "4.0/s", "0:00:06"),
        row("paint", half, "120/240", "2.0/s", "0:01:00"),
        row("check", [(90, "\u2501" * 28)], "0/7    ", "", ""),
    ]


def test_a_stage_of_one_step_has_a_time_and_no_rate() -> None:
    assert shown([(12.0, "rewrite", 24, 24)], tty=True) == {"rewrite": ["24/24", "0:00:12"]}
    assert shown([(12.0, "rewrite", 24, 24)], tty=False) == {"rewrite": ["24/24", "12.0"]}
    assert shown([(0.0, "caption", 24, 48)], tty=True) == {"caption": ["24/48"]}


def test_rates_forget_what_was_on_record() -> None:
    """Shards of an earlier run pass at once; the time that is left is of those that are to be made."""
    on_record = [(0.001, "paint", 1000 * done, 10_000) for done in range(1, 9)]
    news = [*on_record, *((10.0, "paint", 8000 + 20 * done, 10_000) for done in range(1, 6))]
    assert shown(news, tty=True)["paint"] == ["8100/10000", "2.0/s", "0:15:50"]


def test_bars_of_large_runs_stay_within_eighty_columns() -> None:
    news = [(0.0, "segmented", 1, 1_250_000), (1.0, "segmented", 20_001, 1_250_000), (4e5, "read", 0, 1_250_000)]
    lines = shown(news, tty=True)
    assert lines["segmented"] == ["20001/1250000", "20000/s", "0:01:02"]


@pytest.mark.parametrize("tty", [False, True])
def test_json_is_alone_on_standard_output(tty: bool) -> None:
    terminal, out, err = made(as_json=True, tty=tty)
    terminal.say("hello")
    terminal.show(Table("t", ("a",), (("1",),)))
    terminal.warn("careful")
    with terminal.progress() as on_progress:
        on_progress(step("caption", 1, 1))
    terminal.finish({"a": [1, None]})
    assert json.loads(out.getvalue()) == {"a": [1, None]}
    assert err.getvalue().count("\n") == 1


def test_without_json_nothing_is_for_machines() -> None:
    terminal, out, _ = made()
    terminal.finish({"a": 1})
    assert out.getvalue() == ""


def test_long_paths_and_brackets_stay_whole() -> None:
    terminal, out, err = made()
    path = "/data/" + "[bold]x/" * 40
    terminal.say(path)
    terminal.error(path)
    assert out.getvalue() == path + "\n"
    assert err.getvalue() == f"error: {path}\n"


def test_tables_fit_eighty_columns() -> None:
    columns = ("pictures", "count", "classifier's accuracy", "segmenter's pooled mIoU")
    terminal, out, _ = made()
    terminal.show(Table("t", columns, (("  background edited", "120", "100.0 %", "100.0 %"),)))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "  background edited" in out.getvalue()


def test_a_table_is_drawn_letter_by_letter_and_moves_no_cursor() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=40, legacy_windows=False)
    table = Table("T\x1b[2J", ("name\x07", "b"), (("x\x1b[2J", "1"), ("longer than that", "22")))
    Terminal(out=console).show(table)
    bold = "\x1b[1m", "\x1b[0m"
    title, *columns = (cell.join(bold) for cell in ("T\\x1b[2J", "name\\x07        ", " ", " b"))
    assert out.getvalue().splitlines() == [
        *("", title, "{}{} {}".format(*columns), "\u2500" * 20),
        *("x\\x1b[2J           1", "longer than that  22", ""),
    ]


@pytest.mark.parametrize(("letters", "lines"), [(70, 1), (71, 2)])
def test_a_table_as_wide_as_the_terminal_is_whole(letters: int, lines: int) -> None:
    """Three columns with gaps of two between them: 70 + 3 + 3 + 4 letters."""
    terminal, out, _ = made()
    terminal.show(Table("t", ("a" * letters, "bbb", "ccc"), ()))
    assert out.getvalue().count("\n") == 4 + lines


@pytest.mark.parametrize("width", [60, 80])
def test_a_wide_column_is_broken_over_lines_and_no_word_of_another_is_cut(width: int) -> None:
    out = io.StringIO()
    terminal = Terminal(out=Console(file=out, width=width))
    path = "/home/somebody/counterfactory-a10g/plans/of/a/long/folder/" + "blip2_vision" * 4 + ".plan"
    rows = (("blip2_vision_language", "missing", path), ("opt_decoder", "found", "-"))
    terminal.show(Table("Plans", ("plan", "state", "why"), rows))
    text = out.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert all(word in text for word in ("blip2_vision_language", "missing", "opt_decoder", "found"))
    assert path in "".join(line[-(width - 32) :].strip() for line in text.splitlines())
