"""A sentence encoder as the engine uses it: texts to embeddings whose cosine says how much alike they mean."""

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
        found = self.tokenizer.encode_batch(list(texts))
        feeds = {
            "input_ids": np.array([one.ids for one in found], np.int64),
            "attention_mask": np.array([one.attention_mask for one in found], np.int64),
        }
        return self.plan.run(feeds)["embeddings"]
