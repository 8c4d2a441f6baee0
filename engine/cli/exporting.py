"""The exporter, a program of its own: by which Python it runs, and what it says while it works.

It needs packages that the engine does without; on a GPU machine they are in an environment beside the engine's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import CounterfactoryError
from ..runtime.installing import SETUP, pip_install
from .terminal import Terminal

# What an exporter imports; further ones where it makes networks for a CPU, from published files.
EXPORTS_WITH = ("torch", "onnx", "onnxscript", "diffusers", "transformers")
FOR_CPUS = (*EXPORTS_WITH, "nncf", "gguf", "huggingface_hub")
COMMAND = ("-m", "counterfactory.export")
# The environment of docs/a10g.md, in the user's folder.
BESIDE = Path("exporter") / "bin" / "python"
_ASK = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if u.find_spec(n) is None))"


def missing_modules(python: str, modules: Sequence[str]) -> list[str]:
    """Those of `modules` that a Python has not. Raises CounterfactoryError where it does not run."""
    try:
        asked = subprocess.run([python, "-c", _ASK, *modules], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CounterfactoryError(f"--exporter {python} is no Python that runs: name one with torch") from error
    return asked.stdout.split()


def exporter_python(asked: Path | None, modules: Sequence[str], home: Path, pip: str | None = None) -> str:
    """The Python that exports: the one `asked` for, else this one, else the one beside it in `home`.

    Raises CounterfactoryError with what installs its packages (`pip`, in words) where none has them.
    """
    tried = [str(asked)] if asked else [sys.executable, *([str(home / BESIDE)] if (home / BESIDE).exists() else [])]
    for python in tried:
        if not (missing := missing_modules(python, ["counterfactory", *modules])):
            return python
    raise CounterfactoryError(
        f"networks are exported by a Python with more packages, and {tried[-1]} lacks {', '.join(missing)}: "
        f"{pip or pip_install(SETUP).replace(sys.executable, tried[-1])}"
    )


def run_program(command: Sequence[str], terminal: Terminal, env: Mapping[str, str] | None = None) -> None:
    """Run a program, and say what it says. Raises CounterfactoryError with its last words where it fails."""
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as running:
        assert running.stdout is not None, "a pipe"
        for line in running.stdout:
            if (told := line.strip()) and not _is_noise(told):
                if not told.startswith("error: "):  # which is raised
                    terminal.say(told)
                last = told
    if running.returncode:
        raise CounterfactoryError(
            last.removeprefix("error: ") or f"{command[2]} ended with status {running.returncode}"
        )


def _is_noise(line: str) -> bool:
    """Whether a line is a library's, not the program's own."""
    return "Warning" in line or line.startswith(("W1", "warnings.warn", "Evaluation failed"))
