"""The pocket language model: its exercises have right answers, which grammars allow, and its edits are measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from exporter import run_exporter

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.sources.source import Source
from counterfactory.engine.variant import Variant
from counterfactory.export.language.answer_loss import answer_loss, encode_answers
from counterfactory.export.pocket import language as module
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.exercises import KINDS_OF_QUESTION, apply, exercise
from counterfactory.export.pocket.language import Outcome, built_in, judge, request_of, same_facts, types_changed

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


def test_apply_mends_the_sentence() -> None:
    cars = [("time", "at sunset", "night"), ("colour", "red car", "blue"), ("colour", "blue car", "orange car")]
    found = apply("at sunset a red car and a blue car are on an icy road.", cars)
    assert found == "at night a blue car and an orange car are on an icy road."
    day, night = ("time", "during the day", "in the morning"), ("time", "at night", "daytime")
    assert apply("a bus during the day", [day]) == "a bus in the morning"
    assert apply("a bus at night", [night]) == "a bus during the day"
    assert apply("an orange bus, orange walls", [("background", "orange", "red")]) == "a red bus, red walls"


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


CAPTION = (
    "a red car and a blue bus on a foggy street at night. brick buildings stand along the road. one person is on the "
    "sidewalk."
)


def variant(caption: str, edited: str, *edits: Edit, dropped: str | None = None) -> Variant:
    source = Source("a", "a", Path("a"), (8, 8), "car", None, "d", "k")
    return Variant("k", source, 0, caption, edits, edited, 0, dropped)


FOGGY, NIGHT = Edit("weather", "foggy", "rainy"), Edit("time", "at night", "at sunset")


def changed(changes: dict[str, str]) -> str:
    """The caption with other words."""
    caption = CAPTION
    for old, new in changes.items():
        caption = caption.replace(old, new)
    return caption


@pytest.mark.parametrize(
    ("edits", "changes", "right_type", "right_facts", "label_kept"),
    [
        ((Edit("colour", "red car", "green"),), {"red": "green"}, True, True, True),
        ((Edit("background", "brick", "glass"),), {"brick": "glass"}, True, True, True),
        ((Edit("colour", "red car", "red bus"),), {"car": "bus"}, False, True, False),
        ((FOGGY,), {"foggy": "rainy"}, True, True, True),
        ((FOGGY,), {"foggy": "snowy"}, True, False, True),
        ((FOGGY,), {"foggy": "rainy", "blue": "red"}, True, False, True),
        ((FOGGY,), {"foggy": "rainy", "car": "truck"}, True, False, False),
        ((FOGGY, NIGHT), {"foggy": "rainy", "night": "sunset"}, True, True, True),
        ((replace(FOGGY, type="time"),), {}, False, False, True),
    ],
)
def test_an_edit_succeeds_by_its_type_the_facts_and_the_label(
    edits: tuple[Edit, ...], changes: dict[str, str], right_type: bool, right_facts: bool, label_kept: bool
) -> None:
    outcomes = [Outcome(edit.type, right_type, right_facts, label_kept) for edit in edits]
    assert judge(variant(CAPTION, changed(changes), *edits)) == outcomes


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
    assert types_changed(read_facts(CAPTION), read_facts(changed(changes))) == types


def test_the_embedded_model_is_measured_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Of these scenes it gives the right answers, all of which are to count."""
    assert run_exporter("language", "--scenes", "4", "--exercises", "2", "--threads", "1") == 0
    figures = json.loads(capsys.readouterr().out)
    right = dict.fromkeys(("success", "right_type", "right_facts", "label_kept"), 1.0)
    assert figures["edit_success"] == dict.fromkeys(("background", "colour", "time", "weather"), right)
    assert figures["edits_asked"].keys() == figures["edit_success"].keys()
    assert sum(figures["edits_asked"].values()) == 4 * (1 + 2) * module._VARIANTS // 2
    assert (figures["edit_success_all"], figures["variants_made"]) == (1, 1)
    assert set(figures["questions"].values()) == {1.0}
