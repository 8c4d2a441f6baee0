"""Every way in which a suite, a disk or a stranger's file could do harm, tried and counted:

    python tests/faults.py [--write] [--only PART ...] [--seed 0]

    corruptions   500 random corruptions of a suite's files (corruptions.py)
    hostile       hostile suites, sets and tables, given to every command that reads them (hostile_cases.py)
    fuzz          10,000 inputs for each reader (fuzz/)
    faults        300 faults of files: killed, full, broken or slow at an operation (file_faults.py)
    flips         1,000,000 single bits of ledger, table and record (bit_flips.py)

With `--write` the figures go to docs/trust.json, beside the memory that bench/load.py measures. The last line has all
figures; the status is 1 where harm was done.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

import bit_flips
import corruptions
import file_faults
import hostile_cases
from fuzz import fuzz
from readers import READERS

TRUST = Path(__file__).parents[1] / "docs" / "trust.json"
Figures = dict[str, int]


def try_corruptions(seed: int, of: float) -> Figures:
    tried, silent, tracebacks = corruptions.run(round(500 * of), seed)
    return {"corruptions_tried": tried, "corruptions_silent": silent + tracebacks}


def try_hostile(seed: int, of: float) -> Figures:
    tried, harm = hostile_cases.run_all()
    return {"hostile_tried": tried, "hostile_harm": harm}


def try_fuzz(seed: int, of: float) -> Figures:
    results = [fuzz(name, count=round(10_000 * of), seed=seed) for name in READERS]
    for result in results:
        for where, data in result.uncaught.items():
            print(f"{where}: {data[:80]!r}")
    return {
        "fuzz_inputs": sum(result.inputs for result in results),
        "fuzz_uncaught": sum(len(result.uncaught) for result in results),
    }


def try_faults(seed: int, of: float) -> Figures:
    faults = file_faults.run(round(300 * of), seed)
    for fault in faults:
        if fault.lost:
            print(fault)
    return {"faults": len(faults), "faults_lost": sum(fault.lost != "" for fault in faults)}


def try_flips(seed: int, of: float) -> Figures:
    tried, silent, came = bit_flips.run(round(1_000_000 * of), seed)
    for (name, became), times in sorted(came.items()):
        print(f"{name:<18} {became:<10} {times}")
    return {"bit_flips_tried": tried, "bit_flips_silent": silent}


PARTS: dict[str, Callable[[int, float], Figures]] = {
    "corruptions": try_corruptions,
    "hostile": try_hostile,
    "fuzz": try_fuzz,
    "faults": try_faults,
    "flips": try_flips,
}
HARM = ("corruptions_silent", "hostile_harm", "fuzz_uncaught", "faults_lost", "bit_flips_silent")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/trust.json")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part of it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of what is tried of each part")
    args = parser.parse_args(arguments)
    figures: Figures = {}
    for name in args.only or PARTS:
        began = time.monotonic()
        came = PARTS[name](args.seed, args.share)
        print(f"{name}: {came} in {time.monotonic() - began:.0f} s", flush=True)
        figures |= came
        if args.write:
            keep = json.loads(TRUST.read_text()) if TRUST.exists() else {}
            TRUST.write_text(json.dumps(keep | came, indent=2) + "\n")
    print(json.dumps(figures))
    return int(any(figures.get(name, 0) for name in HARM))


if __name__ == "__main__":
    sys.exit(main())
