"""The command line: arguments in, an exit status out (`process` lists them); the work is done elsewhere.

A command's code is imported when it runs, so that help and completion wait for no library.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import CounterfactoryError
from ..packages import missing_package, release
from .cluster_arguments import add_boxes, add_cluster
from .parser import Parser, add_preprocess
from .review_arguments import add_review_arguments
from .statuses import EXIT_ERROR, EXIT_STOPPED
from .values import count, drop, gigabytes, names, percent, place, points, positive, seed, setting, share, span, words

if TYPE_CHECKING:
    from .terminal import Terminal

# Those of tasks/task.py, sources/depth.py, sources/boxes.py, sources/layouts.py and report/paper_tables.py, which
# import more than help should wait for; a test holds them to those.
TASKS = ("classification", "segmentation", "detection")
DEPTH_VALUES = ("distance", "inverse")
FORMS = ("sizes", "corners", "centres")
LAYOUTS = (
    *("folders", "datasets", "coco", "yolo", "voc", "cityscapes", "shift", "camvid", "imagenet-val", "webdataset"),
)
PAPER_TABLES = (
    *("dillema-table-1", "dillema-figure-6", "lance-table-2", "lance-figure-3", "lance-figure-6", "lance-figure-8"),
    "lance-figure-9",
)
SHELLS = ("bash", "zsh", "tcsh")

Run = Callable[[argparse.Namespace, "Terminal"], int]
_Commands = argparse._SubParsersAction  # argparse has no public name for it


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status.

    Raises BrokenPipeError when nobody reads the output any more, SystemExit for --help and wrong arguments, and
    whatever a bug raises.
    """
    args = build_parser().parse_args(argv)
    from .terminal import Terminal

    terminal = Terminal(as_json=args.json)
    try:
        status: int = args.run(args, terminal)
    except CounterfactoryError as error:
        terminal.error(str(error))
        return EXIT_ERROR
    except ModuleNotFoundError as error:
        if (reason := missing_package(error)) is None:
            raise
        terminal.error(reason)
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


def build_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="counterfactory",
        usage="counterfactory COMMAND ... [--help]",
        description="Turns labelled photographs into a counterfactual test suite for a vision model.",
        example="counterfactory demo",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the release and exit")
    parser.add_argument(
        "--print-completion", action=_Completion, choices=SHELLS, help="print the shell's completion of commands"
    )
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", prog="counterfactory", parser_class=Parser
    )
    _add_demo(commands)
    _add_generate(commands)
    _add_import(commands)
    _add_plan(commands)
    _add_estimate(commands)
    _add_doctor(commands)
    _add_setup(commands)
    _add_rehearse(commands)
    _add_check(commands)
    _add_verify(commands)
    _add_evaluate(commands)
    _add_report(commands)
    _add_labelling(commands)
    _add_review(commands)
    _add_retrain(commands)
    _add_predicts(commands)
    add_cluster(commands, _add, _late)
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


class _Version(argparse.Action):
    """Prints the release that is installed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        sys.stdout.write(f"counterfactory {release()}\n")
        parser.exit()


class _Completion(argparse.Action):
    """Prints a script that completes commands, options and files in a shell."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, values: Any, *__: Any) -> NoReturn:
        import shtab

        for command in (parser, *_subcommands(parser)):
            for action in command._actions:
                if action.type in (Path, place) or action.dest in ("profile", "class_map"):
                    action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab reads it there
        sys.stdout.write(shtab.complete(parser, values) + "\n")
        parser.exit()


def _subcommands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    (commands,) = (action for action in parser._actions if isinstance(action, _Commands))
    return list(dict(commands.choices or {}).values())


def _late(name: str, module: str = "commands") -> Run:
    """The command `name` of a module that is imported when the command runs."""

    def run(args: argparse.Namespace, terminal: Terminal) -> int:
        command: Run = getattr(import_module(f".{module}", __package__), name)
        # What is imported stays as long as the process: the collector need not walk it again and again.
        gc.freeze()
        return command(args, terminal)

    return run


def _add(commands: _Commands[Parser], name: str, text: str, usage: str, example: str) -> Parser:
    """A command with its line in the list, its usage, and an example, both without the words before them."""
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        usage=f"counterfactory {name} {usage}",
        example=f"counterfactory {name} {example}",
    )


def _add_demo(commands: _Commands[Parser]) -> None:
    text = "render street scenes, make their suite, judge two careless models by it"
    parser = _add(commands, "demo", text, "[options]", "--out counterfactory-demo")
    parser.add_argument("--out", type=Path, default=Path("counterfactory-demo"), help="folder (%(default)s)")
    parser.add_argument("--sources", type=positive, default=24, metavar="N", help="scenes to render (%(default)s)")
    parser.add_argument("--variants", type=positive, default=5, metavar="N", help="variants per source (%(default)s)")
    parser.set_defaults(run=_late("demo"))


def _add_generate(commands: _Commands[Parser]) -> None:
    text = "make a suite from your images; run again, it goes on where it was"
    example = "photos --task classification --out suite"
    parser = _add(commands, "generate", text, "SOURCES --out SUITE [options]", example)
    _add_sources(parser)
    _add_edits(parser)
    painting = _add_painting(parser)
    painting.add_argument(
        "--protect", type=names, metavar="A,B", help="classes of the masks of which every variant keeps the pixels"
    )
    painting.add_argument(
        "--anyway", action="store_true", help="go on though hardly a picture is accepted, which else ends the run early"
    )
    _add_shard(painting)
    output = parser.add_argument_group("output")
    _add_made(output)
    _add_coverage(output)
    add_boxes(parser)
    parser.set_defaults(run=_late("generate"))


def _add_shard(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--shard", type=positive, metavar="N", help="sources that travel together (the profile's)")


def _add_made(output: argparse._ArgumentGroup) -> None:
    """Where a suite goes, and what it costs."""
    output.add_argument("--out", type=Path, required=True, metavar="SUITE", help="folder of the suite")
    output.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="what it costs so far: JSON lines, one a second; Prometheus text if FILE ends in .prom",
    )


def _add_import(commands: _Commands[Parser]) -> None:
    text = "make a suite of pictures that are edited already, by whatever painter"
    parser = _add(commands, "import", text, "PAIRS --out SUITE [options]", "pairs.csv --out suite")
    data = parser.add_argument_group("data")
    data.add_argument(
        "pairs",
        type=Path,
        metavar="PAIRS",
        help="table (.csv, .jsonl, .parquet) with original and edited, and where known edit ('weather: foggy', "
        "'weather: sunny -> foggy'), caption, edited_caption, label, mask, kind (variant, control), level; or a folder "
        "with originals/NAME.* and edited/NAME/EDIT.* or edited/EDIT/NAME.*",
    )
    data.add_argument("--masks", type=Path, metavar="DIR", help="folder of masks with the originals' names")
    _add_class_map(data)
    _add_drawing(data)
    _add_task(parser.add_argument_group("task"))
    checks = parser.add_argument_group("checks")
    checks.add_argument(
        "--profile", default="given", help='name or .toml file with [painter] kind = "given" (%(default)s)'
    )
    _add_shard(checks)
    _add_made(parser.add_argument_group("output"))
    parser.set_defaults(run=_late("import_pairs"))


def _add_plan(commands: _Commands[Parser]) -> None:
    text = "show what would be changed of some sources, before anything is painted"
    parser = _add(commands, "plan", text, "SOURCES [options]", "photos --task classification --first 5")
    _add_sources(parser)
    _add_edits(parser)
    _add_painting(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--first", type=positive, default=5, metavar="N", help="sources to look at (%(default)s)")
    output.add_argument(
        "--write", type=Path, metavar="FILE", help="write the edits for people to label (see edits): .csv or .jsonl"
    )
    parser.set_defaults(run=_late("plan"))


def _add_edits(parser: Parser) -> None:
    """What may be changed."""
    edits = parser.add_argument_group("edits")
    _add_task(edits)
    edits.add_argument(
        "--edits",
        type=span,
        metavar="N|A..B",
        help="edits per variant (the profile's, or 1..3): half have the fewest, to show an edit alone, others mix more",
    )
    edits.add_argument(
        "--levels",
        type=positive,
        default=1,
        metavar="N",
        help="paint the same edits at N levels, from faint to full, as variants of their own (%(default)s)",
    )
    edits.add_argument(
        "--interventions", type=Path, metavar="FILE", help="the only edits allowed, such as 'time: night'"
    )
    edits.add_argument(
        "--allow-ungrounded",
        action="store_true",
        help="change captions that do not name what the source is labelled with, too: nothing holds their labels true",
    )
    edits.add_argument("--types", type=Path, metavar="FILE", help="edit types of your own beside the profile's (TOML)")
    edits.add_argument(
        "--avoid",
        type=words,
        metavar="A,B",
        help="words that no edit brings, beside matters of taste such as 'stylish'",
        default=(),
    )


def _add_task(group: argparse._ArgumentGroup) -> None:
    task = group.add_mutually_exclusive_group()
    task.add_argument("--task", choices=TASKS, help="what the model under test does (classification)")
    task.add_argument("--task-file", type=Path, metavar="FILE", help="a task of your own (TOML)")


def _add_doctor(commands: _Commands[Parser]) -> None:
    text = "say what this box has, what a profile lacks, and the next command"
    parser = _add(commands, "doctor", text, "[--profile NAME] [--json]", "--profile a10g")
    parser.add_argument("--profile", default="pocket", help="name or .toml file (%(default)s)")
    parser.set_defaults(run=_late("doctor"))


def _add_estimate(commands: _Commands[Parser]) -> None:
    text = "predict a run's time and cost, and what would be in memory when"
    usage = "(SOURCES | --sources N) [options]"
    parser = _add(commands, "estimate", text, usage, "--sources 1000 --profile a10g")
    data = _add_sources(parser, optional=True)
    data.add_argument("--sources", dest="count", type=positive, metavar="N", help="this many instead of SOURCES")
    painting = _add_painting(parser)
    painting.add_argument(
        "--memory", type=gigabytes, metavar="GB", help="plan for this much, in 10^9 bytes (this machine's, and 24)"
    )
    parser.set_defaults(run=_late("estimate"))


def _add_sources(parser: Parser, optional: bool = False) -> argparse._ArgumentGroup:
    """What a suite is made of."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "sources",
        type=place,
        metavar="SOURCES",
        nargs="?" if optional else None,
        help="folder of images, a table, or a data set in a layout of docs/data.md; or an URL such as s3://bucket/photos",
    )
    data.add_argument(
        "--labels", type=Path, metavar="FILE", help="labels (and masks) of a folder's images: CSV, JSONL or TXT"
    )
    data.add_argument("--masks", type=Path, metavar="DIR", help="folder of masks with the images' names")
    data.add_argument(
        "--depth", type=Path, metavar="DIR", help="folder of depth maps with the images' names: .npy, or 16-bit .png"
    )
    data.add_argument(
        "--depth-values", choices=DEPTH_VALUES, default="distance", help="what depth maps hold (%(default)s)"
    )
    data.add_argument(
        "--layout", choices=LAYOUTS, metavar="NAME", help="the data set's layout (recognised): %(choices)s"
    )
    data.add_argument(
        "--pairs", metavar="PATTERN", help="which masks belong to which images: '{stem}_img.jpg={stem}_seg.png'"
    )
    _add_class_map(data)
    data.add_argument("--split", metavar="NAME", help="a list of Pascal VOC's ImageSets/, such as Segmentation/val")
    data.add_argument(
        "--boxes",
        choices=FORMS,
        help="what a box's numbers are: x, y, width, height; x0, y0, x1, y1; or a middle and a size (the layout's)",
    )
    _add_drawing(data)
    return data


def _add_class_map(data: argparse._ArgumentGroup) -> None:
    data.add_argument(
        "--class-map",
        metavar="FILE",
        help="what numbers of masks and labels, or colours, mean: .toml, .json, .txt or a published map's name",
    )


def _add_drawing(data: argparse._ArgumentGroup) -> None:
    """Which sources are used."""
    data.add_argument("--classes", metavar="FILE|A,B", help="use the sources of these classes only")
    drawn = data.add_mutually_exclusive_group()
    drawn.add_argument("--per-class", type=positive, metavar="N", help="use N sources of each class, drawn by --seed")
    drawn.add_argument("--sample", type=positive, metavar="N", help="use N sources in all, drawn by --seed")
    data.add_argument("--seed", type=seed, default=0, metavar="N", help="another seed, another suite (%(default)s)")
    data.add_argument(
        "--allow-out-of-domain",
        action="store_true",
        help="take sources outside of what the profile's models know as well; every result then says so",
    )


def _add_painting(parser: Parser) -> argparse._ArgumentGroup:
    """What paints, and how many pictures of each source."""
    painting = parser.add_argument_group("painting")
    painting.add_argument("--profile", help="name or .toml file (that which suits the sources: pocket or light)")
    painting.add_argument("--variants", type=positive, default=5, metavar="N", help="variants per source (%(default)s)")
    painting.add_argument(
        "--controls",
        type=count,
        default=1,
        metavar="N",
        help="pictures per source of its own caption, to compare variants with (%(default)s)",
    )
    painting.add_argument(
        "--baseline",
        choices=("light",),
        help="draw each variant's weather and light by rule as well: evaluate says how much of an effect that has",
    )
    return painting


def _add_suite(parser: Parser) -> None:
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder of a finished suite")


def _add_coverage(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--require-coverage",
        type=share,
        metavar="SHARE",
        help="the least share, such as 0.8, of your values' possible cells to have an accepted picture; else status 3",
    )


def _add_setup(commands: _Commands[Parser]) -> None:
    text = "fetch published weights, make a profile's networks of them, try them"
    parser = _add(commands, "setup", text, "[options]", "--profile cpu --photos photos")
    parser.add_argument(
        "--profile", default="cpu", metavar="NAME", help="a profile with weights to fetch (%(default)s)"
    )
    parser.add_argument(
        "--photos", type=Path, metavar="DIR", help="photographs to calibrate on and try (drawn streets)"
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="DIR",
        help="where they are or go, laid out like the hub (in the profile's folder); for CPUs",
    )
    parser.add_argument("--exporter", type=Path, metavar="PYTHON", help="a Python with the exporter's packages")
    parser.add_argument("--dry-run", action="store_true", help="only say what it would take")
    parser.set_defaults(run=_late("setup", "setup"))


def _add_rehearse(commands: _Commands[Parser]) -> None:
    text = "try a box's way without a GPU: small random networks, exported and run"
    parser = _add(commands, "rehearse", text, "[options]", "--profile a10g")
    parser.add_argument("--profile", default="a10g", metavar="NAME", help="a profile with weights (%(default)s)")
    parser.add_argument("--target", default="sm86", metavar="SM", help="the GPU that plans are for (%(default)s)")
    parser.add_argument("--exporter", type=Path, metavar="PYTHON", help="a Python with the exporter's packages")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where everything stays (nowhere)")
    parser.set_defaults(run=_late("rehearse", "rehearse"))


def _add_check(commands: _Commands[Parser]) -> None:
    text = "derive the verdicts anew from the stored scores; generates nothing"
    parser = _add(commands, "check", text, "SUITE [options]", "suite --sweep check.min_edit")
    _add_suite(parser)
    parser.add_argument("--profile", help="name or .toml file whose thresholds to take (the suite's own)")
    parser.add_argument(
        "--set",
        action="append",
        type=setting,
        default=[],
        metavar="KEY=X",
        help="another threshold by the profile's key, such as check.edit=0.5; may be given several times",
    )
    parser.add_argument("--files", action="store_true", help="verify first, and stop where a byte is wrong: status 3")

    _add_coverage(parser.add_argument_group("limits"))
    hand = parser.add_argument_group("verdicts by hand, which stand whatever the scores say (by_hand.json)")
    for ruling, text in (
        ("exclude", "pictures, by file_name, that are not to count"),
        ("accept", "pictures that count although they were rejected"),
        ("undo", "pictures whose verdict is to follow from their scores again"),
    ):
        hand.add_argument(f"--{ruling}", action="extend", nargs="+", default=[], metavar="PICTURE", help=text)
    hand.add_argument("--by", metavar="NAME", help="who says so, for the record")
    hand.add_argument("--reason", metavar="TEXT", help="why, for the record")
    hand.add_argument(
        "--verdicts", type=Path, metavar="FILE", help="many at once: CSV or JSONL with image, verdict, by and reason"
    )
    looking = parser.add_argument_group("thresholds, looked at (the suite stays as it is)")
    looking.add_argument(
        "--sweep", metavar="KEY", help="show what each threshold of a check would let pass, and write nothing"
    )
    looking.add_argument(
        "--valid",
        type=Path,
        metavar="FILE",
        help="which variants are valid, for --sweep: CSV or JSONL with image (a file_name) and valid (true or false)",
    )
    looking.add_argument(
        "--fit",
        type=Path,
        metavar="FILE",
        help="print the parts of the score `valid`, for a profile, that such a FILE asks for, and write nothing",
    )
    whole = parser.add_argument_group("the set as a whole")
    whole.add_argument(
        "--fid",
        nargs="?",
        const="clip",
        metavar="MODEL",
        help="FID of variants and controls against the originals: by the CLIP of the suite's profile, or by a MODEL "
        "that gives features, such as inception.onnx",
    )
    whole.add_argument("--preprocess", metavar="WORDS", help="how pictures become its input: as in evaluate")
    whole.add_argument(
        "--perplexity", action="store_true", help="how the profile's language model reads captions before and after"
    )
    parser.set_defaults(run=_late("check"))


def _add_verify(commands: _Commands[Parser]) -> None:
    text = "compare every byte of a suite with the digests that were recorded of it"
    parser = _add(commands, "verify", text, "SUITE [options]", "suite")
    _add_suite(parser)
    parser.set_defaults(run=_late("verify"))


def _add_evaluate(commands: _Commands[Parser]) -> None:
    text = "say what each edit does to your model, with certainty, from its answers"
    usage = "SUITE (--model M | --predictions F) [options]"
    parser = _add(commands, "evaluate", text, usage, "suite --model model.onnx --max-drop weather=5")
    _add_suite(parser)
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        metavar="MODEL",
        help="run it: an .onnx or .xml file, module:callable, or a name after timm:, torchvision:, hf:, clip: or "
        "ultralytics:; its answers are kept in SUITE/predictions. Given twice, the second is compared with the first",
    )
    parser.add_argument(
        "--predictions",
        dest="models",
        action="append",
        type=Path,
        metavar="FILE",
        help="or its answers: a table with image (a file_name of metadata.parquet) and prediction, originals and "
        "controls too, and p_true, confidence, top5 where there are; scores in an .npy; a folder of masks by file_name",
    )
    parser.add_argument(
        "--preprocess",
        action="append",
        default=[],
        metavar="WORDS",
        help="how pictures become the model's input: 'resize=256 crop=224 mean=imagenet std=imagenet', or a "
        "preprocessor_config.json (the model's own); once for all, or once for each --model",
    )
    _add_classes(parser)
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-drop",
        action="append",
        type=drop,
        default=[],
        metavar="NAME=POINTS",
        help="the most that an edit's type, value or a class may cost, such as weather=5; broken when that is certain",
    )
    limits.add_argument(
        "--max-regression",
        type=points,
        metavar="POINTS",
        help="the most that the second model may lose to the first, on originals, controls, variants and each type",
    )
    limits.add_argument("--fail-under", type=percent, metavar="PERCENT", help="the least that variants must reach")
    output = parser.add_argument_group("output")
    output.add_argument("--all", action="store_true", help="show every value and class, not only the worst")
    output.add_argument(
        "--table",
        choices=PAPER_TABLES,
        metavar="NAME",
        help="show a table or figure of the papers instead, of all models given: %(choices)s",
    )
    output.add_argument(
        "--failures", type=Path, metavar="FILE", help="write the pictures that your model fails on, CSV"
    )
    output.add_argument(
        "--order",
        type=Path,
        metavar="FILE",
        help="write all variants in the order to look at them, CSV: what shows a failure that none before it shows",
    )
    output.add_argument("--junit", type=Path, metavar="FILE", help="write the limits' outcome as JUnit XML")
    parser.set_defaults(run=_late("evaluate"))


def _add_classes(parser: Parser) -> None:
    parser.add_argument(
        "--classes",
        type=Path,
        metavar="FILE",
        help="names of masks' classes (those of the record), or of all that your classifier knows, by its numbers; "
        "imagefolder: numbers are of sorted class folders",
    )


def _add_report(commands: _Commands[Parser]) -> None:
    text = "make the web page and the contact sheet of a suite"
    parser = _add(commands, "report", text, "SUITE [options]", "suite --predictions answers.csv --out report")
    _add_suite(parser)
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        metavar="MODEL",
        help="show what this model answers: as in evaluate; given twice, the second, compared with the first",
    )
    parser.add_argument(
        "--predictions",
        dest="models",
        action="append",
        type=Path,
        metavar="FILE",
        help="show what your model answered: a file or folder for evaluate",
    )
    add_preprocess(parser)
    _add_classes(parser)
    parser.add_argument("--profile", help="name or .toml file: whose edges to show (the suite's own)")
    parser.add_argument(
        "--valid", type=Path, metavar="FILE", help="which variants are valid, for the curves of thresholds: as in check"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="DIR", help="folder of the report (SUITE/report)")
    output.add_argument("--no-edges", action="store_true", help="show no edges, which the suite does not hold")
    output.add_argument("--limit", type=positive, default=2000, metavar="N", help="sources on the page (%(default)s)")
    output.add_argument(
        "--single-file", type=Path, metavar="FILE", help="write a page that holds its pictures, small enough to mail"
    )
    output.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write findings and effects for a pull request, in Markdown"
    )
    parser.set_defaults(run=_late("report"))


def _add_labelling(commands: _Commands[Parser]) -> None:
    text = "write text edits for people to label, or say what their labels say"
    parser = _add(commands, "edits", text, "(SUITE --write FILE | FILE) [options]", "suite --write edits.csv")
    parser.add_argument(
        "path", type=Path, metavar="SUITE|FILE", help="a suite whose edits to write, or a table of labelled edits"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="the table to write: .csv or .jsonl")
    parser.add_argument("--sample", type=positive, metavar="N", help="this many of them, drawn by chance (all)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="which ones are drawn (%(default)s)")
    parser.add_argument("--profile", help="name or .toml file whose text filters to judge (as they were when written)")
    parser.set_defaults(run=_late("edits", "edits"))


def _add_review(commands: _Commands[Parser]) -> None:
    text = "let people say which pictures are valid, and what that makes of error rates"
    parser = _add(commands, "review", text, "SUITE [options]", "suite --raters anna,ben --sample 100")
    _add_suite(parser)
    add_review_arguments(parser)
    parser.set_defaults(run=_late("review", "review"))


def _add_retrain(commands: _Commands[Parser]) -> None:
    from .retrain import add_arguments

    text = "train your model on a suite's variants, and say what that brings"
    parser = _add(
        commands, "retrain", text, "SUITE --model M --out DIR [options]", "suite --model timm:resnet18 --out r"
    )
    add_arguments(parser)
    parser.set_defaults(run=_late("retrain", "retrain"))


def _add_predicts(commands: _Commands[Parser]) -> None:
    from .predicts import add_arguments

    text = "say whether what painted edits do to models predicts what real conditions do"
    usage = "SUITE --real FILE --model M --model M ..."
    parser = _add(commands, "predicts", text, usage, "suite --real real.csv --model a.onnx --model b.onnx")
    add_arguments(parser)
    parser.set_defaults(run=_late("predicts", "predicts"))
