"""[rewrite], [grounding] and [random_words]: where edits of captions come from, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass

from ..edit import EDIT_TYPES
from .bounds import require


@dataclass(frozen=True)
class RewriteSettings:
    """The types of edits, and bounds: keywords of a caption, alternatives and words of a keyword, its characters.

    `verbatim` holds the model to the caption's own words wherever no edit touches them, by grammar; without it the
    model writes the whole caption anew. With `menus` it chooses among phrases of ours, which a rule puts into the
    caption (english/menus.py). `perplexity` has the model read edited captions, as a score
    (stages/rewrite/text_filters.py). `edits` are the least and the most of a variant where nobody asks for others.
    """

    types: tuple[str, ...]
    max_keywords: int
    max_alternatives: int
    max_words_keyword: int
    max_chars_caption: int
    verbatim: bool
    menus: bool = False
    perplexity: bool = False
    edits: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        unknown = [type_ for type_ in self.types if type_ not in EDIT_TYPES]
        if unknown or not self.types or len(set(self.types)) < len(self.types):
            raise ValueError(f"types are some of {', '.join(EDIT_TYPES)}, each once; found {', '.join(self.types)}")
        require(self, 1, "max_keywords", "max_alternatives", "max_words_keyword", "max_chars_caption")
        if self.edits is not None and not 1 <= self.edits[0] <= self.edits[1]:
            raise ValueError(f"edits are the least, from 1, and the most of a variant, found {list(self.edits)}")


@dataclass(frozen=True)
class GroundingSettings:
    """The sentence encoder's `batch`, the least cosine of a label and the words that are taken to name it, and that of
    a caption and what a rewritten one says beside its edits (stages/rewrite/text_filters.py).
    """

    batch: int
    min_similarity: float
    min_meaning: float = 0.95

    def __post_init__(self) -> None:
        require(self, 1, "batch")
        require(self, -1, "min_similarity", "min_meaning", most=1)


# Words that are kept of a blank: more than are used, since rules refuse some.
MOST_ALTERNATIVES = 24


@dataclass(frozen=True)
class RandomWordSettings:
    """The masked language model's `batch`; how many `words` of a caption are blanked, and how many `alternatives` each
    may have, the likeliest.
    """

    batch: int
    words: int
    alternatives: int

    def __post_init__(self) -> None:
        require(self, 1, "batch", "words")
        require(self, 1, "alternatives", most=MOST_ALTERNATIVES)
