"""`python -m counterfactory.kernels.gpu`: compiles every kernel for SM86 and writes docs/kernels.md's second table."""

from __future__ import annotations

import sys

from .compiled import compile_for, variants

if __name__ == "__main__":
    sys.stdout.write("| kernel | cubin bytes | registers per thread | shared bytes | spilled bytes |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    for variant in variants():
        made = compile_for(variant)
        row = (len(made.cubin), made.registers, made.shared_bytes, made.spilled_bytes)
        sys.stdout.write(f"| {variant.name} | {' | '.join(map(str, row))} |\n")
