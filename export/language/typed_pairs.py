"""Typed pairs, what a perturber learns from (LANCE, arXiv 2305.19164): an edit of one type of a caption, and the same
as the engine's own question with its right answer.

Pairs are a user's (JSON lines of `caption`, `label`, `type`, `keyword`, `alternative`), or the engine's phrases for
captions (english/menus.py): a user's, or those of rendered streets. An exercise has all pairs of a caption and a type.
What the engine would not ask of a caption, or would not take as an answer, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterfactory.engine.english.menus import menu
from counterfactory.engine.english.words import allowed_proposals
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.tables import read_table
from counterfactory.engine.keys import content_key, generator
from counterfactory.engine.language.chat import ChatPrompts
from counterfactory.engine.language.edit_types import BUILT_IN
from counterfactory.engine.language.questions import write_answer
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SUBJECTIVE, SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import Questions, draft_of
from counterfactory.engine.stages.rewrite.proposals import question
from counterfactory.engine.tasks.task import builtin_task, protect

# The stream of scenes whose captions are learnt from: no other is drawn from it.
_STREAM = 15_000


@dataclass(frozen=True)
class Captioned:
    caption: str
    label: str


@dataclass(frozen=True)
class TypedPair:
    """`alternative` in the place of `keyword` is an edit of this type; as in `Edit` one of both may be empty."""

    about: Captioned
    type: str
    keyword: str
    alternative: str


@dataclass(frozen=True)
class TypedExercise:
    """The engine's question about one type of edits of a caption, and the right answer."""

    about: Captioned
    type: str
    prompt: str
    answer: str


def read_captions(path: Path) -> list[Captioned]:
    """The rows of a table with `caption` and `label`. Raises CounterfactoryError for another."""
    return [about for _, about, _ in _rows(path, ())]


def read_pairs(path: Path) -> list[TypedPair]:
    """The rows of a table with `caption`, `label`, `type`, `keyword` and `alternative`.

    Raises CounterfactoryError for another, a type that is not known, and a keyword that its caption does not have.
    """
    found = []
    for where, about, row in _rows(path, ("type", "keyword", "alternative")):
        type_, keyword, alternative = _text(row, "type", where), str(row.get("keyword") or ""), row.get("alternative")
        if type_ not in BUILT_IN:
            raise CounterfactoryError(f"{where}: no type {type_!r}; there are {', '.join(BUILT_IN)}")
        if keyword not in about.caption:
            raise CounterfactoryError(f"{where}: the caption {about.caption!r} has no {keyword!r}")
        if not keyword and not alternative:
            raise CounterfactoryError(f"{where}: an edit has a keyword, an alternative, or both")
        found.append(TypedPair(about, type_, keyword, str(alternative or "")))
    return found


def _rows(path: Path, more: Sequence[str]) -> list[tuple[str, Captioned, Mapping[str, Any]]]:
    found = list[tuple[str, Captioned, Mapping[str, Any]]]()
    for line, row in read_table(path, required=("caption", "label", *more)):
        if isinstance(row, str):
            raise CounterfactoryError(f"{path}:{line} {row}")
        where = f"{path}:{line}"
        found.append((where, Captioned(_text(row, "caption", where), _text(row, "label", where)), row))
    if not found:
        raise CounterfactoryError(f"{path} has no rows")
    return found


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise CounterfactoryError(f"{where} needs a {name}, as text")
    return value.strip()


def street_captions(count: int) -> list[Captioned]:
    """Captions of rendered streets, each of another scene."""
    found = []
    for index in range(count):
        rng = np.random.default_rng((_STREAM, index))
        scene = EMBEDDED.sample(rng)
        found.append(Captioned(EMBEDDED.describe(scene, rng), scene.label))
    return found


def menu_pairs(captions: Sequence[Captioned], types: Sequence[str], each: int) -> list[TypedPair]:
    """At most `each` pairs of each type and caption, drawn from the engine's phrases by the caption."""
    task = builtin_task("classification", sorted({one.label for one in captions}))
    found = []
    for about in captions:
        keep = protect(task, about.label, (), about.caption).keep
        for type_ in types:
            usable = allowed_proposals(menu(type_, about.caption, keep, about.label), about.caption, keep, SUBJECTIVE)
            drawn = generator(content_key(about.caption, type_), "typed pairs").permutation(len(usable))[:each]
            found += [TypedPair(about, type_, *usable[int(i)]) for i in drawn]
    return found


def exercises(
    pairs: Sequence[TypedPair], settings: RewriteSettings, prompts: ChatPrompts
) -> tuple[list[TypedExercise], int]:
    """What the pairs teach, by caption and type, and how many pairs teach nothing: the engine would not ask, or not
    take such an answer. Of more pairs than it asks for at once the first are taught.
    """
    task = builtin_task("classification", sorted({pair.about.label for pair in pairs}))
    request = SuiteRequest(task, 1, 0, (1, 1), 0)
    questions = Questions(settings, request, lambda _, requests: [""] * len(requests), prompts)
    grouped: dict[tuple[Captioned, str], list[tuple[str, str]]] = {}
    for pair in pairs:
        grouped.setdefault((pair.about, pair.type), []).append((pair.keyword, pair.alternative))
    found, left = list[TypedExercise](), 0
    for (one, type_), edits in grouped.items():
        source = Source(one.caption, "", Path(), (1, 1), one.label, None, "", "")
        draft = draft_of(source, one.caption, task, None)
        asked = question(draft, BUILT_IN[type_], questions) if draft.protection.grounded else None
        usable = [] if asked is None else [e for e in edits if asked.grammar.allows(write_answer([list(e)]))]
        left += len(edits) - len(usable)
        if asked is not None and usable:
            answer = write_answer([list(edit) for edit in usable[: settings.max_alternatives]])
            found.append(TypedExercise(one, type_, asked.prompt.text, answer))
    return found, left


def split(found: Sequence[TypedExercise], held: float) -> tuple[list[TypedExercise], list[TypedExercise]]:
    """Exercises to learn from and those that are held out: whole captions, about that share of them, by the caption."""
    kept: tuple[list[TypedExercise], list[TypedExercise]] = ([], [])
    for one in found:
        luck = int(content_key("held out", one.about.caption)[:8], 16) / 16**8
        kept[luck < held].append(one)
    return kept
