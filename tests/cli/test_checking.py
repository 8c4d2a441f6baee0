"""What `check` says of other thresholds, and the curves of them on the page of `report`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import Command
from conftest import MadeSuite
from picture_rows import picture_row, written

from counterfactory.engine.cli.arguments import main


def drawn(suite: Path, *options: str) -> list[tuple[str, str]]:
    """The curves on the page: each threshold, and its lines."""
    assert main(["report", str(suite), "--no-edges", *options]) == 0
    page = (suite / "report" / "index.html").read_text()
    return re.findall(r"<figcaption><b>(\w+)</b>((?: <span class=.line\d.>[\w ]+</span>)*)", page)


def test_the_thresholds_that_reject_something_have_a_curve(made_suite: MadeSuite) -> None:
    found = dict(drawn(made_suite.path))
    assert list(found) == ["min_intact", "min_image_text"], "of which the suite has scores"
    assert all("accepted" in lines and "valid" not in lines for lines in found.values())
    (made_suite.path / "run.json").unlink()
    assert drawn(made_suite.path) == [], "nobody says by which thresholds it is judged"


def test_judgements_add_how_much_is_valid(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    valid = tmp_path / "valid.csv"
    valid.write_text(f"image,valid\n{made_suite.rows[1].file_name},yes\n")
    found = dict(drawn(made_suite.path, "--valid", str(valid)))
    assert all("valid of them" in lines and "of all valid" in lines for lines in found.values())
    (made_suite.path / "run.json").unlink()
    run.refuses("has no run.json", "report", made_suite.path, "--no-edges", "--valid", valid)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("check.edit", "a key and a number are needed, such as check.edit=0.5, got 'check.edit'"),
        ("check.edit=2", "[check] min_edit is a share, 0 to 1, got 2"),
        ("check.edits=0.5", "'check.edits' is no threshold of a profile; did you mean 'check.min_edit'?"),
    ],
)
def test_check_refuses_what_is_no_threshold(setting: str, message: str, made_suite: MadeSuite, run: Command) -> None:
    run.refuses(message, "check", made_suite.path, f"--set={setting}")


def test_check_says_what_other_thresholds_change(made_suite: MadeSuite, run: Command) -> None:
    settings = ("--set", "check.image_text=0.65", "--set", "check.directional=0")
    lines = [line.rstrip() for line in run("check", made_suite.path, *settings)[1].splitlines()]
    by = "min_in_place 0.993, min_aligned 0.4, min_intact 0.95, min_visible 0.17, min_kept 0.7, min_layout 0.5, "
    by += "min_image_text 0.65, min_directional 0, min_valid 0.8"
    assert lines[0] == f"3 of 6 variants accepted (before: 5; 2 turned), by {by}"
    assert lines[2:4] == ["Variants by reason", "rejected for  before  now  newly rejected  accepted again"]
    assert lines[5] == "image_text         1    3               2               0"
    assert run("check", made_suite.path)[1].startswith("3 of 6 variants accepted (before: 3; none turned), by")


def test_a_sweep_shows_thresholds_and_writes_nothing(made_suite: MadeSuite, run: Command, tmp_path: Path) -> None:
    table = (made_suite.path / "metadata.parquet").read_bytes()
    run_json = (made_suite.path / "run.json").read_bytes()
    out = run.text("check", made_suite.path, "--sweep", "check.image_text")
    assert any(line.split()[:4] == ["0.450", "now", "5", "83.3"] for line in out.splitlines()), out
    assert "of 6 variants; the other thresholds as they are." in out
    variants = [row for row in made_suite.rows if row.kind == "variant"]
    judged = "".join(f"{row.file_name},{'yes' if i % 2 else 'no'}\n" for i, row in enumerate(variants))
    (tmp_path / "valid.csv").write_text("image,valid\n" + judged)
    options = ("--sweep", "check.image_text", "--valid", tmp_path / "valid.csv")
    out = run("check", made_suite.path, *options)[1]
    assert any(line.split()[:8] == ["0.450", "now", "5", "83.3", "%", "40.0", "%", "66.7"] for line in out.splitlines())
    assert "6 judged, 50.0 % of them valid" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines() if "%" in line)
    found = run.json("check", made_suite.path, *options)
    assert (found["threshold"], found["current"], found["variants"], found["valid"]) == ("min_image_text", 0.45, 6, 3)
    assert (made_suite.path / "metadata.parquet").read_bytes() == table
    assert (made_suite.path / "run.json").read_bytes() == run_json
    run.refuses("for --sweep: give that as well", "check", made_suite.path, "--valid", tmp_path / "valid.csv")


def test_a_fit_prints_what_goes_into_a_profile_and_writes_nothing(tmp_path: Path, run: Command) -> None:
    """Layouts above 0.5 are valid, but for one in ten of either."""
    rows = [picture_row(i, scores={"layout": 0.2 + 0.6 * (i % 2) + 0.01 * (i % 10)}) for i in range(100)]
    answers = [f"{row.file_name},{(i % 2 == 1) != (i % 11 == 0)}\n" for i, row in enumerate(rows)]
    valid = tmp_path / "valid.csv"
    valid.write_text("image,valid\n" + "".join(answers))
    written(tmp_path, rows)
    before = (tmp_path / "metadata.parquet").read_bytes()
    out = run.text("check", tmp_path, "--fit", valid)
    assert (tmp_path / "metadata.parquet").read_bytes() == before
    assert "Thresholds of min_valid, by 100 variants of which" in out
    said = " ".join(out.split())
    assert re.search(r'min_valid = 0\.\d+ \[\[check.valid\]\] part = "layout" scores = \["layout"\] weights', said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metadata.parquet", "valid.csv"]
    run.refuses("nothing.csv", "check", tmp_path, "--fit", tmp_path / "nothing.csv")
