"""Small encoders of texts as the engine uses them: sentences to embeddings, and the likeliest words of a blank.

Their tokenizers pad and truncate to the plan's length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..files.fill import fill_record
from ..files.reading import read_json
from .batching import Batched

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_ADVICE = "write it anew with 'python -m counterfactory.export masked'"
_MOST_TOKENS = 1 << 24
# What stands before a blank, and after it.
Blank = tuple[str, str]


def _feeds(encodings: Sequence[Encoding]) -> dict[str, NDArray[np.int64]]:
    return {
        "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
        "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
    }


@dataclass(frozen=True)
class SentenceEncoder:
    """A sentence encoder, such as all-MiniLM-L6-v2: embeddings' cosine is how similar their texts' meanings are."""

    plan: Batched
    tokenizer: Tokenizer

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit embeddings [N, D] of any number of texts, at least one."""
        return self.plan.run(_feeds(self.tokenizer.encode_batch(list(texts))))["embeddings"]


@dataclass(frozen=True)
class MaskVocabulary:
    """The vocabulary that `export masked` wrote: the text and the token of a blank, and words with their tokens."""

    mask: str
    token: int
    words: Mapping[str, int]

    def __post_init__(self) -> None:
        if not all(0 <= token < _MOST_TOKENS for token in (self.token, *self.words.values())):
            raise ValueError("'token' and 'words' hold numbers of tokens")

    @classmethod
    def read(cls, path: Path) -> MaskVocabulary:
        """The file that the exporter wrote. Raises CounterfactoryError for another."""
        return fill_record(cls, read_json(path, _ADVICE), str(path), _ADVICE)


@dataclass(frozen=True)
class MaskedLm:
    """A masked language model, such as a BERT."""

    plan: Batched
    tokenizer: Tokenizer
    mask: MaskVocabulary

    def likeliest(self, blanks: Sequence[Blank], count: int) -> list[list[str]]:
        """The `count` likeliest words of each blank, the likeliest first; none for one that the plan cuts off."""
        encodings = self.tokenizer.encode_batch([f"{before}{self.mask.mask}{after}" for before, after in blanks])
        read = [i for i, encoding in enumerate(encodings) if self.mask.token in encoding.ids]
        words: list[list[str]] = [[] for _ in blanks]
        if not read:
            return words
        places = np.array([encodings[i].ids.index(self.mask.token) for i in read], np.int64)
        known, tokens = list(self.mask.words), list(self.mask.words.values())
        logits = self.plan.run(_feeds([encodings[i] for i in read]) | {"place": places})["logits"][:, tokens]
        order = np.argsort(-logits, axis=1, kind="stable")[:, :count]
        for i, row in zip(read, order, strict=True):
            words[i] = [known[at] for at in row]
        return words
