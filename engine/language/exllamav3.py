"""ExLlamaV3's part of exllama.py: a language model quantised to EXL3, on its generator. Not run on a GPU.

Grammars are followed by the filter that comes with ExLlamaV3, which is llguidance too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..profile.llm import ExllamaSettings
from .exllama import ExllamaModel
from .token_filter import TokenFilter

_CACHE_BITS = {"q8": 8, "q4": 4}
# Prompts are read at once, since no reader waits for the next word.
_CHUNK = 2048


@dataclass(frozen=True)
class ExLlamaV3:
    """The package, as `exllama.Package` says."""

    settings: ExllamaSettings
    name: ClassVar[str] = "exllamav3"

    def load(self, folder: Path) -> ExllamaModel:
        """The generator is set for throughput."""
        import exllamav3

        config = exllamav3.Config.from_directory(str(folder))
        tokenizer = exllamav3.Tokenizer.from_config(config)
        model = exllamav3.Model.from_config(config)
        bits = _CACHE_BITS.get(self.settings.cache)
        quantised = {} if bits is None else {"layer_type": exllamav3.CacheLayer_quant, "k_bits": bits, "v_bits": bits}
        # Before the weights: loading gives it its memory.
        cache = exllamav3.Cache(model, self.settings.cache_tokens, **quantised)
        model.load()
        generator = exllamav3.Generator(
            model,
            cache,
            tokenizer,
            max_batch_size=self.settings.rows,
            max_chunk_size=_CHUNK,
            shared_chunk_size=_CHUNK,
            prefill_cooldown=0,
        )
        return ExllamaModel(generator, model, tokenizer, config.max_position_embeddings)

    def sampler(self) -> Any:
        """The likeliest token, or temperature, then top-p."""
        import exllamav3

        if self.settings.temperature == 0:
            return exllamav3.GreedySampler()
        return exllamav3.TopPSampler(self.settings.top_p, self.settings.temperature)

    def job(self, loaded: ExllamaModel, answer: TokenFilter, tokens: Any, room: int, **common: Any) -> Any:
        """A job that ends where its grammar does."""
        import exllamav3

        filters = [answer_filter(loaded.tokenizer, answer.grammar.pattern, answer.text)]
        return exllamav3.Job(tokens, room, sampler=self.sampler(), filters=filters, **common)

    def unload(self, loaded: ExllamaModel) -> None:
        """The generator's pinned memory, then the weights and with them the cache's tensors."""
        loaded.generator.close()
        loaded.model.unload()

    def skip_draw(self, numbers: random.Random) -> None:
        """As its own loop draws once per token."""
        numbers.randint(0, (1 << 32) - 1)


def answer_filter(tokenizer: Any, pattern: str, text: str) -> Any:
    """ExLlamaV3's filter for a grammar, `text` of the answer being given; it ends the job where the grammar ends."""
    import exllamav3

    return exllamav3.LLGuidanceFilter(
        tokenizer, regex=pattern, prefix_str=text or None, consume_prefix=True, eos_after_completed=True
    )
