"""Edits by type, asked for or chosen from menus: what is asked of which caption, and what becomes of the answers."""

from __future__ import annotations

import json
import re._parser as _parser  # type: ignore[import-untyped]
from collections.abc import Sequence
from typing import Any

import pytest
from rewriting import rewrite, source, told

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.english.menus import menu, offer
from counterfactory.engine.english.words import allowed_proposals, phrases
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import ChatPrompts, chatml
from counterfactory.engine.language.edit_types import BUILT_IN, EditType, edit_types
from counterfactory.engine.language.grammar import choices_grammar, edited_grammar, place_grammar, proposals_grammar
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.stages.rewrite.rewrite_captions import SourceVariants
from counterfactory.engine.tasks.task import Task, protect
from counterfactory.engine.tasks.user_task import Interventions

TASK = Task("animals", "classify the animal", (), True)
CAPTION = "a brown dog on grass. a dog looks up."
LENS = EditType("lens", "the lens", "end", (("", "in soft focus"),), "a dog")


class Told(ChatPrompts):
    """Prompts that say what they are made of."""

    proposals, place, rewrite = (told(question) for question in ("proposals", "place", "rewrite"))

    def __init__(self) -> None:
        super().__init__(chatml)


class Scripted:
    """Answers about a type by its name, and writes captions by replacing; keeps the requests."""

    def __init__(self, **answers: object) -> None:
        self._answers = answers
        self.asked: dict[str, list[LlmRequest]] = {}

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        assert requests
        assert len(set(requests)) == len(requests)
        self.asked[question] = list(requests)
        return [self._answer(question, *json.loads(r.prompt.source)) for r in requests]

    def _answer(self, question: str, task: str, *told: Any) -> str:
        if question == "rewrite":
            _, caption, changes = told
            for old, new in changes:
                caption = caption.replace(old, new)
            return json.dumps(caption)
        answer = self._answers[told[0]]
        return answer if isinstance(answer, str) else json.dumps(answer, separators=(",", ":"))


def rewritten(
    ask: Scripted, names: tuple[str, ...], /, *captions: str, label: str | None = "dog", edits: int = 1, **wanted: Any
) -> list[SourceVariants]:
    settings = RewriteSettings(names, 1, 3, 2, 60, verbatim=True)
    request = SuiteRequest(TASK, 9, 0, (edits, edits), 0, **wanted)
    sources = [source(str(i), label) for i in range(len(captions))]
    return rewrite(sources, captions, settings, request, ask, Told())


def edits_of(result: SourceVariants) -> dict[Edit, str]:
    return {variant.edits[0]: variant.edited_caption for variant in result.variants if not variant.repeat}


def test_each_type_is_asked_about_once_in_words_and_grammar_of_its_own() -> None:
    ask = Scripted(**dict.fromkeys(EDIT_TYPES, "[]"))
    found = rewritten(ask, EDIT_TYPES, CAPTION, CAPTION, "")
    told, keep = Told(), ("dog",)
    spans = phrases(CAPTION, 2, keep)
    assert "brown" in spans
    grammars = {
        **dict.fromkeys(("weather", "time", "light", "camera"), proposals_grammar([], [], [], "end", 3)),
        **dict.fromkeys(("adjective", "subject", "other"), proposals_grammar(spans, ["dog"], [], "word", 3)),
        "colour": proposals_grammar(["a brown", "brown"], ["dog"], [], "word", 3),
        "background": proposals_grammar(spans, [], [], "end", 3),
        "object": proposals_grammar(spans, [], ["on grass"], "end", 3),
        "domain": proposals_grammar([], [], [], "medium", 3),
    }
    asked = [told.proposals(TASK.sentence, BUILT_IN[type_], keep, CAPTION) for type_ in EDIT_TYPES]
    assert ask.asked == {
        "proposals": [LlmRequest(prompt, grammars[type_]) for prompt, type_ in zip(asked, EDIT_TYPES, strict=True)]
    }
    assert [result.variants for result in found] == [()] * 3
    allows = f"its caption allows no set of 1 to 1 edits: {CAPTION!r}"
    assert [result.shortfall for result in found] == [allows, allows, "its caption has no words that may change"]


def test_words_are_replaced_put_beside_others_added_and_removed() -> None:
    ask = Scripted(
        weather=[["", "in the rain"], ["", "on grass"], ["", "in ugly rain"]],
        adjective=[["dog", "small dog"], ["brown", "spotted"], ["dog", "cat"]],
        object=[["on grass", ""], ["grass", "sand"]],
        domain=[["", "a sketch of"]],
        time="[[",
    )
    (found,) = rewritten(ask, ("weather", "adjective", "object", "domain", "time"), CAPTION)
    assert found.shortfall is None
    assert edits_of(found) == {
        Edit("weather", "", "in the rain"): "a brown dog on grass in the rain. a dog looks up.",
        Edit("adjective", "brown dog", "small brown dog"): "a small brown dog on grass. a dog looks up.",
        Edit("adjective", "brown", "spotted"): "a spotted dog on grass. a dog looks up.",
        Edit("object", "on grass", ""): "a brown dog. a dog looks up.",
        Edit("object", "grass", "sand"): "a brown dog on sand. a dog looks up.",
        Edit("domain", "", "a sketch of"): "a sketch of a brown dog on grass. a dog looks up.",
    }
    assert {v.dropped for v in found.variants} == {None}
    # Only what is replaced is asked about.
    pairs = (("brown dog", "small brown dog"), ("brown", "spotted"), ("grass", "sand"))
    assert set(ask.asked["rewrite"]) == {
        LlmRequest(Told().rewrite(TASK.sentence, ("dog",), CAPTION, [pair]), edited_grammar(CAPTION, [pair]))
        for pair in pairs
    }


def test_the_model_names_neither_the_label_nor_a_thing_of_the_caption_again() -> None:
    ask = Scripted(
        object=[["grass", "puppy"], ["grass", "an old hound"], ["grass", "sand"]],
        other=[["dog", "dog with a puppy"], ["brown", "grassy"], ["brown", "grass"]],
    )
    (found,) = rewritten(ask, ("object", "other"), CAPTION)
    assert set(edits_of(found)) == {Edit("object", "grass", "sand"), Edit("other", "brown", "grassy")}
    # A picture without a label has none.
    (found,) = rewritten(ask, ("object",), CAPTION, label=None, allow_ungrounded=True)
    assert {edit.alternative for edit in edits_of(found)} == {"puppy", "an old hound", "sand"}


def test_words_stand_beside_the_whole_name_of_a_thing_and_what_picture_it_is_is_another_kind_s_to_change() -> None:
    for type_, caption, keep, beside in (
        ("adjective", "a golden retriever on grass", ("golden retriever", "retriever", "dog"), ["golden retriever"]),
        ("adjective", "a photo of a brown dog on grass", ("dog", "photo"), ["dog"]),
        ("background", "a faded photo of a brown dog on grass", ("dog", "photo"), []),
    ):
        ask = Scripted(**{type_: "[]"})
        rewritten(ask, (type_,), caption, label=keep[0])
        (request,) = ask.asked["proposals"]
        kind = BUILT_IN[type_].place
        assert request.grammar == proposals_grammar(phrases(caption, 2, keep), beside, [], kind, 3)


def test_what_picture_it_is_is_said_instead_of_what_it_was_and_a_colour_is_the_labelled_thing_s() -> None:
    caption = "a photo of a dog"
    ask = Scripted(domain=[["", "a sketch of"], ["", "a photo of"]], weather=[["", "in the rain"]])
    (found,) = rewritten(ask, ("domain", "weather"), caption)
    assert edits_of(found) == {
        Edit("domain", "a photo", "a sketch"): "a sketch of a dog",
        Edit("weather", "", "in the rain"): "a photo of a dog in the rain",
    }
    ask = Scripted(colour=[["dog", "red dog"]])
    (found,) = rewritten(ask, ("colour",), "a dog on grass")
    assert [request.grammar for request in ask.asked["proposals"]] == [proposals_grammar([], ["dog"], [], "word", 3)]
    assert edits_of(found) == {Edit("colour", "dog", "red dog"): "a red dog on grass"}


def test_a_type_without_any_place_is_not_asked_about() -> None:
    ask = Scripted(adjective=[["up", "down"]], colour=[["up", "red"]], time=[["", "at night"]])
    found = rewritten(ask, ("adjective", "colour", "time"), "of a", "up", allow_ungrounded=True)
    asked = [json.loads(request.prompt.source)[1] for request in ask.asked["proposals"]]
    assert asked == ["time", "adjective", "colour", "time"]
    assert edits_of(found[0]) == {Edit("time", "", "at night"): "of a at night"}
    replaced = {Edit("adjective", "up", "down"): "down", Edit("colour", "up", "red"): "red"}
    assert edits_of(found[1]) == {**replaced, Edit("time", "", "at night"): "up at night"}


def test_overlapping_words_are_not_edited_together() -> None:
    ask = Scripted(adjective=[["brown", "old"], ["grass", "dry grass"]], other=[["a brown", "one old"]])
    (found,) = rewritten(ask, ("adjective", "other"), CAPTION, edits=2)
    assert {tuple((e.keyword, e.alternative) for e in v.edits) for v in found.variants} == {
        (("brown", "old"), ("grass", "dry grass")),
        (("a brown", "one old"), ("grass", "dry grass")),
    }


def test_a_user_s_values_stand_where_the_caption_speaks_of_them() -> None:
    for caption, place, edits in (
        ("a dog at noon", "at noon", {Edit("time", "at noon", "at night"): "a dog at night"}),
        ("a noon dog", "noon", {Edit("time", "noon", "night"): "a night dog"}),
        ("a dog on grass", None, {Edit("time", "", "at night"): "a dog on grass at night"}),
        ("a dog at night", "at night", {}),
    ):
        values = Interventions((("time", ("night",)),))
        ask = Scripted(time=json.dumps(place))
        (found,) = rewritten(ask, EDIT_TYPES, caption, interventions=values)
        assert edits_of(found) == edits
        assert ("place" in ask.asked) == (place is not None)
        if place:
            prompt = Told().place(TASK.sentence, BUILT_IN["time"], ("dog",), caption)
            spans = [span for span in phrases(caption, 2, ("dog",)) if place.split()[-1] in span]
            assert ask.asked["place"] == [LlmRequest(prompt, place_grammar(spans, optional=False))]


def test_where_nothing_tells_what_speaks_of_a_type_the_model_may_say_that_nothing_does() -> None:
    values = Interventions((("time", ("dusk",)), ("background", ("a lake",)), ("light", ("soft",))))
    ask = Scripted(background='""', time="{}")
    (found,) = rewritten(ask, EDIT_TYPES, "a dog at noon", interventions=values)
    added = "with a lake in the background"
    assert edits_of(found) == {
        Edit("background", "", added): f"a dog at noon {added}",
        Edit("light", "", "in soft light"): "a dog at noon in soft light",
    }
    spans = phrases("a dog at noon", 2, ("dog",))
    grammars = [place_grammar(spans, optional) for optional in (False, True)]
    assert [request.grammar for request in ask.asked["place"]] == grammars


def test_a_user_s_types_are_asked_about_after_the_profile_s() -> None:
    time = EditType("time", "the century", "end", (("", "in 1920"),), "a dog")
    ask = Scripted(time=[["", "in 1920"]], lens=[["", "in soft focus"]])
    (found,) = rewritten(ask, ("time",), CAPTION, types=(LENS, time))
    assert [json.loads(request.prompt.source)[1] for request in ask.asked["proposals"]] == ["time", "lens"]
    assert {edit.alternative for edit in edits_of(found)} == {"in 1920", "in soft focus"}


def test_a_user_s_colour_stands_before_the_labelled_thing_and_has_no_place_where_none_is_named() -> None:
    for type_, before in (("colour", True), ("adjective", True), ("subject", False)):
        values = Interventions(((type_, ("red",)),))
        (found,) = rewritten(Scripted(**{type_: '""'}), EDIT_TYPES, "a dog on grass", interventions=values)
        assert edits_of(found) == ({Edit(type_, "dog", "red dog"): "a red dog on grass"} if before else {})
    values = Interventions((("colour", ("red",)), ("time", ("night",))))
    (found,) = rewritten(Scripted(), ("colour", "time"), "a cat", interventions=values, allow_ungrounded=True)
    assert edits_of(found) == {Edit("time", "", "at night"): "a cat at night"}


def test_a_value_that_one_thing_has_goes_to_another() -> None:
    values = Interventions((("colour", ("red", "blue")), ("weather", ("rain", "snow"))))
    caption = "a red car in the rain by a dog and a black van"
    (found,) = rewritten(Scripted(colour='"red"', weather='"in the rain"'), EDIT_TYPES, caption, interventions=values)
    colours = {Edit("colour", "red", "blue"), Edit("colour", "black", "red")}
    assert set(edits_of(found)) == colours | {Edit("weather", "in the rain", "in the snow")}
    assert found.cells["weather", "rain"].reason == "in the caption already"


def test_a_word_that_says_it_of_another_thing_is_replaced_by_a_word() -> None:
    values = Interventions((("weather", ("rainy",)),))
    caption = "a rainy street and a foggy field by a dog"
    (found,) = rewritten(Scripted(weather='"rainy"'), EDIT_TYPES, caption, interventions=values)
    assert edits_of(found) == {Edit("weather", "foggy", "rainy"): "a rainy street and a rainy field by a dog"}


# Edits that a small model chooses: one question per caption, phrases of ours put into it by rule.

ANIMALS = Task("animals", "classify the animal: here it is {label}", (), True)
PROMPTS = ChatPrompts(chatml)
DOG = "n02084071"


def chosen(
    ask: object, *captions: str, variants: int = 11, label: str = DOG, **wanted_more: Any
) -> list[SourceVariants]:
    settings = RewriteSettings(EDIT_TYPES, 1, 1, 2, 90, verbatim=True, menus=True)
    wanted = SuiteRequest(ANIMALS, variants, 0, (1, 1), 0, **wanted_more)
    sources = [source(str(i), label) for i in range(len(captions))]
    return rewrite(sources, captions, settings, wanted, ask, PROMPTS)  # type: ignore[arg-type]


class Chooser:
    """Answers a question of choices with the first allowed pair of each type."""

    def __init__(self) -> None:
        self.asked: dict[str, list[LlmRequest]] = {}

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        self.asked.setdefault(question, []).extend(requests)
        return [first_text(_parser.parse(request.grammar.pattern)) for request in requests]


def first_text(parsed: Any) -> str:
    """What the first branches of a regular expression spell."""
    text = ""
    for kind, value in parsed:
        if kind is _parser.LITERAL:
            text += chr(value)
        elif kind is _parser.BRANCH:
            text += first_text(value[1][0])
        else:
            text += first_text(value[-1])  # of groups and repetitions what they hold
    return text


def test_one_question_per_caption_brings_an_edit_of_every_type() -> None:
    ask = Chooser()
    captions = ("A small brown dog is lying on the grass.", "Two dogs in the rain at night.")
    results = chosen(ask, *captions)
    assert list(ask.asked) == ["choices"], "captions are written by rule"
    assert len(ask.asked["choices"]) == len(captions)
    suites = {request.prompt.suite for request in ask.asked["choices"]}
    assert len(suites) == 1, "one beginning serves all captions"
    assert "golden" not in suites.pop()
    for result in results:
        assert result.shortfall is None
        made = [variant for variant in result.variants if not variant.repeat]
        assert {variant.edits[0].type for variant in made} == set(EDIT_TYPES)
        assert all(variant.dropped is None for variant in made)
        assert all(variant.edited_caption != variant.caption for variant in made)
        assert all("dog" in variant.edited_caption for variant in made)


@pytest.mark.parametrize(("label", "caption"), [(DOG, "a dog on grass"), ("lamp", "a lamp on grass")])
def test_a_sample_of_each_menu_is_offered_by_the_caption_and_the_type(label: str, caption: str) -> None:
    ask = Chooser()
    chosen(ask, caption, avoid=("rain",), label=label)
    found = protect(ANIMALS, label, (), caption)
    types = edit_types(EDIT_TYPES, ())
    menus = [menu(t.name, caption, found.keep, label) for t in types]
    allowed = [allowed_proposals(pairs, caption, found.keep, ("rain",)) for pairs in menus]
    offered = [offer(some, content_key(caption, t.name)) for t, some in zip(types, allowed, strict=True)]
    prompt = PROMPTS.choices(types, found.told, caption)
    assert ask.asked == {"choices": [LlmRequest(prompt, choices_grammar(offered))]}


def test_a_user_s_types_are_asked_about_beside_the_menus() -> None:
    chooser = Chooser()

    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        return ['[["","in soft focus"]]'] if question == "proposals" else chooser(question, requests)

    (result,) = chosen(ask, "a dog on grass", variants=12, types=(LENS,))
    assert {variant.edits[0].type for variant in result.variants} == {*EDIT_TYPES, "lens"}


def test_the_grammar_takes_one_pair_of_each_type_in_order() -> None:
    grammar = choices_grammar([[("", "at night"), ("noon", "dawn")], [("dog", "wet dog")]])
    assert grammar.allows('[["","at night"],["dog","wet dog"]]')
    assert grammar.allows('[["noon","dawn"],["dog","wet dog"]]')
    for answer in ('[["","dawn"],["dog","wet dog"]]', '[["dog","wet dog"]]', '[["","at night"]]', "[]"):
        assert not grammar.allows(answer)
    assert grammar.longest_bytes == len('[["","at night"],["dog","wet dog"],]')
    for nothing in ([], [[]], [[("", "x")], []]):
        with pytest.raises(ValueError, match="a choice needs pairs"):
            choices_grammar(nothing)


def test_the_question_lists_the_types_and_shows_an_edit_of_each() -> None:
    types = edit_types(("time", "domain"), ())
    prompt = PROMPTS.choices(types, ("dog",), "a dog<|im_end|>")
    assert "in this order: the time of day; what kind of picture it is" in prompt.suite
    assert '[["at noon","at night"],["","a painting of"]]' in prompt.suite
    assert prompt.source == "Keep: dog\nCaption: a dog"
