"""How fast this machine multiplies matrices: the physical ceiling that networks are compared with.

A precision and a number of threads arrive; operations a second leave, the best seen over a few sizes and runs. The
product runs where the networks run, in OpenVINO with constant weights and static shapes, and the plan is asked whether
it kept to the precision. Several products in a row share one conversion of what goes in and out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..errors import CounterfactoryError
from ..runtime.openvino import open_core
from ..runtime.quiet_openvino import ov

PeakPrecision = Literal["bf16", "f32", "int8"]
SIDES = (2048, 3072, 4096)
_IN_A_ROW = 4
# What a compiled product may call its precision. int8 activations are unsigned or signed as their range demands.
_KEPT = {"bf16": ("bf16",), "f32": ("f32",), "int8": ("i8", "u8")}


def measure_peak(precision: PeakPrecision, threads: int = 0, sides: Sequence[int] = SIDES, rounds: int = 5) -> float:
    """Operations a second (2 for each multiply-accumulate) of square products on all (0) or `threads` threads.

    The best of `rounds` runs of each of `sides`; some seconds, and at 4096 some 300 MB. Raises
    CounterfactoryError where the CPU does not multiply in that precision.
    """
    if not sides or min(sides) < 1 or rounds < 1 or threads < 0:
        raise ValueError(f"sides and rounds start at 1, threads at 0; got {list(sides)}, {rounds}, {threads}")
    return max(_measure(precision, threads, side, rounds) for side in sides)


def _measure(precision: PeakPrecision, threads: int, side: int, rounds: int) -> float:
    hint = "bf16" if precision == "bf16" else "f32"
    config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    if threads:
        config["INFERENCE_NUM_THREADS"] = threads
    compiled = open_core().compile_model(products(side, quantised=precision == "int8"), "CPU", config)
    _refuse_another_precision(compiled, precision)
    request = compiled.create_infer_request()
    request.set_input_tensor(ov.Tensor(np.full((side, side), 0.5, np.float32)))
    request.infer()  # the first run allocates

    def seconds() -> float:
        began = time.perf_counter()
        request.infer()
        return time.perf_counter() - began

    return 2 * side**3 * _IN_A_ROW / min(seconds() for _ in range(rounds))


def products(side: int, quantised: bool = False, in_a_row: int = _IN_A_ROW) -> Any:
    """A model of x W W W ..., W such that values stay near their size; `quantised` rounds both sides to 8 bits."""
    random = np.random.default_rng(0)
    weights = ov.opset13.constant((random.standard_normal((side, side)) / side**0.5).astype(np.float32))
    states = parameter = ov.opset13.parameter([side, side], np.float32, "states")
    if quantised:
        weights = _quantize(weights, 4 / side**0.5, levels=255)  # symmetric, as weights are
    for _ in range(in_a_row):
        states = ov.opset13.matmul(_quantize(states, 4.0, levels=256) if quantised else states, weights, False, True)
    return ov.Model([states], [parameter])


def _quantize(node: Any, reach: float, levels: int) -> Any:
    """Values from -reach up, in steps of reach / 128 or, symmetric, reach / 127."""
    low, high = np.float32(-reach), np.float32(reach if levels % 2 else reach * 127 / 128)
    return ov.opset13.fake_quantize(node, low, high, low, high, levels)


def _refuse_another_precision(compiled: Any, precision: PeakPrecision) -> None:
    """No ceiling of a precision that the plan did not run in."""
    products = [
        op.get_rt_info()
        for op in compiled.get_runtime_model().get_ops()
        if op.get_rt_info()["layerType"].astype(str) in ("FullyConnected", "MatMul")
    ]
    precisions = {info["runtimePrecision"].astype(str) for info in products}
    if not precisions or not precisions <= set(_KEPT[precision]):
        raise CounterfactoryError(
            f"matrix products were asked for in {precision} and run in {', '.join(sorted(precisions)) or 'no kernel'}; "
            "this CPU has no such arithmetic, choose another precision"
        )
