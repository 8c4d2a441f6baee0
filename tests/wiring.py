"""Options of commands are seen to arrive: in the plan, the suite, what is printed or written, or in a refusal.

A case is registered for each option of each command by `shows`: here are the data sets that cases share and what they
run, in wiring_cases.py those of several commands, and in cli/test_COMMAND_options.py those of one. Cases look at the
command line and at files only, never at what lies between.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streets import save_picture, write_streets

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.suite import PictureRow, read_metadata

SETS = ("generate", "plan", "estimate")
EDITS = ("generate", "plan")
MAKES = ("generate", "import")


@dataclass(frozen=True)
class Ran:
    """What a command gave: its exit status, its JSON, what it warned of, and the rows of the suite that it made."""

    status: int
    data: dict[str, Any]
    err: str
    suite: Path | None = None

    @property
    def rows(self) -> list[PictureRow]:
        return read_metadata(self.suite)

    @property
    def count(self) -> int:
        """Sources that were taken."""
        sources = self.data["sources"]
        return len(sources) if isinstance(sources, list) else int(sources)

    @property
    def edits(self) -> list[dict[str, str]]:
        """All edits, of the suite or of the plan."""
        if self.suite is not None:
            return [asdict(edit) for row in self.rows for edit in row.edits]
        return [edit for one in self.variants for edit in one["edits"]]

    @property
    def variants(self) -> list[dict[str, Any]]:
        """The plan's variants, or what the suite's rows say in the same words."""
        if self.suite is not None:
            return [
                {
                    "level": row.level,
                    "levels": row.levels,
                    "edits": row.edits,
                    "number": row.number,
                    "protected": row.protected,
                }
                for row in self.rows
                if row.kind == "variant"
            ]
        return [one | {"protected": of["protected"]} for of in self.data["sources"] for one in of["variants"]]

    @property
    def labels(self) -> set[str | None]:
        if self.suite is not None:
            return {row.label for row in self.rows}
        return {one["label"] for one in self.data["sources"]}


def assert_refused(ran: Ran, word: str) -> None:
    assert ran.status == 2
    assert word in ran.err


@dataclass
class House:
    """Data sets and suites that cases share, and commands that were run once already."""

    root: Path
    ran: dict[tuple[str, ...], Ran] = field(default_factory=dict)
    made: int = 0

    @property
    def flat(self) -> Path:
        """Class folders of pictures, without masks beside them: bus/0000, bus/0002, car/0001."""
        return self.root / "flat"

    def new(self, name: str) -> Path:
        """A path where nothing is yet."""
        self.made += 1
        return self.root / f"{self.made}-{name}"

    def file(self, name: str, text: str) -> Path:
        path = self.new(name)
        path.write_text(text)
        return path

    def run(self, *args: str | Path | int) -> Ran:
        """Run a command once, in JSON; the same words again give the same answer."""
        asked = tuple(map(str, args))
        if asked not in self.ran:
            self.ran[asked] = self._run(asked)
        return self.ran[asked]

    @property
    def pairs(self) -> Path:
        """A table of the same pictures, each with a brighter one."""
        return self.root / "pairs" / "pairs.csv"

    def ask(self, command: str, *args: str | Path | int, of: Path | None = None) -> Ran:
        """A command about a data set: one variant of a source and no control, where `args` do not say otherwise."""
        if command == "import":
            return self.run(command, of or self.pairs, *args)
        return self.run(command, of or self.flat, "--variants", 1, "--controls", 0, *args)

    def fails(self, word: str, command: str, *args: str | Path | int, of: Path | None = None) -> None:
        """The command is refused, in a sentence that holds `word`."""
        assert_refused(self.ask(command, *args, of=of), word)

    def refuses(self, word: str, *args: str | Path | int) -> None:
        """The same of words that are a whole command."""
        assert_refused(self.run(*args), word)

    def suite(self) -> Path:
        """A copy of a finished suite with masks: two variants and a control of three sources."""
        path = self.new("suite")
        kept = self.ask("generate", "--variants", 2, "--controls", 1, of=self.root / "street").suite
        shutil.copytree(kept, path)
        return path

    def _run(self, asked: Sequence[str]) -> Ran:
        suite = self.new("suite") if asked[0] in MAKES else None
        out, err = io.StringIO(), io.StringIO()
        made = () if suite is None else ("--out", str(suite))
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.setenv("XDG_CACHE_HOME", str(self.root / "cache"))  # what one run measured, the next need not
            try:
                status = main([*asked, *made, "--json"])
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else 1
        printed = out.getvalue()
        assert bool(printed) == (status in (0, 1, 3)), err.getvalue()
        data = json.loads(printed) if printed else {}
        return Ran(status, data, " ".join(err.getvalue().split()), suite if printed else None)


Case = Callable[[House, str], None]
CASES: dict[tuple[str, str], Case] = {}


def shows(option: str, *commands: str) -> Callable[[Case], Case]:
    """Register what shows that `option` of these commands arrives."""

    def register(case: Case) -> Case:
        for command in commands:
            assert (command, option) not in CASES
            CASES[command, option] = case
        return case

    return register


def stems(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.png"))


def judgements(house: House, suite: Path) -> Path:
    rows = [row for row in read_metadata(suite) if row.kind == "variant"]
    lines = [f"{row.file_name},{'yes' if index % 2 else 'no'}" for index, row in enumerate(rows)]
    return house.file("valid.csv", "\n".join(["image,valid", *lines, ""]))


def answers(house: House, suite: Path, wrong: str = "variant") -> Path:
    """A model's answers: right, but of pictures of the kind `wrong`."""
    other = {"bus": "car"}
    rows = [(row, other.get(str(row.label), "bus")) for row in read_metadata(suite)]
    lines = [f"{row.file_name},{answer if row.kind == wrong else row.label}" for row, answer in rows]
    return house.file("answers.csv", "\n".join(["image,prediction", *lines, ""]))


MODEL = "counterfactory.engine.pocket.judges:classify_streets"


TWO_HEADS = "wiring:two_heads"


def two_heads(pictures: np.ndarray) -> dict[str, np.ndarray]:
    """A model of four classes with two outputs: all pictures are of the first class, or of the second."""
    return {name: np.eye(4)[[number] * len(pictures)] for number, name in enumerate(("first", "second"))}


def page(house: House, suite: Path, *more: str | Path | int) -> str:
    ran = house.run("report", suite, *more)
    assert (ran.status, Path(ran.data["sheet"]).is_file()) == (0, True), ran.err
    return Path(ran.data["page"]).read_text()


def furnished(root: Path) -> House:
    """A house of three rendered streets."""
    write_streets(root / "street")
    shutil.copytree(root / "street" / "images", root / "flat")
    house, lines = House(root), ["original,edited,edit,label"]
    shutil.copytree(house.flat, house.pairs.parent)
    for stem in stems(house.flat):
        brighter = np.asarray(Image.open(house.flat / f"{stem}.png")) // 2 + 99
        save_picture(house.pairs.parent / "edited" / f"{stem}.png", brighter)
        lines.append(f"{stem}.png,edited/{stem}.png,light: bright,{stem.partition('/')[0]}")
    house.pairs.write_text("\n".join(lines))
    return house


def options_by_command() -> dict[str, set[str]]:
    """The options of each command, by its own parser; what `--help` says is left out."""
    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        parsers.append(parser)
        raise SystemExit(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", keep)
        with pytest.raises(SystemExit):
            main([])
    ((commands, *_),) = [
        [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for parser in parsers
    ]
    return {
        name: {
            action.option_strings[-1] if action.option_strings else str(action.metavar)
            for action in command._actions
            if not isinstance(action, (argparse._HelpAction, argparse._VersionAction))
        }
        for name, command in commands.items()
    }
