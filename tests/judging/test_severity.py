"""Severity curves: what a type does at each level, and the level at which a limit breaks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from picture_rows import control_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.judging.limits import Drop, check_limits
from counterfactory.engine.suite import PictureRow

LEVELS = 4


def leveled(sources: int, fails: tuple[float, ...]) -> tuple[list[PictureRow], list[str]]:
    """A control and, of each of two types, a variant at each level; of time at level k the share fails[k - 1] fails."""
    random = np.random.default_rng(0)
    rows, answers = [control_row(source) for source in range(sources)], ["bus"] * sources
    for source, kind, level in product(range(sources), ("time", "weather"), range(1, LEVELS + 1)):
        name, edits = f"images/{source}/{kind}{level}.png", (Edit(kind, "", "x"),)
        rows.append(picture_row(3 * source, file_name=name, edits=edits, level=level, levels=LEVELS))
        wrong = kind == "time" and random.random() < fails[level - 1]
        answers.append("car" if wrong else "bus")
    return rows, answers


def test_a_curve_has_each_level_s_fall() -> None:
    rows, answers = leveled(150, (0.0, 0.1, 0.4, 0.9))
    effects = evaluate_labels(rows, answers).effects
    curve = [point for point in effects.by_level if point.type == "time"]
    assert [(point.level, point.levels) for point in curve] == [(k, LEVELS) for k in (1, 2, 3, 4)]
    for point in curve:
        name = f"time{point.level}"
        picked = [answer for row, answer in zip(rows, answers, strict=True) if name in row.file_name]
        assert point.effect.value == pytest.approx(-picked.count("car") / len(picked))
    assert [point.effect.clear for point in curve] == [False, True, True, True]
    assert all(point.effect.value == pytest.approx(0) for point in effects.by_level if point.type == "weather")


@pytest.mark.parametrize(
    ("fails", "points", "said"),
    [
        ((0.0, 0.1, 0.4, 0.9), 20, "broken from level 3 of 4"),
        ((0.0, 0.0, 0.0, 0.9), 60, "broken from level 4 of 4"),
        ((0.0, 0.0, 0.0, 0.1), 20, "broken at no single level"),
    ],
)
def test_the_level_at_which_a_limit_breaks(fails: tuple[float, ...], points: float, said: str) -> None:
    rows, answers = leveled(150, fails)
    (finding,) = check_limits(evaluate_labels(rows, answers), [Drop("time", points)], None)
    assert finding.figures.endswith(said)


def test_a_suite_of_one_level_has_no_curve() -> None:
    judged = evaluate_labels([control_row(), picture_row(0), picture_row(1)], ["bus"] * 3)
    assert judged.effects.by_level == ()
    (finding,) = check_limits(judged, [Drop("weather", 5)], None)
    assert "level" not in finding.figures
