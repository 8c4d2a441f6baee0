"""ONNX Runtime's providers: chosen by name, with their options, and checked to be the ones that run.

ONNX Runtime goes on without a provider that does not start, and runs operations on the CPU that a provider does not
know. Here both are refused. The CUDA provider was run on one H100 (docs/gpu.json), not with the norms that it has since
(cuda_norms.py); the TensorRT provider was not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Any, Literal

from ..errors import CounterfactoryError
from ..files.writing import explain_os_errors
from ..keys import content_key
from .blob_cache import not_kept
from .cuda import Cuda
from .installing import BOX_ONNXRUNTIME, ONNXRUNTIME_CPU, pip_install, pip_uninstall
from .plans import Shapes, onnx_digest

Provider = Literal["cuda", "tensorrt", "cpu"]

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider", "cpu": "CPUExecutionProvider"}
)
_BUILDS = {"cuda": BOX_ONNXRUNTIME, "tensorrt": BOX_ONNXRUNTIME, "cpu": ONNXRUNTIME_CPU}
# What a provider needs to start, by the packages that the library itself names.
NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "cuda": "it needs a GPU (see `nvidia-smi`), CUDA 13 and cuDNN 9, which requirements/onnxruntime-gpu.txt brings",
        "tensorrt": "it needs a GPU (see `nvidia-smi`), CUDA 13, cuDNN 9 and the libraries of TensorRT 10",
        "cpu": "check that the file is whole",
    }
)
# Operations that must run on the GPU. Arithmetic on shapes belongs on the CPU, and ONNX Runtime puts it there.
_HEAVY = ("Conv", "MatMul", "Gemm", "Attention", "Normalization", "Softmax", "Gelu", "Sigmoid", "Erf")


def graph_name(path: Path) -> str:
    """A graph's name: that of its file, or of its folder where the file is called "model.onnx"."""
    return path.parent.name if path.stem == "model" else path.stem


def exchange_onnxruntime(provider: Provider) -> str:
    """The command that replaces another build: both packages install the same module, and the last one wins."""
    return f"{pip_uninstall('onnxruntime', 'onnxruntime-gpu')} && {pip_install(_BUILDS[provider])}"


def find_library(provider: Provider) -> Any:
    """ONNX Runtime. Raises CounterfactoryError when it is not installed or was built without the provider."""
    try:
        library = import_module("onnxruntime")
    except ImportError as error:
        raise CounterfactoryError(f"ONNX Runtime is not installed; say: {pip_install(_BUILDS[provider])}") from error
    has = library.get_available_providers()
    if PROVIDERS[provider] not in has:
        raise CounterfactoryError(
            f"this onnxruntime {library.__version__} has no {PROVIDERS[provider]}, only {', '.join(has)}; "
            f"say: {exchange_onnxruntime(provider)}"
        )
    return library


def load_library(provider: Provider) -> Any:
    """ONNX Runtime with the libraries that the provider computes with. Raises as `find_library`."""
    library = find_library(provider)
    if provider != "cpu":
        # Finds CUDA and cuDNN where pip put them. It prints what it misses, and what that leads to is raised later.
        with redirect_stdout(StringIO()):
            library.preload_dlls()
        library.set_default_logger_severity(4)  # sessions' own is set where they are opened
    return library


def check_provider(plan: str, session: Any, provider: Provider) -> None:
    """Raise CounterfactoryError unless the session runs with the provider that was asked for."""
    running = session.get_providers()
    if PROVIDERS[provider] not in running:
        raise CounterfactoryError(
            f"{plan} was asked for with {PROVIDERS[provider]} and opened with {', '.join(running)}: the provider did "
            f"not start; {NEEDS[provider]}"
        )


def refuse_cpu_work(plan: str, session: Any) -> None:
    """Raise CounterfactoryError when the session leaves more than arithmetic on shapes to the CPU."""
    left = [
        node
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == PROVIDERS["cpu"]
        for node in part.get_nodes()
        if any(kind in node.op_type for kind in _HEAVY)
    ]
    if left:
        names = ", ".join(f"{node.op_type} {node.name}" for node in left[:3])
        raise CounterfactoryError(
            f"{plan} would run {len(left)} operations on the CPU, among them {names}; export it for this provider"
        )


def choose_providers(
    library: Any,
    provider: Provider,
    path: Path,
    axes: Mapping[str, int],
    static: bool,
    shapes: Mapping[str, Shapes] | None,
    cache: Path | None,
    device: Cuda | None = None,
    report: Callable[[str], None] = lambda reason: None,
) -> tuple[list[Any], str]:
    """The provider with its options, the one behind it, and the file to load.

    `axes` are the lengths fixed by name; `static` says that none is left open. With `device` the CUDA provider computes
    on its stream. The TensorRT provider takes engines of other shapes of the same graph for its own, so that a folder
    of `cache` and a prefix serve one shape. Its context model there holds no weights and opens without compiling. No
    precision is named: the network is then typed as the graph is. A folder that cannot be written to keeps nothing, and
    `report` is told. Raises CounterfactoryError where it lacks a folder, or the shapes that it needs for open axes.
    """
    if provider == "cpu":
        return [PROVIDERS["cpu"]], str(path)
    recorded = "1" if static and provider == "cuda" else "0"
    stream = {} if device is None else {"user_compute_stream": str(device.stream_handle)}
    cuda = (PROVIDERS["cuda"], {"device_id": "0", "enable_cuda_graph": recorded, **stream})
    if provider == "cuda":
        return [cuda], str(path)
    if cache is None or (not static and shapes is None):
        missing = (
            "a folder for its engines"
            if cache is None
            else "the shapes of every input, which its manifest.json has once it is exported again"
        )
        raise CounterfactoryError(f"the TensorRT provider needs {missing} to open {path}")
    made_of = content_key(onnx_digest(path), sorted(axes.items()), repr(sorted((shapes or {}).items())))
    folder = cache / f"{graph_name(path)}-{library.__version__}-{made_of[:16]}"
    context = folder / f"{path.stem}_ctx.onnx"
    options = {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_prefix": folder.name,
        # Beside the context model: the provider joins this to the model's folder, and forbids an absolute path.
        "trt_engine_cache_path": "",
        "trt_dump_ep_context_model": "1",
        "trt_ep_context_file_path": str(context),
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": str(folder),
    }
    kept = os.access(context, os.R_OK)
    if (unwritable := _unwritable(folder, path)) and not kept:
        options = {}
        report(not_kept(unwritable))
    elif unwritable:
        options = {name: options[name] for name in ("trt_engine_cache_enable", "trt_engine_cache_prefix")}
    if static or shapes is None:
        options["trt_cuda_graph_enable"] = "1"
    else:
        for kind in ("min", "opt", "max"):
            texts = [f"{port}:{'x'.join(map(str, getattr(shapes[port], kind)))}" for port in sorted(shapes)]
            options[f"trt_profile_{kind}_shapes"] = ",".join(texts)
    if kept:
        options |= {"trt_dump_ep_context_model": "0", "trt_engine_cache_path": str(folder)}
    return [(PROVIDERS["tensorrt"], options), cuda], str(context if kept else path)


def _unwritable(folder: Path, graph: Path) -> str:
    """Why the engine of a graph cannot be kept in a folder, which is made; "" where it can. The provider itself would
    leave half an engine on a full disk.
    """
    try:
        with explain_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder) as file:
                file.write(b"engine")
            # As an engine the graph with its weights, and the same again while it is written.
            needed = 2 * sum(part.stat().st_size for part in graph.parent.glob(f"{graph.name}*"))
            free = disk_usage(folder).free
    except CounterfactoryError as error:
        return str(error)
    return "" if needed <= free else f"{folder} has {free / 1e9:.1f} GB free, and an engine takes {needed / 1e9:.1f}"
