"""The command line: arguments in, an exit status out (`process` lists them); the work is done elsewhere.

A command's code is imported when it runs, so that help and completion wait for no library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..errors import CounterfactoryError, TryAgainError
from ..packages import missing_package, release
from .cluster_arguments import add_boxes, add_cluster
from .parser import CommandOptions, Commands, Parser
from .review_arguments import add_review
from .statuses import EXIT_AGAIN, EXIT_ERROR, EXIT_STOPPED
from .values import count, place, seed, words

# Those of tasks/task.py, sources/depth.py, sources/boxes.py, sources/layouts.py and report/paper_tables.py, which
# import more than help should wait for; a test holds them to those.
TASKS = ("classification", "segmentation", "detection")
DEPTH_VALUES = ("distance", "inverse")
FORMS = ("sizes", "corners", "centres")
LAYOUTS = (
    *("folders", "labelme", "bdd100k", "cvat", "kitti", "datasets", "coco", "yolo", "voc", "cityscapes", "shift"),
    *("camvid", "imagenet-val", "webdataset"),
)
PAPER_TABLES = (
    *("dillema-table-1", "dillema-figure-6", "lance-table-2", "lance-figure-3", "lance-figure-6", "lance-figure-8"),
    "lance-figure-9",
)
SHELLS = ("bash", "zsh", "tcsh")


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
        return status
    except TryAgainError as error:
        terminal.error(str(error))
        return EXIT_AGAIN
    except CounterfactoryError as error:
        reason = str(error)
    except ModuleNotFoundError as error:
        if (package := missing_package(error)) is None:
            raise
        reason = package
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"{error.filename or 'a file or the output'}: {error.strerror or error}"
    except KeyboardInterrupt:
        terminal.warn("\nstopped; run the same command again to go on: what is done is kept")
        return EXIT_STOPPED
    terminal.error(reason)
    return EXIT_ERROR


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
    subparsers = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", prog="counterfactory", parser_class=Parser
    )
    commands = Commands(subparsers)
    for add in (
        *(_add_demo, _add_generate, _add_import, _add_plan, _add_estimate, _add_doctor, _add_setup, _add_rehearse),
        *(_add_check, _add_verify, _add_evaluate, _add_report, _add_labelling, add_review, _add_retrain, _add_predicts),
        add_cluster,
    ):
        add(commands)
    for command in subparsers.choices.values():
        command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        sys.stdout.write(f"counterfactory {release()}\n")
        parser.exit()


class _Completion(argparse.Action):
    """Prints a script that completes commands, options and files in a shell."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, values: Any, *__: Any) -> NoReturn:
        import shtab

        (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        for command in (parser, *dict(commands.choices or {}).values()):
            for action in command._actions:
                if action.type in (Path, place) or action.dest in ("profile", "class_map"):
                    action.complete = shtab.FILE  # shtab reads it there
        sys.stdout.write(shtab.complete(parser, values) + "\n")
        parser.exit()


def _add_demo(commands: Commands) -> None:
    text = "render street scenes, make their suite, judge two careless models by it"
    options = commands.add("demo", text, "[options]", "--out counterfactory-demo", "demo.demo")
    options.take("--out", "folder (%(default)s)", type=Path, default=Path("counterfactory-demo"))
    options.take("--sources N", "scenes to render (%(default)s)", default=24)
    options.take("--variants N", "variants per source (%(default)s)", default=5)


def _add_generate(commands: Commands) -> None:
    text = "make a suite from your images; run again, it goes on where it was"
    example = "photos --task classification --out suite"
    options = commands.add("generate", text, "SOURCES --out SUITE [options]", example)
    _add_sources(options)
    _add_edits(options)
    painting = _add_painting(options)
    painting.take("--protect A,B", "classes of the masks of which every variant keeps the pixels")
    painting.flag("--anyway", "go on though hardly a picture is accepted, which else ends the run early")
    painting.take("--shard N", "sources that travel together (the profile's)")
    output = options.group("output")
    _add_suite_out(output)
    _add_coverage(output)
    add_boxes(options)


def _add_suite_out(output: CommandOptions) -> None:
    """Where a suite goes, and what it costs."""
    output.take("--out SUITE", "folder of the suite", required=True)
    output.take(
        "--metrics FILE", "what it costs so far: JSON lines, one a second; Prometheus text if FILE ends in .prom"
    )


def _add_import(commands: Commands) -> None:
    text = "make a suite of pictures that are edited already, by whatever painter"
    options = commands.add(
        "import", text, "PAIRS --out SUITE [options]", "pairs.csv --out suite", "commands.import_pairs"
    )
    data = options.group("data")
    data.take(
        "pairs PAIRS",
        "table (.csv, .jsonl, .parquet) with original and edited, and where known edit ('weather: foggy', 'weather: "
        "sunny -> foggy'), caption, edited_caption, label, mask, kind (variant, control), level; or a folder with "
        "originals/NAME.* and edited/NAME/EDIT.* or edited/EDIT/NAME.*",
    )
    data.take("--masks DIR", "folder of masks with the originals' names")
    _add_class_map(data)
    _add_drawing(data)
    _add_task(options.group("task"))
    checks = options.group("checks")
    checks.take("--profile", 'name or .toml file with [painter] kind = "given" (%(default)s)', default="given")
    checks.take("--shard N", "sources that travel together (the profile's)")
    _add_suite_out(options.group("output"))


def _add_plan(commands: Commands) -> None:
    text = "show what would be changed of some sources, before anything is painted"
    options = commands.add("plan", text, "SOURCES [options]", "photos --task classification --first 5")
    _add_sources(options)
    _add_edits(options)
    _add_painting(options)
    output = options.group("output")
    output.take("--first N", "sources to look at (%(default)s)", default=5)
    output.take("--write FILE", "write the edits for people to label (see edits): .csv or .jsonl")


def _add_edits(options: CommandOptions) -> None:
    edits = options.group("edits")
    _add_task(edits)
    text = (
        "edits per variant (the profile's: 1 of light, else 1..3); of A..B half have the fewest, to show an edit alone"
    )
    edits.take("--edits N|A..B", text)
    strength = edits.either()
    strength.take("--severity N", "strength of edits, 1 (faint) to 5 (full) (the profile's: 3 of light, else 5)")
    text = "or paint the same edits at N levels, from faint to full, as variants of their own"
    strength.take("--levels N", text)
    edits.take("--interventions FILE", "the only edits allowed, such as 'time: night'")
    text = "change captions that do not name what the source is labelled with, too: nothing holds their labels true"
    edits.flag("--allow-ungrounded", text)
    edits.take("--types FILE", "edit types of your own beside the profile's (TOML)")
    taste = "words that no edit brings, beside matters of taste such as 'stylish'"
    edits.take("--avoid A,B", taste, type=words, default=())


def _add_task(options: CommandOptions) -> None:
    task = options.either()
    task.take("--task", "what the model under test does (classification)", choices=TASKS)
    task.take("--task-file FILE", "a task of your own (TOML)")


def _add_doctor(commands: Commands) -> None:
    text = "say what this box has, what a profile lacks, and the next command"
    options = commands.add("doctor", text, "[--profile NAME] [--json]", "--profile a10g")
    options.take("--profile", "name or .toml file (%(default)s)", default="pocket")


def _add_estimate(commands: Commands) -> None:
    text = "predict a run's time and cost, and what would be in memory when"
    options = commands.add("estimate", text, "(SOURCES | --sources N) [options]", "--sources 1000 --profile a10g")
    data = _add_sources(options, nargs="?")
    data.take("--sources N", "this many instead of SOURCES", dest="count")
    painting = _add_painting(options)
    painting.take("--memory GB", "plan for this much, in 10^9 bytes (this machine's, and 24)")


def _add_sources(options: CommandOptions, nargs: str | None = None) -> CommandOptions:
    """What a suite is made of."""
    data = options.group("data")
    data.take(
        "sources SOURCES",
        "folder of images, a table, or a data set in a layout of docs/data.md; or an URL such as s3://bucket/photos",
        nargs=nargs,
    )
    data.take("--labels FILE", "labels (and masks) of a folder's images: CSV, JSONL or TXT")
    data.take("--masks DIR", "folder of masks with the images' names")
    data.take("--depth DIR", "folder of depth maps with the images' names: .npy, or 16-bit .png")
    data.take("--depth-values", "what depth maps hold (%(default)s)", choices=DEPTH_VALUES, default="distance")
    data.take("--layout NAME", "the data set's layout (recognised): %(choices)s", choices=LAYOUTS)
    data.take("--pairs PATTERN", "which masks belong to which images: '{stem}_img.jpg={stem}_seg.png'")
    _add_class_map(data)
    data.take("--split NAME", "a list of Pascal VOC's ImageSets/, such as Segmentation/val, or of YOLO's, such as val")
    text = "what a box's numbers are: x, y, width, height; x0, y0, x1, y1; or a middle and a size (the layout's)"
    data.take("--boxes", text, choices=FORMS)
    _add_drawing(data)
    return data


def _add_class_map(data: CommandOptions) -> None:
    text = "what numbers of masks and labels, or colours, mean: .toml, .json, .txt or a published map's name"
    data.take("--class-map FILE", text, type=None)


def _add_drawing(data: CommandOptions) -> None:
    data.take("--classes FILE|A,B", "use the sources of these classes only")
    drawn = data.either()
    drawn.take("--per-class N", "use N sources of each class, drawn by --seed")
    drawn.take("--sample N", "use N sources in all, drawn by --seed")
    data.take("--seed N", "another seed, another suite (%(default)s)", type=seed, default=0)
    text = "take sources outside of what the profile's models know as well; every result then says so"
    data.flag("--allow-out-of-domain", text)
    data.take_groups("auto: what looks like frames of a sequence, and copies")


def _add_painting(options: CommandOptions) -> CommandOptions:
    """What paints, and how many pictures of each source."""
    painting = options.group("painting")
    painting.take("--profile", "name or .toml file (that which suits the sources: pocket or light)")
    painting.take("--variants N", "variants per source (%(default)s)", default=5)
    painting.flag("--given-captions", "take a table's own column 'caption' in the captioner's place")
    text = "pictures per source of its own caption, to compare variants with (1; light, which needs none, has none)"
    painting.take("--controls N", text, type=count)
    text = "draw each variant's weather and light by rule as well: evaluate says how much of an effect that has"
    painting.take("--baseline", text, choices=("light",))
    return painting


def _add_coverage(options: CommandOptions) -> None:
    text = "the least share, such as 0.8, of your values' possible cells to have an accepted picture; else status 3"
    options.take("--require-coverage SHARE", text)


def _add_setup(commands: Commands) -> None:
    text = "fetch published weights, make a profile's networks of them, try them"
    options = commands.add("setup", text, "[options]", "--profile cpu --photos photos", "setup.setup")
    options.take("--profile NAME", "a profile with weights to fetch (%(default)s)", default="cpu")
    options.take("--photos DIR", "photographs to calibrate on and try (drawn streets)")
    options.take("--weights DIR", "where they are or go, laid out like the hub (in the profile's folder); for CPUs")
    options.take("--exporter PYTHON", "a Python with the exporter's packages")
    options.flag("--dry-run", "only say what it would take")


def _add_rehearse(commands: Commands) -> None:
    text = "try a box's way without a GPU: small random networks, exported and run"
    options = commands.add("rehearse", text, "[options]", "--profile a10g", "rehearse.rehearse")
    options.take("--profile NAME", "a profile with weights (%(default)s)", default="a10g")
    options.take("--target SM", "the GPU that plans are for (%(default)s)", default="sm86")
    options.take("--exporter PYTHON", "a Python with the exporter's packages")
    options.take("--keep DIR", "where everything stays (nowhere)")


def _add_check(commands: Commands) -> None:
    text = "derive the verdicts anew from the stored scores; generates nothing"
    options = commands.add("check", text, "SUITE [options]", "suite --sweep check.min_edit")
    options.take("suite SUITE", "folder of a finished suite")
    options.take("--profile", "name or .toml file whose thresholds to take (the suite's own)")
    text = "another threshold by the profile's key, such as check.edit=0.5; may be given several times"
    options.take("--set KEY=X", text, action="append", default=[])
    options.flag("--files", "verify first, and stop where a byte is wrong: status 3")
    _add_coverage(options.group("limits"))
    hand = options.group("verdicts by hand, which stand whatever the scores say (by_hand.json)")
    for ruling, text in (
        ("exclude", "pictures, by file_name, that are not to count"),
        ("accept", "pictures that count although they were rejected"),
        ("undo", "pictures whose verdict is to follow from their scores again"),
    ):
        hand.take(f"--{ruling} PICTURE", text, action="extend", nargs="+", default=[])
    hand.take("--by NAME", "who says so, for the record")
    hand.take("--reason TEXT", "why, for the record")
    hand.take("--verdicts FILE", "many at once: CSV or JSONL with image, verdict, by and reason")
    looking = options.group("thresholds, looked at (the suite stays as it is)")
    looking.take("--sweep KEY", "show what each threshold of a check would let pass, and write nothing")
    text = "which variants are valid, for --sweep: CSV or JSONL with image (a file_name) and valid (true or false)"
    looking.take("--valid FILE", text)
    text = "print the parts of the score `valid`, for a profile, that such a FILE asks for, and write nothing"
    looking.take("--fit FILE", text)
    whole = options.group("the set as a whole")
    whole.take(
        "--fid MODEL",
        "FID of variants and controls against the originals: by the CLIP of the suite's profile, or by a MODEL that "
        "gives features, such as inception.onnx",
        nargs="?",
        const="clip",
    )
    whole.take("--preprocess WORDS", "how pictures become its input: as in evaluate")
    whole.flag("--perplexity", "how the profile's language model reads captions before and after")


def _add_verify(commands: Commands) -> None:
    text = "compare every byte of a suite with the digests that were recorded of it"
    commands.add("verify", text, "SUITE [options]", "suite").take("suite SUITE", "folder of a finished suite")


def _add_evaluate(commands: Commands) -> None:
    text = "say what each edit does to your model, with certainty, from its answers"
    usage = "SUITE (--model M | --predictions F) [options]"
    options = commands.add("evaluate", text, usage, "suite --model model.onnx --max-drop weather=5")
    options.take("suite SUITE", "folder of a finished suite")
    options.take_models(
        "run it: an .onnx or .xml file, module:callable, or a name after timm:, torchvision:, hf:, clip: or "
        "ultralytics:; its answers are kept in SUITE/predictions. Given twice, the second is compared with the first",
        "or its answers: a table with image (a file_name of metadata.parquet) and prediction, originals and controls "
        "too, and p_true, confidence, top5 where there are; scores in an .npy; a folder of masks by file_name",
    )
    options.take_asking(
        "how pictures become the model's input: 'resize=256 crop=224 mean=imagenet std=imagenet', or a "
        "preprocessor_config.json (the model's own); once for all, or once for each --model",
    )
    _add_classes(options)
    options.take_groups()
    limits = options.group("limits")
    text = "the most that an edit's type, value or a class may cost, such as weather=5; broken when that is certain"
    limits.take("--max-drop NAME=POINTS", text, action="append", default=[])
    text = "the most that the second model may lose to the first, on originals, controls, variants and each type"
    limits.take("--max-regression POINTS", text)
    limits.take("--fail-under PERCENT", "the least that variants must reach")
    output = options.group("output")
    output.flag("--all", "show every value and class, not only the worst")
    text = "show a table or figure of the papers instead, of all models given: %(choices)s"
    output.take("--table NAME", text, choices=PAPER_TABLES)
    output.take("--failures FILE", "write the pictures that your model fails on, CSV")
    text = "write all variants in the order to look at them, CSV: what shows a failure that none before it shows"
    output.take("--order FILE", text)
    output.take("--junit FILE", "write the limits' outcome as JUnit XML")


def _add_classes(options: CommandOptions) -> None:
    options.take(
        "--classes FILE",
        "names of masks' classes (those of the record), or of all that your classifier knows, by its numbers; "
        "imagefolder: numbers are of sorted class folders",
    )


def _add_report(commands: Commands) -> None:
    text = "make the web page and the contact sheet of a suite"
    options = commands.add("report", text, "SUITE [options]", "suite --predictions answers.csv --out report")
    options.take("suite SUITE", "folder of a finished suite")
    options.take_models(
        "show what this model answers: as in evaluate; given twice, the second, compared with the first",
        "show what your model answered: a file or folder for evaluate",
    )
    options.take_asking()
    _add_classes(options)
    options.take_groups()
    options.take("--profile", "name or .toml file: whose edges to show (the suite's own)")
    options.take("--valid FILE", "which variants are valid, for the curves of thresholds: as in check")
    output = options.group("output")
    output.take("--out DIR", "folder of the report (SUITE/report)")
    output.flag("--no-edges", "show no edges, which the suite does not hold")
    output.take("--limit N", "sources on the page (%(default)s)", default=2000)
    output.take("--single-file FILE", "write a page that holds its pictures, small enough to mail")
    output.take("--markdown FILE", "write findings and effects for a pull request, in Markdown")


def _add_labelling(commands: Commands) -> None:
    text = "write text edits for people to label, or say what their labels say"
    usage = "(SUITE --write FILE | FILE) [options]"
    options = commands.add("edits", text, usage, "suite --write edits.csv", "edits.edits")
    options.take("path SUITE|FILE", "a suite whose edits to write, or a table of labelled edits")
    options.take("--write FILE", "the table to write: .csv or .jsonl")
    options.take("--sample N", "this many of them, drawn by chance (all)")
    options.take("--seed N", "which ones are drawn (%(default)s)", type=seed, default=0)
    options.take("--profile", "name or .toml file whose text filters to judge (as they were when written)")


def _add_retrain(commands: Commands) -> None:
    text = "train your model on a suite's variants, and say what that brings"
    usage, example = "SUITE --model M --out DIR [options]", "suite --model timm:resnet18 --out r"
    options = commands.add("retrain", text, usage, example, "retrain.retrain")
    options.take("suite SUITE", "folder of a finished suite")
    text = "train it: a name after timm: or torchvision:, or module:callable, a torch module or what makes one"
    options.take("--model MODEL", text, required=True)
    options.take("--out DIR", "folder of checkpoints, models and their answers", required=True)
    text = "how: dillema-resnet18, dillema-deeplabv3, fine-tune, or a .toml file (%(default)s)"
    options.take("--recipe NAME|FILE", text, default="fine-tune")
    options.take("--epochs N", "rounds over all pictures (the recipe's)")
    judged = options.group("what judges")
    judged.take("--held SHARE", "the share of sources that are held out of the training (0.25)")
    judged.take("--test SUITE", "or another suite; all of SUITE then trains")
    judged.take_groups()
    judged.take("--seeds N", "trainings from so many seeds (%(default)s)", default=3)
    judged.take("--seed N", "the first of them (%(default)s)", type=seed, default=0)
    options.take("--device NAME", "auto, cpu, cuda or cuda:N (%(default)s)", default="auto")


def _add_predicts(commands: Commands) -> None:
    text = "say whether what painted edits do to models predicts what real conditions do"
    usage, example = "SUITE --real FILE --model M --model M ...", "suite --real real.csv --model a.onnx --model b.onnx"
    options = commands.add("predicts", text, usage, example, "predicts.predicts")
    options.take("suite SUITE", "folder of a finished suite")
    options.take(
        "--real FILE",
        "real pictures: a table with image, label or mask, condition ('weather: rainy'; empty on a plain day) and "
        "place, within which they are compared",
        required=True,
    )
    options.take_models("ask it about both, as in evaluate; four models or more", required=True)
    options.take_asking()
    options.take("--classes FILE", "what the models' numbers mean: as in evaluate")
