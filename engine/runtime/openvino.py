"""Networks on a CPU through OpenVINO.

A model file (OpenVINO IR or ONNX) and a batch give a session of one static plan. `resolve_precision` decides what the
precision "auto" means on this machine, and the compiled plan is checked to use it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import numpy as np

from ..errors import CounterfactoryError
from ..keys import file_digest
from . import deep_features, dequantize, prompt_to_prompt
from .blob_cache import BlobCache
from .compiling import CompileInputs, compile_model
from .libc import signal_stack_kept
from .plans import existing
from .quiet_openvino import ov
from .session import Array, GraphForm, Port, Signature, continued_cache, row_axis

Precision = Literal["bf16", "f32"]


def open_core() -> ov.Core:
    """An OpenVINO core, its CPU plugin loaded without harm to Ctrl-C."""
    with signal_stack_kept():
        core = ov.Core()
        core.get_versions("CPU")
    return core


def resolve_precision(precision: Literal["auto", "bf16", "f32"]) -> Precision:
    """The precision that a setting means on this CPU. Raises CounterfactoryError for bf16 on a CPU without it."""
    native = "BF16" in open_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if precision == "bf16" and not native:
        raise CounterfactoryError('this CPU has no bf16 arithmetic; set precision = "f32" or "auto" under [runtime]')
    if precision == "auto":
        return "bf16" if native else "f32"
    return precision


@dataclass(frozen=True)
class OpenVinoSession:
    """A compiled model; see `open_session`."""

    name: str
    signature: Signature
    _requests: SimpleQueue[Any]

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Array]:
        """Run the plan once; refuses feeds that do not fit the signature. Held outputs come as arrays too.

        Several threads may run it at a time: as many as it has streams run, the others wait.
        """
        self.signature.check(self.name, feeds, hold)
        request = self._requests.get()  # one serves one thread
        try:
            results = request.infer(dict(feeds), share_inputs=True)
            outputs = {port.name: np.array(results[port.name]) for port in self.signature.outputs}
        finally:
            self._requests.put(request)
        caches = {name: cache for name in hold if (cache := continued_cache(name))}
        return outputs | {name: np.concatenate([feeds[cache], outputs[name]]) for name, cache in caches.items()}


def _port(port: Any) -> Port:
    dims = tuple(d.get_length() if d.is_static else None for d in port.get_partial_shape())
    return Port(port.get_any_name(), dims, np.dtype(port.get_element_type().to_dtype()).name)


def _shape(port: Any, batch: int, size: tuple[int, int] | None) -> list[Any]:
    dims = list(port.get_partial_shape())
    dims[row_axis(port.get_any_name())] = batch
    return [*dims[:-2], *size] if size else dims


def _widen_weights_of_constants(model: ov.Model) -> None:
    """Make weights f32 that are only multiplied with constants, so that compiling folds their products.

    OpenVINO 2026.4.1's CPU plugin leaves products of half-precision weights and constants unfolded (the first
    self-attention of BLIP-2's queries). It computes them once, at compiling, into memory that other operations seem
    to use as well: the first run is right and later ones read what those left there. Whether that happens depends on
    the graph, the precision and SNIPPETS_MODE; each setting has graphs that it spoils, so none is a remedy. Products of
    f32 weights are folded, and cannot be spoiled.
    """
    fixed = prompt_to_prompt.constant_operations(model)
    for node in fixed.values():
        # int8 weights stay as they are: they are multiplied as int8
        if node.get_type_name() != "Convert" or not node.get_input_element_type(0).is_real():
            continue
        takers = {value.get_node().get_name() for value in node.output(0).get_target_inputs()}
        source = node.input_value(0).get_node()
        if takers & fixed.keys() and source.get_type_name() == "Constant":
            node.output(0).replace(ov.op.Constant(source.get_data(dtype=np.float32)).output(0))


def _fold_half_products(model: ov.Model) -> None:
    """Replace results of half-precision products of constants with their values.

    The same fault as above, in graphs stored in half precision (the queries of BLIP-2 as exported for GPUs), where no
    conversion stands between the weight and the product.
    """
    fixed = prompt_to_prompt.constant_operations(model)
    spoilt: set[str] = set()
    folded = []
    for name, node in fixed.items():
        product = node.get_type_name() == "MatMul" and node.get_output_element_type(0) == ov.Type.f16
        if product or any(value.get_node().get_name() in spoilt for value in node.input_values()):
            spoilt.add(name)
            takers = [{taker.get_node().get_name() for taker in one.get_target_inputs()} for one in node.outputs()]
            folded += [output for output, names in zip(node.outputs(), takers, strict=True) if names - fixed.keys()]
    if not folded:
        return
    prompt_to_prompt.fix_shapes(model)  # else the values would still hang on the inputs
    compiled = open_core().compile_model(ov.Model(folded, []), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled([])
    values = [np.array(results[output]) for output in compiled.outputs]
    for output, value in zip(folded, values, strict=True):
        output.replace(ov.op.Constant(value).output(0))


def _prepared(
    core: ov.Core, path: Path, batch: int, sizes: Mapping[str, tuple[int, int]], form: GraphForm | None
) -> ov.Model:
    """The model of a file at static shapes; a denoiser in that `form`, if any.

    Raises CounterfactoryError for a file that is no model, shapes that do not suit it, and a form that it cannot take.
    """
    if form is not None and "latents" in sizes:  # also of hints that are left out
        sizes = {**sizes, "hint_embedding": sizes["latents"]}
    try:
        model = core.read_model(path)
        model.reshape({p.get_any_name(): _shape(p, batch, sizes.get(p.get_any_name())) for p in model.inputs})
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise CounterfactoryError(f"model file {path} cannot be loaded at batch {batch}, {sizes}: {reason}") from error
    if form == "whole":
        model = deep_features.give_deep(model, path)
    elif form == "shallow":
        model = deep_features.take_deep(model, path)
    elif form is not None:
        if form == "without controls":
            prompt_to_prompt.drop_controls(model)
        model = prompt_to_prompt.follow_rows(model, path)
    settle_constants(model)
    return model


def settle_constants(model: ov.Model) -> None:
    """Make of a model, before it is compiled, what compiling neither rounds nor spoils."""
    dequantize.widen_unless_multiplied(model)
    _widen_weights_of_constants(model)
    _fold_half_products(model)


def open_session(
    path: Path,
    *,
    batch: int,
    precision: Literal["auto", "bf16", "f32"],
    threads: int = 0,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    streams: int = 1,
    blobs: BlobCache | None = None,
    digest: Callable[[Path], str] = file_digest,
    form: GraphForm | None = None,
) -> OpenVinoSession:
    """Load a model for a static batch: the axis of every input along which its rows lie becomes `batch`.

    `sizes` fixes the last two axes (height, width) of the inputs that it names; other dynamic axes stay so. Of
    the threads each of `streams` runs at a time gets its share. With `blobs` a model in OpenVINO's own format is
    compiled once and kept there; `digest` hashes a file. A denoiser takes a `form`: an editor's
    (prompt_to_prompt.py), or one of deep_features.py. Raises CounterfactoryError when the file is missing or no model,
    the shapes do not suit the network, or it cannot take that form.
    """
    existing(path)
    core, input_sizes, chosen = open_core(), dict(sizes or {}), resolve_precision(precision)
    config = {"INFERENCE_PRECISION_HINT": chosen, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": streams}
    if threads:
        config["INFERENCE_NUM_THREADS"] = threads
    # An .onnx may have its weights in files that only its graph names, so that no key of it is known beforehand.
    files = [file for file in (path, path.with_suffix(".bin")) if file.is_file()]
    settings = {"batch": batch, "sizes": input_sizes} | ({} if form is None else {"form": form})
    code = (__file__, prompt_to_prompt.__file__, deep_features.__file__, dequantize.__file__)
    inputs = CompileInputs(files, code, settings, config)
    blobs = blobs if path.suffix == ".xml" else None
    compiled = compile_model(core, inputs, lambda: _prepared(core, path, batch, input_sizes, form), blobs, digest)
    actual = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if actual != chosen:
        raise CounterfactoryError(f"{path.name} was asked for in {chosen} and compiled in {actual}")
    signature = Signature(tuple(_port(p) for p in compiled.inputs), tuple(_port(p) for p in compiled.outputs))
    requests: SimpleQueue[Any] = SimpleQueue()
    for _ in range(streams):
        requests.put(compiled.create_infer_request())
    return OpenVinoSession(path.stem, signature, requests)
