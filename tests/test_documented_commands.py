"""Every command of docs/a10g.md and docs/production.md is known to the program that it calls, and what can run runs.

Commands of shells' blocks are taken apart: pip's are resolved by tests/resolve.py, the exporter's go as far as the
first network that they would export, the language model's say what they would run, a suite is made by the pocket
profile, a bench takes its arguments.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import resolve
import run as bench_run
from PIL import Image

from counterfactory.engine.cli import doctor
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.cli.gpus import Gpu
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export import __main__ as exporter
from counterfactory.export.production import command as production
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.graph import Request, Sources

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "docs" / "a10g.md", ROOT / "docs" / "production.md")
# The system's own, which no test can run.
SYSTEM = ("sudo apt-get update", "sudo apt-get install ", "nvidia-smi", "python3.12 -m venv ~/")


def commands_of(text: str) -> Iterator[str]:
    """The commands of a document's shell blocks, a line each, without comments."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"(^|\s+)#.*$", "", line)
            if command:
                yield re.sub(r"\s+", " ", command)


COMMANDS = sorted({one for path in DOCUMENTS for one in commands_of(path.read_text(encoding="utf-8"))})


def arguments(line: str, *program: str) -> list[str] | None:
    """What follows the program, whichever environment's it is; None where the line calls another."""
    first, *words = (word.rpartition("/")[2] if i == 0 else word for i, word in enumerate(shlex.split(line)))
    return words[len(program) - 1 :] if (first, *words[: len(program) - 1]) == program else None


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Request, Path, Asked]]:
    """What exports were asked for; none is made, and every compiler is there."""
    asked_for: list[tuple[Request, Path, Asked]] = []

    def export_all(request: Request, out: Path, *, only: list[str], asked: Asked, **_: Any) -> list[str]:
        assert set(only) <= set(production.graphs_of(request))
        asked_for.append((request, out, asked))
        return []

    monkeypatch.setattr(production, "export_all", export_all)
    monkeypatch.setattr(production, "require_compiler", lambda library: None)
    return asked_for


def run_export(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exporter's own main with these arguments; its exit status."""
    monkeypatch.setattr("sys.argv", ["counterfactory.export", *words])
    with pytest.raises(SystemExit) as ended:
        exporter.main()
    return int(ended.value.code or 0)


def photographs(folder: Path) -> None:
    """imagenet/ with one rendered scene, and labels.csv."""
    scene = EMBEDDED.sample(np.random.default_rng(1))
    (folder / "imagenet").mkdir()
    Image.fromarray(EMBEDDED.draw(scene).picture).save(folder / "imagenet" / "0001.png")
    (folder / "labels.csv").write_text(f"image,label\n0001.png,{scene.label}\n")


@pytest.mark.usefixtures("shared_plans")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_documented_command_is_one(
    line: str, exported: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def counterfactory(words: list[str]) -> None:
        if words[0] == "generate":
            photographs(tmp_path)
            monkeypatch.chdir(tmp_path)
            words[words.index("--profile") + 1] = "pocket"
        assert main(words) == 0, capsys.readouterr().err
        assert capsys.readouterr().out

    def a10g(words: list[str]) -> None:
        monkeypatch.chdir(tmp_path)
        assert run_export(["a10g", *words], monkeypatch) == 0, capsys.readouterr().err
        ((request, out, asked),) = exported
        assert (request.sources is None) == ("--random" in words)
        assert out == Path("DIR" if "--out" in words else "~/counterfactory-a10g").expanduser()
        assert asked.plans

    def llm(words: list[str]) -> None:
        assert run_export(["llm", *words, "--dry-run"], monkeypatch) == 0, capsys.readouterr().err
        assert "exllamav2.conversion.convert_exl2" in capsys.readouterr().out

    def pip(words: list[str]) -> None:
        ((asked),) = resolve.asked_of_pip(f"pip install {shlex.join(words)}")
        assert (resolve.asked_by_pip(asked).extras or set()) <= set(resolve.extras())

    def bench(words: list[str]) -> None:
        found = bench_run.parser_of().parse_args(words)
        assert load_profile(found.profile).device is not None

    module = ("python", "-m", "counterfactory.export")
    programs: dict[tuple[str, ...], Callable[[list[str]], None]] = {
        ("counterfactory",): counterfactory,
        (*module, "a10g"): a10g,
        (*module, "llm"): llm,
        ("pip", "install"): pip,
        ("python", "bench/run.py"): bench,
    }
    for program, run in programs.items():
        if (words := arguments(line, *program)) is not None:
            run(words)
            return
    assert line.startswith(SYSTEM), f"nothing knows {line!r}"


def test_commands_are_found_in_both_documents_and_a_renamed_flag_fails(
    exported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in DOCUMENTS:
        assert any("counterfactory.export a10g" in line for line in commands_of(path.read_text(encoding="utf-8")))
    assert run_export(["a10g", "--profile", "a10g", "--plants"], monkeypatch) == 2
    assert run_export(["a10g", "--profile", "a10", "--plans"], monkeypatch) == 2


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
    assert usual.weights is not None
    assert request.sources == Sources(
        usual.weights.blip2,
        usual.weights.clip,
        usual.weights.diffusion,
        usual.weights.controlnets,
        sentence=usual.weights.sentence,
    )
    assert (asked.plans, asked.library) == (True, "tensorrt")


def test_ci_runs_the_small_export_as_documented() -> None:
    (line,) = (line for line in COMMANDS if "--small" in line)
    script = (ROOT / ".ci" / "run").read_text()
    assert line.partition("python ")[2].replace("DIR", '"$out"') in script


def test_the_dockerfile_ends_in_a_command_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "Dockerfile").read_text()
    entry, words = (re.search(rf"^{name} (\[.*\])$", text, re.M) for name in ("ENTRYPOINT", "CMD"))
    assert entry is not None
    assert words is not None
    assert entry[1] == '["counterfactory"]'
    assert main(re.findall(r'"([^"]+)"', words[1])) == 0
    assert subprocess.run(["git", "ls-files", "requirements"], cwd=ROOT, capture_output=True, check=True).stdout
