"""Limits of a test step: kept, broken, or not to be told, and what CI systems read of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from refusing import refusal

from counterfactory.engine.judging.effects import Effect
from counterfactory.engine.judging.evaluation import Effects, Evaluation, MeanScore, Side
from counterfactory.engine.judging.limits import Drop, LimitResult, check_limits, junit_xml

SIDE = Side(MeanScore(4, 0.625), {}, ())


def effect(name: str, value: float | None, low: float | None, high: float | None) -> Effect:
    return Effect(name, value, low, high, 0.5, 0.5, 30, 60)


def evaluation(*by_type: Effect, **changes: tuple[Effect, ...]) -> Evaluation:
    effects = replace(Effects("control", None, by_type, (), (), (), ()), **changes)
    return Evaluation("accuracy", (), SIDE, SIDE, SIDE, effects, 1, None, None, 0, 0)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (-0.30, -0.06, "broken"),  # even the mildest is beyond
        (-0.30, -0.05, "undecided"),
        (-0.051, 0.2, "undecided"),
        (-0.05, 0.2, "kept"),  # even the worst is within
        (-0.05, -0.05, "kept"),
    ],
)
def test_a_drop_is_held_to_its_interval(low: float, high: float, outcome: str) -> None:
    (found,) = check_limits(evaluation(effect("weather", (low + high) / 2, low, high)), [Drop("weather", 5)], None)
    assert (found.outcome, found.limit) == (outcome, "weather costs at most 5 points")
    assert found.figures == f"{50 * (low + high):+.1f} points, {100 * low:+.1f} to {100 * high:+.1f}, 30 sources"


def test_what_cannot_be_estimated_is_undecided() -> None:
    for figures in ((None, None, None), (-0.9, None, None), (None, -1, -0.8), (-0.9, None, -0.8), (-0.9, -1, None)):
        (found,) = check_limits(evaluation(effect("fog", *figures)), [Drop("fog", 5)], None)
        assert found == LimitResult("fog costs at most 5 points", "undecided", "30 sources say nothing of it by itself")


def test_types_values_and_classes_may_be_named_and_the_type_comes_first() -> None:
    of_class, of_value, of_type = (effect(name, -0.5, -0.6, -0.4) for name in ("bus", "time: night", "time"))
    found = evaluation(of_type, by_value=(of_value,), by_class=(of_class, effect("time", 0, -0.01, 0.01)))
    outcomes = check_limits(found, [Drop(name, 9) for name in ("bus", "time: night", "time")], None)
    assert [finding.outcome for finding in outcomes] == ["broken"] * 3


def test_a_type_that_depends_on_its_company_is_held_to_the_limit_alone_as_well() -> None:
    mixed, single = effect("time", -0.4, -0.5, -0.3), effect("time", -0.03, -0.04, -0.02)
    pair = replace(effect("time with weather", -0.4, -0.5, -0.3), q=0.01)

    def outcome(*by_type: Effect, name: str = "time", **more: tuple[Effect, ...]) -> LimitResult:
        (result,) = check_limits(evaluation(*by_type, **more), [Drop(name, 5)], None)
        return result

    assert outcome(mixed, by_type_alone=(single,)).outcome == "kept", "effects add as far as is known"
    for more in ({"interactions": (pair,)}, {"mix_gaps": (replace(pair, name="time"),)}):
        result = outcome(mixed, by_type_alone=(single,), **more)
        assert result.outcome == "broken"
        assert result.figures.endswith("30 sources; over the mix -40.0 points, -50.0 to -30.0, 30 sources")
    unclear = {"mix_gaps": (replace(pair, name="time", q=0.5),)}
    assert outcome(mixed, by_type_alone=(single,), **unclear).outcome == "kept"
    unsure = effect("time", -0.04, -0.2, 0.1)
    assert outcome(single, by_type_alone=(unsure,), interactions=(pair,)).outcome == "undecided"
    assert outcome(mixed, by_type_alone=(effect("time", -0.03, None, None),)).outcome == "broken", "never alone"
    few = replace(single, sources=5)
    assert outcome(mixed, by_type_alone=(few,)).outcome == "broken", "seldom alone"
    result = outcome(mixed, by_type_alone=(few,), interactions=(pair,))
    assert (result.outcome, "; alone -3.0" in result.figures) == ("broken", True)
    night = [effect("time: night", value, value - 0.01, value + 0.01) for value in (-0.4, -0.03)]
    values = {"by_value": (night[0],), "by_value_alone": (night[1],)}
    assert outcome(mixed, name="time: night", by_type_alone=(single,), **values).outcome == "kept"
    assert (
        outcome(mixed, name="time: night", by_type_alone=(single,), interactions=(pair,), **values).outcome == "broken"
    )
    colour = effect("colour", -0.03, -0.04, -0.02)
    assert outcome(colour, name="colour", by_type_alone=(single,), interactions=(pair,)).outcome == "kept"


def test_unknown_names_are_refused() -> None:
    with refusal(r"--max-drop wether: this suite has no such .*did you mean 'weather'"):
        check_limits(evaluation(effect("weather", 0, 0, 0)), [Drop("wether", 5)], None)
    with refusal("effects need answers to the controls"):
        check_limits(evaluation(), [Drop("weather", 5)], None)


def test_the_least_accuracy() -> None:
    found = [check_limits(evaluation(), [], least) for least in (0.5, 0.625, 0.63)]
    assert [finding.outcome for (finding,) in found] == ["kept", "kept", "broken"]
    assert found[2][0] == LimitResult("accuracy of the variants is at least 63 %", "broken", "62.5 %")
    nothing = replace(evaluation(), variants=replace(SIDE, score=MeanScore(0, None)))
    assert check_limits(nothing, [], 0.5) == (
        LimitResult("accuracy of the variants is at least 50 %", "undecided", "no variant was answered"),
    )
    assert check_limits(evaluation(), [], None) == ()


def test_junit_says_failures_and_skips() -> None:
    findings = (
        LimitResult("a <b> & c", "kept", "fine"),
        LimitResult("fog", "broken", "-30"),
        LimitResult("snow", "undecided", "3 sources"),
    )
    text = junit_xml("my suite", findings)
    assert text.startswith("<testsuite ")
    root = ET.fromstring(text)
    assert root.tag == "testsuite"
    assert {(case.tag, case.get("classname")) for case in root} == {("testcase", "counterfactory")}
    assert [case.findtext("system-out") for case in root] == ["fine", "-30", "3 sources"]
    assert root.attrib == {"name": "my suite", "tests": "3", "failures": "1", "skipped": "1", "errors": "0"}
    assert [case.get("name") for case in root] == ["a <b> & c", "fog", "snow"]
    outcomes = [[child.tag for child in case] for case in root]
    assert outcomes == [["system-out"], ["failure", "system-out"], ["skipped", "system-out"]]
    assert root[1][0].get("message") == "-30"
    assert root[2][0].get("message") == "cannot tell: 3 sources"
    (about,) = ET.fromstring(junit_xml("x", findings, "ab12")).findall("properties/property")
    assert about.attrib == {"name": "suite_digest", "value": "ab12"}
