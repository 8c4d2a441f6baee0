"""Resolves what users install, as on a machine without wheels of its own: `make resolve`, which CI runs.

All extras together, on Python 3.11 and 3.12; each `pip install` of the documents, of the Dockerfile, of the units and
of the engine's own messages; requirements/a10g.txt, which has to be complete and of one torch, one CUDA and one Python.
A set of releases that satisfies all extras together satisfies every choice of them, which asks for less: so one
resolution is the proof for all combinations, and what asks for extras alone is not resolved again.

Nothing is installed. Only the index that pip is configured with, or the public one, is asked: an extra index or a
folder of wheels may hold a package that other machines do not have (a CPU build of torch asks for no triton, the public
one for one release of it), and would hide a conflict.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from counterfactory.engine.runtime import installing

ROOT = Path(__file__).parents[1]
BOX = ROOT / "requirements" / "a10g.txt"
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
# Two packages of one module: the last one that was installed wins.
RIVALS = {"onnxruntime", "onnxruntime-gpu"}
_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<release>[\w.+]+)$", re.MULTILINE)
_WHEEL = re.compile(
    r"^(?P<name>[\w-]+) @ https://\S+/[\w]+-(?P<release>[\d.]+)\+(?P<tags>\S+)\.whl(?:#sha256=[0-9a-f]{64})?$",
    re.MULTILINE,
)
_CHECKOUT = re.compile(r"^(?:\.|counterfactory)\[(?P<extras>[\w,-]+)\]$", re.MULTILINE)
_PIP = re.compile(r"(?<!uv )\bpip install (?P<asked>[^#`\n&|;]+)")


class UnresolvableError(Exception):
    """What cannot be installed together, in the resolver's words."""


def extras() -> list[str]:
    """The names of the extras, in the order of pyproject.toml."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def environment(environ: Mapping[str, str], index: str) -> dict[str, str]:
    """`environ` without further indexes and folders of wheels; `index` is pip's own, "" where it has none."""
    hidden = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX", "UV_OFFLINE")
    kept = {name: value for name, value in environ.items() if name not in hidden}
    if index:
        kept.setdefault("UV_DEFAULT_INDEX", index)
    return kept


@cache
def pip_index() -> str:
    """The index that pip is configured with, "" where that is the public one."""
    asked = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    found = re.search(r"index-url='([^']+)'", "\n".join(x for x in asked.stdout.splitlines() if "extra-index" not in x))
    return found[1] if found else ""


@dataclass(frozen=True)
class Asked:
    """What is installed together: this checkout with `extras` (None: without the checkout), and further `lines`."""

    extras: frozenset[str] | None = None
    lines: str = ""

    def __add__(self, other: Asked) -> Asked:
        both = [asked.extras for asked in (self, other) if asked.extras is not None]
        return Asked(frozenset().union(*both) if both else None, self.lines + other.lines)


def resolve(asked: Asked, python: str = "3.12") -> dict[str, str]:
    """Names and releases of all packages that `asked` comes to on Linux. Raises UnresolvableError."""
    target = ("--python-version", python, "--python-platform", "x86_64-manylinux_2_28")
    checkout = () if asked.extras is None else ("pyproject.toml", *(f"--extra={name}" for name in sorted(asked.extras)))
    # Certificates are the system's: behind a proxy of a company, others are not enough.
    quiet = ("--quiet", "--system-certs", "--no-header", "--no-annotate")
    command = ("uv", "pip", "compile", *quiet, *target, *checkout, "-")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environ = environment(os.environ, pip_index()) | {"PATH": path}
    done = subprocess.run(
        command, input=asked.lines, capture_output=True, text=True, cwd=ROOT, env=environ, timeout=300, check=False
    )
    if done.returncode:
        raise UnresolvableError(done.stderr.strip())
    found = dict(_PIN.findall(done.stdout))
    if found.keys() >= RIVALS:
        raise UnresolvableError(f"{' and '.join(sorted(RIVALS))} would be installed together, and are one module")
    return found


def asked_by(file: Path) -> Asked:
    """What a file of requirements asks for, with a release in place of a wheel of a project's own.

    Such a wheel asks for what the index's package of its release asks for, and need not be fetched.
    """
    text = file.read_text()
    own = _CHECKOUT.search(text)
    pins = _WHEEL.sub(lambda wheel: f"{wheel['name']}=={wheel['release']}", _CHECKOUT.sub("", text))
    return Asked(frozenset(own["extras"].split(",")) if own else None, pins)


def box_faults(text: str, resolved: Mapping[str, str]) -> list[str]:
    """What is wrong with a file of pins: packages that it leaves open, and wheels made for other releases."""
    pins = dict(_PIN.findall(text))
    wheels = {found["name"]: found for found in _WHEEL.finditer(text)}
    open_ = resolved.keys() - pins.keys() - wheels.keys() - {"counterfactory"}
    faults = [f"{name}=={resolved[name]} is not pinned" for name in sorted(open_)]
    faults += [f"{name} is pinned and nothing asks for it" for name in pins if name not in resolved]
    cuda = pins["nvidia-cuda-runtime-cu12"]
    for name, wheel in wheels.items():
        torch, made_for = re.search(r"torch([\d.]+\d)", wheel["tags"]), re.search(r"cu(\d+)", wheel["tags"])
        if torch is None or not f"{pins['torch']}.".startswith(f"{torch[1]}."):
            faults.append(f"{name} is not made for torch {pins['torch']}: {wheel['tags']}")
        if made_for is None or not cuda.replace(".", "").startswith(made_for[1]):
            faults.append(f"{name} is not made for CUDA {cuda}: {wheel['tags']}")
        if "-cp312-cp312-" not in wheel["tags"]:
            faults.append(f"{name} is not made for Python 3.12: {wheel['tags']}")
    return faults


def image_faults(dockerfile: str, pins: str) -> list[str]:
    """What is wrong with the image's base: another CUDA than that of the pins, or another Python than the wheels'."""
    cuda = dict(_PIN.findall(pins))["nvidia-cuda-runtime-cu12"]
    base = re.search(
        r"^FROM nvidia/cuda:(\d+\.\d+)\.\d+-base-ubuntu24\.04@sha256:[0-9a-f]{64}$", dockerfile, re.MULTILINE
    )
    if base is None or not cuda.startswith(f"{base[1]}."):
        return [f"the Dockerfile's base is not nvidia/cuda of CUDA {cuda} on Ubuntu 24.04 (Python 3.12) by its digest"]
    return []


def asked_of_pip(text: str) -> set[tuple[str, ...]]:
    """The arguments of each `pip install` in a document or a Dockerfile, without pip's own options."""
    calls = (shlex.split(match["asked"]) for match in _PIP.finditer(text.replace("\\\n", " ")))
    return {tuple(word for word in words if not word.startswith("--") and word != "-q") for words in calls}


def asked_by_pip(arguments: tuple[str, ...]) -> Asked:
    """What `pip install` with these arguments installs."""
    asked, words = Asked(), iter(arguments)
    for word in words:
        own = _CHECKOUT.fullmatch(word)
        if word == "-r":
            asked += asked_by(ROOT / next(words))
        elif own or word == ".":
            asked += Asked(frozenset(own["extras"].split(",")) if own else frozenset())
        elif not (ROOT / word / "pyproject.toml").is_file():  # the pocket networks, which ask for nothing
            asked += Asked(lines=f"{word}\n")
    return asked


def tasks() -> dict[tuple[Asked, str], str]:
    """What is resolved: what is asked for and the Python, each once; and a name of it."""
    every = Asked(frozenset(extras()))
    found = {(every, "3.11"): "all extras on Python 3.11", (every, "3.12"): "all extras on Python 3.12"}
    units = (ROOT / "examples").glob("*.service")
    texts = [path.read_text() for path in (*DOCUMENTS, ROOT / "Dockerfile", *units)]
    texts += [f"pip install {what}" for what in installing.ALL]
    for arguments in sorted(set[tuple[str, ...]]().union(*map(asked_of_pip, texts))):
        asked = asked_by_pip(arguments)
        unknown = (asked.extras or frozenset()) - every.extras
        if unknown:
            raise UnresolvableError(f"pip install {shlex.join(arguments)}: there is no extra {', '.join(unknown)}")
        if asked.lines:
            found.setdefault((asked, "3.12"), f"pip install {shlex.join(arguments)}")
    return found


def main() -> int:
    """Resolve all of it; returns the exit status."""
    try:
        named = tasks()
    except UnresolvableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    faults: list[str] = []

    def resolved(asked: Asked, python: str, name: str) -> dict[str, str]:
        try:
            return resolve(asked, python)
        except UnresolvableError as error:
            faults.append(f"{name}: {error}")
            return {}

    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda task: resolved(*task, named[task]), named)
        box = dict(zip(named, done, strict=True))[asked_by(BOX), "3.12"]
    faults += box_faults(BOX.read_text(), box) if box else []
    faults += image_faults((ROOT / "Dockerfile").read_text(), BOX.read_text())
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"{len(named)} sets of packages resolved, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
