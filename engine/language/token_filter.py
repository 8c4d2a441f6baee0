"""Which tokens may come next: a grammar's answer, followed token by token with llguidance.

From a model's vocabulary and a grammar (grammar.py) it finds, for every place in an answer, the tokens that are allowed
there, those that are forced, and whether the answer is closed. The running batch on a CPU and the decoders for GPUs
share this (exllama.py and its two backends); no decoder is known here.

"Forced" is said of bytes: where the grammar leaves one way to go on, several tokens may still spell it ("the", "th" and
"t"), and the one that the model's own tokenizer writes is taken, without asking the model. The last token of a forced
run is left out where it could grow together with what follows freely.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.reading import parse_json, read_text
from .grammar import Grammar

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BITS = 32
# Questions about the same keyword have the same grammar, and it takes a millisecond to compile; some 160 kB each.
_MAX_GRAMMARS = 48


@dataclass(frozen=True)
class TokenVocabulary:
    """A tokenizer as llguidance reads it: `size` tokens; the token `end` closes an answer."""

    size: int
    end: int
    tokens: Any

    def text(self, tokens: Sequence[int]) -> str:
        """What the tokens spell, without special ones; a character that is cut in two is left out."""
        plain = [token for token in tokens if not self.tokens.is_special_token(token)]
        return bytes(self.tokens.decode_bytes(plain)).decode(errors="ignore")


def read_vocabulary(tokenizer: Path, end: int) -> TokenVocabulary:
    """The vocabulary in a `tokenizer.json`; `end` is the token that closes an answer. Raises CounterfactoryError when
    the file is missing or is no tokenizer.
    """
    import llguidance

    if not tokenizer.is_file():
        raise CounterfactoryError(f"the tokenizer {tokenizer} is missing; it lies beside a model's weights on the hub")
    text = read_text(tokenizer)
    try:
        tokens = llguidance.LLTokenizer(_without_prefix_space(text), eos_token=end)
    except BaseException as error:
        # A panic of Rust's, as of a token of 2,000 letters, is no Exception.
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        reason = str(error).strip().splitlines()[0]
        raise CounterfactoryError(f"{tokenizer} is no tokenizer of the tokenizers library: {reason}") from error
    return TokenVocabulary(int(tokens.vocab_size), end, tokens)


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer.json. Raises CounterfactoryError when it is missing or no tokenizer."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CounterfactoryError(
            f"tokenizer file {path} is missing: 'counterfactory doctor' of the profile says what to do"
        ) from error
    except Exception as error:  # tokenizers raises bare Exception
        raise CounterfactoryError(f"tokenizer file {path} cannot be read: {error}") from error


def _without_prefix_space(tokenizer: str) -> str:
    """A tokenizer that puts no space before a text: an answer is none, and llguidance 1.9 would force that space."""
    read = parse_json(tokenizer)
    if not isinstance(read, dict):
        raise ValueError("it is not a JSON object")
    before = read.get("pre_tokenizer")
    steps = before.get("pretokenizers") if isinstance(before, dict) else None
    for step in (before, *(steps if isinstance(steps, list) else ())):
        if isinstance(step, dict) and "add_prefix_space" in step:
            step["add_prefix_space"] = False
    return json.dumps(read)


class TokenFilter:
    """One answer under a grammar. `tokens` are those of the answer so far, the end token not among them."""

    def __init__(self, vocabulary: TokenVocabulary, grammar: Grammar) -> None:
        """Begin an answer. Raises ValueError for a grammar that is none."""
        from llguidance import LLMatcher

        if grammar.schema is None:
            compiled = LLMatcher.grammar_from_regex(grammar.pattern)
        else:
            # Reading a schema skips the parser of expressions, which takes 0.6 ms to set up.
            compiled = LLMatcher.grammar_from_json_schema(grammar.schema, defaults={"whitespace_flexible": False})
        self.matcher = LLMatcher(vocabulary.tokens, compiled, log_level=0)
        self.vocabulary, self.grammar = vocabulary, grammar
        self.tokens: list[int] = []
        self.check(f"cannot follow the grammar {grammar.pattern!r}")

    @property
    def closed(self) -> bool:
        """The answer is complete, and nothing but the end can follow."""
        return bool(self.matcher.is_stopped())

    @property
    def text(self) -> str:
        """The answer so far."""
        return self.vocabulary.text(self.tokens)

    def accept(self, token: int) -> None:
        """Go on by one token. Raises ValueError for one that the mask forbids, and for any but the end when closed."""
        if token == self.vocabulary.end and self.matcher.is_accepting():
            self.matcher.consume_token(token)
            return
        if self.closed or not self.matcher.consume_token(token):
            raise ValueError(f"token {token} cannot follow {self.text!r} in this grammar")
        self.tokens.append(token)

    def forced(self) -> tuple[int, ...]:
        """The tokens that follow whatever the model says; the end token when closed; often none."""
        if self.closed:
            return (self.vocabulary.end,)
        return tuple(self.matcher.compute_ff_tokens())

    def follow_forced(self, room: int) -> list[int]:
        """Take what is forced, while the answer has fewer than `room` tokens; the tokens that were taken."""
        taken: list[int] = []
        while len(self.tokens) < room and not self.closed and (forced := self.forced()):
            for token in forced[: room - len(self.tokens)]:
                self.accept(token)
                taken.append(token)
        return taken

    def mask(self) -> NDArray[np.int32]:
        """Allowed tokens as bits, int32 [ceil(size / 32)], token t being bit t % 32 of word t // 32."""
        bits = np.zeros((self.vocabulary.size + _BITS - 1) // _BITS, np.int32)
        self.matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        self.check(f"has no mask after {self.text!r}")
        return bits

    def clone(self) -> TokenFilter:
        """The same place in the same answer; neither moves the other."""
        twin = TokenFilter.__new__(TokenFilter)
        twin.vocabulary, twin.grammar, twin.tokens = self.vocabulary, self.grammar, list(self.tokens)
        twin.matcher = self.matcher.deep_copy()
        return twin

    def check(self, what: str) -> None:
        """Raise ValueError, with `what` failed, if llguidance gave up."""
        if self.matcher.is_error():
            raise ValueError(f"the token filter {what}: {self.matcher.get_error()}")


def allowed(masks: NDArray[np.int32], tokens: int) -> NDArray[np.bool_]:
    """Masks [..., words] as bool [..., tokens]; tokens of a head that is wider than the vocabulary are not allowed."""
    bits = np.unpackbits(masks.view(np.uint8), axis=-1, bitorder="little").view(np.bool_)[..., :tokens]
    missing = tokens - bits.shape[-1]
    return np.concatenate([bits, np.zeros((*bits.shape[:-1], missing), np.bool_)], -1) if missing > 0 else bits


class Answers:
    """Many answers in one vocabulary at once, begun and taken further on `threads` threads (0: all cores)."""

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
        masks = np.zeros((len(answers), -(-self._vocabulary.size // _BITS)), np.int32)
        rows = [(answer.matcher, i) for i, answer in enumerate(answers)]
        self._executor.unsafe_compute_mask_ptr(rows, masks.ctypes.data, masks[0].nbytes, len(rows))
        for answer in answers:
            answer.check("has no mask")
        return [int(t) for t in np.where(allowed(masks, logits.shape[1]), logits, -np.inf).argmax(1)]
