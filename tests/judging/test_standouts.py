"""What stands out: found where it is planted, seldom where nothing differs, and said no larger than it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counterfactory.engine.judging.effects import PictureOutcome, find_effects
from counterfactory.engine.judging.standouts import Contrast, JointEffects, find_standouts, stand_out
from counterfactory.engine.judging.student import t_reach

VALUES = ("time: dawn", "time: dusk", "time: night", "weather: foggy", "weather: rainy", "weather: snowy")


def drawn(
    rng: np.random.Generator, losses: dict[str, float], sources: int = 100, variants: int = 4
) -> list[PictureOutcome]:
    """Of a model that fails on every tenth picture, and oftener by some values; each variant has one or two."""
    answers = []
    for g in range(sources):
        hard = rng.beta(1, 9)
        answers.append(PictureOutcome(str(g), "control", float(rng.random() > hard)))
        for k in range(variants):
            names = rng.choice(3, 1 + k % 2) + np.array([0, 3])[: 1 + k % 2]
            carried = frozenset(VALUES[n] for n in names)
            fails = hard + sum(losses.get(name, 0.0) for name in carried)
            answers.append(PictureOutcome(str(g), "variant", float(rng.random() > fails), carried))
    return answers


def test_the_contrast_is_the_value_less_the_mean_of_the_others_with_its_own_error() -> None:
    rng = np.random.default_rng(0)
    answers = drawn(rng, {"time: night": 0.4})
    effects = {one.name: one for one in find_effects(answers, "control")}
    found = {one.name: one for one in find_standouts(answers, "control")}
    assert list(found) == list(VALUES)
    weights = {name: effects[name].pictures for name in ("time: dawn", "time: dusk")}
    others = sum(weights[name] * effects[name].value for name in weights) / sum(weights.values())
    night = found["time: night"]
    assert night.others == pytest.approx(others)
    # Leaving out each source, as everywhere, with the interval that holds for six values, and for classes, at once.
    parts = []
    for g in range(100):
        some = {one.name: one for one in find_effects([a for a in answers if a.source != str(g)], "control")}
        left = sum(some[n].pictures * some[n].value for n in weights) / sum(some[n].pictures for n in weights)
        parts.append(some["time: night"].value - left)
    gap = effects["time: night"].value - others
    error = np.sqrt(99 / 100 * ((np.array(parts) - gap) ** 2).sum())
    reach = t_reach(1 - 0.05 / 12, effects["time: night"].sources - 1) * error
    assert (night.low, night.high) == (pytest.approx(gap - reach, rel=0.03), pytest.approx(gap + reach, rel=0.03))
    assert [name for name, one in found.items() if one.clear] == ["time: night"]
    assert found["time: dawn"].low > 0, "it certainly loses less"


def test_where_values_lose_alike_few_pages_name_one() -> None:
    rng = np.random.default_rng(1)
    alike = dict.fromkeys(VALUES, 0.25)
    named = sum(any(one.clear for one in find_standouts(drawn(rng, alike), "control")) for _ in range(120))
    assert named <= 6


def test_a_value_that_loses_more_is_named_and_the_interval_holds_how_much_more() -> None:
    rng = np.random.default_rng(2)
    named, held = 0, 0
    for _ in range(60):
        more = [one for one in find_standouts(drawn(rng, {"weather: snowy": 0.45}), "control") if one.clear]
        named += [one.name for one in more] == ["weather: snowy"]
        held += all(one.low <= -0.45 * 0.95 <= one.high for one in more)
    assert named >= 50
    assert held >= 57


def test_a_type_of_one_value_and_a_value_of_one_source_have_nothing_to_stand_out_of() -> None:
    rng = np.random.default_rng(3)
    drawn_ = [replace(a, names=frozenset(n for n in a.names if "weather" in n)) for a in drawn(rng, {})]
    answers = [a for a in drawn_ if a.names or a.kind == "control"]
    answers += [PictureOutcome("0", "variant", 0.0, frozenset({"colour: red"}))]
    answers += [PictureOutcome(str(g), "variant", 0.0, frozenset({"colour: blue"})) for g in range(30)]
    assert {one.name.partition(":")[0] for one in find_standouts(answers, "control")} == {"weather"}
    assert find_standouts([a for a in answers if not a.names], "control") == ()
    assert stand_out([]) == ()


def test_few_sources_leave_the_doubt_of_few_sources() -> None:
    """All of four sources lose by one and none by the other: so do as many coins in one throw of eight."""
    alone = Contrast("a", -1.0, 0.0, 0.0, 4, 1.0)
    assert not stand_out([alone] * 6)[0].clear
    assert stand_out([Contrast("a", -1.0, 0.0, 0.0, 20, 1.0)] * 6)[0].clear


def test_covariances_of_names_in_other_blocks_are_nothing() -> None:
    answers = [PictureOutcome(f"{k}{g}", "control", 1.0) for k in "ab" for g in range(9)]
    answers += [PictureOutcome(f"{k}{g}", "variant", g % 2, frozenset({f"t: {k}"})) for k in "ab" for g in range(9)]
    joint = JointEffects.of(answers, "control")
    covariance = joint.covariance(joint.separate("t: "))
    assert covariance[0, 1] == covariance[1, 0] == 0
    assert covariance.diagonal() == pytest.approx(joint.estimates.spread**2)
