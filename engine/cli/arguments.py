"""The command line: arguments in, an exit status out (`process` lists them); the work is done elsewhere."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CounterfactoryError
from ..sources.depth import DEPTH_VALUES
from ..sources.layouts import LAYOUTS
from ..tasks.task import TASKS
from . import commands
from .edits import edits
from .statuses import EXIT_ERROR, EXIT_STOPPED
from .terminal import Terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status.

    Raises BrokenPipeError when nobody reads the output any more, SystemExit for --help and wrong arguments, and
    whatever a bug raises.
    """
    args = _parser().parse_args(argv)
    terminal = Terminal(as_json=args.json)
    try:
        status: int = args.run(args, terminal)
    except CounterfactoryError as error:
        terminal.error(str(error))
        return EXIT_ERROR
    except BrokenPipeError:
        raise
    except OSError as error:
        terminal.error(f"{error.filename or 'a file or the output'}: {error.strerror or error}")
        return EXIT_ERROR
    except KeyboardInterrupt:
        terminal.warn("\nstopped; run the same command again to go on: what is done is kept")
        return EXIT_STOPPED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="counterfactory",
        description="Turns labelled photographs into a counterfactual test suite for a vision model.",
    )
    commands_ = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_demo(commands_)
    _add_generate(commands_)
    _add_plan(commands_)
    _add_estimate(commands_)
    _add_doctor(commands_)
    _add_check(commands_)
    _add_evaluate(commands_)
    _add_report(commands_)
    _add_labelling(commands_)
    for command in commands_.choices.values():
        command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


_Commands = argparse._SubParsersAction  # argparse has no public name for it


def _add_demo(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("demo", help="render street scenes, make their suite, judge two careless models by it")
    parser.add_argument("--out", type=Path, default=Path("counterfactory-demo"), help="folder (%(default)s)")
    parser.add_argument("--sources", type=_positive, default=24, metavar="N", help="scenes to render (%(default)s)")
    parser.add_argument("--variants", type=_positive, default=5, metavar="N", help="variants per source (%(default)s)")
    parser.set_defaults(run=commands.demo)


def _add_generate(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("generate", help="make a suite from your images; run again, it goes on where it was")
    _add_sources(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="SUITE", help="folder of the suite")
    _add_edits(parser)
    parser.add_argument(
        "--protect", type=_names, metavar="A,B", help="classes of the masks of which every variant keeps the pixels"
    )
    parser.add_argument("--shard", type=_positive, metavar="N", help="sources that travel together (the profile's)")
    parser.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="what it costs so far: JSON lines, one a second; Prometheus text if FILE ends in .prom",
    )
    parser.set_defaults(run=commands.generate)


def _add_plan(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("plan", help="show what would be changed of some sources, before anything is painted")
    _add_sources(parser)
    _add_edits(parser)
    parser.add_argument("--first", type=_positive, default=5, metavar="N", help="sources to look at (%(default)s)")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="write the edits for people to label (see edits): .csv or .jsonl"
    )
    parser.set_defaults(run=commands.plan)


def _add_edits(parser: argparse.ArgumentParser) -> None:
    """What may be changed."""
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--task", choices=TASKS, help="what the model under test does (classification)")
    task.add_argument("--task-file", type=Path, metavar="FILE", help="a task of your own (TOML)")
    parser.add_argument(
        "--edits",
        type=_span,
        metavar="N|A..B",
        help="edits per variant (the profile's, or 1..3): half have the fewest, to show an edit alone, others mix more",
    )
    parser.add_argument(
        "--levels",
        type=_positive,
        default=1,
        metavar="N",
        help="paint the same edits at N levels, from faint to full, as variants of their own (%(default)s)",
    )
    parser.add_argument(
        "--interventions", type=Path, metavar="FILE", help="the only edits allowed, such as 'time: night'"
    )
    parser.add_argument(
        "--allow-ungrounded",
        action="store_true",
        help="change captions that do not name what the source is labelled with, too: nothing holds their labels true",
    )
    parser.add_argument("--types", type=Path, metavar="FILE", help="edit types of your own beside the profile's (TOML)")
    parser.add_argument(
        "--avoid",
        type=_words,
        metavar="A,B",
        help="words that no edit brings, beside matters of taste such as 'stylish'",
        default=(),
    )


def _add_doctor(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("doctor", help="say what this box has, what a profile lacks, and the next command")
    parser.add_argument("--profile", default="pocket", help="name or .toml file (%(default)s)")
    parser.set_defaults(run=commands.doctor)


def _add_estimate(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("estimate", help="predict a run's time and cost, and what would be in memory when")
    _add_sources(parser, optional=True)
    parser.add_argument(
        "--sources",
        dest="count",
        type=_positive,
        metavar="N",
        help="this many instead of SOURCES",
    )
    parser.add_argument(
        "--memory", type=_gigabytes, metavar="GB", help="plan for this much, in 10^9 bytes (this machine's, and 24)"
    )
    parser.set_defaults(run=commands.estimate)


def _add_sources(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """What a suite is made of, and how many variants of each."""
    parser.add_argument(
        "sources",
        type=Path,
        metavar="SOURCES",
        nargs="?" if optional else None,
        help="folder of images, a table, or a data set in a layout of docs/data.md",
    )
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help="labels (and masks) of a folder's images: CSV, JSONL or TXT"
    )
    parser.add_argument("--masks", type=Path, metavar="DIR", help="folder of masks with the images' names")
    parser.add_argument(
        "--depth", type=Path, metavar="DIR", help="folder of depth maps with the images' names: .npy, or 16-bit .png"
    )
    parser.add_argument(
        "--depth-values", choices=DEPTH_VALUES, default="distance", help="what depth maps hold (%(default)s)"
    )
    parser.add_argument("--layout", choices=LAYOUTS, help="the data set's layout (recognised)")
    parser.add_argument(
        "--pairs", metavar="PATTERN", help="which masks belong to which images: '{stem}_img.jpg={stem}_seg.png'"
    )
    parser.add_argument(
        "--class-map",
        metavar="FILE",
        help="what numbers of masks and labels, or colours, mean: .toml, .json, .txt or a published map's name",
    )
    parser.add_argument("--split", metavar="NAME", help="a list of Pascal VOC's ImageSets/, such as Segmentation/val")
    parser.add_argument("--classes", metavar="FILE|A,B", help="use the sources of these classes only")
    drawn = parser.add_mutually_exclusive_group()
    drawn.add_argument("--per-class", type=_positive, metavar="N", help="use N sources of each class, drawn by --seed")
    drawn.add_argument("--sample", type=_positive, metavar="N", help="use N sources in all, drawn by --seed")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="another seed, another suite (%(default)s)")
    parser.add_argument(
        "--allow-out-of-domain",
        action="store_true",
        help="take sources outside of what the profile's models know as well; every result then says so",
    )
    parser.add_argument("--profile", default="pocket", help="name or .toml file (%(default)s)")
    parser.add_argument("--variants", type=_positive, default=5, metavar="N", help="variants per source (%(default)s)")
    parser.add_argument(
        "--controls",
        type=_count,
        default=1,
        metavar="N",
        help="pictures per source of its own caption, to compare variants with (%(default)s)",
    )


def _add_check(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("check", help="derive the verdicts anew from the stored scores; generates nothing")
    parser.add_argument("suite", type=Path, metavar="SUITE")
    parser.add_argument("--profile", help="name or .toml file whose thresholds to take (the suite's own)")
    parser.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="KEY=X",
        help="another threshold by the profile's key, such as check.edit=0.5; may be given several times",
    )
    parser.add_argument(
        "--sweep", metavar="KEY", help="show what each threshold of a check would let pass, and write nothing"
    )
    parser.add_argument(
        "--valid",
        type=Path,
        metavar="FILE",
        help="which variants are valid, for --sweep: CSV or JSONL with image (a file_name) and valid (true or false)",
    )
    parser.add_argument(
        "--fit",
        type=Path,
        metavar="FILE",
        help="print the parts of the score `valid`, for a profile, that such a FILE asks for, and write nothing",
    )
    parser.set_defaults(run=commands.check)


def _add_evaluate(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser(
        "evaluate", help="say what each edit does to your model, with certainty, from its answers"
    )
    parser.add_argument("suite", type=Path, metavar="SUITE")
    parser.add_argument(
        "--predictions",
        type=Path,
        required=True,
        metavar="FILE",
        help="CSV or JSONL with image (a file_name of metadata.parquet) and prediction, originals and controls too, "
        "and confidence and top5 where there are; or a folder with a mask for each file_name",
    )
    _add_classes(parser)
    parser.add_argument(
        "--max-drop",
        action="append",
        type=_drop,
        default=[],
        metavar="NAME=POINTS",
        help="the most that an edit's type, value or a class may cost, such as weather=5; broken when that is certain",
    )
    parser.add_argument("--fail-under", type=_percent, metavar="PERCENT", help="the least that variants must reach")
    parser.add_argument("--all", action="store_true", help="show every value and class, not only the worst")
    parser.add_argument(
        "--failures", type=Path, metavar="FILE", help="write the pictures that your model fails on, CSV"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the limits' outcome as JUnit XML")
    parser.set_defaults(run=commands.evaluate)


def _add_classes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--classes", type=Path, metavar="FILE", help="names of masks' classes (those of the record)")


def _add_report(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("report", help="make the web page and the contact sheet of a suite")
    parser.add_argument("suite", type=Path, metavar="SUITE")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the report (SUITE/report)")
    parser.add_argument(
        "--predictions", type=Path, metavar="FILE", help="show what your model answered: a file or folder for evaluate"
    )
    _add_classes(parser)
    parser.add_argument("--profile", help="name or .toml file: whose edges to show (the suite's own)")
    parser.add_argument(
        "--valid", type=Path, metavar="FILE", help="which variants are valid, for the curves of thresholds: as in check"
    )
    parser.add_argument("--no-edges", action="store_true", help="show no edges, which the suite does not hold")
    parser.add_argument("--limit", type=_positive, default=200, metavar="N", help="sources on the page (%(default)s)")
    parser.set_defaults(run=commands.report)


def _add_labelling(parsers: _Commands[argparse.ArgumentParser]) -> None:
    parser = parsers.add_parser("edits", help="write text edits for people to label, or say what their labels say")
    parser.add_argument(
        "path", type=Path, metavar="SUITE|FILE", help="a suite whose edits to write, or a table of labelled edits"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="the table to write: .csv or .jsonl")
    parser.add_argument("--sample", type=_positive, metavar="N", help="this many of them, drawn by chance (all)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="which ones are drawn (%(default)s)")
    parser.add_argument("--profile", help="name or .toml file whose text filters to judge (as they were when written)")
    parser.set_defaults(run=edits)


def _positive(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is needed, got {text!r}")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(re.fullmatch(r"[^\W_]+(?:['-][^\W_]+)*", word) for word in words):
        raise argparse.ArgumentTypeError(f"single words with commas between are needed, got {text!r}")
    return words


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"names with commas between are needed, got {text!r}")
    return names


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"a whole number from 0 is needed, got {text!r}")
    return int(text)


def _gigabytes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.001 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"a number of gigabytes is needed, got {text!r}")
    return value


def _setting(text: str) -> tuple[str, float]:
    key, equals, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not equals or not key or not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"a key and a number are needed, such as check.edit=0.5, got {text!r}")
    return key.strip(), value


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"a percentage from 0 to 100 is needed, got {text!r}")
    return value / 100


def _drop(text: str) -> tuple[str, float]:
    name, equals, points = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"a name and points are needed, such as weather=5, got {text!r}")
    return name, 100 * _percent(points)


def _seed(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"a whole number from 0 to 2^63 - 1 is needed, got {text!r}")
    return int(text)


def _span(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError(f"a number such as 2 or a range such as 1..3 is needed, got {text!r}")
    return low, high
