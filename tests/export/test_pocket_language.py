"""The pocket language model: its exercises have right answers, which grammars allow, and its edits are measured:
what counts as a success, and that a model of right answers has nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from exporter import run_exporter

from counterfactory.engine.edit import STREET_TYPES, Edit
from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.engine.language.llm_request import LlmRequest, Usage
from counterfactory.engine.language.questions import write_answer
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.sources.source import Source
from counterfactory.engine.variant import Variant
from counterfactory.export.language.answer_loss import answer_loss, encode_answers
from counterfactory.export.pocket import language as module
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.exercises import (
    KINDS_OF_QUESTION,
    Situation,
    apply,
    changeable,
    exercise,
    others,
)
from counterfactory.export.pocket.language import (
    Outcome,
    built_in,
    judge,
    measure_edits,
    request_of,
    same_facts,
    types_changed,
)

DRAWN = {kind: [exercise(kind, HELD_OUT, i) for i in range(60)] for kind in KINDS_OF_QUESTION}


def test_an_exercise_is_a_function_of_its_number() -> None:
    for kind in KINDS_OF_QUESTION:
        assert exercise(kind, 5, 3) == exercise(kind, 5, 3) != exercise(kind, 5, 4)
        assert len({e.prompt for e in DRAWN[kind]}) > 55


@pytest.mark.parametrize("kind", KINDS_OF_QUESTION)
def test_right_answers_are_allowed_by_the_grammars(kind: str) -> None:
    for drawn in DRAWN[kind]:
        request = request_of(kind, drawn)
        assert request.grammar.allows(drawn.answer), (drawn.answer, drawn.prompt)
        assert len(drawn.answer.encode()) < request.max_tokens


def test_keywords_stand_in_order_and_touch_no_kept_word() -> None:
    for drawn in DRAWN["keywords"]:
        pairs = json.loads(drawn.answer)
        places = [drawn.case.caption.index(keyword) for _, keyword in pairs]
        assert places == sorted(places)
        assert len({keyword for _, keyword in pairs}) == len(pairs) <= 6
        for type_, keyword in pairs:
            assert type_ in drawn.case.types
            assert type_ != drawn.case.frozen
            kept = [word for word in drawn.case.keep if word not in ("car", "bus", "truck")]
            assert changed_protected_word(keyword, "", kept) is None


def test_alternatives_are_others_or_the_users() -> None:
    for drawn in DRAWN["alternatives"]:
        values, (_, keyword, _) = json.loads(drawn.answer), drawn.changes[0]
        assert len(set(values)) == len(values) > 0
        assert keyword not in values
        assert not drawn.values or tuple(values) == drawn.values


def test_rewriting_makes_the_changes_and_no_other() -> None:
    known = [drawn for drawn in DRAWN["rewrite"] if built_in(drawn)]
    assert len(known) > 10
    assert not any(re.search(r"\ba [aeiou]|\ban [^aeiou]", drawn.answer) for drawn in DRAWN["rewrite"])
    for drawn in known:
        before, after = read_facts(drawn.case.caption), read_facts(json.loads(drawn.answer))
        assert types_changed(before, after) == {type_ for type_, *_ in drawn.changes}
        assert same_facts(drawn.answer, drawn.answer)
        assert not same_facts(json.dumps(drawn.case.caption), drawn.answer)


@pytest.mark.parametrize(
    ("caption", "changes", "wanted"),
    [
        (
            "at sunset a red car and a blue car are on an icy road.",
            [("time", "at sunset", "night"), ("colour", "red car", "blue"), ("colour", "blue car", "orange car")],
            "at night a blue car and an orange car are on an icy road.",
        ),
        ("a bus during the day", [("time", "during the day", "in the morning")], "a bus in the morning"),
        ("a bus at night", [("time", "at night", "daytime")], "a bus during the day"),
        ("an orange bus, orange walls", [("background", "orange", "red")], "a red bus, red walls"),
    ],
)
def test_apply_mends_the_sentence(caption: str, changes: list[tuple[str, str, str]], wanted: str) -> None:
    assert apply(caption, changes) == wanted


def test_rows_share_their_head_which_changes_no_loss_and_only_answers_are_learnt() -> None:
    tokenizer = llama.byte_tokenizer(["a prompt", '["an answer"]'], 300)
    asked = DRAWN["alternatives"][:2]
    head, rows, labels = encode_answers(tokenizer, [(e.prompt.text, e.answer) for e in asked], llama.END)
    for drawn, row, wanted in zip(asked, rows, labels, strict=True):
        text = tokenizer.decode([*head.tolist(), *row.tolist()], skip_special_tokens=True)
        assert text == drawn.prompt.text + drawn.answer
        answer = wanted[wanted >= 0].tolist()
        assert tokenizer.decode(answer, skip_special_tokens=True) == drawn.answer
        assert answer[-1] == llama.END
    model = llama.build(tokenizer.get_vocab_size())
    whole = torch.cat([head.expand(2, -1), rows], 1)
    masked = torch.cat([torch.full((2, len(head)), -100), labels], 1)
    with torch.no_grad():
        expected = model(input_ids=whole, labels=masked).loss * (labels >= 0).sum()
        assert torch.allclose(answer_loss(model, head, rows, labels), expected, rtol=1e-4)


class RightAnswers:
    """Answers questions about the captions of held-out scenes as the exercises do."""

    usage = Usage()

    def __init__(self, count: int) -> None:
        drawn = [(EMBEDDED.scene(HELD_OUT, i), np.random.default_rng((module._SEED, i))) for i in range(count)]
        self._scenes = {EMBEDDED.describe(scene, rng): scene for scene, rng in drawn}

    def generate(self, requests: Sequence[LlmRequest]) -> list[str]:
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        pass

    def _answer(self, request: LlmRequest) -> str:
        asked = dict(re.findall(r"^(\w[\w ]*): (.*)$", request.prompt.text.split("\n\n", 1)[1], re.MULTILINE))
        keep, types = tuple(asked["Keep"].split(", ")), tuple(asked.get("Types", ", ".join(STREET_TYPES)).split(", "))
        case = Situation(self._scenes[asked["Caption"]], asked["Caption"], asked["Task"], "", keep, types)
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
    figures = measure_edits(RightAnswers(12), 12)
    assert set(figures["edit_success"]) == set(figures["edits_asked"]) == {"weather", "time", "colour", "background"}
    assert sum(figures["edits_asked"].values()) > 60
    assert 0.93 < figures["edit_success_all"] <= 1
    assert figures["variants_made"] > 0.93
    for shares in figures["edit_success"].values():
        assert shares["right_type"] == 1
        assert shares["success"] == min(shares.values())


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
        ((Edit("colour", "red car", "green"),), CAPTION.replace("red", "green"), [("colour", True, True, True)]),
        (
            (Edit("background", "brick", "glass"),),
            CAPTION.replace("brick", "glass"),
            [("background", True, True, True)],
        ),
        ((Edit("colour", "red car", "red bus"),), CAPTION.replace("car", "bus"), [("colour", False, True, False)]),
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
    assert judge(variant(CAPTION, edited, *edits)) == [Outcome(*one) for one in outcomes]


def test_a_dropped_caption_states_nothing() -> None:
    (outcome,) = judge(variant(CAPTION, CAPTION.replace("foggy", "rainy"), FOGGY, dropped="for a reason"))
    assert outcome == Outcome("weather", True, False, False)


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
    assert types_changed(read_facts(CAPTION), read_facts(after)) == types


def test_the_embedded_model_is_measured_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_exporter("language", "--scenes", "2", "--exercises", "2", "--threads", "1") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["variants_made"] == 1
    assert figures["edit_success_all"] > 0.8
    assert figures["questions"]["rewrite_facts"] >= 0
    assert sum(figures["edits_asked"].values()) == 2 * (1 + 2) * module._VARIANTS // 2
