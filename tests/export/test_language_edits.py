"""Typed edits of captions measured: what counts as a success, and that a model of right answers has nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: the measurement of the pocket language models goes unchecked")

from counterfactory.engine.edit import STREET_TYPES, Edit
from counterfactory.engine.language.llm_request import LlmRequest, Usage
from counterfactory.engine.language.questions import write_answer
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.sources.source import Source
from counterfactory.engine.variant import Variant
from counterfactory.export.__main__ import main
from counterfactory.export.pocket import edits as module
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.edits import Outcome, judge, measure_edits, types_changed
from counterfactory.export.pocket.exercises import Situation
from counterfactory.export.pocket.languages import LANGUAGES
from counterfactory.export.pocket.questions import apply, changeable, others

LANGUAGE = LANGUAGES["streets"]


class RightAnswers:
    """Answers questions about the captions of held-out scenes as the exercises do."""

    usage = Usage()

    def __init__(self, count: int) -> None:
        drawn = [(STREETS.scene(HELD_OUT, i), np.random.default_rng((module._SEED, i))) for i in range(count)]
        self._scenes = {STREETS.describe(scene, rng, True): scene for scene, rng in drawn}

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        pass

    def _answer(self, request: LlmRequest) -> str:
        asked = dict(re.findall(r"^(\w[\w ]*): (.*)$", request.prompt.text.split("\n\n", 1)[1], re.MULTILINE))
        keep, types = tuple(asked["Keep"].split(", ")), tuple(asked.get("Types", ", ".join(STREET_TYPES)).split(", "))
        case = Situation(self._scenes[asked["Caption"]], asked["Caption"], asked["Task"], "", keep, types, keep)
        answer = write_answer(self._said(case, asked))
        assert request.grammar.allows(answer)
        return answer

    def _said(self, case: Situation, asked: dict[str, str]) -> object:
        if "Types" in asked:
            return [list(pair) for pair in changeable(case)] or [["none", "none"]]
        types = {keyword: type_ for type_, keyword in changeable(case)}
        if "Words" in asked:
            keyword = asked["Words"].partition(": ")[2]
            return others(case, types[keyword], keyword)
        changes = [one.split(" -> ") for one in asked["Changes"].split("; ")]
        return apply(case.caption, [(types[old], old, new) for old, new in changes])


def test_right_answers_succeed_but_for_what_the_engine_cannot_tell_apart() -> None:
    figures = measure_edits(RightAnswers(12), LANGUAGE, 12)
    assert set(figures["edit_success"]) == set(figures["edits_asked"]) == {"weather", "time", "colour", "background"}
    assert sum(figures["edits_asked"].values()) > 60
    assert 0.93 < figures["edit_success_all"] <= 1
    assert figures["variants_made"] > 0.93
    for shares in figures["edit_success"].values():
        assert shares["right_type"] == 1
        assert shares["success"] == min(shares.values())


def test_wrong_answers_are_told_by_what_is_wrong() -> None:
    class Stubborn(RightAnswers):
        """Calls the weather the time of day, and the time of day weather."""

        def _said(self, case: Situation, asked: dict[str, str]) -> object:
            said = super()._said(case, asked)
            if "Types" not in asked:
                return said
            other = {"weather": "time", "time": "weather"}
            return [[other[type_], keyword] for type_, keyword in changeable(case) if type_ in other] or said

    figures = measure_edits(Stubborn(4), LANGUAGE, 4)
    assert figures["edit_success_all"] == 0


CAPTION = (
    "a red car and a blue bus on a foggy street at night. brick buildings stand along the road. one person is on the "
    "sidewalk."
)


def variant(caption: str, edited: str, *edits: Edit, dropped: str | None = None) -> Variant:
    source = Source("a", "a", Path("a"), (8, 8), "car", None, "d", "k")
    return Variant("k", source, 0, caption, edits, edited, 0, dropped)


FOGGY, NIGHT = Edit("weather", "foggy", "rainy"), Edit("time", "at night", "at sunset")


@pytest.mark.parametrize(
    ("edits", "edited", "outcomes"),
    [
        ((FOGGY,), CAPTION.replace("foggy", "rainy"), [("weather", True, True, True)]),
        ((FOGGY,), CAPTION.replace("foggy", "snowy"), [("weather", True, False, True)]),
        ((FOGGY,), CAPTION.replace("foggy", "rainy").replace("blue", "red"), [("weather", True, False, True)]),
        ((FOGGY,), CAPTION.replace("foggy", "rainy").replace("car", "truck"), [("weather", True, False, False)]),
        (
            (FOGGY, NIGHT),
            CAPTION.replace("foggy", "rainy").replace("night", "sunset"),
            [("weather", True, True, True), ("time", True, True, True)],
        ),
        ((replace(FOGGY, type="time"),), CAPTION, [("time", False, False, True)]),
    ],
)
def test_an_edit_succeeds_by_its_type_the_facts_and_the_label(
    edits: tuple[Edit, ...], edited: str, outcomes: list[tuple[str, bool, bool, bool]]
) -> None:
    assert judge(LANGUAGE, variant(CAPTION, edited, *edits)) == [Outcome(*one) for one in outcomes]


def test_a_dropped_caption_states_nothing() -> None:
    (outcome,) = judge(LANGUAGE, variant(CAPTION, CAPTION.replace("foggy", "rainy"), FOGGY, dropped="for a reason"))
    assert outcome == Outcome("weather", True, False, False)
    assert not outcome.success


@pytest.mark.parametrize(
    ("changes", "types"),
    [
        ({"red": "green"}, {"colour"}),
        ({"car": "truck"}, {""}),
        ({"foggy": "rainy", "red": "green"}, {"weather", "colour"}),
        ({" and a blue bus": ""}, {""}),
        ({"brick": "glass"}, {"background"}),
        ({"night": "sunset"}, {"time"}),
        ({"foggy ": ""}, {""}),
        ({"one person": "two people"}, {""}),
        ({}, set()),
    ],
)
def test_facts_have_the_types_of_the_edits_that_change_them(changes: dict[str, str], types: set[str]) -> None:
    after = CAPTION
    for old, new in changes.items():
        after = after.replace(old, new)
    assert types_changed(LANGUAGE, LANGUAGE.read(CAPTION), LANGUAGE.read(after)) == types


def test_streets_have_types_of_their_own() -> None:
    caption = "a red car on a foggy street at night. brick buildings stand along the road. nobody is on the sidewalk."
    for edit, edited in (
        (Edit("colour", "red car", "blue"), caption.replace("red", "blue")),
        (Edit("background", "brick", "glass"), caption.replace("brick", "glass")),
        (Edit("time", "at night", "sunset"), caption.replace("night", "sunset")),
        (Edit("weather", "foggy", "clear"), caption.replace("foggy", "clear")),
    ):
        assert judge(LANGUAGE, variant(caption, edited, edit)) == [Outcome(edit.type, True, True, True)]
    lost = judge(LANGUAGE, variant(caption, caption.replace("car", "bus"), Edit("colour", "red car", "red bus")))
    assert lost == [Outcome("colour", False, True, False)]


def test_the_embedded_model_is_measured_by_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["export", "language", "--scenes", "2", "--exercises", "2", "--threads", "1"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["variants_made"] == 1
    assert figures["edit_success_all"] > 0.8
    assert figures["questions"]["rewrite_facts"] >= 0
    assert sum(figures["edits_asked"].values()) == 2 * (1 + 2) * module._VARIANTS // 2
