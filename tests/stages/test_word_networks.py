"""Edited captions are scored as texts, and those outside of a profile's thresholds are never painted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import NO_LIMITS, held_to
from picture_rows import control_row, picture_row
from rewriting import SETTINGS, source, wanted_of
from tiny_desk import CHAT, TinyRun, tiny_run, tiny_sources

from counterfactory.engine.content_keys import choice_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.english.words import spans
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.chat import ChatPrompts, chatml
from counterfactory.engine.language.grammar import NOTHING, one_of_grammar
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.models.text_networks import Blank
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.profile.rewrite import GroundingSettings, RandomWordSettings, RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.check.verdict import failing, verdict
from counterfactory.engine.stages.rewrite.caption_edits import CaptionEdits, Questions, draft_of
from counterfactory.engine.stages.rewrite.label_grounding import point_at_labels
from counterfactory.engine.stages.rewrite.random_words import find_choices
from counterfactory.engine.stages.rewrite.rewrite_captions import ShardVariants, rewrite_captions
from counterfactory.engine.stages.rewrite.text_filters import Pair, TextFilter, changed_words, perplexities
from counterfactory.engine.tasks.choose import Choice
from counterfactory.engine.tasks.task import Task, builtin_task
from counterfactory.engine.tasks.user_task import parse_interventions
from counterfactory.engine.variant import Variant

CAPTION, OTHER = "a red dog on grass", "a red dog in grass"
BLUE, SNOW, GONE = Edit("colour", "red", "blue"), Edit("weather", "", "in snow"), Edit("object", "on grass", "")
SMALL = Edit("adjective", "dog", "small dog")
SOURCE = Source("1.jpg", "1.jpg", Path("1.jpg"), (8, 8), "n02084071 dog, Canis", None, "d", "k")
SCORES = {"text_label": 0.4, "text_replaced": 0.5, "text_caption": 0.9, "perplexity": 20.0, "perplexity_ratio": 1.5}
ENDS = {
    "max_text_label": ("text_label", "an edit's words mean nearly what the label says"),
    "max_text_replaced": ("text_replaced", "an edit's words mean nearly what they replace"),
    "max_text_caption": ("text_caption", "the edited caption means nearly what the caption does"),
    "min_text_caption": ("text_caption", "the edited caption means something else than the caption"),
    "max_perplexity": ("perplexity", "the edited caption reads badly"),
    "max_perplexity_ratio": ("perplexity_ratio", "the edited caption reads worse than the caption"),
}
CHECK = CheckSettings(1, "a {label}", 100.0).having(
    min_image_text=-1, min_directional=-1, min_image_image=-1, min_edit=0, min_label=-1, min_layout=0
)


def variant(edits: tuple[Edit, ...], edited: str = "whatever", source: Source = SOURCE) -> Variant:
    return Variant(f"{edits}{edited}", source, 0, CAPTION, edits, edited, 0, None)


def test_what_an_edit_takes_and_brings_is_what_does_not_stay() -> None:
    assert changed_words(SMALL) == ("", "small")
    assert changed_words(BLUE) == ("red", "blue")
    assert changed_words(SNOW) == ("", "in snow")
    assert changed_words(GONE) == ("on grass", "")
    assert changed_words(Edit("background", "on the lush grass", "on the Wet sand")) == ("lush grass", "Wet sand")


class Cosines:
    """Gives each pair the cosine that is written down for it, or the `other`; keeps what it is asked."""

    def __init__(self, other: float = 0.0, **known: float) -> None:
        self.other, self.known, self.asked = other, known, list[Sequence[Pair]]()

    def __call__(self, pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        self.asked.append(pairs)
        return {pair: self.known.get(pair[1].replace(" ", "_"), self.other) for pair in pairs}


def test_the_worst_edit_counts_and_each_pair_is_asked_for_once() -> None:
    cosines = Cosines(red=0.31, blue=0.1234567, small=0.2, in_snow=-0.3, whatever=0.8, other=0.7)
    two, one, away = variant((BLUE, SMALL)), variant((SMALL,), "other"), variant((SNOW,))
    found = TextFilter(NO_LIMITS, cosines, None).scores([two, one, away, replace(two, repeat=1)])
    assert found[two] == {"text_label": 0.31, "text_replaced": 0.123457, "text_caption": 0.8}
    assert found[one] == {"text_label": 0.2, "text_caption": 0.7}, "nothing is replaced"
    assert found[away] == {"text_label": -0.3, "text_caption": 0.8}
    assert found[replace(two, repeat=1)] == found[two]
    (asked,) = cosines.asked
    label = [("dog", "red"), ("dog", "blue"), ("dog", "small")]
    assert asked == [*label, ("red", "blue"), (CAPTION, "whatever"), (CAPTION, "other"), ("dog", "in snow")]
    nothing = TextFilter(NO_LIMITS, Cosines(), lambda texts: pytest.fail(f"reads {texts}"))
    assert nothing.scores([variant((BLUE,), ""), variant(())]) == {}, "without a text or edits nothing is measured"


@pytest.mark.parametrize(("name", "said"), ENDS.items())
def test_the_ends_of_a_range_are_accepted_and_what_lies_beyond_is_not(name: str, said: tuple[str, str]) -> None:
    score, reason = said
    low = name.startswith("min_")
    beyond, word = SCORES[score] + (0.01 if low else -0.01), "below" if low else "above"
    at, past = (CHECK.having(**{name: bound}) for bound in (SCORES[score], beyond))
    said_of_it = f"{reason}: {score} {SCORES[score]:.3f} is {word} {beyond:.3f}"
    failure = past.text_failure(SCORES)
    assert failure is not None
    assert (failure.reason, at.text_failure(SCORES), past.text_failure({})) == (said_of_it, None, None)
    good = picture_row(scores=SCORES | dict.fromkeys(("edit", "image_text", "directional", "image_image"), 1.0))
    assert (verdict(good, at), verdict(good, past)) == (None, said_of_it)
    assert failing(good.scores, past, "variant") == failure
    assert verdict(control_row(scores=good.scores), past) is None, "a control's caption was not edited"


def drafted(*choices: Choice, label: str | None = "dog") -> CaptionEdits:
    draft = draft_of(replace(SOURCE, label=label), CAPTION, builtin_task("classification", ["dog", "bus"]), None)
    draft.choices = list(choices)
    return draft


def test_edits_whose_words_fail_are_no_choice_and_a_draft_without_any_says_why() -> None:
    cosines = Cosines(red=0.1, blue=0.9, green=0.2, wet=0.5, in_snow=0.51, grass=0.3)
    filters = TextFilter(held_to(max_text_label=0.5, max_text_replaced=0.5), cosines, None)
    colour, weather = Choice("colour", "red", ("blue", "green"), 3), Choice("weather", "", ("in snow",))
    wet = Choice("background", "grass", ("wet",), 1)
    some, none, bare, empty = drafted(colour, weather, wet), drafted(weather), drafted(weather, label=None), drafted()
    drafts = [some, none, bare, empty]
    filters.keep_passing(drafts)
    assert some.choices == [replace(colour, alternatives=("green",)), wet], "0.5 is not above 0.5"
    assert some.unread is None
    assert none.choices == []
    reason = "an edit's words mean nearly what the label says: text_label 0.510 is above 0.500"
    assert none.unread == f"none of its edits passes the text filters; of the first {reason}"
    assert (bare.choices, bare.unread) == ([weather], None), "nothing is compared with a label that there is not"
    assert (empty.choices, empty.unread) == ([], None)
    assert len(cosines.asked) == 1
    assert len(set(cosines.asked[0])) == len(cosines.asked[0])


@pytest.mark.parametrize("thresholds", [NO_LIMITS, held_to(max_text_caption=-1.0, max_perplexity=1.0)])
def test_words_are_compared_before_the_choice_only_where_they_are_held_to_something(thresholds: CheckSettings) -> None:
    draft, cosines = drafted(Choice("colour", "red", ("blue",))), Cosines(blue=1.0)
    TextFilter(thresholds, cosines, None).keep_passing([draft])
    TextFilter(held_to(max_text_label=-1.0), None, None).keep_passing([draft])
    assert (len(draft.choices), cosines.asked) == (1, [])
    TextFilter(held_to(max_text_label=0.9), cosines, None).keep_passing([draft])
    assert draft.choices == []
    TextFilter(held_to(max_text_replaced=0.9), cosines, None).keep_passing([])
    assert len(cosines.asked) == 1, "nothing is asked about nothing"


WANTED = SuiteRequest(builtin_task("classification", ["dog", "bus"]), 2, 0, (1, 1), 0)
HELD = RewriteSettings(("colour",), 2, 2, 2, 100, verbatim=True, perplexity=True)
FREE = replace(HELD, verbatim=False, perplexity=False)
MEANINGS = {
    **dict.fromkeys(("red", CAPTION), np.array([1, 0], np.float32)),
    **dict.fromkeys(("blue", "a blue dog on grass"), np.array([0.6, 0.8], np.float32)),
    **dict.fromkeys(("green", "a green dog on grass", OTHER), np.array([0.8, 0.6], np.float32)),
    "dog": np.array([0, 1], np.float32),
}
READS = {CAPTION: 1.0, "a blue dog on grass": 2.0, "a green dog on grass": 1.5}


@pytest.fixture
def captions(tmp_path: Path) -> dict[Source, str]:
    (only,) = tiny_sources(tmp_path / "set", 1)
    return {replace(only, label="dog"): CAPTION}


def rewritten(run: TinyRun, captions: Mapping[Source, str], written: str, **tables: Any) -> ShardVariants:
    """What becomes of captions where the model writes this of a blue dog."""
    run.networks.meanings, run.networks.surprise = MEANINGS, READS
    run.networks.answers = {
        "red -> blue": f'"{written}"',
        "red -> green": '"a green dog on grass"',
        "Keep:": '[["red","blue"],["red","green"]]',
    }
    settings = {"rewrite": HELD, "grounding": GroundingSettings(2, 0.5), "check": NO_LIMITS}
    return rewrite_captions(run.of(WANTED, llm=CHAT, **settings | tables), captions)


def test_what_fails_is_not_painted_another_edit_stands_in_and_scores_are_on_record(
    captions: dict[Source, str], tmp_path: Path
) -> None:
    blue = "a blue dog on grass"
    for time in ("first", "again"):
        with tiny_run(tmp_path / "suite", list(captions)) as run:
            found = rewritten(run, captions, blue, check=held_to(max_text_caption=0.7))
            (dropped,) = found.dropped
            reason = "the edited caption means nearly what the caption does: text_caption 0.800 is above 0.700"
            assert (dropped.edited_caption, dropped.dropped) == ("a green dog on grass", reason)
            assert [(v.edited_caption, v.repeat) for v in found.variants] == [(blue, 0), (blue, 1)]
            assert found.scores[dropped]["text_replaced"] == pytest.approx(0.8)
            wanted = {"text_label": 0.8, "text_replaced": 0.6, "text_caption": 0.6}
            wanted |= {"perplexity": round(math.exp(2.0), 6), "perplexity_ratio": round(math.e, 6)}
            assert all(found.scores[painted] == pytest.approx(wanted) for painted in found.variants)
            chosen = rewritten(run, captions, blue, check=held_to(max_text_replaced=0.7))
            blues = [(v.edited_caption, v.repeat) for v in chosen.variants]
            assert (blues, chosen.dropped) == ([(blue, 0), (blue, 1)], ()), "what fails by its words is not chosen"
            assert rewritten(run, captions, blue).dropped == ()
            assert len(run.networks.calls.get("sentence", [])) == len(run.networks.calls.get("reads", []))
            assert len(run.networks.calls.get("reads", [])) == (1 if time == "first" else 0)
            silent = rewritten(run, captions, blue, grounding=None)
            assert {name for v in silent.variants for name in silent.scores[v]} == {"perplexity", "perplexity_ratio"}
            quiet = rewritten(run, captions, blue, rewrite=replace(HELD, perplexity=False))
            rest = wanted.keys() - silent.scores[silent.variants[0]].keys()
            assert {name for v in quiet.variants for name in quiet.scores[v]} == rest


def test_a_text_is_read_once(tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", []) as run, run.run.meter.stage("rewrite"):
        run.networks.surprise = {"one": 0.0, "two": math.log(2)}
        assert perplexities(run.of(), ["one"]) == {"one": 1.0}
        assert perplexities(run.of(), ["two", "one"]) == pytest.approx({"one": 1.0, "two": 2.0})
        assert run.networks.calls["reads"] == [["one"], ["two"]]


# What captions that a model wrote anew mean beside their edits.


@pytest.mark.parametrize(("cosine", "kept"), [(0.9, True), (0.89, False)])
def test_a_caption_that_means_something_else_beside_its_edits_is_dropped(cosine: float, kept: bool) -> None:
    encoder = Cosines(cosine)
    lacking = replace(variant((BLUE,), "3"), dropped="it lacks")
    made = [
        [variant((BLUE,), "0"), variant((BLUE,), "1"), variant((BLUE, SNOW), "2")],
        [lacking, variant((SNOW,), "4"), variant((BLUE,), "5")],
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
    first, last = (None, None) if kept else (reason, reason.replace("in grass", "at grass"))
    assert [[one.dropped for one in row] for row in found] == [[None, first, first], ["it lacks", None, last]]
    assert [[one.key for one in row] for row in found] == [[one.key for one in row] for row in made]


def test_free_rewriting_is_held_to_its_meaning_and_its_cosines_are_on_record(
    captions: dict[Source, str], tmp_path: Path
) -> None:
    for time in ("first", "again"):
        with tiny_run(tmp_path / "suite", list(captions)) as run:
            run.networks.unknown = np.array([1, 0], np.float32)
            strict, loose = GroundingSettings(2, 0.5, 0.81), GroundingSettings(2, 0.5, 0.79)
            found = rewritten(run, captions, "a blue dog in grass", rewrite=FREE, grounding=strict)
            (dropped,) = found.dropped
            assert "means something else beside its edits" in str(dropped.dropped)
            assert [one.edited_caption for one in found.variants] == ["a green dog on grass"] * 2, "painted again"
            assert found.shortfalls == ()
            assert rewritten(run, captions, "a blue dog in grass", rewrite=FREE, grounding=loose).dropped == ()
            encoded = [texts for texts in run.networks.calls.get("sentence", []) if OTHER in texts]
            assert encoded == ([[CAPTION, OTHER]] if time == "first" else [])
            assert rewritten(run, captions, "a blue dog in grass", rewrite=FREE, grounding=None).dropped == ()
            assert rewritten(run, captions, "a blue dog on grass", grounding=strict).dropped == (), "held by grammar"


# Pointing: what the language model says names the label counts if the sentence encoder finds it alike.

GROUNDING = GroundingSettings(batch=8, min_similarity=0.5)
PROMPTS = ChatPrompts(chatml)
TASK = builtin_task("classification", ["n02099601", "bus"])
PUPPY = "a puppy on grass"


class Model:
    """Answers by label and caption; keeps what it is asked."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.asked = answers, list[LlmRequest]()

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        assert question == "pointing"
        assert len(set(requests)) == len(requests)
        self.asked += requests
        captions = [request.prompt.text.split("Caption: ")[-1] for request in requests]
        found = [next(a for word, a in self.answers.items() if text.startswith(f"a {word}")) for text in captions]
        assert all(r.grammar.allows(a) or a == "{}" for r, a in zip(requests, found, strict=True))
        return found


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    return [replace(source, label="n02099601") for source in tiny_sources(tmp_path / "set", 5)]


def point(
    run: TinyRun, captions: Mapping[Source, str], model: Model, least: float = 0.5, task: Task = TASK
) -> dict[Source, str]:
    grounding = replace(GROUNDING, min_similarity=least)
    of = run.of(SuiteRequest(task, 1, 0, (1, 1), 0), llm=CHAT, grounding=grounding, check=NO_LIMITS)
    return point_at_labels(of, captions, Questions(of.profile.rewrite, of.request, model, PROMPTS))


def angle(cosine: float) -> np.ndarray:
    return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


LABEL_MEANINGS = {"golden retriever": angle(1.0), "puppy": angle(0.5), "grass": angle(0.49)}


def test_what_the_model_points_at_counts_if_the_encoder_agrees(sources: list[Source], tmp_path: Path) -> None:
    unlabelled = replace(sources[0], label=None, key="another")
    captions = dict(zip(sources, [PUPPY, PUPPY, "a field of grass", "a meadow", "a cut"], strict=True))
    captions = {unlabelled: PUPPY, **captions}
    model = Model(puppy='"puppy"', field='"grass"', meadow='"none"', cut="{}")
    with tiny_run(tmp_path / "suite", sources) as run:
        run.networks.meanings = LABEL_MEANINGS
        with run.run.meter.stage("rewrite"):
            found = point(run, captions, model)
            assert found == dict.fromkeys(sources[:2], "puppy")
            (texts,) = run.networks.calls["sentence"]
            assert texts == ["golden retriever", "puppy", "grass"]
            assert len(model.asked) == 4, "the same question is asked once"
            request = LlmRequest(
                PROMPTS.pointing("golden retriever", "an English breed having a long silky golden coat", PUPPY),
                one_of_grammar([*spans(PUPPY, 3, ()), NOTHING]),
            )
            assert model.asked[0] == request
            key = run.run.keys.answer_key("similarity", ("golden retriever", "puppy"))
            assert run.run.suite.ledger.get("rewrite", [key]) == {key: 0.5}
            assert point(run, captions, model, 0.51) == {}
    with tiny_run(tmp_path / "suite", sources) as run, run.run.meter.stage("rewrite"):
        assert point(run, captions, model) == found
        assert run.networks.opened == [], "cosines are on record"


def test_nothing_is_asked_where_words_ground_the_label_or_nothing_could(sources: list[Source], tmp_path: Path) -> None:
    labels = ["n02099601", None, "n00000000", "n02099601", "n02099601"]
    labelled = [replace(source, label=label) for source, label in zip(sources, labels, strict=True)]
    captions = dict(zip(labelled, ["a dog", PUPPY, PUPPY, "!", PUPPY], strict=True))
    with tiny_run(tmp_path / "suite", labelled) as run, run.run.meter.stage("rewrite"):
        assert point(run, dict(list(captions.items())[:4]), Model()) == {}
        free = Task("mine", "look", (), protect_label=False)
        assert point(run, captions, Model(), task=free) == {}
        assert run.networks.entered == []


def test_the_question_says_label_meaning_and_caption() -> None:
    prompt = PROMPTS.pointing("oboe<|im_end|>", "a reed", 'a "man" plays')
    assert prompt.text.endswith("Thing: oboe (a reed)\nCaption: a 'man' plays<|im_end|>\n<|im_start|>assistant\n")
    grammar = one_of_grammar(["a b", "a c", "a b"])
    allowed = [text for text in ('"a b"', '"a c"', '"a"', '"d"', "a b") if grammar.allows(text)]
    assert (allowed, grammar.longest_bytes) == (['"a b"', '"a c"'], 5)
    with pytest.raises(ValueError, match="a choice needs texts"):
        one_of_grammar([])


# LANCE-R: edits are a masked language model's words in the place of a caption's, and no question is put.

WET_ROAD = "a red bus on a wet road"
FILLED = {
    ("a ", " bus on a wet road"): ["red", "old", "bus", "blue", "new"],
    ("a red bus on a ", " road"): ["the", "icy"],
    ("a red bus on a wet ", ""): ["road", "lane"],
}
THREE = wanted_of(3, (1, 1))


def questions(wanted: SuiteRequest) -> Questions:
    return Questions(SETTINGS, wanted, lambda question, requests: [], PlainPrompts())


class Filler:
    def __init__(self) -> None:
        self.asked = list[list[Blank]]()

    def __call__(self, blanks: Sequence[Blank]) -> Mapping[Blank, Sequence[str]]:
        self.asked.append(list(blanks))
        return {one: FILLED.get(one, []) for one in blanks}


def choices(name: str, words: int, alternatives: int, fill: Filler, seed: int = 0) -> list[Choice]:
    draft = draft_of(source(name), WET_ROAD, THREE.task, None)
    find_choices([draft], questions(replace(THREE, seed=seed)), RandomWordSettings(1, words, alternatives), fill)
    assert draft.problem is None
    return draft.choices


def test_choices_are_the_likeliest_words_that_may_stand_there() -> None:
    fill = Filler()
    found = choices("1", 9, 2, fill)
    wanted = {"red": ("old", "blue"), "wet": ("icy",), "road": ("lane",)}
    assert found == [Choice("random", word, others) for word, others in wanted.items()]
    assert fill.asked == [[*FILLED]]
    assert [choice.alternatives for choice in choices("1", 9, 1, fill)] == [("old",), ("icy",), ("lane",)]


def test_words_are_drawn_by_the_source_and_the_seed() -> None:
    def drawn(name: str, seed: int) -> tuple[str, ...]:
        found = choices(name, 2, 9, Filler(), seed)
        assert len(found) == 2
        assert [c.keyword for c in found] == sorted((c.keyword for c in found), key=WET_ROAD.index)
        return tuple(choice.keyword for choice in found)

    assert drawn("1", 0) == drawn("1", 0)
    assert len({drawn(str(name), 0) for name in range(12)}) == 3
    assert len({drawn("1", seed) for seed in range(12)}) == 3
    assert choice_key(source("1").key, THREE.task, 0) != choice_key(source("2").key, THREE.task, 0)


def test_blanks_are_asked_for_once_and_not_of_captions_that_cannot_be_edited() -> None:
    fill, drafts = Filler(), [draft_of(source(n), WET_ROAD, THREE.task, None) for n in ("1", "2")]
    other = draft_of(source("3"), "the bus", THREE.task, None)
    strange, unfilled = (draft_of(source("4"), text, THREE.task, None) for text in ("a red kite", "a red bus"))
    find_choices([*drafts, other, strange], questions(THREE), RandomWordSettings(1, 9, 1), fill)
    assert fill.asked == [[*FILLED]]
    assert other.problem == "its caption has no words that may change"
    assert "names nothing that it is labelled with" in (strange.problem or "")
    find_choices([unfilled], questions(THREE), RandomWordSettings(1, 9, 1), Filler())
    assert (unfilled.choices, unfilled.problem) == ([], None), "a blank that nothing may fill is no choice"
    wanted = wanted_of(1, (1, 1), interventions=parse_interventions("time: night", "a file"))
    with pytest.raises(CounterfactoryError, match=r"leave out --interventions and --types, .* without that table$"):
        find_choices([], questions(wanted), RandomWordSettings(1, 1, 1), Filler())


def test_captions_are_written_by_rule_and_what_fills_blanks_is_on_record(tmp_path: Path) -> None:
    (only,) = tiny_sources(tmp_path / "set", 1)
    captions = {replace(only, label="bus"): WET_ROAD}
    for time in ("first", "again"):
        with tiny_run(tmp_path / "suite", list(captions)) as run:
            run.networks.filled = FILLED
            random = RandomWordSettings(4, 9, 2)
            found = rewrite_captions(run.of(THREE, rewrite=SETTINGS, random_words=random, check=NO_LIMITS), captions)
            assert found.dropped == ()
            assert len({v.edited_caption for v in found.variants}) == 3
            for variant in found.variants:
                (edit,) = variant.edits
                plain = WET_ROAD.replace(edit.keyword, edit.alternative)
                assert variant.edited_caption == plain.replace("a icy", "an icy").replace("a old", "an old")
                assert edit.type == "random"
            assert Edit("random", "wet", "icy") in {v.edits[0] for v in found.variants}
            assert run.networks.opened == (["masked"] if time == "first" else [])
