"""argparse's parser, as the command wants it: one line of usage before an error, the nearest word that there is, and
options whose values are of the kind that their help names.

It knows no command and no option.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from .values import drop, gigabytes, names, percent, place, points, positive, setting, share, span

if TYPE_CHECKING:
    from .terminal import Terminal

# What a value is, by the word that stands for it in help; any other word stands for a text.
KINDS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    dict.fromkeys(("FILE", "DIR", "SUITE", "SUITE|FILE", "PAIRS", "PYTHON"), Path)
    | {"SOURCES": place, "N": positive, "N|A..B": span, "A,B": names, "GB": gigabytes, "SHARE": share}
    | {"PERCENT": percent, "POINTS": points, "NAME=POINTS": drop, "KEY=X": setting}
)


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the nearest option or choice.

    `example` is a command line that its help ends with.
    """

    def __init__(self, *args: Any, example: str = "", **named: Any) -> None:
        named.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        named.setdefault("epilog", f"example:\n  {example}" if example else None)
        super().__init__(*args, **named)

    # argparse's own types let the namespace be any class, which nothing here uses.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but an option that is not known ends it here, where the command's own options are known."""
        given = None if args is None else list(args)
        if self._subparsers is None and given is not None:
            self._refuse_unknown(given)
        namespace, rest = super().parse_known_args(given, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return namespace, rest

    def error(self, message: str) -> NoReturn:
        """Print one line of usage and the message, and end with status 2."""
        usage = " ".join(self.format_usage().split())
        self.exit(2, f"{usage}\nerror: {message}\nall options: {self.prog} --help\n")

    def _refuse_unknown(self, args: Sequence[str]) -> None:
        options = [option for option in self._option_string_actions if option.startswith("--")]
        for word in args:
            if word == "--":
                return
            name = word.partition("=")[0]
            if name.startswith("--") and not any(option.startswith(name) for option in options):
                self.error(f"there is no option {name}{_nearest(name, options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            hint = _nearest(str(value), choices)
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint} (choose from {', '.join(choices)})")


@dataclass(frozen=True)
class CommandOptions:
    """The options of a command, or those under one heading of its help."""

    of: argparse._ActionsContainer

    def take(self, name: str, text: str, **more: Any) -> None:
        """One with a value: `name` is followed by the word that stands for that in help, `text` explains it. `more` is
        what argparse takes, such as another `type` than the word's.
        """
        name, _, word = name.partition(" ")
        self.of.add_argument(name, help=text, **({"metavar": word or None, "type": KINDS.get(word)} | more))

    def flag(self, name: str, text: str) -> None:
        """One without."""
        self.of.add_argument(name, action="store_true", help=text)

    def take_models(self, model: str, answers: str = "", **more: Any) -> None:
        """Models, by name or by their answers, in the order in which they are given."""
        self.take("--model MODEL", model, dest="models", action="append", **more)
        if answers:
            self.take("--predictions FILE", answers, dest="models", action="append")

    def take_asking(self, text: str = "how pictures become its input: as in evaluate") -> None:
        """How models are asked."""
        self.take("--preprocess WORDS", text, action="append", default=[])
        text = "which of its outputs is the answer, by its name; as often as --preprocess"
        self.take("--output NAME", text, action="append", default=[])
        self.flag("--fresh", "ask about all pictures, whatever answers are kept")

    def take_groups(self, default: str = "what SUITE was made with") -> None:
        """What of sources depends on each other."""
        text = (
            "which sources depend on each other and count as one: those with the same text in a column of the table, "
            "or in the parts in parentheses of a regular expression over paths, such as '(.+)_[0-9]+'; auto; none "
        )
        self.take("--group-by COLUMN|PATTERN|auto", f"{text}({default})")

    def group(self, title: str) -> CommandOptions:
        """Those under a heading."""
        return CommandOptions(self.of.add_argument_group(title))

    def either(self) -> CommandOptions:
        """Those of which one at most is given."""
        return CommandOptions(self.of.add_mutually_exclusive_group())


@dataclass(frozen=True)
class Commands:
    """The commands of a parser."""

    of: argparse._SubParsersAction[Parser]

    def add(self, name: str, text: str, usage: str, example: str, runs: str = "") -> CommandOptions:
        """A command with its line in the list, its usage, and an example, both without the words before them; `runs` is
        the function that does it, MODULE.FUNCTION, without one that of its name in `commands`.
        """
        parser = self.of.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            usage=f"counterfactory {name} {usage}",
            example=f"counterfactory {name} {example}",
        )
        parser.set_defaults(run=_late(*(runs or f"commands.{name}").split(".")))
        return CommandOptions(parser)


def _late(module: str, name: str) -> Callable[[argparse.Namespace, Terminal], int]:
    """The command `name` of a module that is imported when the command runs."""

    def run(args: argparse.Namespace, terminal: Terminal) -> int:
        command = getattr(import_module(f".{module}", __package__), name)
        # What is imported stays as long as the process: the collector need not walk it again and again.
        gc.freeze()
        status: int = command(args, terminal)
        return status

    return run


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
