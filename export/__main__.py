"""`python -m counterfactory.export`: `pocket` and `world` make the embedded models, `language` measures one of them and
`validity` the checks, `a10g` and `llm` make a GPU box's, `cpu` a CPU's of published weights, `sentence` the encoder of
`[grounding]`, `masked` the masked language model of `[random_words]`, `perturber` a language model tuned to edit;
`retrain` trains a user's model on a suite.

A command's modules are imported when it is asked for: `llm` runs on the box, which has none of the exporter's packages.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from counterfactory.engine.errors import CounterfactoryError

_DOCS = Path(__file__).parents[1] / "docs"
_COMMANDS = (
    "pocket",
    "validity",
    "language",
    "world",
    "a10g",
    "cpu",
    "facts",
    "llm",
    "sentence",
    "masked",
    "perturber",
    "retrain",
)


def main() -> None:
    """Run the command line; exits with 2 for what the user can mend, 1 where a graph is not what it should be."""
    parser = argparse.ArgumentParser(prog="python -m counterfactory.export", description=__doc__)
    commands = parser.add_subparsers(required=True)
    first = next(iter(sys.argv[1:]), "")
    for name in (first,) if first in _COMMANDS else _COMMANDS:
        _add(name, commands)
    asked = parser.parse_args()
    try:
        status = asked.run(asked, partial(print, flush=True))
    except CounterfactoryError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 2
    raise SystemExit(status)


def _add(name: str, commands: Any) -> None:
    """Add the command of that name."""
    if name == "pocket":
        _add_pocket(commands)
        return
    if name == "validity":
        from .pocket.validity import add_command
    elif name == "language":
        from .pocket.language import add_command
    elif name == "world":
        from .pocket.world import add_command
    elif name == "a10g":
        from .production.command import add_command
    elif name == "cpu":
        from .cpu import add_command
    elif name == "facts":
        from .production.facts import add_command
    elif name == "llm":
        from .language.llm import add_command
    elif name == "sentence":
        from .language.bert import add_sentence as add_command
    elif name == "masked":
        from .language.bert import add_masked as add_command
    elif name == "retrain":
        from .retraining.command import add_command
    else:
        from .language.perturber import add_command
    add_command(commands)


def _add_pocket(commands: Any) -> None:
    from .pocket.pack import FURTHER, STEPS

    parser = commands.add_parser("pocket", help="train the pocket models, export them, pack them")
    some = f"some of: {','.join(STEPS)}; with --weights also: {','.join(FURTHER)}"
    parser.add_argument("--only", default=",".join(STEPS), help=some)
    parser.add_argument("--report", action="store_true", help="measure the packed models into docs/pocket.json")
    work = "folder of training states; a run goes on from it"
    parser.add_argument("--work", type=Path, default=Path("pocket-training"), help=work)
    weights = "folder of the packed models, all in one (default: this checkout's, in two places)"
    parser.add_argument("--weights", type=Path, help=weights)
    parser.add_argument("--gather", type=Path, metavar="DIR", help="only copy this checkout's packed models to DIR")
    parser.add_argument("--docs", type=Path, default=_DOCS, help="folder of the report")
    parser.add_argument("--scenes", type=int, help="measure on so many scenes only; not for the report in docs")
    parser.add_argument("--rows", type=int, default=2, help="rows a variant of the denoiser that distil makes")
    parser.add_argument("--workers", type=int, default=0, help="processes that draw scenes beside the training")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of torch")
    parser.set_defaults(run=_pocket)


def _pocket(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    import torch

    from .pocket.pack import FURTHER, STEPS, Training
    from .pocket.packed import gather, put_back
    from .pocket.report import SCENES, Subject, table, write_report

    torch.set_num_threads(asked.threads)
    if asked.gather:
        gather(asked.gather)
        return 0
    training = Training(asked.work, asked.workers, asked.rows)
    weights = asked.weights or gather(asked.work / "packed")
    if asked.report:
        scenes = SCENES if asked.scenes is None else asked.scenes
        if scenes < SCENES and asked.docs.resolve() == _DOCS.resolve():
            asked_for = f"the report in docs is of {SCENES} scenes, {scenes} asked for"
            raise CounterfactoryError(f"{asked_for}; name another folder with --docs")
        say(table(write_report(Subject(weights, asked.work, scenes), asked.docs)))
        return 0
    names, steps = asked.only.split(","), STEPS | FURTHER
    unknown = sorted(set(names) - set(steps))
    if unknown:
        raise CounterfactoryError(f"no step {', '.join(unknown)}; there are {', '.join(steps)}")
    further = ", ".join(name for name in FURTHER if name in names)
    if further and not asked.weights:
        advice = "name a folder for it with --weights, filled by --gather"
        raise CounterfactoryError(f"the package does not hold what {further} makes; {advice}")
    weights.mkdir(parents=True, exist_ok=True)
    for name, step in steps.items():
        if name in names:
            step(training, weights)
    if not asked.weights:
        say(f"packed anew: {', '.join(put_back(weights)) or 'nothing'}")
    return 0


if __name__ == "__main__":
    main()
