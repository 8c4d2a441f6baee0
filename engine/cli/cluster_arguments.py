"""The commands for many boxes: merge, split, pack, status; and the options that `generate` has for them."""

from __future__ import annotations

from .parser import CommandOptions, Commands

# Those of cluster/packing.py; a test holds them to those.
FORMS = ("webdataset", "datasets")


def add_cluster(commands: Commands) -> None:
    text, usage = "make one suite of several of one kind; generates nothing", "SUITE SUITE... --out SUITE"
    merge = commands.add("merge", text, usage, "monday tuesday --out week", "cluster_commands.merge")
    merge.take("suites SUITE", "folders of finished suites", nargs="+")
    merge.take("--out SUITE", "folder of the new suite", required=True)
    text, usage = "make several suites of one; generates nothing", "SUITE --out SUITE SUITE... [options]"
    split = commands.add("split", text, usage, "week --out first second", "cluster_commands.split")
    split.take("suite SUITE", "folder of a finished suite")
    split.take("--out SUITE", "folders of the new suites: equal parts", nargs="+", required=True)
    split.take("--sources FILE", "names of sources, one a line: they go to the first, the rest to the second")
    text, usage = (
        "write a suite for others' loaders: WebDataset's shards, or a datasets set",
        "SUITE --out DIR [options]",
    )
    pack = commands.add("pack", text, usage, "suite --out tars --form webdataset", "cluster_commands.pack")
    pack.take("suite SUITE", "folder of a finished suite")
    pack.take("--out DIR", "new folder of the files", required=True)
    pack.take("--form", "whose form (%(default)s)", choices=FORMS, default="webdataset")
    pack.take("--shard-mb N", "size of a file (%(default)s)", default=500)
    text = "say how far the run over a suite is, from any box"
    status = commands.add("status", text, "SUITE", "suite", "cluster_commands.status")
    status.take("suite SUITE", "folder of a suite that is being made")


def add_boxes(options: CommandOptions) -> None:
    """Where the shards of `generate` travel."""
    boxes = options.group("many boxes (docs/cluster.md)")
    boxes.take("--ray ADDRESS", "a Ray cluster whose boxes take the shards: HOST:PORT, auto, or local")
    boxes.take("--workers N", "use at most N workers (one a GPU, or a core)")
    boxes.take("--parts PATH|URL", "where workers leave finished shards; all boxes share it (SUITE/parts)")
    boxes.take("--shard-log FILE", "add a line of JSON for each shard that is done, without --ray too")
