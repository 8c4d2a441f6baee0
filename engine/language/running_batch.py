"""Rows that are answered together: they come and go, and read what is chosen and what is forced.

From prompts as tokens and their grammars it makes answers, yielded as they close. A row reads whole runs: its own part
of the prompt with whatever the grammar forces at the start, later each token that the model chose together with those
forced after it.

How a row's tokens are cut into runs depends on the row alone, so that company changes nothing (see `llama`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from .grammar import Grammar
from .llama import Common, Llama, Piece
from .llm_request import Usage
from .token_filter import Answers, TokenFilter

# The running batch and its cache are bounded, whatever is asked at once.
MAX_ROWS = 128
_CACHE_BYTES = 1 << 29
# Rows are begun together, when so large a part of the batch is free.
_FREE = 0.25


@dataclass(frozen=True)
class EncodedRequest:
    """A request as tokens. The first `suite` of its prompt begin all prompts of the batch, the first `source` those
    about one caption; `room` is for how many tokens of the answer there is room.
    """

    name: int
    prompt: tuple[int, ...]
    suite: int
    source: int
    grammar: Grammar
    room: int


@dataclass
class _OpenRow:
    """A request under way: what it has `waiting` to be read, and how many tokens its cache holds."""

    request: EncodedRequest
    answer: TokenFilter
    waiting: list[int]
    read: int
    chosen: int = 0
    forced: int = 0

    @property
    def ended(self) -> bool:
        return self.answer.closed or len(self.answer.tokens) >= self.request.room

    def follow_forced(self) -> None:
        """Take what is forced, as far as there is room for it."""
        taken = self.answer.follow_forced(self.request.room)
        self.waiting += taken
        self.forced += len(taken)

    def choose(self, token: int) -> None:
        """Take a token that the grammar allows, and what is forced after it."""
        self.answer.accept(token)
        self.chosen += 1
        self.waiting = self.answer.tokens[-1:]
        self.follow_forced()


class RunningBatch:
    """Answers requests that share a beginning, `common`; `answers` begins and chooses. Row i of the cache is that of
    the i-th open row.
    """

    def __init__(self, llama: Llama, common: Common, requests: Sequence[EncodedRequest], answers: Answers) -> None:
        self._llama, self._common, self._answers = llama, common, answers
        longest = max(len(request.prompt) for request in requests) - common.filled
        # An answer takes about as many tokens as the prompt's own part.
        self._most = max(1, min(MAX_ROWS, len(requests), _CACHE_BYTES // (llama.token_bytes * 2 * longest)))
        self._cache = llama.rows(self._most, longest)
        self._line = iter(requests)
        self._rows: list[_OpenRow] = []
        self._sources: dict[tuple[int, ...], Piece] = {}
        self.usage = Usage()

    def run(self) -> Iterator[tuple[int, str]]:
        """Answers by their requests' names, as they close."""
        while self._begin() or self._rows:
            yield from self._end_rows()
            if self._rows:
                self._step(0)
                yield from self._end_rows()

    def _begin(self) -> bool:
        """Fill the free rows with requests, if it is time, and read what they ask."""
        free = self._most - len(self._rows)
        if self._rows and free < _FREE * self._most:
            return False
        begun = list(islice(self._line, free))
        if not begun:
            return False
        self._read_sources(begun)
        first = len(self._rows)
        for request, answer in zip(begun, self._answers.begin([request.grammar for request in begun]), strict=True):
            row = _OpenRow(request, answer, list(request.prompt[request.source :]), request.source - request.suite)
            row.follow_forced()
            self._rows.append(row)
        # Rows of like lengths side by side, which are read in one call.
        self._rows[first:] = sorted(self._rows[first:], key=lambda row: -len(row.waiting))
        self._cache.grow(max(row.read + len(row.waiting) for row in self._rows[first:]), first)
        for at, row in enumerate(self._rows[first:], first):
            self._cache.put(at, self._sources[row.request.prompt[row.request.suite : row.request.source]])
        self._step(first)
        return True

    def _read_sources(self, requests: Sequence[EncodedRequest]) -> None:
        """Read what requests about one caption share, once; what was read before is kept while it is asked for."""
        wanted = dict.fromkeys(request.prompt[request.suite : request.source] for request in requests)
        self._sources = {tokens: piece for tokens, piece in self._sources.items() if tokens in wanted}
        missing = [tokens for tokens in wanted if tokens not in self._sources]
        self._sources |= zip(missing, self._llama.pieces(missing, self._common), strict=True)

    def _step(self, first: int) -> None:
        """Read what the rows from `first` on have waiting."""
        rows = self._rows[first:]
        runs = [[] if row.ended else row.waiting for row in rows]
        if not any(runs):
            return
        logits = self._llama.step(runs, self._common, self._cache, first, np.array([row.read for row in rows]))
        going = [i for i, run in enumerate(runs) if run]
        chosen = self._answers.likeliest([rows[i].answer for i in going], logits[going])
        for i, token in zip(going, chosen, strict=True):
            rows[i].read += len(runs[i])
            rows[i].choose(token)

    def _end_rows(self) -> Iterator[tuple[int, str]]:
        """The rows that are answered; in the place of each comes the last one."""
        for i in reversed(range(len(self._rows))):
            row = self._rows[i]
            if not row.ended:
                continue
            last = self._rows.pop()
            if last is not row:
                self._rows[i] = last
                self._cache.move(len(self._rows), i, last.read)
            self.usage += Usage(len(row.request.prompt) + row.forced, row.chosen)
            yield row.request.name, row.answer.text
