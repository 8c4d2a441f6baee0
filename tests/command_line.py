"""The command line within this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfactory.engine.cli.arguments import main


def run(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    """A command's exit status, and what it wrote to standard output and standard error."""
    try:
        status = main([str(arg) for arg in args])
    except SystemExit as stop:  # argparse
        status = stop.code if isinstance(stop.code, int) else 1
    captured = capsys.readouterr()
    return status, captured.out, captured.err
