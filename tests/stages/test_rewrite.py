"""Rewriting: a careful writer gives the variants one expects, and no answer that a grammar allows breaks a rule."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import SETTINGS, TASK, UNUSED, Scripted, Told, source, wanted_of
from rewriting import rewrite as rewrite_told
from tiny_desk import tiny_run

from counterfactory.engine.content_keys import variant_key
from counterfactory.engine.edit import STREET_TYPES, Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.words import spans
from counterfactory.engine.language.grammar import (
    Grammar,
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    text_grammar,
)
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.questions import (
    AnswerError,
    PlainPrompts,
    clean_text,
    read_alternatives,
    read_caption,
    read_keywords,
)
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import SourceVariants, rewrite_captions
from counterfactory.engine.tasks.task import Task, builtin_task
from counterfactory.engine.tasks.user_task import Interventions
from counterfactory.engine.variant import Variant

CAPTION = "a red bus and a blue car on a foggy street at night. brick buildings stand along the road."

rewrite = partial(rewrite_told, prompts=PlainPrompts())
WEIGHTS = Path(__file__).parents[2] / "engine" / "pocket" / "weights" / "llm"

_OTHERS = {
    ("weather", "foggy"): ["rainy", "snowy", "clear"],
    ("time", "at night"): ["during the day", "at sunset"],
    ("colour", "red bus"): ["orange bus", "white bus"],
    ("colour", "blue car"): ["orange car", "white car"],
    ("background", "brick"): ["glass"],
}


class Writer:
    """A careful writer who knows the words of `_OTHERS`; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, LlmRequest]] = []

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        assert len(set(requests)) == len(requests)
        self.asked += [(question, request) for request in requests]
        answers = [json.dumps(self._answer(r.prompt.text), separators=(",", ":")) for r in requests]
        for answer, request in zip(answers, requests, strict=True):
            assert request.grammar.allows(answer), (answer, request)
            assert len(answer.encode()) < request.max_tokens
        return answers

    def _answer(self, prompt: str) -> object:
        lines = dict(line.split(": ", 1) for line in prompt.split("\n\n")[1].splitlines() if ": " in line)
        caption = lines["Caption"]
        if "Types" in lines:
            types = lines["Types"].split(", ")
            return [[t, k] for (t, k) in _OTHERS if t in types and k in caption] or [["none", "none"]]
        if "Changes" in lines:
            for change in lines["Changes"].split("; "):
                old, new = change.split(" -> ")
                caption = caption.replace(old, new)
            return re.sub(r"\ba (?=[aeiou])", "an ", caption)
        type_, keyword = lines["Words"].split(": ")
        if lines["Values"] != "any":
            return lines["Values"].split(", ")
        return _OTHERS[type_, keyword]


def rewritten(*names: str, wanted: SuiteRequest, caption: str = CAPTION) -> list[SourceVariants]:
    return rewrite([source(n) for n in names], [caption] * len(names), SETTINGS, wanted, Writer())


def test_more_variants_keep_those_that_exist_and_neither_controls_nor_company_change_any() -> None:
    (result,) = rewritten("bus/1", wanted=wanted_of(3, (1, 3), seed=4, controls=2))
    assert len({v.key for v in result.variants}) == 5
    (alone,) = rewritten("bus/1", wanted=wanted_of(3, (1, 3), seed=4))
    assert alone.variants == result.variants[2:]
    (three,) = rewritten("bus/1", wanted=wanted_of(3, (1, 3), seed=0))
    five = rewritten("bus/0", "bus/1", "bus/2", wanted=wanted_of(5, (1, 3), seed=0))[1]
    assert three.variants == five.variants[:3]
    other_seed = rewritten("bus/1", wanted=wanted_of(3, (1, 3), seed=1))[0]
    assert [v.edits for v in other_seed.variants] != [v.edits for v in three.variants]
    assert not {v.key for v in other_seed.variants} & {v.key for v in three.variants}


def test_the_choice_of_edits_depends_on_source_task_and_seed() -> None:
    def chosen(prefix: str = "bus", task: Task = TASK, seed: int = 0) -> list[tuple[Edit, ...]]:
        found = rewritten(*(f"{prefix}/{i}" for i in range(8)), wanted=wanted_of(1, (1, 3), seed, task=task))
        return [variant.edits for result in found for variant in result.variants]

    assert chosen() == chosen()
    assert len(set(chosen())) > 3
    assert chosen("other") != chosen()
    assert chosen(task=replace(TASK, sentence="Another model is tested.")) != chosen()
    assert chosen(seed=1) != chosen()


def test_a_variant_s_key_names_all_that_makes_it_but_its_number() -> None:
    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        answers = {"keywords": '[["colour","red"]]', "alternatives": '["blue","green"]', "rewrite": f'"{edited}"'}
        return [answers[question]] * len(requests)

    def made(name: str, caption: str, seed: int, task: Task = TASK) -> dict[tuple[Edit, ...], str]:
        (result,) = rewrite([source(name)], [caption], SETTINGS, wanted_of(2, (1, 1), seed, task=task), ask)
        return {variant.edits: variant.key for variant in result.variants}

    edited = "a blue and green bus"
    base = made("bus/1", "a red bus", 0)
    assert len(set(base.values())) == 2
    others = [made("bus/2", "a red bus", 0), made("bus/1", "the red bus", 0), made("bus/1", "a red bus", 1)]
    edited = "one blue and green bus"
    others.append(made("bus/1", "a red bus", 0))
    for other in others:
        assert other.keys() == base.keys()
        assert not set(other.values()) & set(base.values())
    # The same edits make the same picture, whichever variant they are: another task puts them in another order.
    edited = "a blue and green bus"
    tasks = [made("bus/1", "a red bus", 0, replace(TASK, sentence=f"Task {i}.")) for i in range(9)]
    assert all(keys == base for keys in tasks)
    assert len({next(iter(keys)) for keys in tasks}) == 2


def test_when_different_edits_run_out_the_same_are_made_again_of_other_noise() -> None:
    values = Interventions((("weather", ("rainy", "foggy")), ("time", ("night", "dawn", "noon"))))
    (result,) = rewritten("bus/1", wanted=wanted_of(12, (1, 2), 0, values))
    # weather: rainy; time: dawn or noon ("night" is said by "at night"): 1 + 2 + 1 * 2 sets
    first = result.variants[:5]
    pairs = {("rainy", "dawn"), ("rainy", "noon")}
    assert {tuple(e.alternative for e in v.edits) for v in first} == {("rainy",), ("dawn",), ("noon",)} | pairs
    repeated = [(i, i // 5, first[i % 5].edits) for i in range(12)]
    assert [(v.index, v.repeat, v.edits) for v in result.variants] == repeated
    assert len({v.key for v in result.variants}) == 12
    one, *_, again = (v for v in result.variants if v.edits == first[1].edits)
    assert one.key == variant_key(one.source.key, CAPTION, one.edits, one.edited_caption, 0)
    assert again.key == variant_key(one.source.key, CAPTION, one.edits, one.edited_caption, 0, 2)
    assert result.shortfall is None


def test_a_variant_that_is_dropped_gives_its_number_to_one_that_is_not() -> None:
    class Careless(Writer):
        def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
            answers = super().__call__(question, requests)
            return answers if question != "rewrite" else [answers[0], '"a truck"', answers[2], '"a truck"', '"a truck"']

    (result,) = rewrite([source("bus/1")], [CAPTION], SETTINGS, wanted_of(5, (1, 1), 0), Careless())
    made, filled = result.variants[:5], result.variants[5:]
    assert [v.index for v in made if v.dropped] == [v.index for v in filled] == [1, 3, 4]
    assert [(v.edits, v.edited_caption, v.repeat) for v in filled] == [
        (made[0].edits, made[0].edited_caption, 1),
        (made[2].edits, made[2].edited_caption, 1),
        (made[0].edits, made[0].edited_caption, 2),
    ]
    assert {v.dropped for v in filled} == {None}
    assert all(v.key == variant_key(v.source.key, CAPTION, v.edits, v.edited_caption, 0, v.repeat) for v in filled)
    assert result.shortfall is None


def test_sources_that_cannot_be_rewritten_say_why() -> None:
    for caption, reason in (
        ("", "no words"),
        ("bus, bus!", "no words"),
        ("a bus", "nothing"),
        ("a red tram", "names nothing that it is labelled with ('bus')"),
    ):
        (result,) = rewritten("bus/1", wanted=wanted_of(2, (1, 1), 0), caption=caption)
        assert result.variants == ()
        assert reason in (result.shortfall or "")


def test_a_caption_that_does_not_name_the_label_makes_variants_only_where_that_is_allowed() -> None:
    caption, dog = "a dog on a foggy street at night", source("dog/1", "n02099601")
    strict = wanted_of(2, (1, 1), task=builtin_task("classification", ["n02099601", "cat"]))
    (grounded,) = rewrite([dog], [caption], SETTINGS, strict, Writer())
    assert [variant.protected for variant in grounded.variants] == [("dog",)] * 2
    assert grounded.shortfall is None
    cat, classes = source("cat/1", "cat"), replace(source("x", None), classes=("car", "cat"))
    for own, named in ((cat, "('cat')"), (classes, "('car', 'cat')")):
        (refused,) = rewrite([own], [caption], SETTINGS, strict, Scripted())
        assert refused.variants == ()
        assert f"names nothing that it is labelled with {named}" in (refused.shortfall or "")
        assert "--allow-ungrounded" in (refused.shortfall or "")
        (allowed,) = rewrite([own], [caption], SETTINGS, replace(strict, allow_ungrounded=True), Writer())
        assert [variant.protected for variant in allowed.variants] == [(), ()]


@pytest.mark.parametrize("name", ["classification", "segmentation"])
@settings(max_examples=12)
@given(data=st.data())
def test_no_answer_within_the_grammars_breaks_a_rule(name: str, data: st.DataObject) -> None:
    task = street_task(name)

    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        return [data.draw(st.from_regex(r.grammar.pattern, fullmatch=True)) for r in requests]

    sources = [source("bus/1"), source("odd", None)]
    captions = [CAPTION, 'été: "it\'s" a café\n\t(50% red) [bus]']
    small = RewriteSettings(STREET_TYPES, 2, 2, 2, 120, verbatim=False)
    results = rewrite(sources, captions, small, wanted_of(2, (1, 2), task=task), ask)
    for src, result in zip(sources, results, strict=True):
        assert len({(v.edits, v.repeat) for v in result.variants}) == len(result.variants)
        assert sum(not v.dropped for v in result.variants) == 2 or result.shortfall
        for variant in result.variants:
            if not variant.dropped:
                keep = task.protected(src.label)
                assert check_edited_caption(variant.caption, variant.edited_caption, variant.edits, keep) is None
            for edit in variant.edits:
                assert edit.keyword in variant.caption
                assert edit.alternative.casefold() != edit.keyword.casefold()


def test_prompts_carry_one_line_of_plain_text() -> None:
    assert clean_text('a "red"\n\tcar\\bus \x00') == "a 'red' car/bus"
    captions = (read_caption, "[]"), (read_caption, '"a')
    for read, text in ((read_keywords, '[["a"]]'), (read_alternatives, "[1]"), *captions):
        with pytest.raises(AnswerError, match=r"asked for|closed"):
            read(text)


def test_the_pocket_model_rewrites_street_captions() -> None:
    from counterfactory.engine.language.openvino_llm import OpenVinoLlm

    llm = OpenVinoLlm(WEIGHTS, precision="f32", threads=1)
    caption = "a red bus on a foggy street at night. brick buildings stand along the road. nobody is on the sidewalk."
    for task in (TASK, street_task("segmentation")):
        wanted = wanted_of(5, (1, 3), task=task)
        (result,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted, lambda _, r: llm.generate(r))
        assert result.shortfall is None
        assert [v.dropped for v in result.variants] == [None] * 5
        assert {e.type for v in result.variants for e in v.edits} == {"weather", "time", "colour", "background"}


# Edits by keyword: every question says all that it is about, and what becomes of the answers.


def variant_of(source: Source, caption: str, edit: Edit, edited: str, seed: int, dropped: str | None = None) -> Variant:
    """The first variant of a source, by one edit."""
    key = variant_key(source.key, caption, (edit,), edited, seed)
    return Variant(key, source, 0, caption, (edit,), edited, seed, dropped, protected=("bus",))


@pytest.mark.parametrize("verbatim", [True, False])
def test_every_question_says_all_that_it_is_about_and_a_bad_answer_costs_no_other(verbatim: bool) -> None:
    sources = [source(name) for name in ("empty", "no keywords", "good")]
    *_, unread, caption = captions = ["", "a red bus", "a red café bus"]
    bounds = replace(SETTINGS, max_chars_caption=len(caption), verbatim=verbatim)
    ask = Scripted(
        keywords=["{}", '[["colour","red"],["background","café"]]'],
        alternatives=["{}", '["a café","bus bar","bar"]'],  # the first changes too little, the second names the label
        rewrite=['"a red bar bus"' if verbatim else "{}"],
    )
    found = rewrite_told(sources, captions, bounds, wanted_of(2, (1, 1), seed=7, controls=1), ask, Told())
    told, keep, most = Told(), ("bus",), bounds.max_alternatives

    def keyword_grammar(text: str) -> Grammar:
        return keywords_grammar(STREET_TYPES, spans(text, bounds.max_words_keyword, keep), bounds.max_keywords)

    assert ask.asked == {
        "keywords": [
            LlmRequest(told.keywords(TASK.sentence, STREET_TYPES, keep, text), keyword_grammar(text))
            for text in (unread, caption)
        ],
        "alternatives": [
            LlmRequest(told.alternatives(TASK.sentence, keep, caption, *word), alternatives_grammar(word[1], most))
            for word in (("colour", "red"), ("background", "café"))
        ],
        "rewrite": [
            LlmRequest(
                told.rewrite(TASK.sentence, keep, caption, [("café", "bar")]),
                edited_grammar(caption, [("café", "bar")]) if verbatim else text_grammar(len(caption), "é"),
            )
        ],
    }
    edit = Edit("background", "café", "bar")
    if verbatim:
        key = variant_key(sources[2].key, caption, 0, caption, 7)
        control = Variant(key, sources[2], 0, caption, (), caption, 7, None, "control", ("bus",))
        one, shortfall = variant_of(sources[2], caption, edit, "a red bar bus", seed=7), None
        again = variant_key(sources[2].key, caption, (edit,), "a red bar bus", 7, 1)
        variants: tuple[Variant, ...] = (control, one, replace(one, key=again, index=1, repeat=1))
    else:
        reason = "asked for a caption, got '{}'"
        variants, shortfall = (variant_of(sources[2], caption, edit, "", seed=7, dropped=reason),), f"{UNUSED}{reason}"
    assert found == [
        SourceVariants((), "its caption has no words that may change"),
        SourceVariants((), "asked for a list of keywords, got '{}'"),
        SourceVariants(variants, shortfall),
    ]


def test_a_user_s_values_are_not_asked_about() -> None:
    caption, own = "at night a red car stands by a bus", source("bus/1")
    values = Interventions((("time", ("night",)), ("colour", ("red", "red and blue"))))
    edited = "at night a red and blue car stands by a bus"
    ask = Scripted(keywords=['[["time","at night"],["colour","red"]]'], rewrite=[f'"{edited}"'])
    wanted = wanted_of(1, (1, 1), seed=7, interventions=values)
    (found,) = rewrite_told([own], [caption], SETTINGS, wanted, ask, Told())
    assert found.variants == (variant_of(own, caption, Edit("colour", "red", "red and blue"), edited, 7),)
    assert found.cells == {
        ("time", "night"): (False, "in the caption already", None),
        ("colour", "red"): (False, "in the caption already", None),
        ("colour", "red and blue"): (True, None, 0),
    }
    types, told, keep = ("time", "colour"), Told(), ("bus",)
    free = spans(caption, SETTINGS.max_words_keyword, keep)
    grammar = keywords_grammar(types, free, SETTINGS.max_keywords)
    assert ask.asked["keywords"] == [LlmRequest(told.keywords(TASK.sentence, types, keep, caption), grammar)]


def test_weather_and_time_are_added_where_a_caption_is_silent_of_them() -> None:
    values = Interventions((("time", ("night", "bus time")), ("colour", ("blue",)), ("weather", ("rain",))))
    ask = Scripted(keywords=['[["none","none"]]'])
    wanted = wanted_of(2, (1, 1), interventions=values)
    (found,) = rewrite([source("bus/1")], ["a bus by a wall. it is old."], SETTINGS, wanted, ask)
    assert found.shortfall is None
    assert {(v.edits, v.edited_caption, v.dropped) for v in found.variants} == {
        ((Edit("time", "", "at night"),), "a bus by a wall at night. it is old.", None),
        ((Edit("weather", "", "in the rain"),), "a bus by a wall in the rain. it is old.", None),
    }
    # What the caption says of them, found by the model or by a rule, is replaced, and never said twice.
    ask = Scripted(keywords=['[["weather","wet"]]'], rewrite=['"a rain bus at noon"', '"a wet bus at night"'])
    (found,) = rewrite([source("bus/1")], ["a wet bus at noon"], SETTINGS, replace(wanted, seed=1), ask)
    assert {(v.edits, v.edited_caption) for v in found.variants} == {
        ((Edit("weather", "wet", "rain"),), "a rain bus at noon"),
        ((Edit("time", "at noon", "night"),), "a wet bus at night"),
    }


def test_a_caption_without_any_edit_says_so() -> None:
    values = Interventions((("time", ("night",)),))
    ask = Scripted(keywords=['[["time","at night"]]'])
    caption = "a bus at night"
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted_of(2, (1, 1), interventions=values), ask)
    said = {("time", "night"): (False, "in the caption already", None)}
    assert found == SourceVariants((), f"its caption allows no set of 1 to 1 edits: {caption!r}", said)
    silent = Scripted(keywords=['[["time","at night"]]'], alternatives=["[]"])
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted_of(2, (1, 1)), silent)
    assert found.shortfall == f"its caption allows no set of 1 to 1 edits: {caption!r}"
    cut = Scripted(keywords=['[["time","at night"]]'], alternatives=['["at'])
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted_of(2, (1, 1)), cut)
    assert "answer is not closed JSON" in (found.shortfall or "")


def test_no_alternative_has_a_word_to_avoid() -> None:
    red, others = ['[["colour","red"]]'], ['["stylish red","Ugly","blue"]']
    ask = Scripted(keywords=red, alternatives=others, rewrite=['"a blue bus"'])
    (found,) = rewrite([source("bus/1")], ["a red bus"], SETTINGS, wanted_of(1, (1, 1)), ask)
    assert [v.edits for v in found.variants] == [(Edit("colour", "red", "blue"),)]
    own = replace(wanted_of(2, (1, 1)), avoid=("Blue",))
    ask = Scripted(keywords=['[["colour","red"]]'], alternatives=['["blue","ugly"]'], rewrite=['"an ugly bus"'])
    (found,) = rewrite([source("bus/1")], ["a red bus"], SETTINGS, own, ask)
    assert {v.edits for v in found.variants} == {(Edit("colour", "red", "ugly"),)}


def test_a_model_that_only_replaces_is_not_asked_for_additions() -> None:
    unsaid = '["time","none"],["object","none"],["domain","none"],["time","none"],["none","none"]'
    ask = Scripted(keywords=[f'[["colour","red"],{unsaid}]'], alternatives=['["blue"]'], rewrite=['"a blue bus"'])
    (found,) = rewrite([source("bus/1")], ["a red bus"], SETTINGS, wanted_of(2, (1, 1)), ask)
    assert {v.edits for v in found.variants} == {(Edit("colour", "red", "blue"),)}
    assert len(ask.asked["alternatives"]) == 1
    # Nor is it given phrases: it was taught to find the small words itself.
    ask = Scripted(keywords=['[["time","at night"]]'], rewrite=['"a bus at sunset"'])
    wanted = wanted_of(1, (1, 1), interventions=Interventions((("time", ("sunset",)),)))
    (found,) = rewrite([source("bus/1")], ["a bus at night"], SETTINGS, wanted, ask)
    assert [v.edits for v in found.variants] == [(Edit("time", "at night", "sunset"),)]


RED_BUS = RewriteSettings(("colour", "time"), 2, 2, 2, 120, verbatim=False)
ANSWERS = {
    "Changes: red -> blue": '"a blue bus"',
    "Changes: red -> green": '"a green tree"',
    "Types: ": '[["colour","red"]]',
    "Words: ": '["blue","green"]',
}


def test_variants_are_split_into_those_to_paint_and_those_to_drop(sources: list[Source], tmp_path: Path) -> None:
    asked_for = SuiteRequest(street_task("segmentation"), 2, 1, (1, 1), 0)
    captions = dict.fromkeys(sources[:2], "a red bus") | {sources[2]: "bus"}
    with tiny_run(tmp_path / "suite", sources) as first:
        first.networks.answers = ANSWERS
        found = rewrite_captions(first.of(asked_for, rewrite=RED_BUS), captions)
        assert [(v.source, v.kind) for v in found.variants] == [
            (source, kind) for source in sources[:2] for kind in ("control", "variant", "variant")
        ]
        controls, variants = found.variants[::3], [v for v in found.variants if v.kind == "variant"]
        assert [(v.edits[0].alternative, v.repeat) for v in variants] == [("blue", 0), ("blue", 1)] * 2
        own = [(v.index, v.edits, v.caption, v.edited_caption) for v in controls]
        assert own == [(0, (), "a red bus", "a red bus")] * 2
        assert [(v.source, v.edits[0].alternative) for v in found.dropped] == [(s, "green") for s in sources[:2]]
        assert all("changes 'bus'" in (v.dropped or "") for v in found.dropped)
        assert {v.edited_caption for v in (*variants, *found.dropped)} == {"a blue bus", "a green tree"}
        assert [(p.name, "no words" in p.reason) for p in found.shortfalls] == [(sources[2].name, True)]
        assert [len(call) for call in first.networks.calls["llm"]] == [1, 1, 2], "equal questions are asked once"
        assert first.networks.entered == ["rewrite"] * 3
        assert first.done("rewrite") == (3, 7)
        assert first.made("rewrite") == 3
        (cost,) = (cost for cost in first.run.meter.costs() if cost.stage == "rewrite")
        assert (cost.prompt_tokens, cost.generated_tokens) == (40, 4)
        (use,) = first.run.meter.plans()
        assert (use.plan, use.stage, use.rows, use.fill) == ("llm", "rewrite", 4, None)
        assert 0 <= use.busy_s < 60
        assert first.run.meter.current == "rewrite"
        for question, (request, *_) in zip(("keywords", "alternatives"), first.networks.calls["llm"], strict=False):
            key = first.run.keys.answer_key(question, request.content)
            assert first.run.suite.ledger.get("rewrite", [key]), "an answer is recorded under its question"
    with tiny_run(tmp_path / "suite", sources) as second:
        assert rewrite_captions(second.of(asked_for, rewrite=RED_BUS), captions) == found
        assert second.networks.opened == []


def test_captions_lose_what_the_text_encoder_does_not_read(sources: list[Source], tmp_path: Path) -> None:
    asked_for = SuiteRequest(street_task("segmentation"), 1, 1, (1, 1), 0)
    with tiny_run(tmp_path / "suite", sources) as made:
        made.networks.answers = {**ANSWERS, "Words: ": '["blue"]'}
        made.networks.room = 9
        captions = {sources[0]: "a red bus. it is parked."}
        found = rewrite_captions(made.of(asked_for, rewrite=RED_BUS), captions)
        assert [(v.kind, v.caption, v.edited_caption) for v in found.variants] == [
            ("control", "a red bus.", "a red bus."),
            ("variant", "a red bus.", "a blue bus"),
        ]
        made.networks.room = 5  # "a blue" ends behind it
        found = rewrite_captions(made.of(asked_for, rewrite=RED_BUS), captions)
        reason = "the text encoder reads the first 5 of its 10 characters, and 'blue' is behind"
        assert [v.dropped for v in found.dropped] == [reason]
