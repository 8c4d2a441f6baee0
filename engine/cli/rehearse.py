"""`counterfactory rehearse`: the way of a box's profile on a machine without a GPU, over small random networks.

They are exported as the box's own are, compiled for its GPU where a compiler is installed that needs none, and take a
few photographs to a suite twice, by ONNX Runtime and by OpenVINO, whose pictures are compared. Every step is a program
of its own, with caches in the rehearsal's folder, which goes with it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..errors import CounterfactoryError
from ..models.networks import networks_of
from ..profile.profile import Profile, load_profile
from ..profile.small import ISLANDS, RUNTIMES, write_small
from ..report.table import Table
from ..runtime.installing import TENSORRT_RTX, pip_install
from ..suite import PictureRow, read_metadata
from .demo import write_sources
from .exporting import COMMAND, EXPORTS_WITH, exporter_python, missing_modules, run_program
from .statuses import EXIT_BROKEN
from .terminal import Terminal

# Scenes that go through the journey, and the pictures of each.
_SCENES, _VARIANTS = 3, 2
# Of two runtimes' pictures, in dB: 63 to 64 are usual.
_LEAST_DB = 45.0
# Bytes of compiled graphs are of a GPU's own kind; a CPU's profile has none.
_RTX = "tensorrt_rtx"


@dataclass(frozen=True)
class RehearsedStep:
    """What was tried, what came of it, the seconds that it took; `holds` is None where it was left out."""

    step: str
    result: str
    seconds: float
    holds: bool | None = True


@dataclass
class Rehearsal:
    """The steps so far, and where they work."""

    profile: Profile
    named_as: str
    folder: Path
    python: str
    terminal: Terminal
    steps: list[RehearsedStep] = field(default_factory=list)

    def take(self, step: str, work: Callable[[], str]) -> bool:
        """Do a step and note its result, an error among them. Returns whether it went well."""
        self.terminal.say(f"{step} ...")
        began = time.monotonic()
        try:
            result, holds = work(), True
        except CounterfactoryError as error:
            result, holds = str(error), False
        self.steps.append(RehearsedStep(step, result, time.monotonic() - began, holds))
        return holds

    def leave_out(self, step: str, why: str) -> None:
        """Note a step that cannot be taken here."""
        self.steps.append(RehearsedStep(step, f"left out: {why}", 0.0, None))

    @property
    def environment(self) -> dict[str, str]:
        """Of the programs: what they keep goes into the rehearsal's folder."""
        return {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}

    @property
    def networks(self) -> Path:
        return self.folder / "networks"

    @property
    def graphs(self) -> dict[str, Path]:
        """The folder of each exported graph, by its network; what other runtimes open has other names."""
        own = [network for network in networks_of(self.profile) if network.name != "llm"]
        return {one.name: self.networks / "onnx" / one.plan.removesuffix("_int8") for one in own}

    def export(self, *more: str) -> list[dict[str, Any]]:
        """Run the exporter; what it made before, it leaves. Returns what it says of each network."""
        profile, names = self.profile, [n.name for n in networks_of(self.profile) if n.name != "llm"]
        words = ["a10g", "--profile", self.named_as, "--random", "--small", "--islands", ISLANDS]
        words += ["--precision", "fp16", "--only", ",".join(names), "--out", str(self.networks)]
        command = [self.python, *COMMAND, *words, *random_forms(profile), *more]
        run_program(command, self.terminal, self.environment)
        rows: list[dict[str, Any]] = json.loads((self.networks / "export.json").read_text())
        return rows

    def exported(self) -> str:
        rows = self.export()
        return f"{len(rows)} networks, off by {max(row['parity_error'] for row in rows):.1e} at most"

    def compiled(self, target: str) -> str:
        rows = self.export("--plans", "--library", _RTX.replace("_", "-"), "--target", target)
        return f"{sum(row['compiled'] for row in rows)} of {len(rows)} plans for {target.upper()} by TensorRT-RTX"

    def journey(self, runtime: str) -> str:
        """Make a suite by a runtime."""
        profile = write_small(self.folder / f"{runtime}.toml", self.named_as, self.networks, RUNTIMES[runtime])
        (_write_openvino if runtime == "openvino" else _name_onnx)(load_profile(str(profile)), self.graphs)
        words = ["generate", str(self.folder / "scenes" / "images"), "--task", "classification", "--allow-ungrounded"]
        words += ["--variants", str(_VARIANTS), "--profile", str(profile), "--json"]
        words += ["--out", str(self.folder / runtime)]
        command = [sys.executable, "-m", "counterfactory.engine", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)
        told = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        if done.returncode or not told.get("accepted"):
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise CounterfactoryError(lines[-1] if lines else f"generate ended with status {done.returncode}")
        rate = told["variants"] / told["wall_s"]
        return f"{told['accepted']} of {told['variants']} variants accepted, {rate:.2f} a second with loading"

    def compared(self) -> str:
        """Hold both suites to each other."""
        suites = [
            {(row.source, row.kind, row.number): row for row in read_metadata(self.folder / name)} for name in RUNTIMES
        ]
        if suites[0].keys() != suites[1].keys():
            raise CounterfactoryError("the two runtimes chose other edits: their networks differ")
        worst, count = math.inf, 0
        for key, row in suites[0].items():
            other = suites[1][key]
            if (row.caption, row.edited_caption) != (other.caption, other.edited_caption):
                raise CounterfactoryError(f"the two runtimes read {key[0]} otherwise: their networks differ")
            if row.kind != "original":
                pictures = (self._picture(name, one) for name, one in zip(RUNTIMES, (row, other), strict=True))
                worst, count = min(worst, _decibels(*pictures)), count + 1
        if worst < _LEAST_DB:
            raise CounterfactoryError(f"pictures are {worst:.0f} dB apart, and {_LEAST_DB:g} are the least")
        return f"{count} pictures, {worst:.0f} dB apart at most (the least is {_LEAST_DB:g})"

    def _picture(self, runtime: str, row: PictureRow) -> np.ndarray[Any, Any]:
        return np.asarray(Image.open(self.folder / runtime / row.file_name).convert("RGB"))

    def measured(self, bench: Path) -> str:
        """Run the bench of a whole run on the small networks."""
        file, words = self.folder / "bench.json", ["--sources", "2", "--variants", "1", "--json"]
        command = [sys.executable, str(bench), "--profile", str(self.folder / "onnxruntime.toml"), *words, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd=bench.parents[1])
        if done.returncode:
            raise CounterfactoryError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
        told = json.loads(file.read_text())
        return f"{told['accepted']} accepted in {told['wall_s']:.1f} s, {100 * told['ceiling_share']:.2g} % of the peak"


def random_forms(profile: Profile) -> list[str]:
    """What the exporter is told beside --random, so that random networks are of the kinds that a profile names."""
    words: list[str] = []
    if profile.weights is not None:
        words += ["--captioner", "florence2"] if profile.weights.florence2 else []
        words += ["--random-tiny-vae"] if profile.weights.tiny_vae else []
    if controls := len(profile.hints or (profile.weights and profile.weights.controlnets) or ()):
        words += ["--controls", str(controls)]
    return words


def rehearse(args: Namespace, terminal: Terminal) -> int:
    profile = load_profile(args.profile)
    if profile.weights is None or profile.painter_kind not in ("diffusion", "inversion"):
        raise CounterfactoryError(
            f"rehearse is for profiles whose networks are exported, such as a10g; profile {profile.name} has no "
            "[weights] to paint with"
        )
    python = exporter_python(args.exporter, (*EXPORTS_WITH, "onnxruntime"), Path.home())
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    goes = tempfile.TemporaryDirectory(prefix="counterfactory-") if args.keep is None else nullcontext(args.keep)
    with goes as folder:
        rehearsal = Rehearsal(profile, args.profile, Path(folder).absolute(), python, terminal)
        _take_all(rehearsal, args.target)
    title = f"Rehearsal of {profile.name} over small random networks"
    rows = tuple((one.step, one.result, f"{one.seconds:.1f}") for one in rehearsal.steps)
    terminal.show(Table(title, ("step", "result", "seconds"), rows))
    holds = all(one.holds is not False for one in rehearsal.steps)
    took_s = sum(one.seconds for one in rehearsal.steps)
    kept = f"; kept in {rehearsal.folder}" if args.keep else ""
    terminal.say(f"{'holds' if holds else 'fails'}, {took_s:.0f} s{kept}")
    steps = list(map(asdict, rehearsal.steps))
    terminal.finish({"profile": profile.name, "holds": holds, "seconds": took_s, "steps": steps})
    return 0 if holds else EXIT_BROKEN


def _take_all(rehearsal: Rehearsal, target: str) -> None:
    if not rehearsal.take("export", rehearsal.exported):
        return
    if not rehearsal.profile.runtime.on_gpu:
        rehearsal.leave_out("compile", f"{rehearsal.profile.name} runs on a CPU, which needs no plans")
    elif missing_modules(rehearsal.python, [_RTX]):
        rehearsal.leave_out("compile", f"no compiler is installed: {pip_install(TENSORRT_RTX)}")
    else:
        rehearsal.take("compile", lambda: rehearsal.compiled(target))
    write_sources(rehearsal.folder / "scenes", _SCENES)
    by_onnx = False
    if find_spec("onnxruntime") is None:
        rehearsal.leave_out("onnxruntime", "this Python has no ONNX Runtime: pip install onnxruntime")
    else:
        by_onnx = rehearsal.take("onnxruntime", lambda: rehearsal.journey("onnxruntime"))
    if rehearsal.profile.invert is not None:
        rehearsal.leave_out("openvino", "it makes editors of denoisers itself, and takes no exported one")
    elif rehearsal.take("openvino", lambda: rehearsal.journey("openvino")) and by_onnx:
        rehearsal.take("compare", rehearsal.compared)
    bench = Path(__file__).parents[2] / "bench" / "run.py"
    if not bench.is_file():
        rehearsal.leave_out("bench", "no checkout is here; the engine's own rates are above")
    elif by_onnx:
        rehearsal.take("bench", lambda: rehearsal.measured(bench))


def _name_onnx(profile: Profile, graphs: Mapping[str, Path]) -> None:
    """Exported graphs under the names by which `profile` opens them."""
    for network in networks_of(profile):
        if network.name != "llm" and not (link := graphs[network.name].with_name(network.plan)).exists():
            link.symlink_to(graphs[network.name].name)


def _write_openvino(profile: Profile, graphs: Mapping[str, Path]) -> None:
    """OpenVINO's form of each exported graph, in the folder of `profile`, which opens them."""
    from ..runtime.openvino import open_core
    from ..runtime.quiet_openvino import ov

    for network in networks_of(profile):
        if network.name != "llm":
            graph = open_core().read_model(graphs[network.name] / "model.onnx")
            ov.save_model(graph, profile.models.path / f"{network.plan}.xml", compress_to_fp16=False)


def _decibels(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """Peak signal to noise of two pictures (uint8)."""
    error = float(np.mean((one.astype(float) - other) ** 2))
    return 99.0 if error == 0 else 10 * math.log10(255**2 / error)
