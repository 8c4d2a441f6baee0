"""Arguments of the commands for many boxes: merge, split, pack, status; and those that `generate` has for them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .values import positive

# Those of cluster/packing.py; a test holds them to those.
FORMS = ("webdataset", "datasets")
# `_add` and `_late` of arguments.py.
AddCommand = Callable[..., Any]
LateCommand = Callable[[str, str], Any]


def add_cluster(commands: Any, add: AddCommand, late: LateCommand) -> None:
    """The commands."""
    parser = add(
        commands,
        "merge",
        "make one suite of several of one kind; generates nothing",
        "SUITE SUITE... --out SUITE",
        "monday tuesday --out week",
    )
    parser.add_argument("suites", type=Path, nargs="+", metavar="SUITE", help="folders of finished suites")
    parser.add_argument("--out", type=Path, required=True, metavar="SUITE", help="folder of the new suite")
    parser.set_defaults(run=late("merge", "cluster_commands"))
    parser = add(
        commands,
        "split",
        "make several suites of one; generates nothing",
        "SUITE --out SUITE SUITE... [options]",
        "week --out first second",
    )
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder of a finished suite")
    parser.add_argument(
        "--out", type=Path, nargs="+", required=True, metavar="SUITE", help="folders of the new suites: equal parts"
    )
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="FILE",
        help="names of sources, one a line: they go to the first, the rest to the second",
    )
    parser.set_defaults(run=late("split", "cluster_commands"))
    text = "write a suite for others' loaders: WebDataset's shards, or a datasets set"
    parser = add(commands, "pack", text, "SUITE --out DIR [options]", "suite --out tars --form webdataset")
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder of a finished suite")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder of the files")
    parser.add_argument("--form", choices=FORMS, default="webdataset", help="whose form (%(default)s)")
    parser.add_argument("--shard-mb", type=positive, default=500, metavar="N", help="size of a file (%(default)s)")
    parser.set_defaults(run=late("pack", "cluster_commands"))
    parser = add(commands, "status", "say how far the run over a suite is, from any box", "SUITE", "suite")
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder of a suite that is being made")
    parser.set_defaults(run=late("status", "cluster_commands"))


def add_boxes(parser: argparse.ArgumentParser) -> None:
    """Where the shards of `generate` travel."""
    boxes = parser.add_argument_group("many boxes (docs/cluster.md)")
    boxes.add_argument(
        "--ray", metavar="ADDRESS", help="a Ray cluster whose boxes take the shards: HOST:PORT, auto, or local"
    )
    boxes.add_argument("--workers", type=positive, metavar="N", help="use at most N workers (one a GPU, or a core)")
    boxes.add_argument(
        "--parts", metavar="PATH|URL", help="where workers leave finished shards; all boxes share it (SUITE/parts)"
    )
    boxes.add_argument(
        "--shard-log",
        type=Path,
        metavar="FILE",
        help="add a line of JSON for each shard that is done, without --ray too",
    )
