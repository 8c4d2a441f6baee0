"""What an evaluation says in sentences, its chart, and the same for a program and for a pull request."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.judging.compare import compare
from counterfactory.engine.judging.effects import Effect
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.judging.evaluation import Evaluation
from counterfactory.engine.judging.insights import Insight
from counterfactory.engine.judging.power import sources_to_tell
from counterfactory.engine.judging.standouts import Standout
from counterfactory.engine.judging.student import t_reach
from counterfactory.engine.report.findings import (
    ReportFinding,
    comparison_sentences,
    find_sentences,
    suite_sentences,
)
from counterfactory.engine.report.forest import draw_forest
from counterfactory.engine.report.page import ReportText
from counterfactory.engine.report.summary import markdown_summary, report_json
from counterfactory.engine.report.table import Table


def effect(
    name: str, value: float | None, low: float | None, high: float | None, q: float = 0.5, sources: int = 20
) -> Effect:
    error = None if low is None or high is None else (high - low) / 2 / t_reach(0.95, sources - 1)
    return Effect(name, value, low, high, q, q, sources, sources, error, 0.1)


def judged(
    *by_type: Effect, alone: Sequence[Effect] | None = None, **others: Sequence[object] | Effect | None
) -> Evaluation:
    """An evaluation with these effects over the mix, and these `alone`: the same, where all variants have one edit."""
    rows = [row for g in range(2) for row in (original_row(g), control_row(g), picture_row(3 * g))]
    evaluation = evaluate_labels(rows, ["bus"] * 6)
    clean = {"painter": None, "by_value": (), "by_class": (), "by_value_alone": others.get("by_value", ())}
    types = {"by_type": by_type, "by_type_alone": by_type if alone is None else tuple(alone)}
    return replace(evaluation, effects=replace(evaluation.effects, **(types | clean | others)))


def certain(findings: Sequence[ReportFinding]) -> list[dict[str, str]]:
    """What the certain ones are of, by their choices, in their order."""
    return [dict(finding.choices) for finding in findings if finding.certain]


def sentences(evaluation: Evaluation, sources: int = 24) -> list[str]:
    return [finding.sentence for finding in find_sentences(evaluation, sources)]


def test_groups_are_what_is_spoken_of_and_of_few_nothing_is_certain() -> None:
    types = (effect("weather", -0.5, -0.9, -0.1, 0.01), effect("time", -0.1, -0.3, 0.1))
    evaluation = judged(*types)
    for groups, unit in ((None, "sources"), (12, "groups")):
        (line,) = (text for text in sentences(replace(evaluation, groups=groups), 12) if "four times in five" in text)
        assert f"{unit} like these 12" in line
    few = find_sentences(replace(evaluation, groups=4), 4)
    assert [finding.certain for finding in few] == [False]
    assert "fewer than 5" in few[0].sentence


def test_where_every_variant_is_rejected_nothing_is_said_of_edits() -> None:
    rows = [row for g in range(2) for row in (original_row(g), control_row(g), picture_row(3 * g, reason="too dark"))]
    (finding,) = find_sentences(evaluate_labels(rows, ["bus"] * 6), 2)
    assert "2 are rejected" in finding.sentence


def test_what_is_certain_comes_first_the_greatest_loss_in_front() -> None:
    values = (
        effect("time: at night", -0.9, -1, -0.62, 0.01),
        effect("time: at dawn", -0.1, -0.3, 0.1),
        effect("b: c", -0.3, -0.5, -0.1, 0.01),
        effect("b: d", 0.3, 0.1, 0.5, 0.01),
    )
    types = (
        effect("weather", -0.28, -0.52, -0.047, 0.04),
        effect("colour", -0.07, -0.27, 0.14),
        effect("time", -0.458, -0.726, -0.191, 0.01),
        effect("light", 0.1, 0.05, 0.15, 0.01),
    )
    painter = effect("painting", -0.057, -0.095, -0.019, 0.005)
    classes = (effect("bus", -0.4, -0.5, -0.3, 0.01), effect("car", 0, -0.1, 0.1))
    more = (
        Standout("time: at night", -0.1, -0.9, -0.4),
        Standout("time: at dawn", -0.5, 0.3, 0.9),
        Standout("b: c", 0.0, -0.5, -0.05),
        Standout("light: dim", 0.2, -0.5, -0.05),
    )
    findings = find_sentences(judged(*types, by_value=values, painter=painter, by_class=classes, standouts=more), 24)
    time, weather, light, value, painting, bus, open_ = (finding.sentence for finding in findings)
    assert all(fact in time for fact in ("time", "cost 46", "(19 to 73)", "most of all at night: 40 to 90 points more"))
    assert all(fact in weather for fact in ("weather", "cost 28", "(4.7 to 52)"))
    assert all(fact in light for fact in ("light", "add 10", "(5.0 to 15)"))
    assert all(fact in value for fact in ("“b: c”", "5.0 to 50 points", "more than"))
    assert all(fact in painting for fact in ("Painting", "5.7 points", "(1.9 to 9.5)", "do not hold it"))
    assert "bus" in bus
    assert "colour (−27 to +14)" in open_
    assert not any("most of all" in sentence or "mix" in sentence for sentence in (weather, light, painting, bus))
    choices = [*({"type": name} for name in ("time", "weather", "light")), {"value": "b: c"}, {}, {"class": "bus"}]
    assert certain(findings) == choices
    assert [finding.certain for finding in findings] == [True] * 6 + [False]


def test_of_many_classes_the_surest_are_named_by_intervals_that_hold_for_all_at_once() -> None:
    classes = [effect(f"c{k}", -0.4 + 0.02 * k, -0.5 + 0.02 * k, -0.3 + 0.02 * k, 0.01) for k in range(5)]
    weak = effect("weak", -0.4, -0.79, -0.01, 0.01)
    named = find_sentences(judged(by_class=(*classes, weak, *(effect(f"n{k}", 0, -0.1, 0.1) for k in range(94)))), 24)
    assert certain(named) == [{"class": f"c{k}"} for k in range(3)], "and not what is clear by itself alone"
    low, high = re.findall(r"(\d+) to (\d+) points", named[0].sentence)[0]
    times = t_reach(1 - 0.05 / 100, 19) / t_reach(0.95, 19)
    assert (int(low), int(high)) == (round(40 - 10 * times), round(40 + 10 * times))


ALONE = effect("weather", -0.12, -0.21, -0.03, 0.01, sources=90)
MIX = replace(effect("weather", -0.33, -0.39, -0.26, 0.001, sources=95), pictures=200)


def test_the_edit_alone_is_said_first_and_the_average_over_the_mix_beside_it() -> None:
    (one,) = find_sentences(judged(MIX, alone=(ALONE,)), 100)
    first, beside = one.sentence.split(";")
    assert (one.certain, "cost 12 points" in first, "(3.0 to 21)" in first) == (True, True, True)
    assert ("33 (26 to 39)" in beside, "mix of edits" in beside) == (True, True)
    forest = draw_forest(judged(MIX, alone=(ALONE,)).effects)
    assert forest.groups[0][1][0].figures.startswith("−12.0")
    (single,) = find_sentences(judged(ALONE), 100)
    assert "mix" not in single.sentence


def test_a_type_that_is_clear_over_the_mix_alone_is_no_certain_sentence() -> None:
    wide = effect("weather", -0.12, -0.38, 0.14, 0.4, sources=30)
    findings = find_sentences(judged(MIX, alone=(wide,)), 100)
    assert certain(findings) == []
    assert any("weather (−38 to +14)" in finding.sentence for finding in findings)


def test_where_the_two_differ_by_more_than_their_errors_the_page_says_so_and_why() -> None:
    gap, unclear = effect("weather", -0.21, -0.3, -0.1, 0.001), effect("time", -0.2, -0.5, 0.1, 0.3)
    _, line = find_sentences(judged(MIX, alone=(ALONE,), mix_gaps=(gap, unclear)), 100)
    assert all(fact in line.sentence for fact in ("weather 21 points (10 to 30)", "several edits lose more than"))
    assert "time" not in line.sentence
    less = replace(gap, value=0.21, low=0.1, high=0.3)
    _, line = find_sentences(judged(MIX, alone=(ALONE,), mix_gaps=(less,)), 100)
    assert "several edits lose less than" in line.sentence
    assert len(find_sentences(judged(MIX, alone=(ALONE,), mix_gaps=(unclear,)), 100)) == 1


def test_without_enough_single_edits_the_average_over_the_mix_leads_and_says_so() -> None:
    few = replace(ALONE, sources=11)
    note, one = find_sentences(judged(MIX, alone=(few,), mix_gaps=(effect("weather", -0.21, -0.3, -0.1, 0.001),)), 100)
    assert (note.certain, "mix of edits" in note.sentence) == (False, True)
    assert (one.certain, "cost 33 points" in one.sentence, ";" in one.sentence) == (True, True, False)
    assert len(find_sentences(judged(MIX, alone=(replace(ALONE, sources=12),)), 100)) == 1
    small = replace(MIX, sources=14)
    assert "cost 12" in find_sentences(judged(small, alone=(replace(ALONE, sources=7),)), 100)[0].sentence
    assert "cost 33" in find_sentences(judged(small, alone=(replace(ALONE, sources=6),)), 100)[1].sentence


def test_little_is_only_what_lies_within_the_margin_alone_and_over_the_mix() -> None:
    def little(alone: tuple[float, float], mix: tuple[float, float], sources: int = 300) -> bool:
        one, other = (effect("colour", (low + high) / 2, low, high, sources=sources) for low, high in (alone, mix))
        findings = find_sentences(judged(replace(other, pictures=999), alone=(one,)), sources)
        assert certain(findings) in ([], [{"type": "colour"}])
        return bool(certain(findings))

    assert little((-0.05, 0.05), (-0.05, 0.05))
    assert not little((-0.051, 0.01), (-0.01, 0.01))
    assert not little((-0.01, 0.051), (-0.01, 0.01))
    assert not little((-0.01, 0.01), (-0.051, 0.01))
    assert not little((-0.099, -0.001), (-0.01, 0.01)), "narrow enough, and not within"
    clear = effect("colour", -0.03, -0.04, -0.02, 0.001, sources=300)
    (one,) = find_sentences(judged(clear), 300)
    assert (one.certain, "cost 3.0 points" in one.sentence) == (True, True)


def test_what_cannot_be_told_is_no_finding() -> None:
    found = find_sentences(judged(effect("colour", -0.07, -0.27, 0.14), effect("time", 0.0, -0.2, 0.2)), 24)
    assert certain(found) == []
    (open_,) = (one.sentence for one in found if "(−27 to +14)" in one.sentence)
    assert "time (−20 to +20)" in open_
    (asked,) = {sources_to_tell(replace(effect("", 0.0, -half, half), most=1.0), 24, 2) for half in (0.2, 0.205)}
    (open_,) = sentences(judged(replace(effect("time", 0.0, -0.2, 0.2), most=1.0), effect("x", 0, -0.1, 0.1, 0.01)))[1:]
    assert f"about {asked:,} sources like these 24" in open_
    unknown = find_sentences(judged(effect("colour", 0.0, -0.04, 0.05), effect("time", None, None, None)), 24)
    assert certain(unknown) == [{"type": "colour"}]
    assert "Nothing can be said of time" in unknown[-1].sentence
    never = find_sentences(judged(ALONE, effect("time", -0.5, -0.6, -0.4, 0.001), alone=(ALONE,)), 100)
    assert "of time" in never[-1].sentence
    bare = judged()
    (nothing,) = find_sentences(replace(bare, effects=replace(bare.effects, against=None)), 24)
    assert not nothing.certain


def test_an_interval_that_is_only_the_floor_of_so_few_sources_is_said_to_be() -> None:
    floor = replace(effect("time", 0.0, -0.26, 0.26, sources=12), error=0.0)
    found = [one.sentence for one in find_sentences(judged(floor, effect("colour", -0.07, -0.27, 0.14)), 12)]
    assert sum("so few sources" in one and "of time is" in one for one in found) == 1
    assert not any("so few" in one for one in sentences(judged(effect("colour", -0.07, -0.27, 0.14))))


def test_insights_and_effects_that_do_not_add_have_their_sentence() -> None:
    named = ("bus", "time: at night", "time", "day", "at night")
    one = Insight(*named, 41.0, 33.0, 48.0, 0.01, 120, 30, ("time: at night",), (), "accuracy", 3.0, 20.0, 58.0)
    unclear = replace(one, more_low=-1.0)
    pair = effect("colour with time", 0.3, 0.2, 0.4, 0.01)
    found = find_sentences(replace(judged(interactions=(pair,)), insights=(one, unclear)), 24)
    assert [finding.sentence[:35] for finding in found] == [
        f"R{one.sentence[1:]}"[:35],
        "EFFECTS DO NOT ADD: colour with time"[:35],
    ]
    assert dict(found[0].choices) == {"class": "bus", "value": "time: at night"}


def test_a_suite_without_answers_says_what_is_in_it_and_what_to_do() -> None:
    rows = [original_row(), picture_row(0), picture_row(1, reason="so: edit 0.1 is below 0.2")]
    first, second = suite_sentences(rows)
    assert first.sentence == "1 of 2 variants are accepted; the others mostly as an edit does not show."
    assert "--model MODEL" in second.sentence
    assert suite_sentences(rows[:2])[0].sentence == "1 of 1 variants are accepted."


def test_two_models_are_told_apart_where_that_is_certain() -> None:
    rows = [row for g in range(40) for row in (control_row(g), picture_row(3 * g))]
    first = {row.file_name: 1.0 for row in rows}
    second = {row.file_name: float(row.kind == "control" or i % 4 == 1) for i, row in enumerate(rows)}
    found = comparison_sentences(compare(rows, first, second, ("a/old.csv", "b/new.csv")))
    assert [re.sub(r" \(.*\)", "", one.sentence) for one in found] == [
        "On variants new.csv loses 50 points against old.csv, 100.0 % to 50.0 %.",
        "On variants with weather new.csv loses 50 points against old.csv, 100.0 % to 50.0 %.",
    ]
    assert [one.choices for one in found] == [(), (("type", "weather"),)]
    (same,) = comparison_sentences(compare(rows, first, first, ("old/x", "new/x")))
    assert same == ReportFinding("No difference between old/x and new/x is certain on these 80 pictures.")


def test_a_chart_has_a_row_for_every_effect_at_its_place() -> None:
    values = tuple(effect(f"time: {i}", -0.1 * i, -0.1 * i - 0.1, -0.1 * i + 0.1, 0.01) for i in range(3))
    unknown = effect("shape", None, None, None)
    evaluation = judged(
        effect("time", -0.2, -0.4, 0.0, 0.01), unknown, by_value=values, painter=effect("painting", 0.1, 0.0, 0.2)
    )
    forest = draw_forest(evaluation.effects)
    (_, first), (heading, more) = forest.groups
    assert [(row.name, row.of, row.clear) for row in first] == [("painting alone", "", False), ("time", "type", True)]
    assert heading == "3 values"
    assert [row.name for row in more] == ["time: 2", "time: 1", "time: 0"], "certain harm first"
    # From -40 to +20 points: a point is 1/0.6 percent of the width.
    assert forest.zero == pytest.approx(66.67)
    assert (first[1].left, first[1].dot, first[1].width) == pytest.approx((0, 33.33, 66.67), abs=0.02)
    assert (more[1].left, more[1].dot, more[1].width) == pytest.approx((33.33, 50, 33.33), abs=0.02)
    assert [text for _, text in forest.ticks] == ["−40", "−30", "−20", "−10", "0", "+10", "+20"]
    bare = judged(unknown)
    assert draw_forest(bare.effects) is None
    assert draw_forest(replace(evaluation.effects, against=None)) is None


HOSTILE = "a|b <img src=x> **c** [d](e) `f` \\ ~g~ # &lt;\nh"


def test_a_summary_for_a_pull_request_says_every_word_as_it_is() -> None:
    tables = (
        Table("What edits do to x", ("edit", HOSTILE), ((HOSTILE, "+1.0"),)),
        Table("Rejected", ("a",), (("1",),)),
    )
    text = ReportText(
        HOSTILE, "s", tables=tables, findings=(ReportFinding(HOSTILE, True), ReportFinding("open")), notes=(HOSTILE,)
    )
    lines = markdown_summary(text).splitlines()
    escaped = r"a\|b \<img src=x\> \*\*c\*\* \[d\](e) \`f\` \\ \~g\~ \# \&lt; h"
    assert [line for line in lines if line] == [
        f"## {escaped}",
        "s",
        f"> {escaped}",
        f"- **{escaped}**",
        "- open",
        "**What edits do to x**",
        f"| edit | {escaped} |",
        "| :-- | --: |",
        f"| {escaped} | +1.0 |",
    ]


def test_a_report_is_all_there_for_a_program() -> None:
    table = Table("t", ("edit", "points"), (("time", "-1"),))
    finding = ReportFinding("x.", True, (("type", "time"),))
    text = ReportText("a", "b", (("sources", "3"),), (table,), findings=(finding,), data={"n": 1})
    assert json.loads(report_json(text)) == {
        "title": "a",
        "subtitle": "b",
        "notes": [],
        "findings": [{"sentence": "x.", "certain": True, "choices": [["type", "time"]]}],
        "figures": {"sources": "3"},
        "tables": [{"title": "t", "columns": ["edit", "points"], "rows": [["time", "-1"]]}],
        "remarks": [],
        "n": 1,
    }
