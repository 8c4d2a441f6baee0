"""A perturber: a Llama that is tuned to edit captions type by type, by a low-rank adapter (LANCE, arXiv 2305.19164).

    python -m counterfactory.export perturber SOURCE --captions captions.csv --style chatml --out FOLDER

SOURCE is what `export llm` takes. The adapter (Hu et al. 2021, arXiv 2106.09685) is LANCE's: rank 8, alpha 16, dropout
0.05, on queries, keys and values. It learns the engine's own questions about types of edits with their right answers
(typed_pairs.py), answers alone, and is merged into the weights, so that the engine opens the result as any Llama. Some
captions are held out, and how surprising their answers are is told by type before and after.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedTokenizerFast

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import open_whole
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import ChatPrompts, prompts_of
from counterfactory.engine.profile.profile import load_profile

from .answer_loss import answer_loss, encode_answers
from .llama_source import UserLlama, read_llama
from .llama_steps import write_llama
from .llm import fetch_llama
from .typed_pairs import TypedExercise, exercises, menu_pairs, read_captions, read_pairs, split, street_captions

_TARGETS = ("q_proj", "k_proj", "v_proj")
_STREETS = 300


@dataclass(frozen=True)
class Recipe:
    """How a perturber is tuned; the learning rate rises over the first tenth of the steps and falls to 0."""

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05
    rate: float = 3e-4
    batch: int = 8
    epochs: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rank", "alpha", "batch"):
            if getattr(self, name) < 1:
                raise CounterfactoryError(f"--{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1 or self.rate <= 0 or self.epochs <= 0:
            bounds = "--dropout is from 0 to below 1, --rate and --epochs are above 0"
            raise CounterfactoryError(f"{bounds}; got {self.dropout:g}, {self.rate:g} and {self.epochs:g}")


def batches(found: Sequence[TypedExercise], recipe: Recipe) -> list[list[TypedExercise]]:
    """The exercises of all steps: a batch is of one type, whose prompts begin alike; every epoch in another order."""
    steps, numbers = list[list[TypedExercise]](), random.Random(recipe.seed)
    one = list[list[TypedExercise]]()
    while len(steps) < recipe.epochs * len(one) or not one:
        by_type: dict[str, list[TypedExercise]] = defaultdict(list)
        for exercise in numbers.sample(list(found), len(found)):
            by_type[exercise.type].append(exercise)
        one = [some[i : i + recipe.batch] for some in by_type.values() for i in range(0, len(some), recipe.batch)]
        numbers.shuffle(one)
        steps += one
    return steps[: max(1, round(recipe.epochs * len(one)))]


def tune(
    llama: UserLlama,
    found: Sequence[TypedExercise],
    recipe: Recipe,
    say: Callable[[str], None],
    state: Path | None = None,
) -> None:
    """Tune the Llama's weights in place; with `state`, a file that is written every few steps, an interrupted run goes
    on as if it had not been. Raises CounterfactoryError without exercises, and for the state of another run.
    """
    if not found:
        raise CounterfactoryError("there is nothing to learn from: no pair is held to be an answer of the engine's")
    steps = batches(found, recipe)
    torch.manual_seed(recipe.seed)  # of the adapter's first numbers
    shape: dict[str, Any] = {"r": recipe.rank, "lora_alpha": recipe.alpha, "lora_dropout": recipe.dropout}
    config = LoraConfig(**shape, target_modules=list(_TARGETS), task_type="CAUSAL_LM")
    # peft puts its layers into the network that it is given: `llama.model` is the same with them.
    adapted = cast(PeftModel, get_peft_model(llama.model, config))
    parameters = [p for p in adapted.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, recipe.rate, weight_decay=0.0)
    adapted.train()
    run = content_key(json.dumps([asdict(recipe), [(one.prompt, one.answer) for one in found]]))
    start = _resume(state, run, parameters, optimiser) if state is not None and state.is_file() else 0
    began, losses = time.monotonic(), list[float]()
    for step, some in enumerate(steps[start:], start):
        torch.manual_seed(recipe.seed * 1_000_003 + step)  # of dropout
        share = min((step + 1) / max(1, len(steps) // 10), (len(steps) - step) / len(steps))
        optimiser.param_groups[0]["lr"] = recipe.rate * share
        head, rows, labels = encode_answers(llama.tokenizer, [(one.prompt, one.answer) for one in some], llama.end)
        with torch.autocast("cpu", torch.bfloat16):
            loss = answer_loss(llama.model, head, rows, labels) / int((labels >= 0).sum())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        if (step + 1) % 10 == 0 or step + 1 == len(steps):
            took = time.monotonic() - began
            say(f"step {step + 1} of {len(steps)}: {sum(losses) / len(losses):.3f} nats per token, {took:.0f} s")
            losses.clear()
            if state is not None:
                kept = {"run": run, "step": step + 1, "adapter": parameters, "optimiser": optimiser.state_dict()}
                with open_whole(state) as file:
                    torch.save(kept, file)
    adapted.merge_and_unload()
    llama.model.eval()


@torch.no_grad()
def _resume(state: Path, run: str, parameters: Sequence[torch.Tensor], optimiser: torch.optim.Optimizer) -> int:
    """Load what an interrupted run had learnt and give the steps that it had done."""
    kept = torch.load(state, weights_only=True)
    if kept["run"] != run:
        raise CounterfactoryError(f"{state} is of a run with another recipe or other pairs; remove it, or name another")
    for parameter, value in zip(parameters, kept["adapter"], strict=True):
        parameter.copy_(value)
    optimiser.load_state_dict(kept["optimiser"])
    return int(kept["step"])


@torch.no_grad()
def surprise(llama: UserLlama, found: Sequence[TypedExercise], batch: int) -> dict[str, float]:
    """How surprising right answers are, by type and of "all", in nats per token."""
    llama.model.eval()
    sums: dict[str, list[float]] = {type_: [0.0, 0] for type_ in (*(one.type for one in found), "all")}
    for type_ in list(sums)[:-1]:
        some = [one for one in found if one.type == type_]
        for i in range(0, len(some), batch):
            asked = [(one.prompt, one.answer) for one in some[i : i + batch]]
            head, rows, labels = encode_answers(llama.tokenizer, asked, llama.end)
            loss, tokens = float(answer_loss(llama.model, head, rows, labels)), int((labels >= 0).sum())
            for counted in (sums[type_], sums["all"]):
                counted[0] += loss
                counted[1] += tokens
    return {type_: total / tokens for type_, (total, tokens) in sums.items() if tokens}


def write_hub(llama: UserLlama, folder: Path) -> None:
    """Write the weights as the hub has them, for `export llm` to quantise."""
    llama.model.save_pretrained(folder)
    end = llama.tokenizer.id_to_token(llama.end)
    PreTrainedTokenizerFast(tokenizer_object=llama.tokenizer, eos_token=end).save_pretrained(folder)


def add_command(commands: Any) -> None:
    usual = Recipe()
    parser = commands.add_parser("perturber", help="tune a Llama to edit captions type by type, by a low-rank adapter")
    parser.add_argument("source", help="folder of the weights, a GGUF file, or ID@COMMIT")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the tuned Llama for OpenVINO")
    parser.add_argument("--hub", type=Path, metavar="DIR", help="its weights as the hub has them too, to be quantised")
    made = parser.add_mutually_exclusive_group()
    made.add_argument("--pairs", type=Path, metavar="FILE", help="typed pairs, CSV or JSONL (see typed_pairs.py)")
    made.add_argument("--captions", type=Path, metavar="FILE", help="captions with labels, edited by our phrases")
    made.add_argument("--streets", type=int, metavar="N", help=f"captions of N rendered streets ({_STREETS})")
    parser.add_argument("--profile", default="lance", help="whose [rewrite] and [llm] say how is asked (%(default)s)")
    parser.add_argument("--style", choices=("llama2", "chatml"), help="how SOURCE converses (the profile's)")
    parser.add_argument("--each", type=int, default=2, metavar="N", help="phrases per type and caption (%(default)s)")
    parser.add_argument("--held", type=float, default=0.2, metavar="SHARE", help="captions held out (%(default)s)")
    held = "write the captions that are held out (JSONL), for a bench"
    parser.add_argument("--held-captions", type=Path, metavar="FILE", help=held)
    parser.add_argument("--state", type=Path, metavar="FILE", help="kept every 10 steps; an interrupted run goes on")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what is printed as JSON")
    for name, value in asdict(usual).items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help="(%(default)s)")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    profile = load_profile(asked.profile)
    prompts = prompts_of(asked.style or profile.llm.style)
    if not isinstance(prompts, ChatPrompts):
        raise CounterfactoryError(f"profile {profile.name} asks no language model that converses: name --style")
    recipe = Recipe(**{name: getattr(asked, name) for name in asdict(Recipe())})
    if asked.pairs:
        pairs = read_pairs(asked.pairs)
    else:
        captions = read_captions(asked.captions) if asked.captions else street_captions(asked.streets or _STREETS)
        pairs = menu_pairs(captions, profile.rewrite.types, asked.each)
    found, left = exercises(pairs, profile.rewrite, prompts)
    learnt, held = split(found, asked.held)
    say(f"{len(pairs)} pairs: {len(learnt)} exercises to learn from, {len(held)} held out, {left} pairs left out")
    if asked.held_captions:
        abouts = dict.fromkeys(one.about for one in held)
        text = "".join(json.dumps(asdict(about), ensure_ascii=False) + "\n" for about in abouts)
        asked.held_captions.write_text(text, encoding="utf-8")
    llama = read_llama(fetch_llama(asked.source))
    before = surprise(llama, held, recipe.batch)
    tune(llama, learnt, recipe, say, asked.state)
    after = surprise(llama, held, recipe.batch)
    say(f"{'held out':<12}{'before':>8}{'after':>8}   nats per token of right answers")
    for type_, nats in before.items():
        say(f"{type_:<12}{nats:>8.3f}{after[type_]:>8.3f}")
    write_llama(llama.model, llama.tokenizer, llama.end, asked.out)
    if asked.hub:
        write_hub(llama, asked.hub)
    if asked.report:
        told = {"before": before, "after": after, "learnt": len(learnt), "held": len(held), "recipe": asdict(recipe)}
        asked.report.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    say(f'{asked.out} holds the tuned model; say [llm] backend = "openvino" and model = "{asked.out}"')
    return 0
