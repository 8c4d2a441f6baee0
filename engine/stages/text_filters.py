"""Scores of edited captions as texts, and the thresholds by which some are never painted.

    text_label         how like the label the words are that an edit takes or brings          LANCE, arXiv 2305.19164
    text_replaced      how like each other the words are that it takes and brings             LANCE
    text_caption       how like the caption the edited caption is                             COCO-Counterfactuals,
                                                                                              arXiv 2309.14356
    perplexity         of the edited caption, to the language model
    perplexity_ratio   that over the caption's

The first three are cosines of the sentence encoder, the first two of a variant's worst edit. A score that makes no
sense is left out: "text_label" of a source without a label, "text_replaced" where nothing is replaced. Scores go into
the suite's table whatever the thresholds, and verdicts follow from both there (check.py), so that stricter thresholds
need no new suite. Whether the words that name the label stay is no score: rules see to it (tasks/words.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from ..edit import Edit
from ..tasks.choose import Choice
from ..tasks.difference import compare
from ..tasks.names import short_name
from ..variant import Variant
from .desk import Desk
from .draft import Draft
from .meaning import Pair

T = TypeVar("T")
TEXT_SCORES = ("text_label", "text_replaced", "text_caption", "perplexity", "perplexity_ratio")
# By the end that is failed: scores that are too high, then those that are too low.
_HIGH = {
    "text_label": "an edit's words mean nearly what the label says",
    "text_replaced": "an edit's words mean nearly what they replace",
    "text_caption": "the edited caption means nearly what the caption does",
    "perplexity": "the edited caption reads badly",
    "perplexity_ratio": "the edited caption reads worse than the caption",
}
_LOW = {"text_caption": "the edited caption means something else than the caption"}


@dataclass(frozen=True, kw_only=True)
class TextThresholds:
    """Ends of the scores' ranges that are accepted, themselves included; None rejects nothing.

    Cosines are -1 to 1; a perplexity is at least 1, a ratio above 0.
    """

    max_text_label: float | None = None
    max_text_replaced: float | None = None
    min_text_caption: float | None = None
    max_text_caption: float | None = None
    max_perplexity: float | None = None
    max_perplexity_ratio: float | None = None

    def text_thresholds(self) -> list[tuple[str, str]]:
        """Those that are given, by name, each with its score's."""
        names = [field.name for field in fields(TextThresholds)]
        return [(name, name.split("_", 1)[1]) for name in names if getattr(self, name) is not None]

    def check_ranges(self) -> None:
        """Raises ValueError for a threshold outside of its range."""
        for name in ("max_text_label", "max_text_replaced", "min_text_caption", "max_text_caption"):
            if (value := getattr(self, name)) is not None and not -1 <= value <= 1:
                raise ValueError(f"[check] {name} is a cosine, -1 to 1, got {value:g}")
        if self.max_perplexity is not None and self.max_perplexity < 1:
            raise ValueError(f"[check] max_perplexity is at least 1, got {self.max_perplexity:g}")
        if self.max_perplexity_ratio is not None and not self.max_perplexity_ratio > 0:
            raise ValueError(f"[check] max_perplexity_ratio is above 0, got {self.max_perplexity_ratio:g}")
        low, high = self.min_text_caption, self.max_text_caption
        if low is not None and high is not None and low > high:
            raise ValueError(f"[check] min_text_caption is at most max_text_caption, got {low:g} and {high:g}")


def text_failure(scores: Mapping[str, float], thresholds: TextThresholds) -> tuple[str, str] | None:
    """The first score outside of its thresholds, and the reason; None if all that are there pass."""
    for name in TEXT_SCORES:
        score, high, low = scores.get(name), _end(thresholds, "max", name), _end(thresholds, "min", name)
        if score is None:
            continue
        if high is not None and score > high:
            return name, f"{_HIGH[name]}: {name} {score:.3f} is above {high:.3f}"
        if low is not None and score < low:
            return name, f"{_LOW[name]}: {name} {score:.3f} is below {low:.3f}"
    return None


def text_meaning(name: str) -> str | None:
    """What it means that a score fails, in words; None for a name that is no text's score."""
    return _HIGH.get(name)


def _end(thresholds: TextThresholds, end: str, name: str) -> float | None:
    value: float | None = getattr(thresholds, f"{end}_{name}", None)
    return value


def perplexities(desk: Desk, texts: Sequence[str]) -> dict[str, float]:
    """How well the language model reads each text; those on record are not read again. Call it inside a stage."""

    def make(todo: list[str]) -> Generator[dict[str, float], None, None]:
        found = desk.models.llm().surprises(todo)
        yield {text: math.exp(surprise) for text, surprise in zip(todo, found, strict=True)}

    keys = {text: desk.recipes.answer_key("perplexity", text) for text in texts}
    return desk.recorded("rewrite", keys, make)


@dataclass(frozen=True)
class TextFilter:
    """`similarities` gives pairs of texts their cosines, `perplexities` texts theirs; None measures nothing of it."""

    thresholds: TextThresholds
    similarities: Callable[[Sequence[Pair]], Mapping[Pair, float]] | None
    perplexities: Callable[[Sequence[str]], Mapping[str, float]] | None

    def scores(self, variants: Iterable[Variant]) -> dict[Variant, dict[str, float]]:
        """The scores of variants by name; those that have a text and edits."""
        some = [variant for variant in variants if variant.edits and variant.edited_caption]
        found: dict[Variant, dict[str, float]] = {variant: {} for variant in some}
        if self.similarities is not None and some:
            found = _largest({variant: _pairs(variant) for variant in some}, self.similarities)
        if self.perplexities is not None and some:
            read = self.perplexities(list(dict.fromkeys(t for v in some for t in (v.caption, v.edited_caption))))
            for variant in some:
                own = read[variant.edited_caption]
                found[variant] |= {
                    "perplexity": _round(own),
                    "perplexity_ratio": _round(own / read[variant.caption]),
                }
        return found

    def keep_passing(self, drafts: Sequence[Draft]) -> None:
        """Takes the edits whose words fail from drafts, so that others are chosen; a draft with none left says why."""
        limits = (self.thresholds.max_text_label, self.thresholds.max_text_replaced)
        if self.similarities is None or limits == (None, None):
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
            kept, reason = list[Choice](), ""
            for choice in draft.choices:
                passing = []
                for alternative in choice.alternatives:
                    edit = Edit(choice.type, choice.keyword, alternative)
                    failure = text_failure(scores[draft.source.label, edit], self.thresholds)
                    if failure is None:
                        passing.append(alternative)
                    else:
                        reason = reason or failure[1]
                if passing:
                    kept.append(replace(choice, alternatives=tuple(passing)))
            if draft.choices and not kept:
                draft.unread = f"none of its edits passes the text filters; of the first {reason}"
            draft.choices = kept

    def drop_failing(self, made: Sequence[Sequence[Variant]]) -> list[list[Variant]]:
        """The variants of each source; those that fail are dropped with the reason."""
        scores = self.scores(variant for row in made for variant in row if variant.dropped is None)

        def judged(variant: Variant) -> Variant:
            failure = text_failure(scores.get(variant, {}), self.thresholds)
            return variant if failure is None else replace(variant, dropped=failure[1])

        return [[judged(variant) for variant in row] for row in made]


def changed_words(edit: Edit) -> Pair:
    """The words that an edit takes and those that it brings, without those that stay ("dog" -> "small dog")."""
    found = compare(edit.keyword, edit.alternative)
    return " ".join(word.text for word in found.removed), " ".join(word.text for word in found.added)


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
    asked = dict.fromkeys(pair for sets in pairs.values() for some in sets.values() for pair in some)
    cosines = similarities(list(asked))
    return {
        item: {name: _round(max(cosines[pair] for pair in some)) for name, some in sets.items() if some}
        for item, sets in pairs.items()
    }


def _round(score: float) -> float:
    return round(score, 6)
