"""The language model on a CPU against transformers, token by token, and its running batch against one row at a time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_llama import tiny_llama, tiny_tokenizer
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.english.words import spans
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language import llama as llama_module
from counterfactory.engine.language import openvino_llm, running_batch, token_filter
from counterfactory.engine.language.grammar import (
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    text_grammar,
    values_grammar,
)
from counterfactory.engine.language.llama import Llama, RowCache, calls_of
from counterfactory.engine.language.llm_request import LlmRequest, Prompt
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.language.token_filter import TokenFilter, TokenVocabulary, allowed
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.compiling import least_threads
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.export.language.llama_steps import write_llama
from counterfactory.export.language.llm import write_for_cpu
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.restore import restore_llm

WEIGHTS = load_profile("pocket").models.path
PROMPTS = PlainPrompts()
TASK = "classify the main vehicle in the image"
CAPTIONS = (
    "a red bus on a foggy street at night. brick buildings stand along the road. nobody is on the sidewalk.",
    "a cloudy street during the day with a green car and a white truck. there are glass buildings on both sides.",
    "an orange truck on a snowy street at sunset. two people are on the sidewalk.",
)
DAY, SUNSET = ("cloudy", "during the day", "green car"), ("snowy", "at sunset", "orange truck")
WORDS = (("foggy", "at night", "red bus"), DAY, SUNSET)


def questions() -> list[LlmRequest]:
    """All three questions about three captions, by turns: several of one caption stand apart."""
    asked = []
    for (caption, words), keep in itertools.product(zip(CAPTIONS, WORDS, strict=True), (("bus",), ())):
        grammar = keywords_grammar(STREET_TYPES, spans(caption, 3, keep), 4)
        asked.append(LlmRequest(PROMPTS.keywords(TASK, STREET_TYPES, keep, caption), grammar))
        for word in words:
            prompt = PROMPTS.alternatives(TASK, keep, caption, "weather", word)
            asked.append(LlmRequest(prompt, alternatives_grammar(word, 3)))
            changes = [(word, "rainy"), (next(other for other in words if other != word), "purple")]
            asked.append(LlmRequest(PROMPTS.rewrite(TASK, keep, caption, changes), edited_grammar(caption, changes)))
    return asked


@torch.no_grad()
def slow_answer(model: LlamaForCausalLM, tokenizer: Tokenizer, vocabulary: TokenVocabulary, request: LlmRequest) -> str:
    """transformers over the whole text again for every token, the grammar's mask over its logits."""
    prompt = tokenizer.encode(request.prompt.text).ids
    answer = TokenFilter(vocabulary, request.grammar)
    while not answer.closed and len(answer.tokens) < request.max_tokens:
        if forced := answer.forced():
            answer.accept(forced[0])
            continue
        logits = model(torch.tensor([prompt + answer.tokens])).logits[0, -1].numpy()
        answer.accept(int(np.where(allowed(answer.mask(), len(logits)), logits, -np.inf).argmax()))
    return answer.text


@pytest.fixture(scope="module")
def llm() -> OpenVinoLlm:
    return OpenVinoLlm(WEIGHTS / "llm", precision="f32", threads=0)


@pytest.fixture(scope="module")
def together(llm: OpenVinoLlm) -> list[str]:
    """The answers to all questions at once."""
    return llm.generate(questions())


def test_every_answer_is_what_transformers_would_say(
    llm: OpenVinoLlm, together: list[str], packed_models: Path
) -> None:
    model, tokenizer = restore_llm(packed_models)
    asked = questions()[::4]
    expected = [slow_answer(model, tokenizer, llm._llama.vocabulary, request) for request in asked]
    assert len(set(expected)) > len(asked) // 2
    assert together[::4] == expected
    assert all(request.grammar.allows(answer) for request, answer in zip(asked, expected, strict=True))


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Llama]:
    """A small Llama whose queries share keys by twos, and its export, opened."""
    tokenizer = tiny_tokenizer()
    model = tiny_llama(tokenizer)
    folder = tmp_path_factory.mktemp("grouped")
    write_llama(model, tokenizer, 0, folder)
    return model, Llama(folder, precision="f32", threads=1)


@settings(max_examples=20)
@given(
    beginning=st.integers(0, 70),
    lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 7), st.integers(1, 5)), min_size=1, max_size=4),
    seed=st.integers(0, 9),
)
@torch.no_grad()
def test_logits_are_those_of_transformers_however_rows_are_cut(
    grouped: tuple[LlamaForCausalLM, Llama], beginning: int, lengths: list[tuple[int, int, int]], seed: int
) -> None:
    model, session = grouped
    rng = np.random.default_rng(seed)
    common = rng.integers(0, 250, beginning).tolist()
    rows = [[rng.integers(0, 250, n).tolist() for n in cut] for cut in lengths]
    cache, read = session.rows(len(rows), 1), np.zeros(len(rows), np.int64)
    held = session.beginning(common)
    for piece in range(3):  # the second one leaves some rows waiting
        runs = [row[piece] for row in rows]
        logits = session.step(runs, held, cache, 0, read) if any(runs) else None
        read += np.array([len(run) for run in runs])
        for i, row in enumerate(rows):
            if runs[i]:
                assert logits is not None
                text = [*common, *itertools.chain(*row[: piece + 1])]
                expected = model(torch.tensor([text])).logits[0, -1].numpy()
                assert np.abs(expected).max() > 0.5
                assert np.allclose(logits[i], expected, atol=1e-4 * np.abs(expected).max())


SURPRISING = ("a red car on a street", "a car", "", "a street in the rain, with a red bus and a car behind it", "a cat")


def test_a_text_is_as_surprising_as_transformers_loss_says(grouped: tuple[LlamaForCausalLM, Llama]) -> None:
    model, session = grouped
    (begun,), expected = session.encode(["A caption of a photograph:"]), []
    for text in SURPRISING:
        (tokens,) = session.encode([f" {text}"])
        labels = torch.tensor([[*[-100] * len(begun), *tokens]])
        with torch.no_grad():
            expected.append(float(model(torch.tensor([[*begun, *tokens]]), labels=labels).loss))
    found = session.surprises(SURPRISING)
    assert max(expected) - min(expected) > 0.5
    assert found == pytest.approx(expected, rel=1e-4)
    alone = [session.surprises([text])[0] for text in SURPRISING]
    assert alone == pytest.approx(found, rel=1e-5), "company changes nothing"
    assert session.surprises([]) == []


def test_any_rows_of_a_full_cache_can_go_on(grouped: tuple[LlamaForCausalLM, Llama]) -> None:
    session, rng = grouped[1], np.random.default_rng(5)
    common, runs = session.beginning([7, 8, 9]), [rng.integers(0, 250, 3).tolist() for _ in range(64)]
    cache = session.rows(64, 1)
    for first in (63, 47, 31, 15, 0):  # the last rows first: those that are rounded up to must not spoil others
        session.step(runs[first:], common, cache, first, np.zeros(64 - first, np.int64))
    for first in (0, 5, 15, 31, 47, 62, 63):
        again = session.step([[1]] * (64 - first), common, cache, first, np.full(64 - first, 3))
        alone = session.rows(1, 1)
        session.step([runs[first]], common, alone, 0, np.zeros(1, np.int64))
        expected = session.step([[1]], common, alone, 0, np.array([3]))
        assert np.allclose(again[0], expected[0], atol=1e-4)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_company_changes_no_answer(together: list[str], precision: str) -> None:
    """Nor does the number of threads; bf16 where the processor has it."""
    asked, kept = questions()[::2], resolve_precision("auto") if precision == "bf16" else "f32"
    alone = OpenVinoLlm(WEIGHTS / "llm", precision=kept, threads=1)
    expected = together[::2] if precision == "f32" else alone.generate(asked[::-1])[::-1]
    before = alone.usage
    assert alone.generate(asked) == expected
    used, before = alone.usage - before, alone.usage
    assert [alone.generate([request])[0] for request in asked] == expected
    assert alone.usage - before == used
    assert 0 < used.generated_tokens < used.prompt_tokens


def test_rows_come_and_go(llm: OpenVinoLlm, together: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, expected = questions()[:12], together[:12]
    for rows in (1, 3):
        monkeypatch.setattr(running_batch, "MAX_ROWS", rows)
        assert llm.generate(asked) == expected
    monkeypatch.setattr(running_batch, "_CACHE_BYTES", 1)
    assert llm.generate(asked[:4]) == expected[:4]
    llm.close()
    monkeypatch.setattr(openvino_llm, "_MAX_BEGINNINGS", 1)
    monkeypatch.setattr(token_filter, "_MAX_GRAMMARS", 1)
    assert llm.generate(asked) == expected


def test_what_the_grammar_forces_is_not_asked_for(llm: OpenVinoLlm) -> None:
    before = llm.usage
    request = LlmRequest(PROMPTS.rewrite(TASK, (), CAPTIONS[0], [("foggy", "clear")]), values_grammar([CAPTIONS[0]]))
    assert llm.generate([request]) == [f'["{CAPTIONS[0]}"]']
    assert (llm.usage - before).generated_tokens == 0
    assert (llm.usage - before).prompt_tokens > 50


def test_an_answer_ends_where_its_room_does_and_prompts_beyond_the_context_are_refused(llm: OpenVinoLlm) -> None:
    request = LlmRequest(Prompt("", "", "Say what you see.\n"), text_grammar(200))
    whole = llm.generate([request])[0]
    assert len(whole) > 20

    class Short(LlmRequest):
        max_tokens = 3  # type: ignore[assignment]

    cut = llm.generate([Short(request.prompt, request.grammar), request])
    assert cut[1] == whole
    assert whole.startswith(cut[0])
    assert len(cut[0]) < len(whole)
    with pytest.raises(CounterfactoryError, match=r"does not fit the language model's 1024; lower \[rewrite\]"):
        llm.generate([LlmRequest(Prompt("", "", "a red car " * 600), text_grammar(5))])


def test_folders_that_hold_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"lacks model\.xml, model\.bin, tokenizer\.json"):
        OpenVinoLlm(tmp_path, precision="f32", threads=1)
    for part in ("xml", "bin"):
        (tmp_path / f"model.{part}").write_bytes((WEIGHTS / f"vae_decoder.{part}").read_bytes())
    (tmp_path / "tokenizer.json").write_bytes((WEIGHTS / "llm" / "tokenizer.json").read_bytes())
    for _ in ("another network", "not a graph"):
        with pytest.raises(CounterfactoryError, match="no exported Llama"):
            OpenVinoLlm(tmp_path, precision="f32", threads=1)
        (tmp_path / "model.xml").write_text("not a graph")


def test_what_is_no_llama_or_has_biases_is_not_exported(tmp_path: Path) -> None:
    model = llama.build(300)
    model.config.attention_bias = True
    with pytest.raises(CounterfactoryError, match="no biases"):
        write_llama(model, llama.byte_tokenizer(["a"], 300), 0, tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(CounterfactoryError, match="no existing path and no hub id"):
        write_for_cpu(str(tmp_path / "none"), tmp_path / "llm")
    with pytest.raises(CounterfactoryError, match="cannot be read as a Llama"):
        write_for_cpu(str(tmp_path), tmp_path / "llm")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(CounterfactoryError, match="of type gpt2; only a Llama"):
        write_for_cpu(str(tmp_path), tmp_path / "llm")
    assert not (tmp_path / "llm").exists()


@given(
    lengths=st.lists(st.integers(0, 80), max_size=150),
    met=st.sets(st.tuples(st.integers(1, 20).map(lambda rows: 8 * rows), st.sampled_from((1, 2, 8, 48, 64)))),
)
def test_every_run_is_read_once_in_a_call_that_has_room(lengths: list[int], met: set[tuple[int, int]]) -> None:
    calls = calls_of(lengths, met)
    assert sorted(i for rows, _ in calls for i in rows) == [i for i, length in enumerate(lengths) if length]
    for rows, (count, width) in calls:
        assert len(rows) <= count
        assert max(lengths[i] for i in rows) <= width
        assert (count, width) in met or count * width <= max(1024, 8 * width)


def test_short_runs_do_not_pay_for_long_ones() -> None:
    assert [shape for _, shape in calls_of([1] * 60 + [70] * 2)] == [(8, 128), (64, 1)]
    assert [shape for _, shape in calls_of([2, 1, 4, 1])] == [(8, 4)], "few are cheaper together"
    assert [shape for _, shape in calls_of([30] * 70)] == [(32, 32), (32, 32), (8, 32)]
    assert [shape for _, shape in calls_of([1] * 20, {(32, 1), (64, 48)})] == [(32, 1)], "met before, but not too wide"
    # A shape that was missed often is prepared.
    assert calls_of([1] * 20, {(24, 4)}, {(24, 1): 72})[0][1] == (24, 4)
    assert calls_of([1] * 20, {(24, 4)}, {(24, 1): 150})[0][1] == (24, 1)


def test_rows_that_stay_alike_end_in_a_shape_of_their_own(grouped: tuple[LlamaForCausalLM, Llama]) -> None:
    session = grouped[1]
    common, cache = session.beginning([1] * 130), session.rows(20, 64)  # places of its own: no shape was met with them
    read, shapes = np.zeros(20, np.int64), list[list[tuple[int, int]]]()
    for length in (4, *[1] * 9):
        session.step([[5] * length] * 20, common, cache, 0, read)
        read += length
        shapes.append(sorted(session._met[64, 192]))
    assert shapes[1] == [(24, 4)], "one step of a token each reads in the room of four"
    assert shapes[-1] == [(24, 1), (24, 4)], "many have a call of their own"


def test_small_networks_take_one_thread_and_others_what_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(tiny_llama(tiny_tokenizer()), tiny_tokenizer(), 0, tmp_path)

    def threads(told: int) -> int:
        session = Llama(tmp_path, precision="f32", threads=told)
        return int(session._request.get_compiled_model().get_property("INFERENCE_NUM_THREADS"))

    assert threads(2) == 1
    monkeypatch.setattr(llama_module, "_SMALL", 0)
    assert threads(2) == min(2, os.cpu_count() or 1)


@pytest.mark.parametrize(("precision", "flags", "threads"), [("bf16", "avx amx_bf16", 2), ("f32", "amx_bf16", 1)])
def test_one_thread_is_too_few_for_bf16_where_there_are_tiles(
    precision: str, flags: str, threads: int, tmp_path: Path
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags\t\t: fpu {flags}\n\nprocessor: 1\n")
    assert least_threads(precision, tmp_path / "cpuinfo") == threads
    assert least_threads("bf16", tmp_path / "none") == 1


def test_rows_of_like_lengths_lie_side_by_side(llm: OpenVinoLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[list[int]] = []
    step = Llama.step

    def noted(self: Llama, runs: Sequence[Sequence[int]], *others: Any) -> Any:
        lengths.append(list(map(len, runs)))
        return step(self, runs, *others)

    monkeypatch.setattr(Llama, "step", noted)
    asked = [PROMPTS.rewrite(TASK, (), "a red car", [("red", "blue " * (1 + i % 5))]) for i in range(12)]
    llm.generate([LlmRequest(prompt, text_grammar(5)) for prompt in asked])
    assert lengths[0] == sorted(lengths[0], reverse=True)
    assert len(set(lengths[0])) > 1


@given(rows=st.integers(0, 3), before=st.integers(1, 70), places=st.integers(1, 200))
def test_a_cache_that_grows_holds_what_it_held(rows: int, before: int, places: int) -> None:
    filled = np.arange(3 * 2 * before * 4, dtype=np.uint16).reshape(3, 2, before, 4)
    filled[rows:] = 0
    cache = RowCache([filled.copy()])
    cache.grow(places, rows)
    (grown,) = cache.arrays
    assert grown.shape[2] >= max(places, before)
    assert np.array_equal(grown[:, :, :before], filled)
    assert not grown[:, :, before:].any()


def test_a_rows_logits_are_its_own_to_the_bit_in_bf16(tmp_path: Path) -> None:
    """Also where its call has another shape because of the others."""
    if resolve_precision("auto") != "bf16":
        pytest.skip("this processor does not multiply bf16")
    write_llama(tiny_llama(tiny_tokenizer()), tiny_tokenizer(), 0, tmp_path)
    session, rng = Llama(tmp_path, precision="bf16", threads=1), np.random.default_rng(5)
    lengths = [(rng.integers(1, 30), rng.choice([1, 2, 20])) for _ in range(21)]
    rows = [[rng.integers(0, 250, length).tolist() for length in both] for both in lengths]
    common = session.beginning([7, 8, 9])

    def read(some: list[list[list[int]]]) -> list[np.ndarray]:
        cache, empty = session.rows(len(some), 1), np.zeros(len(some), np.int64)
        held = np.array([len(row[0]) for row in some])
        first, second = ([row[i] for row in some] for i in (0, 1))
        return [session.step(first, common, cache, 0, empty), session.step(second, common, cache, 0, held)]

    together = read(rows)
    for some in ([20], [3, 0, 11], list(range(20, -1, -1))):
        for own, ours in zip(read([rows[i] for i in some]), together, strict=True):
            assert np.array_equal(own, ours[some])
    assert len({shape for shapes in session._met.values() for shape in shapes}) > 3


def test_a_users_llama_is_exported_and_answers_as_transformers_would(
    grouped: tuple[LlamaForCausalLM, Llama], tmp_path: Path
) -> None:
    model, tokenizer = grouped[0], tiny_tokenizer()
    model.config.eos_token_id = 0
    model.save_pretrained(tmp_path / "hub")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path / "hub")
    told = write_for_cpu(str(tmp_path / "hub"), tmp_path / "llm")
    assert 'backend = "openvino"' in told
    own = OpenVinoLlm(tmp_path / "llm", precision="f32", threads=0)
    for request in (
        LlmRequest(Prompt("", "", "a car"), text_grammar(8)),
        LlmRequest(Prompt("Keep: ", "a\nCaption: red\n", "Say"), values_grammar(["a", "b"])),
    ):
        assert own.generate([request]) == [slow_answer(model, tokenizer, own._llama.vocabulary, request)]
