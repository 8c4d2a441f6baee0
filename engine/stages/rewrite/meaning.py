"""What texts mean, by the sentence encoder: whether a phrase names a label, and whether a caption that the language
model rewrote still says the same apart from its edits.

The words of such a caption were checked before (english/edit_scope.py); of small words, which may change with an edit,
only their sense tells whether they did more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...english.edit_scope import plain_words, set_back
from ...language.questions import read_caption
from ...variant import Variant
from ..run import Run

Pair = tuple[str, str]


def similarities(run: Run, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """The cosine of each pair of texts; those on record are not computed again. Call it inside a stage."""

    def make(todo: list[Pair]) -> Generator[dict[Pair, float], None, None]:
        texts = list(dict.fromkeys(text for pair in todo for text in pair))
        vectors = dict(zip(texts, run.models.sentence().encode(texts), strict=True))
        yield {(left, right): float(vectors[left] @ vectors[right]) for left, right in todo}

    keys = {pair: run.keys.answer_key("similarity", pair) for pair in pairs}
    return run.recorded("rewrite", keys, make)


@dataclass(frozen=True)
class MeaningCheck:
    """`similarities` gives pairs of texts their cosines; two captions say the same from `least` on."""

    similarities: Callable[[Sequence[Pair]], Mapping[Pair, float]]
    least: float

    def drop_changed(self, rows: Sequence[Sequence[Variant]], answers: Sequence[Sequence[str]]) -> list[list[Variant]]:
        """The variants of each source. A variant is dropped, with the reason, if the language model's answer with its
        edits undone means something else than the caption.
        """
        pairs = {
            variant.key: _unedited_pair(variant, answer)
            for row, texts in zip(rows, answers, strict=True)
            for variant, answer in zip(row, texts, strict=True)
            if variant.dropped is None
        }
        differ = list(dict.fromkeys(pair for pair in pairs.values() if pair[0] != pair[1]))
        alike = dict.fromkeys(pairs.values(), 1.0) | dict(self.similarities(differ))

        def judge(variant: Variant) -> Variant:
            if variant.dropped is not None or alike[pairs[variant.key]] >= self.least:
                return variant
            return replace(variant, dropped=_reason(*pairs[variant.key], alike[pairs[variant.key]], self.least))

        return [[judge(variant) for variant in row] for row in rows]


def _unedited_pair(variant: Variant, answer: str) -> Pair:
    """The caption, and what the answer says when the edits that it made are set back; others are made by rule."""
    replaced = [edit for edit in variant.edits if edit.kind == "replace"]
    return plain_words(variant.caption), set_back(variant.caption, read_caption(answer), replaced)


def _reason(caption: str, other: str, cosine: float, least: float) -> str:
    return (
        f"the edited caption means something else beside its edits: with them set back it says {other!r} for "
        f"{caption!r}, alike by {cosine:.2f} where {least:g} is the least"
    )
