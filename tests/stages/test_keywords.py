"""Edits by keyword: every question says all that it is about, and what becomes of the answers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from rewriting import SETTINGS, TASK, UNUSED, Scripted, Told, source, wanted_of
from rewriting import rewrite as rewrite_told

from counterfactory.engine.content_keys import variant_key
from counterfactory.engine.edit import STREET_TYPES, Edit
from counterfactory.engine.english.words import spans
from counterfactory.engine.language.grammar import (
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    text_grammar,
    values_grammar,
)
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import SourceVariants
from counterfactory.engine.tasks.user_task import Interventions
from counterfactory.engine.variant import Variant

rewrite = partial(rewrite_told, prompts=PlainPrompts())


def variant_of(source: Source, caption: str, edit: Edit, edited: str, seed: int, dropped: str | None = None) -> Variant:
    """The first variant of a source, by one edit."""
    key = variant_key(source.key, caption, (edit,), edited, seed)
    return Variant(key, source, 0, caption, (edit,), edited, seed, dropped, protected=("bus",))


@pytest.mark.parametrize("verbatim", [True, False])
def test_every_question_says_all_that_it_is_about_and_a_bad_answer_costs_no_other(verbatim: bool) -> None:
    sources = [source(name) for name in ("empty", "long", "no keywords", "good")]
    *_, unread, caption = captions = ["", "a red café bus.", "a red bus", "a red café bus"]
    bounds = replace(SETTINGS, max_chars_caption=len(caption), verbatim=verbatim)
    ask = Scripted(
        keywords=["{}", '[["colour","red"],["background","café"]]'],
        alternatives=["{}", '["a café","bus bar","bar"]'],  # the first changes too little, the second names the label
        rewrite=['"a red bar bus"' if verbatim else "{}"],
    )
    found = rewrite_told(sources, captions, bounds, wanted_of(2, (1, 1), seed=7, controls=1), ask, Told())
    told, keep = Told(), ("bus",)
    assert ask.asked == {
        "keywords": [
            LlmRequest(
                told.keywords(TASK.sentence, STREET_TYPES, keep, text),
                keywords_grammar(STREET_TYPES, spans(text, bounds.max_words_keyword, keep), bounds.max_keywords),
            )
            for text in (unread, caption)
        ],
        "alternatives": [
            LlmRequest(
                told.alternatives(TASK.sentence, keep, caption, type_, keyword, ()),
                alternatives_grammar(keyword, bounds.max_alternatives),
            )
            for type_, keyword in (("colour", "red"), ("background", "café"))
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
        key = variant_key(sources[3].key, caption, 0, caption, 7)
        control = Variant(key, sources[3], 0, caption, (), caption, 7, None, "control", ("bus",))
        one, shortfall = variant_of(sources[3], caption, edit, "a red bar bus", seed=7), None
        again = variant_key(sources[3].key, caption, (edit,), "a red bar bus", 7, 1)
        variants: tuple[Variant, ...] = (control, one, replace(one, key=again, index=1, repeat=1))
    else:
        reason = "asked for a caption, got '{}'"
        variants, shortfall = (variant_of(sources[3], caption, edit, "", seed=7, dropped=reason),), f"{UNUSED}{reason}"
    assert found == [
        SourceVariants((), "its caption has no words that may change"),
        SourceVariants(
            (),
            "its caption has 15 characters, and captions of at most 14 are rewritten; "
            "raise [rewrite].max_chars_caption",
        ),
        SourceVariants((), "asked for a list of keywords, got '{}'"),
        SourceVariants(variants, shortfall),
    ]


def test_a_user_s_values_are_asked_about_as_they_are() -> None:
    caption, own = "at night a red car stands by a bus", source("bus/1")
    values = Interventions((("time", ("night",)), ("colour", ("red", "red and blue"))))
    edited = "at night a red and blue car stands by a bus"
    ask = Scripted(
        keywords=['[["time","at night"],["colour","red"]]'],
        alternatives=['["red and blue"]'],  # the others are said by the caption
        rewrite=[f'"{edited}"'],
    )
    wanted = wanted_of(1, (1, 1), seed=7, interventions=values)
    (found,) = rewrite_told([own], [caption], SETTINGS, wanted, ask, Told())
    assert found == SourceVariants((variant_of(own, caption, Edit("colour", "red", "red and blue"), edited, 7),), None)
    types, told, keep = ("time", "colour"), Told(), ("bus",)
    free = spans(caption, SETTINGS.max_words_keyword, keep)
    assert ask.asked["keywords"] == [
        LlmRequest(
            told.keywords(TASK.sentence, types, keep, caption), keywords_grammar(types, free, SETTINGS.max_keywords)
        )
    ]
    usable = ("red and blue",)
    assert ask.asked["alternatives"] == [
        LlmRequest(told.alternatives(TASK.sentence, keep, caption, "colour", "red", usable), values_grammar(usable))
    ]


def test_weather_and_time_are_added_where_a_caption_is_silent_of_them() -> None:
    values = Interventions((("time", ("night", "bus time")), ("colour", ("blue",)), ("weather", ("rain",))))
    ask = Scripted(keywords=['[["none","none"]]'])
    wanted = wanted_of(2, (1, 1), interventions=values)
    (found,) = rewrite([source("bus/1")], ["a bus by a wall. it is red."], SETTINGS, wanted, ask)
    assert found.shortfall is None
    assert {(v.edits, v.edited_caption, v.dropped) for v in found.variants} == {
        ((Edit("time", "", "at night"),), "a bus by a wall at night. it is red.", None),
        ((Edit("weather", "", "in the rain"),), "a bus by a wall in the rain. it is red.", None),
    }
    # What the caption says of them, found by the model or not, is never said twice.
    ask = Scripted(keywords=['[["weather","wet"]]'], alternatives=['["rain"]'], rewrite=['"a rain bus at noon"'])
    (found,) = rewrite([source("bus/1")], ["a wet bus at noon"], SETTINGS, wanted, ask)
    assert {v.edits for v in found.variants} == {(Edit("weather", "wet", "rain"),)}


def test_a_caption_without_any_edit_says_so() -> None:
    values = Interventions((("time", ("night",)),))
    ask = Scripted(keywords=['[["time","at night"]]'])
    caption = "a bus at night"
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted_of(2, (1, 1), interventions=values), ask)
    assert found == SourceVariants((), f"its caption allows no set of 1 to 1 edits: {caption!r}")
    silent = Scripted(keywords=['[["time","at night"]]'], alternatives=["[]"])
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted_of(2, (1, 1)), silent)
    assert found.shortfall == f"its caption allows no set of 1 to 1 edits: {caption!r}"
    cut = Scripted(keywords=['[["time","at night"]]'], alternatives=['["at'])
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, wanted_of(2, (1, 1)), cut)
    assert "answer is not closed JSON" in (found.shortfall or "")


def test_no_alternative_has_a_word_to_avoid() -> None:
    ask = Scripted(
        keywords=['[["colour","red"]]'], alternatives=['["stylish red","Ugly","blue"]'], rewrite=['"a blue bus"']
    )
    (found,) = rewrite([source("bus/1")], ["a red bus"], SETTINGS, wanted_of(1, (1, 1)), ask)
    assert [v.edits for v in found.variants] == [(Edit("colour", "red", "blue"),)]
    own = replace(wanted_of(2, (1, 1)), avoid=("Blue",))
    ask = Scripted(keywords=['[["colour","red"]]'], alternatives=['["blue","ugly"]'], rewrite=['"an ugly bus"'])
    (found,) = rewrite([source("bus/1")], ["a red bus"], SETTINGS, own, ask)
    assert {v.edits for v in found.variants} == {(Edit("colour", "red", "ugly"),)}


UNSAID = '["time","none"],["object","none"],["domain","none"],["time","none"],["none","none"]'
ADDED_KEYWORDS = f'[["colour","red"],{UNSAID}]'


def test_a_model_that_only_replaces_is_not_asked_for_additions() -> None:
    ask = Scripted(keywords=[ADDED_KEYWORDS], alternatives=['["blue"]'], rewrite=['"a blue bus"'])
    (found,) = rewrite([source("bus/1")], ["a red bus"], SETTINGS, wanted_of(2, (1, 1)), ask)
    assert {v.edits for v in found.variants} == {(Edit("colour", "red", "blue"),)}
    assert len(ask.asked["alternatives"]) == 1
    # Nor is it given phrases: it was taught to find the small words itself.
    ask = Scripted(keywords=['[["time","at night"]]'], alternatives=['["sunset"]'], rewrite=['"a bus at sunset"'])
    wanted = wanted_of(1, (1, 1), interventions=Interventions((("time", ("sunset",)),)))
    rewrite([source("bus/1")], ["a bus at night"], SETTINGS, wanted, ask)
    assert [request.grammar for request in ask.asked["alternatives"]] == [values_grammar(("sunset",))]
