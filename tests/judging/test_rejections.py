"""What rejections can do to effects: by counting, and by how often a gate that is blind to failure is accused."""

from __future__ import annotations

import numpy as np
import pytest
from picture_rows import control_row, picture_row

from counterfactory.engine.judging.effects import Effect
from counterfactory.engine.judging.evaluate import edit_types
from counterfactory.engine.judging.rejections import Rejections, find_rejections, share_to_explain, share_to_hide


def effect(value: float) -> Effect:
    return Effect("fog", value, value - 0.02, value + 0.02, 0.1, 0.1, 60, 60)


def test_the_share_that_is_missing_is_counted() -> None:
    """Of 100 variants 40 are rejected; nine of ten baselines are right."""
    lost = Rejections("fog", 100, 40)
    # 15 of 100 would fail by a loss of 5 points, and 6 of 60 are seen to.
    assert share_to_hide(effect(0.0), lost, 0.9) == pytest.approx(9 / 15)
    assert share_to_hide(effect(-0.05), lost, 0.9) == pytest.approx(6 / 15), "the rest is as large"
    assert share_to_hide(effect(-0.2), lost, 0.9) is None, "there are more already"
    assert share_to_hide(effect(0.1), Rejections("fog", 100, 10), 0.9) is None, "15 would have to be missing"
    assert share_to_hide(effect(0.2), lost, 0.9) == 1.0, "all that fail"
    # 90 of 100 would be right if fog did nothing, and 51 of 60 are seen to be.
    assert share_to_explain(effect(-0.05), lost, 0.9) == pytest.approx(39 / 90)
    assert share_to_explain(effect(-0.1), lost, 0.9) is None
    assert share_to_explain(effect(-0.05), Rejections("fog", 100, 0), 0.9) is None
    assert share_to_explain(effect(0.0), lost, 0.0) is None


def judged(wrong: np.ndarray, gone: np.ndarray, variants: int = 2) -> Rejections:
    rows = [
        picture_row(3 * g + k, source=str(g), reason="x" if gone[g, k] else None)
        for g in range(len(wrong))
        for k in range(variants)
    ]
    controls = [(control_row(g, source=str(g)), float(not fails)) for g, fails in enumerate(wrong)]
    (one,) = find_rejections(rows, controls, "control", (edit_types,))
    return one


def test_a_gate_that_is_blind_to_failure_is_seldom_accused_and_one_that_is_not_is_found() -> None:
    rng = np.random.default_rng(0)
    accused, caught = 0, 0
    for _ in range(300):
        wrong = rng.random(100) < 0.15
        accused += judged(wrong, rng.random((100, 2)) < 0.25).follow_failure
        caught += judged(wrong, rng.random((100, 2)) < np.where(wrong, 0.6, 0.2)[:, None]).follow_failure
    assert accused <= 22, "one in twenty, and a little more"
    assert caught >= 270


def test_variants_of_one_source_that_are_rejected_together_count_as_one() -> None:
    rng = np.random.default_rng(1)
    accused = 0
    for _ in range(300):
        together = np.repeat(rng.random((100, 1)) < 0.25, 5, axis=1)
        accused += judged(rng.random(100) < 0.2, together, 5).follow_failure
    assert accused <= 22


def test_without_answers_or_without_any_difference_nothing_is_said() -> None:
    none = judged(np.zeros(20, bool), np.arange(40).reshape(20, 2) % 3 == 0)
    assert (none.on_wrong, none.q, none.follow_failure) == (None, None, False)
    assert none.on_right == pytest.approx(none.rejected / none.variants)
    (unknown,) = find_rejections([picture_row(reason="x")], [], "control", (edit_types,))
    assert (unknown.name, unknown.variants, unknown.rejected, unknown.q) == ("weather", 1, 1, None)
