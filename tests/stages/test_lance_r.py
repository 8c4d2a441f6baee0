"""LANCE-R: edits are a masked language model's words in the place of a caption's, and no question is put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from checks import NO_LIMITS
from rewriting import SETTINGS, source, wanted_of
from tiny_desk import tiny_run, tiny_sources

from counterfactory.engine.content_keys import choice_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.models.text_networks import Blank
from counterfactory.engine.profile.rewrite import RandomWordSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.stages.rewrite.caption_edits import Questions, draft_of
from counterfactory.engine.stages.rewrite.random_words import find_choices
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite_captions
from counterfactory.engine.tasks.choose import Choice
from counterfactory.engine.tasks.user_task import parse_interventions

CAPTION = "a red bus on a wet road"
FILLED = {
    ("a ", " bus on a wet road"): ["red", "old", "bus", "blue", "new"],
    ("a red bus on a ", " road"): ["the", "icy"],
    ("a red bus on a wet ", ""): ["road", "lane"],
}
WANTED = wanted_of(3, (1, 1))


def questions(wanted: SuiteRequest) -> Questions:
    return Questions(SETTINGS, wanted, lambda question, requests: [], PlainPrompts())


class Filler:
    def __init__(self) -> None:
        self.asked = list[list[Blank]]()

    def __call__(self, blanks: Sequence[Blank]) -> Mapping[Blank, Sequence[str]]:
        self.asked.append(list(blanks))
        return {one: FILLED.get(one, []) for one in blanks}


def choices(name: str, words: int, alternatives: int, fill: Filler, seed: int = 0) -> list[Choice]:
    draft = draft_of(source(name), CAPTION, WANTED.task, None)
    find_choices([draft], questions(replace(WANTED, seed=seed)), RandomWordSettings(1, words, alternatives), fill)
    assert draft.problem is None
    return draft.choices


def test_choices_are_the_likeliest_words_that_may_stand_there() -> None:
    fill = Filler()
    found = choices("1", 9, 2, fill)
    assert found == [
        Choice("random", "red", ("old", "blue")),
        Choice("random", "wet", ("icy",)),
        Choice("random", "road", ("lane",)),
    ]
    assert fill.asked == [[*FILLED]]
    assert [choice.alternatives for choice in choices("1", 9, 1, fill)] == [("old",), ("icy",), ("lane",)]


def test_words_are_drawn_by_the_source_and_the_seed() -> None:
    def drawn(name: str, seed: int) -> tuple[str, ...]:
        found = choices(name, 2, 9, Filler(), seed)
        assert len(found) == 2
        assert [c.keyword for c in found] == sorted((c.keyword for c in found), key=CAPTION.index)
        return tuple(choice.keyword for choice in found)

    assert drawn("1", 0) == drawn("1", 0)
    assert len({drawn(str(name), 0) for name in range(12)}) == 3
    assert len({drawn("1", seed) for seed in range(12)}) == 3
    assert choice_key(source("1").key, WANTED.task, 0) != choice_key(source("2").key, WANTED.task, 0)


def test_blanks_are_asked_for_once_and_not_of_captions_that_cannot_be_edited() -> None:
    fill, drafts = Filler(), [draft_of(source(n), CAPTION, WANTED.task, None) for n in ("1", "2")]
    other = draft_of(source("3"), "the bus", WANTED.task, None)
    strange = draft_of(source("4"), "a red kite", WANTED.task, None)
    find_choices([*drafts, other, strange], questions(WANTED), RandomWordSettings(1, 9, 1), fill)
    assert fill.asked == [[*FILLED]]
    assert other.problem == "its caption has no words that may change"
    assert "names nothing that it is labelled with" in (strange.problem or "")


def test_a_blank_that_nothing_may_fill_is_no_choice() -> None:
    draft = draft_of(source("1"), "a red bus", WANTED.task, None)
    find_choices([draft], questions(WANTED), RandomWordSettings(1, 9, 1), Filler())
    assert (draft.choices, draft.problem) == ([], None)


def test_what_the_user_would_change_is_no_random_word() -> None:
    wanted = wanted_of(1, (1, 1), interventions=parse_interventions("time: night", "a file"))
    with pytest.raises(CounterfactoryError, match="leave out --interventions and --types"):
        find_choices([], questions(wanted), RandomWordSettings(1, 1, 1), Filler())


def test_captions_are_written_by_rule_and_what_fills_blanks_is_on_record(tmp_path: Path) -> None:
    (only,) = tiny_sources(tmp_path / "set", 1)
    captions = {replace(only, label="bus"): CAPTION}
    for time in ("first", "again"):
        with tiny_run(tmp_path / "suite", list(captions)) as run:
            run.networks.filled = FILLED
            random = RandomWordSettings(4, 9, 2)
            found = rewrite_captions(run.of(WANTED, rewrite=SETTINGS, random_words=random, check=NO_LIMITS), captions)
            assert found.dropped == ()
            assert len({v.edited_caption for v in found.variants}) == 3
            for variant in found.variants:
                (edit,) = variant.edits
                assert variant.edited_caption == CAPTION.replace(edit.keyword, edit.alternative).replace(
                    "a icy", "an icy"
                ).replace("a old", "an old")
                assert edit.type == "random"
            assert Edit("random", "wet", "icy") in {v.edits[0] for v in found.variants}
            assert run.networks.opened == (["masked"] if time == "first" else [])
