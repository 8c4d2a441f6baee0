"""A language model quantised to EXL3, on ExLlamaV3's generator. Not run on a GPU.

A model folder and settings give an `ExllamaLlm` (exllama.py has the loop). Grammars are followed by the filter that
comes with ExLlamaV3, which is llguidance too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .exllama import ExllamaLlm, ExllamaSettings, cannot_load, existing_model, imported, needs_gpu
from .token_filter import TokenFilter, Vocabulary, read_vocabulary

_CACHE_BITS = {"q8": 8, "q4": 4}


def open_exllamav3(folder: Path, settings: ExllamaSettings) -> ExllamaLlm:
    """Load the EXL3 model in `folder` onto the GPU.

    Raises CounterfactoryError for a missing model or package, no GPU, and when the model does not fit it.
    """
    existing_model(folder, "exllamav3")
    needs_gpu("exllamav3")
    exllamav3 = imported("exllamav3", _package)
    config = exllamav3.Config.from_directory(str(folder))
    tokenizer = exllamav3.Tokenizer.from_config(config)
    vocabulary = read_vocabulary(folder / "tokenizer.json", tokenizer.eos_token_id)
    try:
        model = exllamav3.Model.from_config(config)
        cache = new_cache(model, settings)  # before the weights: loading gives it its memory
        model.load()
        decoder = Decoder(generator(model, cache, tokenizer, settings), vocabulary, settings)
    except (RuntimeError, AssertionError) as error:
        raise cannot_load("exllamav3", folder, settings, error) from error
    return ExllamaLlm(decoder, settings)


def _package() -> Any:
    import exllamav3

    return exllamav3


def new_cache(model: Any, settings: ExllamaSettings) -> Any:
    """A paged cache of so many bits for `model`."""
    import exllamav3

    if settings.cache == "fp16":
        return exllamav3.Cache(model, settings.cache_tokens)
    bits = _CACHE_BITS[settings.cache]
    return exllamav3.Cache(
        model, settings.cache_tokens, layer_type=exllamav3.CacheLayer_quant, k_bits=bits, v_bits=bits
    )


def generator(model: Any, cache: Any, tokenizer: Any, settings: ExllamaSettings) -> Any:
    """The generator, set for throughput: prompts are read at once, since no reader waits for the next word."""
    import exllamav3

    chunk = 2048
    return exllamav3.Generator(
        model,
        cache,
        tokenizer,
        max_batch_size=settings.rows,
        max_chunk_size=chunk,
        shared_chunk_size=chunk,
        prefill_cooldown=0,
    )


def sampler(settings: ExllamaSettings) -> Any:
    """The likeliest token, or temperature, then top-p."""
    import exllamav3

    if settings.temperature == 0:
        return exllamav3.GreedySampler()
    return exllamav3.TopPSampler(settings.top_p, settings.temperature)


def answer_filter(tokenizer: Any, pattern: str, text: str) -> Any:
    """ExLlamaV3's filter for a grammar, `text` of the answer being given; it ends the job where the grammar ends."""
    import exllamav3

    return exllamav3.LLGuidanceFilter(
        tokenizer, regex=pattern, prefix_str=text or None, consume_prefix=True, eos_after_completed=True
    )


class Decoder:
    """A generator as exllama.py's loop uses it."""

    def __init__(self, generator: Any, vocabulary: Vocabulary, settings: ExllamaSettings) -> None:
        self.vocabulary = vocabulary
        self.max_length: int = generator.model.config.max_position_embeddings
        self._generator = generator
        self._settings = settings

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens; it says itself where a text begins, so that no BOS is added."""
        ids = self._generator.tokenizer.encode(prompt, add_bos=False, encode_special_tokens=True)
        tokens: list[int] = ids[0].tolist()
        return tokens

    def enqueue(self, tokens: Sequence[int], answer: TokenFilter, room: int, seed: int, name: int) -> Any:
        """Begin a job. Its random numbers belong to places in the answer, wherever the job begins."""
        import torch
        from exllamav3 import Job

        job = Job(
            torch.tensor([tokens], dtype=torch.long),
            room,
            sampler=sampler(self._settings),
            seed=seed,
            stop_conditions=[self.vocabulary.end],
            filters=[answer_filter(self._generator.tokenizer, answer.grammar.pattern, answer.text)],
            identifier=name,
        )
        job.rng = random.Random(seed)
        for _ in answer.tokens:
            job.rng.randint(0, (1 << 32) - 1)  # as its own loop draws once a token
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
