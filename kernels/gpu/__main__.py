"""`python -m counterfactory.kernels.gpu`: compiles every kernel for SM86 and writes a table of docs/production.md."""

from __future__ import annotations

import sys

from .compiled import VARIANTS, compile_for, resources

if __name__ == "__main__":
    sys.stdout.write("| kernel | cubin bytes | registers per thread | shared bytes | spilled bytes |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    for variant in VARIANTS:
        made = compile_for(variant)
        registers, spilled = resources(made)
        row = (len(made.cubin), registers, made.shared_bytes, spilled)
        sys.stdout.write(f"| {variant.name} | {' | '.join(map(str, row))} |\n")
