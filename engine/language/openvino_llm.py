"""The language model on a CPU: questions answered in one running batch, what they share read once.

Requests are answered in order, decoded greedily. What the questions mean is not known here; `running_batch` runs the
rows, `llama` the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from ..errors import CounterfactoryError
from ..keys import file_digest
from ..runtime.blob_cache import BlobCache
from ..runtime.libc import give_back_freed
from ..runtime.openvino import Precision
from .llama import Common, Llama
from .llm_request import LlmRequest, Usage
from .running_batch import EncodedRequest, RunningBatch
from .token_filter import Answers

# Beginnings of prompts that are kept, the latest ones: a question of a task has one, or one for each type of edit.
_MAX_BEGINNINGS = 16


class OpenVinoLlm:
    """A language model in a folder that `export` wrote. `usage` counts the tokens of all calls so far. Tokens that the
    grammar forces are read, not generated, and count as prompt tokens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        precision: Precision,
        threads: int,
        blobs: BlobCache | None = None,
        digest: Callable[[Path], str] = file_digest,
    ) -> None:
        """Load `folder`, to compute in `precision` on `threads` threads (0: all); `blobs` and `digest` as in `Llama`.
        Raises CounterfactoryError when the folder is missing or holds no exported language model.
        """
        self._llama = Llama(folder, precision=precision, threads=threads, blobs=blobs, digest=digest)
        self._answers = Answers(self._llama.vocabulary, threads)
        self._beginnings: dict[tuple[int, ...], Common] = {}
        self.usage = Usage()

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        """The greedy answer to each request, in order. One that was cut off is returned as it stands. Raises
        CounterfactoryError for a prompt that is longer than the model's context, and when the runtime fails.
        """
        answers: dict[int, str] = {}
        try:
            for beginning, group in self._by_beginning(requests).items():
                if beginning not in self._beginnings:
                    while len(self._beginnings) >= _MAX_BEGINNINGS:
                        del self._beginnings[next(iter(self._beginnings))]
                    self._beginnings[beginning] = self._llama.beginning(beginning)
                batch = RunningBatch(self._llama, self._beginnings[beginning], group, self._answers)
                before = self.usage
                for name, text in batch.run():
                    answers[name] = text
                    self.usage = before + batch.usage  # as it grows: thousands of answers take their time
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise CounterfactoryError(f"the language model failed on {len(requests)} requests: {reason}") from error
        give_back_freed()  # caches, masks and texts of hundreds of rows
        return [answers[name] for name in range(len(requests))]

    def surprises(self, texts: Sequence[str]) -> list[float]:
        """The mean of -log p over the tokens of each text, in nats; see `Llama.surprises`. Raises CounterfactoryError
        when the runtime fails.
        """
        try:
            values = self._llama.surprises(texts)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise CounterfactoryError(f"the language model failed to read {len(texts)} texts: {reason}") from error
        give_back_freed()
        return values

    def close(self) -> None:
        """Drop the caches that are kept; the network goes with the last reference to this."""
        self._beginnings.clear()

    def _by_beginning(self, requests: Sequence[LlmRequest]) -> dict[tuple[int, ...], list[EncodedRequest]]:
        """The requests by the tokens that are read once for all of them."""
        asked = [request.prompt for request in requests]
        texts = list({text for p in asked for text in (p.suite, p.suite + p.source, p.text)})
        encoded = dict(zip(texts, self._llama.encode(texts), strict=True))
        groups: dict[tuple[int, ...], list[EncodedRequest]] = {}
        for name, request in enumerate(requests):
            prompt = encoded[request.prompt.text]
            left = self._llama.context - len(prompt)
            if left < 1:
                raise CounterfactoryError(
                    f"a prompt of {len(prompt)} tokens does not fit the language model's {self._llama.context}; lower "
                    "[rewrite] max_chars_caption or max_keywords"
                )
            heads = (request.prompt.suite, request.prompt.suite + request.prompt.source)
            ends = [_alike(encoded[head], prompt[:-1]) for head in heads]
            suite, source = ends[0], max(ends)
            room = min(request.max_tokens, left)
            row = EncodedRequest(name, tuple(prompt), suite, source, request.grammar, room)
            groups.setdefault(row.prompt[:suite], []).append(row)
        return groups


def _alike(head: Sequence[int], prompt: Sequence[int]) -> int:
    if prompt[: len(head)] == head:
        return len(head)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(head, prompt, strict=False)))
