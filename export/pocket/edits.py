"""Measures the edits that a language model makes of held-out captions, asked through the engine's own rewriting.

Nothing is painted, so that it costs a minute. An edit of a type succeeds if made alone by rule it changes facts of its
type and no others, to values that the world has; if the edited caption states exactly the facts of all edits of its
variant; and if every vehicle is still of its kind, since that is the label.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.additions import apply_by_rule
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.llm_request import Llm
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import Questions
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite
from counterfactory.engine.variant import Variant

from .answers import language_scores
from .data import HELD_OUT
from .languages import LANGUAGES, Language, Row
from .packed import RUNTIME

_SEED = 31
_VARIANTS, _EDITS = 4, (1, 2)


@dataclass(frozen=True)
class Outcome:
    """What became of one edit of a variant: the three things of which a success has all."""

    type: str
    right_type: bool
    right_facts: bool
    label_kept: bool

    @property
    def success(self) -> bool:
        """Whether all is right."""
        return self.right_type and self.right_facts and self.label_kept


def measure_edits(llm: Llm, language: Language, count: int) -> dict[str, Any]:
    """Typed-edit success over `count` held-out scenes, half of them asked about for either built-in task.

    `edit_success` has for each type the share of its edits that succeed, and the shares of the three conditions;
    `edits_asked` how many edits of it there were. `variants_made` is the share of the wanted variants that the engine
    could use. Types that never occur are left out.
    """
    outcomes: list[Outcome] = []
    made = 0
    for name, numbers in (("classification", range(0, count, 2)), ("segmentation", range(1, count, 2))):
        for variant in _variants(llm, language, name, numbers):
            made += variant.dropped is None
            outcomes += judge(language, variant)
    by_type: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        by_type[one.type].append(one)
    return {
        "edit_success": {type_: _shares(by_type[type_]) for type_ in sorted(by_type)},
        "edits_asked": {type_: len(by_type[type_]) for type_ in sorted(by_type)},
        "edit_success_all": float(np.mean([one.success for one in outcomes])) if outcomes else 0.0,
        "variants_made": made / (count * _VARIANTS),
    }


def _shares(outcomes: Sequence[Outcome]) -> dict[str, float]:
    names = ("success", "right_type", "right_facts", "label_kept")
    return {name: float(np.mean([getattr(one, name) for one in outcomes])) for name in names}


def _variants(llm: Llm, language: Language, task: str, numbers: Sequence[int]) -> list[Variant]:
    """The variants of held-out scenes that no other noise repeats."""
    prompts = prompts_of(language.style)
    assert isinstance(prompts, PlainPrompts), "pocket models do not converse"
    world, sources, captions = language.world, list[Source](), list[str]()
    for number in numbers:
        scene, name = world.scene(HELD_OUT, number), f"{number:05d}"
        sources.append(Source(name, name, Path(name), (128, 128), scene.label, None, name, content_key(name)))
        captions.append(world.describe(scene, np.random.default_rng((_SEED, number)), True))
    wanted = SuiteRequest(street_task(task), _VARIANTS, 0, _EDITS, _SEED)
    questions = Questions(language.settings, wanted, lambda _, asked: llm.generate(asked), prompts)
    found = rewrite(sources, captions, questions)
    return [variant for one in found for variant in one.variants if not variant.repeat]


def judge(language: Language, variant: Variant) -> list[Outcome]:
    """What became of each edit of a variant; one whose caption was dropped states nothing."""
    caption, before = variant.caption, language.read(variant.caption)
    wanted = language.read(_made(language, caption, variant.edits))
    after = None if variant.dropped is not None else language.read(variant.edited_caption)
    kept = after is not None and _kinds(after) == _kinds(before)
    return [
        Outcome(
            edit.type,
            types_changed(language, before, language.read(_made(language, caption, (edit,)))) == {edit.type},
            after == wanted,
            kept,
        )
        for edit in variant.edits
    ]


def _made(language: Language, caption: str, edits: Sequence[Edit]) -> str:
    """The caption with the edits made by rule."""
    changes = [(edit.type, edit.keyword, edit.alternative) for edit in edits if edit.kind == "replace"]
    return apply_by_rule(language.apply(caption, changes), edits)


def _kinds(facts: Any) -> list[str]:
    """The kinds of the vehicles, which stand last among what is known of each."""
    return [vehicle[-1] for vehicle in facts.vehicles]


def types_changed(language: Language, before: Any, after: Any) -> set[str]:
    """The types of edits by which facts could have become others; "" among them where no edit could: where a fact got
    lost, a vehicle is another, or what is new has no type.
    """
    found: set[str] = set()
    for field in fields(before):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if isinstance(old, tuple) or isinstance(new, tuple):
            found |= _rows_changed(language, field.name, old or (), new or ())
        elif old != new:
            found.add("" if new is None else language.types.get(field.name, ""))
    return found


def _rows_changed(language: Language, name: str, old: Sequence[Row], new: Sequence[Row]) -> set[str]:
    if len(new) > len(old):
        return {language.types.get(name, "") if all(row in new for row in old) else ""}
    if len(new) < len(old):
        return {""}
    return {
        "" if word is None else language.types.get(f"{name} {column}", "")
        for before, after in zip(old, new, strict=True)
        for column, (was, word) in enumerate(zip(before, after, strict=True))
        if was != word
    }


def add_command(commands: Any) -> None:
    """The command `language`."""
    parser = commands.add_parser("language", help="measure a pocket language model on held-out captions")
    parser.add_argument("--model", type=Path, default=RUNTIME / "llm", help="its folder (this checkout's)")
    parser.add_argument("--scenes", type=int, default=100, help="scenes whose captions are edited (%(default)s)")
    parser.add_argument("--exercises", type=int, default=100, help="exercises of each question (%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads; 0 is all cores (%(default)s)")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure, and print the figures as JSON."""
    language = LANGUAGES[EMBEDDED.name]
    llm = OpenVinoLlm(asked.model, precision="f32", threads=asked.threads)
    figures = measure_edits(llm, language, asked.scenes) | {
        "questions": language_scores(llm, language, asked.exercises)
    }
    say(json.dumps(figures, indent=1))
    return 0
