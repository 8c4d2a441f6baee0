"""What reaches a terminal, a pipe and a machine."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from counterfactory.engine.report.album import Table
from counterfactory.engine.terminal import Terminal


def made(as_json: bool = False, tty: bool = False) -> tuple[Terminal, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    consoles = [Console(file=file, force_terminal=tty, width=80, highlight=False) for file in (out, err)]
    return Terminal(as_json, *consoles), out, err


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


def test_progress_on_a_terminal_names_each_stage() -> None:
    terminal, out, err = made(tty=True)
    with terminal.progress() as on_progress:
        on_progress(step("caption", 4, 4))
        on_progress(step("paint", 1, 3))
    assert "caption" in err.getvalue()
    assert "1/3" in err.getvalue()
    assert out.getvalue() == ""


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
    columns = ("pictures", "count", "classifier's accuracy", "segmenter's mIoU")
    terminal, out, _ = made()
    terminal.show(Table("t", columns, (("  background edited", "120", "100.0 %", "100.0 %"),)))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "  background edited" in out.getvalue()
