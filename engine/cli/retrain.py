"""`counterfactory retrain`: the training program that it starts, and what came of it.

The training is a program of its own, export/retraining: only there is torch imported, so that all else works without,
and a training that is killed takes nothing with it.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace

from ..api.options import Caller
from ..api.retraining import CALLED, HELD, Gain, Retraining, judge_drill, plan_drill
from ..errors import CounterfactoryError
from ..files.writing import place_below
from ..report.effects_text import interval, points
from ..report.table import Table, percent
from ..training.lesson import write_lesson
from ..training.recipe import load_recipe
from .exporting import COMMAND, missing_modules, run_program
from .terminal import Terminal

# What the training program imports.
NEEDS = ("torch", "accelerate", "safetensors")
# Libraries whose models are asked and not trained.
UNTRAINED = ("hf", "clip", "ultralytics")


def retrain(args: Namespace, terminal: Terminal) -> int:
    kind, colon, place = args.model.partition(":")
    if not (colon and place) or kind in UNTRAINED:
        raise CounterfactoryError(
            f"--model {args.model}: what trains is a name after timm: or torchvision:, or module:callable"
        )
    recipe = load_recipe(args.recipe)
    if args.epochs is not None:
        recipe = replace(recipe, rate=replace(recipe.rate, epochs=args.epochs))
    if args.test is not None and args.held is not None:
        raise CounterfactoryError("--held is of SUITE's own sources, and --test names another suite: give one of them")
    held = HELD if args.held is None else args.held
    if not 0 < held < 1:
        raise CounterfactoryError(f"--held is a share above 0 and below 1, got {held:g}")
    if missing := missing_modules(sys.executable, NEEDS):
        raise CounterfactoryError(
            f"retraining needs the package {missing[0]}, which is not installed: pip install 'counterfactory[retrain]'"
        )
    if place_below(args.out, args.suite)[1] is not None:
        raise CounterfactoryError(f"--out {args.out} lies in the suite, which stays as it is: name another folder")
    seeds = range(args.seed, args.seed + args.seeds)
    drill = plan_drill(args.suite, args.model, recipe, args.test, held, seeds, args.group_by)
    write_lesson(drill.lesson, args.out)
    run_program([sys.executable, *COMMAND, "retrain", str(args.out), "--device", args.device], terminal)
    with terminal.progress() as on_progress:
        outcome = judge_drill(drill, args.out, Caller.of(on_progress, terminal.warn))
    if drill.left_out:
        terminal.note(f"{drill.left_out} sources of {drill.suite} were trained on, and do not judge")
    terminal.show(gains_table(outcome))
    terminal.say(*(gain_line(gain, outcome.measure) for gain in outcome.gains))
    terminal.say(f"models     {args.out}")
    terminal.finish({"out": str(args.out), "left_out": drill.left_out, **outcome.to_json()})
    return 0


def gains_table(outcome: Retraining) -> Table:
    """DILLEMA's table of retraining, of held-out pictures."""
    originals, variants = outcome.trained
    seeds = "" if len(outcome.seeds) == 1 else f", mean of {len(outcome.seeds)} seeds"
    gaps, given = [gain.gap for gain in outcome.gains], outcome.given
    scores = [
        (gap.first, gap.second) if given is None else (given[at], gap.first, gap.second) for at, gap in enumerate(gaps)
    ]
    rows = tuple(
        (gap.name, *map(percent, its), points(gap.effect.value), interval(gap.effect))
        for gap, its in zip(gaps, scores, strict=True)
    )
    arms = [name for arm, name in CALLED.items() if arm != "given" or given is not None]
    return Table(
        f"DILLEMA, retraining: {outcome.measure} on {outcome.held} held-out sources{seeds}; trained on {originals} "
        f"originals, with {variants} variants",
        ("pictures", *arms, "points", "95 % interval"),
        rows,
    )


def gain_line(gain: Gain, measure: str) -> str:
    effect, name = gain.gap.effect, gain.gap.name
    if gain.certain or gain.harmful:
        verb = "gains" if gain.certain else "loses"
        return f"{name}: training with variants {verb} {100 * abs(effect.value or 0):.1f} points of {measure}"
    few = "too few sources" if len(gain.seeds) > 1 else "one seed says nothing of others, take --seeds 3"
    why = f"{points(effect.value)} ({interval(effect)})" if effect.low is not None else few
    return f"{name}: no gain is claimed: {why}"
