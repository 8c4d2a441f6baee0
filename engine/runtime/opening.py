"""Opens a plan under the runtime that a profile names: the only module that knows all of them.

A folder and a plan's name give a session. Runtimes for GPUs are imported only when one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..errors import CounterfactoryError
from ..keys import file_digest
from ..profile.runtime import Backend, RuntimeSettings
from .blob_cache import BlobCache
from .cuda import Cuda, open_device
from .openvino import open_session, resolve_precision
from .plans import PlanRequirements, existing, find_mismatches, onnx_digest, read_exported, read_key
from .session import SHALLOW, GraphForm, Session

PlanState = Literal["found", "stale", "missing"]


def arithmetic(runtime: RuntimeSettings) -> Literal["bf16", "f32", "f16"]:
    """The precision of networks. Raises CounterfactoryError where the profile wants bf16 and the CPU has none."""
    precision = runtime.precision
    if precision == "f16" or precision == "f32":
        return precision
    return resolve_precision(precision)


def plan_file(folder: Path, plan: str, backend: Backend) -> Path:
    """The file that a runtime opens for a plan; with an .xml goes its .bin, with an .onnx maybe its .onnx.data.
    OpenVINO cuts a denoiser's shallow form from the denoiser.
    """
    if backend == "openvino":
        return folder / f"{plan.removesuffix(SHALLOW)}.xml"
    return folder / "onnx" / plan / "model.onnx" if backend == "onnxruntime" else folder / "plans" / f"{plan}.plan"


def note_unplanned(folder: Path, plan: str, unplanned: bool) -> None:
    """Keep beside the plans, or no longer, that one could not be compiled: ONNX Runtime then computes its graph."""
    note = _unplanned_note(folder, plan)
    if unplanned:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    else:
        note.unlink(missing_ok=True)


def _unplanned_note(folder: Path, plan: str) -> Path:
    return plan_file(folder, plan, "tensorrt").with_suffix(".onnxruntime")


def is_unplanned(folder: Path, plan: str, backend: Backend) -> bool:
    """Whether ONNX Runtime's CUDA provider computes what should have a plan."""
    return backend == "tensorrt" and _unplanned_note(folder, plan).is_file()


def open_plan(
    folder: Path,
    plan: str,
    runtime: RuntimeSettings,
    batch: int,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    streams: int = 1,
    device: Callable[[], Cuda] = open_device,
    digest: Callable[[Path], str] = file_digest,
    blobs: BlobCache | None = None,
    form: GraphForm | None = None,
    report: Callable[[str], None] = lambda reason: None,
) -> Session:
    """Open a plan for a batch, and for the last two axes that `sizes` names. Raises CounterfactoryError, see there.

    With OpenVINO `streams` runs at a time share the cores; elsewhere there is one. Plans for a GPU are loaded
    to `device`; those of one device queue their work on one stream and may be fed outputs that another of them holds.
    `digest` hashes a file; in `blobs` OpenVINO's compiled networks are kept. OpenVINO makes the
    `form` of a denoiser; for other runtimes the exporter does. `report` is told why what a GPU's library compiled is
    not kept.
    """
    if is_unplanned(folder, plan, runtime.backend):
        runtime = replace(runtime, backend="onnxruntime", provider="cuda")
    file = plan_file(folder, plan, runtime.backend)
    if runtime.backend == "openvino":
        assert runtime.precision != "f16", "checked by the settings"
        return open_session(
            file,
            batch=batch,
            precision=runtime.precision,
            threads=runtime.threads,
            sizes=sizes,
            streams=streams,
            blobs=blobs,
            digest=digest,
            form=form,
        )
    assert streams == 1, "checked by the profile"
    if runtime.backend == "onnxruntime":
        from . import onnxruntime

        assert runtime.provider is not None, "checked by the settings"
        profiles = read_exported(folder, plan).profiles
        return onnxruntime.open_session(
            file,
            batch=batch,
            provider=runtime.provider,
            threads=runtime.threads,
            sizes=sizes,
            shapes=profiles[0] if profiles else None,
            cache=engines_of(folder) if runtime.provider == "tensorrt" else None,
            device=device,
            report=report,
        )
    from . import tensorrt

    graph = read_exported(folder, plan).onnx_sha256 or None
    return tensorrt.open_session(
        file, batch=batch, sizes=sizes, onnx_sha256=graph, device=device, digest=digest, report=report
    )


def engines_of(folder: Path) -> Path:
    """Where ONNX Runtime's TensorRT provider keeps the engines that it compiles."""
    return folder / "engines"


def plan_digest(folder: Path, plan: str, backend: Backend, digest: Callable[[Path], str] = file_digest) -> list[str]:
    """The digests of what a plan computes: of its graph and weights, whichever compiler built the plan.

    Raises CounterfactoryError when a file is missing.
    """
    backend = "onnxruntime" if is_unplanned(folder, plan, backend) else backend
    file = plan_file(folder, plan, backend)
    if backend == "tensorrt":
        return [read_key(file).onnx_sha256]
    if backend == "onnxruntime":
        return [onnx_digest(file)]
    return [digest(existing(part)) for part in (file, file.with_suffix(".bin"))]


def plan_state(
    folder: Path, plan: str, backend: Backend, sizes: Sequence[Mapping[str, tuple[int, int]]] = ()
) -> tuple[PlanState, str]:
    """Whether a plan is there and serves, and if not, why, or what is unproven of it; its own bytes are not read.

    `sizes` are those that a plan of TensorRT has to take: sets of (height, width) by input.
    """
    unplanned = is_unplanned(folder, plan, backend)
    file = plan_file(folder, plan, "onnxruntime" if unplanned else backend)
    if not file.is_file():
        return "missing", str(file)
    if unplanned:
        return "found", "it has no plan: ONNX Runtime's CUDA provider computes it"
    if backend != "tensorrt":
        return "found", ""
    try:
        key = read_key(file)
        wanted = replace(_wanted(folder, plan, key.made_by), sizes=sizes)
        mismatches = find_mismatches(file, key, wanted, digest=None)
    except CounterfactoryError as error:
        return "stale", str(error)
    return ("stale", "; ".join(mismatches)) if mismatches else ("found", key.doubt)


def plan_makers(folder: Path, plans: Iterable[str]) -> tuple[str, ...]:
    """The libraries that compiled the plans of a folder, by the plans' keys; missing and damaged plans are left out."""
    makers = []
    for plan in plans:
        with suppress(CounterfactoryError):
            makers.append(read_key(plan_file(folder, plan, "tensorrt")).made_by)
    return tuple(dict.fromkeys(makers))


def _wanted(folder: Path, plan: str, made_by: str) -> PlanRequirements:
    """The requirements of a plan, as far as this machine knows; the library `made_by` runs the plans it compiled."""
    from . import cuda, trt_library

    library = device = None
    with suppress(CounterfactoryError):
        library = trt_library.library_name(trt_library.load_library(made_by))
    with suppress(CounterfactoryError):
        device = cuda.capability(cuda.load_runtime())
    return PlanRequirements(read_exported(folder, plan).onnx_sha256 or None, library=library, device=device)
