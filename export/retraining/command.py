"""`python -m counterfactory.export retrain FOLDER`: what `counterfactory retrain` starts, with a lesson in FOLDER."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    parser = commands.add_parser("retrain", help="train the models of a lesson, and ask them")
    parser.add_argument("folder", type=Path, help="folder with lesson.json")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.set_defaults(run=_retrain)


def _retrain(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    from .lessons import run_lesson

    run_lesson(asked.folder, asked.device, say)
    return 0
