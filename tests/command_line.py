"""The command line within this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterfactory.engine.cli.arguments import main


class Command:
    """Runs commands, and tells what they wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *args: object) -> tuple[int, str, str]:
        """A command's exit status, and what it wrote to standard output and standard error."""
        self._capsys.readouterr()
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as stop:  # argparse
            status = stop.code if isinstance(stop.code, int) else 1
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def json(self, *args: object, status: int = 0) -> Any:
        """What a command that ends well, or with `status`, gives to a machine."""
        found, out, err = self(*args, "--json")
        assert found == status, err
        return json.loads(out)

    def text(self, *args: object) -> str:
        """What a command that ends well shows a person."""
        status, out, err = self(*args)
        assert status == 0, err
        return out

    def refuses(self, told: str, *args: object) -> str:
        """A command that cannot run says so in one sentence with these words; all that it says is returned as a line.
        Only `setup` has shown something by then: what it would take.
        """
        status, out, err = self(*args)
        assert (status, out == "" or args[0] == "setup") == (2, True), err
        assert [line[:7] for line in err.splitlines()].count("error: ") == 1
        said = " ".join(err.split())
        assert told in said
        return said
