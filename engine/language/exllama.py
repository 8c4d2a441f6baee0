"""The language model on a GPU: continuous batching over ExLlama, answers constrained by grammars. Not run on a GPU.

Requests are answered in order. exllamav2.py and exllamav3.py each open a generator with the few calls of `Decoder`; the
loop over them stands here. The generator shares the pages of common prompt prefixes and forms the batches; what this
loop adds is what only we know, the grammar:

- what is forced before the first choice stands in the prompt and is read, not generated;
- a long forced run amid an answer is read in the same way: the row leaves the batch and comes back as a prompt. Reading
  it passes over the weights once for one row, a decoding step about as long once for all rows; so it pays when more
  tokens are forced than there are rows;
- an answer that is closed leaves at once, without a step for its end token.

Answers depend on prompt, grammar, settings and seed. Batches of other sizes round otherwise, so that on a GPU the same
question in other company may, rarely, get another answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ..errors import CounterfactoryError
from ..keys import content_key
from ..schedule.overlap import ahead
from .request import Request, Usage
from .token_filter import TokenFilter, Vocabulary

PAGE = 256  # tokens; both generators share prefixes page by page
# Grammars compiled ahead of the rows that need them, beside the GPU's work (2 to 10 ms each).
_AHEAD = 16


@dataclass(frozen=True)
class ExllamaSettings:
    """How the language model decodes.

    `rows` decode at once; the cache has `cache_tokens` for all of them, in 16 ("fp16"), 8 or 4 bits a value. At
    `temperature` 0 answers are greedy; else they are drawn from the likeliest tokens that sum to `top_p`, each answer
    by its own generator, seeded by the request and `seed`.
    """

    rows: int
    cache: Literal["fp16", "q8", "q4"]
    cache_tokens: int
    temperature: float
    top_p: float
    seed: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"rows must be at least 1, found {self.rows}")
        if self.cache_tokens < PAGE or self.cache_tokens % PAGE:
            raise ValueError(f"cache_tokens must be a multiple of {PAGE}, found {self.cache_tokens}")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                f"temperature is 0 or more and top_p above 0, at most 1; found {self.temperature:g} and {self.top_p:g}"
            )


class Decoder(Protocol):
    """A generator of either ExLlama, with a model, a cache and a tokenizer inside."""

    vocabulary: Vocabulary
    max_length: int

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens; special tokens that it names ("<s>", "<|im_start|>") are those tokens."""
        ...

    def enqueue(self, tokens: Sequence[int], answer: TokenFilter, room: int, seed: int, name: int) -> Any:
        """Begin to generate up to `room` tokens after `tokens`, which end with those of `answer`; the job."""
        ...

    def iterate(self) -> list[dict[str, Any]]:
        """One step of all jobs: what each gained, under "identifier" and "token_ids", and whether it ended ("eos")."""
        ...

    def cancel(self, job: Any) -> None:
        """End a job; the pages that it filled stay known until they are needed."""
        ...

    def clear(self) -> None:
        """End all jobs."""
        ...


@dataclass
class _Row:
    name: int
    request: Request
    prompt: list[int]
    answer: TokenFilter
    seed: int
    given: int = 0  # tokens of the answer that were read with the prompt
    job: Any = None

    @property
    def room(self) -> int:
        return self.request.max_tokens - len(self.answer.tokens)

    def follow_forced(self) -> None:
        """Take what is forced, as far as there is room for it."""
        while self.room > 0 and not self.answer.closed and (forced := self.answer.forced()):
            for token in forced[: self.room]:
                self.answer.accept(token)
                self.given += 1


@dataclass
class ExllamaLlm:
    """A quantised language model on a GPU. `usage` counts the tokens of all calls so far.

    Tokens that were forced and read with a prompt count as prompt tokens.
    """

    decoder: Decoder
    settings: ExllamaSettings
    usage: Usage = field(default_factory=Usage)

    def generate(self, requests: Sequence[Request]) -> list[str]:
        """The answer to each request, in order. One that was cut off is returned as it stands.

        Raises CounterfactoryError for a prompt that is too long for the cache, and when the runtime fails.
        """
        answers: dict[int, str] = {}
        open_rows: dict[int, _Row] = {}
        # Twice the rows wait inside the generator, so that a free one is taken at once; it looks through all that wait.
        ready = self._rows(requests)
        try:
            while len(answers) < len(requests):
                while len(open_rows) < 2 * self.settings.rows and (row := next(ready, None)) is not None:
                    self._start(row, open_rows, answers)
                if open_rows:
                    self._step(open_rows, answers)
        except (RuntimeError, AssertionError) as error:  # CUDA's errors are of the one kind, ExLlama's own of the other
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CounterfactoryError(f"the language model failed on {len(requests)} requests: {reason}") from error
        finally:
            self.decoder.clear()
        return [answers[name] for name in range(len(requests))]

    def _rows(self, requests: Sequence[Request]) -> Iterator[_Row]:
        for _, row in ahead(enumerate(requests), self._row, _AHEAD):
            if isinstance(row, Exception):
                raise row
            yield row

    def _row(self, named: tuple[int, Request]) -> _Row:
        name, request = named
        prompt = self.decoder.encode(request.prompt.text)
        length = len(prompt) + request.max_tokens
        room = min(self.settings.cache_tokens, self.decoder.max_length)
        if length > room:
            raise CounterfactoryError(
                f"a prompt of {len(prompt)} tokens with {request.max_tokens} for its answer does not fit {room}; "
                "lower [rewrite] max_chars_caption or max_keywords, or raise [llm.exllama] cache_tokens"
            )
        answer = TokenFilter(self.decoder.vocabulary, request.grammar)
        seed = int(content_key("answer", request.prompt.text, request.grammar.pattern, self.settings.seed)[:16], 16)
        row = _Row(name, request, prompt, answer, seed)
        row.follow_forced()
        return row

    def _start(self, row: _Row, open_rows: dict[int, _Row], answers: dict[int, str]) -> None:
        if row.answer.closed or row.room < 1:
            self._end(row, open_rows, answers)
            return
        tokens = [*row.prompt, *row.answer.tokens]
        row.job = self.decoder.enqueue(tokens, row.answer.clone(), row.room, row.seed, row.name)
        open_rows[row.name] = row

    def _step(self, open_rows: dict[int, _Row], answers: dict[int, str]) -> None:
        for result in self.decoder.iterate():
            if "error" in result:  # exllamav3 ends one job and says why, without its name
                raise RuntimeError(str(result["error"]))
            row = open_rows.get(result["identifier"])
            if row is None or row.job is not result["job"]:
                continue
            if "token_ids" in result:
                for token in result["token_ids"].flatten().tolist():
                    row.answer.accept(token)
            if result["eos"]:
                self._end(row, open_rows, answers)
            elif row.answer.closed:
                self.decoder.cancel(row.job)
                self._end(row, open_rows, answers)
            elif "token_ids" in result and len(row.answer.forced()) > min(len(open_rows), self.settings.rows):
                # The new job first: a generator without any job puts its pages in order.
                left = row.job
                row.follow_forced()
                self._start(row, open_rows, answers)
                self.decoder.cancel(left)

    def _end(self, row: _Row, open_rows: dict[int, _Row], answers: dict[int, str]) -> None:
        open_rows.pop(row.name, None)
        answers[row.name] = row.answer.text
        self.usage += Usage(len(row.prompt) + row.given, len(row.answer.tokens) - row.given)


def existing_model(folder: Path, package: str) -> Path:
    """The folder of a quantised model. Raises CounterfactoryError, with what to run, when it is not there."""
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    if missing or not any(folder.glob("*.safetensors")):
        raise CounterfactoryError(
            f"{folder} holds no model for {package} ({', '.join(missing) or 'no .safetensors'}); quantise one with "
            "'python -m counterfactory.export llm', or correct [llm] model"
        )
    return folder


def needs_gpu(package: str) -> None:
    """Raise CounterfactoryError unless torch sees a CUDA device."""
    import torch

    if not torch.cuda.is_available():
        raise CounterfactoryError(
            f"{package} needs an NVIDIA GPU and torch {torch.__version__} sees none; install torch's CUDA build and a "
            'driver, or decode on the CPU with [llm] backend = "openvino"'
        )


def cannot_load(package: str, folder: Path, settings: ExllamaSettings, error: Exception) -> CounterfactoryError:
    """What to tell a user whose model does not load."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return CounterfactoryError(
        f"{package} cannot load {folder} with a {settings.cache} cache of {settings.cache_tokens} tokens: {reason}; "
        "if it is memory, lower [llm.exllama] cache_tokens or take a q4 cache"
    )


def imported(package: str, load: Callable[[], Any]) -> Any:
    """`load()`, which imports a package. Raises CounterfactoryError, with what to install, when it is not there."""
    try:
        return load()
    except ImportError as error:
        raise CounterfactoryError(
            f"the language model needs {package} ({error}); say: pip install 'counterfactory[cuda]' (docs/a10g.md)"
        ) from error
