"""Exercises about captions of the wider world: their answers are of the right type, true, and what the engine takes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="no torch: the pocket language model's training goes unchecked")

import torch

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.english.additions import apply_by_rule
from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.engine.english.words import check_edited_caption, drop_overlapping
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.wide import scene as wide
from counterfactory.engine.pocket.wide.facts import read_facts
from counterfactory.engine.pocket.worlds import STREETS, WIDE
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.answers import request_of
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.exercises import KINDS_OF_QUESTION, Exercise
from counterfactory.export.pocket.languages import LANGUAGES, Language
from counterfactory.export.pocket.wide_questions import apply, changeable, exercise, silent
from counterfactory.export.pocket.wide_spans import WIDE_TYPES, additions, edited, others, read_spans, value_of

WIDE_LANGUAGE = LANGUAGES["wide"]
DRAWN = {kind: [exercise(kind, HELD_OUT, i) for i in range(60)] for kind in KINDS_OF_QUESTION}
numbers = st.integers(0, 1 << 40)


def test_an_exercise_is_a_function_of_its_number() -> None:
    for kind in KINDS_OF_QUESTION:
        assert exercise(kind, 5, 3) == exercise(kind, 5, 3) != exercise(kind, 5, 4)
        assert len({e.prompt for e in DRAWN[kind]}) == 60


@pytest.mark.parametrize("kind", KINDS_OF_QUESTION)
def test_right_answers_are_allowed_by_the_grammars(kind: str) -> None:
    for drawn in DRAWN[kind]:
        request = request_of(WIDE_LANGUAGE, kind, drawn)
        assert request.grammar.allows(drawn.answer), (drawn.answer, drawn.prompt)
        assert len(drawn.answer.encode()) < request.max_tokens


@settings(max_examples=25, deadline=None)
@given(numbers)
def test_a_rewritten_caption_says_the_edited_facts_and_no_others(number: int) -> None:
    drawn = exercise("rewrite", HELD_OUT, number)
    case, after = drawn.case, json.loads(drawn.answer)
    spans = {(span.type, span.keyword): span for span in read_spans(case.caption)}
    changed = [(spans[type_, old], new) for type_, old, new in drawn.changes]
    said = [(span, value_of(span, new)) for span, new in changed]
    if all(value for _, value in said):  # a user's own words are not in the tables that captions are read by
        assert read_facts(after) == edited(read_facts(case.caption), said), after
        assert read_facts(after) != read_facts(case.caption)
    edits = tuple(Edit(*change) for change in drawn.changes)
    assert check_edited_caption(case.caption, after, edits, case.protected) is None
    before, kept = read_facts(case.caption).vehicles, read_facts(after).vehicles
    assert sorted(kind for *_, kind in before) == sorted(kind for *_, kind in kept)
    assert changed_protected_word(case.caption, after, case.protected) is None
    assert drawn.changes == tuple(sorted(drawn.changes, key=lambda change: spans[change[:2]].start))


@settings(max_examples=25, deadline=None)
@given(numbers)
def test_keywords_are_spans_that_may_change_in_their_order(number: int) -> None:
    drawn = exercise("keywords", HELD_OUT, number)
    case, pairs = drawn.case, [tuple(pair) for pair in json.loads(drawn.answer)]
    if pairs == [("none", "none")]:
        assert not [*changeable(case), *silent(case)]
        return
    unsaid = [type_ for type_, keyword in pairs if keyword == "none"]
    pairs, behind = pairs[: len(pairs) - len(unsaid)], pairs[len(pairs) - len(unsaid) :]
    assert behind == [(type_, "none") for type_ in case.types if type_ in unsaid]
    assert not {type_ for type_, _ in pairs} & set(unsaid)
    assert case.frozen not in unsaid
    assert drop_overlapping(case.caption, pairs) == pairs
    spans = {(span.type, span.keyword): span for span in read_spans(case.caption)}
    assert max(Counter(type_ for type_, _ in pairs).values(), default=0) <= 2
    for pair in pairs:
        assert pair[0] in case.types
        assert pair[0] != case.frozen
        assert others(spans[pair], case.caption, case.protected, 4)


@settings(max_examples=25, deadline=None)
@given(numbers)
def test_every_alternative_alone_makes_the_edit_of_its_type(number: int) -> None:
    caption = WIDE.describe(WIDE.scene(HELD_OUT, number), np.random.default_rng(number), number % 2 == 0)
    facts = read_facts(caption)
    for span in read_spans(caption):
        for phrase in others(span, caption, (), 4):
            value = value_of(span, phrase)
            assert value not in (None, span.value)
            after = apply(caption, [(span.type, span.keyword, phrase)])
            assert read_facts(after) == edited(facts, [(span, value)]), after


@settings(max_examples=25, deadline=None)
@given(numbers)
def test_every_addition_alone_makes_the_edit_of_its_type(number: int) -> None:
    caption = WIDE.describe(WIDE.scene(HELD_OUT, number), np.random.default_rng(number), True)
    facts = read_facts(caption)
    for type_ in WIDE_TYPES:
        found = additions(type_, caption, (), 4)
        field = "things" if type_ == "object" else type_
        assert not (found and getattr(facts, field))
        for phrase in found:
            edit = Edit(type_, "", phrase)
            after = apply_by_rule(caption, (edit,))
            assert check_edited_caption(caption, after, (edit,), ()) is None
            said = getattr(read_facts(after), field)
            assert said, after
            assert read_facts(after) == replace(facts, **{field: said}), after
            if type_ == "object":
                assert said == ((None, phrase.removeprefix("beside a ")),)


def test_all_that_can_be_added_occurs_and_tasks_hold_their_own() -> None:
    scenes = [WIDE.scene(HELD_OUT, i) for i in range(60)]
    captions = [WIDE.describe(scene, np.random.default_rng((9, i)), True) for i, scene in enumerate(scenes)]
    counts = {type_: len({p for c in captions for p in additions(type_, c, (), 2)}) for type_ in WIDE_TYPES}
    assert {type_: count for type_, count in counts.items() if count} == {
        "weather": 5, "time": 3, "background": 4, "camera": 3, "object": 5, "domain": 2,
    }  # fmt: skip
    protected = street_task("segmentation", "wide").protect
    assert not any(additions("object", caption, protected, 4) for caption in captions)
    assert any(additions("weather", caption, protected, 4) for caption in captions)
    added = [drawn for drawn in DRAWN["alternatives"] if drawn.changes[0][1] == "none"]
    assert 2 < len(added) < 20
    for drawn in added:
        assert json.loads(drawn.answer) == additions(drawn.changes[0][0], drawn.case.caption, drawn.case.protected, 4)


def test_alternatives_are_others_or_the_users() -> None:
    for drawn in DRAWN["alternatives"]:
        values, (_, keyword, _) = json.loads(drawn.answer), drawn.changes[0]
        assert len(set(values)) == len(values) > 0
        assert keyword == "none" or keyword not in values
        assert not drawn.values or [v for v in drawn.values if v in values] == values
        if not drawn.values:
            assert len(values) <= WIDE_LANGUAGE.settings.max_alternatives
    own = [drawn for drawn in DRAWN["alternatives"] if drawn.values]
    assert 8 < len(own) < 30
    assert any(len(json.loads(drawn.answer)) < len(drawn.values) for drawn in own)  # not those that do not fit


def test_words_to_keep_are_those_that_the_engine_would_list() -> None:
    masks = 0
    for kind in KINDS_OF_QUESTION:
        for drawn in DRAWN[kind]:
            case = drawn.case
            assert case.keep in (case.protected, tuple(w for w in case.protected if w in case.keep))
            masks += "traffic light" in case.protected
    assert masks > 20


def test_every_value_of_every_type_occurs_in_answers() -> None:
    counts = {kind: Counter[tuple[str, str]]() for kind in ("keywords", "alternatives")}
    for index in range(300):
        caption = WIDE.describe(WIDE.scene(HELD_OUT, index), np.random.default_rng((7, index)), False)
        for span in read_spans(caption):
            counts["keywords"][span.says.removesuffix(" phrase"), span.value] += 1
            for phrase in others(span, caption, (), 4):
                counts["alternatives"][span.says.removesuffix(" phrase"), str(value_of(span, phrase))] += 1
    colours = {*wide.COLOURS, "brown"}
    wanted = {
        "weather": wide.WEATHERS, "time": wide.TIMES, "background": wide.BACKGROUNDS, "domain": wide.DOMAINS,
        "material": wide.MATERIALS, "bend": wide.BENDS, "camera": wide.CAMERAS, "vehicles colour": wide.COLOURS,
        "people colour": wide.COLOURS, "things colour": colours, "people kind": wide.PERSON_KINDS,
        "people pose": wide.POSES, "things kind": wide.THING_KINDS, "vehicles size": ("small", "large"),
    }  # fmt: skip
    named = {(says, value) for says, values in wanted.items() for value in values}
    rare = {("things colour", "orange"), ("things colour", "purple")}  # bicycles alone
    assert set(counts["alternatives"]) == set(counts["keywords"]) | rare == named
    assert min(counts["alternatives"][one] for one in named - rare) > 5
    assert min(counts["keywords"][one] for one in named - rare) > 2
    assert {type_ for drawn in DRAWN["keywords"] for type_, _ in json.loads(drawn.answer)} - {"none"} == set(WIDE_TYPES)
    assert set(WIDE_TYPES) < set(EDIT_TYPES)


def test_it_trains_on_either_worlds_exercises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "_ROWS", dict.fromkeys(KINDS_OF_QUESTION, 1))
    monkeypatch.setattr(llama, "_COPIES", 1)
    for world in (STREETS, WIDE):
        drawn: list[Exercise] = []
        language = LANGUAGES[world.name]

        def seen(*number: Any, language: Language = language, drawn: list[Exercise] = drawn) -> Exercise:
            drawn.append(language.exercise(*number))
            return drawn[-1]

        monkeypatch.setattr(llama, "LANGUAGES", {world.name: replace(language, exercise=seen)})
        monkeypatch.setitem(llama.RECIPES, world.name, replace(llama.RECIPES[world.name], steps=1, log_every=1))
        work = tmp_path / world.name
        work.mkdir()
        (work / "llama_tokenizer.json").write_text(llama.byte_tokenizer(["a street"], 280).to_str())
        model, tokenizer = llama.train(work, world)
        assert model.config.vocab_size == tokenizer.get_vocab_size()
        assert all(type(one.case.scene) is type(world.scene(0, 0)) for one in drawn)
        assert len(drawn) == 3
        assert (work / "llama.jsonl").read_text().count("\n") == 1


def test_a_training_begins_with_older_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(llama.RECIPES, "wide", replace(llama.RECIPES["wide"], steps=0))
    numbered = llama.byte_tokenizer(["a red car on a street"], 280)
    older = llama.build(numbered.get_vocab_size())
    with torch.no_grad():
        for parameter in older.parameters():
            parameter.add_(0.5)
    (tmp_path / "llama_tokenizer.json").write_text(llama.byte_tokenizer(["a road, a bus and a road"], 275).to_str())
    begun, tokenizer = llama.train(tmp_path, WIDE, (older, numbered))
    assert torch.equal(begun.model.layers[1].mlp.up_proj.weight, older.model.layers[1].mlp.up_proj.weight)
    known, own = numbered.get_vocab(), tokenizer.get_vocab()
    rows, theirs = begun.get_input_embeddings().weight, older.get_input_embeddings().weight
    assert torch.equal(rows[own["r"]], theirs[known["r"]])
