"""What people decide of single pictures: on record, and so whatever scores, checks and runs say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import MadeSuite
from refusing import refusal

from counterfactory.engine.api import finished
from counterfactory.engine.judging.recheck import recheck
from counterfactory.engine.judging.threshold_curve import threshold_curve
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.report.suite_text import hand_note, reason_table
from counterfactory.engine.suite import by_hand, read_metadata
from counterfactory.engine.suite.by_hand import read_by_hand, read_rulings
from counterfactory.engine.suite.verdicts import read_verdicts

STRICT = CheckSettings(8, "a {label}", 10.0).having(min_image_text=0.65)
LENIENT = STRICT.having(min_image_text=-1.0)


def variants(suite: MadeSuite) -> list[str]:
    return [row.file_name for row in read_metadata(suite.path) if row.kind == "variant"]


def accepted(suite: MadeSuite) -> set[str]:
    return {row.file_name for row in read_metadata(suite.path) if row.kind == "variant" and row.accepted}


def test_a_verdict_by_hand_stands_whatever_the_thresholds(made_suite: MadeSuite) -> None:
    best, *_, worst = names = variants(made_suite)
    result = recheck(made_suite.path, STRICT, [(best, "exclude", "a face"), (worst, "accept", "")])
    assert (result.accepted, result.accepted_before) == (3, 5)
    for settings, others in ((STRICT, names[1:3]), (LENIENT, names[1:-1]), (STRICT.having(min_image_text=1), [])):
        recheck(made_suite.path, settings)
        assert accepted(made_suite) == {worst, *others}
    (row,) = [row for row in read_metadata(made_suite.path) if row.file_name == best]
    assert row.reason == "excluded by hand: a face"
    kept = read_by_hand(made_suite.path).pictures
    assert {name: (one.verdict, one.reason) for name, one in kept.items()} == {
        best: ("exclude", "a face"),
        worst: ("accept", ""),
    }
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", one.date) for one in kept.values())
    assert hand_note(kept) == ("by hand: 1 excluded, 1 accepted, whatever the scores say",)
    curve = threshold_curve(read_verdicts(made_suite.path).rows, LENIENT, "min_image_text")
    assert max(point.accepted for point in curve.points) == 5, "no threshold lets the excluded one pass"
    table = reason_table(read_metadata(made_suite.path))
    assert ("excluded by hand", "excluded by hand", "1", "16.7 %") in table.rows
    recheck(made_suite.path, LENIENT, [(best, "undo", ""), (worst, "exclude", "")])
    assert accepted(made_suite) == set(names[:-1])
    assert hand_note(read_by_hand(made_suite.path).pictures) == ("by hand: 1 excluded, whatever the scores say",)


def test_what_is_excluded_does_not_count_and_what_is_accepted_does(made_suite: MadeSuite) -> None:
    suite, (best, *_, worst) = finished.open(made_suite.path), variants(made_suite)
    answers = {row.file_name: "tram" if row.file_name in (best, worst) else str(row.label) for row in suite.rows}
    before = suite.evaluate(answers).evaluation.variants.score
    suite.check(rulings=[(best, "exclude", "blurred"), (worst, "accept", "")])
    result = suite.evaluate(answers)
    after = result.evaluation.variants.score
    assert (before.count, before.value) == (5, 0.8), "the best is wrong, the worst does not count"
    assert (after.count, after.value) == (5, 0.8), "the worst is wrong, the best does not count"
    assert worst in result.judged.failures()
    assert best not in result.judged.failures()
    assert "by hand: 1 excluded, 1 accepted, whatever the scores say" in result.notes
    assert "by hand: 1 excluded" in suite.report(no_edges=True).page.read_text()
    assert set(suite.by_hand) == {best, worst}


def test_pictures_are_named_by_path_too(made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = variants(made_suite)
    monkeypatch.chdir(made_suite.path.parent)
    recheck(made_suite.path, STRICT, [(f"suite/{first}", "exclude", ""), (str(made_suite.path / second), "accept", "")])
    assert set(read_by_hand(made_suite.path).pictures) == {first, second}


@pytest.mark.parametrize(
    ("rulings", "message"),
    [
        ([("{0}x", "exclude")], "the suite has no picture '{0}x'; did you mean '{0}'?"),
        ([("?", "exclude")], "the suite has no picture '?'; name a file_name of metadata.parquet"),
        ([("{0}", "exclude"), ("{0}", "accept")], "{0} is to be both 'exclude' and 'accept': give one of them"),
        ([("{0}", "undo")], "{0} has no verdict by hand that could be undone"),
        ([("{original}", "exclude")], "{original} is an original, which has no verdict"),
    ],
)
def test_rulings_that_cannot_be_are_refused_and_change_nothing(
    made_suite: MadeSuite, rulings: list[tuple[str, by_hand.Ruling]], message: str
) -> None:
    first, second, *_ = variants(made_suite)
    recheck(made_suite.path, STRICT, [(second, "exclude", "")])
    before = {file: file.read_bytes() for file in made_suite.path.glob("*.*") if file.suffix in (".json", ".parquet")}
    words = {"original": made_suite.rows[0].file_name}
    asked = [(name.format(first, **words), ruling, "") for name, ruling in rulings]
    with refusal(f"^{re.escape(message.format(first, **words))}"):
        recheck(made_suite.path, STRICT, [(second, "accept", ""), *asked])
    assert before == {file: file.read_bytes() for file in before}


def test_a_verdict_that_was_written_before_a_kill_holds_at_the_next_check(
    made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = variants(made_suite)
    with monkeypatch.context() as patch:
        patch.setattr(
            "counterfactory.engine.suite.suite.Suite.replace_table", lambda *_: exec("raise KeyboardInterrupt")
        )
        with pytest.raises(KeyboardInterrupt):
            recheck(made_suite.path, LENIENT, [(first, "exclude", "")])
    assert first in accepted(made_suite)
    recheck(made_suite.path, LENIENT)
    assert first not in accepted(made_suite)


@pytest.mark.parametrize("text", ["{", '{"pictures": {"a": {"verdict": "maybe", "reason": "", "date": ""}}}', "[]"])
def test_a_file_that_is_not_ours_is_refused(made_suite: MadeSuite, text: str) -> None:
    (made_suite.path / by_hand.FILE).write_text(text)
    with refusal(r"by_hand\.json.*; mend it, or move it out of the folder"):
        recheck(made_suite.path, STRICT)
    assert (made_suite.path / by_hand.FILE).read_text() == text


def test_many_verdicts_come_from_a_table(tmp_path: Path) -> None:
    table, lines = tmp_path / "verdicts.csv", tmp_path / "verdicts.jsonl"
    table.write_text("image,verdict,reason\na,exclude,a face\nb,Accept,\nc,undo\n")
    wanted = [("a", "exclude", "a face"), ("b", "accept", ""), ("c", "undo", "")]
    assert read_rulings(table) == wanted
    rows = [dict(zip(("image", "verdict", "reason"), one, strict=True)) for one in wanted]
    lines.write_text("\n".join(map(json.dumps, rows)))
    assert read_rulings(lines) == wanted
    for text, message in (
        ("image,verdict\na,good\n", "verdicts.csv:2: verdict is exclude, accept, undo, found 'good'"),
        ("image,verdict\n", "verdicts.csv names no picture; write the columns image, verdict and reason"),
        ("image\na\n", "verdicts.csv has no column 'verdict'"),
    ):
        table.write_text(text)
        with refusal(re.escape(message)):
            read_rulings(table)
