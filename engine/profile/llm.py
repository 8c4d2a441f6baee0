"""What a profile says of its language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .bounds import require

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
        """Whether it decodes on the CPU."""
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
