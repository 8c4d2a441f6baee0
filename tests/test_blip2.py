"""The caption loop: where it starts, where it ends, and that rows do not disturb each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.runtime.session import Array, Port, Signature

EOS, WORDS = 2, 20


@dataclass
class Vision:
    """Query embeddings that carry the picture's grey level."""

    batch: int

    @property
    def signature(self) -> Signature:
        return Signature((Port("pixel_values", (self.batch, 3, 4, 4), "float32"),), ())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        grey = (feeds["pixel_values"].mean(axis=(1, 2, 3)) + 1) * 127.5
        return {"query_embeds": np.repeat(grey[:, None, None], 2, axis=1).astype(np.float32)}


@dataclass
class Script:
    """Says as many words as the picture's grey level, then eos, then nonsense."""

    batch: int
    calls: list[int] = field(default_factory=list)

    @property
    def signature(self) -> Signature:
        cache = Port("past_keys", (self.batch, 1, 1, None, 1), "float32")
        return Signature((Port("inputs_embeds", (self.batch, None, 1), "float32"), cache), ())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        steps = feeds["inputs_embeds"].shape[1]
        past = feeds["past_keys"].shape[3]
        self.calls.append(steps)
        assert feeds["position_ids"].tolist() == [list(range(past, past + steps))] * self.batch
        grey = feeds["inputs_embeds"][:, 0, 0] if past == 0 else feeds["past_keys"][:, 0, 0, 0, 0]
        said = past + steps - 3  # two queries and the start token
        logits = np.zeros((self.batch, WORDS), np.float32)
        for row, words in enumerate(np.rint(grey).astype(int)):
            logits[row, 3 + said if said < words else EOS if said == words else 7] = 1
        keys = np.repeat(grey[:, None, None, None, None], past + steps, axis=3).astype(np.float32)
        return {"logits": logits, "keys": keys, "values": keys}


@pytest.fixture
def script() -> Script:
    return Script(3)


@pytest.fixture
def captioner(script: Script) -> Blip2:
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table = np.zeros((WORDS, 1), np.float32)
    return Blip2(Batched(Vision(3)), Batched(script), table, tokenizer, bos=0, eos=EOS)


def picture(grey: int) -> np.ndarray:
    return np.full((4, 4, 3), grey, np.uint8)


def words(count: int) -> str:
    return " ".join(f"w{3 + i}" for i in range(count))


def test_each_caption_ends_at_its_own_eos(captioner: Blip2) -> None:
    lengths = [4, 0, 2, 5, 1]
    assert captioner.caption([picture(n) for n in lengths], 12) == [words(n) for n in lengths]


def test_a_caption_ends_at_the_limit(captioner: Blip2) -> None:
    assert captioner.caption([picture(9)], 4) == [words(4)]


def test_the_loop_stops_when_all_rows_have_ended(captioner: Blip2, script: Script) -> None:
    captioner.caption([picture(1), picture(2)], 100)
    assert script.calls == [3, 1, 1]
