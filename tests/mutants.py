"""Mutation testing: where could the core be wrong and no test notice?

    python tests/mutants.py [--only GROUP] [--write] [FILE ...]        # all groups of mutants.toml, or one, or files

A run of all groups takes one mutant in twenty, drawn by the hash of its name: each has the same chance, and a second
run takes the same ones. Of a group or files asked for, it takes all.
`--write` keeps the figure of a run of all in docs/house.json, as mutants_killed in percent. Such a run may be stopped:
the next one takes finished groups from build/mutants-done.json while neither their files nor their tests have changed.

mutmut changes each function of the files in many small ways, one at a time, and runs the tests that call it. A mutant
is killed when one fails, or when they never end. What survives counts against the figure and is printed, for a test may
be missing; left out of the print are the forms of change that mutants.toml calls no fault anywhere. mutmut leaves
constants of modules and decorated methods alone.

mutmut wants the tree to lie as it is imported. So the tree is copied to build/mutants, with a real folder
`counterfactory`; nothing is changed in place. The last line is `mutants: K of N killed`; the exit status is 1 where
fewer than 92 in a hundred are killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "mutants"
DONE = ROOT / "build" / "mutants-done.json"
# Where mutmut puts the mutated tree, and what tests read there that has no code: where it is in the tree, by its place.
MUTATED = WORK / "mutants"
STATISTICS = MUTATED / "mutmut-stats.json"
LOG = WORK / "mutmut.log"
_READ = {
    "docs": "docs",
    "requirements": "requirements",
    "engine": "engine",
    "counterfactory/engine/pocket/weights": "engine/pocket/weights",
    "counterfactory/export/pocket/weights": "export/pocket/weights",
}
LEAST_KILLED = 0.92
ONE_IN = 20
HOUSE = ROOT / "docs" / "house.json"
# mutmut's exit codes of a mutant's tests: failed, pytest broke, too long; anything else is no kill.
_KILLED = {1, 3, 24, 36, 152, 255, -24}
_NO_TESTS = {5, 33}
# pytest's "unraisableexception" collects all garbage after each run: four fifths of the time, and not one mutant more.
_WITHOUT = ("xdist", "cacheprovider", "unraisableexception", "threadexception")


@dataclass(frozen=True)
class Survivor:
    """A mutant that no test noticed, as the line or lines that it changes."""

    name: str
    file: str
    line: str
    mutant: str
    tested: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a file's mutants."""

    file: str
    mutants: int
    survivors: tuple[Survivor, ...]


def main(argv: Sequence[str]) -> int:
    """Run, report, and return the exit status."""
    table = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description="Which small faults would no test notice?")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--only", choices=[group["name"] for group in table["groups"]], metavar="GROUP")
    parser.add_argument("--write", action="store_true", help="keep the figure in docs/house.json")
    args = parser.parse_args(argv)
    groups = [(_files(group), group["tests"]) for group in table["groups"] if args.only in (None, group["name"])]
    known = [file for files, _ in groups for file in files]
    if unknown := sorted(set(args.files) - set(known)):
        print(f"{unknown[0]} is not among the files of tests/mutants.toml: {', '.join(known)}", file=sys.stderr)
        return 2
    whole = args.only is not None or bool(args.files)
    outcomes: list[Outcome] = []
    for files, tests in groups:
        chosen = [file for file in files if not args.files or file in args.files]
        if whole and chosen:
            outcomes += _mutate(chosen, tests, one_in=1)
        elif chosen:
            outcomes += _mutate_once(chosen, tests)
    status = _report(outcomes, table["harmless"])
    if args.write and not whole:
        total = sum(outcome.mutants for outcome in outcomes)
        write_figures(HOUSE, {"mutants_killed": round(100 - 100 * _survived(outcomes) / total, 1)})
    return status


def write_figures(path: Path, figures: Mapping[str, object]) -> None:
    """Keep figures in a JSON object of figures; the others stay as they are."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, **figures}, indent=2) + "\n", encoding="utf-8")


def _survived(outcomes: Sequence[Outcome]) -> int:
    return sum(len(outcome.survivors) for outcome in outcomes)


def _mutate_once(files: Sequence[str], tests: Sequence[str]) -> list[Outcome]:
    """As `_mutate`, of one mutant in twenty, or what that gave when it was last done with the same files and tests."""
    known = json.loads(DONE.read_text(encoding="utf-8")) if DONE.exists() else {}
    digest = hashlib.sha256(json.dumps([tests, ONE_IN]).encode())
    places = [ROOT / test for test in tests if not test.startswith("--")]
    read = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
    for file in sorted({*read, *(ROOT / file for file in files)}):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(str(file).encode() + file.read_bytes())
    if (key := digest.hexdigest()) not in known:
        known[key] = [asdict(outcome) for outcome in _mutate(files, tests, ONE_IN)]
        DONE.write_text(json.dumps(known), encoding="utf-8")
    return [
        Outcome(one["file"], one["mutants"], tuple(Survivor(**survivor) for survivor in one["survivors"]))
        for one in known[key]
    ]


def _mutate(files: Sequence[str], tests: Sequence[str], one_in: int) -> list[Outcome]:
    """Run the tests on one in so many of the mutants of some files."""
    began = time.monotonic()
    _copy_tree(files, tests)
    # With a name that no mutant has mutmut makes all, finds the tests of each function, and stops there.
    _run_mutmut(["none"])
    if not STATISTICS.exists():
        raise SystemExit(_with_log("mutmut did not get as far as its statistics"))
    drawn = [name for file in files for name in _codes(file) if _hash(name) % one_in == 0]
    if drawn and (status := _run_mutmut(drawn)):
        raise SystemExit(_with_log(f"mutmut ended with status {status}"))
    outcomes = [_outcome(file) for file in files]
    for outcome in outcomes:
        print(f"{outcome.mutants - len(outcome.survivors):5} of {outcome.mutants:4} killed in {outcome.file}")
    print(f"      {time.monotonic() - began:.0f} s", flush=True)
    return outcomes


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])


def _with_log(what: str) -> str:
    tail = LOG.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")[-3000:]
    return f"{tail}\n{what}; all that it said is in {LOG}"


def _files(group: Mapping[str, Any]) -> list[str]:
    files = [file for pattern in group["files"] for file in _matching(pattern)]
    return [file for file in files if file not in group.get("without", ())]


def _matching(pattern: str) -> list[str]:
    found = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern) if path.name != "__init__.py")
    if not found:
        raise SystemExit(f"tests/mutants.toml: no file is called {pattern}")
    return found


def _copy_tree(files: Sequence[str], tests: Sequence[str]) -> None:
    """Make build/mutants anew: the packages, the tests, and the project's settings with mutmut's."""
    shutil.rmtree(WORK, ignore_errors=True)
    for package in ("engine", "export", "kernels"):
        skip = shutil.ignore_patterns("weights", "__pycache__")
        shutil.copytree(ROOT / package, WORK / "counterfactory" / package, ignore=skip)
    for file in ("__init__.py", "py.typed"):
        shutil.copy(ROOT / "engine" / "face" / file, WORK / "counterfactory")
    shutil.copytree(ROOT / "tests", WORK / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for place, read in _READ.items():
        link = MUTATED / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(ROOT / read)
    settings = {
        "source_paths": ["counterfactory"],
        "only_mutate": [f"counterfactory/{file}" for file in files],
        # A seed, for a mutant must not survive on some days.
        "pytest_add_cli_args": [*(f"-pno:{name}" for name in _WITHOUT), "-pfastest_first", "--hypothesis-seed=0"],
        "pytest_add_cli_args_test_selection": tests,
        "process_isolation": "forkserver",  # the process that forks has opened no network and started no thread
        "use_git_change_detection": False,
        "track_dependencies": False,
        # Seconds of the clock, times the multiplier and beside the tests' own: fixtures take time too, and a machine
        # that does other things as well must not count as a kill.
        "timeout_constant": 20.0,
        "timeout_multiplier": 3.0,
    }
    # JSON's strings, numbers and lists are TOML's too.
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (WORK / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8")


def _run_mutmut(names: Sequence[str]) -> int:
    # The folder is there by now: Python would not look again into one of its path that was not there when it started.
    path = os.pathsep.join([str(MUTATED), str(WORK / "tests")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", "2", *names]
    with LOG.open("wb") as out:
        return subprocess.run(command, cwd=WORK, env=environment, stdout=out, stderr=out, check=False).returncode


def _codes(file: str) -> Mapping[str, int | None]:
    """Return what became of each mutant of a file, by its name; None where it was not drawn."""
    meta = MUTATED / "counterfactory" / f"{file}.meta"
    codes: Mapping[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
    return codes


def _outcome(file: str) -> Outcome:
    ran = {name: code for name, code in _codes(file).items() if code is not None}
    survivors = [_survivor(file, name, code) for name, code in ran.items() if code not in _KILLED]
    return Outcome(file, len(ran), tuple(survivors))


def _survivor(file: str, name: str, code: int | None) -> Survivor:
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    os.chdir(WORK)
    diff = get_diff_for_mutant(name, path=f"counterfactory/{file}").splitlines()
    changed = {
        sign: " ".join(line[1:].strip() for line in diff if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    }
    return Survivor(name, file, changed["-"], changed["+"], code not in _NO_TESTS)


def _report(outcomes: Sequence[Outcome], harmless: Sequence[Mapping[str, str]]) -> int:
    survivors = [survivor for outcome in outcomes for survivor in outcome.survivors]
    shown = [one for one in survivors if not any(_has_form(one, form["line"], form["mutant"]) for form in harmless)]
    for survivor in shown:
        print(f"\nsurvived: {survivor.name}" + ("" if survivor.tested else " (no test comes here)"))
        print(f"    - {survivor.line}\n    + {survivor.mutant}")
    total = sum(outcome.mutants for outcome in outcomes)
    killed = total - len(survivors)
    print(f"\n{len(survivors)} survivors, {len(survivors) - len(shown)} of them of a harmless form")
    print(f"mutants: {killed} of {total} killed, {killed / max(total, 1):.1%}")
    return int(killed < LEAST_KILLED * total)


def _has_form(survivor: Survivor, line: str, mutant: str) -> bool:
    """Whether the change is one from the pattern `line` to the pattern `mutant`, which may refer to its groups."""
    return re.fullmatch(f"{line}\n{mutant}", f"{survivor.line}\n{survivor.mutant}") is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
