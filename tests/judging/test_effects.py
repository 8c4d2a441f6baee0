"""Effects against plain regressions, by hand, and against what a large population holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from counterfactory.engine.judging import effects, within
from counterfactory.engine.judging.effects import (
    Effect,
    Flips,
    PictureOutcome,
    find_effects,
    find_flips,
    find_interactions,
    find_mix_gaps,
)
from counterfactory.engine.judging.student import (
    chi_square_p,
    false_discovery,
    proportion_interval,
    t_reach,
    two_sided_p,
)

TYPES = ("colour", "fog", "night")


def variant(source: str, outcome: float, *names: str, group: str = "") -> PictureOutcome:
    return PictureOutcome(source, "variant", outcome, frozenset(names), group)


def control(source: str, outcome: float) -> PictureOutcome:
    return PictureOutcome(source, "control", outcome)


def original(source: str, outcome: float) -> PictureOutcome:
    return PictureOutcome(source, "original", outcome)


def by_name(found: Sequence[Effect]) -> dict[str, Effect]:
    return {effect.name: effect for effect in found}


@st.composite
def suites(draw: st.DrawFn) -> list[PictureOutcome]:
    """A control and a few variants a source, with any names and outcomes."""
    answers = []
    for g in range(draw(st.integers(2, 7))):
        answers += [control(f"s{g}", draw(st.integers(0, 1))) for _ in range(draw(st.integers(1, 2)))]
        for _ in range(draw(st.integers(0, 4))):
            names = draw(st.sets(st.sampled_from(TYPES), min_size=1, max_size=2))
            answers.append(variant(f"s{g}", draw(st.integers(0, 1)), *names))
    return answers


def dummies(answers: Sequence[PictureOutcome]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[str]]:
    """The regression written out: a column for each name, and one for each source."""
    names = sorted({name for answer in answers for name in answer.names})
    sources = sorted({answer.source for answer in answers})
    x = [[*(n in a.names for n in names), *(s == a.source for s in sources)] for a in answers]
    return np.array(x, float), np.array([a.outcome for a in answers], float), names


def counted(answers: Sequence[PictureOutcome]) -> np.ndarray[Any, Any]:
    """What each picture counts: a source's variants one together, its baselines four."""
    many = Counter((answer.source, bool(answer.names)) for answer in answers)
    return np.array([(1 if a.names else 4) / many[a.source, bool(a.names)] for a in answers], float)


@settings(max_examples=60, deadline=None)
@given(suites())
def test_effects_are_the_regression_with_a_column_for_each_source(answers: list[PictureOutcome]) -> None:
    x, y, names = dummies(answers)
    root = np.sqrt(counted(answers))
    x, y = x * root[:, None], y * root
    found = find_effects(answers, "control")
    assert [effect.name for effect in found] == names
    solved = np.linalg.lstsq(x, y, rcond=None)[0]
    inverse = np.linalg.pinv(x) @ x
    for k, effect in enumerate(found):
        told_apart = np.allclose(inverse[k], np.eye(x.shape[1])[k], atol=1e-8)
        assert (effect.value is not None) == told_apart
        if effect.value is not None:
            assert effect.value == pytest.approx(solved[k], abs=1e-8)
        assert effect.pictures == sum(effect.name in answer.names for answer in answers)


@pytest.mark.parametrize("floats", [1, 300, 1 << 22])
def test_the_spread_is_that_of_leaving_out_each_source(floats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(within, "_BATCH", floats)
    rng = np.random.default_rng(1)
    answers = []
    for g in range(12):
        answers.append(control(f"s{g}", float(rng.random() < 0.9)))
        answers += [variant(f"s{g}", float(rng.random() < 0.5), name) for name in ("fog", "night")]
        answers.append(variant(f"s{g}", float(rng.random() < 0.3), "fog", "colour"))
    whole, spread, _ = leave_one_out(answers)
    for k, effect in enumerate(find_effects(answers, "control")):
        reach = stats.t.ppf(0.975, 11) * spread[k]
        assert (effect.low, effect.high) == pytest.approx((whole[k] - reach, whole[k] + reach))
        assert effect.p == pytest.approx(2 * stats.t.sf(abs(whole[k]) / spread[k], 11))
        assert effect.sources == 12


def test_no_interval_is_narrower_than_what_so_many_sources_can_have_missed() -> None:
    """Of 40 sources one reacts: by t alone within 2.5 +- 5.1 points. Each of them, not reacting, excludes 8.8."""
    answers = [a for g in range(40) for a in (control(f"s{g}", 1), variant(f"s{g}", float(g > 0), "fog"))]
    (fog,) = find_effects(answers, "control")
    unseen = stats.beta.ppf(0.975, 1, 40)
    assert (fog.low, fog.high) == pytest.approx((-0.025 - unseen, -0.025 + unseen))
    assert fog.p == pytest.approx(2 * stats.t.sf(0.025 / (unseen / stats.t.ppf(0.975, 39)), 39))
    # Outcomes that never differ by more than a tenth leave a tenth of the doubt.
    (narrow,) = find_effects([replace(a, outcome=0.5 + a.outcome / 10) for a in answers], "control")
    assert (narrow.low, narrow.high) == pytest.approx((fog.low / 10, fog.high / 10))  # type: ignore[operator]
    assert narrow.p == pytest.approx(fog.p)


def leave_one_out(answers: Sequence[PictureOutcome]) -> tuple[Any, Any, Any]:
    """The values, their spread and what is separate by one dense system over all names, solved anew without each group
    of sources.
    """
    names = sorted({name for answer in answers for name in answer.names})
    systems: dict[str, Any] = {}
    sides: dict[str, Any] = {}
    for source in sorted({answer.source for answer in answers}):
        some = [answer for answer in answers if answer.source == source]
        weight = counted(some)
        carried = np.array([[name in answer.names for name in names] for answer in some], float)
        carried -= np.average(carried, axis=0, weights=weight)
        group = some[0].group or source
        systems[group] = systems.get(group, 0) + carried.T @ (weight[:, None] * carried)
        outcomes = np.array([answer.outcome for answer in some])
        sides[group] = sides.get(group, 0) + carried.T @ (weight * outcomes)
    total, side, count = sum(systems.values()), sum(sides.values()), len(systems)
    inverse = np.linalg.pinv(total, rcond=1e-10, hermitian=True)
    whole = inverse @ side
    parts = [np.linalg.pinv(total - systems[g], rcond=1e-10, hermitian=True) @ (side - sides[g]) for g in systems]
    spread = np.sqrt((count - 1) / count * sum((part - whole) ** 2 for part in parts))
    return whole, spread, np.abs(inverse @ total - np.eye(len(names))).max(axis=1) < 1e-6


@st.composite
def classes(draw: st.DrawFn) -> list[PictureOutcome]:
    """Sources of which some share names and some have one of their own, and some no baseline."""
    answers = []
    for g in range(draw(st.integers(2, 9))):
        answers += [control(f"s{g}", draw(st.integers(0, 1))) for _ in range(draw(st.integers(0, 2)))]
        pool = draw(st.sampled_from([("a",), ("b",), ("c", "d"), ("e",), ("f", "g", "h"), ("h", "i")]))
        for _ in range(draw(st.integers(0, 4))):
            names = draw(st.sets(st.sampled_from(pool), min_size=1, max_size=3))
            answers.append(variant(f"s{g}", draw(st.integers(0, 1)), *names))
    return answers


@settings(max_examples=200, deadline=None)
@given(st.one_of(suites(), classes()), st.sampled_from([0, 2, 3]))
def test_blocks_and_updates_are_the_dense_systems_solved_anew(answers: list[PictureOutcome], groups: int) -> None:
    """Also where a name is told from others in one source alone, without which the system is singular, and where
    sources lie in groups.
    """
    if groups:
        answers = [replace(answer, group=str(int(answer.source[1:]) % groups)) for answer in answers]
    names = tuple(sorted({name for answer in answers for name in answer.names}))
    assume(names)
    used = [answer for answer in answers if answer.names or answer.kind == "control"]
    whole, spread, separate = leave_one_out(used)
    found = within.regress(effects.observe_pictures(answers, names, "control"))
    np.testing.assert_allclose(found.value, whole, atol=1e-9)
    np.testing.assert_allclose(found.spread, spread, atol=1e-7)
    np.testing.assert_array_equal(found.separate, separate)


def test_a_thousand_classes_are_a_thousand_small_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    solve = np.linalg.pinv
    monkeypatch.setattr(np.linalg, "pinv", lambda a, **more: sizes.append(a.shape[-1]) or solve(a, **more))
    answers = [a for g in range(3000) for a in (control(f"s{g}", 1), variant(f"s{g}", g % 2, f"c{g % 1000:04}"))]
    found = find_effects(answers, "control")
    assert (len(found), {effect.sources for effect in found}) == (1000, {3})
    assert set(sizes) == {1}


def test_interactions_are_what_a_pair_does_beyond_the_sum() -> None:
    """Night costs two of four, fog one of four, both together one of four: two less than their sum."""
    outcomes = {(): 4, ("night",): 2, ("fog",): 3, ("fog", "night"): 3, ("colour",): 4, ("colour", "fog"): 3}
    answers = []
    for g in range(40):
        for names, right in outcomes.items():
            kind = variant if names else lambda source, outcome: control(source, outcome)
            answers.append(kind(f"s{g}", float(g % 4 < right), *names))
    found = by_name(find_interactions(answers, "control"))
    assert {name: effect.value for name, effect in found.items()} == {
        "colour with fog": pytest.approx(0),
        "fog with night": pytest.approx(0.5),
    }
    assert [effect.clear for effect in found.values()] == [False, True]
    x, y, _ = dummies(answers)
    names = sorted({name for a in answers for name in a.names})
    pairs = [{"colour", "fog"}, {"fog", "night"}]
    both = [[float(pair <= a.names) for pair in pairs] for a in answers]
    x = np.hstack([x[:, : len(names)], both, x[:, len(names) :]])
    assert np.linalg.lstsq(x, y, rcond=None)[0][3:5] == pytest.approx([0, 0.5], abs=1e-9)
    assert find_interactions([a for a in answers if len(a.names) < 2], "control") == ()


def test_each_source_counts_once_however_many_of_its_variants_were_accepted() -> None:
    """Hard sources keep one variant and always fail by fog, easy ones keep six and never do."""
    answers = []
    for g in range(40):
        answers.append(control(f"s{g}", 1))
        answers += [variant(f"s{g}", float(g % 2), "fog")] * (6 if g % 2 else 1)
    (fog,) = find_effects(answers, "control")
    assert fog.value == pytest.approx(-0.5)
    assert (fog.sources, fog.pictures) == (40, 140)


def test_a_group_of_sources_is_what_intervals_are_of() -> None:
    """Five drives of 20 frames, of which one fails as a whole: that is one of five, and not 20 of 100."""
    answers = []
    for g in range(100):
        drive = f"drive {g % 5}"
        answers += [replace(control(f"s{g}", 1), group=drive), variant(f"s{g}", float(g % 5 > 0), "fog", group=drive)]
    (grouped,), (single,) = (
        find_effects(answers, "control"),
        find_effects([replace(a, group="") for a in answers], "control"),
    )
    assert (grouped.value, single.value) == (pytest.approx(-0.2), pytest.approx(-0.2))
    assert (grouped.sources, single.sources, grouped.pictures) == (5, 100, 100)
    assert single.high < 0 < grouped.high
    assert grouped.error == pytest.approx(0.2)
    assert (single.clear, grouped.clear) == (True, False)
    (flips,), (frames,) = (find_flips(some, "control") for some in (answers, [replace(a, group="") for a in answers]))
    assert flips.low == 0 < frames.low
    few = [a for a in answers if a.group != "drive 0"]  # which is to be one of four that fail by turns
    (effect,), (turned,) = find_effects(few, "control"), find_flips(few, "control")
    assert (effect.value, effect.low, effect.q, turned.low, turned.p) == (pytest.approx(0), None, None, None, None)


def test_the_mix_s_gap_is_the_difference_of_two_estimates_with_its_own_error() -> None:
    rng = np.random.default_rng(4)
    answers = []
    for g in range(60):
        answers.append(control(f"s{g}", float(rng.random() < 0.95)))
        for names in (("fog",), ("night",), ("fog", "night"), ("fog", "colour")):
            right = 0.1 if len({"fog", "night"} & set(names)) > 1 else 0.8
            answers += [variant(f"s{g}", float(rng.random() < right), *names)]
    mix, alone = (
        by_name(find_effects(some, "control")) for some in (answers, [a for a in answers if len(a.names) < 2])
    )
    gaps = by_name(find_mix_gaps(answers, "control"))
    assert gaps.keys() == {"fog", "night"}, "no picture is of colour alone"
    for name, gap in gaps.items():
        assert gap.value == pytest.approx(mix[name].value - alone[name].value)
        assert gap.sources == 60
    assert gaps["fog"].clear
    assert gaps["fog"].value < -0.1
    # Leaving out each source, both estimates change together.
    parts = []
    for g in range(60):
        some = [a for a in answers if a.source != f"s{g}"]
        whole, single = (find_effects(of, "control") for of in (some, [a for a in some if len(a.names) < 2]))
        parts.append(by_name(whole)["fog"].value - by_name(single)["fog"].value)
    error = np.sqrt(59 / 60 * np.sum((np.array(parts) - gaps["fog"].value) ** 2))
    assert gaps["fog"].error == pytest.approx(error)
    assert find_mix_gaps([a for a in answers if len(a.names) < 2], "control") == ()


def test_an_interval_that_is_only_a_floor_is_called_so() -> None:
    answers = [a for g in range(40) for a in (control(f"s{g}", 1), variant(f"s{g}", float(g > 0), "fog"))]
    (rare,) = find_effects(answers, "control")
    (usual,) = find_effects(
        [replace(a, outcome=float(int(a.source[1:]) % 3 > 0)) if a.names else a for a in answers], "control"
    )
    assert (rare.floored, usual.floored) == (True, False)
    assert not Effect("x", None, None, None, None, None, 0, 0).floored


def test_sources_that_all_react_alike_leave_doubt() -> None:
    """No two differ, and the interval still says what so few sources cannot exclude."""
    few = [a for g in range(5) for a in (control(f"s{g}", 1), variant(f"s{g}", 1, "colour"))]
    many = [a for g in range(500) for a in (control(f"s{g}", 1), variant(f"s{g}", 1, "colour"))]
    (some,), (most,) = find_effects(few, "control"), find_effects(many, "control")
    assert some.value == most.value == 0
    assert (some.low, some.high) == pytest.approx((-(1 - 0.025 ** (1 / 5)), 1 - 0.025 ** (1 / 5)))
    assert 0 < most.high < 0.01
    assert some.p == most.p == 1
    falls = [a for g in range(8) for a in (control(f"s{g}", 1), variant(f"s{g}", 0, "fog"))]
    (fog,) = find_effects(falls, "control")
    assert fog.p == pytest.approx(2**-7)  # as many heads in a row
    assert fog.clear


def test_what_cannot_be_told_apart_or_compared_has_no_value() -> None:
    answers = [a for g in range(9) for a in (control(f"s{g}", 1), variant(f"s{g}", g % 2, "fog", "night"))]
    answers += [variant("s0", 1, "colour"), variant("s1", 1, "colour")]
    found = by_name(find_effects(answers, "control"))
    assert found["fog"].value is found["night"].value is found["fog"].q is None
    assert found["fog"].pictures == 9
    assert found["colour"].value is not None
    paired = [a for g in range(4) for a in (control(f"s{g}", 1), variant(f"s{g}", g % 2, "fog"))]
    alone = [variant(f"x{g}", 0, "fog") for g in range(50)]
    assert find_effects([*paired, *alone], "control")[0].value == pytest.approx(-0.5)
    assert find_effects([*paired, *alone], "control")[0].sources == 4
    (unknown,) = find_effects(alone, "control")
    assert unknown == Effect("fog", None, None, None, None, None, 0, 50)


def test_no_interval_reaches_beyond_what_can_change_and_one_source_gives_none() -> None:
    answers = [control("s", 1), variant("s", 0, "fog"), control("t", 1), variant("t", 1, "fog")]
    (effect,) = find_effects(answers, "control")
    assert (effect.value, effect.low, effect.high) == (pytest.approx(-0.5), -1.0, 1.0)
    (effect,) = find_effects([control("s", 1), variant("s", 0, "fog")], "control")
    assert effect == Effect("fog", pytest.approx(-1), None, None, None, None, 1, 1)
    assert find_effects([], "control") == find_effects([control("s", 1)], "control") == ()


def test_many_comparisons_are_corrected() -> None:
    """Of forty names that do nothing a few would pass by themselves."""
    rng = np.random.default_rng(0)
    answers = []
    for g in range(60):
        answers.append(control(f"s{g}", float(rng.random() < 0.7)))
        answers += [variant(f"s{g}", float(rng.random() < 0.7), f"n{k:02}") for k in range(40)]
        answers.append(variant(f"s{g}", float(rng.random() < 0.1), "night"))
    found = find_effects(answers, "control")
    corrected = stats.false_discovery_control([effect.p for effect in found])
    assert [effect.q for effect in found] == pytest.approx(corrected)
    assert [effect.name for effect in found if effect.clear] == ["night"]


def population(seed: int, sources: int) -> list[PictureOutcome]:
    """Sources of which some are hard, painted with damage of its own; 5 variants with 1 to 3 edits.

    Colour does nothing. Fog turns answers that the source's own hardness decides, so that variants of one source hang
    together.
    """
    rng = np.random.default_rng(seed)
    answers = []
    for g in range(sources):
        ease = rng.normal(1.6, 1.2)

        def right(loss: float, ease: float = ease) -> float:
            return float(rng.random() < 1 / (1 + np.exp(loss - ease)))

        answers.append(control(f"s{g}", right(0.4)))
        for _ in range(5):
            names = {TYPES[k] for k in rng.choice(3, rng.integers(1, 4), replace=False)}
            loss = 0.4 + (2.0 if "fog" in names else 0) + (0.5 if "night" in names else 0)
            answers.append(variant(f"s{g}", right(loss), *names))
    return answers


def test_intervals_cover_the_effect_of_a_large_population() -> None:
    """Of 100 suites of 100 sources, at least 92 in 100 hold what 6,000 others show, for every type."""
    truth = by_name(find_effects(population(seed=2, sources=6000), "control"))
    held = dict.fromkeys(TYPES, 0)
    for suite in range(100):
        for effect in find_effects(population(seed=3 + suite, sources=100), "control"):
            value = truth[effect.name].value
            held[effect.name] += effect.low <= value <= effect.high
    assert min(held.values()) >= 92, held
    assert (truth["fog"].value or 0) < -0.2


def test_intervals_cover_what_seldom_fails_though_few_pictures_have_it() -> None:
    """Twenty-five pictures, of which one in twelve fails: one suite of nine shows no failure, and is still in doubt."""
    rng, held, clear = np.random.default_rng(6), 0, 0
    for _ in range(200):
        answers = [a for g in range(100) for a in (control(f"s{g}", 1), variant(f"s{g}", 1, "fog"))]
        answers[0] = control("s0", 0)
        answers += [variant(f"s{g}", float(rng.random() >= 1 / 12), "red") for g in range(25)]
        found = by_name(find_effects(answers, "control"))["red"]
        held += found.low <= -1 / 12 <= found.high
        clear += found.clear
    assert held >= 184, held
    assert clear < 20


def test_flips_count_pictures_that_turn_wrong_and_hold_sources_together() -> None:
    answers = []
    for g in range(20):
        answers.append(original(f"s{g}", 1))
        answers += [variant(f"s{g}", float(g >= 5), "fog")] * 2  # both pictures of a source turn together
    answers += [original("wrong", 0), variant("wrong", 1, "fog")]
    (flips,) = find_flips(answers, "original")
    assert (flips.right, flips.flipped, flips.rate) == (40, 10, 0.25)
    # The mean of 20 sources' shares, of which 5 are 1.
    reach = stats.t.ppf(0.975, 19) * np.sqrt(0.25 * 0.75 / 19)
    assert (flips.low, flips.high) == pytest.approx((0.25 - reach, 0.25 + reach))
    assert flips.p == pytest.approx(stats.chi2.sf((10 - 1) ** 2 / (5 * 4 + 1), 1))


def test_mcnemar_of_single_pictures_is_the_textbooks_and_all_baselines_have_to_be_right() -> None:
    answers = []
    for g in range(30):
        answers += [original(f"s{g}", float(g < 25)), variant(f"s{g}", float(g >= 10), "fog")]
    (flips,) = find_flips(answers, "original")
    assert (flips.right, flips.flipped) == (25, 10)
    assert flips.p == pytest.approx(stats.chi2.sf((10 - 5) ** 2 / (10 + 5), 1))
    answers = [control("s", 0), control("s", 1), variant("s", 0, "fog"), control("t", 1), control("t", 1)]
    (flips,) = find_flips([*answers, variant("t", 0, "fog")], "control")
    assert (flips.right, flips.flipped) == (1, 1)


def test_rates_of_flips_stay_rates_and_are_no_proof_of_few() -> None:
    answers = [a for g in range(10) for a in (original(f"s{g}", 1), variant(f"s{g}", 1, "fog"))]
    (flips,) = find_flips(answers, "original")
    assert (flips.rate, flips.low, flips.high) == (0, 0, pytest.approx(stats.beta.ppf(0.975, 1, 10)))
    assert flips.p is None
    answers = [a for source in "st" for a in (original(source, 1), variant(source, 0, "x"))]
    (all_wrong,) = find_flips(answers, "original")
    assert (all_wrong.low, all_wrong.high) == (pytest.approx(1 - stats.beta.ppf(0.975, 1, 2)), 1)
    answers = [a for g in range(3) for a in (original(f"s{g}", 1), variant(f"s{g}", float(g == 0), "fog"))]
    (flips,) = find_flips(answers, "original")
    assert (flips.rate, flips.high) == (pytest.approx(2 / 3), 1)
    (rare,) = find_flips([replace(a, outcome=1 - a.outcome) if a.names else a for a in answers], "original")
    assert (rare.rate, rare.low) == (pytest.approx(1 / 3), 0)
    found = find_flips([original("s", 0), variant("s", 0, "fog")], "original")
    assert found == (Flips("fog", 0, 0, None, None, None, None, wrong=1, righted=0),)
    assert find_flips([variant("s", 0, "fog")], "original")[0].right == 0


FREEDOMS = (1, 2, 3, 4, 7, 11, 23, 100, 431, 5_000, 100_000)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_chances_and_reaches_of_t_are_scipy_s(freedom: int) -> None:
    for t in (0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 1.96, 3.0, 5.0, 10.0, 35.0):
        for signed in (t, -t):
            assert two_sided_p(signed, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9, abs=1e-280)
    assert two_sided_p(float("inf"), freedom) == 0
    for confidence in (0.5, 0.9, 0.95, 0.99):
        reach = t_reach(confidence, freedom)
        assert reach == pytest.approx(stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-7)
        # SciPy's quantiles have fewer digits than its chances.
        assert 2 * stats.t.sf(reach, freedom) == pytest.approx(1 - confidence, rel=1e-9)


def test_chances_of_chi_square_are_scipy_s() -> None:
    for square in (0.0, 1e-6, 0.5, 1.0, 3.84, 20.0, 400.0):
        assert chi_square_p(square) == pytest.approx(stats.chi2.sf(square, 1), rel=1e-11)


@pytest.mark.parametrize("count", [1, 7, 300, 42.5])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.997, 1.0])
def test_a_share_s_interval_is_clopper_s_and_pearson_s(share: float, count: float) -> None:
    hits = share * count
    low = 0.0 if hits == 0 else stats.beta.ppf(0.025, hits, count - hits + 1)
    high = 1.0 if hits == count else stats.beta.ppf(0.975, hits + 1, count - hits)
    assert proportion_interval(share, count, 0.95) == pytest.approx((low, high), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_corrected_chances_are_scipy_s(chances: list[float]) -> None:
    np.testing.assert_allclose(false_discovery(chances), stats.false_discovery_control(chances), rtol=1e-12, atol=0)
    assert false_discovery([]) == []
