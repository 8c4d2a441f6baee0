"""The trainings' losses as one drawing: a panel a model, step across, loss up on a logarithmic scale."""

from __future__ import annotations

import json
import math
from pathlib import Path

_WIDTH, _HEIGHT, _MARGIN = 260, 150, 34


def read_logs(work: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, loss) of every training in `work`, in order of step; where a training was resumed the later run counts."""
    logs = {}
    for file in sorted(work.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        logs[file.stem] = sorted({int(row["step"]): float(row["loss"]) for row in rows}.items())
    return logs


def draw_curves(logs: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """Write an SVG with a panel for each training that has at least two points."""
    panels = [(name, points) for name, points in logs.items() if len(points) > 1]
    columns = 4
    rows = math.ceil(len(panels) / columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * _WIDTH}" height="{rows * _HEIGHT}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for i, (name, points) in enumerate(panels):
        left, top = i % columns * _WIDTH + _MARGIN, i // columns * _HEIGHT + 22
        wide, high = _WIDTH - _MARGIN - 12, _HEIGHT - 46
        losses = [math.log10(max(loss, 1e-6)) for _, loss in points]
        low, span, last = min(losses), max(max(losses) - min(losses), 1e-9), points[-1][0]
        line = " ".join(
            f"{left + wide * step / last:.1f},{top + high * (1 - (loss - low) / span):.1f}"
            for (step, _), loss in zip(points, losses, strict=True)
        )
        parts += [
            f'<text x="{left}" y="{top - 6}" font-weight="bold">{name}: {points[-1][1]:.3g} after {last} steps</text>',
            f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#bbb"/>',
            f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="1.5"/>',
            f'<text x="{left - 4}" y="{top + 9}" text-anchor="end">{10 ** max(losses):.2g}</text>',
            f'<text x="{left - 4}" y="{top + high}" text-anchor="end">{10**low:.2g}</text>',
        ]
    path.write_text("\n".join([*parts, "</svg>", ""]))
