"""`counterfactory rehearse`: what it asks of the exporter, what it leaves out, and that a step that fails is seen.

The whole of it, over networks that were exported, is in test_assembled.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from wiring import options_by_command

from counterfactory.engine.cli import rehearse
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.small import RUNTIMES, write_small

BOXES = ("a10g", "a10g-fast", "lance", "gpu", "cpu")
ROW = {"name": "denoiser", "parity_error": 0.001, "compiled": True}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The exporter's command lines; it makes a row, and every journey ends well."""
    commands: list[list[str]] = []

    def run(command: list[str], *_: Any) -> None:
        commands.append(list(command))
        folder = Path(command[command.index("--out") + 1])
        folder.mkdir(exist_ok=True)
        (folder / "export.json").write_text(json.dumps([ROW]))

    monkeypatch.setattr(rehearse, "run_program", run)
    monkeypatch.setattr(rehearse.Rehearsal, "journey", lambda *_: "well")
    monkeypatch.setattr(rehearse.Rehearsal, "compared", lambda *_: "equal")
    monkeypatch.setattr(rehearse.Rehearsal, "measured", lambda *_: "fast")
    return commands


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_box_s_profile_fits_its_small_networks(name: str, runtime: str, tmp_path: Path) -> None:
    """Of the box's it keeps what its networks are; no table is left of what they have not."""
    small, own = write_small(tmp_path / "p.toml", name, tmp_path, RUNTIMES[runtime]), load_profile(name)
    profile = load_profile(str(small))
    assert (profile.runtime.on_gpu, profile.device, profile.llm.style) == (False, None, "pocket")
    assert {(h // 16, w // 16) for h, w in own.image.sizes} == set(profile.image.sizes)
    assert profile.paint.sampler.kind == own.paint.sampler.kind
    assert (profile.invert is None) == (own.invert is None)
    assert profile.check.thresholds.keys() <= own.check.thresholds.keys()
    assert profile.check.strict == {}
    assert {n.name for n in networks_of(profile)} == {n.name for n in networks_of(own)} - {"sentence"}
    # And a file that extends it by its path.
    (tmp_path / "own.toml").write_text(f'name = "own"\nextends = "{name}"\n')
    again = write_small(tmp_path / "deep" / "q.toml", str(tmp_path / "own.toml"), tmp_path, RUNTIMES[runtime])
    assert load_profile(str(again)).name == "small-own"


def test_the_exporter_is_asked_for_the_profile_s_networks(ran: list[list[str]], tmp_path: Path, run: Command) -> None:
    kept = tmp_path / "kept"
    told = run.json("rehearse", "--profile", "a10g-fast", "--keep", kept, "--target", "sm89")
    assert options_by_command()["rehearse"] == {"--profile", "--target", "--exporter", "--keep", "--json"}
    steps = [step["step"] for step in told["steps"]]
    assert steps == ["export", "compile", "onnxruntime", "openvino", "compare", "bench"]
    assert told["holds"] is True
    exported, compiled = ran
    assert exported[:3] == [sys.executable, "-m", "counterfactory.export"]
    asked = dict(pairwise(exported))
    assert (asked["--profile"], asked["--out"]) == ("a10g-fast", str(kept / "networks"))
    names = {network.name for network in networks_of(load_profile("a10g-fast"))} - {"llm"}
    assert set(asked["--only"].split(",")) == names
    assert compiled[-5:] == ["--plans", "--library", "tensorrt-rtx", "--target", "sm89"]
    assert compiled[: len(exported)] == exported
    assert sorted(p.name for p in kept.iterdir()) == ["networks", "scenes"]


def test_nothing_is_left_behind(ran: list[list[str]], run: Command) -> None:
    run.json("rehearse")
    assert not Path(ran[0][ran[0].index("--out") + 1]).parent.exists()


def test_what_cannot_be_is_left_out_and_said(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.setattr(rehearse, "missing_modules", lambda *_: ["tensorrt_rtx"])
    steps = {step["step"]: step for step in run.json("rehearse", "--profile", "lance")["steps"]}
    assert steps["compile"]["holds"] is None
    assert "pip install '.[tensorrt-rtx]'" in steps["compile"]["result"]
    assert steps["openvino"]["result"].startswith("left out: it makes editors")
    assert "compare" not in steps
    steps = {step["step"]: step for step in run.json("rehearse", "--profile", "cpu")["steps"]}
    assert "needs no plans" in steps["compile"]["result"]
    assert {"--captioner", "--random-tiny-vae"} <= set(ran[-1])
    for name in ("pocket", "light"):
        run.refuses("rehearse is for profiles whose networks are exported", "rehearse", "--profile", name)


def test_a_step_that_fails_is_seen(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    """The table says why, what builds on it is not tried, and the status tells."""

    def fails(*_: Any) -> str:
        raise CounterfactoryError("pictures are 12 dB apart")

    monkeypatch.setattr(rehearse.Rehearsal, "compared", fails)
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run("rehearse")
    assert status == 3
    assert re.search(r"compare +pictures are 12 dB apart +\d", out)
    assert re.search(r"^fails, \d+ s$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setattr(rehearse, "run_program", fails)
    told = run.json("rehearse", status=3)
    assert [step["step"] for step in told["steps"]] == ["export"]
    assert told["holds"] is False


def test_a_python_without_the_exporter_s_packages_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho torch diffusers\n")
    bare.chmod(0o755)
    lacking = f"{bare} lacks torch, diffusers: {bare} -m pip install '.[export]'"
    run.refuses(lacking, "rehearse", "--exporter", bare)


def test_decibels() -> None:
    picture = np.full((4, 4, 3), 100, np.uint8)
    assert rehearse._decibels(picture, picture) == 99.0
    assert rehearse._decibels(picture, picture + 1) == pytest.approx(48.13, abs=0.01)
    assert rehearse._decibels(picture, picture - 50) == pytest.approx(14.15, abs=0.01)


def test_a_journey_that_makes_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 0, '{"accepted": 0, "variants": 4, "wall_s": 1.0}', "a\nnone was accepted\n")
    monkeypatch.setattr(rehearse.subprocess, "run", lambda *_, **__: done)
    one = rehearse.Rehearsal(load_profile("a10g"), "a10g", tmp_path, sys.executable, rehearse.Terminal(as_json=True))
    with pytest.raises(CounterfactoryError, match=r"^none was accepted$"):
        one.journey("onnxruntime")
