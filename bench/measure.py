"""What every bench shares: interleaved timing, the machine's name, and the JSON object that ends its output."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from counterfactory.engine.config.profile import ModelPaths, Profile
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.export.pocket.packed import gather


def with_masters(profile: Profile) -> Profile:
    """A profile of the embedded models over all of them in one folder, in the user's cache: masters and restoring."""
    if profile.models.folder != "pocket":
        return profile
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = gather(Path(home) / "counterfactory" / "bench" / "packed")
    return replace(profile, models=ModelPaths(str(folder)))


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the candidate was as the baseline: one value a round, and the seconds behind them."""

    values: tuple[float, ...]
    baseline_s: float
    candidate_s: float

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({min(self.values):.2f} to {max(self.values):.2f}, {len(self.values)} rounds)"


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(baseline: Callable[[], object], candidate: Callable[[], object], rounds: int, warm: bool = True) -> Ratio:
    """Time both by turns, `rounds` times each, in alternating order, after one untimed call each (`warm`)."""
    if warm:
        baseline()
        candidate()
    pairs: list[tuple[float, float]] = []
    for i in range(rounds):
        if i % 2:
            second = seconds(candidate)
            first = seconds(baseline)
        else:
            first = seconds(baseline)
            second = seconds(candidate)
        pairs.append((first, second))
    medians = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Ratio(tuple(a / b for a, b in pairs), *medians)


def machine() -> str:
    """CPU, cores and the precision that "auto" means."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, {resolve_precision('auto')}"


def finish(claim: str, ratio: Ratio | None, ceiling_share: float | None = None, **more: Any) -> None:
    """Print the line that ends every bench: one JSON object."""
    row: dict[str, Any] = {"claim": claim}
    if ratio is not None:
        row |= {"ratio": ratio.median, "ratio_min": min(ratio.values), "ratio_max": max(ratio.values)}
    if ceiling_share is not None:
        row["ceiling_share"] = ceiling_share
    row |= {"machine": machine(), **more}
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}))
