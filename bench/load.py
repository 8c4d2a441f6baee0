"""Claim: 125,000 sources are listed and estimated in under 60 s and 500 MB; of a suite of 125,000 sources and five rows
each, `check`, `evaluate`, `verify` and metadata take at most 2 GB.

The rows are those of a small suite, drawn by rule, again and again under other names; where a picture should lie is a
file of a few bytes. Sources are so many links to a few photographs. Each command is a process of its own, of which the
greatest memory is counted. With `--write` the figures go to docs/trust.json.

    python bench/load.py [--sources 125000] [--only NAME] [--write]
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from measure import CLI, DOCS, bench_parser, in_fresh_process, keep_figures, run_command
from PIL import Image
from simulated_suites import write_file

from counterfactory.engine.suite import PictureRow, Suite, read_metadata

CLASSES, SIDE, PHOTOGRAPHS, ROWS = 20, (480, 640), 8, 5
READ = "from pathlib import Path; from counterfactory.engine.suite import read_metadata; read_metadata(Path({!r}))"


def make_sources(folder: Path, sources: int) -> None:
    """Class folders of photographs, all but a few of them links to the same files."""
    rng = np.random.default_rng(0)
    for number in range(sources):
        place = folder / f"class {number % CLASSES}" / f"{number:06d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        if number < PHOTOGRAPHS or number % 50_000 == 0:  # file systems limit the links to a file
            pixels = rng.integers(0, 255, (SIDE[0] // 8, SIDE[1] // 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).resize(SIDE[::-1]).save(place, quality=85)
            last = place
        else:
            os.link(last, place)


def digest(text: str) -> str:
    """Content keys look random, and no table packs them."""
    return hashlib.sha256(text.encode()).hexdigest()


def lines(rows: list[PictureRow], sources: int) -> Iterator[PictureRow]:
    """The rows of the table: those of one source for each."""
    for number in range(sources):
        name, label = f"class {number % CLASSES}/{number:06d}", f"class {number % CLASSES}"
        for i, row in enumerate(rows):
            kind = row.file_name.partition("/")[0]
            file, original = (f"{digest(f'{number} {which}')[:16]}.png" for which in (i, 0))
            sha256, key = digest(file), digest(f"{number} {i} key")
            origin = replace(row.origin, path=f"{name}.jpg", sha256=digest(str(number)))
            scores = {score: round(value - number % 97 / 1e4, 6) for score, value in row.scores.items()}
            new = replace(row, file_name=f"{kind}/{name}/{file}", original=f"originals/{name}/{original}", key=key)
            new = replace(new, sha256=sha256, source=name, label=label, origin=origin, scores=scores)
            yield replace(new, source_key=origin.sha256, caption=f"a photo of {label}")


def put_files(suite: Suite, rows: Iterator[PictureRow]) -> None:
    """Files for the rows' pictures, a line of text in each, and the ledger's record of them."""
    while names := {name for row in islice(rows, 10_000) for name in (row.file_name, row.original) if name}:
        of_name = {name: write_file(suite.path, name, Path(name).name.encode()) for name in names}
        suite.ledger.put("suite/files", of_name)


def make_suite(folder: Path, photographs: Path, sources: int) -> None:
    few = folder / "few"
    make_sources(few, 2)
    run_command([*CLI, "generate", few, "--out", photographs, "--variants", str(ROWS - 1), "--json"])
    rows = read_metadata(photographs)
    alike = [row for row in rows if row.source == rows[0].source and (row.accepted or row.kind == "variant")][:ROWS]
    with Suite.open(photographs) as suite:
        put_files(suite, lines(alike, sources))
        suite.write_metadata(lines(alike, sources))
    with (folder / "answers.csv").open("w", encoding="utf-8") as answers:
        answers.write("image,prediction,confidence\n")
        for number, line in enumerate(lines(alike, sources)):
            wrong = number * 7919 % 10 < 2 + 2 * (line.kind == "variant")
            answers.write(f"{line.file_name},{'class 3' if wrong else line.label},{number % 89 / 89:.3f}\n")


def main() -> None:
    parser = bench_parser(__doc__, write="docs/trust.json")
    parser.add_argument("--sources", type=int, default=125_000)
    parser.add_argument("--only", action="append")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        suite, photographs = folder / "suite", folder / "photographs"
        make_sources(photographs, args.sources)
        # Commands that are started here count the most that this process ever took as their own.
        in_fresh_process(make_suite, folder, suite, args.sources)
        commands: dict[str, tuple[str | Path, ...]] = {
            "estimate": (*CLI, "estimate", photographs, "--json"),
            "verify": (*CLI, "verify", suite, "--json"),
            "metadata": (sys.executable, "-c", READ.format(str(suite))),
            "check": (*CLI, "check", suite, "--set", "check.min_sharp=0.3", "--json"),
            "evaluate": (*CLI, "evaluate", suite, "--predictions", folder / "answers.csv", "--json"),
        }
        figures: dict[str, float] = {}
        for name, command in commands.items():
            if not args.only or name in args.only:
                wall_s, used = run_command(command)
                cpu_s, mb = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
                figures |= {f"{name}_s": round(wall_s, 1), f"{name}_cpu_s": round(cpu_s, 1), f"{name}_mb": round(mb)}
                print(f"{name}: {wall_s:.1f} s, {cpu_s:.1f} s of a core, {mb:.0f} MB", flush=True)
    if not args.only:
        most = max(figures[f"{name}_mb"] for name in commands if name != "estimate")
        figures["rows_125k_gb"] = round(most / 1024, 2)
    if args.write:
        keep_figures(DOCS / "trust.json", figures)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
