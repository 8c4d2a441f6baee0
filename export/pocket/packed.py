"""Where the packed pocket models lie: what suites are made with in the engine, what only we open beside this file.

The wheel carries the first; the second, the masters, are what those were made of and what judges them: the denoiser of
few rows that multiplies no integers, of which denoiser_few_int8 is made, the referee, and the map by which torch
modules are made again. Training, reports, benches and tests want one folder with all of them.
"""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

MASTERS = Path(__file__).parent / "weights"
RUNTIME = Path(__file__).parents[2] / "engine" / "pocket" / "weights"
_NETWORKS = ("denoiser_few", "referee")
_MASTERS = frozenset({"parameters.json", *(f"{name}.{part}" for name in _NETWORKS for part in ("xml", "bin"))})


def gather(folder: Path) -> Path:
    """Copy all packed models of this checkout to `folder`, over what lies there; returns it."""
    for half in (RUNTIME, MASTERS):
        shutil.copytree(half, folder, dirs_exist_ok=True)
    return folder


def put_back(folder: Path) -> list[str]:
    """Copy what differs in `folder` to where it belongs in this checkout; returns the names of these files."""
    changed = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder)
        target = (MASTERS if name.as_posix() in _MASTERS else RUNTIME) / name
        if not target.is_file() or not filecmp.cmp(file, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            changed.append(name.as_posix())
    return changed
