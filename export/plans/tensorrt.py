"""From an ONNX graph to a plan, with TensorRT-RTX or TensorRT: one network, one device, a profile for each size.

An ONNX file and the shapes of its inputs become a plan and its key on the disk. TensorRT-RTX compiles for another GPU
than this machine's, or with none; TensorRT compiles for the GPU that it runs on. Networks are strongly typed: the
compiler keeps to the types of the graph. What runs a plan is counterfactory.engine.runtime.tensorrt.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.runtime import cuda
from counterfactory.engine.runtime.plans import PlanKey, PlanProfile, PlanRequirements, Shapes, onnx_digest, write_key
from counterfactory.engine.runtime.trt_library import (
    BOX_LIBRARY,
    BOX_TARGET,
    library_name,
    listen,
    load_library,
    reasons,
)

from ..precision.half import ISLAND
from .checks import check_profile, io_bytes
from .writing import write_plan

# Compute capabilities that TensorRT-RTX or TensorRT compiles for, and the word for that of this machine's GPU.
THIS = "this"
TARGETS = ("sm75", "sm80", "sm86", "sm89", "sm90", "sm120", THIS)
# What a compiler that cannot be had here is exchanged for.
_ELSEWHERE = "or compile without that GPU: --library tensorrt-rtx, whose plans TensorRT-RTX runs"
# Layers that compute on what they are given; all others move, shape or convert it.
_MULTIPLYING = ("CONVOLUTION", "DECONVOLUTION", "EINSUM", "MATRIX_MULTIPLY", "ATTENTION_INPUT")
_ELEMENTWISE = ("ACTIVATION", "ELEMENTWISE", "SCALE", "SOFTMAX", "UNARY")
_ARITHMETIC = (*_MULTIPLYING, *_ELEMENTWISE, "NORMALIZATION", "POOLING", "REDUCE", "RESIZE")
_PRECISIONS = {"FLOAT": "fp32", "HALF": "fp16", "BF16": "bf16"}
_NODE = re.compile(r"\[ONNX Layer: ([^\]]+)\]")


@dataclass(frozen=True)
class PlanReport:
    """A plan that was compiled: seconds taken, bytes, how many of the graph's `attentions` it computes in one kernel
    each, by the calls in the plan, and the library.

    `fp32_layers` are the layers outside the islands that compute in fp32, by the names of their ONNX nodes. They are
    those of the network as it was given to the compiler, which must keep its types; a plan itself cannot be inspected
    without its GPU.
    """

    seconds: float
    plan_bytes: int
    fused_attention: int
    attentions: int
    fp32_layers: tuple[str, ...]
    library: str


def build_plan(
    onnx_path: Path,
    plan_path: Path,
    profiles: Sequence[PlanProfile],
    *,
    library: str = BOX_LIBRARY,
    target: str = BOX_TARGET,
    workspace_bytes: int | None = None,
    timing_cache: Path | None = None,
) -> PlanReport:
    """Compile `onnx_path` for inputs of each of `profiles` into `plan_path`, its key beside it.

    `library` is "tensorrt" or "tensorrt_rtx". `workspace_bytes` bounds the scratch memory of the plan's layers.
    `timing_cache` is a file that TensorRT keeps its measurements of kernels in; TensorRT-RTX measures none when it
    compiles, and makes no such file. Raises CounterfactoryError for shapes that do not suit the graph, a graph that
    the library cannot read or compile, and a target that it cannot compile for; a plan from before is then left as it
    was. The plan is written as it is made, and the graph's weights are mapped by the parser: memory holds the weights
    once.
    """
    digest = onnx_digest(onnx_path)
    for profile in profiles:
        check_profile(onnx_path, profile)
    compiler = load_library(library)
    log = listen(compiler)
    began = time.perf_counter()
    builder = compiler.Builder(log)
    network = _parsed(compiler, builder, onnx_path, log)
    config = _configured(compiler, builder, target, workspace_bytes)
    if any(config.add_optimization_profile(_profile(builder, profile)) < 0 for profile in profiles):
        raise CounterfactoryError(f"the shapes of {onnx_path} make no profile: {reasons(log)}")
    timings = timing_cache if compiler.__name__ == "tensorrt" else None
    if timings is not None:
        _take_timings(config, timings)

    attentions = _let_decompose(compiler, network)

    def build(writer: Any) -> Any:
        return builder.build_serialized_network_to_stream(network, config, writer)

    def why() -> str:
        allowed = "" if workspace_bytes is None else f" ({workspace_bytes:,} bytes of scratch memory were allowed)"
        return f"{library_name(compiler)} cannot compile {onnx_path}{allowed}: {reasons(log)}"

    written = write_plan(compiler, plan_path, build, why)
    seconds = time.perf_counter() - began
    if timings is not None:
        write_whole(timings, memoryview(config.get_timing_cache().serialize()))
    made_by = (_precision(network), library_name(compiler), target.upper(), written.sha256, round(seconds, 3))
    weights, activations = (_stated_bytes(log.noted, f"Total {what} Memory") for what in ("Weights", "Activation"))
    ports = sum(io_bytes(onnx_path, profile) for profile in profiles)
    key = PlanKey(digest, tuple(profiles), *made_by, workspace_bytes, weights, activations, ports)
    write_key(plan_path, key)
    fused = written.fused_calls // len(profiles)  # each profile has calls of its own
    return PlanReport(seconds, written.plan_bytes, fused, attentions, _fp32_nodes(network), key.library)


def require_compiler(library: str = BOX_LIBRARY, target: str = BOX_TARGET) -> None:
    """Raise CounterfactoryError, with what to do, unless `library` is installed and compiles for `target` here."""
    try:
        compiler = load_library(library)
        _check_target(compiler, target)
    except CounterfactoryError as error:
        other = "" if library == "tensorrt_rtx" else f"; {_ELSEWHERE}"
        raise CounterfactoryError(f"no plans for {target.upper()} can be made here: {error}{other}") from error


def resolve_target(target: str) -> str:
    """A compute capability by its name, `THIS` being that of the GPU here. Raises CounterfactoryError without one."""
    return cuda.capability(cuda.load_runtime()).lower() if target == THIS else target


def requirements(library: str, target: str = BOX_TARGET) -> PlanRequirements:
    """What a plan must have been made by and for, to be one that `library` would compile here."""
    return PlanRequirements(library=library_name(load_library(library)), device=target.upper())


def _stated_bytes(notes: Sequence[str], what: str) -> int | None:
    """The most bytes that a compiler states of a plan's profiles under that name; None where it never does."""
    found = [int(match[1]) for note in notes if (match := re.search(rf"{what}: (\d+) bytes", note))]
    return max(found, default=None)


def _let_decompose(compiler: Any, network: Any) -> int:
    """Let the compiler take apart each attention that it has no fused kernel for, with heads of hundreds of values for
    one, where it would refuse the network; those that it has one for stay fused. Returns how many attentions there are,
    with those that are written out, each around a softmax.
    """
    kinds = Counter[str]()
    for _, layer in _layers(network):
        kinds[layer.type.name] += 1
        if layer.type.name == "ATTENTION_INPUT":
            layer.__class__ = compiler.IAttentionInputLayer  # the bindings give every layer as one of no kind
            layer.attention.decomposable = True
    return kinds["ATTENTION_INPUT"] + kinds["SOFTMAX"]


def _parsed(compiler: Any, builder: Any, onnx_path: Path, log: Any) -> Any:
    """The network of a graph. Raises CounterfactoryError with the operation that the parser stumbles over."""
    typed = compiler.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    network = builder.create_network(1 << int(typed))
    if not network.get_flag(typed):
        lacks = f"{library_name(compiler)} makes no strongly typed networks"
        raise CounterfactoryError(f"{lacks}; install release 10 or newer")
    parser = compiler.OnnxParser(network, log)
    if not parser.parse_from_file(str(onnx_path)):
        faults = [parser.get_error(i) for i in range(parser.num_errors)]
        texts = [f"{fault.node_operator()} {fault.node_name()}: {fault.desc()}" for fault in faults]
        said = "; ".join(texts) or reasons(log)
        raise CounterfactoryError(f"{library_name(compiler)} cannot read {onnx_path}: {said}")
    return network


def _check_target(compiler: Any, target: str) -> None:
    """Refuse a `target` that a library cannot compile for; one that cannot choose compiles for this machine's GPU."""
    wanted = target.upper()
    if _chooses(compiler):
        known = compiler.ComputeCapability.__members__
        if wanted not in known or not wanted.startswith("SM"):
            names = ", ".join(name.lower() for name in known if name.startswith("SM"))
            raise CounterfactoryError(f"{library_name(compiler)} compiles for {names}, asked for {target}")
        return
    here = cuda.capability(cuda.load_runtime())
    if here != wanted:
        raise CounterfactoryError(
            f"{library_name(compiler)} compiles for this machine's GPU alone, which is {here}, asked for {wanted}; "
            "compile on the box itself"
        )


def _chooses(compiler: Any) -> bool:
    return hasattr(compiler, "ComputeCapability")


def _configured(compiler: Any, builder: Any, target: str, workspace_bytes: int | None) -> Any:
    config = builder.create_builder_config()
    _check_target(compiler, target)
    if _chooses(compiler):
        config.num_compute_capabilities = 1
        config.set_compute_capability(compiler.ComputeCapability.__members__[target.upper()], 0)
    if workspace_bytes is not None:
        config.set_memory_pool_limit(compiler.MemoryPoolType.WORKSPACE, workspace_bytes)
    return config


def _profile(builder: Any, shapes: Mapping[str, Shapes]) -> Any:
    profile = builder.create_optimization_profile()
    for name, shape in shapes.items():
        profile.set_shape(name, shape.min, shape.opt, shape.max)
    return profile


def _take_timings(config: Any, file: Path) -> None:
    known = file.read_bytes() if file.is_file() else b""
    # Another device's measurements would be believed if mismatches were ignored.
    if not config.set_timing_cache(config.create_timing_cache(known), False):
        raise CounterfactoryError(f"the timing cache {file} is of another device or release; remove it")


def _layers(network: Any) -> Iterator[tuple[str, Any]]:
    """Every layer with its ONNX node; what the parser adds to a node has no name of its own and follows it."""
    node = ""
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        named = _NODE.search(layer.metadata)
        node = named.group(1) if named else node
        yield node, layer


def _fp32_nodes(network: Any) -> tuple[str, ...]:
    """ONNX nodes outside the islands with a layer that computes in fp32, in order, each once."""
    apart = ((node, layer) for node, layer in _layers(network) if not node.startswith(ISLAND))
    computing = ((node or layer.name, layer) for node, layer in apart if layer.type.name in _ARITHMETIC)

    def in_fp32(layer: Any) -> bool:
        return any(layer.get_output(i).dtype.name == "FLOAT" for i in range(layer.num_outputs))

    return tuple(dict.fromkeys(name for name, layer in computing if in_fp32(layer)))


def _precision(network: Any) -> str:
    """What most multiplying layers compute in: "fp16", with "int8+" before it where the graph quantises."""
    layers = [layer for _, layer in _layers(network)]
    counts: Counter[str] = Counter(layer.get_input(0).dtype.name for layer in layers if layer.type.name in _MULTIPLYING)
    quantised = any(layer.type.name == "DEQUANTIZE" for layer in layers)
    ((most, _),) = counts.most_common(1) or [("FLOAT", 0)]
    return ("int8+" if quantised else "") + _PRECISIONS.get(most, most.lower())
