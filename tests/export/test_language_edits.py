"""Typed edits of captions measured: what counts as a success, and that a model of right answers has nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="no torch: the measurement of the pocket language models goes unchecked")

from counterfactory.engine.edit import Edit
from counterfactory.engine.language.llm_request import LlmRequest, Usage
from counterfactory.engine.language.questions import write_answer
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.sources.source import Source
from counterfactory.engine.variant import Variant
from counterfactory.export.__main__ import main
from counterfactory.export.pocket import edits as module
from counterfactory.export.pocket.edits import Outcome, judge, measure_edits, types_changed
from counterfactory.export.pocket.exercises import Situation
from counterfactory.export.pocket.languages import LANGUAGES
from counterfactory.export.pocket.wide_questions import apply, changeable, silent
from counterfactory.export.pocket.wide_spans import additions, others, read_spans

STREETS, WIDE = LANGUAGES["streets"], LANGUAGES["wide"]


class RightAnswers:
    """Answers questions about the wide world's captions as its exercises do."""

    usage = Usage()

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        pass

    def _answer(self, request: LlmRequest) -> str:
        asked = dict(re.findall(r"^(\w[\w ]*): (.*)$", request.prompt.text.split("\n\n", 1)[1], re.MULTILINE))
        keep, protect = tuple(asked["Keep"].split(", ")), street_task("segmentation", "wide").protect
        protected = (*keep, *protect) if asked["Task"].startswith("segment") else keep
        types = tuple(asked.get("Types", "").split(", "))
        case = Situation(None, asked["Caption"], asked["Task"], "", keep, types, protected)
        answer = write_answer(self._said(case, asked))
        assert request.grammar.allows(answer)
        return answer

    def _said(self, case: Situation, asked: dict[str, str]) -> object:
        if case.types != ("",):
            pairs = [[span.type, span.keyword] for span in changeable(case)]
            return pairs + [[type_, "none"] for type_ in silent(case)]
        spans = {span.keyword: span for span in read_spans(case.caption)}
        if "Words" in asked:
            type_, _, keyword = asked["Words"].partition(": ")
            if keyword == "none":
                return additions(type_, case.caption, case.protected, 4)
            return others(spans[keyword], case.caption, case.protected, 4)
        changes = [change.split(" -> ") for change in asked["Changes"].split("; ")]
        return apply(case.caption, [(spans[old].type, old, new) for old, new in changes])


def test_right_answers_succeed_but_for_what_the_engine_cannot_tell_apart() -> None:
    figures = measure_edits(RightAnswers(), WIDE, 12)
    assert set(figures["edit_success"]) == set(figures["edits_asked"]) >= {"weather", "colour", "domain", "camera"}
    assert sum(figures["edits_asked"].values()) > 60
    assert 0.93 < figures["edit_success_all"] <= 1
    assert figures["variants_made"] > 0.93
    for shares in figures["edit_success"].values():
        assert shares["right_type"] == 1
        assert shares["success"] == min(shares.values())


def test_wrong_answers_are_told_by_what_is_wrong() -> None:
    class Stubborn(RightAnswers):
        """Calls the weather the time of day, and everything else weather."""

        def _said(self, case: Situation, asked: dict[str, str]) -> object:
            if case.types == ("",):
                return super()._said(case, asked)
            return [["time" if span.type == "weather" else "weather", span.keyword] for span in changeable(case)]

    figures = measure_edits(Stubborn(), WIDE, 4)
    assert figures["edit_success_all"] == 0
    assert figures["variants_made"] > 0.9
    assert {shares["right_facts"] for shares in figures["edit_success"].values()} == {1}


CAPTION = "a painting of a red car in front of a bus on a misty road at dusk. a man in blue is on the sidewalk."


def variant(caption: str, edited: str, *edits: Edit, dropped: str | None = None) -> Variant:
    source = Source("a", "a", Path("a"), (8, 8), "car", None, "d", "k")
    return Variant("k", source, 0, caption, edits, edited, 0, dropped)


FOGGY, NIGHT = Edit("weather", "misty", "rainy"), Edit("time", "at dusk", "at night")


@pytest.mark.parametrize(
    ("edits", "edited", "outcomes"),
    [
        ((FOGGY,), CAPTION.replace("misty", "rainy"), [("weather", True, True, True)]),
        ((FOGGY,), CAPTION.replace("misty", "snowy"), [("weather", True, False, True)]),
        ((FOGGY,), CAPTION.replace("misty", "rainy").replace("blue", "red"), [("weather", True, False, True)]),
        ((FOGGY,), CAPTION.replace("misty", "rainy").replace("car", "van"), [("weather", True, False, False)]),
        (
            (FOGGY, NIGHT),
            CAPTION.replace("misty", "rainy").replace("dusk", "night"),
            [("weather", True, True, True), ("time", True, True, True)],
        ),
        ((replace(FOGGY, type="time"),), CAPTION.replace("misty", "rainy"), [("time", False, True, True)]),
        ((Edit("weather", "misty", "dusty"),), CAPTION.replace("misty", "dusty"), [("weather", False, True, True)]),
        ((Edit("colour", "in blue", "white"),), CAPTION.replace("blue", "white"), [("colour", True, True, True)]),
        (
            (Edit("object", "", "beside a dog"),),
            CAPTION.replace("dusk.", "dusk beside a dog."),
            [("object", True, True, True)],
        ),
    ],
)
def test_an_edit_succeeds_by_its_type_the_facts_and_the_label(
    edits: tuple[Edit, ...], edited: str, outcomes: list[tuple[str, bool, bool, bool]]
) -> None:
    assert judge(WIDE, variant(CAPTION, edited, *edits)) == [Outcome(*one) for one in outcomes]


def test_a_dropped_caption_states_nothing() -> None:
    (outcome,) = judge(WIDE, variant(CAPTION, CAPTION.replace("misty", "rainy"), FOGGY, dropped="for a reason"))
    assert outcome == Outcome("weather", True, False, False)
    assert not outcome.success


@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        ("a red car", "a blue car", {"colour"}),
        ("a red car", "a red bus", {""}),
        ("a small red car", "a large blue car", {"adjective", "colour"}),
        ("a red car", "a red car and a bus", {""}),
        ("a man in red", "a woman in red running", {"subject"}),
        ("a dog and a bench", "a dog", {""}),
        ("a dog", "a dog and a bench", {"object"}),
        ("a dog", "a bike and a bench", {""}),
        ("a red bench", "a bench", {""}),
        ("a road curving left", "a road curving right", {"other"}),
        ("brick houses", "timber houses", {"adjective"}),
        ("trees line the street", "", {""}),
        ("a car", "a painting of a car", {"domain"}),
        ("nobody is here", "a man is here", {""}),
        ("a car", "a car", set()),
    ],
)
def test_facts_have_the_types_of_the_edits_that_change_them(before: str, after: str, types: set[str]) -> None:
    assert types_changed(WIDE, WIDE.read(before), WIDE.read(after)) == types


def test_streets_have_types_of_their_own() -> None:
    caption = "a red car on a foggy street at night. brick buildings stand along the road. nobody is on the sidewalk."
    for edit, edited in (
        (Edit("colour", "red car", "blue"), caption.replace("red", "blue")),
        (Edit("background", "brick", "glass"), caption.replace("brick", "glass")),
        (Edit("time", "at night", "sunset"), caption.replace("night", "sunset")),
        (Edit("weather", "foggy", "clear"), caption.replace("foggy", "clear")),
    ):
        assert judge(STREETS, variant(caption, edited, edit)) == [Outcome(edit.type, True, True, True)]
    lost = judge(STREETS, variant(caption, caption.replace("car", "bus"), Edit("colour", "red car", "red bus")))
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
