"""The documents say what the code does: commands parse, options are all listed, links lead somewhere, pages are short.

Every command of every page is given to the parser of the program that it calls; pip's are resolved by tests/resolve.py.
"""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterfactory.engine.cli import doctor
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.cli.gpus import Gpu
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export import __main__ as exporter
from counterfactory.export.production import command as production
from counterfactory.export.production import denoiser
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.graph import Request, Sources

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md", *(ROOT / "docs").glob("**/*.md")]
)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Request, Path, Asked]]:
    """What exports were asked for; none is made, and every compiler is there."""
    asked_for: list[tuple[Request, Path, Asked]] = []

    def export_all(request: Request, out: Path, *, only: list[str], asked: Asked, **_: Any) -> list[str]:
        assert set(only) <= set(production.graphs_of(request))
        asked_for.append((request, out, asked))
        return []

    monkeypatch.setattr(production, "export_all", export_all)
    monkeypatch.setattr(denoiser, "scheduler_of", lambda request: denoiser.SCHEDULER)  # nothing is fetched
    monkeypatch.setattr(production, "require_compiler", lambda library, target: None)
    return asked_for


def run_export(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exporter's own main with these arguments; its exit status."""
    monkeypatch.setattr("sys.argv", ["counterfactory.export", *words])
    with pytest.raises(SystemExit) as ended:
        exporter.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("named", [True, False], ids=["with weights", "without"])
def test_the_doctor_s_export_command_is_one(named: bool, exported: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "1.0")
    monkeypatch.setattr(doctor, "find_gpus", lambda nvml: (Gpu("A10G", "8.6", 24 * 10**9, 23 * 10**9, "580.65"),))
    usual = load_profile("a10g")
    profile = usual if named else replace(usual, weights=None)
    python, *words = shlex.split(doctor.examine(profile).next)
    assert [python, *words[:3]] == [sys.executable, "-m", "counterfactory.export", "a10g"]
    assert run_export(words[2:], monkeypatch) == 0
    ((request, _, asked),) = exported
    assert request.sources == Sources(
        blip2=usual.weights.blip2,
        clip=usual.weights.clip,
        diffusion=usual.weights.diffusion,
        controlnets=usual.weights.controlnets,
        sentence=usual.weights.sentence,
    )
    assert (asked.plans, asked.library) == (True, "tensorrt")


def test_the_dockerfile_ends_in_a_command_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "Dockerfile").read_text()
    entry, words = (re.search(rf"^{name} (\[.*\])$", text, re.M) for name in ("ENTRYPOINT", "CMD"))
    assert entry[1] == '["counterfactory"]'
    assert main(re.findall(r'"([^"]+)"', words[1])) == 0
    assert subprocess.run(["git", "ls-files", "requirements"], cwd=ROOT, capture_output=True, check=True).stdout


class Parsed(Exception):  # noqa: N818 - no error: what a parser made of its arguments
    """Parsing has ended well; `parser` did it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


@pytest.fixture
def only_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs parse their arguments and do nothing more."""
    parse = argparse.ArgumentParser.parse_args

    def parse_args(parser: argparse.ArgumentParser, *given: Any, **named: Any) -> argparse.Namespace:
        parse(parser, *given, **named)
        raise Parsed(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)


def written_commands(text: str) -> Iterator[str]:
    """The commands of a page, in blocks and in lines of text, of our own programs."""
    lines = [line for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.M | re.S) for line in joined(block)]
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for line in [*lines, *spans]:
        words = line.replace("\\|", "|").split()
        program = words[0].rpartition("/")[2] if words else ""
        if program in ("counterfactory", "make", "python") and len(words) > 1:
            yield " ".join([program, *words[1:]])


def joined(block: str) -> list[str]:
    """A block's lines without comments, continued lines as one."""
    return [re.sub(r"(^|\s+)#.*$", "", line).strip() for line in block.replace("\\\n", " ").splitlines()]


WRITTEN = sorted({(line, path.name) for path in PAGES for line in written_commands(path.read_text(encoding="utf-8"))})


def options_of(program: Path) -> set[str]:
    """The long options that a program of bench/ or tests/ names, or a module of its folder that it imports."""
    tree = ast.parse(program.read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found = {text for text in texts if re.fullmatch(r"--[a-z][a-z0-9-]*", text)}
    beneath = [path for name in names if (path := program.parent / f"{name}.py").exists()]
    return found.union(*map(options_of, beneath))


@pytest.mark.usefixtures("only_parsed")
@pytest.mark.parametrize(("line", "page"), WRITTEN, ids=[f"{page}: {line}" for line, page in WRITTEN])
def test_every_command_of_every_page_parses(
    line: str, page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *words = shlex.split(line)
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
        assert set(words) <= targets
    elif program == "counterfactory":
        check_parsed(lambda: main(words), line, words, capsys)
    elif words[:2] == ["-m", "counterfactory.export"] and words[2:]:
        monkeypatch.setattr("sys.argv", words[1:])
        check_parsed(exporter.main, line, words, capsys)
    elif words[0] != "-m":
        path = ROOT / words[0]
        assert path.is_file(), f"{page} names {words[0]}"
        unknown = {word.partition("=")[0] for word in words[1:] if word.startswith("--")} - options_of(path)
        assert not unknown, f"{words[0]} has no {unknown}"
    else:
        assert words[1] in ("counterfactory.export", "counterfactory.kernels.gpu", "pytest", "pip"), line


def check_parsed(run: Callable[[], object], line: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The program's own parser takes the line, or shows its help as asked."""
    try:
        run()
    except Parsed:
        return
    except SystemExit:
        assert "--help" in words, f"{line}: {capsys.readouterr().err}"


def commands_with_options() -> dict[str, set[str]]:
    """Each command of the command line and its long options, by its own parser."""
    try:
        main(["doctor"])
    except Parsed as parsed:
        (commands,) = (
            action.choices
            for action in parsed.parser._actions
            if isinstance(action, argparse._SubParsersAction)  # argparse has no public name for it
        )
        return {
            name: {option for action in parser._actions for option in action.option_strings if option[:2] == "--"}
            for name, parser in commands.items()
        }
    raise AssertionError("the command line parses its arguments otherwise")


@pytest.mark.usefixtures("only_parsed")
def test_all_options_are_listed_and_no_others() -> None:
    commands = commands_with_options()
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:counterfactory [a-z]+ [^`]*)?(--[a-z][a-z0-9-]*)", page)) | {"--help"}
    assert named == set().union(*commands.values())
    assert {name for name in commands if f"`counterfactory {name}" not in page} == set()


# Every command has these.
_GIVEN = {"--help", "--json"}


@pytest.mark.usefixtures("only_parsed")
def test_each_command_s_own_options_stand_at_its_name() -> None:
    """The table "One command's own" of docs/cli.md: a row with an empty first cell is of the command above it."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    listed: dict[str, set[str]] = {}
    for title in ("Sources: `generate`, `plan`, `estimate`", "Edits: `generate`, `plan`"):
        for name in re.findall(r"`(\w+)`", title):
            listed[name] = listed.get(name, set()) | set(re.findall(r"(--[a-z][a-z0-9-]*)", first_cells(parts[title])))
    command = ""
    for row in re.findall(r"^\| (.*) \|$", parts["One command's own"], re.M)[1:]:
        first, options, _ = re.split(r"(?<!\\) ?\| ?", f"{row} ", maxsplit=2)
        command = first.strip("` ") or command
        listed.setdefault(command, set()).update(re.findall(r"(--[a-z][a-z0-9-]*)", options))
    assert listed == {name: options - _GIVEN for name, options in commands_with_options().items()}


def first_cells(table: str) -> str:
    """The first cells of a table's rows."""
    return "\n".join(re.split(r"(?<!\\)\|", row)[1] for row in table.splitlines() if row.startswith("|"))


def anchors(page: Path) -> set[str]:
    """What links to a page's headings end in, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_reached_from_the_readme() -> None:
    found, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        waiting += [page.parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))]
    assert set(PAGES) <= found


def test_pages_are_short() -> None:
    words = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").split()) for path in PAGES}
    assert words["README.md"] < 1000
    assert words["docs/decisions.md"] < 5000
    assert sum(words.values()) < 25_000


def test_the_readme_says_how_to_start_and_what_has_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake demo\nmake test\n" in text
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    for profile in (ROOT / "engine").glob("**/profiles/*.toml"):
        assert f"`{profile.stem}`" in text


def test_the_page_of_the_api_is_that_of_today_s_docstrings() -> None:
    """After a change of the Python face: `python docs/make_api.py`."""
    import counterfactory

    make_api = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert make_api["with_reference"](page, counterfactory) == page
