"""Claim: answers in a grammar, asked for all at once, come as fast as unconstrained text and faster than one by one.

The keywords question about rendered scenes is answered by the pocket model constrained in one batch, unconstrained in
one batch (to the same lengths), and constrained one at a time, each time about other scenes. Tokens a second are
compared; constrained answers must not depend on the batch. The last line is JSON: `ratio` is batched over one at a
time, `constrained_share` constrained over unconstrained.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino_genai
from measure import Ratio, finish

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.models.llm import Request, keywords_prompt
from counterfactory.engine.pocket.captions import describe
from counterfactory.engine.pocket.world import sample_scene
from counterfactory.engine.profile import load_profile
from counterfactory.engine.runtime.genai import GenaiLlm, open_pipeline
from counterfactory.engine.runtime.grammar import keywords_grammar
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.engine.stages.words import spans
from counterfactory.engine.task import builtin_task


@dataclass(frozen=True)
class Speed:
    """Answers, and generated tokens a second."""

    answers: list[str]
    tokens: int
    tokens_per_s: float


def questions(first: int, count: int) -> list[Request]:
    """The keywords question, the longest answered of the three, about scenes `first` to `first + count`."""
    profile, task = load_profile("pocket"), builtin_task("classification")
    requests = []
    for i in range(first, first + count):
        rng = np.random.default_rng((57, i))
        scene = sample_scene(rng)
        caption = describe(scene, rng)
        keep = task.protected(scene.label)
        grammar = keywords_grammar(
            STREET_TYPES, spans(caption, profile.rewrite.max_words_keyword, keep), profile.rewrite.max_keywords
        )
        requests.append(Request(keywords_prompt(task.sentence, STREET_TYPES, keep, caption), grammar))
    return requests


def constrained(llm: GenaiLlm, requests: Sequence[Request], at_once: int) -> Speed:
    """Answers, `at_once` requests a call."""
    before, began = llm.usage, time.perf_counter()
    answers: list[str] = []
    for start in range(0, len(requests), at_once):
        answers += llm.generate(requests[start : start + at_once])
    spent = time.perf_counter() - began
    tokens = (llm.usage - before).generated_tokens
    return Speed(answers, tokens, tokens / spent)


def unconstrained(pipeline: Any, prompts: Sequence[str], lengths: Sequence[int]) -> Speed:
    """`lengths` tokens after each prompt, whatever they say."""
    configs = []
    for length in lengths:
        config = openvino_genai.GenerationConfig()
        config.do_sample = False
        config.apply_chat_template = False
        config.max_new_tokens = length
        config.ignore_eos = True
        configs.append(config)
    began = time.perf_counter()
    results = pipeline.generate(list(prompts), configs)
    spent = time.perf_counter() - began
    return Speed([str(r.m_generation_ids[0]) for r in results], sum(lengths), sum(lengths) / spent)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    profile = load_profile("pocket")
    model = profile.models.path / "llm.gguf"
    precision = resolve_precision(profile.runtime.precision)
    llm, pipeline = GenaiLlm(model, precision=precision, threads=0), open_pipeline(model, precision, 0)
    tokenizer = pipeline.get_tokenizer()
    gains, shares, last = [], [], None
    for i in range(asked.rounds + 1):
        # Every call meets scenes of its own: no cache holds their prompts or grammars, as in a run.
        mine, free, alone = (questions((3 * i + k) * asked.questions, asked.questions) for k in range(3))
        batched = constrained(llm, mine, len(mine))
        lengths = [tokenizer.encode(a, add_special_tokens=False).input_ids.shape[1] + 1 for a in batched.answers]
        unbound = unconstrained(pipeline, [request.prompt for request in free], lengths)
        single = constrained(llm, alone, 1)
        assert constrained(llm, alone, len(alone)).answers == single.answers, "answers depend on the batch"
        if i:  # the first round warms up
            gains.append(batched.tokens_per_s / single.tokens_per_s)
            shares.append(batched.tokens_per_s / unbound.tokens_per_s)
        last = (batched, unbound, single)
    assert last is not None
    for name, speed in zip(("constrained, batched", "free, batched", "constrained, one by one"), last, strict=True):
        print(f"{name:24} {speed.tokens_per_s:8.0f} tokens/s ({speed.tokens} tokens)")
    ratio = Ratio(tuple(gains), last[2].tokens / last[2].tokens_per_s, last[0].tokens / last[0].tokens_per_s)
    share = float(np.median(shares))
    print(f"batched against one by one {ratio}")
    print(f"constrained against unconstrained {share:.2f} ({min(shares):.2f} to {max(shares):.2f})")
    finish("llm_batching", ratio, constrained_share=share, tokens_per_s=last[0].tokens_per_s)


if __name__ == "__main__":
    main()
