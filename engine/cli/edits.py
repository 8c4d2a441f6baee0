"""`counterfactory edits`: text edits on a table for people to label, and what their labels say."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict

from ..errors import CounterfactoryError
from ..judging.edit_labels import Success, draw, read_labelled, successes, suite_edits, write_edits
from ..profile.profile import load_profile
from ..report.table import Table
from ..suite import read_metadata
from ..suite.recorded import recorded_check
from .terminal import Terminal


def edits(args: Namespace, terminal: Terminal) -> int:
    return _write(args, terminal) if args.path.is_dir() else _read(args, terminal)


def _write(args: Namespace, terminal: Terminal) -> int:
    if args.write is None:
        raise CounterfactoryError(f"{args.path} is a suite: --write FILE writes its edits for people to label")
    edits = suite_edits(read_metadata(args.path), recorded_check(args.path))
    rows = edits if args.sample is None else draw(edits, args.sample, args.seed)
    write_edits(args.write, rows)
    terminal.say(
        f"{len(rows)} of {len(edits)} edits written: fill in right_type, right_label and coherent with 1 or 0,"
    )
    terminal.say(f"then say: counterfactory edits {args.write}")
    terminal.finish({"edits": len(edits), "written": len(rows), "file": str(args.write)})
    return 0


def _read(args: Namespace, terminal: Terminal) -> int:
    if args.write is not None:
        raise CounterfactoryError(f"--write takes the edits of a suite, and {args.path} is no folder")
    labelled, empty = read_labelled(args.path, None if args.profile is None else load_profile(args.profile).check)
    if not labelled:
        raise CounterfactoryError(f"no row of {args.path} is labelled; fill in right_type, right_label and coherent")
    by_type = successes(labelled)
    terminal.show(success_table(by_type))
    if empty:
        terminal.say(f"{empty} rows are not labelled and left out")
    types = {name: {**asdict(one), "precision": one.precision, "recall": one.recall} for name, one in by_type.items()}
    terminal.finish({"unlabelled": empty, "types": types})
    return 0


def success_table(by_type: Mapping[str, Success]) -> Table:
    """A line per type, within 80 columns: shares in percent."""
    rows = tuple(
        (
            type_,
            str(one.edits),
            *(_percent(count, one.edits) for count in (one.right_type, one.right_label, one.coherent, one.succeed)),
            str(one.kept),
            _percent(one.kept_succeed, one.kept),
            _percent(one.kept_succeed, one.succeed),
        )
        for type_, one in by_type.items()
    )
    columns = ("edits of", "edits", "type", "label", "coherent", "all", "kept", "precision", "recall")
    return Table("Edits that people call right, and the text filters, %", columns, rows)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"
