"""The GPU language model held against the real packages on a CPU; tests/exllama_standin.py says what stands in.

Unchecked here: the networks' arithmetic, the compiled kernels, and anything of speed.
"""

from __future__ import annotations

import gc
import inspect
import random
import sys
import unittest.mock
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exllama_standin import Forward, drawn, real_package, scores, write_model

from counterfactory.engine.errors import CounterfactoryError, TryAgainError
from counterfactory.engine.keys import content_key
from counterfactory.engine.language import grammar
from counterfactory.engine.language.chat import ChatPrompts, prompts_of
from counterfactory.engine.language.edit_types import edit_types
from counterfactory.engine.language.exllama import ExllamaLlm, _JobRow, open_exllama
from counterfactory.engine.language.exllamav2 import ExLlamaV2, filter_class
from counterfactory.engine.language.exllamav3 import ExLlamaV3, answer_filter
from counterfactory.engine.language.llm_request import LlmRequest, Prompt
from counterfactory.engine.language.token_filter import TokenFilter, allowed, read_vocabulary
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.rewrite import Backend, ExllamaSettings
from counterfactory.engine.schedule.residency import PlanCost, Residency

SETTINGS = ExllamaSettings(rows=4, cache="fp16", cache_tokens=16 * 256, temperature=0.0, top_p=0.85, seed=0)
TASK = "classify the vehicle in the image"
CAPTION = "a red car on a foggy street at night. brick buildings stand along the road."


def requests(count: int) -> list[LlmRequest]:
    """Questions with long shared beginnings; answers forced from end to end, hardly at all, and in between."""
    written, made = prompts_of("llama2"), []
    assert isinstance(written, ChatPrompts)
    weather, time = edit_types(("weather", "time"), ())
    words = ("at night", "foggy", "red car", "brick", "street", "road", "buildings", "along the road")
    for i in range(count):
        word, other, keep = words[i % len(words)], ("in the rain", "dawn", "été")[i % 3], ("car",)
        caption = f"{CAPTION} {i // 5} people."
        rewritten, listed = written.rewrite(TASK, keep, caption, [(word, other)]), words[: 2 + i % 4]
        kinds = (
            (written.proposals(TASK, weather, keep, caption), grammar.keywords_grammar(("weather", "time"), listed, 2)),
            (written.place(TASK, weather, keep, caption), grammar.values_grammar(("in the rain", "sunny", "snowy"))),
            (rewritten, grammar.edited_grammar(caption, [(word, other)])),
            (rewritten, grammar.text_grammar(9, "été")),
            (written.place(TASK, time, keep, caption), grammar.alternatives_grammar(word, 1)),
        )
        made.append(LlmRequest(*kinds[i % 5]))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llm") / "model")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.fixture
def exllamav2(gpu: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """ExLlamaV2, told that there is a GPU with flash attention."""
    package = real_package("exllamav2")
    monkeypatch.setattr("exllamav2.attn.has_flash_attn_with_paged", True)
    return package


@pytest.fixture
def exllamav3(gpu: None) -> Any:
    return real_package("exllamav3")


Opener = Callable[..., tuple[ExllamaLlm, Forward]]


def loaded_with(forward: Forward) -> Any:
    """What loads ExLlamaV2's model, but for the weights' way to a GPU: `forward` in their place."""

    def load(self: Any, cache: Any) -> None:
        self.cache_map = dict.fromkeys(range(self.config.num_hidden_layers), "cpu")
        cache.update_cache_tensors()
        self.forward_chunk = forward

    return load


@pytest.fixture
def opened(exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Opens ExLlamaV2; the model, and the forward pass."""

    def open_one(settings: ExllamaSettings = SETTINGS) -> tuple[ExllamaLlm, Forward]:
        forward = Forward()
        monkeypatch.setattr(exllamav2.ExLlamaV2, "load_autosplit", loaded_with(forward))
        return open_exllama(ExLlamaV2(settings), folder), forward

    inspect.signature(exllamav2.ExLlamaV2.load_autosplit).bind(None, None)
    return open_one


def permitted(llm: ExllamaLlm, prompt: Sequence[int], answer: TokenFilter) -> Any:
    """The scores of the tokens that may come next, of all others minus infinity."""
    row = scores([*prompt, *answer.tokens])[: llm.vocabulary.size]
    row[~allowed(answer.mask(), llm.vocabulary.size)] = -np.inf
    return row


def slow_answer(request: LlmRequest, llm: ExllamaLlm, random: Sequence[float] = ()) -> str:
    """One token after another, the likeliest of those allowed, or the drawn one."""
    vocabulary, settings, prompt = llm.vocabulary, llm.package.settings, llm.encode(request.prompt.text)
    answer = TokenFilter(vocabulary, request.grammar)
    while not answer.closed and len(answer.tokens) < request.max_tokens:
        row = permitted(llm, prompt, answer)
        if forced := answer.forced():
            token = forced[0]
        elif random:
            token = drawn(row, settings.temperature, settings.top_p, random[len(answer.tokens)])
        else:
            token = int(row.argmax())
        if token == vocabulary.end:
            break
        answer.accept(token)
    return answer.text


def test_answers_are_those_of_a_slow_loop(opened: Opener) -> None:
    llm, forward = opened()
    asked = requests(30)
    answers = llm.generate(asked)
    assert answers == [slow_answer(request, llm) for request in asked]
    for request, answer in zip(asked, answers, strict=True):
        assert request.grammar.allows(answer) or len(llm.vocabulary.tokens.tokenize_str(answer)) > 8
    assert sum(request.grammar.allows(a) for request, a in zip(asked, answers, strict=True)) >= 25
    assert max(forward.steps) == SETTINGS.rows, "rows are decoded together"
    said = sum(len(llm.vocabulary.tokens.tokenize_str(a)) for a in answers)
    assert sum(forward.steps) < 0.8 * said, "forced tokens take no step"
    assert llm.usage.generated_tokens == sum(forward.steps)
    prompt_tokens = sum(len(llm.encode(request.prompt.text)) for request in asked)
    assert sum(forward.read) < 0.7 * prompt_tokens, "shared beginnings are read once"
    assert llm.usage.prompt_tokens >= prompt_tokens


def test_a_long_forced_run_is_read_and_not_generated(opened: Opener) -> None:
    changes = [("dog", "cat"), ("foggy", "rainy"), ("brick", "stone")]
    request = LlmRequest(Prompt("", "", "<s>Write.\n"), grammar.edited_grammar(f"a dog. {CAPTION}", changes))
    llm, forward = opened()
    answer, steps = TokenFilter(llm.vocabulary, request.grammar), 0
    prompt = llm.encode(request.prompt.text)
    while not answer.closed:
        # Alone, two forced tokens are worth a pass; those before the first choice cost nothing.
        if (run := answer.forced()) and (len(run) > 1 or not answer.tokens):
            pass
        elif run:
            steps += 1
        else:
            run, steps = (int(permitted(llm, prompt, answer).argmax()),), steps + 1
        for token in run:
            answer.accept(token)
    assert llm.generate([request]) == [answer.text]
    assert forward.steps == [1] * steps
    assert steps < len(answer.tokens) / 2


def test_nothing_is_generated_after_the_last_choice(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left then is shorter than the rows that decode, so that no pass would pay for it, and none is made."""
    asked = [
        LlmRequest(Prompt("", "", f"<s>{i}.\n"), grammar.edited_grammar("a car.", [("car", other)]))
        for i, other in enumerate(("bus", "van", "cab", "jeep"))
    ]
    llm, forward = opened()
    answers = llm.generate(asked)
    assert answers == [slow_answer(request, llm) for request in asked]
    assert llm.usage.generated_tokens == sum(forward.steps)
    monkeypatch.setattr(_JobRow, "decided", False)
    llm, stepwise = opened()
    assert llm.generate(asked) == answers
    assert sum(forward.steps) <= sum(stepwise.steps) - 3


def test_random_numbers_belong_to_places_in_the_answer(opened: Opener) -> None:
    """Whatever the company, and its order."""
    warm = replace(SETTINGS, temperature=0.7, seed=3)
    llm, _ = opened(warm)
    asked = requests(10)
    slow = []
    for request in asked:
        seed = int(content_key("answer", request.prompt.text, request.grammar.pattern, 3)[:16], 16)
        numbers = random.Random(seed)
        slow.append(slow_answer(request, llm, [numbers.random() for _ in range(request.max_tokens)]))
    assert llm.generate(asked) == slow
    assert llm.generate(asked[::-1]) == slow[::-1]
    other, _ = opened(replace(warm, seed=4))
    assert other.generate(asked) != slow


@pytest.mark.parametrize(("likely", "temperature"), [(1, 0.0), (3, 0.7)])
def test_an_answer_longer_than_is_likely_goes_on_and_is_the_same(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, likely: int, temperature: float
) -> None:
    asked, settings = requests(15), replace(SETTINGS, temperature=temperature, seed=3)
    whole = opened(settings)[0].generate(asked)
    rooms: list[int] = []
    enqueue = ExllamaLlm.enqueue

    def counted(self: ExllamaLlm, tokens: Any, answer: Any, room: int, *rest: Any) -> Any:
        rooms.append(room)
        return enqueue(self, tokens, answer, room, *rest)

    monkeypatch.setattr(ExllamaLlm, "enqueue", counted)
    monkeypatch.setattr(LlmRequest, "likely_tokens", likely)
    llm, _ = opened(settings)
    assert llm.generate(asked) == whole
    assert any(room <= likely for room in rooms)
    assert any(room > likely for room in rooms), "some answer has to be longer than is likely"
    # Questions whose answers are forced throughout are no jobs at all.
    assert len(rooms) <= 6 * len(asked)


def test_as_many_rows_as_asked_for_find_pages(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting at the production profile's rows and cache: prompts of 290 tokens, 256 of them shared, and answers that
    may have 400 characters, of two bytes each.
    """
    profile = load_profile("a10g")
    assert profile.llm.exllama is not None
    settings = replace(profile.llm.exllama, cache="fp16", temperature=0.0)
    called = Forward.__call__

    def briefly(self: Forward, *args: Any, **kwargs: Any) -> Any:
        self.fails = len(self.steps) == 3  # whole answers would take minutes
        return called(self, *args, **kwargs)

    monkeypatch.setattr(Forward, "__call__", briefly)
    llm, forward = opened(settings)
    shared = "<s>" + "x" * 255
    text = grammar.text_grammar(profile.rewrite.max_chars_caption, "é")
    asked = [LlmRequest(Prompt(shared, "", f"{i:034d}"), text) for i in range(2 * settings.rows)]
    assert {len(llm.encode(request.prompt.text)) for request in asked} == {290}
    with pytest.raises(CounterfactoryError, match="failed on 64 requests"):
        llm.generate(asked)
    assert max(forward.steps) == settings.rows == 32


def test_a_failing_runtime_is_an_error_and_leaves_no_jobs(opened: Opener) -> None:
    llm, forward = opened()
    asked = requests(6)
    answers = llm.generate(asked)
    forward.fails = True
    changed = [LlmRequest(Prompt("", "", "<s>another " + request.prompt.text), request.grammar) for request in asked]
    with pytest.raises(TryAgainError, match=r"failed on 6 requests: CUDA out of memory\. Tried to allocate"):
        llm.generate(changed)
    forward.fails = False
    assert llm.generate(asked) == answers
    assert llm.generate([]) == []


def test_what_does_not_fit_is_refused(
    exllamav2: Any, opened: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, _ = opened()
    with pytest.raises(CounterfactoryError, match=r"does not fit 2048; lower \[rewrite\]"):
        llm.generate([LlmRequest(Prompt("", "", "<s>" + "x" * 3000), grammar.text_grammar(9))])
    with pytest.raises(CounterfactoryError, match=r"up to 32 rows well, got 33"):
        ExLlamaV2(ExllamaSettings(33, "q4", 4096, 0.0, 1.0, 0))

    def no_memory(self: Any, cache: Any) -> None:
        raise RuntimeError("Insufficient VRAM for model and cache")

    monkeypatch.setattr(exllamav2.ExLlamaV2, "load_autosplit", no_memory)
    with pytest.raises(CounterfactoryError, match=r"fp16 cache of 4096 tokens: Insufficient VRAM.*cache_tokens"):
        open_exllama(ExLlamaV2(SETTINGS), folder)


@pytest.mark.parametrize("made", [ExLlamaV2, ExLlamaV3])
def test_what_is_missing_is_named(made: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = made(SETTINGS)

    def says(message: str, model: Path = folder) -> None:
        with pytest.raises(CounterfactoryError, match=message):
            open_exllama(package, model)

    says(rf"no model for {package.name} \(config.json, tokenizer.json\)", folder / "none")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    says(rf"{package.name} needs an NVIDIA GPU and torch .* sees none")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "torch", None)
        says(rf"{package.name} needs torch \(.*pip install -r requirements/a10g")
    monkeypatch.setitem(sys.modules, package.name, None)
    says(rf"needs {package.name} \(.*pip install -r requirements/a10g\.txt")


@pytest.mark.parametrize("name", ["exllamav2", "exllamav3"])
def test_a_dropped_model_gives_everything_back(
    name: Backend, request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the journey's own way to drop it, Python's collector resting: all of it is gone when the next stage begins,
    and torch was asked for what it keeps.
    """
    package, done = request.getfixturevalue(name), list[str]()
    model = package.ExLlamaV2 if name == "exllamav2" else package.Model
    unload = model.unload

    def load_v3(self: Any) -> None:
        for layer in self.get_cache_layers():
            for one in layer.cache_layers:
                one.alloc(torch.device("cpu"))

    def unloaded(self: Any) -> None:
        unload(self)
        done.append("unloaded")

    load = ("load_autosplit", loaded_with(Forward())) if name == "exllamav2" else ("load", load_v3)
    monkeypatch.setattr(model, *load)
    monkeypatch.setattr(model, "unload", unloaded)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("emptied"))
    library = library_of(load_profile("a10g"))
    library = replace(library, llm=replace(library.llm, backend=name, model=str(folder), exllama=SETTINGS))
    costs = [PlanCost(plan, 1, 1.0) for plan in library.networks.plans]
    needs = {"caption": ("blip2_vision", "opt_decoder"), "rewrite": ("llm",)}
    models = ModelPool(library, Meter(lambda _: None), Residency(needs, costs, 2))
    models.enter("rewrite")
    llm = models.llm()
    assert isinstance(llm, ExllamaLlm)
    if name == "exllamav2":
        assert llm.generate(requests(5))
    cache = llm.package.generator.cache
    tensor = cache.key_states[0] if name == "exllamav2" else next(iter(cache.layers.values())).k
    held = [weakref.ref(one) for one in (llm.package.generator, llm.package.model, cache, tensor)]
    assert tensor.nbytes > 0
    del llm, cache, tensor
    gc.disable()
    try:
        models.enter("caption")
    finally:
        gc.enable()
    assert [one() is None for one in held] == [True] * 4
    assert done == ["unloaded", "emptied"]


def test_the_filter_overrides_what_exllamav2_calls(exllamav2: Any) -> None:
    from exllamav2.generator.filters import ExLlamaV2Filter

    made = filter_class()
    own = {name for name in vars(made) if not name.startswith("__")}
    for name in own:
        theirs, ours = (list(inspect.signature(getattr(c, name)).parameters) for c in (ExLlamaV2Filter, made))
        assert ours == theirs, name
    wanted = "clone begin feed next use_background_worker can_mask_logits prepare_logit_mask mask_logits"
    assert own == set(wanted.split())


def test_the_calls_of_exllamav2_bind(exllamav2: Any, opened: Opener) -> None:
    """Every class that the opening calls, watched by mocks that refuse what the real signatures refuse."""
    for cache, bits in (("fp16", ""), ("q8", "_Q8"), ("q4", "_Q4")):
        made = ExLlamaV2(replace(SETTINGS, cache=cache))  # type: ignore[arg-type]
        assert made.cache_class() is getattr(exllamav2, f"ExLlamaV2Cache{bits}")
    warm, greedy = (ExLlamaV2(replace(SETTINGS, temperature=t)).sampling() for t in (0.1, 0.0))
    assert (warm.temperature, warm.top_p, warm.top_k, warm.token_repetition_penalty) == (0.1, 0.85, 0, 1.0)
    assert (greedy.top_k, greedy.token_repetition_penalty) == (1, 1.0)
    with unittest.mock.patch("exllamav2.generator.ExLlamaV2DynamicGenerator", autospec=True) as generator:
        generator.return_value.max_seq_len = 2048
        opened()
    asked = generator.call_args.kwargs
    assert (asked["max_batch_size"], asked["paged"], asked["filter_background_eval"]) == (4, True, True)


@pytest.mark.parametrize("name", ["exllamav2", "exllamav3"])
def test_special_tokens_of_a_prompt_are_tokens_and_none_is_added(name: str, folder: Path) -> None:
    package = real_package(name)
    if name == "exllamav2":
        tokenizer = package.ExLlamaV2Tokenizer(package.ExLlamaV2Config(str(folder)))
    else:
        tokenizer = package.Tokenizer.from_config(package.Config.from_directory(str(folder)))
    opened = ExLlamaV2(SETTINGS)
    opened.tokenizer = tokenizer
    ids = ExllamaLlm(opened, read_vocabulary(folder / "tokenizer.json", 2)).encode("<s>[INST] a</s><s>[INST] b")
    assert [i for i in ids if i < 3] == [1, 2, 1]
    assert ids[0] == 1


def test_exllamav3s_filter_is_the_same_filter(exllamav3: Any, folder: Path) -> None:
    tokenizer = exllamav3.Tokenizer.from_config(exllamav3.Config.from_directory(str(folder)))
    vocabulary = read_vocabulary(folder / "tokenizer.json", 2)
    rng = np.random.default_rng(0)
    for request in requests(5):
        ours = TokenFilter(vocabulary, request.grammar)
        theirs = answer_filter(tokenizer, request.grammar.pattern, "")
        for place in range(200):
            mask = allowed(ours.mask(), vocabulary.size)
            bits = theirs.get_next_logit_mask().numpy()[0]
            assert np.array_equal(allowed(bits, vocabulary.size), mask)
            token = int(rng.choice(mask.nonzero()[0]))
            ours.accept(token)
            ended = theirs.feed(token)
            assert ended == ours.closed
            if ended:
                break
            if place == 5:  # as after a forced run: a new filter with the answer so far
                theirs = answer_filter(tokenizer, request.grammar.pattern, ours.text)


def test_the_calls_of_exllamav3_bind(exllamav3: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exllamav3.Model, "load", unittest.mock.create_autospec(exllamav3.Model.load))
    with unittest.mock.patch("exllamav3.Generator", autospec=True) as generator:
        llm = open_exllama(ExLlamaV3(ExllamaSettings(64, "q4", 4096, 0.0, 1.0, 0)), folder)
    asked = generator.call_args.kwargs
    assert (asked["max_batch_size"], asked["prefill_cooldown"]) == (64, 0)
    assert asked["shared_chunk_size"] == asked["max_chunk_size"]
    cache = generator.call_args.args[1]
    layer = next(iter(cache.layers.values()))
    assert (layer.k_bits, layer.v_bits, cache.max_num_tokens) == (4, 4, 4096)
    assert llm.package.max_length == 2048
    answer = TokenFilter(llm.vocabulary, grammar.Grammar("(?:ab|ac)d", 3))
    answer.follow_forced(1)
    job = llm.enqueue([5, 6, *answer.tokens], answer, 7, 8, 9)
    assert isinstance(job, exllamav3.Job)
    assert (job.max_new_tokens, job.identifier, job.stop_tokens) == (7, 9, {2})
    assert isinstance(job.sampler, exllamav3.GreedySampler)
    assert job.filters[0].eos_after_completed
    assert answer.tokens
    drawn_before = random.Random(8)
    for _ in answer.tokens:
        drawn_before.randint(0, (1 << 32) - 1)
    assert job.rng.getstate() == drawn_before.getstate()
    generator.return_value.enqueue.assert_called_once_with(job)
    assert isinstance(ExLlamaV3(replace(SETTINGS, temperature=0.1)).sampler(), exllamav3.TopPSampler)


def test_a_job_that_exllamav3_gives_up_is_an_error(exllamav3: Any, folder: Path) -> None:
    """It reports such a job without its name (`reap_failed_job`)."""
    from exllamav3.generator import Generator

    failed: list[dict[str, Any]] = []
    generator = unittest.mock.Mock(active_jobs=[])
    Generator.reap_failed_job(generator, unittest.mock.Mock(serial_number=1), RuntimeError("no memory"), failed)
    package = unittest.mock.Mock(settings=SETTINGS, max_length=2048)
    package.tokenizer.encode.return_value = torch.tensor([[1, 5]])
    package.generator.iterate.return_value = failed
    llm = ExllamaLlm(package, read_vocabulary(folder / "tokenizer.json", 2))
    with pytest.raises(CounterfactoryError, match="failed on 1 requests: no memory"):
        llm.generate([LlmRequest(Prompt("", "", "p"), grammar.values_grammar(("a", "b")))])
    package.generator.clear_queue.assert_called_once_with()
