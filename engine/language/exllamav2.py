"""A language model quantised to EXL2, on ExLlamaV2's dynamic generator. Not run on a GPU.

A model folder and settings give an `ExllamaLlm` (exllama.py has the loop). ExLlamaV2 0.3.2 is archived upstream;
exllamav3.py is its successor behind the same interface. Paged batches need flash-attn 2.5.7 or later beside it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from .exllama import ExllamaLlm, ExllamaSettings, cannot_load, existing_model, imported, needs_gpu
from .token_filter import TokenFilter, Vocabulary, allowed, read_vocabulary

# Above 32 rows its kernels write the weights out in fp16 for every product.
MAX_ROWS = 32


def open_exllamav2(folder: Path, settings: ExllamaSettings) -> ExllamaLlm:
    """Load the EXL2 model in `folder` onto the GPU.

    Raises CounterfactoryError for more than 32 rows, a missing model or package, no GPU, and when the model does not
    fit it.
    """
    if settings.rows > MAX_ROWS:
        raise CounterfactoryError(
            f"exllamav2 decodes up to {MAX_ROWS} rows well, got {settings.rows}; "
            "lower [llm.exllama] rows, or use exllamav3"
        )
    existing_model(folder, "exllamav2")
    needs_gpu("exllamav2")
    exllamav2 = imported("exllamav2", _package)
    config = exllamav2.ExLlamaV2Config(str(folder))
    config.arch_compat_overrides(quiet=True)
    tokenizer = exllamav2.ExLlamaV2Tokenizer(config)
    vocabulary = read_vocabulary(folder / "tokenizer.json", tokenizer.eos_token_id)
    try:
        model = exllamav2.ExLlamaV2(config, lazy_load=True)
        cache = cache_class(settings)(model, max_seq_len=settings.cache_tokens, lazy=True)
        model.load_autosplit(cache)
        decoder = Decoder(generator(model, cache, tokenizer, settings), vocabulary, settings)
    except (RuntimeError, AssertionError) as error:
        raise cannot_load("exllamav2", folder, settings, error) from error
    return ExllamaLlm(decoder, settings)


def _package() -> Any:
    import exllamav2
    import exllamav2.generator.filters

    return exllamav2


def cache_class(settings: ExllamaSettings) -> Any:
    """ExLlamaV2's cache of so many bits."""
    import exllamav2

    classes = {
        "fp16": exllamav2.ExLlamaV2Cache,
        "q8": exllamav2.ExLlamaV2Cache_Q8,
        "q4": exllamav2.ExLlamaV2Cache_Q4,
    }
    return classes[settings.cache]


def generator(model: Any, cache: Any, tokenizer: Any, settings: ExllamaSettings) -> Any:
    """The dynamic generator: pages shared between prompts, masks computed beside the GPU's work."""
    from exllamav2.generator import ExLlamaV2DynamicGenerator

    return ExLlamaV2DynamicGenerator(
        model, cache, tokenizer, max_batch_size=settings.rows, paged=True, filter_background_eval=True
    )


def sampling(settings: ExllamaSettings) -> Any:
    """ExLlamaV2's settings for sampling: the likeliest token, or temperature, then top-p, and nothing else."""
    from exllamav2.generator import ExLlamaV2Sampler

    if settings.temperature == 0:
        return ExLlamaV2Sampler.Settings.greedy()
    # Its own defaults would also take the 50 likeliest only and hold repetition down, keys and quotes included.
    return ExLlamaV2Sampler.Settings(
        temperature=settings.temperature, top_p=settings.top_p, top_k=0, token_repetition_penalty=1.0
    )


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


class Decoder:
    """A dynamic generator as exllama.py's loop uses it."""

    def __init__(self, generator: Any, vocabulary: Vocabulary, settings: ExllamaSettings) -> None:
        self.vocabulary = vocabulary
        self.max_length: int = generator.max_seq_len
        self._generator = generator
        self._settings = settings
        self._filter = filter_class()

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens; it says itself where a text begins, so that no BOS is added."""
        ids = self._generator.tokenizer.encode(prompt, add_bos=False, encode_special_tokens=True)
        tokens: list[int] = ids[0].tolist()
        return tokens

    def enqueue(self, tokens: Sequence[int], answer: TokenFilter, room: int, seed: int, name: int) -> Any:
        """Begin a job. Its random numbers belong to places in the answer, wherever the job begins."""
        import torch
        from exllamav2.generator import ExLlamaV2DynamicJob

        job = ExLlamaV2DynamicJob(
            torch.tensor([tokens], dtype=torch.long),
            room,
            gen_settings=sampling(self._settings),
            seed=seed,
            stop_conditions=[self.vocabulary.end],
            filters=[self._filter(self._generator.model, self._generator.tokenizer, answer)],
            identifier=name,
        )
        job.rng = random.Random(seed)
        for _ in answer.tokens:
            job.rng.random()
        self._generator.enqueue(job)
        return job

    def iterate(self) -> list[dict[str, Any]]:
        """One step of all jobs."""
        results: list[dict[str, Any]] = self._generator.iterate()
        return results

    def cancel(self, job: Any) -> None:
        """End a job."""
        self._generator.cancel(job)

    def clear(self) -> None:
        """End all jobs."""
        self._generator.clear_queue()
