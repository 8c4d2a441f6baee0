"""What each threshold would let pass: counted by hand, the other thresholds as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.threshold_curve import Point, load_valid, threshold_curve
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.suite.verdicts import ScoredRow
from counterfactory.engine.variant import Kind

SETTINGS = CheckSettings(1, "{label}", 1.0).having(
    min_image_text=0.2, min_directional=-1, min_image_image=-1, min_edit=0.25, min_label=-1, min_layout=0
)


def row(name: str, edit: float, text: float = 0.5, kind: Kind = "variant") -> ScoredRow:
    scores = {"edit": edit, "image_text": text, "directional": 0.0, "image_image": 0.0}
    return ScoredRow(name, kind, None, (Edit("weather", "dry", "wet"),), scores, (edit,), None)


ROWS = [
    row("a", 0.0),
    row("b", 0.25),
    row("c", 0.5, text=0.1),
    row("d", 0.75),
    row("e", 1.0),
    row("f", 0.9, 1, "control"),
]


def test_thresholds_count_what_passes_them_and_all_others() -> None:
    found = threshold_curve(ROWS, SETTINGS, "min_edit")
    assert (found.threshold, found.current, found.variants, found.judged, found.valid) == ("min_edit", 0.25, 5, 0, 0)
    assert [point.limit for point in found.points] == sorted({round(i / 12, 3) for i in range(13)})
    counts = {point.limit: point.accepted for point in found.points}
    assert (counts[0.0], counts[0.25], counts[0.333], counts[0.75], counts[0.833], counts[1.0]) == (4, 3, 2, 2, 1, 1)
    assert {(point.judged, point.valid, point.recall, point.precision) for point in found.points} == {
        (0, 0, None, None)
    }


def test_judgements_say_how_many_are_valid() -> None:
    valid = {"a": False, "b": True, "c": True, "e": True, "f": True}
    found = threshold_curve(ROWS, SETTINGS, "min_edit", valid)
    assert (found.judged, found.valid) == (4, 3)
    by = {point.limit: point for point in found.points}
    assert by[0.0] == Point(0.0, accepted=4, judged=3, valid=2, recall=2 / 3)
    assert by[0.0].precision == 2 / 3
    assert by[0.333] == Point(0.333, accepted=2, judged=1, valid=1, recall=1 / 3)
    assert by[1.0].precision == 1.0


def test_today_s_threshold_is_among_them() -> None:
    """As it is, and once: another that reads the same is left out."""
    found = threshold_curve(ROWS, SETTINGS.having(min_edit=0.2501), "min_edit")
    assert [point.limit for point in found.points if 0.2 < point.limit < 0.3] == [0.2501]
    assert found.current == 0.2501


def test_pictures_without_the_score_pass_it_whatever_it_is() -> None:
    bare = [replace(one, scores=one.scores | {"layout": 0.5}) if one.file_name == "e" else one for one in ROWS]
    found = threshold_curve(bare, SETTINGS, "min_layout")
    assert [(point.limit, point.accepted) for point in found.points] == [(0.0, 3), (0.5, 3)]


def test_the_most_of_a_score_rejects_what_is_above_it() -> None:
    read = [replace(one, scores=one.scores | {"perplexity": 10.0 + i}) for i, one in enumerate(ROWS[:5])]
    found = threshold_curve([*read, row("g", 1.0)], SETTINGS.having(max_perplexity=13.0), "max_perplexity", {"d": True})
    assert found.current == 13.0
    by = {point.limit: point for point in found.points}
    assert (by[10.0].accepted, by[11.0].accepted, by[13.0].accepted, by[14.0].accepted) == (1, 2, 3, 4)
    assert (by[11.0].recall, by[13.0].recall) == (0.0, 1.0)
    free = threshold_curve(read, SETTINGS, "max_perplexity")
    assert free.current is None
    assert free.points[-1].accepted == 3


def test_a_score_that_nobody_has_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match="no variant has a score 'layout' to draw thresholds of"):
        threshold_curve(ROWS, SETTINGS, "min_layout")
    broken = [*ROWS, replace(ROWS[0], file_name="g", scores={"edit": 0.5})]
    with pytest.raises(CounterfactoryError, match="g was not scored for 'image_text', which its verdict needs"):
        threshold_curve(broken, SETTINGS, "min_edit")


def test_judgements_are_read_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "valid.csv"
    path.write_text("image,valid,who\na,Yes,x\nb,0,x\nd,TRUE,y\na,valid,z\n")
    assert load_valid(path, ROWS) == {"a": True, "b": False, "d": True}
    lines = tmp_path / "valid.jsonl"
    lines.write_text('{"image": "a", "valid": true}\n{"image": "b", "valid": false}\n{"image": "e", "valid": 1}\n')
    assert load_valid(lines, ROWS) == {"a": True, "b": False, "e": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,valid\na,perhaps\n", "valid.csv:2: valid is true or false, found 'perhaps'"),
        ("image,valid\nf,1\n", "valid.csv:2: 'f' is no variant of the suite, by its file_name"),
        ("image,valid\na,1\na,0\n", "valid.csv:3: a second, different judgement of a"),
        ("image,valid\n", "valid.csv judges no picture; write the columns image and valid"),
        ("image,valid\na,1,2\n", "valid.csv:2 has 3 fields where the first line names 2"),
        ("image\na\n", "valid.csv has no column 'valid' (found: image)"),
    ],
)
def test_tables_that_say_something_else_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "valid.csv").write_text(text)
    with pytest.raises(CounterfactoryError, match=re.escape(message) + "$"):
        load_valid(tmp_path / "valid.csv", ROWS)
