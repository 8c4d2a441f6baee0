"""One network's way from a torch module to an artefact: exported, halved, compared, described, compiled.

    torch module in float32 -> ONNX in float32 -> ONNX in fp16 with islands, or int8 -> plan
                 reference  ..  parity 1e-4    ..  parity 1e-2

Weights stay on the disk: the module's parameters and the first graph's are the same mapped file, which everything reads
a tensor at a time, so that memory holds a few tensors and not a network.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.plans import PlanProfile, read_key
from counterfactory.engine.runtime.session import Array
from counterfactory.engine.runtime.trt_library import BOX_LIBRARY

from ..graphs.mapped import lay_out, mapped_files
from ..graphs.parity import TOLERANCE
from ..graphs.tracing import to_onnx
from ..graphs.weights import digest
from ..precision.cpu import OnnxCpu
from ..precision.half import to_half
from ..precision.int8 import Painting, activation_ranges, quantise
from ..precision.islands import find_islands, half_error, worst_error, write_half
from ..precision.stored import Stored, fold_transposes
from .graph import Graph
from .manifest import Parity, describe, write_manifest
from .peak import PeakMemory
from .workspace import Workspace, onnx_bytes

Precision = Literal["fp32", "fp16"]
_Paint = Callable[[Mapping[str, Array]], Painting]


@dataclass(frozen=True)
class Asked:
    """How a network is exported: `int8` makes that form beside the one in `precision`, `library` compiles it.

    `islands` are those of fp16; None looks for them, which runs the network three to four times. `workspace` says what
    scratch memory a plan may take; without it that is the compiler's own affair.
    """

    precision: Precision = "fp16"
    int8: bool = False
    plans: bool = False
    library: str = BOX_LIBRARY
    islands: tuple[str, ...] | None = None
    workspace: Workspace | None = None


@dataclass(frozen=True)
class Row:
    """A line of export.json. `parity_error` of a compiled graph is that of its ONNX; `why` says what is missing.

    `doubt` says what is unproven of its plan. `workspace_bytes` is the scratch memory that the plan may take, None
    where that is not bounded. `peak_memory_bytes` is what the export held at its peak, mapped files left out.
    """

    name: str
    parameters: int
    precision: str
    parity_error: float
    parity_bound: float
    onnx_bytes: int
    plan_bytes: int
    plan_seconds: float
    workspace_bytes: int | None
    islands: tuple[str, ...]
    compiled: bool
    why: str
    doubt: str
    fused_attention: int
    fp32_layers: tuple[str, ...]
    library: str
    random: bool
    peak_memory_bytes: int

    @property
    def faults(self) -> list[str]:
        """What is wrong with the artefact: nothing, where it keeps its bound."""
        if self.parity_error <= self.parity_bound:
            return []
        return [f"{self.name} is off by {self.parity_error:.2e}, its bound is {self.parity_bound:g}"]


def export_graph(
    build: Callable[[], Graph], out: Path, asked: Asked, *, random: bool, painting: _Paint | None = None
) -> list[Row]:
    """Export what `build` makes to `out`/onnx; the rows, that of int8 the last. None is compiled: see `compile_graph`.

    int8 is calibrated on what `painting` makes of the graph's examples. `build` may lay out weights in `work_folder`.
    Needs the disk for the network in float32, until its last form is made. Raises CounterfactoryError when the float32
    graph itself is not what the module computes: nothing made of it could be trusted.
    """
    try:
        with PeakMemory() as peak:
            return _export_graph(build, out, asked, random, painting, peak)
    finally:
        shutil.rmtree(out / "work", ignore_errors=True)


def work_folder(out: Path, name: str) -> Path:
    """Where the export of a graph to `out` keeps its weights in float32, until it is done."""
    return out / "work" / name


def _export_graph(
    build: Callable[[], Graph],
    out: Path,
    asked: Asked,
    random: bool,
    painting: _Paint | None,
    peak: PeakMemory,
) -> list[Row]:
    work = out / "work"
    traced = _trace(build, out)
    main = _write(traced, out / "onnx" / traced.name, asked, work)
    made = [(traced.name, main)]
    if asked.int8:
        assert painting is not None, "int8 is calibrated on something"
        ranges = activation_ranges(traced.full, painting(traced.feeds))
        folder = out / "onnx" / f"{traced.name}_int8"
        made.append((folder.name, _write_int8(traced, folder, ranges, main.islands, asked.precision)))
    shutil.rmtree(traced.full.parent)
    rows = []
    for name, artefact in made:
        manifest = describe(
            artefact.path,
            name=name,
            classes=traced.classes,
            weights_sha256=traced.weights_sha256,
            precision=artefact.parity.precision,
            islands=artefact.islands,
            parity=artefact.parity,
            examples=traced.examples,
            measured=artefact.measured,
            profiles=traced.profiles,
            random=random,
        )
        write_manifest(artefact.path, manifest)
        rows.append(_row(name, traced, artefact, random, peak.bytes))
    return rows


@dataclass(frozen=True)
class _Traced:
    """A network in float32 as ONNX, and what its module computed before it was dropped."""

    name: str
    classes: tuple[str, ...]
    examples: str
    parameters: int
    profiles: Sequence[PlanProfile]
    weights_sha256: str
    full: Path
    feeds: Mapping[str, Array]
    reference: Mapping[str, Array]
    error: float


@dataclass(frozen=True)
class _Artefact:
    path: Path
    islands: tuple[str, ...]
    measured: Mapping[str, float]
    parity: Parity


@dataclass(frozen=True)
class Built:
    """What came of compiling."""

    compiled: bool
    why: str
    plan_bytes: int = 0
    plan_seconds: float = 0.0
    workspace_bytes: int | None = None
    fused_attention: int = 0
    fp32_layers: tuple[str, ...] = ()
    library: str = ""
    doubt: str = ""


_NOT_ASKED = Built(False, "plans were not asked for")


def _trace(build: Callable[[], Graph], out: Path) -> _Traced:
    graph = build()
    full = work_folder(out, graph.name) / "model.onnx"
    full.parent.mkdir(parents=True, exist_ok=True)
    if not mapped_files(graph.module):
        lay_out(graph.module, full.with_name("all.weights"))
    feeds = {name: np.ascontiguousarray(value.numpy()) for name, value in graph.inputs.items()}
    reference = _reference(graph)
    to_onnx(graph.module, graph.inputs, graph.outputs, full, graph.axes)
    known = (
        graph.name,
        graph.classes,
        graph.examples,
        graph.parameters,
        graph.plan,
        digest(graph.module),
        full,
        feeds,
        reference,
    )
    del graph
    gc.collect()
    # As written: what a runtime makes of weights beforehand, it keeps in memory.
    error = worst_error(OnnxCpu(full, as_written=True).run(feeds), reference)
    if error > TOLERANCE["f32"]:
        raise CounterfactoryError(f"{known[0]} in float32 is off by {error:.2e}, its bound is {TOLERANCE['f32']:.0e}")
    return _Traced(*known, error)


def _reference(graph: Graph) -> dict[str, Array]:
    """What the torch module computes in float32."""
    with torch.no_grad():
        found = graph.module(*graph.inputs.values())
    outputs = found if isinstance(found, tuple) else (found,)
    return {name: value.numpy() for name, value in zip(graph.outputs, outputs, strict=True)}


def _write(traced: _Traced, folder: Path, asked: Asked, work: Path) -> _Artefact:
    """Write the form that is asked for, its islands found unless given, to `folder`/model.onnx."""
    path = _cleared(folder)
    if asked.precision == "fp32":
        stored = Stored.read(traced.full)
        fold_transposes(stored)
        stored.save(path)
        error = worst_error(OnnxCpu(path).run(traced.feeds), traced.reference)
        return _Artefact(path, ("all",), {"all": error}, Parity(error, TOLERANCE["f32"], "fp32"))
    islands, measured = asked.islands, dict[str, float]()
    if islands is None:
        tried = work / f"{traced.name}_islands"
        found = find_islands(traced.full, tried, traced.feeds, traced.reference, TOLERANCE["fp16"])
        islands, measured = found.islands, dict(found.errors)
        shutil.rmtree(tried)
    write_half(traced.full, path, islands)
    # The very graph that was measured, where islands were looked for.
    known = measured.get("+".join(islands) or "none")
    error = half_error(path, traced.feeds, traced.reference) if known is None else known
    return _Artefact(path, islands, measured, Parity(error, TOLERANCE["fp16"], "fp16"))


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
    if precision == "fp16":
        error = half_error(path, traced.feeds, traced.reference)
    else:
        error = worst_error(OnnxCpu(path).run(traced.feeds), traced.reference)
    return _Artefact(path, islands, {"+".join(islands) or "none": error}, Parity(error, TOLERANCE["int8"], "int8"))


def _cleared(folder: Path) -> Path:
    """The path of the graph in `folder`, whose manifest goes first: it would speak of another graph."""
    (folder / "manifest.json").unlink(missing_ok=True)
    return folder / "model.onnx"


def compile_graph(name: str, out: Path, profiles: Sequence[PlanProfile], asked: Asked) -> Built:
    """Compile the graph `name` of the export `out`; a compiler that is missing or refuses is said, not hidden."""
    from ..plans.tensorrt import build_plan

    path, plan = out / "onnx" / name / "model.onnx", out / "plans" / f"{name}.plan"
    plan.parent.mkdir(parents=True, exist_ok=True)
    cache = plan.with_name("timing.cache")
    try:
        workspace = None if asked.workspace is None else asked.workspace.of(name.removesuffix("_int8"), path)
        report = build_plan(path, plan, profiles, library=asked.library, workspace_bytes=workspace, timing_cache=cache)
    except CounterfactoryError as error:
        return Built(False, str(error))
    return Built(
        True,
        "",
        report.plan_bytes,
        report.seconds,
        workspace,
        report.fused_attention,
        tuple(report.fp32_layers),
        report.library,
        read_key(plan).doubt,
    )


def _row(name: str, traced: _Traced, artefact: _Artefact, random: bool, peak_bytes: int) -> Row:
    return Row(
        name=name,
        parameters=traced.parameters,
        precision=artefact.parity.precision,
        parity_error=artefact.parity.error,
        parity_bound=artefact.parity.bound,
        onnx_bytes=onnx_bytes(artefact.path),
        islands=artefact.islands,
        random=random,
        peak_memory_bytes=peak_bytes,
        **asdict(_NOT_ASKED),
    )
