"""A sentence encoder as the engine uses it: texts to embeddings whose cosine is how similar their meanings are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .batching import Batched

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SentenceEncoder:
    """The encoder, such as all-MiniLM-L6-v2; its tokenizer pads and truncates to the plan's length."""

    plan: Batched
    tokenizer: Tokenizer

    def encode(self, texts: Sequence[str]) -> Floats:
        """Unit embeddings [N, D] of any number of texts, at least one."""
        encodings = self.tokenizer.encode_batch(list(texts))
        feeds = {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
        }
        return self.plan.run(feeds)["embeddings"]
