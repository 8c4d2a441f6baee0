"""Opens the language model under whatever runtime a profile names: the one place that knows all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..models.chat import Style
from ..models.llm import Llm
from .exllama import ExllamaSettings
from .session import RuntimeSettings

Backend = Literal["openvino", "genai", "exllamav2", "exllamav3"]
# An exported Llama's graph, and all of its files.
LLAMA_GRAPH = "model.xml"
LLAMA_FILES = (LLAMA_GRAPH, "model.bin", "tokenizer.json")
# Beyond the tables of a safetensors file its weights count by their number of bytes: hashing 8 GB would take longer
# than loading them.
_HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class LlmSettings:
    """The language model: `model` is a folder that `export` wrote (openvino), a GGUF file (genai) or a folder of EXL2
    or EXL3 weights, in the models' folder or by its path; `style` is how it is asked. `exllama` says how either ExLlama
    decodes, and stands with them only.
    """

    backend: Backend
    model: str
    style: Style
    exllama: ExllamaSettings | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("[llm] model is empty; name a GGUF file or a folder of weights")
        if (self.exllama is None) != self.on_cpu:
            wanted = "has no" if self.on_cpu else "needs a"
            raise ValueError(f'[llm] backend = "{self.backend}" {wanted} table [llm.exllama]')

    @property
    def on_cpu(self) -> bool:
        """Whether it decodes on the CPU."""
        return self.backend in ("openvino", "genai")

    @property
    def sampling(self) -> tuple[float, float, int]:
        """What an answer depends on beside its question and the model: temperature, top_p, seed; greedy is all 0."""
        how = self.exllama
        return (0.0, 0.0, 0) if how is None or how.temperature == 0 else (how.temperature, how.top_p, how.seed)


def open_llm(model: Path, settings: LlmSettings, runtime: RuntimeSettings) -> Llm:
    """Load the language model. Raises CounterfactoryError for a missing file, package or GPU."""
    if settings.exllama is None:
        from .openvino import resolve_precision

        precision = resolve_precision("auto" if runtime.precision == "f16" else runtime.precision)
        if settings.backend == "openvino":
            from .openvino_llm import OpenVinoLlm

            return OpenVinoLlm(model, precision=precision, threads=runtime.threads)
        from .genai import GenaiLlm

        return GenaiLlm(model, precision=precision, threads=runtime.threads)
    if settings.backend == "exllamav2":
        from .exllamav2 import open_exllamav2

        return open_exllamav2(model, settings.exllama)
    from .exllamav3 import open_exllamav3

    return open_exllamav3(model, settings.exllama)


def model_digest(model: Path, backend: Backend) -> str:
    """The content of a model file, or of the files that OpenVINO reads; of another folder, of its small files, and of
    large ones their beginnings and sizes.

    Raises CounterfactoryError for an empty folder, and where one of OpenVINO's files is missing.
    """
    if backend == "openvino":
        try:
            return content_key([file_digest(model / name) for name in LLAMA_FILES])
        except OSError as error:
            raise CounterfactoryError(f"the language model's folder {model} is incomplete: {error}") from error
    if model.is_file():
        return file_digest(model)
    files = sorted(path for path in model.iterdir() if path.is_file())
    if not files:
        raise CounterfactoryError(f"the language model's folder {model} is empty; export it, or correct [llm] model")
    return content_key([(path.name, path.stat().st_size, _beginning(path)) for path in files])


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return content_key(file.read(_HEAD_BYTES).hex())
