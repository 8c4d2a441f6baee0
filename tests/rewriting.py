"""Sources, settings and answers for tests of rewriting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.llm_request import LlmRequest, Prompt
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.caption_edits import Questions
from counterfactory.engine.stages.rewrite.rewrite_captions import Limits, SourceVariants
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite as rewrite_with
from counterfactory.engine.tasks.task import Task
from counterfactory.engine.tasks.user_task import Interventions

SETTINGS = RewriteSettings(
    STREET_TYPES, max_keywords=6, max_alternatives=4, max_words_keyword=3, max_chars_caption=400, verbatim=False
)
TASK = street_task("classification")
UNUSED = "no edited caption could be used: "


def wanted_of(
    variants: int,
    edits: tuple[int, int],
    seed: int = 0,
    interventions: Interventions | None = None,
    task: Task = TASK,
    controls: int = 0,
) -> SuiteRequest:
    return SuiteRequest(task, variants, controls, edits, seed, interventions)


def source(name: str, label: str | None = "bus") -> Source:
    return Source(name, name, Path(name), (8, 8), label, None, "d", content_key(name, label))


def rewrite(
    sources: Sequence[Source],
    captions: Sequence[str],
    settings: RewriteSettings,
    wanted: SuiteRequest,
    ask: Any,
    prompts: Any,
    **limits: Any,
) -> list[SourceVariants]:
    """What becomes of captions."""
    return rewrite_with(sources, captions, Questions(settings, wanted, ask, prompts), Limits(**limits))


def told(question: str) -> Any:
    """A method that says what a question is made of, so that a request is compared with all that it depends on."""

    def prompt(self: object, *of: Any) -> Prompt:
        return Prompt(question, json.dumps(of, default=lambda type_: type_.name), "")

    return prompt


class Told:
    """Prompts about keywords in such words."""

    keywords, alternatives, rewrite = (told(question) for question in ("keywords", "alternatives", "rewrite"))


class Scripted:
    """Answers by question as they are written down; keeps the requests."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = answers
        self.asked: dict[str, list[LlmRequest]] = {}

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        assert requests, f"{question} is asked about nothing"
        self.asked[question] = list(requests)
        return self._answers[question]
