"""Scores of edited captions as texts, and the thresholds by which some are never painted.

    text_label         how like the label the words are that an edit takes or brings          LANCE, arXiv 2305.19164
    text_replaced      how like each other the words are that it takes and brings             LANCE
    text_caption       how like the caption the edited caption is                             COCO-Counterfactuals,
                                                                                              arXiv 2309.14356
    perplexity         of the edited caption, to the language model
    perplexity_ratio   that over the caption's

The first three are cosines of the sentence encoder, the first two of a variant's worst edit. A score that makes no
sense is left out: "text_label" of a source without a label, "text_replaced" where nothing is replaced. Scores go into
the suite's table whatever the thresholds, and verdicts follow from both there (check/verdict.py), so that stricter
thresholds need no new suite. No score says whether the words that name the label stay: edit_scope.py does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ...edit import Edit
from ...english.difference import compare
from ...english.label_names import short_name
from ...profile.check import CheckSettings
from ...tasks.choose import Choice
from ...variant import Variant
from ..run import Run
from .caption_edits import CaptionEdits
from .meaning import Pair

T = TypeVar("T")


def perplexities(run: Run, texts: Sequence[str]) -> dict[str, float]:
    """How well the language model reads each text; those on record are not read again. Call it inside a stage."""

    def make(todo: list[str]) -> Generator[dict[str, float], None, None]:
        surprises = run.models.llm().surprises(todo)
        yield {text: math.exp(surprise) for text, surprise in zip(todo, surprises, strict=True)}

    keys = {text: run.keys.answer_key("perplexity", text) for text in texts}
    return run.recorded("rewrite", keys, make)


@dataclass(frozen=True)
class TextFilter:
    """`similarities` gives pairs of texts their cosines, `perplexities` texts theirs; None measures nothing of it."""

    thresholds: CheckSettings
    similarities: Callable[[Sequence[Pair]], Mapping[Pair, float]] | None
    perplexities: Callable[[Sequence[str]], Mapping[str, float]] | None

    def scores(self, variants: Iterable[Variant]) -> dict[Variant, dict[str, float]]:
        """The scores of variants by name; those that have a text and edits."""
        edited = [variant for variant in variants if variant.edits and variant.edited_caption]
        scores: dict[Variant, dict[str, float]] = {variant: {} for variant in edited}
        if self.similarities is not None and edited:
            scores = _largest({variant: _pairs(variant) for variant in edited}, self.similarities)
        if self.perplexities is not None and edited:
            read = self.perplexities(list(dict.fromkeys(t for v in edited for t in (v.caption, v.edited_caption))))
            for variant in edited:
                own = read[variant.edited_caption]
                scores[variant] |= {
                    "perplexity": _round(own),
                    "perplexity_ratio": _round(own / read[variant.caption]),
                }
        return scores

    def keep_passing(self, drafts: Sequence[CaptionEdits]) -> None:
        """Takes the edits whose words fail from drafts, so that others are chosen; a draft with none left says why."""
        if self.similarities is None or not self.thresholds.most.keys() & {"text_label", "text_replaced"}:
            return
        labelled = {
            (draft.source.label, Edit(choice.type, choice.keyword, alternative))
            for draft in drafts
            for choice in draft.choices
            for alternative in choice.alternatives
        }
        pairs = {both: _edit_pairs([both[1]], both[0]) for both in sorted(labelled, key=repr)}
        scores = _largest(pairs, self.similarities) if pairs else {}
        for draft in drafts:
            choices, reason = list[Choice](), ""
            for choice in draft.choices:
                passing = []
                for alternative in choice.alternatives:
                    edit = Edit(choice.type, choice.keyword, alternative)
                    failure = self.thresholds.text_failure(scores[draft.source.label, edit])
                    if failure is None:
                        passing.append(alternative)
                    else:
                        reason = reason or failure.reason
                if passing:
                    choices.append(replace(choice, alternatives=tuple(passing)))
            if draft.choices and not choices:
                draft.unread = f"none of its edits passes the text filters; of the first {reason}"
            draft.choices = choices

    def drop_failing(self, rows: Sequence[Sequence[Variant]]) -> list[list[Variant]]:
        """The variants of each source; those that fail are dropped with the reason."""
        scores = self.scores(variant for row in rows for variant in row if variant.dropped is None)

        def judge(variant: Variant) -> Variant:
            failure = self.thresholds.text_failure(scores.get(variant, {}))
            return variant if failure is None else replace(variant, dropped=failure.reason)

        return [[judge(variant) for variant in row] for row in rows]


def changed_words(edit: Edit) -> Pair:
    """The words that an edit takes and those that it brings, without those that stay ("dog" -> "small dog")."""
    difference = compare(edit.keyword, edit.alternative)
    return " ".join(word.text for word in difference.removed), " ".join(word.text for word in difference.added)


def _pairs(variant: Variant) -> dict[str, list[Pair]]:
    """What is compared for each score of a variant."""
    own = _edit_pairs(variant.edits, variant.source.label)
    return {**own, "text_caption": [(variant.caption, variant.edited_caption)]}


def _edit_pairs(edits: Sequence[Edit], label: str | None) -> dict[str, list[Pair]]:
    """What is compared for the scores of edits."""
    changed, name = [changed_words(edit) for edit in edits], "" if label is None else short_name(label)
    return {
        "text_label": [(name, words) for both in changed for words in both if name and words],
        "text_replaced": [both for both in changed if all(both)],
    }


def _largest(
    pairs: Mapping[T, Mapping[str, Sequence[Pair]]], similarities: Callable[[Sequence[Pair]], Mapping[Pair, float]]
) -> dict[T, dict[str, float]]:
    """The largest cosine of each item's pairs by the score's name; scores without pairs are left out."""
    compared = dict.fromkeys(pair for sets in pairs.values() for of_score in sets.values() for pair in of_score)
    cosines = similarities(list(compared))
    return {
        item: {name: _round(max(cosines[pair] for pair in of_score)) for name, of_score in sets.items() if of_score}
        for item, sets in pairs.items()
    }


def _round(score: float) -> float:
    return round(score, 6)
