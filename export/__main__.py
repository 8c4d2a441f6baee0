"""`python -m counterfactory.export pocket`: train, export, pack and measure the pocket models."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch

from .pocket.pack import STEPS
from .pocket.report import write_report

_WEIGHTS = Path(__file__).parents[1] / "engine" / "pocket" / "weights"
_DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m counterfactory.export", description=__doc__)
    commands = parser.add_subparsers(required=True)
    pocket = commands.add_parser("pocket", help="train the pocket models, export them, pack them")
    pocket.add_argument("--only", default=",".join(STEPS), help=f"some of: {','.join(STEPS)}")
    pocket.add_argument("--report", action="store_true", help="measure the packed models into docs/pocket.md and .json")
    pocket.add_argument(
        "--work", type=Path, default=Path("pocket-training"), help="folder of training states; a run goes on from it"
    )
    pocket.add_argument("--weights", type=Path, default=_WEIGHTS, help="folder of the packed models")
    pocket.add_argument("--docs", type=Path, default=_DOCS, help="folder of the report")
    pocket.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of torch")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.report:
        write_report(asked.weights, asked.docs, asked.work)
        return
    names = asked.only.split(",")
    unknown = sorted(set(names) - set(STEPS))
    if unknown:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    asked.weights.mkdir(parents=True, exist_ok=True)
    for name in STEPS:
        if name in names:
            STEPS[name](asked.work, asked.weights)


if __name__ == "__main__":
    main()
