"""ExLlamaV2's part of exllama.py: a language model quantised to EXL2, on its dynamic generator. Not run on a GPU.

ExLlamaV2 0.3.2 is archived upstream; exllamav3.py is its successor behind the same interface. Paged batches need
flash-attn 2.5.7 or later beside it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from ..errors import CounterfactoryError
from ..profile.rewrite import ExllamaSettings
from .token_filter import TokenFilter, allowed

# Above 32 rows its kernels write the weights out in fp16 for every product.
MAX_ROWS = 32
_CACHES = {"fp16": "ExLlamaV2Cache", "q8": "ExLlamaV2Cache_Q8", "q4": "ExLlamaV2Cache_Q4"}


@dataclass
class ExLlamaV2:
    """The package, and the model that it has loaded; `max_length` is the longest row in tokens. Raises
    CounterfactoryError for more rows than it decodes well.
    """

    settings: ExllamaSettings
    generator: Any = field(default=None, init=False)
    model: Any = field(default=None, init=False)
    tokenizer: Any = field(default=None, init=False)
    max_length: int = field(default=0, init=False)
    name: ClassVar[str] = "exllamav2"

    def __post_init__(self) -> None:
        if self.settings.rows > MAX_ROWS:
            raise CounterfactoryError(
                f"exllamav2 decodes up to {MAX_ROWS} rows well, got {self.settings.rows}; "
                "lower [llm.exllama] rows, or use exllamav3"
            )

    def load(self, folder: Path) -> None:
        """Load the model in `folder` onto the GPU; pages are shared between prompts, masks computed while it works.
        Raises ImportError without the package, and RuntimeError or AssertionError when the model does not fit.
        """
        import exllamav2
        from exllamav2.generator import ExLlamaV2DynamicGenerator

        config = exllamav2.ExLlamaV2Config(str(folder))
        config.arch_compat_overrides(quiet=True)
        self.tokenizer = exllamav2.ExLlamaV2Tokenizer(config)
        self.model = exllamav2.ExLlamaV2(config, lazy_load=True)
        cache = self.cache_class()(self.model, max_seq_len=self.settings.cache_tokens, lazy=True)
        self.model.load_autosplit(cache)
        rows = self.settings.rows
        self.generator = ExLlamaV2DynamicGenerator(
            self.model, cache, self.tokenizer, max_batch_size=rows, paged=True, filter_background_eval=True
        )
        self.max_length = self.generator.max_seq_len

    def cache_class(self) -> Any:
        """The cache of so many bits."""
        import exllamav2

        return getattr(exllamav2, _CACHES[self.settings.cache])

    def sampling(self) -> Any:
        """The likeliest token, or temperature, then top-p, and nothing else."""
        from exllamav2.generator import ExLlamaV2Sampler

        if self.settings.temperature == 0:
            return ExLlamaV2Sampler.Settings.greedy()
        # Its own defaults would also take the 50 likeliest only and hold repetition down, keys and quotes included.
        return ExLlamaV2Sampler.Settings(
            temperature=self.settings.temperature, top_p=self.settings.top_p, top_k=0, token_repetition_penalty=1.0
        )

    def job(self, answer: TokenFilter, tokens: Any, room: int, **common: Any) -> Any:
        """A job for up to `room` tokens of `answer` after `tokens`, int64 [1, K]; both packages take `common`."""
        from exllamav2.generator import ExLlamaV2DynamicJob

        filters = [filter_class()(self.model, self.tokenizer, answer)]
        return ExLlamaV2DynamicJob(tokens, room, gen_settings=self.sampling(), filters=filters, **common)

    def unload(self) -> None:
        """Give back the weights; threads of filters end with the generator."""
        self.model.unload()
        self.generator = self.model = self.tokenizer = None

    def skip_draw(self, numbers: random.Random) -> None:
        """Draw what the package's own loop draws for a token."""
        numbers.random()


@cache
def filter_class() -> Any:
    """ExLlamaV2's filter over a `TokenFilter`.

    Where one token is forced the filter says so and nothing is sampled; everywhere else it masks the logits. The
    generator asks `can_mask_logits` after `feed` and again before sampling, so the answer is fixed in `feed`.
    """
    import torch
    from exllamav2.generator.filters import ExLlamaV2Filter

    class AnswerFilter(ExLlamaV2Filter):  # type: ignore[misc]
        def __init__(self, model: Any, tokenizer: Any, start: TokenFilter) -> None:
            super().__init__(model, tokenizer)
            self._start = start
            self.begin("")

        def clone(self, c: Any = None) -> Any:
            c = super().clone(AnswerFilter.__new__(AnswerFilter) if c is None else c)
            c.background_result = None  # which 0.3.2 forgets
            c._start, c._answer, c._forced, c._mask = self._start, self._answer.clone(), self._forced, None
            return c

        def begin(self, prefix_str: str) -> None:
            self._answer = self._start.clone()
            self._forced = self._answer.forced()[:1]
            self._mask: Any = None

        def feed(self, token: Any) -> None:
            # The generator feeds a tensor [1, 1]; what is fed after the end changes nothing.
            if not self._answer.closed:
                self._answer.accept(int(token))
            self._forced = self._answer.forced()[:1]

        def next(self) -> tuple[list[int], list[int]]:
            vocabulary = self._answer.vocabulary
            if self._forced:
                return list(self._forced), [vocabulary.end]
            return allowed(self._answer.mask(), vocabulary.size).nonzero()[0].tolist(), [vocabulary.end]

        def use_background_worker(self) -> bool:
            return True

        def can_mask_logits(self) -> bool:
            return not self._forced

        def prepare_logit_mask(self) -> bool:
            self._mask = self._answer.mask()
            return True

        def mask_logits(self, logits: Any) -> Any:
            permitted = torch.from_numpy(allowed(self._mask, logits.shape[-1]))
            return logits.masked_fill_(~permitted, float("-inf"))

    return AnswerFilter
