"""The arguments of `counterfactory review`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .values import count, names, percent, positive, seed

if TYPE_CHECKING:
    from .parser import Parser

# Those of review/question_set.py and review/study.py; a test holds them to those.
SETS = ("dillema", "lance", "edits")
DRAWS = ("random", "gate", "uncertain", "misclassified")
SLICES = ("type", "value", "class")


def add_review_arguments(parser: Parser) -> None:
    """All but the suite."""
    parser.add_argument("--study", type=Path, metavar="FILE", help="the study's file (SUITE/review.sqlite)")
    study = parser.add_argument_group("a study, drawn once")
    study.add_argument(
        "--raters", type=names, default=(), metavar="A,B", help="who answers; each gets a link (reviewer)"
    )
    study.add_argument(
        "--questions", metavar="NAME|FILE", help=f"{', '.join(SETS)}, or a .toml file of your own (dillema)"
    )
    study.add_argument(
        "--draw",
        choices=DRAWS,
        help="accepted variants; rejected ones as well; those nearest to another verdict; those that the model fails "
        "on (random)",
    )
    study.add_argument("--by", choices=SLICES, help="as many of each edit type, value or class")
    study.add_argument("--sample", type=positive, metavar="N", help="how many variants (300)")
    study.add_argument("--per-picture", type=positive, metavar="N", help="raters of each (all, at most 5)")
    study.add_argument(
        "--checks",
        type=percent,
        metavar="PERCENT",
        help="so many pictures more whose answers are known, to find careless raters: controls, and pictures of "
        "another class (10%%)",
    )
    study.add_argument("--seed", type=seed, metavar="N", help="which ones are drawn (0)")
    study.add_argument(
        "--model", dest="models", action="append", metavar="MODEL", help="whose errors to ask about, or to correct"
    )
    study.add_argument(
        "--predictions",
        dest="models",
        action="append",
        type=Path,
        metavar="FILE",
        help="or its answers: as in evaluate",
    )
    study.add_argument("--preprocess", metavar="WORDS", help="how pictures become its input: as in evaluate")
    study.add_argument("--classes", type=Path, metavar="FILE", help="names of its numbers: as in evaluate")
    page = parser.add_argument_group("the page")
    page.add_argument("--port", type=count, default=8377, metavar="N", help="on 127.0.0.1, 0 for any (%(default)s)")
    page.add_argument(
        "--address", metavar="URL", help="how raters reach it through a proxy or a tunnel: https://review.example.org"
    )
    answers = parser.add_argument_group("answers")
    answers.add_argument("--import", dest="taken", type=Path, metavar="FILE", help="take a crowd's answers: .csv")
    answers.add_argument("--export", type=Path, metavar="FILE", help="write all answers, or what to ask: .csv")
    results = parser.add_argument_group("results")
    results.add_argument("--results", action="store_true", help="say what people answered")
    results.add_argument(
        "--agree", type=percent, default=0.8, metavar="PERCENT", help="the least share of a picture's raters (80%%)"
    )
    results.add_argument(
        "--without", type=names, default=(), metavar="A,B", help="leave raters out; careless: those who look so"
    )
    results.add_argument(
        "--follow",
        action="store_true",
        help="exclude what people call invalid and accept what they call valid, by hand: evaluate counts so; check "
        "--undo takes it back",
    )
