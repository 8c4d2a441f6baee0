"""Compiles kernels ahead of time, for a GPU that need not be there: an A10G's SM86 unless told otherwise.

What comes out is what the engine loads and launches: no torch and no C compiler are needed beside Triton, whose wheel
has the assembler. A machine without a GPU so learns that each kernel has machine code, how many registers it takes and
that none spill; not that it gives right numbers there, which bench/gpu_check.py shows on a card.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from .guided_step import guided_step_kernel
from .pixels import pixels_kernel

SM86 = 86
BLOCK = 1024  # elements a program, eight a thread of four warps: loads of 16 bytes
_WARP, _WARPS = 32, 4
_ALIGNED = 16  # bytes; every array of the engine begins at such an address


@dataclass(frozen=True)
class Variant:
    """A kernel with the types of its arguments; the last of its own is `block`, which is a constant."""

    name: str
    kernel: Any
    types: tuple[str, ...]


GUIDED_STEP = Variant("guided step", guided_step_kernel, ("*fp32", "*i32", "*i64", "i32"))
PIXELS = Variant("pixels", pixels_kernel, ("*fp32", "*u8", "*i32", "i32"))
VARIANTS = (GUIDED_STEP, PIXELS)


@dataclass(frozen=True)
class Machine:
    """What came out: machine code with its function's name, and what it is launched with.

    A program is of `threads` threads and `block` elements and takes `shared_bytes`; arguments are of `types`, and
    `hidden` addresses follow them, which Triton would pass for memory that these kernels have no use for.
    """

    cubin: bytes
    ptx: str
    function: str
    types: tuple[str, ...]
    hidden: int
    threads: int
    block: int
    shared_bytes: int


def compile_for(variant: Variant, capability: int = SM86) -> Machine:
    """Machine code of a variant for a compute capability such as 86.

    Raises whatever Triton raises when there is none, and RuntimeError where it wants to be launched in another way
    than this, or under Triton's interpreter, which compiles nothing.
    """
    if not isinstance(variant.kernel, triton.JITFunction):
        raise RuntimeError("kernels were imported under TRITON_INTERPRET; unset it and start anew to compile them")
    *names, block = variant.kernel.arg_names
    types = dict(zip(names, variant.types, strict=True))
    pointers = [at for at, kind in enumerate(variant.types) if kind.startswith("*")]
    source = ASTSource(
        variant.kernel,
        signature=types | {block: "constexpr"},
        constexprs={block: BLOCK},
        attrs={(at,): [["tt.divisibility", _ALIGNED]] for at in pointers},
    )
    options = {"enable_fp_fusion": False, "num_warps": _WARPS}
    made = triton.compile(source, target=GPUTarget("cuda", capability, _WARP), options=options)
    ptx, stated = made.asm["ptx"], made.metadata
    hidden = _hidden_parameters(ptx, variant.types)
    scratch = [getattr(stated, name, 0) for name in ("global_scratch_size", "profile_scratch_size", "tmem_size")]
    if any(scratch) or (stated.num_warps, getattr(stated, "num_ctas", 1)) != (_WARPS, 1):
        raise RuntimeError(f"kernel {variant.name} wants memory or threads that it is not launched with: {stated}")
    shared = int(stated.shared)
    return Machine(made.asm["cubin"], ptx, stated.name, variant.types, hidden, _WARP * _WARPS, BLOCK, shared)


@contextmanager
def caching_in(folder: str) -> Iterator[None]:
    """Keep what is compiled within in a folder, and nowhere else."""
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        yield


def _hidden_parameters(ptx: str, types: tuple[str, ...]) -> int:
    """How many addresses the machine code takes after the arguments of these types, read from its own head."""
    entry = re.search(r"\.entry\s+\w+\s*\((.*?)\)", ptx, re.DOTALL)
    found = re.findall(r"\.param \.[a-z]+(\d+)", entry[1]) if entry else []
    expected = ["64" if kind.startswith("*") else re.sub(r"\D", "", kind) for kind in types]
    if found[: len(expected)] != expected or set(found[len(expected) :]) - {"64"}:
        raise RuntimeError(f"a kernel of {expected} bits came out with parameters of {found} bits")
    return len(found) - len(expected)


def resources(machine: Machine, capability: int = SM86) -> tuple[int, int]:
    """Registers of a thread and bytes that it spills, as the assembler reports them.

    Triton itself tells them only of kernels that were loaded on a GPU.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(machine.ptx)
        tool, target = triton.knobs.nvidia.ptxas.path, Path(folder) / "kernel.cubin"
        command = [tool, "-v", "--fmad=false", f"--gpu-name=sm_{capability}", str(source), "-o", str(target)]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", report)
    spills = re.findall(r"(\d+) bytes spill", report)
    if registers is None or not spills:
        raise RuntimeError(f"ptxas reported no registers: {report.strip()!r}")
    return int(registers[1]), sum(map(int, spills))
