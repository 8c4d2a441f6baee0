"""Decoding against transformers' `generate` on a small OPT, and each rule alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_blip2 import EOS as END
from tiny_blip2 import WORDS, tiny_blip2
from transformers import OPTForCausalLM

from counterfactory.engine.models.decoding import decode
from counterfactory.engine.profile.caption import DecodingSettings

GREEDY = DecodingSettings("greedy", 1, 1.0, 1.0, 0, 8, 1.0, 1.0)
BEAM = replace(GREEDY, mode="beam", beams=3)
NUCLEUS = replace(GREEDY, mode="nucleus", top_p=0.9)


@pytest.fixture(scope="module")
def opt() -> OPTForCausalLM:
    return tiny_blip2().language_model


class Rows:
    """Rows of token ids that a model continues without a cache: slow and obvious."""

    def __init__(self, model: OPTForCausalLM, prompt: list[list[int]]) -> None:
        self.model, self.ids = model, np.array(prompt)

    def logits(self) -> np.ndarray:
        with torch.no_grad():
            return self.model(torch.from_numpy(self.ids)).logits[:, -1].numpy()

    def advance(self, tokens: np.ndarray, parents: np.ndarray) -> np.ndarray:
        self.ids = np.concatenate([self.ids[parents], tokens[:, None]], axis=1)
        return self.logits()


def ours(model: OPTForCausalLM, prompt: list[int], how: DecodingSettings, seed: int = 0) -> list[int]:
    rows = Rows(model, [prompt] * how.beams)
    return decode(rows.logits(), rows.advance, how, prompt, END, [np.random.default_rng(seed)])[0]


def theirs(model: OPTForCausalLM, prompt: list[int], how: DecodingSettings) -> list[int]:
    ids = torch.tensor([prompt])
    asked: Any = {"num_beams": how.beams, "min_new_tokens": how.min_tokens, "max_new_tokens": how.max_tokens}
    asked |= {"repetition_penalty": how.repetition_penalty, "length_penalty": how.length_penalty}
    asked |= {"no_repeat_ngram_size": how.no_repeat_ngram, "early_stopping": how.early_stopping}
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **asked)[0, len(prompt) :].tolist()
    return out[: out.index(END)] if END in out else out


hows = st.builds(
    replace,
    st.sampled_from([GREEDY, BEAM, replace(BEAM, beams=2), replace(BEAM, beams=5)]),
    min_tokens=st.sampled_from([0, 3]),
    max_tokens=st.sampled_from([4, 9]),
    repetition_penalty=st.sampled_from([1.0, 1.5]),
    length_penalty=st.sampled_from([1.0, 0.0, -1.0, 2.0]),
    no_repeat_ngram=st.sampled_from([0, 1, 2, 3]),
)
# In a beam search alone.
hows = st.one_of(hows, hows.filter(lambda how: how.mode == "beam").map(lambda how: replace(how, early_stopping=True)))


@settings(max_examples=100)
@given(prompt=st.lists(st.integers(3, WORDS - 1), min_size=2, max_size=5), how=hows)
def test_writes_what_transformers_writes(opt: OPTForCausalLM, prompt: list[int], how: DecodingSettings) -> None:
    assert ours(opt, [0, *prompt], how) == theirs(opt, [0, *prompt], how)


@settings(max_examples=20)
@given(
    prompts=st.lists(st.lists(st.integers(3, WORDS - 1), min_size=3, max_size=3), min_size=2, max_size=4),
    how=st.sampled_from([GREEDY, BEAM, NUCLEUS]),
)
def test_a_text_does_not_depend_on_its_neighbours(opt: Any, prompts: list[list[int]], how: DecodingSettings) -> None:
    rows = Rows(opt, [prompt for prompt in prompts for _ in range(how.beams)])
    generators = [np.random.default_rng(i) for i in range(len(prompts))]
    together = decode(rows.logits(), rows.advance, how, [], END, generators)
    for i, prompt in enumerate(prompts):
        alone = Rows(opt, [prompt] * how.beams)
        assert decode(alone.logits(), alone.advance, how, [], END, [np.random.default_rng(i)])[0] == together[i]


def test_the_end_comes_from_the_logits_and_not_only_from_the_length(opt: OPTForCausalLM) -> None:
    lengths = {len(ours(opt, [0, a, b], GREEDY)) for a in range(3, 9) for b in range(3, 9)}
    assert len(lengths) > 2


def fixed(probabilities: list[float]) -> tuple[np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """The same probabilities at every step."""
    logits = np.log(np.array([probabilities], np.float32))
    return logits, lambda _tokens, _parents: logits


def test_nucleus_draws_by_probability_within_the_nucleus_and_never_outside() -> None:
    logits, advance = fixed([0.1, 0.15, 1e-9, 0.3, 0.45])
    how = replace(NUCLEUS, top_p=0.7, max_tokens=4000)
    (text,) = decode(logits, advance, how, [], END, [np.random.default_rng(5)])
    assert set(text) == {3, 4}
    assert np.mean(np.array(text) == 4) == pytest.approx(0.45 / 0.75, abs=0.03)


def test_a_nucleus_of_next_to_nothing_is_greedy_and_temperature_sharpens() -> None:
    logits, advance = fixed([0.1, 0.2, 1e-9, 0.3, 0.4])
    assert decode(logits, advance, replace(NUCLEUS, top_p=1e-6), [], END, [np.random.default_rng(5)]) == [[4] * 8]
    logits, advance = fixed([0.2, 0.2, 1e-9, 0.2, 0.4])
    how = replace(NUCLEUS, top_p=1.0, temperature=0.1, max_tokens=500)
    (text,) = decode(logits, advance, how, [], END, [np.random.default_rng(5)])
    assert np.mean(np.array(text) == 4) > 0.98


def test_no_three_tokens_come_twice_and_a_text_ends_where_all_would() -> None:
    """A picture of stripes says a stripe again and again; where each token would repeat, the text is over."""
    logits = np.log(np.array([[0.5, 0.3, 1e-9, 0.15, 0.05]] * 3, np.float32))
    how = replace(BEAM, max_tokens=40, no_repeat_ngram=3)
    (text,) = decode(logits, lambda *_: logits, how, [], END, [np.random.default_rng(0)])
    triples = [tuple(text[i : i + 3]) for i in range(len(text) - 2)]
    assert len(triples) == len(set(triples)) > 5
    (one,) = decode(logits, lambda *_: logits, replace(how, no_repeat_ngram=1, min_tokens=9), [], END, [])
    assert 0 < len(one) == len(set(one)) < 5
