"""The GPU language model held against the real packages on a CPU; tests/exllama_standin.py says what stands in.

Unchecked here: the networks' arithmetic, the compiled kernels, and anything of speed.
"""

from __future__ import annotations

import inspect
import json
import sys
import unittest.mock
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: the language models for GPUs go unchecked")
pytest.importorskip("llguidance", reason="no llguidance: the language models for GPUs go unchecked")

import torch
from exllama_standin import Forward, drawn, extension, scores, write_model

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language import exllamav2 as v2
from counterfactory.engine.language import exllamav3 as v3
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.exllama import ExllamaLlm, ExllamaSettings
from counterfactory.engine.language.grammar import (
    Grammar,
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    text_grammar,
    values_grammar,
)
from counterfactory.engine.language.request import Prompt, Request
from counterfactory.engine.language.token_filter import TokenFilter, allowed, read_vocabulary

SETTINGS = ExllamaSettings(rows=4, cache="fp16", cache_tokens=16 * 256, temperature=0.0, top_p=0.85, seed=0)
TASK = "classify the vehicle in the image"
CAPTION = "a red car on a foggy street at night. brick buildings stand along the road."


def requests(count: int) -> list[Request]:
    """Questions with long shared beginnings; answers forced from end to end, hardly at all, and in between."""
    written, made = prompts_of("llama2"), []
    words = ("at night", "foggy", "red car", "brick", "street", "road", "buildings", "along the road")
    for i in range(count):
        word, other = words[i % len(words)], ("in the rain", "dawn", "été")[i % 3]
        kind = i % 5
        keep, caption = ("car",), f"{CAPTION} {i // 5} people."
        grammar: Grammar
        if kind == 0:
            prompt = written.keywords(TASK, ("weather", "time"), keep, caption)
            grammar = keywords_grammar(("weather", "time"), words[: 2 + i % 4], 2)
        elif kind == 1:
            prompt = written.alternatives(TASK, keep, caption, "weather", word, ("in the rain", "sunny"))
            grammar = values_grammar(("in the rain", "sunny", "snowy"))
        elif kind == 2:
            prompt = written.rewrite(TASK, keep, caption, [(word, other)])
            grammar = edited_grammar(caption, [(word, other)])
        elif kind == 3:
            prompt = written.rewrite(TASK, keep, caption, [(word, other)])
            grammar = text_grammar(9, "été")
        else:
            prompt = written.alternatives(TASK, keep, caption, "time", word)
            grammar = alternatives_grammar(word, 1)
        made.append(Request(prompt, grammar))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llm") / "model")


def real_package(name: str) -> Any:
    """The installed package over a compiled module that stands in."""
    sys.modules.setdefault(f"{name}_ext", extension(f"{name}_ext"))
    return pytest.importorskip(name, reason=f"no {name}: the engine's calls of it go unchecked", exc_type=ImportError)


@pytest.fixture
def exllamav2(monkeypatch: pytest.MonkeyPatch) -> Any:
    """ExLlamaV2, told that there is a GPU with flash attention."""
    package = real_package("exllamav2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("exllamav2.attn.has_flash_attn_with_paged", True)
    return package


def opened(exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, settings: ExllamaSettings = SETTINGS) -> Any:
    """`open_exllamav2` itself, but for the weights' way to a GPU; the model, and the forward pass in their place."""
    forward = Forward()

    def load(self: Any, cache: Any) -> None:
        self.cache_map = dict.fromkeys(range(self.config.num_hidden_layers), "cpu")
        cache.update_cache_tensors()
        self.forward_chunk = forward

    inspect.signature(exllamav2.ExLlamaV2.load_autosplit).bind(None, None)
    monkeypatch.setattr(exllamav2.ExLlamaV2, "load_autosplit", load)
    return v2.open_exllamav2(folder, settings), forward


def slow_answer(request: Request, llm: ExllamaLlm, random: Sequence[float] = ()) -> str:
    """One token after another, the likeliest of those allowed, or the drawn one."""
    vocabulary = llm.decoder.vocabulary
    prompt = llm.decoder.encode(request.prompt.text)
    answer = TokenFilter(vocabulary, request.grammar)
    while not answer.closed and len(answer.tokens) < request.max_tokens:
        forced = answer.forced()
        row = scores([*prompt, *answer.tokens])[: vocabulary.size]
        row[~allowed(answer.mask(), vocabulary.size)] = -np.inf
        place = len(answer.tokens)
        if forced:
            token = forced[0]
        elif random:
            token = drawn(row, llm.settings.temperature, llm.settings.top_p, random[place])
        else:
            token = int(row.argmax())
        if token == vocabulary.end:
            break
        answer.accept(token)
    return answer.text


def test_answers_are_those_of_a_slow_loop(exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm, forward = opened(exllamav2, folder, monkeypatch)
    asked = requests(30)
    answers = llm.generate(asked)
    assert answers == [slow_answer(request, llm) for request in asked]
    for request, answer in zip(asked, answers, strict=True):
        assert request.grammar.allows(answer) or len(llm.decoder.vocabulary.tokens.tokenize_str(answer)) > 8
    assert sum(request.grammar.allows(a) for request, a in zip(asked, answers, strict=True)) >= 25
    assert max(forward.steps) == SETTINGS.rows, "rows are decoded together"
    said = sum(len(llm.decoder.vocabulary.tokens.tokenize_str(a)) for a in answers)
    assert sum(forward.steps) < 0.8 * said, "forced tokens take no step"
    assert llm.usage.generated_tokens == sum(forward.steps)
    prompt_tokens = sum(len(llm.decoder.encode(request.prompt.text)) for request in asked)
    assert sum(forward.read) < 0.7 * prompt_tokens, "shared beginnings are read once"
    assert llm.usage.prompt_tokens >= prompt_tokens


def test_a_long_forced_run_is_read_and_not_generated(
    exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caption = "a dog. " + CAPTION
    request = Request(
        Prompt("", "", "<s>Write.\n"), edited_grammar(caption, [("dog", "cat"), ("foggy", "rainy"), ("brick", "stone")])
    )
    llm, forward = opened(exllamav2, folder, monkeypatch)
    answer, steps = TokenFilter(llm.decoder.vocabulary, request.grammar), 0
    prompt = llm.decoder.encode(request.prompt.text)
    while not answer.closed:
        # Alone, two forced tokens are worth a pass; those before the first choice cost nothing.
        if (run := answer.forced()) and (len(run) > 1 or not answer.tokens):
            pass
        elif run:
            steps += 1
        else:
            row = scores([*prompt, *answer.tokens])[: llm.decoder.vocabulary.size]
            row[~allowed(answer.mask(), llm.decoder.vocabulary.size)] = -np.inf
            run, steps = (int(row.argmax()),), steps + 1
        for token in run:
            answer.accept(token)
    assert llm.generate([request]) == [answer.text]
    assert forward.steps == [1] * steps
    assert steps < len(answer.tokens) / 2


def test_company_and_order_change_nothing(exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = ExllamaSettings(rows=4, cache="fp16", cache_tokens=16 * 256, temperature=0.7, top_p=0.85, seed=3)
    asked = requests(15)
    llm, _ = opened(exllamav2, folder, monkeypatch, warm)
    answers = llm.generate(asked)
    assert llm.generate(asked[::-1]) == answers[::-1]
    assert [llm.generate([request])[0] for request in asked] == answers
    other, _ = opened(exllamav2, folder, monkeypatch, ExllamaSettings(4, "fp16", 16 * 256, 0.7, 0.85, seed=4))
    assert other.generate(asked) != answers
    greedy, _ = opened(exllamav2, folder, monkeypatch)
    assert greedy.generate(asked) != answers


def test_random_numbers_belong_to_places_in_the_answer(
    exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    from counterfactory.engine.keys import content_key

    llm, _ = opened(exllamav2, folder, monkeypatch, ExllamaSettings(4, "fp16", 4096, 0.7, 0.85, seed=3))
    asked = requests(10)
    slow = []
    for request in asked:
        seed = int(content_key("answer", request.prompt.text, request.grammar.pattern, 3)[:16], 16)
        numbers = random.Random(seed)
        slow.append(slow_answer(request, llm, [numbers.random() for _ in range(request.max_tokens)]))
    assert llm.generate(asked) == slow


def test_a_failing_runtime_is_an_error_and_leaves_no_jobs(
    exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, forward = opened(exllamav2, folder, monkeypatch)
    asked = requests(6)
    answers = llm.generate(asked)
    forward.fails = True
    changed = [Request(Prompt("", "", "<s>another " + request.prompt.text), request.grammar) for request in asked]
    with pytest.raises(CounterfactoryError, match=r"failed on 6 requests: CUDA out of memory\. Tried to allocate"):
        llm.generate(changed)
    forward.fails = False
    assert llm.generate(asked) == answers
    assert llm.generate([]) == []


def test_what_does_not_fit_is_refused(exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm, _ = opened(exllamav2, folder, monkeypatch)
    with pytest.raises(CounterfactoryError, match=r"does not fit 2048; lower \[rewrite\]"):
        llm.generate([Request(Prompt("", "", "<s>" + "x" * 3000), text_grammar(9))])
    with pytest.raises(CounterfactoryError, match=r"up to 32 rows well, got 33"):
        v2.open_exllamav2(folder, ExllamaSettings(33, "q4", 4096, 0.0, 1.0, 0))
    with pytest.raises(CounterfactoryError, match=r"holds no model for exllamav2 \(config.json, tokenizer.json\)"):
        v2.open_exllamav2(folder / "none", SETTINGS)

    def no_memory(self: Any, cache: Any) -> None:
        raise RuntimeError("Insufficient VRAM for model and cache")

    monkeypatch.setattr(exllamav2.ExLlamaV2, "load_autosplit", no_memory)
    with pytest.raises(CounterfactoryError, match=r"fp16 cache of 4096 tokens: Insufficient VRAM.*cache_tokens"):
        v2.open_exllamav2(folder, SETTINGS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: what is said without one goes unchecked")
@pytest.mark.parametrize("opener", [v2.open_exllamav2, v3.open_exllamav3])
def test_without_a_gpu_it_is_said(opener: Any, folder: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"needs an NVIDIA GPU and torch .* sees none"):
        opener(folder, SETTINGS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 0}, "rows"),
        ({"cache_tokens": 1000}, "multiple of 256"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_settings_are_checked(changed: dict[str, Any], message: str) -> None:
    wanted = {"rows": 4, "cache": "q4", "cache_tokens": 4096, "temperature": 0.0, "top_p": 1.0, "seed": 0} | changed
    with pytest.raises(ValueError, match=message):
        ExllamaSettings(**wanted)


def test_the_filter_overrides_what_exllamav2_calls(exllamav2: Any, folder: Path) -> None:
    from exllamav2.generator.filters import ExLlamaV2Filter

    vocabulary = read_vocabulary(folder / "tokenizer.json", 2)
    made = v2.filter_class()
    own = set(vars(made)) - {"__init__", "__module__", "__doc__", "__qualname__"}
    own = {name for name in own if not name.startswith("__")}
    for name in own:
        theirs, ours = (list(inspect.signature(getattr(c, name)).parameters) for c in (ExLlamaV2Filter, made))
        assert ours == theirs, name
    wanted = "clone begin feed next use_background_worker can_mask_logits prepare_logit_mask mask_logits"
    assert own == set(wanted.split())

    start = TokenFilter(vocabulary, values_grammar(("in the rain", "on the road")))
    held = made("model", "tokenizer", start)
    assert (held.model, held.tokenizer, held.background_result) == ("model", "tokenizer", None)
    assert held.use_background_worker()
    assert not held.can_mask_logits(), "the first token is forced"
    tokens, ends = held.next()
    assert (len(tokens), ends) == (1, [2])
    while not held.can_mask_logits():
        held.feed(torch.tensor([[held.next()[0][0]]]))
    assert held.prepare_logit_mask() is True
    masked = held.mask_logits(torch.zeros(400))
    permitted = torch.isfinite(masked).nonzero().flatten().tolist()
    assert permitted == held.next()[0]
    assert 1 < len(permitted) < 20
    twin = held.clone()
    assert type(twin) is made
    assert twin.background_result is None
    twin.feed(torch.tensor([[permitted[0]]]))
    assert held.next()[0] == permitted
    held.begin("")
    assert held.next()[0] == tokens, "it begins anew"


def test_the_calls_of_exllamav2_bind(exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every class that the opening calls, watched by mocks that refuse what the real signatures refuse."""
    for cache, bits in (("fp16", ""), ("q8", "_Q8"), ("q4", "_Q4")):
        assert v2.cache_class(ExllamaSettings(4, cache, 256, 0.0, 1.0, 0)) is getattr(
            exllamav2, f"ExLlamaV2Cache{bits}"
        )
    warm, greedy = (v2.sampling(ExllamaSettings(4, "q4", 256, t, 0.85, 0)) for t in (0.1, 0.0))
    assert (warm.temperature, warm.top_p, warm.top_k, warm.token_repetition_penalty) == (0.1, 0.85, 0, 1.0)
    assert (greedy.top_k, greedy.token_repetition_penalty) == (1, 1.0)
    with unittest.mock.patch("exllamav2.generator.ExLlamaV2DynamicGenerator", autospec=True) as generator:
        generator.return_value.max_seq_len = 2048
        llm, _ = opened(exllamav2, folder, monkeypatch)
        asked = generator.call_args.kwargs
        assert (asked["max_batch_size"], asked["paged"], asked["filter_background_eval"]) == (4, True, True)
        generator.return_value.tokenizer = exllamav2.ExLlamaV2Tokenizer(exllamav2.ExLlamaV2Config(str(folder)))
        generator.return_value.model = None
        answer = TokenFilter(llm.decoder.vocabulary, Grammar("[ab]", 1))
        with unittest.mock.patch("exllamav2.generator.ExLlamaV2DynamicJob", autospec=True) as job:
            llm.decoder.enqueue([5, 6], answer, 7, 8, 9)
        assert job.call_args.args[0].tolist() == [[5, 6]]
        assert job.call_args.args[1] == 7
        assert job.call_args.kwargs["stop_conditions"] == [2]
        assert (job.call_args.kwargs["seed"], job.call_args.kwargs["identifier"]) == (8, 9)
        generator.return_value.enqueue.assert_called_once()


def test_special_tokens_of_a_prompt_are_tokens_and_none_is_added(
    exllamav2: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, _ = opened(exllamav2, folder, monkeypatch)
    ids = llm.decoder.encode("<s>[INST] a</s><s>[INST] b")
    assert [i for i in ids if i < 3] == [1, 2, 1]
    assert ids[0] == 1


# exllamav3


@pytest.fixture
def exllamav3(monkeypatch: pytest.MonkeyPatch) -> Any:
    package = real_package("exllamav3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return package


def test_exllamav3s_filter_is_the_same_filter(exllamav3: Any, folder: Path) -> None:
    tokenizer = exllamav3.Tokenizer.from_config(exllamav3.Config.from_directory(str(folder)))
    vocabulary = read_vocabulary(folder / "tokenizer.json", 2)
    rng = np.random.default_rng(0)
    for request in requests(5):
        ours = TokenFilter(vocabulary, request.grammar)
        theirs = v3.answer_filter(tokenizer, request.grammar.pattern, "")
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
                theirs = v3.answer_filter(tokenizer, request.grammar.pattern, ours.text)


def test_the_calls_of_exllamav3_bind(exllamav3: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exllamav3.Model, "load", unittest.mock.create_autospec(exllamav3.Model.load))
    with unittest.mock.patch("exllamav3.Generator", autospec=True) as generator:
        generator.return_value.model = unittest.mock.Mock(config=exllamav3.Config.from_directory(str(folder)))
        llm = v3.open_exllamav3(folder, ExllamaSettings(64, "q4", 4096, 0.0, 1.0, 0))
    asked = generator.call_args.kwargs
    assert (asked["max_batch_size"], asked["prefill_cooldown"]) == (64, 0)
    assert asked["shared_chunk_size"] == asked["max_chunk_size"]
    _, cache, tokenizer = generator.call_args.args
    layer = next(iter(cache.layers.values()))
    assert (layer.k_bits, layer.v_bits, cache.max_num_tokens) == (4, 4, 4096)
    assert llm.decoder.max_length == 2048

    generator.return_value.tokenizer = tokenizer
    decoder = v3.Decoder(generator.return_value, llm.decoder.vocabulary, SETTINGS)
    assert decoder.encode("<s>[INST] a")[0] == 1
    answer = TokenFilter(llm.decoder.vocabulary, Grammar("(?:ab|ac)d", 3))
    answer.accept(answer.forced()[0]) if answer.forced() else None
    job = decoder.enqueue([5, 6, *answer.tokens], answer, 7, 8, 9)
    assert isinstance(job, exllamav3.Job)
    assert (job.max_new_tokens, job.identifier, job.stop_tokens) == (7, 9, {2})
    assert isinstance(job.sampler, exllamav3.GreedySampler)
    assert job.filters[0].eos_after_completed
    generator.return_value.enqueue.assert_called_once_with(job)
    decoder.cancel(job)
    generator.return_value.cancel.assert_called_once_with(job)
    decoder.clear()
    generator.return_value.clear_queue.assert_called_once_with()
    warm = v3.sampler(ExllamaSettings(4, "q4", 256, 0.1, 0.85, 0))
    assert isinstance(warm, exllamav3.TopPSampler)


def test_a_job_that_exllamav3_gives_up_is_an_error(exllamav3: Any, folder: Path) -> None:
    """It reports such a job without its name (`reap_failed_job`)."""
    from exllamav3.generator import Generator

    failed: list[dict[str, Any]] = []
    generator = unittest.mock.Mock(active_jobs=[])
    Generator.reap_failed_job(generator, unittest.mock.Mock(serial_number=1), RuntimeError("no memory"), failed)
    decoder = unittest.mock.Mock(vocabulary=read_vocabulary(folder / "tokenizer.json", 2), max_length=2048)
    decoder.encode.return_value = [1, 5]
    decoder.iterate.return_value = failed
    with pytest.raises(CounterfactoryError, match="failed on 1 requests: no memory"):
        ExllamaLlm(decoder, SETTINGS).generate([Request(Prompt("", "", "p"), values_grammar(("a", "b")))])
    decoder.clear.assert_called_once_with()


def test_quantising_says_what_to_run(folder: Path, tmp_path: Path) -> None:
    from counterfactory.export.llm import Conversion

    conversion = Conversion(str(folder), tmp_path / "made" / "exl2", "exl2", 5.0)
    weights = sum(
        int(np.prod(tensor["shape"]))
        for name, tensor in _header(folder / "model.safetensors").items()
        if name != "__metadata__"
    )
    assert conversion.weights == weights
    with pytest.raises(CounterfactoryError) as told:
        conversion.run(lambda: False)
    said = str(told.value)
    assert "no NVIDIA GPU" in said
    assert "python -m counterfactory.export llm" in said
    assert f"-i {folder} -o {conversion.work} -cf {conversion.target} -b 5 -hb 6" in said
    empty = Conversion(str(tmp_path / "nothing"), tmp_path / "out", "exl3", 5.0)
    assert "lacks config.json, tokenizer.json, *.safetensors" in " ".join(empty.lacking(lambda: True))
    with pytest.raises(CounterfactoryError, match="from 2 to 8"):
        Conversion(str(folder), tmp_path / "x", "exl2", 9.0)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(CounterfactoryError, match="no safetensors file"):
        _ = Conversion(str(tmp_path / "bad"), tmp_path / "x", "exl2", 4.0).weights


def test_the_command_takes_its_target_from_the_profile(tmp_path: Path) -> None:
    import argparse

    from counterfactory.engine.config.profile import load_profile
    from counterfactory.export import llm

    parser = argparse.ArgumentParser()
    llm.add_arguments(parser)
    said = llm.run(parser.parse_args(["--dry-run"]))
    profile = load_profile("a10g")
    target = profile.models.path / profile.llm.model
    assert f"-i WEIGHTS -o {target}.work -cf {target} -b 5 -hb 6" in said
    assert "meta-llama/Llama-2-13b-chat-hf@" in said
    assert "fetches the weights (26 GB)" in said
    assert "18 GB of disk beside the source, of which 8.5 GB stay" in said
    other = ["--dry-run", "--format", "exl3", "--target", str(tmp_path / "made"), "--bits", "4.5"]
    assert f"-o {tmp_path / 'made'} -b 4.5 -hb 6" in llm.run(parser.parse_args(other))
    with pytest.raises(CounterfactoryError, match="which needs no quantising"):
        llm.run(parser.parse_args(["--profile", "pocket"]))


def _header(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    read: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return read


@pytest.mark.parametrize("form", ["exl2", "exl3"])
def test_the_converters_take_the_options(
    form: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own parsers, read from their sources: importing one of them runs it."""
    import argparse
    import ast
    import importlib.util

    from counterfactory.export.llm import PACKAGES, Conversion

    real_package(PACKAGES[form])
    name = {"exl2": "exllamav2.conversion.convert_exl2", "exl3": "exllamav3.conversion.convert_model"}[form]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
    ]
    parser = argparse.ArgumentParser()
    for call in calls:
        parser.add_argument(
            *[a.value for a in call.args if isinstance(a, ast.Constant)],
            **{
                k.arg: eval(ast.unparse(k.value))
                for k in call.keywords
                if k.arg in ("type", "action", "default", "nargs", "const")
            },
        )
    conversion = Conversion(str(folder), tmp_path / "out", form, 4.5)
    options = list(conversion.command[3:])
    read = parser.parse_args(options)
    assert (read.in_dir, read.bits, read.head_bits) == (str(folder), 4.5, 6)
    assert str(tmp_path / "out") in vars(read).values()
    assert str(conversion.work) in vars(read).values()
