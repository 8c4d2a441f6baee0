"""The text encoder's embeddings: each caption encoded once, while it is among the latest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest

from counterfactory.engine.models import clip
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.clip import ClipText, to_pixel_values
from counterfactory.engine.runtime.session import Port, Signature

BATCH, TOKENS = 2, 3


class Encoder:
    """States and embeddings that say which caption they are of, and how many batches were run."""

    signature = Signature((Port("input_ids", (BATCH, TOKENS), "int64"),), ())

    def __init__(self) -> None:
        self.seen: list[int] = []

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        ids = feeds["input_ids"]
        self.seen += ids[:, 0].tolist()
        return {"states": ids[..., None].astype(np.float32), "text_embeds": ids[:, :1].astype(np.float32)}


class Words:
    """A tokenizer whose captions are numbers."""

    def encode_batch(self, captions: list[str]) -> list[Any]:
        return [type("Encoded", (), {"ids": [int(caption)] * TOKENS}) for caption in captions]


def test_what_was_encoded_lately_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip, "_LATEST", 4)
    encoder = Encoder()
    text = ClipText(Batched(encoder), Words())  # type: ignore[arg-type]
    text.encode_states(["1", "2"])  # painting
    found = text.embed(["2", "3", "2", "1"])
    assert {caption: one.tolist() for caption, one in found.items()} == {"1": [1], "2": [2], "3": [3]}
    assert encoder.seen == [1, 2, 3, 3], "the last batch is padded"
    many = text.embed(str(number) for number in range(10, 17))
    assert [float(one[0]) for one in many.values()] == list(range(10, 17)), "more than are kept"
    encoder.seen.clear()
    text.embed(["16", "13", "1"])
    assert encoder.seen == [1, 1], "the latest four are known, older ones are not"


def test_pixel_values_are_the_formula_s_numbers_one_after_another_in_memory() -> None:
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (8, 8, 3)).astype(np.uint8) for _ in range(3)]
    found = to_pixel_values(images, 8)
    wanted = np.stack(images).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(127.5) - np.float32(1)
    np.testing.assert_array_equal(found, wanted)
    assert found.flags["C_CONTIGUOUS"]
    assert found.dtype == np.float32
