"""Triton kernels without a GPU: under Triton's interpreter they give what their references give, bit for bit, and each
of them compiles for an A10G. What a GPU makes of the machine code is not checked here.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from counterfactory.engine.models import sampler as sampling
from counterfactory.kernels import gpu
from counterfactory.kernels.guided_step import pack
from counterfactory.kernels.pixels import to_pictures

pytest.importorskip("triton", reason="triton is not installed: no kernel was held to its reference, none was compiled")

import triton
from stand_in_kernels import interpret

from counterfactory.kernels.gpu import compiled

Floats = NDArray[np.float32]
Kind = Literal["ddim", "unipc", "lcm"]
BLOCK = 128  # of the interpreter; not a divisor of the arrays' sizes


def at(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


def test_rows_at_any_step_are_the_samplers() -> None:
    """A batch of variants from noise to latents through the kernel alone, each as the engine's sampler has it, bit
    for bit: other samplers, step counts and guidance, histories that begin as NaN, a last block that is not full.
    """
    kinds: list[tuple[Kind, int]] = [("unipc", 6), ("unipc", 3), ("ddim", 4), ("lcm", 3), ("unipc", 1)]
    samplers = [
        sampling.Sampler(
            sampling.SamplerSettings(kind, steps, "v_prediction", "lcm" if kind == "lcm" else "trailing", True)
        )
        for kind, steps in kinds
    ]
    rng = np.random.default_rng(3)
    shape, size = (4, 7, 11), 4 * 7 * 11
    # Latents and history, each row's behind one another, rows far apart.
    arrays = [np.full((4, *shape), np.nan, np.float32) for _ in kinds]
    for one in arrays:
        one[0] = rng.standard_normal(shape, np.float32)
    alone: list[tuple[Any, Any]] = [(one[0].copy(), ()) for one in arrays]
    for i in range(6):
        on = [row for row, (_, steps) in enumerate(kinds) if i < steps]
        outputs = rng.standard_normal((2, len(on), *shape), np.float32)
        scales = [5.0 + row if (row + i) % 3 else None for row in on]
        noise = {row: rng.standard_normal(shape, np.float32) for row in on if samplers[row].adds_noise(i)}
        for row, added in noise.items():
            arrays[row][2] = added
        table = pack([(samplers[row].weights(i), scale) for row, scale in zip(on, scales, strict=True)])
        for place, scale in enumerate(scales):
            if scale is None:
                outputs[1, place] = np.nan
        addresses = np.array([[at(arrays[r]), at(outputs[0, p]), at(outputs[1, p])] for p, r in enumerate(on)])
        arguments = at(table.weights), at(table.counts), at(addresses), size
        interpret(compiled.GUIDED_STEP, (len(on), -(-size // BLOCK)), arguments, BLOCK)
        for place, (row, scale) in enumerate(zip(on, scales, strict=True)):
            output = outputs[0, place]
            if scale:
                output = outputs[1, place] + np.float32(scale) * (outputs[0, place] - outputs[1, place])
            alone[row] = samplers[row].step(i, alone[row][0], output, alone[row][1], noise.get(row))
            np.testing.assert_array_equal(arrays[row][0], alone[row][0])
        for row in set(range(len(kinds))) - set(on):
            np.testing.assert_array_equal(arrays[row][0], alone[row][0], "a row that took no step was written to")


def test_pictures_are_the_references() -> None:
    """Values out of range, halves between two levels, and a last block that is not full."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1.3, 1.3, (2, 3, 9, 21)).astype(np.float32)
    halves = np.arange(-3, 260, dtype=np.float32)[: 9 * 21] + np.float32(0.5)
    values[0, 0] = (halves / np.float32(127.5) - np.float32(1)).reshape(9, 21)
    values[1, 2, 0, :3] = 1e9, -1e9, 0
    exact = (values[0, 0] + np.float32(1)) * np.float32(127.5)
    assert (exact % 1 == 0.5).sum() > 20, "no value lies between two levels"
    levels, flags = np.full((2, 9, 21, 3), 7, np.uint8), np.zeros(2, np.int32)
    interpret(compiled.PIXELS, (2, -(-189 // BLOCK)), (at(values), at(levels), at(flags), 189), BLOCK)
    for found, expected in zip(levels, to_pictures(values), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not flags.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_picture_with_a_value_that_is_not_finite_is_flagged(value: float) -> None:
    values = np.zeros((3, 3, 9, 21), np.float32)
    values[1, 2, 8, 20] = value
    levels, flags = np.empty((3, 9, 21, 3), np.uint8), np.zeros(3, np.int32)
    interpret(compiled.PIXELS, (3, -(-189 // BLOCK)), (at(values), at(levels), at(flags), 189), BLOCK)
    assert flags.tolist() == [0, 1, 0]


def test_every_kernel_is_compiled_for_the_engine() -> None:
    names = [found.name for found in pkgutil.iter_modules(gpu.__path__) if found.name != "__main__"]
    modules = [importlib.import_module(f"{gpu.__name__}.{name}") for name in names]
    kernels = {id(value) for one in modules for value in vars(one).values() if isinstance(value, triton.JITFunction)}
    assert {id(variant.kernel) for variant in compiled.VARIANTS} == kernels
    engine = (Path(__file__).parents[2] / "engine" / "runtime" / "kernels.py").read_text()
    assert all(f"compiled.{name}" in engine for name in ("GUIDED_STEP", "PIXELS"))
    assert {compiled.GUIDED_STEP, compiled.PIXELS} == set(compiled.VARIANTS)


@pytest.mark.parametrize("variant", compiled.VARIANTS, ids=lambda variant: variant.name)
def test_kernels_compile_for_an_a10g(variant: compiled.Variant) -> None:
    """Machine code for SM86 comes out, no register spills, and arithmetic rounds as NumPy's."""
    machine = compiled.compile_for(variant)
    registers, spilled = compiled.resources(machine)
    assert machine.cubin.startswith(b"\x7fELF")
    assert machine.function.encode() in machine.cubin
    assert ".target sm_86" in machine.ptx
    assert spilled == 0
    assert 0 < registers <= 128
    assert (machine.threads, machine.shared_bytes) == (128, 0)
    for inexact in ("fma.rn.f32", ".ftz", ".approx", ".full"):
        assert inexact not in machine.ptx, inexact


def test_machine_code_that_takes_something_else_is_refused() -> None:
    """Triton's releases differ in what they add to a kernel's arguments: its own head says."""
    head = ".visible .entry k(\n\t.param .u64 .ptr .global .align 1 k_param_0,\n\t.param .u32 k_param_1"
    assert compiled._hidden_parameters(f"{head}\n)\n.reqntid 128", ("*fp32", "i32")) == 0
    more = f"{head},\n\t.param .u64 .ptr .global .align 1 k_param_2\n)"
    assert compiled._hidden_parameters(more, ("*u8", "i32")) == 1
    for ptx, types in ((f"{head}\n)", ("*fp32",)), (f"{head}\n)", ("i32", "i32")), ("no head", ("i32",))):
        with pytest.raises(RuntimeError, match="came out with parameters of"):
            compiled._hidden_parameters(ptx, types)
