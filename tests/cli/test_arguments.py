"""What the command line says before any command runs: help, the release, completion, and the nearest word."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from command_line import Command
from test_screens import COMMANDS

from counterfactory.engine.cli import arguments
from counterfactory.engine.cli.arguments import build_parser
from counterfactory.engine.report import paper_tables
from counterfactory.engine.sources.boxes import FORMS
from counterfactory.engine.sources.depth import DEPTH_VALUES
from counterfactory.engine.sources.layouts import LAYOUTS
from counterfactory.engine.tasks.task import TASKS


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_imports_no_library(command: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom counterfactory.engine.cli.process import run\n"
        f"sys.argv = ['counterfactory', *{command!r}, '--help']\n"
        "try:\n    run()\n"
        "finally:\n    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {*("numpy", "cv2", "pyarrow", "tokenizers", "openvino", "scipy", "PIL", "rich", "jinja2", "shtab"), "yaml"}
    heavy |= {"werkzeug"}
    loaded = set(done.stderr.split())
    assert "counterfactory" in loaded
    assert loaded & heavy == set()


def test_the_help_of_each_command_explains_all_and_its_example_is_a_command() -> None:
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert tuple(commands.choices) == COMMANDS
    for name, parser in commands.choices.items():
        assert all(action.help for action in parser._actions)
        example = (parser.epilog or "").splitlines()[-1].split()
        assert example[:2] == ["counterfactory", name]
        assert build_parser().parse_args(example[1:]).run


def test_choices_are_those_of_the_engine() -> None:
    assert (arguments.TASKS, arguments.DEPTH_VALUES, arguments.LAYOUTS) == (TASKS, DEPTH_VALUES, LAYOUTS)
    assert arguments.PAPER_TABLES == paper_tables.NAMES
    assert arguments.FORMS == FORMS


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("generat", "p"), "invalid choice: 'generat'; did you mean generate? (choose from demo, generate,"),
        (("generate", "p", "--varants", "2"), "there is no option --varants; did you mean --variants?"),
        (("generate", "p", "--out", "s", "--varants=2"), "there is no option --varants; did you mean --variants?"),
        (("evaluate", "s", "--prediction-s", "x"), "there is no option --prediction-s; did you mean --predictions?"),
        (("plan", "p", "--zzz"), "there is no option --zzz\n"),
        (("generate", "p", "--out", "s", "--task", "clasification"), "'clasification'; did you mean classification?"),
        (("generate", "p", "--out", "s", "--layout", "coc"), "invalid choice: 'coc'; did you mean coco?"),
        (("report", "a", "b"), "unrecognized arguments: b"),
        (("generate", "p"), "the following arguments are required: --out"),
    ],
)
def test_an_error_is_three_lines_with_the_command_s_usage(args: tuple[str, ...], told: str, run: Command) -> None:
    status, out, err = run(*args)
    assert (status, out, told in err) == (2, "", True)
    known = args[0] if args[0] in COMMANDS else "COMMAND"
    usage, error, more = err.splitlines()
    assert usage.startswith(f"usage: counterfactory {known} ")
    assert error.startswith("error: ")
    assert more == f"all options: counterfactory{'' if known == 'COMMAND' else ' ' + known} --help"


def test_the_beginning_of_an_option_and_what_follows_two_dashes_are_taken() -> None:
    assert build_parser().parse_args(["generate", "p", "--out", "s", "--var", "3"]).variants == 3
    assert str(build_parser().parse_args(["report", "--", "--strange"]).suite) == "--strange"


def test_the_release_is_the_installed_one(run: Command) -> None:
    assert run.text("--version") == f"counterfactory {version('counterfactory')}\n"


@pytest.mark.parametrize("shell", arguments.SHELLS)
def test_completion_knows_commands_and_options(shell: str, run: Command) -> None:
    pytest.importorskip("shtab", reason="the completion of a shell is not checked without shtab")
    script = run.text("--print-completion", shell)
    assert all(word in script for word in ("generate", "evaluate", "predictions", "classification"))
    if shell == "bash":
        files = set(re.findall(r"counterfactory_generate_(?:pos_0|__(\w+))_COMPGEN=_shtab_compgen_files", script))
        assert {"", "out", "profile", "class_map", "labels"} <= files
        assert "variants" not in files
