"""Random corruption of a finished suite: each is found by `verify`, and `generate` brings the suite back to its bytes.

`python tests/corruptions.py 500` tries so many and prints what came of them. Each is on a fresh copy of one small
suite: a file is flipped in one bit, zeroed or overwritten in a run, cut, emptied, changed for another or removed; half
of those that keep the size keep the time as well, so that nothing but a digest can tell.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from streets import write_streets

from counterfactory.engine.cli.arguments import main

KINDS = ("images", "originals", "masks", "metadata.parquet", "ledger.sqlite", "run.json")
_AGAIN = ("--sample", "3", "--variants", "3", "--profile", "light", "--anyway")


@dataclass(frozen=True)
class Outcome:
    """What came of a corruption: `harm` is how the file was changed; `found` whether `verify` says so; `refused`
    whether `generate` does, and stops; `same` whether the suite has its bytes then; `error` a traceback, if any.
    """

    file: str
    harm: str
    found: bool = False
    refused: bool = False
    same: bool = False
    error: str = ""

    @property
    def silent(self) -> bool:
        """Whether nothing was said, or `generate` said that all is well, of a suite that is another one."""
        return not self.error and not self.same and not (self.found and self.refused)

    @property
    def became(self) -> str:
        """In a word."""
        if self.error or self.silent:
            return "TRACEBACK" if self.error else "SILENT"
        if self.refused:
            return "refused"
        return "mended" if self.found else "harmless"


def flip(data: bytes, rng: random.Random) -> bytes:
    """One bit."""
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _run(data: bytes, rng: random.Random, fill: Callable[[int], bytes]) -> bytes:
    start = rng.randrange(len(data))
    length = min(rng.randint(1, 4096), len(data) - start)
    return data[:start] + fill(length) + data[start + length :]


HARMS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": flip,
    "zeros": lambda data, rng: _run(data, rng, bytes),
    "random": lambda data, rng: _run(data, rng, rng.randbytes),
    "cut": lambda data, rng: data[: rng.randrange(len(data))],
    "empty": lambda data, rng: b"",
}


def make(root: Path) -> Path:
    """A suite of three streets with masks: three variants and an original each."""
    write_streets(root / "street")
    _, status = generate(root, root / "suite")
    assert status == 0
    return root / "suite"


def generate(root: Path, suite: Path) -> tuple[str, int]:
    """Makes the suite, or what is missing of it: what was said, and the status."""
    return command("generate", str(root / "street"), "--out", str(suite), *_AGAIN)


def command(*words: str) -> tuple[str, int]:
    """Runs a command: all that it says, and its status."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        status = main(list(words))
    return out.getvalue(), status


def contents(suite: Path) -> dict[str, bytes]:
    """The bytes that a suite is judged by: its pictures and masks, its table, and what run.json says of them."""
    files = sorted(path for path in suite.rglob("*") if path.suffix in (".png", ".parquet") and path.is_file())
    standing = json.loads((suite / "run.json").read_text())["standing"]
    return {str(path.relative_to(suite)): path.read_bytes() for path in files} | {
        "standing": json.dumps(standing).encode()
    }


def outcomes(count: int, seed: int) -> Iterator[Outcome]:
    """What came of so many corruptions."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        whole = make(root)
        expected = contents(whole)
        for number in range(count):
            suite = root / f"{number}"
            shutil.copytree(whole, suite)
            file, harm = _harm(suite, KINDS[number % len(KINDS)], rng)
            yield _outcome(root, suite, file, harm, expected)
            shutil.rmtree(suite)


def _harm(suite: Path, kind: str, rng: random.Random) -> tuple[str, str]:
    """Corrupts a file of a kind."""
    files = sorted((suite / kind).rglob("*.png")) if (suite / kind).is_dir() else [suite / kind]
    path, harm = rng.choice(files), rng.choice(["flip", "zeros", "random", *HARMS, "swap", "delete"])
    data, status, keeps_time = path.read_bytes(), path.stat(), rng.random() < 0.5
    if harm == "swap" and len(files) > 1:
        other = rng.choice([one for one in files if one != path])
        other_data = other.read_bytes()
        path.write_bytes(other_data)
        other.write_bytes(data)
    elif harm in HARMS:
        path.write_bytes(HARMS[harm](data, rng))
        if keeps_time and path.stat().st_size == status.st_size:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        path.unlink()
    return str(path.relative_to(suite)), harm


def _outcome(root: Path, suite: Path, file: str, harm: str, expected: dict[str, bytes]) -> Outcome:
    try:
        found = command("verify", str(suite))[1] != 0
        refused = generate(root, suite)[1] == 2
        # What is mended is sound to `verify` too.
        same = not refused and contents(suite) == expected and command("verify", str(suite))[1] == 0
    except Exception as error:
        return Outcome(file, harm, error=f"{type(error).__name__}: {error}")
    return Outcome(file, harm, found, refused, same)


def run(count: int, seed: int) -> tuple[int, int, int]:
    """Tries so many corruptions: how many were tried, were silent, and ended in a traceback."""
    came = list(outcomes(count, seed))
    return len(came), sum(one.silent for one in came), sum(one.error != "" for one in came)


if __name__ == "__main__":
    table = Counter[tuple[str, str]]()
    for one in outcomes(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        table[one.file.partition("/")[0], one.became] += 1
        if one.silent or one.error:
            print(one)
    for (kind, became), times in sorted(table.items()):
        print(f"{kind:<18} {became:<10} {times}")
