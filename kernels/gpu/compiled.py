"""Compiles every kernel ahead of time for a GPU that need not be there: an A10G's SM86 unless told otherwise.

What is compiled is what the launchers launch: the same dtypes, constants and options, pointers aligned as the
allocator aligns them. A machine without a GPU so learns that each kernel has machine code, how many registers it
takes and that none spill; not that it gives right numbers there, which nobody has run.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import canny, edges, guided_step, pieces
from .launch import BLOCK, NEAR

SM86 = 86
_WARP = 32
_ALIGNED = 16  # bytes; what the launcher specialises pointers for


@dataclass(frozen=True)
class Variant:
    """A kernel with the types of its arguments and its constants."""

    name: str
    kernel: Any
    types: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    block: int = BLOCK


@dataclass(frozen=True)
class Machine:
    """What came out: machine code, assembly, and what one thread and one program take."""

    cubin: bytes
    ptx: str
    registers: int
    shared_bytes: int
    spilled_bytes: int


def variants() -> tuple[Variant, ...]:
    """Every kernel of this package in forms that it is launched in: the lightest and the heaviest where they differ."""
    sizes = ("i32", "i32", "i32")
    gradient = ("*u8", "*i16", "*i16", *sizes)
    thin = ("*i16", "*i16", "*u8", *sizes, "i32", "i32")
    guided = ("*fp32", "*i32", *("*fp32",) * 6, "i32", "i32")
    return (
        Variant("grey", canny.grey_kernel, ("*u8", "*u8", "i32")),
        *(
            Variant(
                f"blur {side} x {side}, {channels} channels",
                canny.blur_kernel,
                ("*u8", "*u8", "*i32", *sizes),
                {"channels": channels, "side": side},
                NEAR,
            )
            for side, channels in ((5, 1), (7, 3))
        ),
        *(
            Variant(
                f"gradient {'L2' if l2 else 'L1'}, {channels} channels",
                canny.gradient_kernel,
                gradient,
                {"channels": channels, "l2": l2},
                NEAR,
            )
            for channels, l2 in ((1, False), (3, True))
        ),
        *(Variant(f"thin {'L2' if l2 else 'L1'}", canny.thin_kernel, thin, {"l2": l2}, NEAR) for l2 in (False, True)),
        Variant("link", pieces.link_kernel, ("*u8", "*i32", *sizes), block=NEAR),
        Variant("tally", pieces.tally_kernel, ("*u8", "*i32", "*i32", "*i32", "i32"), block=NEAR),
        Variant("keep", pieces.keep_kernel, ("*u8", "*i32", "*i32", "*i32", "*u8", "i32", "i32")),
        *(
            Variant(
                f"median {side} x {side}",
                edges.median_kernel,
                ("*u8", "*u8", *sizes),
                {"side": side, "taps": taps},
                edges.MEDIAN_BLOCK,
            )
            for side, taps in ((3, 16), (5, 32))
        ),
        *(
            Variant(
                f"smooth {source[1:]}, {'mirrored' if reflected else 'border kept'}",
                edges.smooth_kernel,
                (source, "*fp32", "*fp32", "i32", *sizes),
                {"reflected": reflected},
                NEAR,
            )
            for source, reflected in (("*u8", False), ("*fp32", True))
        ),
        Variant("steepest", edges.steepest_kernel, (*("*fp32",) * 4, *sizes), block=NEAR),
        Variant("relative", edges.relative_kernel, ("*fp32", "*fp32", "*i16", "i32", "fp32")),
        Variant("guided step", guided_step.guided_step_kernel, guided),
    )


def compile_for(variant: Variant, capability: int = SM86) -> Machine:
    """Machine code of a variant for a compute capability such as 86. Raises whatever Triton raises when there is none,
    and RuntimeError under Triton's interpreter, which compiles nothing.
    """
    if not isinstance(variant.kernel, triton.JITFunction):
        raise RuntimeError("kernels were imported under TRITON_INTERPRET; unset it and start anew to compile them")
    constants = {**variant.constants, "block": variant.block}
    names = [name for name in variant.kernel.arg_names if name not in constants]
    types = dict(zip(names, variant.types, strict=True))
    pointers = [at for at, name in enumerate(variant.kernel.arg_names) if types.get(name, "").startswith("*")]
    source = ASTSource(
        variant.kernel,
        signature={name: types.get(name, "constexpr") for name in variant.kernel.arg_names},
        constexprs=constants,
        attrs={(at,): [["tt.divisibility", _ALIGNED]] for at in pointers},
    )
    made = triton.compile(source, target=GPUTarget("cuda", capability, _WARP), options={"enable_fp_fusion": False})
    ptx = made.asm["ptx"]
    registers, spilled = _taken(ptx, capability)
    return Machine(made.asm["cubin"], ptx, registers, int(made.metadata.shared), spilled)


def _taken(ptx: str, capability: int) -> tuple[int, int]:
    """Registers of a thread and bytes that it spills, as the assembler reports them.

    Triton itself tells them only of kernels that were loaded on a GPU.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        tool, target = triton.knobs.nvidia.ptxas.path, Path(folder) / "kernel.cubin"
        command = [tool, "-v", "--fmad=false", f"--gpu-name=sm_{capability}", str(source), "-o", str(target)]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", report)
    spills = re.findall(r"(\d+) bytes spill", report)
    if registers is None or not spills:
        raise RuntimeError(f"ptxas reported no registers: {report.strip()!r}")
    return int(registers[1]), sum(map(int, spills))
