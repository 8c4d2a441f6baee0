"""The share of an edit's effect that weather and light alone have, against arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.baselines import find_baseline_effects
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.report.effects_text import baselines_table, evaluation_tables
from counterfactory.engine.suite import PictureRow

FOG = (Edit("weather", "", "foggy"),)


def suite(painted: list[float], drawn: list[float]) -> list[tuple[PictureRow, float]]:
    """Sources that all are right on original and control, with one painted and one drawn picture each."""
    outcomes: list[tuple[PictureRow, float]] = []
    for number, (variant, baseline) in enumerate(zip(painted, drawn, strict=True)):
        source = f"s{number}"
        of_source = {"source": source, "label": "dog"}
        outcomes += [
            (original_row(4 * number, **of_source), 1.0),
            (control_row(4 * number + 1, **of_source), 1.0),
            (picture_row(4 * number + 2, **of_source, key=f"k{number}", edits=FOG), variant),
            (picture_row(4 * number + 3, **of_source, key=f"k{number}", edits=FOG, kind="baseline"), baseline),
        ]
    return outcomes


def types_of(row: PictureRow) -> set[str]:
    return set(row.edit_types)


def test_the_share_is_the_ratio_of_the_mean_effects_with_the_jackknife_s_interval() -> None:
    painted, drawn = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    (effect,) = find_baseline_effects(suite(painted, drawn), types_of, "control")
    x, y = np.array(painted) - 1, np.array(drawn) - 1
    left = np.array([np.delete(y, i).mean() / np.delete(x, i).mean() for i in range(6)])
    spread = np.sqrt(5 / 6 * ((left - left.mean()) ** 2).sum())
    assert (effect.name, effect.sources, effect.pictures) == ("weather", 6, 6)
    assert effect.painted == pytest.approx(x.mean())
    assert effect.drawn == pytest.approx(y.mean())
    assert effect.share == pytest.approx(y.mean() / x.mean())
    reach = 2.5706 * spread
    assert (effect.low, effect.high) == pytest.approx((effect.share - reach, effect.share + reach), abs=1e-3)


@pytest.mark.parametrize(
    ("painted", "before"),
    [([1.0] * 5, 1.0), ([0.0, 1.0, 0.0, 0.97], 0.5), ([0.0] * 2, 1.0), ([0.0, *[0.99125] * 4], 1.0)],
    ids=["nothing", "about as much gained as lost", "two sources", "one source's"],
)
def test_there_is_no_share_of_nothing_or_of_what_too_few_sources_show(painted: list[float], before: float) -> None:
    outcomes = [(row, before if row.kind == "control" else one) for row, one in suite(painted, [0.0] * len(painted))]
    (effect,) = find_baseline_effects(outcomes, types_of, "control")
    assert (effect.share, effect.low, effect.high) == (None, None, None)
    assert effect.drawn == -1
    outcomes = [(row, value) for row, value in suite([0.0] * 4, [0.0] * 4) if row.kind != "baseline" or row.key != "k2"]
    (effect,) = find_baseline_effects(outcomes, types_of, "control")
    assert (effect.sources, effect.share) == (3, 1)


def test_drawn_pictures_are_in_no_other_figure() -> None:
    outcomes = suite([0.0, 1.0, 0.0, 1.0], [0.0] * 4)
    rows = [row for row, _ in outcomes]
    answers = ["dog" if value else "cat" for _, value in outcomes]
    without = [(row, answer) for row, answer in zip(rows, answers, strict=True) if row.kind != "baseline"]
    full = evaluate_labels(rows, answers)
    plain = evaluate_labels([row for row, _ in without], [answer for _, answer in without])
    assert full.effects.by_type == plain.effects.by_type
    assert full.effects.by_class == plain.effects.by_class
    assert full.variants == plain.variants
    assert plain.effects.baselines == ()
    assert [one.name for one in full.effects.baselines] == ["weather", "weather: foggy"]
    table = baselines_table(full.effects)
    assert table in evaluation_tables(full)
    assert table.rows[0][:3] == ("weather", "-50.0", "-100.0")
