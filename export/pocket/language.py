"""Measures a pocket language model on held-out scenes, asked as the engine asks: the same prompts, the same grammars.

Exercises say how often each question has its right answer. The edits that it makes through the engine's own rewriting
say what comes of that; nothing is painted, so that it costs a minute. An edit of a type succeeds if made alone by rule
it changes facts of its type and no others, to values that the world has; if the edited caption states exactly the facts
of all edits of its variant; and if every vehicle is still of its kind, since that is the label.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterfactory.engine.edit import STREET_TYPES, Edit
from counterfactory.engine.english.words import spans
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.grammar import (
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    values_grammar,
)
from counterfactory.engine.language.llm_request import Llm, LlmRequest
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.questions import AnswerError, PlainPrompts, read_caption
from counterfactory.engine.pocket.captions import Facts, read_facts
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import Questions
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite
from counterfactory.engine.variant import Variant

from .data import HELD_OUT
from .exercises import KINDS_OF_QUESTION, Exercise, apply, exercise
from .packed import RUNTIME

_SETTINGS = RewriteSettings(
    STREET_TYPES, max_keywords=6, max_alternatives=4, max_words_keyword=3, max_chars_caption=400, verbatim=True
)
_VOCABULARY = {*WEATHERS, *TIMES, *COLOURS, *MATERIALS, *KINDS, "at", "during", "the"}
# The types of edits that change these facts of a scene; colours are facts of vehicles.
_TYPES = {"weather": "weather", "time": "time", "material": "background"}
_SEED = 31
_VARIANTS, _EDITS = 4, (1, 2)


def request_of(kind: str, drawn: Exercise) -> LlmRequest:
    """The request by which the engine would ask this exercise."""
    case = drawn.case
    if kind == "keywords":
        free = spans(case.caption, _SETTINGS.max_words_keyword, case.keep)
        form = keywords_grammar(case.types, free, _SETTINGS.max_keywords)
    elif kind == "rewrite":
        form = edited_grammar(case.caption, [(old, new) for _, old, new in drawn.changes])
    elif drawn.values:
        form = values_grammar(drawn.values)
    else:
        form = alternatives_grammar(drawn.changes[0][1], _SETTINGS.max_alternatives)
    return LlmRequest(drawn.prompt, form)


def built_in(drawn: Exercise) -> bool:
    """Whether it is one of the two built-in tasks, with all types of edit and values that the world knows."""
    words = {word for *_, value in drawn.changes for word in value.split()}
    sentences = [street_task(name).sentence for name in ("classification", "segmentation")]
    whole = drawn.case.types == STREET_TYPES and not drawn.values
    return whole and drawn.case.task in sentences and words <= _VOCABULARY


def same_facts(answer: str, wanted: str) -> bool:
    """Whether an answer to question 3 states the facts of the right answer."""
    try:
        return read_facts(read_caption(answer)) == read_facts(read_caption(wanted))
    except AnswerError:
        return False


def language_scores(llm: Llm, count: int) -> dict[str, float]:
    """Shares of right answers among `count` held-out exercises a question.

    `<question>_exact` is over all exercises, users' tasks and made-up words among them; `<question>_built_in` over
    those of the built-in tasks; `rewrite_facts` is the share of those whose caption states just the facts it should.
    """
    scores: dict[str, float] = {}
    for kind in KINDS_OF_QUESTION:
        drawn = [exercise(kind, HELD_OUT, i) for i in range(count)]
        answers = llm.generate([request_of(kind, e) for e in drawn])
        right = [answer == e.answer for answer, e in zip(answers, drawn, strict=True)]
        known = [i for i, e in enumerate(drawn) if built_in(e)]
        scores[f"{kind}_exact"] = sum(right) / len(right)
        scores[f"{kind}_built_in"] = sum(right[i] for i in known) / max(1, len(known))
        if kind == "rewrite":
            facts_right = [same_facts(answers[i], drawn[i].answer) for i in known]
            scores["rewrite_facts"] = sum(facts_right) / max(1, len(known))
    return scores


@dataclass(frozen=True)
class Outcome:
    """What became of one edit of a variant: the three things of which a success has all."""

    type: str
    right_type: bool
    right_facts: bool
    label_kept: bool


def measure_edits(llm: Llm, count: int) -> dict[str, Any]:
    """Typed-edit success over `count` held-out scenes, half of them asked about for either built-in task.

    `edit_success` has for each type the share of its edits that succeed, and the shares of the three conditions;
    `edits_asked` how many edits of it there were. `variants_made` is the share of the wanted variants that the engine
    could use. Types that never occur are left out.
    """
    tasks = (("classification", range(0, count, 2)), ("segmentation", range(1, count, 2)))
    variants = [variant for task, numbers in tasks for variant in _variants(llm, task, numbers)]
    by_type: dict[str, list[tuple[bool, ...]]] = {}
    for outcome in (outcome for variant in variants for outcome in judge(variant)):
        conditions: tuple[bool, ...] = astuple(outcome)[1:]
        by_type.setdefault(outcome.type, []).append((all(conditions), *conditions))
    names, ordered = ("success", "right_type", "right_facts", "label_kept"), dict(sorted(by_type.items()))
    means = {type_: np.mean(rows, axis=0).tolist() for type_, rows in ordered.items()}
    return {
        "edit_success": {type_: dict(zip(names, shares, strict=True)) for type_, shares in means.items()},
        "edits_asked": {type_: len(rows) for type_, rows in ordered.items()},
        "edit_success_all": float(np.mean([row[0] for rows in by_type.values() for row in rows] or [False])),
        "variants_made": sum(variant.dropped is None for variant in variants) / (count * _VARIANTS),
    }


def _variants(llm: Llm, task: str, numbers: Sequence[int]) -> list[Variant]:
    sources, captions = list[Source](), list[str]()
    for number in numbers:
        scene, name = EMBEDDED.scene(HELD_OUT, number), f"{number:05d}"
        sources.append(Source(name, name, Path(name), (128, 128), scene.label, None, name, content_key(name)))
        captions.append(EMBEDDED.describe(scene, np.random.default_rng((_SEED, number))))
    wanted = SuiteRequest(street_task(task), _VARIANTS, 0, _EDITS, _SEED)
    questions = Questions(_SETTINGS, wanted, lambda _, asked: llm.generate(asked), PlainPrompts())
    found = rewrite(sources, captions, questions)
    return [variant for one in found for variant in one.variants if not variant.repeat]


def judge(variant: Variant) -> list[Outcome]:
    """What became of each edit of a variant; one whose caption was dropped states nothing."""
    before = read_facts(variant.caption)
    after = None if variant.dropped is not None else read_facts(variant.edited_caption)
    right = after == _facts_after(variant.caption, variant.edits)
    kept = after is not None and [kind for _, kind in after.vehicles] == [kind for _, kind in before.vehicles]
    return [
        Outcome(edit.type, types_changed(before, _facts_after(variant.caption, (edit,))) == {edit.type}, right, kept)
        for edit in variant.edits
    ]


def _facts_after(caption: str, edits: Sequence[Edit]) -> Facts:
    """What the caption states with the edits made by rule; the pocket model's replace words."""
    return read_facts(apply(caption, [(edit.type, edit.keyword, edit.alternative) for edit in edits]))


def types_changed(before: Facts, after: Facts) -> set[str]:
    """The types of edits by which facts could have become others; "" among them where no edit could: where a fact got
    lost, a vehicle is another, or what is new has no type.
    """
    found = set[str]()
    for name, type_ in _TYPES.items():
        if (new := getattr(after, name)) != getattr(before, name):
            found.add("" if new is None else type_)
    kinds = [[kind for _, kind in facts.vehicles] for facts in (before, after)]
    if (before.trees, before.people, kinds[0]) != (after.trees, after.people, kinds[1]):
        found.add("")
    elif before.vehicles != after.vehicles:
        found.add("colour")
    return found


def add_command(commands: Any) -> None:
    parser = commands.add_parser("language", help="measure a pocket language model on held-out captions")
    parser.add_argument("--model", type=Path, default=RUNTIME / "llm", help="its folder (this checkout's)")
    parser.add_argument("--scenes", type=int, default=100, help="scenes whose captions are edited (%(default)s)")
    parser.add_argument("--exercises", type=int, default=100, help="exercises of each question (%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads; 0 is all cores (%(default)s)")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure, and print the figures as JSON."""
    llm = OpenVinoLlm(asked.model, precision="f32", threads=asked.threads)
    figures = measure_edits(llm, asked.scenes) | {"questions": language_scores(llm, asked.exercises)}
    say(json.dumps(figures, indent=1))
    return 0
