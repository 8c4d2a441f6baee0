"""Verdicts derived anew: from the scores on record alone, in the table and in the record of runs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import MadeSuite
from picture_rows import control_row, original_row, picture_row
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.fill import plain
from counterfactory.engine.judging.recheck import CheckCounts, Recheck, recheck, set_thresholds, threshold_named
from counterfactory.engine.judging.threshold_curve import Point, load_valid, threshold_curve
from counterfactory.engine.profile.check import CheckSettings, ValidPart
from counterfactory.engine.suite import Suite, read_metadata, read_run
from counterfactory.engine.suite.verdicts import ScoredRow, read_verdicts
from counterfactory.engine.variant import Kind

STRICT = CheckSettings(batch=8, label_prompt="a {label}", logit_scale=10.0).having(
    min_image_text=0.65, min_directional=0.5, min_image_image=-1.0, min_edit=0.25, min_label=-1.0, min_layout=0.0
)


def changed_at(suite: Path) -> dict[Path, tuple[int, int]]:
    """The inode and the time of the last change of the folder and of what is in it."""
    return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (suite, *suite.iterdir())}


def test_verdicts_follow_from_the_scores(made_suite: MadeSuite) -> None:
    before = read_metadata(made_suite.path)
    turned = CheckCounts("image_text", before=1, now=3, newly_rejected=2, newly_accepted=0)
    assert recheck(made_suite.path, STRICT) == Recheck(variants=6, accepted=3, accepted_before=5, checks=(turned,))
    rows = read_metadata(made_suite.path)
    for row in (row for row in rows if row.kind == "variant"):
        text = row.scores["image_text"]
        assert row.reason == (None if text >= 0.65 else f"unlike its caption: image_text {text:.3f} is below 0.650")
    assert [replace(row, reason=None) for row in rows] == [replace(row, reason=None) for row in before]
    record = read_run(made_suite.path)
    assert (record.standing.accepted, record.standing.rejected) == (3, 3)
    assert record.standing.check == plain(STRICT)
    written = changed_at(made_suite.path)
    recheck(made_suite.path, STRICT)
    assert changed_at(made_suite.path) == written, "where nothing changes, the suite is only read"
    # And back: what was rejected is accepted again.
    lenient = STRICT.having(min_image_text=-1.0)
    found = recheck(made_suite.path, lenient)
    turned = CheckCounts("image_text", before=3, now=0, newly_rejected=0, newly_accepted=3)
    assert found == Recheck(variants=6, accepted=6, accepted_before=3, checks=(turned,))
    assert found.turned == 3


def test_what_turned_is_counted_by_reason(tmp_path: Path) -> None:
    """Controls apart; of two reasons the one that turns most comes first, and a changed reason turns nothing."""
    scores = {"edit": 0.5, "image_text": 0.7, "directional": 0.6, "image_image": 0.5}
    old = {"image_text": "image_text 0.700 is below 0.900", "directional": "directional 0.600 is below 0.700"}
    rows = [
        original_row(),
        control_row(scores={"image_text": 0.1, "image_image": 0.5}),
        picture_row(0, scores=scores),
        picture_row(1, scores=scores, reason=old["image_text"]),
        picture_row(2, scores=scores, reason=old["directional"]),
        picture_row(3, scores=scores | {"image_text": 0.1}),
        picture_row(4, scores=scores | {"image_text": 0.2}, reason=old["directional"]),
        picture_row(5, scores=scores | {"directional": 0.1}),
        picture_row(6, scores=scores | {"edit": 0.1}),
    ]
    with Suite.open(tmp_path / "suite") as suite:
        for name in {name for row in rows for name in row.files}:
            (suite.path / name).parent.mkdir(parents=True, exist_ok=True)
            (suite.path / name).write_bytes(b"")
        suite.write_metadata(rows)
    found = recheck(tmp_path / "suite", STRICT)
    assert (found.variants, found.accepted, found.accepted_before) == (7, 3, 4)
    assert (found.controls, found.controls_accepted, found.controls_accepted_before) == (1, 0, 1)
    assert found.checks == (
        CheckCounts("directional", before=2, now=1, newly_rejected=1, newly_accepted=1),
        CheckCounts("image_text", before=1, now=2, newly_rejected=1, newly_accepted=1),
        CheckCounts("edit", before=0, now=1, newly_rejected=1, newly_accepted=0),
    )
    assert found.turned == 5


def test_thresholds_go_by_the_profile_s_keys() -> None:
    changed = set_thresholds(STRICT, {"check.edit": 0.5, "check.min_label": 0.25})
    assert changed == STRICT.having(min_edit=0.5, min_label=0.25)
    assert set_thresholds(STRICT, {}) == STRICT
    assert threshold_named("check.min_image_text") == threshold_named("check.image_text") == "min_image_text"
    assert threshold_named("check.max_perplexity") == threshold_named("check.perplexity") == "max_perplexity"
    assert threshold_named("check.text_caption") == "min_text_caption"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("check.edits", 0.5, "'check.edits' is no threshold of a profile; did you mean 'check.min_edit'?"),
        ("check.batch", 4, "'check.batch' is no threshold of a profile; choose from: "),
        ("edit", 0.5, "'edit' is no threshold of a profile; did you mean 'check.min_edit'?"),
        ("check.edit", -0.5, "[check] min_edit is a share, 0 to 1, got -0.5"),
        ("check.label", 1.5, "[check] min_label is a change of probability, -1 to 1, got 1.5"),
    ],
)
def test_what_is_no_threshold_is_refused(key: str, value: float, message: str) -> None:
    with refusal(f"^{re.escape(message)}"):
        set_thresholds(STRICT, {key: value})


def test_a_variant_without_a_score_is_named(made_suite: MadeSuite) -> None:
    with Suite.open(made_suite.path) as suite:
        suite.write_metadata([replace(row, scores={"image_text": 0.9, "edit": 0.9}) for row in made_suite.rows])
    table = (made_suite.path / "metadata.parquet").read_bytes()
    with pytest.raises(CounterfactoryError) as caught:
        recheck(made_suite.path, STRICT)
    first = read_metadata(made_suite.path)[1].file_name  # behind the original
    assert str(caught.value) == (
        f"{first} was not scored for 'directional', which its verdict needs; run `counterfactory generate` again"
    )
    assert (made_suite.path / "metadata.parquet").read_bytes() == table


def test_a_suite_without_a_record_of_runs_gets_none(made_suite: MadeSuite) -> None:
    (made_suite.path / "run.json").unlink()
    assert recheck(made_suite.path, STRICT).accepted == 3
    assert not (made_suite.path / "run.json").exists()


def test_other_parts_of_validity_change_the_score_and_the_verdicts(made_suite: MadeSuite) -> None:
    """The score is replayed, not only its threshold: likeness to the source decides here."""
    free = STRICT.having(min_image_text=-1.0, min_directional=-1.0, min_edit=0.0)
    part = ValidPart("layout", ("image_image",), (2.0,), 0.0)
    recheck(made_suite.path, replace(free, valid=(part,), least=free.least | {"valid": 0.5}))
    rows = [row for row in read_metadata(made_suite.path) if row.kind == "variant"]
    for row in rows:
        assert row.scores["valid"] == pytest.approx(1 / (1 + math.exp(-2 * row.scores["image_image"])), abs=1e-6)
        assert row.accepted == (row.scores["valid"] >= 0.5)
    points = threshold_curve(
        read_verdicts(made_suite.path).rows, replace(free, valid=(replace(part, bias=-9.0),)), "min_valid"
    )
    assert points.points[-1].limit < 0.01, "a sweep goes by the parts that it is given, not by those on record"
    recheck(made_suite.path, free)
    assert all("valid" not in row.scores for row in read_metadata(made_suite.path))


SETTINGS = CheckSettings(1, "{label}", 1.0).having(
    min_image_text=0.2, min_directional=-1, min_image_image=-1, min_edit=0.25, min_label=-1, min_layout=0
)


def row(name: str, edit: float, text: float = 0.5, kind: Kind = "variant") -> ScoredRow:
    scores = {"edit": edit, "image_text": text, "directional": 0.0, "image_image": 0.0}
    return ScoredRow(name, kind, None, (Edit("weather", "dry", "wet"),), scores, (edit,), None)


ROWS = [row("a", 0.0), row("b", 0.25), row("c", 0.5, text=0.1), row("d", 0.75), row("e", 1.0)]
ROWS.append(row("f", 0.9, 1, "control"))


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


def test_today_s_threshold_is_among_them_and_pictures_without_the_score_pass() -> None:
    """As it is, and once: another that reads the same is left out."""
    found = threshold_curve(ROWS, SETTINGS.having(min_edit=0.2501), "min_edit")
    assert [point.limit for point in found.points if 0.2 < point.limit < 0.3] == [0.2501]
    assert found.current == 0.2501
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
    with refusal("no variant has a score 'layout' to draw thresholds of"):
        threshold_curve(ROWS, SETTINGS, "min_layout")
    broken = [*ROWS, replace(ROWS[0], file_name="g", scores={"edit": 0.5})]
    with refusal("g was not scored for 'image_text', which its verdict needs"):
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
    with refusal(re.escape(message) + "$"):
        load_valid(tmp_path / "valid.csv", ROWS)
