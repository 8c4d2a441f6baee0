"""What an evaluation says in sentences, its chart, and the same for a program and for a pull request."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.judging.compare import compare
from counterfactory.engine.judging.effects import Effect
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.judging.evaluation import Evaluation
from counterfactory.engine.judging.insights import Insight
from counterfactory.engine.report.findings import (
    TOLD,
    ReportFinding,
    comparison_sentences,
    find_sentences,
    sources_to_tell,
    suite_sentences,
)
from counterfactory.engine.report.forest import draw_forest
from counterfactory.engine.report.page import ReportText
from counterfactory.engine.report.summary import markdown_summary, report_json
from counterfactory.engine.report.table import Table
from counterfactory.engine.suite import PictureRow


def effect(
    name: str, value: float | None, low: float | None, high: float | None, q: float = 0.5, sources: int = 20
) -> Effect:
    return Effect(name, value, low, high, q, q, sources, sources)


def judged(*by_type: Effect, **others: Sequence[Effect] | Effect | None) -> Evaluation:
    """An evaluation with these effects."""
    rows = [row for g in range(2) for row in (original_row(g), control_row(g), picture_row(3 * g))]
    evaluation = evaluate_labels(rows, ["bus"] * 6)
    clean = {"painter": None, "by_value": (), "by_class": ()}
    return replace(evaluation, effects=replace(evaluation.effects, by_type=by_type, **(clean | others)))


def sentences(evaluation: Evaluation, sources: int = 24) -> list[str]:
    return [finding.sentence for finding in find_sentences(evaluation, sources)]


def test_what_is_certain_comes_first_the_greatest_loss_in_front() -> None:
    values = (
        effect("time: at night", -0.9, -1, -0.62, 0.01),
        effect("time: at dawn", -0.1, -0.3, 0.1),
        effect("b: c", -0.3, -0.5, -0.1, 0.01),
    )
    types = (
        effect("weather", -0.28, -0.52, -0.047, 0.04),
        effect("colour", -0.07, -0.27, 0.14),
        effect("time", -0.458, -0.726, -0.191, 0.01),
        effect("light", 0.1, 0.05, 0.15, 0.01),
    )
    painter = effect("painting", -0.057, -0.095, -0.019, 0.005)
    classes = (effect("bus", -0.4, -0.5, -0.3, 0.01), effect("car", 0, -0.1, 0.1))
    findings = find_sentences(judged(*types, by_value=values, painter=painter, by_class=classes), 24)
    assert [finding.sentence for finding in findings] == [
        "Edits of time cost 46 points of accuracy (19 to 73), most of all at night: 90 (62 to 100).",
        "Edits of weather cost 28 points of accuracy (4.7 to 52).",
        "Edits of light add 10 points of accuracy (5.0 to 15).",
        "Edits to “b: c” cost 30 points of accuracy (10 to 50).",
        "Painting alone costs 5.7 points of accuracy (1.9 to 9.5); effects are against the controls and do not hold "
        "it.",
        "Of class bus, edits cost 40 points of accuracy (30 to 50).",
        "Cannot be told yet, in points of accuracy: colour (−27 to +14). A loss of 5 points would show in "
        "about 430 sources like these 24.",
    ]
    assert [finding.certain for finding in findings] == [True] * 6 + [False]
    choices = [*({"type": name} for name in ("time", "weather", "light")), {"value": "b: c"}, {}, {"class": "bus"}, {}]
    assert [dict(finding.choices) for finding in findings] == choices


def test_what_cannot_be_told_is_no_finding_and_what_is_small_is() -> None:
    assert sentences(judged(effect("colour", -0.07, -0.27, 0.14), effect("time", 0.0, -0.2, 0.2))) == [
        "No edit changes this model's accuracy for certain.",
        "Cannot be told yet, in points of accuracy: time (−20 to +20) and colour (−27 to +14). A loss of 5 "
        "points would show in about 390 and 430 sources like these 24.",
    ]
    assert sentences(judged(effect("colour", 0.0, -0.04, 0.05), effect("time", None, None, None)))[1:] == [
        "Edits of colour do little to accuracy: −4.0 to +5.0 points.",
        "Nothing can be said of time: too few sources tell it from other edits.",
    ]
    bare = judged()
    nothing = replace(bare, effects=replace(bare.effects, against=None))
    assert sentences(nothing) == [
        "What edits do cannot be told: that takes answers to the controls, or to the originals."
    ]


def test_insights_and_effects_that_do_not_add_have_their_sentence() -> None:
    named = ("bus", "time: at night", "time", "day", "at night")
    one = Insight(*named, 41.0, 33.0, 48.0, 0.01, 120, 30, ("time: at night",), ())
    unclear = replace(one, q=0.5)
    pair = effect("colour with time", 0.3, 0.2, 0.4, 0.01)
    found = find_sentences(replace(judged(interactions=(pair,)), insights=(one, unclear)), 24)
    assert [finding.sentence[:35] for finding in found] == [
        f"R{one.sentence[1:]}"[:35],
        "EFFECTS DO NOT ADD: colour with time"[:35],
    ]
    assert dict(found[0].choices) == {"class": "bus", "value": "time: at night"}


@given(st.integers(2, 10**6), st.floats(0.051, 1.0))
def test_so_many_sources_would_narrow_the_interval_enough_and_a_tenth_fewer_would_not(
    sources: int, half: float
) -> None:
    needed = sources_to_tell(effect("x", 0.0, -half, half / 2), sources)
    narrowed = half * np.sqrt(sources / needed)
    assert narrowed <= TOLD * 1.0001
    assert needed <= 1.1 * sources * (half / TOLD) ** 2 + 1
    assert str(needed).rstrip("0").__len__() <= 2


def test_a_simulated_suite_of_that_size_tells_the_loss() -> None:
    """As many sources as the sentence asks for, of sources that are alike, have an interval of the promised width."""

    def asked(sources: int) -> Effect:
        rows: list[PictureRow] = []
        answers = []
        for g in range(sources):
            rows += [control_row(g), picture_row(3 * g)]
            answers += ["bus", "car" if g % 5 == 2 else "bus"]
        return evaluate_labels(rows, answers).effects.by_type[0]

    few = asked(25)
    many = asked(sources_to_tell(few, 25))
    assert (few.high or 0) - (few.value or 0) > 3 * TOLD
    assert (many.high or 0) - (many.value or 0) == pytest.approx(TOLD, rel=0.1)


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
