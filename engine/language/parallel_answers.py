"""Many answers under grammars at once: begun, and taken further token by token, on all cores.

It makes token filters from grammars and chooses tokens from logits. `token_filter` has a single answer.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from .grammar import Grammar
from .token_filter import BITS, TokenFilter, TokenVocabulary, allowed

# Questions about the same keyword have the same grammar, and it takes a millisecond to compile; some 160 kB each.
_MAX_GRAMMARS = 48


class Answers:
    """Answers in one vocabulary, on `threads` threads (0: all cores)."""

    def __init__(self, vocabulary: TokenVocabulary, threads: int) -> None:
        from llguidance import LLExecutor

        self._vocabulary = vocabulary
        self._threads = threads or os.cpu_count() or 1
        self._executor = LLExecutor(self._threads)
        self._grammars: OrderedDict[Grammar, TokenFilter] = OrderedDict()

    def begin(self, grammars: Sequence[Grammar]) -> list[TokenFilter]:
        """An empty answer for each grammar. Raises ValueError for one that is none."""
        missing = [grammar for grammar in dict.fromkeys(grammars) if grammar not in self._grammars]
        with ThreadPoolExecutor(self._threads) as compiling:
            filters = list(compiling.map(lambda grammar: TokenFilter(self._vocabulary, grammar), missing))
        for grammar in grammars:
            if grammar in self._grammars:
                self._grammars.move_to_end(grammar)
        self._grammars.update(zip(missing, filters, strict=True))
        begun = [self._grammars[grammar].clone() for grammar in grammars]
        while len(self._grammars) > _MAX_GRAMMARS:
            self._grammars.popitem(last=False)
        return begun

    def likeliest(self, answers: Sequence[TokenFilter], logits: NDArray[np.float32]) -> list[int]:
        """For each answer the allowed token of the highest logit, of equal ones the first; `logits` is [B, V]."""
        masks = np.zeros((len(answers), -(-self._vocabulary.size // BITS)), np.int32)
        rows = [(answer.matcher, i) for i, answer in enumerate(answers)]
        self._executor.unsafe_compute_mask_ptr(rows, masks.ctypes.data, masks[0].nbytes, len(rows))
        for answer in answers:
            answer.check("has no mask")
        return [int(t) for t in np.where(allowed(masks, logits.shape[1]), logits, -np.inf).argmax(1)]
