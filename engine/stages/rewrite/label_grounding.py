"""Points at the words of a caption that name its label, where no word does that WordNet knows for it.

The language model is asked which span of the caption it is, within a grammar of the caption's own spans; its answer
counts if the sentence encoder finds it like the label. A model alone would always point at something.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ...english.label_names import label_words, names_of, short_name
from ...english.words import spans
from ...language.chat import ChatPrompts
from ...language.grammar import NOTHING, one_of_grammar
from ...language.llm_request import LlmRequest
from ...language.questions import AnswerError, clean_text, read_caption
from ...sources.source import Source
from ...tasks.task import protect
from ..run import Run
from .caption_edits import Questions
from .text_filters import similarities

POINTING = "pointing"
_MAX_WORDS = 3


def point_at_labels(run: Run, captions: Mapping[Source, str], questions: Questions) -> dict[Source, str]:
    """The words that name the label of each source whose caption has no known name of it; others are left out. Call it
    inside the stage of rewriting.
    """
    settings, task, prompts = run.profile.grounding, run.request.task, questions.prompts
    if settings is None:
        return {}
    assert isinstance(prompts, ChatPrompts), "checked by the profile"
    requests: dict[Source, LlmRequest] = {}
    for source, caption in captions.items():
        text = clean_text(caption)
        if source.label is None or not label_words(source.label) or not task.protect_label:
            continue
        phrases = spans(text, _MAX_WORDS, ())
        if phrases and not protect(task, source.label, source.classes, text).grounded:
            prompt = prompts.pointing(short_name(source.label), names_of(source.label).definition, text)
            requests[source] = LlmRequest(prompt, one_of_grammar([*phrases, NOTHING]))
    answers = questions.answers(POINTING, list(requests.values()))
    pairs: dict[Source, tuple[str, str]] = {}
    for source, request in requests.items():
        with suppress(AnswerError):  # an answer that was cut off names nothing
            if (word := read_caption(answers[request])) != NOTHING:
                pairs[source] = (short_name(source.label or ""), word)
    alike = similarities(run, list(dict.fromkeys(pairs.values())))
    return {source: pair[1] for source, pair in pairs.items() if alike[pair] >= settings.min_similarity}
