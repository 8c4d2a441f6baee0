"""The language model on a GPU: continuous batching over ExLlama, answers constrained by grammars.

Through ExLlamaV3 it was run on one H100 (docs/gpu.json); ExLlamaV2 was not run on a GPU.

ExLlamaV2 and ExLlamaV3 differ in what they load and in how a job is made: a class each, in exllamav2.py and
exllamav3.py, with the same methods. The rest is the same and stands here. The generator shares the pages of common
prompt prefixes and forms the batches; what this loop adds is what only we know, the grammar:

- what is forced before the first choice stands in the prompt and is read, not generated;
- a long forced run amid an answer is read in the same way: the row leaves the batch and comes back as a prompt. Reading
  it passes over the weights once for one row, a decoding step about as long once for all rows; so it pays when more
  tokens are forced than there are rows;
- an answer of which only forced tokens are left takes them without the network, and leaves at once;
- the generator reserves pages of its cache for all that a job may write, so a job may write what is likely, not the
  longest answer there is: else pages run out at half of the rows. The few that reach it go on as another prompt, with
  room for all of the answer, so that nothing is cut off that would not be anyway.

Answers depend on prompt, grammar, settings and seed. Batches of other sizes round otherwise, so that on a GPU the same
question in other company may, rarely, get another answer.
"""

from __future__ import annotations

import gc
import random
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import CounterfactoryError, TryAgainError, lost_device
from ..keys import content_key
from ..runtime.installing import BOX, BOX_EXLLAMAV3, pip_install
from .exllamav2 import ExLlamaV2
from .exllamav3 import ExLlamaV3
from .llm_request import LlmRequest, Usage
from .token_filter import TokenFilter, TokenVocabulary, read_vocabulary

# What brings each package with the torch that it was compiled for.
INSTALL = MappingProxyType({"exllamav2": BOX, "exllamav3": BOX_EXLLAMAV3})

# Grammars compiled ahead of the rows that need them, while the GPU works (2 to 10 ms each).
_AHEAD = 16


def open_exllama(package: ExLlamaV2 | ExLlamaV3, folder: Path) -> ExllamaLlm:
    """Load the quantised model in `folder` onto the GPU. Raises CounterfactoryError for a missing model or package, no
    GPU, and when the model does not fit it.
    """
    existing_model(folder, package.name)
    _check_gpu(package.name)
    try:
        package.load(folder)
    except ImportError as error:
        raise CounterfactoryError(
            f"the language model needs {package.name} ({error}); "
            f"say: {pip_install(INSTALL[package.name])} (docs/a10g.md)"
        ) from error
    except (RuntimeError, AssertionError) as error:
        settings = package.settings
        raise CounterfactoryError(
            f"{package.name} cannot load {folder} with a {settings.cache} cache of {settings.cache_tokens} tokens: "
            f"{_reason(error)}; if it is memory, lower [llm.exllama] cache_tokens or take a q4 cache"
        ) from error
    return ExllamaLlm(package, read_vocabulary(folder / "tokenizer.json", package.tokenizer.eos_token_id))


def existing_model(folder: Path, package: str) -> Path:
    """The folder of a quantised model. Raises CounterfactoryError, with what to run, when it is not there."""
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    if missing or not any(folder.glob("*.safetensors")):
        raise CounterfactoryError(
            f"{folder} holds no model for {package} ({', '.join(missing) or 'no .safetensors'}); quantise one with "
            "'python -m counterfactory.export llm', or correct [llm] model"
        )
    return folder


def _check_gpu(package: str) -> None:
    try:
        import torch
    except ImportError as error:
        raise CounterfactoryError(
            f"{package} needs torch ({error}); say: {pip_install(INSTALL[package])} (docs/a10g.md), "
            'or decode on the CPU with [llm] backend = "openvino"'
        ) from error
    if not torch.cuda.is_available():
        raise CounterfactoryError(
            f"{package} needs an NVIDIA GPU and torch {torch.__version__} sees none; install torch's CUDA build and a "
            'driver, or decode on the CPU with [llm] backend = "openvino"'
        )


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@dataclass
class _JobRow:
    name: int
    request: LlmRequest
    prompt: list[int]
    answer: TokenFilter
    seed: int
    given: int = 0  # tokens of the answer that were forced and not generated
    job: Any = None

    @property
    def room(self) -> int:
        return self.request.max_tokens - len(self.answer.tokens)

    @property
    def reserved(self) -> int:
        """Tokens that its job may write: up to the likely length of an answer, and past it all there is room for."""
        likely = self.request.likely_tokens - len(self.answer.tokens)
        return min(likely, self.room) if likely > 0 else self.room

    @property
    def decided(self) -> bool:
        """Whether the grammar leaves one way to the end of the answer."""
        rest = self.answer.clone()
        rest.follow_forced(self.request.max_tokens)
        return rest.closed

    def follow_forced(self) -> None:
        """Take what is forced, as far as there is room for it."""
        self.given += len(self.answer.follow_forced(self.request.max_tokens))


@dataclass
class ExllamaLlm:
    """A quantised language model on a GPU: a package that has loaded it. `usage` counts the tokens of all calls so far.
    Tokens that were forced and not generated count as prompt tokens.
    """

    package: ExLlamaV2 | ExLlamaV3
    vocabulary: TokenVocabulary
    usage: Usage = field(default_factory=Usage)

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens; special tokens that it names ("<s>") are those tokens, and no BOS is added."""
        ids = self.package.tokenizer.encode(prompt, add_bos=False, encode_special_tokens=True)
        tokens: list[int] = ids[0].tolist()
        return tokens

    def enqueue(self, tokens: Sequence[int], answer: TokenFilter, room: int, seed: int, name: int) -> Any:
        """Begin to generate up to `room` tokens after `tokens`, which end with those of `answer`; the job. Its random
        numbers belong to places in the answer, wherever the job begins.
        """
        import torch

        ids = torch.tensor([tokens], dtype=torch.long)
        job = self.package.job(answer, ids, room, seed=seed, stop_conditions=[self.vocabulary.end], identifier=name)
        job.rng = random.Random(seed)
        for _ in answer.tokens:
            self.package.skip_draw(job.rng)
        self.package.generator.enqueue(job)
        return job

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        """The answer to each request, in order. One that was cut off is returned as it stands. Raises
        CounterfactoryError for a prompt that is too long for the cache, and when the runtime fails.
        """
        answers: dict[int, str] = {}
        open_rows: dict[int, _JobRow] = {}
        # Twice the rows wait inside the generator, so that a free one is taken at once; it looks through all that wait.
        ready = self._rows(requests)
        try:
            while len(answers) < len(requests):
                while len(open_rows) < 2 * self.package.settings.rows and (row := next(ready, None)) is not None:
                    self._start(row, open_rows, answers)
                if open_rows:
                    self._step(open_rows, answers)
        except (RuntimeError, AssertionError) as error:  # CUDA's errors are of the one kind, ExLlama's own of the other
            message = f"the language model failed on {len(requests)} requests: {_reason(error)}"
            if lost_device(str(error)):
                raise TryAgainError(f"{message}; run the same command again, what is done is kept") from error
            raise CounterfactoryError(message) from error
        finally:
            self.package.generator.clear_queue()
        return [answers[name] for name in range(len(requests))]

    def surprises(self, texts: Sequence[str]) -> list[float]:
        """Raises CounterfactoryError: the generators give tokens, no probabilities."""
        raise CounterfactoryError(
            'ExLlama tells no perplexity; say [rewrite] perplexity = false, or [llm] backend = "openvino"'
        )

    def close(self) -> None:
        """Give the GPU's memory back; no question can be asked afterwards.

        Model, cache and generator refer to each other, so that without the collector none would go. What torch has
        freed it keeps for itself, where no plan could have it.
        """
        import torch

        self.package.generator.clear_queue()
        self.package.unload()
        gc.collect()
        torch.cuda.empty_cache()

    def _rows(self, requests: Sequence[LlmRequest]) -> Iterator[_JobRow]:
        """The requests' rows in order, their grammars compiled in a thread of their own."""
        with ThreadPoolExecutor(1) as compiling:
            rows = (compiling.submit(self._row, name, request) for name, request in enumerate(requests))
            begun = deque(islice(rows, _AHEAD))
            try:
                while begun:
                    row = begun.popleft().result()
                    begun.extend(islice(rows, 1))
                    yield row
            finally:
                compiling.shutdown(cancel_futures=True)

    def _row(self, name: int, request: LlmRequest) -> _JobRow:
        prompt = self.encode(request.prompt.text)
        length = len(prompt) + request.max_tokens
        room = min(self.package.settings.cache_tokens, self.package.max_length)
        if length > room:
            raise CounterfactoryError(
                f"a prompt of {len(prompt)} tokens with {request.max_tokens} for its answer does not fit {room}; "
                "lower [rewrite] max_chars_caption or max_keywords, or raise [llm.exllama] cache_tokens"
            )
        answer = TokenFilter(self.vocabulary, request.grammar)
        key = content_key("answer", request.prompt.text, request.grammar.pattern, self.package.settings.seed)
        row = _JobRow(name, request, prompt, answer, int(key[:16], 16))
        row.follow_forced()
        return row

    def _start(self, row: _JobRow, open_rows: dict[int, _JobRow], answers: dict[int, str]) -> None:
        if row.answer.closed or row.room < 1:
            self._end(row, open_rows, answers)
            return
        tokens = [*row.prompt, *row.answer.tokens]
        row.job = self.enqueue(tokens, row.answer.clone(), row.reserved, row.seed, row.name)
        open_rows[row.name] = row

    def _step(self, open_rows: dict[int, _JobRow], answers: dict[int, str]) -> None:
        for result in self.package.generator.iterate():
            if "error" in result:  # exllamav3 ends one job and says why, without its name
                raise RuntimeError(str(result["error"]))
            row = open_rows.get(result["identifier"])
            if row is None or row.job is not result["job"]:
                continue
            if "token_ids" in result:
                for token in result["token_ids"].flatten().tolist():
                    row.answer.accept(token)
            if result["eos"] and result["eos_reason"] == "max_new_tokens":
                row.follow_forced()
                self._start(row, open_rows, answers)
            elif result["eos"]:
                self._end(row, open_rows, answers)
            elif row.answer.closed:
                self.package.generator.cancel(row.job)
                self._end(row, open_rows, answers)
            elif "token_ids" in result and (forced := row.answer.forced()):
                # Forced tokens cost less outside of the batch: nothing at the end, a pass if there are many.
                if len(forced) <= min(len(open_rows), self.package.settings.rows) and not row.decided:
                    continue
                left = row.job  # the new job first: a generator without any job puts its pages in order
                row.follow_forced()
                self._start(row, open_rows, answers)
                self.package.generator.cancel(left)

    def _end(self, row: _JobRow, open_rows: dict[int, _JobRow], answers: dict[int, str]) -> None:
        open_rows.pop(row.name, None)
        answers[row.name] = row.answer.text
        self.usage += Usage(len(row.prompt) + row.given, len(row.answer.tokens) - row.given)
