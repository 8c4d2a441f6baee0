"""Text states: encoded once as they are asked for, gone after their last use."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tiny_desk import TEXT_BATCH, Networks, numbers
from tiny_networks import TOKENS, WIDTH

from counterfactory.engine.stages.paint.paint_variants import (
    TextStates,
)

LINE = ["a", "b", "a", "c", "d", "b", "e"]


def test_each_caption_is_encoded_once_when_it_is_asked_for() -> None:
    networks = Networks()
    states = TextStates(networks.clip_text(), LINE)
    assert networks.calls == {}
    for caption in LINE:
        np.testing.assert_array_equal(states.take(caption), numbers(caption, TOKENS, WIDTH))
    assert networks.calls["clip_text"] == [["a", "b", "c"], ["d", "e"]]
    assert TEXT_BATCH == 3


def test_states_go_after_their_last_use() -> None:
    class Kept(np.ndarray):  # an array that can be watched
        pass

    class Text:
        plan = Networks().clip_text().plan

        def encode_states(self, captions: list[str]) -> list[Kept]:
            return [np.zeros(2).view(Kept) for _ in captions]

    states = TextStates(Text(), LINE)  # type: ignore[arg-type]
    watched = weakref.ref(states.take("a"))
    gc.collect()
    assert watched() is not None, "it is used once more"
    assert states.take("a") is watched()
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("taken", [["a", "a"], []])
def test_a_caption_without_a_use_left_is_refused(taken: list[str]) -> None:
    states = TextStates(Networks().clip_text(), LINE)
    for caption in taken:
        states.take(caption)
    with pytest.raises(KeyError, match="a" if taken else "unknown"):
        states.take("a" if taken else "unknown")
