"""Public reports about models and their answers, rebuilt in small, and what is right."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import invalidate_caches
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import counterfactory.engine
from counterfactory.engine.cli.arguments import main as run_command

# Percent: figures are printed with one digit.
_CLOSE = 0.06
_CRASH = 70


@dataclass(frozen=True)
class Told:
    """A word that has to be said, such as an option or a file: a pattern."""

    pattern: str


@dataclass(frozen=True)
class Outcome:
    """What a command came to: its exit status, its JSON, and all that it said, on one line."""

    status: int
    data: Mapping[str, Any]
    said: str

    @property
    def crashed(self) -> bool:
        """Whether it ended as a bug does."""
        return self.status == _CRASH

    def score(self, kind: str = "originals") -> float | None:
        """The headline figure of "originals", "controls" or "variants", in percent."""
        value = self.data[kind]["score"]["value"] if self.data else None
        return None if value is None else round(100 * value, 1)


@dataclass
class Workshop:
    """A folder that commands run in, and what they came to."""

    folder: Path
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, *words: object) -> Outcome:
        """Run a command, which gives JSON."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                status = run_command([*map(str, words), "--json"])
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else 1
            except Exception as error:  # what a person would see as "a bug"
                status = _CRASH
                err.write(f"{type(error).__name__}: {error}")
        data = json.loads(out.getvalue()) if out.getvalue().startswith("{") else {}
        outcome = Outcome(status, data, " ".join(f"{err.getvalue()} {' '.join(data.get('notes', ()))}".split()))
        self.outcomes.append(outcome)
        return outcome

    def suite(self, source: str = "set", task: str = "classification", *words: object, out: str = "suite") -> Outcome:
        """Make a suite of a set."""
        return self.run("generate", source, "--task", task, "--variants", 1, "--out", out, *words)

    def ask(self, *words: object, suite: str = "suite") -> Outcome:
        """Judge a suite by `--model`, `--predictions` and their options."""
        return self.run("evaluate", suite, *words)

    def module(self, name: str, code: str) -> None:
        """Write a module that `--model name:function` finds, without bytecode of the same second and size."""
        (file := self.folder / f"{name}.py").write_text(code)
        Path(cache_from_source(str(file))).unlink(missing_ok=True)
        sys.modules.pop(name, None)
        invalidate_caches()

    @property
    def sentence(self) -> str:
        """The last thing that was said."""
        return next((one.said for one in reversed(self.outcomes) if one.said), "")


@contextmanager
def working_in(folder: Path) -> Iterator[Workshop]:
    """A workshop in an empty folder, which is the working folder until then."""
    before, known = Path.cwd(), set(sys.modules)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield Workshop(folder)
    finally:
        os.chdir(before)
        for name in set(sys.modules) - known:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


@dataclass(frozen=True)
class Case:
    """A report: its number and name, where people told of it, what is `right` by a calculation of its own, and what
    builds its input and finds out what is said here.
    """

    name: str
    source: str
    right: Mapping[str, Any]
    find: Callable[[Workshop], Mapping[str, Any]]


CASES: list[Case] = []


def case(name: str, source: str, right: Mapping[str, Any]) -> Callable[[Callable[[Workshop], Mapping[str, Any]]], None]:
    """Enter a report into the table."""

    def enter(find: Callable[[Workshop], Mapping[str, Any]]) -> None:
        CASES.append(Case(name, source, right, find))

    return enter


def kind_of(report: Case) -> str:
    """What a report is one of: its number without its letter, or its first words."""
    first, *rest = report.name.split()
    return first.rstrip("abcdefghijklmnopqrst") or " ".join([first, *rest[:1]])


def differences(right: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Facts that are not as they should be, with both."""
    return {key: (want, found.get(key)) for key, want in right.items() if not _same(want, found.get(key))}


def _same(want: Any, have: Any) -> bool:
    if isinstance(want, Told):
        return isinstance(have, str) and re.search(want.pattern, have) is not None
    if isinstance(want, float) and isinstance(have, int | float):
        return abs(want - have) <= _CLOSE
    return bool(want == have)


def code_digest() -> str:
    """Names the code that reads models, their answers and data sets."""
    engine = Path(counterfactory.engine.__file__ or "").parent
    files = sorted(file for room in ("api", "asking", "judging", "sources") for file in (engine / room).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
