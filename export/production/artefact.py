"""One network's way from a torch module to an artefact: exported, halved, compared, described, compiled.

    torch module in float32 -> ONNX in float32 -> ONNX in fp16 with islands, or int8 -> plan
                                               -> OpenVINO's IR, weights in fp16
                 reference  ..  parity 1e-4    ..  parity 1e-2

Weights stay on the disk: the module's parameters and the first graph's are the same mapped file, which everything reads
a tensor at a time, so that memory holds a few tensors and not a network. onnx/NAME/manifest.json says where the graph
came from (model.onnx beside it, or NAME.xml in the export's folder), what it takes and gives, and how far it is from
its module; written last, half an export has none.
"""

from __future__ import annotations

import gc
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import torch
from onnx import helper

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.keys import content_key, file_digest
from counterfactory.engine.runtime.openvino import open_core, open_session
from counterfactory.engine.runtime.plans import PlanProfile, onnx_digest, read_key, read_profiles
from counterfactory.engine.runtime.session import Array, row_axis
from counterfactory.engine.runtime.trt_library import BOX_LIBRARY, BOX_TARGET

from ..graphs.mapped import lay_out, mapped_files
from ..graphs.parity import TOLERANCE
from ..graphs.tracing import onnx_to_ir, to_onnx
from ..graphs.weights import digest
from ..precision.cpu import OnnxCpu
from ..precision.half import opset_of, to_half
from ..precision.int8 import Painting, activation_ranges, quantise
from ..precision.islands import find_islands, half_error, worst_error, write_half
from ..precision.stored import Stored, fold_transposes
from .activations import activation_bytes
from .graph import Graph
from .peak import PeakMemory
from .workspace import Workspace, onnx_bytes

Precision = Literal["fp32", "fp16", "openvino"]
LIBRARIES = ("torch", "diffusers", "transformers", "onnx")
# Of graphs for GPUs. OpenVINO's form, in which the engine looks for each softmax, is PyTorch's own choice.
_OPSET = 23
_Paint = Callable[[Mapping[str, Array]], Painting]


@dataclass(frozen=True)
class Asked:
    """How a network is exported: `int8` makes that form beside the one in `precision`, `library` compiles it for the
    compute capability `target`.
    "openvino" is the form that engines on CPUs open, without plans and int8.

    `islands` are those of fp16; None looks for them, which runs the network three to four times. `workspace` says what
    scratch memory a plan may take; without it that is the compiler's own affair. The graphs `unplanned` get no plan.
    """

    precision: Precision = "fp16"
    int8: bool = False
    plans: bool = False
    library: str = BOX_LIBRARY
    target: str = BOX_TARGET
    islands: tuple[str, ...] | None = None
    workspace: Workspace | None = None
    unplanned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A line of export.json. `parity_error` of a compiled graph is that of its ONNX; `why` says what is missing.

    `peak_memory_bytes` is what the export held at its peak, mapped files left out; `seconds` are on the wall,
    `core_seconds` those of all threads. `workspace_bytes` is the scratch memory that the plan may take, None where that
    is not bounded. Of the `attentions` the plan computes `fused_attention` in one kernel each. `doubt`
    says what is unproven of the plan.
    """

    name: str
    parameters: int
    precision: str
    parity_error: float
    parity_bound: float
    onnx_bytes: int
    islands: tuple[str, ...]
    random: bool
    peak_memory_bytes: int
    seconds: float
    core_seconds: float
    compiled: bool = False
    why: str = "plans were not asked for"
    plan_bytes: int = 0
    plan_seconds: float = 0.0
    workspace_bytes: int | None = None
    fused_attention: int = 0
    attentions: int = 0
    fp32_layers: tuple[str, ...] = ()
    library: str = ""
    doubt: str = ""

    @property
    def faults(self) -> list[str]:
        """What is wrong with the artefact: nothing, where it keeps its bound."""
        if self.parity_error <= self.parity_bound:
            return []
        return [f"{self.name} is off by {self.parity_error:.2e}, its bound is {self.parity_bound:g}"]


@dataclass(frozen=True)
class _Traced:
    """A network in float32 as ONNX, and what its module computed before it was dropped.

    `facts` is what every manifest of the network says: `classes` are those of diffusers and transformers in it,
    `weights_sha256` names the weights as they entered the export, LoRAs merged, `examples` are "noise" or rendered
    "streets", `profiles` what a plan takes; `random` says that the weights are no trained ones.
    """

    name: str
    parameters: int
    facts: Mapping[str, Any]
    full: Path
    feeds: Mapping[str, Array]
    reference: Mapping[str, Array]


@dataclass(frozen=True)
class _Artefact:
    """A form of the network, the graph at `path`: `measured` holds the error for each set of islands that was tried."""

    name: str
    path: Path
    precision: str
    islands: tuple[str, ...]
    measured: Mapping[str, float]
    error: float
    bound: float


def work_folder(out: Path, name: str) -> Path:
    """Where the export of a graph to `out` keeps its weights in float32, until it is done."""
    return out / "work" / name


def export_graph(
    build: Callable[[], Graph], out: Path, asked: Asked, *, random: bool, painting: _Paint | None = None
) -> list[Row]:
    """Export what `build` makes to `out`/onnx; the rows, that of int8 the last. None is compiled: see `compile_rows`.

    int8 is calibrated on what `painting` makes of the graph's examples. `build` may lay out weights in `work_folder`.
    Needs the disk for the network in float32, until its last form is made. Raises CounterfactoryError when the float32
    graph itself is not what the module computes: nothing made of it could be trusted.
    """
    began, worked = time.monotonic(), time.process_time()
    try:
        with PeakMemory() as peak:
            traced = _trace(build, out, random, None if asked.precision == "openvino" else _OPSET)
            if asked.precision == "openvino":
                forms = [_write_ir(traced, out)]
            else:
                forms = [_write(traced, out / "onnx" / traced.name, asked, out / "work")]
            if asked.int8:
                assert painting is not None, "int8 is calibrated on something"
                ranges = activation_ranges(traced.full, painting(traced.feeds))
                folder = out / "onnx" / f"{traced.name}_int8"
                forms.append(_write_int8(traced, folder, ranges, forms[0].islands, asked.precision))
            shutil.rmtree(traced.full.parent, ignore_errors=True)
            took = (time.monotonic() - began, time.process_time() - worked)
            return [_described(traced, form, out, peak, took) for form in forms]
    finally:
        shutil.rmtree(out / "work", ignore_errors=True)


def _trace(build: Callable[[], Graph], out: Path, random: bool, opset: int | None) -> _Traced:
    graph = build()
    full = work_folder(out, graph.name) / "model.onnx"
    full.parent.mkdir(parents=True, exist_ok=True)
    if not mapped_files(graph.module):
        lay_out(graph.module, full.with_name("all.weights"))
    feeds = {name: np.ascontiguousarray(value.numpy()) for name, value in graph.inputs.items()}
    with torch.no_grad():
        found = graph.module(*graph.inputs.values())
    outputs = found if isinstance(found, tuple) else (found,)
    reference = {name: value.numpy() for name, value in zip(graph.outputs, outputs, strict=True)}
    to_onnx(graph.module, graph.inputs, graph.outputs, full, graph.axes, opset)
    facts: dict[str, Any] = {"classes": graph.classes, "weights_sha256": digest(graph.module)}
    facts |= {"examples": graph.examples, "profiles": graph.plan, "random": random, **graph.facts}
    traced = _Traced(graph.name, graph.parameters, facts, full, feeds, reference)
    del graph
    gc.collect()
    # As written: what a runtime makes of weights beforehand, it keeps in memory.
    error = worst_error(OnnxCpu(full, as_written=True).run(feeds), reference)
    if error > TOLERANCE["f32"]:
        off = f"{traced.name} in float32 is off by {error:.2e}"
        raise CounterfactoryError(f"{off}, its bound is {TOLERANCE['f32']:.0e}")
    return traced


def _write(traced: _Traced, folder: Path, asked: Asked, work: Path) -> _Artefact:
    """Write the form that is asked for, its islands found unless given, to `folder`/model.onnx."""
    path = _cleared(folder)
    if asked.precision == "fp32":
        stored = Stored.read(traced.full)
        fold_transposes(stored)
        stored.save(path)
        error = _error_of(path, traced, "fp32")
        return _Artefact(traced.name, path, "fp32", ("all",), {"all": error}, error, TOLERANCE["f32"])
    islands, measured = asked.islands, dict[str, float]()
    if islands is None:
        tried = work / f"{traced.name}_islands"
        found = find_islands(traced.full, tried, traced.feeds, traced.reference, TOLERANCE["fp16"])
        islands, measured = found.islands, dict(found.errors)
        shutil.rmtree(tried)
    write_half(traced.full, path, islands)
    # The very graph that was measured, where islands were looked for.
    known = measured.get("+".join(islands) or "none")
    error = _error_of(path, traced, "fp16") if known is None else known
    return _Artefact(traced.name, path, "fp16", islands, measured, error, TOLERANCE["fp16"])


def _write_ir(traced: _Traced, out: Path) -> _Artefact:
    """Write OpenVINO's form, weights in fp16, to `out`; compared as it computes in f32."""
    path = out / f"{traced.name}.xml"
    _cleared(out / "onnx" / traced.name)
    onnx_to_ir(traced.full, list(traced.feeds), list(traced.reference), path)
    shutil.rmtree(traced.full.parent)  # what is compared next takes the room
    batch = max(value.shape[row_axis(name)] for name, value in traced.feeds.items())
    error = worst_error(open_session(path, batch=batch, precision="f32").run(traced.feeds), traced.reference)
    return _Artefact(traced.name, path, "openvino", (), {"none": error}, error, TOLERANCE["fp16"])


def _write_int8(
    traced: _Traced, folder: Path, ranges: Mapping[str, float], islands: tuple[str, ...], precision: Precision
) -> _Artefact:
    """Write the int8 form, what is not int8 in `precision` with `islands`, to `folder`/model.onnx."""
    path = _cleared(folder)
    stored = Stored.read(traced.full)
    quantise(stored, ranges)
    if precision == "fp16":
        to_half(stored, islands)
    stored.save(path)
    error = _error_of(path, traced, precision)
    name, measured = folder.name, {"+".join(islands) or "none": error}
    return _Artefact(name, path, "int8", islands, measured, error, TOLERANCE["int8"])


def _error_of(path: Path, traced: _Traced, precision: Precision) -> float:
    if precision == "fp16":
        return half_error(path, traced.feeds, traced.reference)
    return worst_error(OnnxCpu(path).run(traced.feeds), traced.reference)


def _cleared(folder: Path) -> Path:
    """The path of an ONNX graph in `folder`, whose manifest goes first: it would speak of another graph."""
    (folder / "manifest.json").unlink(missing_ok=True)
    return folder / "model.onnx"


def _described(traced: _Traced, form: _Artefact, out: Path, peak: PeakMemory, took: tuple[float, float]) -> Row:
    path, ir = form.path, form.precision == "openvino"
    size = sum(file.stat().st_size for file in ir_files(path)) if ir else onnx_bytes(path)
    reached = (form.precision, form.error, form.bound)
    row = Row(form.name, traced.parameters, *reached, size, form.islands, traced.facts["random"], peak.bytes, *took)
    parity = {"error": form.error, "bound": form.bound, "precision": form.precision}
    manifest = {"name": row.name, **(_of_ir(path) if ir else _of_onnx(path, traced.facts["profiles"]))}
    manifest |= {"precision": form.precision, "islands": form.islands, "parity": parity, "measured": form.measured}
    manifest |= {"versions": {library: version(library) for library in LIBRARIES}, **traced.facts}
    file = out / "onnx" / row.name / "manifest.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(manifest, indent=2, default=asdict) + "\n")
    return row


def ir_files(path: Path) -> tuple[Path, Path]:
    return path, path.with_suffix(".bin")


def _of_onnx(path: Path, profiles: Sequence[PlanProfile]) -> dict[str, Any]:
    proto = onnx.load(str(path), load_external_data=False)
    ports = {"inputs": list(map(_port, proto.graph.input)), "outputs": list(map(_port, proto.graph.output))}
    sizes = {"onnx_sha256": onnx_digest(path), "activation_bytes": activation_bytes(path, profiles)}
    return {**sizes, **ports, "opset": opset_of(proto)}


def _of_ir(path: Path) -> dict[str, Any]:
    """As of ONNX, its content under the same name."""
    signature = open_core().read_model(path)

    def described(port: Any) -> dict[str, Any]:
        shape = [axis.get_length() if axis.is_static else None for axis in port.get_partial_shape()]
        kind = np.dtype(port.get_element_type().to_dtype()).name
        return {"name": port.get_any_name(), "dtype": kind, "shape": shape}

    ports = {kind: list(map(described, getattr(signature, kind))) for kind in ("inputs", "outputs")}
    return {"onnx_sha256": content_key([file_digest(file) for file in ir_files(path)]), **ports}


def _port(port: Any) -> dict[str, Any]:
    """Name, dtype and shape, an axis a length, its name, or null."""
    kind = port.type.tensor_type
    shape = [axis.dim_value if axis.HasField("dim_value") else (axis.dim_param or None) for axis in kind.shape.dim]
    return {"name": port.name, "dtype": helper.tensor_dtype_to_np_dtype(kind.elem_type).name, "shape": shape}


def read_manifest(out: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "onnx" / name / "manifest.json").read_text())
    return found


def compile_rows(rows: Sequence[Row], out: Path, asked: Asked) -> list[Row]:
    """Compile graphs of the export `out`; their rows with what came of it, and the most memory of both. A compiler that
    is missing or refuses is said, not hidden.
    """
    return [_compiled(row, out, asked) for row in rows]


def _compiled(row: Row, out: Path, asked: Asked) -> Row:
    from ..plans.tensorrt import build_plan

    path, plan = out / "onnx" / row.name / "model.onnx", out / "plans" / f"{row.name}.plan"
    manifest = read_manifest(out, row.name)
    profiles, needed = read_profiles(manifest["profiles"]), manifest["activation_bytes"]
    # Without what is said of an earlier plan.
    row = Row(**{field.name: getattr(row, field.name) for field in fields(Row) if field.default is MISSING})
    with PeakMemory() as peak:
        try:
            name = row.name.removesuffix("_int8")
            scratch = None if asked.workspace is None else asked.workspace.of(name, path, needed)
            how: dict[str, Any] = {"workspace_bytes": scratch, "timing_cache": plan.with_name("timing.cache")}
            report = build_plan(path, plan, profiles, library=asked.library, target=asked.target, **how)
        except CounterfactoryError as error:
            return replace(row, why=str(error), peak_memory_bytes=max(row.peak_memory_bytes, peak.bytes))
    told: dict[str, Any] = {"plan_bytes": report.plan_bytes, "plan_seconds": report.seconds, "workspace_bytes": scratch}
    counted = ("fused_attention", "attentions", "fp32_layers", "library")
    told |= {name: getattr(report, name) for name in counted}
    most = max(row.peak_memory_bytes, peak.bytes)
    return replace(row, compiled=True, why="", **told, doubt=read_key(plan).doubt, peak_memory_bytes=most)
