"""One question to a language model and what answers it: the contract between the questions and the runtimes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .grammar import Grammar

# English in a Llama's tokens takes about four bytes a token, and lists in JSON less.
_BYTES_PER_TOKEN = 2.5
# Limits on an answer's length are several times what answers have: this is a text of over 700 characters.
_MOST_LIKELY = 192


@dataclass(frozen=True)
class Prompt:
    """A prompt in three parts, in the order of its text.

    `suite` is the same in all prompts of this question about a suite, `source` in all of them about one caption, and
    `own` is this prompt's alone. A shared part is read once. Parts may be empty.
    """

    suite: str
    source: str
    own: str

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.suite + self.source + self.own


@dataclass(frozen=True)
class LlmRequest:
    """One question to a language model: the prompt, and the grammar that every answer obeys."""

    prompt: Prompt
    grammar: Grammar

    @property
    def content(self) -> dict[str, object]:
        """What its answer depends on, for content keys: the prompt's text, however it is shared, and the grammar."""
        return {"prompt": self.prompt.text, "grammar": self.grammar}

    @property
    def max_tokens(self) -> int:
        """Enough for the bytes that the grammar gives room for, were each a token of its own, and for the end."""
        return self.grammar.longest_bytes + 1

    @property
    def likely_tokens(self) -> int:
        """What hardly any answer exceeds: runtimes reserve memory by it, and give the few longer answers more."""
        return min(self.max_tokens, _MOST_LIKELY, math.ceil(self.grammar.longest_bytes / _BYTES_PER_TOKEN) + 1)


@dataclass(frozen=True)
class Usage:
    """Tokens read from prompts, and generated."""

    prompt_tokens: int = 0
    generated_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.generated_tokens + other.generated_tokens)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens - other.prompt_tokens, self.generated_tokens - other.generated_tokens)


class Llm(Protocol):
    """Answers requests, whatever their company but for a GPU's rounding; `usage` counts the tokens so far."""

    usage: Usage

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        """One answer a request, in order. An answer that was cut off is returned as it stands."""
        ...

    def surprises(self, texts: Sequence[str]) -> list[float]:
        """The mean of -log p over the tokens of each text, in nats. Raises CounterfactoryError where the runtime tells
        no probabilities, or fails.
        """
        ...

    def close(self) -> None:
        """Give back all memory, on the device too, at once. Nothing is asked of it afterwards."""
        ...
