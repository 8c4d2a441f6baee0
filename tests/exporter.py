"""The exporter's command line, as tests call it."""

from __future__ import annotations

import argparse
import sys
from unittest import mock

import torch

from counterfactory.export import __main__ as exporter
from counterfactory.export.production import command


def parsed(*words: str) -> argparse.Namespace:
    """What `export a10g` reads of its arguments."""
    parser = argparse.ArgumentParser()
    command.add_command(parser.add_subparsers())
    return parser.parse_args(["a10g", *words])


def run_exporter(*words: str) -> int | str | None:
    """The exit status of the whole command line, which leaves torch's threads as they were."""
    threads = torch.get_num_threads()
    try:
        with mock.patch.object(sys, "argv", ["export", *words]):
            exporter.main()
    except SystemExit as done:
        return done.code
    finally:
        torch.set_num_threads(threads)
    return 0
