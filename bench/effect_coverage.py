"""Of simulated suites: what intervals hold, what is called clear, whether edits are seen not to add, and how long a
thousand classes take. For `effects.py`.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measure import available_cores, show
from simulated_suites import MODELS, NOT_ADDING, classes_suite, draw_suite

from counterfactory.engine.judging.effects import estimate_effects, find_interactions
from counterfactory.engine.judging.evaluate import evaluate_labels

# Sources of a suite: a demo's, a small one's, a usual one's.
_SIZES = (24, 100, 298)
# Sources that a truth is of.
_TRUTH_SOURCES = 50_000
# Values are counted in one suite of so many: those that are drawn alike count together.
_BY_VALUE = 2
# Effects by type or by value, of all variants or of those with one edit.
Cell = tuple[str, bool]
_CELLS: tuple[Cell, ...] = (("type", False), ("type", True), ("value", False), ("value", True))
# Intervals of a group that tell its coverage.
_ENOUGH = 100
_CLASSES, _SOURCES = 1000, 50_000


def measure_coverage(draws: int) -> dict[str, Any]:
    """What intervals hold, and what is called clear, of simulated suites."""
    with ProcessPoolExecutor(available_cores()) as workers:
        truths = dict(zip(MODELS, workers.map(_truth, MODELS), strict=True))
        # The largest first, so that no core waits at the end.
        asked = [(name, size, draws, truths[name]) for size in sorted(_SIZES, reverse=True) for name in MODELS]
        tallies = list(workers.map(_tally, asked))
    rows = []
    for tally in tallies:
        held = (f"{100 * tally.least(cell):.1f}" for cell in _CELLS)
        clear = " ".join(f"{100 * tally.clear_share(by):.1f}" for by in ("type", "value"))
        rows.append((tally.model, str(tally.size), *held, clear, f"{100 * tally.not_adding / draws:.1f}"))
    columns = ("model", "size", "type", "alone", "value", "alone", "clear", "pairs")
    show("% of intervals that hold the truth; of suites with a clear type, value, pair", columns, rows)
    adding = [tally for tally in tallies if tally.model not in NOT_ADDING]
    others = [tally for tally in tallies if tally.model in NOT_ADDING]
    harmless = [tally for tally in tallies if MODELS[tally.model].harmless]

    def least(tallies: Sequence[_Tally], *by: str) -> float:
        return round(min(share for t in tallies for cell in _CELLS if cell[0] in by for share in [t.least(cell)]), 4)

    figures: dict[str, Any] = {f"coverage_least_by_{by}": least(adding, by) for by in ("type", "value")}
    figures["coverage_least_saturating"] = least(others, "type", "value")
    for by in ("type", "value"):
        figures[f"false_clear_by_{by}"] = round(max(t.clear_share(by) for t in harmless), 4)
    figures["false_not_adding"] = round(max(t.not_adding for t in adding) / draws, 4)
    figures["seen_not_adding"] = {str(t): round(t.not_adding / draws, 4) for t in others}
    figures["coverage_by_model"] = {
        str(t): {f"{by}{' alone' * alone}": round(t.least((by, alone)), 4) for by, alone in _CELLS} for t in tallies
    }
    return {**figures, "coverage_draws": draws}


@dataclass
class _Tally:
    """Of the suites of a model of one size: intervals that exist and that hold the truth, by cell (by type or value,
    alone or not) and group of names; suites with a clear effect, by cell; suites whose edits are said not to add.
    """

    model: str
    size: int
    asked: Counter[tuple[Cell, str]] = field(default_factory=Counter)
    held: Counter[tuple[Cell, str]] = field(default_factory=Counter)
    suites: Counter[Cell] = field(default_factory=Counter)
    clear: Counter[Cell] = field(default_factory=Counter)
    not_adding: int = 0

    def __str__(self) -> str:
        return f"{self.model}, {self.size} sources"

    def clear_share(self, by: str) -> float:
        """The share of suites where some effect is called clear, over the mix of edits or alone."""
        return max(self.clear[by, alone] / self.suites[by, alone] for alone in (False, True))

    def least(self, cell: Cell) -> float:
        """The least coverage of a group of names, of groups with enough intervals to tell."""
        return min(self.held[key] / count for key, count in self.asked.items() if key[0] == cell and count >= _ENOUGH)


def _truth(model: str) -> dict[Cell, dict[str, float]]:
    """What many sources show, by cell and name. They are none of those that suites are drawn of."""
    suite = draw_suite(MODELS[model], _TRUTH_SOURCES, np.random.default_rng(1), chances=True)
    return {cell: {e.name: e.value or 0 for e in estimate_effects(*suite.observations(*cell))} for cell in _CELLS}


def _tally(asked: tuple[str, int, int, dict[Cell, dict[str, float]]]) -> _Tally:
    model, size, draws, truths = asked
    rng, tally = np.random.default_rng([2, size]), _Tally(model, size)
    for number in range(draws):
        suite = draw_suite(MODELS[model], size, rng)
        for cell in _CELLS:
            if cell[0] == "value" and number % _BY_VALUE:
                continue
            effects = estimate_effects(*suite.observations(*cell))
            tally.suites[cell] += 1
            tally.clear[cell] += any(effect.clear for effect in effects)
            for effect in effects:
                if effect.low is not None and effect.high is not None:
                    truth = truths[cell][effect.name]
                    key = cell, _group(effect.name, truth)
                    tally.asked[key] += 1
                    tally.held[key] += effect.low <= truth <= effect.high
        tally.not_adding += any(e.clear for e in find_interactions(suite.answers(), "control"))
    return tally


def _group(name: str, truth: float) -> str:
    """Names of one type with one truth are drawn alike, and count together: of single ones the least is mere luck."""
    return f"{name.partition(':')[0]} {round(truth, 2) + 0:.2f}"


def measure_scale() -> dict[str, Any]:
    """Seconds and peak memory of judging 1,000 classes over 50,000 sources of an original, a control and 5 variants."""
    rows, answers = classes_suite(_CLASSES, _SOURCES)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    evaluation = evaluate_labels(rows, answers)
    seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if len(evaluation.effects.by_class) != _CLASSES:
        raise SystemExit("not every class has an effect")
    memory = {"gb": round(peak * 1024 / 1e9, 2), "rows_gb": round(held * 1024 / 1e9, 2)}
    figures = {"s": round(seconds, 1), **memory, "pictures": len(rows), "sources": _SOURCES}
    return {f"classes_1000_{name}": value for name, value in figures.items()}
