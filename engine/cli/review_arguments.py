"""The arguments of `counterfactory review`."""

from __future__ import annotations

from .parser import Commands
from .values import count, seed

# Those of review/question_set.py and review/study.py; a test holds them to those.
SETS = ("dillema", "lance", "edits")
DRAWS = ("random", "gate", "uncertain", "misclassified")
SLICES = ("type", "value", "class")


def add_review(commands: Commands) -> None:
    text = "let people say which pictures are valid, and what that makes of error rates"
    options = commands.add("review", text, "SUITE [options]", "suite --raters anna,ben --sample 100", "review.review")
    options.take("suite SUITE", "folder of a finished suite")
    options.take("--study FILE", "the study's file (SUITE/review.sqlite)")
    options.take_groups()
    study = options.group("a study, drawn once")
    study.take("--raters A,B", "who answers; each gets a link (reviewer)", default=())
    study.take("--questions NAME|FILE", f"{', '.join(SETS)}, or a .toml file of your own (dillema)")
    study.take(
        "--draw",
        "accepted variants; rejected ones as well; those nearest to another verdict; those that the model fails on "
        "(random)",
        choices=DRAWS,
    )
    study.take("--by", "as many of each edit type, value or class", choices=SLICES)
    study.take("--sample N", "how many variants (300)")
    study.take("--per-picture N", "raters of each (all, at most 5)")
    study.take(
        "--checks PERCENT",
        "so many pictures more whose answers are known, to find careless raters: controls, and pictures of another "
        "class (10%%)",
    )
    study.take("--seed N", "which ones are drawn (0)", type=seed)
    study.take_models("whose errors to ask about, or to correct", "or its answers: as in evaluate")
    study.take_asking()
    study.take("--classes FILE", "names of its numbers: as in evaluate")
    page = options.group("the page")
    page.take("--port N", "on 127.0.0.1, 0 for any (%(default)s)", type=count, default=8377)
    page.take("--address URL", "how raters reach it through a proxy or a tunnel: https://review.example.org")
    answers = options.group("answers")
    answers.take("--import FILE", "take a crowd's answers: .csv", dest="taken")
    answers.take("--export FILE", "write all answers, or what to ask: .csv")
    results = options.group("results")
    results.flag("--results", "say what people answered")
    results.take("--agree PERCENT", "the least share of a picture's raters (80%%)", default=0.8)
    results.take("--without A,B", "leave raters out; careless: those who look so", default=())
    results.flag(
        "--follow",
        "exclude what people call invalid and accept what they call valid, by hand: evaluate counts so; check --undo "
        "takes it back",
    )
