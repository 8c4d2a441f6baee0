"""Claim: answers in a grammar, asked for all at once, come as fast as unconstrained text and faster than one by one.

The keywords question about rendered scenes is answered by the pocket model: constrained in one running batch; without
a grammar, to the same lengths, in the same batch; and constrained one at a time; each time about other scenes. Tokens
of the answers per second are compared; constrained answers must not depend on the batch. The last line is JSON: `ratio`
is batched over one at a time, `constrained_share` constrained over unconstrained.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from measure import Rounds, Spent, finish, keep_quiet, now, ratio_of
from tokenizers import Tokenizer

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.english.words import spans
from counterfactory.engine.language.grammar import Grammar, keywords_grammar
from counterfactory.engine.language.llm_request import Llm, LlmRequest
from counterfactory.engine.language.open_llm import open_llm
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile


@dataclass(frozen=True)
class Speed:
    """Answers, their tokens, and what they took."""

    answers: list[str]
    tokens: int
    spent: Spent

    @property
    def per_token(self) -> Spent:
        """What is compared."""
        return self.spent / self.tokens


def questions(first: int, count: int) -> list[LlmRequest]:
    """The keywords question, the longest answered of the three, about scenes `first` to `first + count`."""
    profile, task = load_profile("pocket"), street_task("classification")
    requests = []
    for i in range(first, first + count):
        rng = np.random.default_rng((57, i))
        scene = EMBEDDED.sample(rng)
        caption = EMBEDDED.describe(scene, rng, True)
        keep = task.protected(scene.label)
        grammar = keywords_grammar(
            STREET_TYPES, spans(caption, profile.rewrite.max_words_keyword, keep), profile.rewrite.max_keywords
        )
        requests.append(LlmRequest(PlainPrompts().keywords(task.sentence, STREET_TYPES, keep, caption), grammar))
    return requests


def constrained(llm: Llm, tokenizer: Tokenizer, requests: Sequence[LlmRequest], at_once: int) -> Speed:
    """Answers, `at_once` requests a call; each with the token that closes it."""
    began = now()
    answers: list[str] = []
    for start in range(0, len(requests), at_once):
        answers += llm.generate(requests[start : start + at_once])
    return Speed(answers, sum(lengths(tokenizer, answers)), now() - began)


def lengths(tokenizer: Tokenizer, answers: Sequence[str]) -> list[int]:
    """Tokens of each answer, and one that closes it."""
    return [len(tokenizer.encode(answer).ids) + 1 for answer in answers]


def unconstrained(llm: Llm, requests: Sequence[LlmRequest], wanted: Sequence[int]) -> Speed:
    """Any text, of as many tokens as `wanted` unless the model ends it before."""
    free = [LlmRequest(r.prompt, Grammar(r"(?:.|\n)*", length - 1)) for r, length in zip(requests, wanted, strict=True)]
    before, began = llm.usage, now()
    answers = llm.generate(free)
    return Speed(answers, (llm.usage - before).generated_tokens, now() - began)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    profile = load_profile("pocket")
    models = profile.models.path
    llm = open_llm(models / profile.llm.model, profile.llm, profile.runtime)
    tokenizer = Tokenizer.from_file(str(models / profile.llm.model / "tokenizer.json"))
    wanted = [1] * asked.questions

    def answer(i: int) -> tuple[Speed, Speed, Speed]:
        """Batched, without a grammar, one by one."""
        nonlocal wanted
        # Every call meets scenes of its own: no cache holds their prompts or grammars, as in a run.
        mine, alone, free = (questions((3 * i + k) * asked.questions, asked.questions) for k in range(3))
        # Each goes first in every other round, and text without a grammar is as long as the answers before it.
        if i % 2:
            unbound, batched = unconstrained(llm, free, wanted), constrained(llm, tokenizer, mine, len(mine))
        else:
            batched, unbound = constrained(llm, tokenizer, mine, len(mine)), unconstrained(llm, free, wanted)
        wanted = lengths(tokenizer, batched.answers)
        single = constrained(llm, tokenizer, alone, 1)
        assert llm.generate(alone) == single.answers, "answers depend on the batch"
        return batched, unbound, single

    answer(0)  # warms up
    rounds = keep_quiet(lambda i: answer(i + 1), asked.rounds)
    ratio, bound = (
        ratio_of(Rounds(tuple((r[k].per_token, r[0].per_token) for r in rounds.results), rounds.kept, rounds.asked))
        for k in (2, 1)
    )
    names = ("constrained, batched", "free, batched", "constrained, one by one")
    for name, per_token in zip(names, (ratio.candidate, bound.baseline, ratio.baseline), strict=True):
        print(f"{name:24} {1 / per_token.wall_s:8.0f} tokens/s")
    print(f"batched against one by one {ratio}")
    print(f"constrained against unconstrained {bound}")
    finish(
        "llm_batching",
        ratio,
        constrained_share=bound.median,
        tokens_per_s=1 / ratio.candidate.wall_s,
    )


if __name__ == "__main__":
    main()
