"""What an exercise for the pocket language model is, and the draws that exercises are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterfactory.engine.language.llm_request import Prompt

KINDS_OF_QUESTION = ("keywords", "alternatives", "rewrite")
_SYLLABLES = ("ba", "do", "ke", "li", "mor", "nu", "pra", "ri", "sto", "ta", "ven", "zu", "al", "er", "is", "on", "un")


@dataclass(frozen=True)
class Situation:
    """A scene's caption, and what is asked of it: the words to keep as a prompt lists them, the types of edits.

    `frozen` is the type of edit that the task forbids, "" for none; `protected` are all words to keep.
    """

    scene: Any
    caption: str
    task: str
    frozen: str
    keep: tuple[str, ...]
    types: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True)
class Exercise:
    """A prompt and its one right answer, with what they were made of.

    `changes` are (type, keyword, alternative): all of a rewriting; of a question for alternatives the one keyword, its
    alternative left empty, with the user's `values`, if any.
    """

    prompt: Prompt
    answer: str
    case: Situation
    changes: tuple[tuple[str, str, str], ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draws:
    """Draws of one generator."""

    rng: np.random.Generator

    def one(self, values: Sequence[str]) -> str:
        """One of the values."""
        return values[int(self.rng.integers(len(values)))]

    def some(self, values: Sequence[str], low: int, high: int) -> list[str]:
        """`low` to `high` of the values, or all where there are fewer, in any order."""
        count = int(self.rng.integers(low, min(high, len(values)) + 1))
        return [values[int(i)] for i in self.rng.permutation(len(values))[:count]]

    def chance(self, share: float) -> bool:
        """True in a share of all draws."""
        return bool(self.rng.random() < share)

    def made_up(self) -> str:
        """A word that no language has."""
        return "".join(self.some(_SYLLABLES, 2, 3))
