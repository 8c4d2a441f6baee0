"""`counterfactory setup`: what a profile for CPUs needs, fetched, made and tried.

What it takes is said, and refused where the machine has too little, before anything begins. The exporter does the
work, as a program of its own: it needs packages that the engine does without. Then a photograph or two go through the
whole journey. What was done is kept and not done again.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ..api import verbs
from ..errors import CounterfactoryError
from ..files.writing import make_folder, open_whole, write_whole
from ..meter.machine import machine_memory
from ..models.networks import library_of
from ..pocket.worlds import EMBEDDED
from ..profile.profile import Profile, load_profile
from ..profile.published import Checkpoint, checkpoints_of
from ..report.table import Table
from ..runtime.installing import SETUP, pip_install
from .run_text import as_data, cost_line, cost_table, count_line, time_lines
from .terminal import Terminal

# What the exporter imports for a CPU.
_MODULES = ("torch", "onnx", "onnxscript", "diffusers", "transformers", "nncf", "gguf", "huggingface_hub")
# 10^9 bytes: memory that is needed; disk for what is made, and for weights in float32 while one network is made.
MEMORY_GB, MADE_GB, SCRATCH_GB = 8.0, 9.0, 13.0
# A machine that is sold with 8 GB says a little less.
_NEARLY = 0.95
_COMMAND = ("-m", "counterfactory.export", "cpu")
_STREAM, _SCENES = 902, 4
_TRIED = 2  # photographs that go through the journey
# What the pictures that are tried are for: nothing that needs a label.
TRIAL = 'name = "trial"\nsentence = "tell what the image shows"\nprotect = []\nprotect_label = true\n'


def setup(args: Namespace, terminal: Terminal) -> int:
    """`counterfactory setup`."""
    profile = load_profile(args.profile)
    if profile.weights is None or profile.runtime.backend != "openvino":
        raise CounterfactoryError(
            f"setup makes profiles for CPUs from published weights, such as cpu; profile {profile.name} is none: see "
            f"what it needs with 'counterfactory doctor --profile {args.profile}'"
        )
    folder = profile.models.path
    weights = args.weights or folder / "weights"
    checkpoints = checkpoints_of(profile.weights)
    terminal.show(_table(checkpoints, weights))
    library = library_of(profile)
    complete = all(library.state(network)[0] == "found" for network in library.networks)
    if not complete:
        _require(profile, checkpoints, weights)
    photos = args.photos or _scenes(folder / "photos", profile.image.short_side)
    began = time.monotonic()
    if complete:
        terminal.say(f"made before: {folder}; what is deleted there is made again")
    else:
        _export(["--profile", args.profile, "--weights", str(weights), "--photos", str(photos)], terminal)
    made_s = time.monotonic() - began
    suite_path, task = folder / "tried", folder / "trial.toml"
    write_whole(task, TRIAL)
    with terminal.progress() as on_progress:
        suite = verbs.generate(
            photos, out=suite_path, profile=args.profile, task_file=task, variants=1, controls=0, sample=_TRIED,
            allow_ungrounded=True, on_progress=on_progress, warn=terminal.warn,
        )  # fmt: skip
    summary = suite.summary
    assert summary is not None, "a suite of a run that just ended"
    for line in (cost_line(summary), *time_lines(summary), count_line(summary)):
        terminal.say(line)
    terminal.show(cost_table(summary))
    files = suite.report(warn=terminal.warn) if summary.variants else None
    if files is not None:
        terminal.say(f"look at    {files.sheet}")
    terminal.say(f"next       counterfactory generate PHOTOS --out suite --profile {args.profile}")
    data: dict[str, Any] = {"made_s": made_s, "folder": str(folder), "tried": str(suite_path), **as_data(summary)}
    terminal.finish({**data, "sheet": None if files is None else str(files.sheet)})
    return 0


def _table(checkpoints: Sequence[Checkpoint], weights: Path) -> Table:
    rows = tuple(
        (
            one.repository,
            one.licence,
            f"{one.bytes / 1e9:.2f}",
            "to fetch" if one.missing(weights) else "here",
        )
        for one in checkpoints
    )
    total = sum(one.bytes for one in checkpoints)
    title = f"Published weights, {total / 1e9:.2f} GB in {weights}"
    return Table(title, ("checkpoint", "licence", "GB", "state"), rows)


def _require(profile: Profile, checkpoints: Sequence[Checkpoint], weights: Path) -> None:
    """Raise CounterfactoryError where packages, memory or disk are missing."""
    if any(importlib.util.find_spec(module) is None for module in _MODULES):
        raise CounterfactoryError(f"setup exports networks, which needs more packages: {pip_install(SETUP)}")
    memory = machine_memory()
    if memory < _NEARLY * MEMORY_GB * 1e9:
        raise CounterfactoryError(
            f"profile {profile.name} needs {MEMORY_GB:g} GB of memory to be made, and this machine has "
            f"{memory / 1e9:.1f} GB: make it on a larger one, and copy {profile.models.folder}"
        )
    folder = profile.models.path
    needed = sum(sum(one.missing(weights).values()) for one in checkpoints) / 1e9 + MADE_GB + SCRATCH_GB
    free = shutil.disk_usage(next(path for path in (folder, *folder.absolute().parents) if path.exists())).free / 1e9
    if free < needed:
        raise CounterfactoryError(
            f"setup needs {needed:.0f} GB of disk at {folder} and there are {free:.0f} GB: make room, or name another "
            "folder in [models] of a profile that extends this one"
        )


def _scenes(folder: Path, side: int) -> Path:
    """A folder of rendered streets, which stand for photographs where the user names none."""
    make_folder(folder)
    for index in range(_SCENES):
        file = folder / f"street-{index}.png"
        if not file.is_file():
            picture = Image.fromarray(EMBEDDED.draw(EMBEDDED.scene(_STREAM, index)).picture)
            with open_whole(file) as opened:
                picture.resize((side, side), Image.Resampling.LANCZOS).save(opened, "PNG")
    return folder


def _export(arguments: Sequence[str], terminal: Terminal) -> None:
    """Run the exporter, and say what it says. Raises CounterfactoryError with its last words where it fails."""
    command, last = [sys.executable, *_COMMAND, *arguments], ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None, "a pipe"
        for line in running.stdout:
            if (told := line.strip()) and not _is_noise(told):
                terminal.say(told)
                last = told
    if running.returncode:
        raise CounterfactoryError(
            last.removeprefix("error: ") or f"the exporter ended with status {running.returncode}"
        )


def _is_noise(line: str) -> bool:
    """Whether a line is a library's, not the exporter's own."""
    return "Warning" in line or line.startswith(("W1", "warnings.warn"))
