"""ExLlamaV3's part of exllama.py: a language model quantised to EXL3, on its generator.

Grammars are followed by the filter that comes with ExLlamaV3, which is llguidance too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..profile.rewrite import ExllamaSettings
from .token_filter import TokenFilter

_CACHE_BITS = {"q8": 8, "q4": 4}
# Prompts are read at once, since no reader waits for the next word.
_CHUNK = 2048


@dataclass
class ExLlamaV3:
    """The package, and the model that it has loaded, as ExLlamaV2."""

    settings: ExllamaSettings
    generator: Any = field(default=None, init=False)
    model: Any = field(default=None, init=False)
    tokenizer: Any = field(default=None, init=False)
    max_length: int = field(default=0, init=False)
    name: ClassVar[str] = "exllamav3"

    def load(self, folder: Path) -> None:
        """Load the model in `folder` onto the GPU; the generator is set for throughput. Raises as ExLlamaV2's does."""
        import exllamav3

        config = exllamav3.Config.from_directory(str(folder))
        self.tokenizer = exllamav3.Tokenizer.from_config(config)
        self.model = exllamav3.Model.from_config(config)
        bits = _CACHE_BITS.get(self.settings.cache)
        quantised = {} if bits is None else {"layer_type": exllamav3.CacheLayer_quant, "k_bits": bits, "v_bits": bits}
        # Before the weights: loading gives it its memory.
        cache = exllamav3.Cache(self.model, self.settings.cache_tokens, **quantised)
        self.model.load()
        self.generator = exllamav3.Generator(
            self.model,
            cache,
            self.tokenizer,
            max_batch_size=self.settings.rows,
            max_chunk_size=_CHUNK,
            shared_chunk_size=_CHUNK,
            prefill_cooldown=0,
        )
        self.max_length = config.max_position_embeddings

    def sampler(self) -> Any:
        """The likeliest token, or temperature, then top-p."""
        import exllamav3

        if self.settings.temperature == 0:
            return exllamav3.GreedySampler()
        return exllamav3.TopPSampler(self.settings.top_p, self.settings.temperature)

    def job(self, answer: TokenFilter, tokens: Any, room: int, **common: Any) -> Any:
        """A job that generates up to `room` tokens of `answer` after `tokens` and ends where its grammar does."""
        import exllamav3

        filters = [answer_filter(self.tokenizer, answer.grammar.pattern, answer.text)]
        return exllamav3.Job(tokens, room, sampler=self.sampler(), filters=filters, **common)

    def unload(self) -> None:
        """Give back the generator's pinned memory, then the weights and with them the cache's tensors."""
        if close := getattr(self.generator, "close", None):  # releases before 1.6 hold nothing of the kind
            close()
        self.model.unload()
        self.generator = self.model = self.tokenizer = None

    def skip_draw(self, numbers: random.Random) -> None:
        """Draw what the package's own loop draws for a token."""
        numbers.randint(0, (1 << 32) - 1)


def answer_filter(tokenizer: Any, pattern: str, text: str) -> Any:
    """ExLlamaV3's filter for a grammar, `text` of the answer being given; it ends the job where the grammar ends."""
    import exllamav3

    return exllamav3.LLGuidanceFilter(
        tokenizer, regex=pattern, prefix_str=text or None, consume_prefix=True, eos_after_completed=True
    )
