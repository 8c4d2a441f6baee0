"""Claim: a simulated fleet of A10G boxes makes 125,000 variants' suite in the time that docs/cluster.md says.

    python bench/fleet.py [--write]

SimPy moves shards: a box paints one, its part goes to the store over a line that all boxes share, and one driver takes
the parts one after the other. Measured here, now: how long the driver takes over a picture, with syncing. Projected: a
picture's time on the box (docs/a10g.json). The table's rows are as large as those of a small suite that is made now.
Loading 27 GB of plans a shard is assumed to take 30 s. Shards differ by
a tenth, a box in twenty is slow by half, and each box is lost once in 50 hours, with its shard. `--write` keeps the
figures in docs/cluster.json and draws docs/cluster.svg.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import simpy
from cluster import command, photographs
from measure import DOCS, bench_parser, finish, keep_figures

from counterfactory.engine.suite import Suite, read_metadata
from counterfactory.engine.suite.metadata import write_table

SOURCES, PICTURES = 25_000, 7  # a source: five variants, a control, the original
ACCEPTED = 0.9  # of the painted
PICTURE_MB, LINE_MB_S = 0.45, 1200.0
LOAD_S = 30.0  # plans of 27 GB that do not fit together, read once a shard
BOXES, SHARDS = (1, 4, 16, 64, 100, 160, 256), (3072, 256, 64)


def painted_h() -> float:
    """GPU-hours of a picture of `a10g`, by projection."""
    hours: float = json.loads((DOCS / "a10g.json").read_text())["a10g_gpu_hours_per_1k"]
    return hours * ACCEPTED / 1000


def table_mb(folder: Path) -> float:
    """The size of the suite's table, by what a further row of a small suite's takes."""
    subprocess.run(command(photographs(folder / "photos", 40), folder / "small"), check=True, stdout=subprocess.DEVNULL)
    rows, sizes = read_metadata(folder / "small"), list[int]()
    for part in (rows[: len(rows) // 2], rows):
        file = io.BytesIO()
        write_table((row.to_json() for row in part), sorted({name for row in rows for name in row.scores or ()}), file)
        sizes.append(len(file.getvalue()))
    return SOURCES * PICTURES * (sizes[1] - sizes[0]) / (len(rows) - len(rows) // 2) / 1e6


def driver_s(folder: Path, pictures: int = 400) -> float:
    """Seconds in which this machine takes a picture of a part into a suite: read, compared, written, synced, kept."""
    data = [np.random.default_rng(at).bytes(round(PICTURE_MB * 1e6)) for at in range(20)]
    with Suite.open(folder / "suite") as suite:

        def files() -> Iterator[tuple[str, bytes]]:
            for at in range(pictures):
                hashlib.sha256(data[at % 20]).hexdigest()
                yield f"images/{at // 7}/{at:016x}.png", data[at % 20]

        began = time.perf_counter()
        suite.take(files())
        return (time.perf_counter() - began) / pictures


def simulate(boxes: int, shard: int, take_s: float, picture_h: float, seed: int = 0) -> dict[str, float]:
    """Hours of a suite, the share of the boxes' time that painted, and of the driver's that took parts."""
    luck, world = np.random.default_rng(seed), simpy.Environment()
    waiting, line, driver = list(range(-(-SOURCES // shard))), simpy.Resource(world, 1), simpy.Resource(world, 1)
    spent = {"painted": 0.0, "driver": 0.0, "lost": 0.0, "end": 0.0}

    def box(pace: float) -> Generator[simpy.Event, Any, Any]:
        while waiting:
            waiting.pop()
            hours = (LOAD_S / 3600 + shard * (PICTURES - 1) * picture_h * luck.normal(1, 0.1)) * pace
            if luck.random() < hours / 50:
                yield world.timeout(hours * luck.random())
                waiting.append(0)
                spent["lost"] += 1
                continue
            yield world.timeout(hours)
            spent["painted"] += hours
            with line.request() as turn:
                yield turn
                yield world.timeout(shard * PICTURES * PICTURE_MB / LINE_MB_S / 3600)
            world.process(take())

    def take() -> Generator[simpy.Event, Any, Any]:
        with driver.request() as turn:
            yield turn
            hours = shard * PICTURES * take_s / 3600
            yield world.timeout(hours)
            spent["driver"] += hours
            spent["end"] = world.now

    for number in range(boxes):
        world.process(box(1.5 if number % 20 == 19 else 1.0))
    world.run()
    hours = spent["end"]
    return {"hours": hours, "painting": spent["painted"] / hours / boxes, "driver": spent["driver"] / hours}


def main() -> None:
    asked = bench_parser(__doc__, write="docs/cluster.json").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        take_s, table = driver_s(Path(folder)), table_mb(Path(folder))
    picture_h = painted_h()
    rows = {(boxes, shard): simulate(boxes, shard, take_s, picture_h) for shard in SHARDS for boxes in BOXES}
    for (boxes, shard), row in rows.items():
        told = f"{row['hours']:7.1f} h, painting {row['painting']:.0%}, driver {row['driver']:.0%}"
        print(f"{boxes:4} boxes, shards of {shard:5}: {told}")
    bound_h = SOURCES * PICTURES * take_s / 3600
    alone_h = SOURCES * (PICTURES - 1) * picture_h
    hours = {str(shard): {str(boxes): round(rows[boxes, shard]["hours"], 2) for boxes in BOXES} for shard in SHARDS}
    to_store = round(SOURCES * PICTURES * PICTURE_MB / rows[100, 64]["hours"] / 3600, 1)
    figures: dict[str, Any] = {"driver_ms_a_picture": round(1000 * take_s, 2), "one_box_h": round(alone_h, 1)}
    figures |= {"driver_h": round(bound_h, 2), "stops_at_boxes": round(alone_h / bound_h), "hours": hours}
    figures |= {"table_mb": round(table, 1), "to_store_mb_s_100": to_store}
    if asked.write:
        keep_figures(DOCS / "cluster.json", {"simulation": figures})
        (DOCS / "cluster.svg").write_text(drawing(rows, bound_h), encoding="utf-8")
    finish("fleet", **figures)


def drawing(rows: dict[tuple[int, int], dict[str, float]], bound_h: float) -> str:
    """Hours over boxes, both on scales of powers."""
    low, high, wide, tall = 0.2, 60.0, 640, 360

    def at(boxes: float, hours: float) -> tuple[float, float]:
        x = 60 + (wide - 90) * np.log(boxes) / np.log(BOXES[-1])
        return round(float(x), 1), round(float(20 + (tall - 70) * np.log(high / hours) / np.log(high / low)), 1)

    def line(path: str, colour: str, dashes: str = "", width: int = 1) -> str:
        return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"/>'

    def text(x: float, y: float, said: str, anchor: str = "middle") -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{said}</text>'

    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" font-family="sans-serif"'
    parts = [f'{opening} font-size="12">', f'<rect width="{wide}" height="{tall}" fill="white"/>']
    for hours in (1, 10, 40):
        x, y = at(1, hours)
        parts += [line(f"M{x} {y}H{wide - 30}", "#ddd"), text(x - 8, y + 4, f"{hours} h", "end")]
    for boxes in BOXES:
        x, y = at(boxes, low)
        parts.append(text(x, y + 18, str(boxes)))
    for shard, colour, dashes in zip(SHARDS, ("#b5482a", "#1f6f8b", "#333333"), ("2 3", "7 3", ""), strict=True):
        points = [at(boxes, rows[boxes, shard]["hours"]) for boxes in BOXES]
        place = 250 + 15 * SHARDS.index(shard)
        parts.append(line("M" + "L".join(f"{x} {y}" for x, y in points), colour, dashes, 2))
        said = text(124, place + 4, f"shards of {shard} sources", "start")
        parts += [line(f"M80 {place}h36", colour, dashes, 2), said]
    x, y = at(1, bound_h)
    parts += [line(f"M{x} {y}H{wide - 30}", "#888", "1 4"), text(x + 230, y - 5, "the driver alone", "start")]
    return "\n".join([*parts, text(wide / 2, tall - 8, "boxes with one A10G each"), "</svg>\n"])


if __name__ == "__main__":
    main()
