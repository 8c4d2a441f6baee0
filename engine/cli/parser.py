"""argparse's parser, as the command wants it: one line of usage before an error, and the nearest word that there is.

It knows no command and no option.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


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


def add_preprocess(parser: Parser) -> None:
    """`--preprocess`, of a command that asks several models."""
    parser.add_argument(
        "--preprocess",
        action="append",
        default=[],
        metavar="WORDS",
        help="how pictures become its input: as in evaluate",
    )


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
