"""[caption]: how sources are captioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .bounds import require

# Of a label's name: what a caption goes on after has room in the decoder's plan. ImageNet's have at most 31.
LABEL_BYTES = 32


@dataclass(frozen=True)
class CaptionSettings:
    """`batch` is the plan's. `texts` captions of an image are joined to one; each goes on after `prefix`, in which
    "{label}" stands for the source's label. A caption that does not name it is written again after `label_prefix`.
    """

    batch: int
    texts: int
    prefix: str
    decoding: DecodingSettings
    label_prefix: str | None = None

    def __post_init__(self) -> None:
        require(self, 1, "batch", "texts")
        if self.texts > 1 and self.decoding.mode != "nucleus":
            raise ValueError(
                f'[caption] texts = {self.texts} would join equal captions: only mode = "nucleus" writes different ones'
            )
        for name, text in (("prefix", self.prefix), ("label_prefix", self.label_prefix or "")):
            if text.count(LABEL) > 1:
                raise ValueError(f"[caption] {name} holds {LABEL} once at most, found {text!r}")
        if self.label_prefix is not None and LABEL not in self.label_prefix:
            raise ValueError(
                f"[caption] label_prefix names no label: write {LABEL} where it belongs, found {self.label_prefix!r}"
            )

    @property
    def rows(self) -> int:
        return self.texts * self.decoding.beams

    @property
    def form(self) -> str:
        """What sets the captioner's plans apart: beams take another decoder, and other rows, in the same folder."""
        return "_beams" if self.decoding.beams > 1 else ""

    @property
    def prompt_tokens(self) -> int:
        """Tokens that a caption goes on after at most: the one that begins texts, and one per byte of the prefix."""
        longest = [text.replace(LABEL, "n" * LABEL_BYTES) for text in (self.prefix, self.label_prefix or "")]
        return 1 + max(len(text.encode()) for text in longest)


@dataclass(frozen=True)
class DecodingSettings:
    """How text is generated.

    `beams`: hypotheses per text in a beam search, else 1. `top_p` and `temperature` apply to nucleus sampling only.
    `min_tokens` and `max_tokens` bound the length without the end token. `repetition_penalty` 1 is none;
    `length_penalty` divides a beam's score by its length to that power. No `no_repeat_ngram` tokens in a row come
    twice (0: any may), and a beam search with `early_stopping` ends with as many finished texts as it has beams.
    """

    mode: Literal["greedy", "nucleus", "beam"]
    beams: int
    top_p: float
    temperature: float
    min_tokens: int
    max_tokens: int
    repetition_penalty: float
    length_penalty: float
    no_repeat_ngram: int = field(default=0, metadata={"absent": 0})
    early_stopping: bool = field(default=False, metadata={"absent": False})

    def __post_init__(self) -> None:
        if self.mode not in ("greedy", "nucleus", "beam"):
            raise ValueError(f"decoding mode is one of greedy, nucleus, beam, got {self.mode!r}")
        if (self.beams > 1) != (self.mode == "beam") or self.beams < 1:
            raise ValueError(f"decoding needs beams of 2 or more in a beam search and 1 without, got {self.beams}")
        if not 0 < self.top_p <= 1 or self.temperature <= 0:
            raise ValueError(
                f"decoding needs 0 < top_p <= 1 and a temperature above 0, got {self.top_p} and {self.temperature}"
            )
        if not 0 <= self.min_tokens <= self.max_tokens or self.max_tokens < 1:
            raise ValueError(
                "decoding needs 0 <= min_tokens <= max_tokens of at least 1, "
                f"got {self.min_tokens} and {self.max_tokens}"
            )
        if self.repetition_penalty <= 0:
            raise ValueError(f"decoding repetition_penalty is above 0 (1: none), got {self.repetition_penalty}")
        if self.no_repeat_ngram < 0:
            raise ValueError(f"decoding no_repeat_ngram is 0 (any) or more, got {self.no_repeat_ngram}")
        if self.early_stopping and self.mode != "beam":
            raise ValueError(f'decoding early_stopping is for mode = "beam", got {self.mode!r}')


# Where texts of profiles and tasks have a source's label.
LABEL = "{label}"
