"""Pointing: what the language model says names the label counts if the sentence encoder finds it alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checks import NO_LIMITS
from tiny_desk import CHAT, TinyRun, tiny_run, tiny_sources

from counterfactory.engine.english.words import spans
from counterfactory.engine.language.chat import ChatPrompts, chatml, prompts_of
from counterfactory.engine.language.grammar import NOTHING, one_of_grammar
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.models.network import Rows
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.rewrite import GroundingSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import Questions
from counterfactory.engine.stages.rewrite.label_grounding import point_at_labels
from counterfactory.engine.tasks.task import Task, builtin_task

SETTINGS = GroundingSettings(batch=8, min_similarity=0.5)
PROMPTS = ChatPrompts(chatml)
TASK = builtin_task("classification", ["n02099601", "bus"])
CAPTION = "a puppy on grass"


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
    run: TinyRun,
    captions: Mapping[Source, str],
    model: Model,
    settings: GroundingSettings = SETTINGS,
    task: Task = TASK,
) -> dict[Source, str]:
    of = run.of(SuiteRequest(task, 1, 0, (1, 1), 0), llm=CHAT, grounding=settings, check=NO_LIMITS)
    return point_at_labels(of, captions, Questions(of.profile.rewrite, of.request, model, PROMPTS))


def angle(cosine: float) -> np.ndarray:
    return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


MEANINGS = {"golden retriever": angle(1.0), "puppy": angle(0.5), "grass": angle(0.49)}


def test_what_the_model_points_at_counts_if_the_encoder_agrees(sources: list[Source], tmp_path: Path) -> None:
    unlabelled = replace(sources[0], label=None, key="another")
    captions = dict(zip(sources, [CAPTION, CAPTION, "a field of grass", "a meadow", "a cut"], strict=True))
    captions = {unlabelled: CAPTION, **captions}
    model = Model(puppy='"puppy"', field='"grass"', meadow='"none"', cut="{}")
    with tiny_run(tmp_path / "suite", sources) as run:
        run.networks.meanings = MEANINGS
        with run.run.meter.stage("rewrite"):
            found = point(run, captions, model, SETTINGS)
            assert found == dict.fromkeys(sources[:2], "puppy")
            (texts,) = run.networks.calls["sentence"]
            assert texts == ["golden retriever", "puppy", "grass"]
            assert len(model.asked) == 4, "the same question is asked once"
            request = LlmRequest(
                PROMPTS.pointing("golden retriever", "an English breed having a long silky golden coat", CAPTION),
                one_of_grammar([*spans(CAPTION, 3, ()), NOTHING]),
            )
            assert model.asked[0] == request
            key = run.run.keys.answer_key("similarity", ("golden retriever", "puppy"))
            assert run.run.suite.ledger.get("rewrite", [key]) == {key: 0.5}
            strict = replace(SETTINGS, min_similarity=0.51)
            assert point(run, captions, model, strict) == {}
    with tiny_run(tmp_path / "suite", sources) as run, run.run.meter.stage("rewrite"):
        assert point(run, captions, model, SETTINGS) == found
        assert run.networks.opened == [], "cosines are on record"


def test_nothing_is_asked_where_words_ground_the_label_or_nothing_could(sources: list[Source], tmp_path: Path) -> None:
    labels = ["n02099601", None, "n00000000", "n02099601", "n02099601"]
    labelled = [replace(source, label=label) for source, label in zip(sources, labels, strict=True)]
    captions = dict(zip(labelled, ["a dog", CAPTION, CAPTION, "!", CAPTION], strict=True))
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


def test_a_profile_with_grounding_has_the_network_and_a_model_that_converses() -> None:
    pocket = load_profile("pocket")
    with pytest.raises(ValueError, match=r'\[grounding\] goes with a language model that converses; .* "pocket"$'):
        replace(pocket, grounding=SETTINGS)
    box = networks_of(replace(load_profile("a10g"), grounding=SETTINGS))["sentence"]
    assert (box.batch, box.moved_bytes) == (8, 4 * (2 * 2 * 64 + 384)), "two rows of 64 int64, and an embedding"
    own = replace(pocket, llm=replace(pocket.llm, style="chatml"), grounding=SETTINGS)
    network = networks_of(own)["sentence"]
    assert (network.batch, network.files) == (8, ("sentence_tokenizer.json",))
    assert "sentence" not in networks_of(pocket)
    # A label, what names it and the caption; of a variant its caption and an edit's words, old and new. Where captions
    # are written anew, what they say beside their edits as well.
    assert network.rows == {"rewrite": Rows(per_source=3, per_variant=3)}
    free = replace(own, rewrite=replace(own.rewrite, verbatim=False))
    assert networks_of(free)["sentence"].rows == {"rewrite": Rows(per_source=3, per_variant=4)}
    assert isinstance(prompts_of("chatml"), ChatPrompts)
