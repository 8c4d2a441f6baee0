"""Opens the language model under whatever runtime a profile names: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from ..profile.rewrite import LLAMA_FILES, Backend, LlmSettings
from ..profile.runtime import RuntimeSettings
from ..runtime.blob_cache import BlobCache
from .llm_request import Llm

# Beyond the tables of a safetensors file its weights count by their number of bytes: hashing 8 GB would take longer
# than loading them.
_HEAD_BYTES = 1 << 20


def open_llm(
    model: Path,
    settings: LlmSettings,
    runtime: RuntimeSettings,
    blobs: BlobCache | None = None,
    digest: Callable[[Path], str] = file_digest,
) -> Llm:
    """Load the language model; in `blobs` OpenVINO's compiled networks are kept, `digest` says what is in a file.
    Raises CounterfactoryError for a missing file, package or GPU.
    """
    if settings.exllama is None:
        from ..runtime.openvino import resolve_precision
        from .openvino_llm import OpenVinoLlm

        precision = resolve_precision("auto" if runtime.precision == "f16" else runtime.precision)
        return OpenVinoLlm(model, precision=precision, threads=runtime.threads, blobs=blobs, digest=digest)
    from .exllama import open_exllama
    from .exllamav2 import ExLlamaV2
    from .exllamav3 import ExLlamaV3

    package = ExLlamaV2 if settings.backend == "exllamav2" else ExLlamaV3
    return open_exllama(package(settings.exllama), model)


def model_digest(model: Path, backend: Backend, digest: Callable[[Path], str] = file_digest) -> str:
    """The content of the files that OpenVINO reads; of another folder, that of its small files, and of large ones
    their beginnings and sizes.

    Raises CounterfactoryError for what is no folder, an empty one, and where one of OpenVINO's files is missing.
    """
    if not model.is_dir():
        raise CounterfactoryError(
            f"the language model {model} is no folder; make one of it with 'python -m counterfactory.export llm', or "
            "correct [llm] model"
        )
    if backend == "openvino":
        try:
            return content_key([digest(model / name) for name in LLAMA_FILES])
        except OSError as error:
            raise CounterfactoryError(f"the language model's folder {model} is incomplete: {error}") from error
    files = sorted(path for path in model.iterdir() if path.is_file())
    if not files:
        raise CounterfactoryError(f"the language model's folder {model} is empty; export it, or correct [llm] model")
    heads = []
    for path in files:
        with path.open("rb") as file:
            heads.append((path.name, path.stat().st_size, content_key(file.read(_HEAD_BYTES).hex())))
    return content_key(heads)
