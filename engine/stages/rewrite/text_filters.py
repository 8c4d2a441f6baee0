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
thresholds need no new suite. The encoder also tells whether a caption that the language model rewrote freely says the
same apart from its edits: small words may change with an edit, and only their sense tells whether they did more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ...edit import Edit
from ...english.difference import compare
from ...english.edit_scope import plain_words, set_back
from ...english.label_names import short_name
from ...language.questions import read_caption
from ...profile.check import CheckSettings
from ...tasks.choose import Choice
from ...variant import Variant
from ..run import Run
from .caption_edits import CaptionEdits

Pair = tuple[str, str]
# Cosines of pairs of texts.
Similarities = Callable[[Sequence[Pair]], Mapping[Pair, float]]
T = TypeVar("T")


def similarities(run: Run, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """The cosine of each pair of texts; those on record are not computed again. Call it inside a stage."""

    def cosines(todo: list[Pair]) -> list[float]:
        texts = list(dict.fromkeys(text for pair in todo for text in pair))
        vectors = dict(zip(texts, run.models.sentence().encode(texts), strict=True))
        return [float(vectors[left] @ vectors[right]) for left, right in todo]

    return run.answered("similarity", {pair: pair for pair in pairs}, cosines, float)


def perplexities(run: Run, texts: Sequence[str]) -> dict[str, float]:
    """How well the language model reads each text; those on record are not read again. Call it inside a stage."""
    contents = {text: text for text in texts}
    return run.answered("perplexity", contents, lambda todo: map(math.exp, run.models.llm().surprises(todo)), float)


@dataclass(frozen=True)
class TextFilter:
    """`similarities` gives pairs of texts their cosines, `perplexities` texts theirs; None measures nothing of it. A
    freely rewritten caption says the same as the caption from `least_meaning` on, None for any.
    """

    thresholds: CheckSettings
    similarities: Similarities | None
    perplexities: Callable[[Sequence[str]], Mapping[str, float]] | None
    least_meaning: float | None = None

    def scores(self, variants: Iterable[Variant]) -> dict[Variant, dict[str, float]]:
        """The scores of variants by name; those that have a text and edits."""
        edited = [variant for variant in variants if variant.edits and variant.edited_caption]
        scores: dict[Variant, dict[str, float]] = {variant: {} for variant in edited}
        if self.similarities is not None and edited:
            pairs = {
                variant: _edit_pairs(variant.edits, variant.source.label)
                | {"text_caption": [(variant.caption, variant.edited_caption)]}
                for variant in edited
            }
            scores = _largest(pairs, self.similarities)
        if self.perplexities is not None and edited:
            read = self.perplexities(list(dict.fromkeys(t for v in edited for t in (v.caption, v.edited_caption))))
            for variant in edited:
                own = read[variant.edited_caption]
                ratio = own / max(read[variant.caption], 1.0)  # no perplexity is less
                scores[variant] |= {"perplexity": round(own, 6), "perplexity_ratio": round(ratio, 6)}
        return scores

    def keep_passing(self, drafts: Sequence[CaptionEdits]) -> None:
        """Takes the edits whose words fail from drafts, so that others are chosen; a draft with none left says why."""
        if self.similarities is None or not self.thresholds.most.keys() & {"text_label", "text_replaced"}:
            return
        labelled = {(one.source.label, edit) for one in drafts for choice in one.choices for edit in _edits_of(choice)}
        pairs = {both: _edit_pairs([both[1]], both[0]) for both in sorted(labelled, key=repr)}
        scores = _largest(pairs, self.similarities) if pairs else {}
        for draft in drafts:
            choices, reason = list[Choice](), ""
            for choice in draft.choices:
                passing = []
                for edit in _edits_of(choice):
                    failure = self.thresholds.text_failure(scores[draft.source.label, edit])
                    if failure is None:
                        passing.append(edit.alternative)
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

    def drop_changed(self, rows: Sequence[Sequence[Variant]], answers: Sequence[Sequence[str]]) -> list[list[Variant]]:
        """The variants of each source; one whose answer with its edits undone means something else is dropped."""
        least = self.least_meaning
        if self.similarities is None or least is None:
            return [list(row) for row in rows]
        pairs = {
            variant.key: _unedited_pair(variant, answer)
            for row, texts in zip(rows, answers, strict=True)
            for variant, answer in zip(row, texts, strict=True)
            if variant.dropped is None
        }
        differ = list(dict.fromkeys(pair for pair in pairs.values() if pair[0] != pair[1]))
        alike = dict.fromkeys(pairs.values(), 1.0) | dict(self.similarities(differ))

        def judge(variant: Variant) -> Variant:
            if variant.dropped is not None or alike[pairs[variant.key]] >= least:
                return variant
            caption, other = pairs[variant.key]
            reason = (
                f"the edited caption means something else beside its edits: with them set back it says {other!r} for "
                f"{caption!r}, alike by {alike[caption, other]:.2f} where {least:g} is the least"
            )
            return replace(variant, dropped=reason)

        return [[judge(variant) for variant in row] for row in rows]


def changed_words(edit: Edit) -> Pair:
    """The words that an edit takes and those that it brings, without those that stay ("dog" -> "small dog")."""
    difference = compare(edit.keyword, edit.alternative)
    return " ".join(word.text for word in difference.removed), " ".join(word.text for word in difference.added)


def _unedited_pair(variant: Variant, answer: str) -> Pair:
    """The caption, and what the answer says when the edits that it made are set back; others are made by rule."""
    replaced = [edit for edit in variant.edits if edit.kind == "replace"]
    return plain_words(variant.caption), set_back(variant.caption, read_caption(answer), replaced)


def _edits_of(choice: Choice) -> list[Edit]:
    return [Edit(choice.type, choice.keyword, alternative) for alternative in choice.alternatives]


def _edit_pairs(edits: Sequence[Edit], label: str | None) -> dict[str, list[Pair]]:
    changed, name = [changed_words(edit) for edit in edits], "" if label is None else short_name(label)
    return {
        "text_label": [(name, words) for both in changed for words in both if name and words],
        "text_replaced": [both for both in changed if all(both)],
    }


def _largest(pairs: Mapping[T, Mapping[str, Sequence[Pair]]], similarities: Similarities) -> dict[T, dict[str, float]]:
    """The largest cosine of each item's pairs by the score's name; scores without pairs are left out."""
    compared = dict.fromkeys(pair for sets in pairs.values() for of_score in sets.values() for pair in of_score)
    cosines = similarities(list(compared))
    return {
        item: {name: round(max(cosines[pair] for pair in of_score), 6) for name, of_score in sets.items() if of_score}
        for item, sets in pairs.items()
    }
