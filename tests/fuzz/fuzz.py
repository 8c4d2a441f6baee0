"""Fuzzes the readers of readers.py: each input is a value, or a sentence, or it counts as uncaught and is printed.

    python tests/fuzz/fuzz.py [--seconds 60 | --count N] [--seed 0] [--only READER ...]

The last line is `fuzz: N inputs, U uncaught`; the status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from readers import READERS


@dataclass
class Fuzzed:
    """How many `inputs` a reader was given, and those that it did not answer for: data by the place of the error."""

    inputs: int = 0
    uncaught: dict[str, bytes] = field(default_factory=dict)
    slowest_s: float = 0.0


def inputs_of(name: str, seed: int) -> Iterator[bytes]:
    """All inputs of a reader, without end: what was once uncaught, its seeds, and changes of these."""
    reader, rng = READERS[name], random.Random(zlib.crc32(name.encode()) + seed)
    seeds = list(reader.seeds())
    yield from (*reader.once, *seeds, b"")
    while True:
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2))):
            data = reader.mutate(data, rng, rng.choice(seeds))
        yield data


def fuzz(name: str, *, count: int | None = None, seconds: float | None = None, seed: int = 0) -> Fuzzed:
    """Gives a reader so many inputs, or inputs for so long."""
    reader, result = READERS[name], Fuzzed()
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings(), _silent():
        warnings.simplefilter("ignore")
        folder = Path(temporary)
        file = folder / reader.name
        file.parent.mkdir(parents=True, exist_ok=True)
        reader.place(folder)
        began = time.monotonic()
        for data in itertools.islice(inputs_of(name, seed), count):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            file.write_bytes(data)
            for beside in folder.glob(f"{file.name}-*"):  # SQLite's
                beside.unlink()
            result.inputs += 1
            asked = time.monotonic()
            try:
                reader.read(file)
            except reader.refuses:
                pass
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a panic of Rust's is no Exception
                last = traceback.extract_tb(error.__traceback__)[-1]
                ours = [f for f in traceback.extract_tb(error.__traceback__) if "/engine/" in f.filename] or [last]
                where = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}: {str(error)[:80]}"
                result.uncaught.setdefault(where, data)
            result.slowest_s = max(result.slowest_s, time.monotonic() - asked)
    return result


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """libpng writes to standard error by itself."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that are uncaught")
    args = parser.parse_args(arguments)
    inputs = uncaught = 0
    for name in args.only or READERS:
        result = fuzz(name, count=args.count, seconds=args.seconds or (None if args.count else 60.0), seed=args.seed)
        inputs, uncaught = inputs + result.inputs, uncaught + len(result.uncaught)
        print(f"{name}: {result.inputs} inputs, slowest {result.slowest_s:.2f} s", flush=True)
        for number, (where, data) in enumerate(result.uncaught.items()):
            print(f"  {where}: {data[:60]!r}", flush=True)
            if args.keep is not None:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{name.replace(' ', '_')}_{number}").write_bytes(data)
    print(f"fuzz: {inputs} inputs, {uncaught} uncaught")
    return int(uncaught > 0)


if __name__ == "__main__":
    sys.exit(main())
