"""[llm], [rewrite], [grounding] and [random_words]: the language model, and where edits of captions come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """The masked language model's `batch`; `words` of a caption are blanked, with the likeliest `alternatives` each."""

    batch: int
    words: int
    alternatives: int

    def __post_init__(self) -> None:
        require(self, 1, "batch", "words")
        require(self, 1, "alternatives", most=MOST_ALTERNATIVES)


Backend = Literal["openvino", "exllamav2", "exllamav3"]
# An exported Llama's graph, and all of its files.
LLAMA_GRAPH = "model.xml"
LLAMA_FILES = (LLAMA_GRAPH, "model.bin", "tokenizer.json")
Style = Literal["pocket", "llama2", "chatml"]
PAGE = 256  # tokens; both ExLlama generators share prefixes page by page


@dataclass(frozen=True)
class ExllamaSettings:
    """How the language model decodes.

    `rows` decode at once; the cache has `cache_tokens` for all of them, in 16 ("fp16"), 8 or 4 bits a value. At
    `temperature` 0 answers are greedy; else they are drawn from the likeliest tokens that sum to `top_p`, each answer
    by its own generator, seeded by the request and `seed`.
    """

    rows: int
    cache: Literal["fp16", "q8", "q4"]
    cache_tokens: int
    temperature: float
    top_p: float
    seed: int

    def __post_init__(self) -> None:
        require(self, 1, "rows")
        if self.cache_tokens < PAGE or self.cache_tokens % PAGE:
            raise ValueError(f"cache_tokens must be a multiple of {PAGE}, found {self.cache_tokens}")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                f"temperature is 0 or more and top_p above 0, at most 1; found {self.temperature:g} and {self.top_p:g}"
            )


@dataclass(frozen=True)
class LlmSettings:
    """The language model: `model` is a folder that `export llm` wrote for OpenVINO, or one of EXL2 or EXL3 weights, in
    the models' folder or by its path; `style` is how it is asked. `exllama` says how either ExLlama decodes, and stands
    with them only.
    """

    backend: Backend
    model: str
    style: Style
    exllama: ExllamaSettings | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("[llm] model is empty; name a folder of weights")
        if (self.exllama is None) != self.on_cpu:
            wanted = "has no" if self.on_cpu else "needs a"
            raise ValueError(f'[llm] backend = "{self.backend}" {wanted} table [llm.exllama]')

    @property
    def on_cpu(self) -> bool:
        return self.backend == "openvino"

    @property
    def converses(self) -> bool:
        """Whether it answers in words of its own; others answer the plain questions that they were trained on."""
        return self.style != "pocket"

    @property
    def sampling(self) -> tuple[float, float, int]:
        """What an answer depends on beside its question and the model: temperature, top_p, seed; greedy is all 0."""
        how = self.exllama
        return (0.0, 0.0, 0) if how is None or how.temperature == 0 else (how.temperature, how.top_p, how.seed)
