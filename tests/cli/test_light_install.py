"""Photographs are painted, judged and shown where nothing is installed but the base and OpenCV."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli.test_known_world import add_photographs

_WITHOUT = """
import sys
for name in ("openvino", "llguidance", "tokenizers", "scipy", "torch", "onnxruntime"):
    sys.modules[name] = None
from counterfactory.engine.cli.arguments import main
sys.exit(main(sys.argv[1:]))
"""


def command(*args: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", before + _WITHOUT, *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", [("plan", "--first", "1"), ("estimate",), ("doctor",)])
def test_looking_ahead_needs_no_runtime(first: tuple[str, ...], tmp_path: Path) -> None:
    add_photographs(tmp_path / "photos" / "images", 1)
    verb, *options = first
    sources = [] if verb == "doctor" else [tmp_path / "photos"]
    done = command(verb, *sources, "--profile", "light", *options)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_suite_is_made_judged_and_shown(tmp_path: Path) -> None:
    add_photographs(tmp_path / "photos" / "images", 2)
    suite = tmp_path / "suite"
    made = command("generate", tmp_path / "photos", "--out", suite, "--variants", "2")
    assert made.returncode == 0, made.stderr
    model = tmp_path / "mine.py"
    model.write_text("def answer(batch):\n    return ['bus' for _ in batch]\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    judged = command("evaluate", suite, "--model", "mine:answer", before=code)
    assert judged.returncode == 0, judged.stderr
    shown = command("report", suite)
    assert shown.returncode == 0, shown.stderr
    assert (suite / "report" / "index.html").is_file()
