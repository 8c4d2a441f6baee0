"""Captions that a model wrote anew are held to what they mean beside their edits, where there is a sentence encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checks import NO_LIMITS
from tiny_desk import CHAT, tiny_run, tiny_sources

from counterfactory.engine.edit import Edit
from counterfactory.engine.language.chat import ChatPrompts, chatml
from counterfactory.engine.profile.rewrite import GroundingSettings, RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite_captions
from counterfactory.engine.stages.rewrite.text_filters import Pair, TextFilter
from counterfactory.engine.tasks.task import builtin_task
from counterfactory.engine.variant import Variant

CAPTION, OTHER = "a red dog on grass", "a red dog in grass"
BLUE, RAIN = Edit("colour", "red", "blue"), Edit("weather", "", "in the rain")
SOURCE = Source("1.jpg", "1.jpg", Path("1.jpg"), (8, 8), "dog", None, "d", "k")


def variant(index: int, edits: tuple[Edit, ...] = (BLUE,), dropped: str | None = None) -> Variant:
    return Variant(f"key {index}", SOURCE, index, CAPTION, edits, "whatever", 0, dropped)


class Encoder:
    """Gives every pair the same cosine; keeps what it is asked."""

    def __init__(self, cosine: float) -> None:
        self.cosine, self.asked = cosine, list[Sequence[Pair]]()

    def __call__(self, pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        self.asked.append(pairs)
        return dict.fromkeys(pairs, self.cosine)


@pytest.mark.parametrize(("cosine", "kept"), [(0.9, True), (0.89, False)])
def test_a_caption_that_means_something_else_beside_its_edits_is_dropped(cosine: float, kept: bool) -> None:
    encoder = Encoder(cosine)
    made = [
        [variant(0), variant(1), variant(2, (BLUE, RAIN))],
        [variant(3, dropped="it lacks"), variant(4, (RAIN,)), variant(5)],
    ]
    answers = [
        ['"A blue dog, on grass."', '"a blue dog in grass"', '"a blue dog in grass"'],
        ["{}", f'"{CAPTION}"', '"a blue dog at grass"'],
    ]
    found = TextFilter(NO_LIMITS, encoder, None, 0.9).drop_changed(made, answers)
    assert encoder.asked == [[(CAPTION, OTHER), (CAPTION, "a red dog at grass")]], "each once, and none that is equal"
    reason = (
        "the edited caption means something else beside its edits: with them set back it says 'a red dog in grass' for "
        "'a red dog on grass', alike by 0.89 where 0.9 is the least"
    )
    other = reason.replace("in grass", "at grass")
    reasons = [None, *[None if kept else reason] * 2], ["it lacks", None, None if kept else other]
    assert [[one.dropped for one in row] for row in found] == [list(row) for row in reasons]
    assert [[replace(one, dropped=None) for one in row] for row in found] == [
        [replace(one, dropped=None) for one in row] for row in made
    ]


def test_nothing_is_compared_where_nothing_else_changed() -> None:
    encoder = Encoder(0.0)
    made = [[variant(0), variant(1, dropped="no")], []]
    assert TextFilter(NO_LIMITS, encoder, None, 1.0).drop_changed(made, [['"a blue dog on grass"', "{"], []]) == made
    assert encoder.asked == [[]]


PROMPTS = ChatPrompts(chatml)
WANTED = SuiteRequest(builtin_task("classification", ["dog", "bus"]), 2, 0, (1, 1), 0)
FREE = RewriteSettings(("colour",), 2, 2, 2, 100, verbatim=False)
MEANINGS = {CAPTION: np.array([1, 0], np.float32), OTHER: np.array([0.8, 0.6], np.float32)}


@pytest.fixture
def captions(tmp_path: Path) -> dict[Source, str]:
    (only,) = tiny_sources(tmp_path / "set", 1)
    return {replace(only, label="dog"): CAPTION}


def answers(written: str) -> dict[str, str]:
    return {
        "red -> blue": f'"{written}"',
        "red -> green": '"a green dog on grass"',
        "Keep:": '[["red","blue"],["red","green"]]',
    }


def test_free_rewriting_is_held_to_its_meaning_and_its_cosines_are_on_record(
    captions: dict[Source, str], tmp_path: Path
) -> None:
    for time in ("first", "again"):
        with tiny_run(tmp_path / "suite", list(captions)) as run:
            run.networks.meanings, run.networks.answers = MEANINGS, answers("a blue dog in grass")

            run.networks.unknown = np.array([1, 0], np.float32)
            strict, loose = GroundingSettings(2, 0.5, 0.81), GroundingSettings(2, 0.5, 0.79)
            found = rewrite_captions(
                run.of(WANTED, llm=CHAT, rewrite=FREE, grounding=strict, check=NO_LIMITS), captions
            )
            (dropped,) = found.dropped
            assert "means something else beside its edits" in str(dropped.dropped)
            assert [one.edited_caption for one in found.variants] == ["a green dog on grass"] * 2, "painted again"
            assert found.shortfalls == ()
            assert (
                rewrite_captions(
                    run.of(WANTED, llm=CHAT, rewrite=FREE, grounding=loose, check=NO_LIMITS), captions
                ).dropped
                == ()
            )
            encoded = [texts for texts in run.networks.calls.get("sentence", []) if OTHER in texts]
            assert encoded == ([[CAPTION, OTHER]] if time == "first" else [])


def test_captions_held_to_their_words_and_profiles_without_an_encoder_are_not_compared(
    captions: dict[Source, str], tmp_path: Path
) -> None:
    with tiny_run(tmp_path / "suite", list(captions)) as run:
        run.networks.unknown = np.array([1, 0], np.float32)
        run.networks.answers = answers("a blue dog in grass")
        assert rewrite_captions(run.of(WANTED, llm=CHAT, rewrite=FREE, check=NO_LIMITS), captions).dropped == ()
    with tiny_run(tmp_path / "held", list(captions)) as run:
        run.networks.unknown = np.array([1, 0], np.float32)
        run.networks.answers = answers("a blue dog on grass")
        held = replace(FREE, verbatim=True)
        assert (
            rewrite_captions(
                run.of(WANTED, llm=CHAT, rewrite=held, grounding=GroundingSettings(2, 0.5, 1.0), check=NO_LIMITS),
                captions,
            ).dropped
            == ()
        )
        assert not [texts for texts in run.networks.calls["sentence"] if OTHER in texts]
