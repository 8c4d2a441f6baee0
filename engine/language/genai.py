"""The language model on OpenVINO GenAI: continuous batching over a GGUF file, answers constrained by grammars.

What arrives is requests; what leaves is their answers in order, decoded greedily. All requests of a call share one
running batch and the cache of their common prompt prefixes. What the questions mean is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..runtime import quiet_openvino  # noqa: F401 - before GenAI, which imports OpenVINO
from ..runtime.signals import signal_stack_kept
from .ebnf import to_ebnf
from .request import Request, Usage

PRECISIONS = ("bf16", "f32")
# The running batch and its cache are bounded, whatever is asked at once.
_MAX_ROWS = 128
_MAX_STEP_TOKENS = 2048
_CACHE_GB = 1
# GenAI 2026.4.1 keeps every grammar that it compiled, half a megabyte each for the pocket model, until its pipeline is
# closed. So it is opened again after so many, in a quarter of a second: else memory would grow with the suite.
_MAX_GRAMMARS = 256


def open_pipeline(model: Path, precision: str, threads: int) -> Any:
    """GenAI's continuous batching over a GGUF file; raises as `GenaiLlm` does."""
    if precision not in PRECISIONS:
        raise CounterfactoryError(f"the language model runs in {' or '.join(PRECISIONS)}, not in {precision!r}")
    if not model.is_file():
        raise CounterfactoryError(f"the language model {model} is missing; restore the file or name another folder")
    import openvino_genai as genai

    scheduling = genai.SchedulerConfig()
    scheduling.max_num_seqs = _MAX_ROWS
    scheduling.max_num_batched_tokens = _MAX_STEP_TOKENS
    scheduling.cache_size = _CACHE_GB
    scheduling.enable_prefix_caching = True
    properties: dict[str, object] = {"INFERENCE_PRECISION_HINT": precision, "KV_CACHE_PRECISION": precision}
    # GenAI 2026.4.1 dies of a division by zero in bf16 on one thread where the CPU has AMX; two may share a core.
    least = 2 if precision == "bf16" else 1
    if threads or (os.cpu_count() or 1) < least:
        properties["INFERENCE_NUM_THREADS"] = max(threads, least)
    try:
        with signal_stack_kept():
            return genai.ContinuousBatchingPipeline(str(model), scheduling, "CPU", properties)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise CounterfactoryError(f"the language model {model} cannot be loaded as GGUF: {reason}") from error


class GenaiLlm:
    """A language model in a GGUF file. `usage` counts the tokens of all calls so far."""

    def __init__(self, model: Path, *, precision: str, threads: int) -> None:
        """Load `model`, to compute in `precision` on `threads` threads (0: all).

        Raises CounterfactoryError when the file is missing or is no GGUF that the runtime reads.
        """
        self._open = partial(open_pipeline, model, precision, threads)
        self._pipeline = self._open()
        self._grammars: set[str] = set()
        self.usage = Usage()

    def generate(self, requests: Sequence[Request]) -> list[str]:
        """The greedy answer to each request, in order. Raises CounterfactoryError when the runtime fails."""
        answers: list[str] = []
        part: list[Request] = []
        for request in requests:
            if request.grammar.pattern not in self._grammars and len(self._grammars) >= _MAX_GRAMMARS:
                answers += self._answers(part)
                part = []
                self._pipeline = None  # gone before the next one comes
                self._pipeline = self._open()
                self._grammars.clear()
            self._grammars.add(request.grammar.pattern)
            part.append(request)
        return answers + self._answers(part)

    def _answers(self, requests: Sequence[Request]) -> list[str]:
        if not requests:
            return []
        prompts = [request.prompt for request in requests]
        try:
            results = self._pipeline.generate(prompts, [_config(request) for request in requests])
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise CounterfactoryError(f"the language model failed on {len(requests)} requests: {reason}") from error
        prompt_tokens = sum(int(result.perf_metrics.get_num_input_tokens()) for result in results)
        # Each result reports the generated tokens of the whole call (GenAI 2026.4.1).
        self.usage += Usage(prompt_tokens, int(results[0].perf_metrics.get_num_generated_tokens()))
        return [str(result.m_generation_ids[0]) for result in results]


def _config(request: Request) -> Any:
    import openvino_genai as genai

    config = genai.GenerationConfig()
    config.do_sample = False
    config.apply_chat_template = False
    config.max_new_tokens = request.max_tokens
    config.structured_output_config = genai.StructuredOutputConfig(grammar=to_ebnf(request.grammar.pattern))
    return config
