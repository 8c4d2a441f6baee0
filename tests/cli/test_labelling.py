"""`edits` writes a suite's text edits for people to label, and prints what their labels say."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Command
from conftest import MadeSuite

from counterfactory.engine.cli.edits import success_table
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.judging.edit_labels import EditJudgement, Success, successes
from counterfactory.engine.suite import Suite


def label(file: Path, *said: str) -> list[dict[str, str]]:
    """Fill in what people say of each row, as "110": type and label are right, it is not coherent."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row, three in zip(rows, said, strict=False):
        row.update(zip(("right_type", "right_label", "coherent"), three, strict=True))
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_a_suite_s_edits_are_labelled_and_counted(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    with Suite.open(made_suite.path) as suite:  # as a profile with filters would have scored them
        suite.write_metadata([replace(row, scores={**row.scores, "perplexity": 9.0}) for row in made_suite.rows])
    edits = sum(len(row.edits) for row in made_suite.rows)
    file, few = tmp_path / "edits.csv", tmp_path / "few.jsonl"
    assert run.json("edits", made_suite.path, "--write", file) == {"edits": edits, "written": edits, "file": str(file)}
    asked = ("edits", made_suite.path, "--write", few, "--sample", "2", "--seed", "3")
    assert f"2 of {edits} edits written" in run.text(*asked)
    assert len(few.read_text().splitlines()) == 2
    rows = label(file, "111", "110", "111")
    assert {row["perplexity"] for row in rows} == {"9.0"}
    said = run.text("edits", file)
    assert f"{edits - 3} rows are not labelled and left out" in said
    assert said.splitlines()[-3].split() == ["all", "3", "100.0", "100.0", "66.7", "66.7", "3", "66.7", "100.0"]
    assert max(map(len, said.splitlines())) <= 80
    found = run.json("edits", file, "--profile", "pocket")
    assert found["unlabelled"] == edits - 3
    assert (found["types"]["all"]["edits"], found["types"]["all"]["recall"]) == (3, 1.0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("SUITE",), "is a suite: --write FILE writes its edits"),
        (("edits.csv", "--write", "other.csv"), "--write takes the edits of a suite"),
        (("edits.csv",), "no row of"),
        (("SUITE", "--write", "edits.csv"), "may hold labels"),
    ],
)
def test_what_makes_no_sense_is_refused(
    made_suite: MadeSuite,
    tmp_path: Path,
    args: tuple[str, ...],
    message: str,
    run: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edits.csv").write_text("type,right_type,right_label,coherent\nweather,,,\n")
    run.refuses(message, "edits", *[made_suite.path if arg == "SUITE" else arg for arg in args])


def test_the_table_fits_80_columns_whatever_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    long = Success(100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000)
    Terminal().show(success_table({"background": long, "all": long}))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    none = success_table(successes([EditJudgement("weather", False, True, True, True)]))
    assert none.rows[0] == ("weather", "1", "0.0", "100.0", "100.0", "0.0", "0", "-", "-")
