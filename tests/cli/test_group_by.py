"""`--group-by`: what a suite is made with is what later commands judge, draw and split by, unless they are told."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from light_sets import make_suite, photographs
from PIL import Image

import counterfactory as cf
from counterfactory.engine.api.finished import FinishedSuite
from counterfactory.engine.api.retraining import plan_drill
from counterfactory.engine.cluster.merging import merge_suites, split_suite
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import read_metadata, read_run
from counterfactory.engine.training.recipe import load_recipe

DRIVES = 6


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighteen photographs of two classes, and a table that says of which of six drives each is."""
    root = photographs(tmp_path_factory.mktemp("set") / "photos", range(3 * DRIVES))
    rows = (f"{'ab'[k % 2]}/{k:04}.png,{'ab'[k % 2]},{k % DRIVES},{k or ''}" for k in range(3 * DRIVES))
    lines = ["image,label,drive,hole", *rows]
    (root / "set.csv").write_text("\n".join(lines))
    return root


@pytest.fixture(scope="module")
def suite(photos: Path) -> FinishedSuite:
    return make_suite(photos / "set.csv", photos.parent / "suite", group_by="drive", edits=1)


@pytest.fixture(scope="module")
def answers(suite: FinishedSuite) -> Path:
    """Of a model that fails by the drive."""
    lines = ["image,prediction"]
    for row in suite.rows:
        fails = row.kind == "variant" and int(row.source[2:]) % DRIVES == 0
        lines.append(f"{row.file_name},{'ab'.replace(row.label, '') if fails else row.label}")
    path = suite.path.parent / "answers.csv"
    path.write_text("\n".join(lines))
    return path


def groups_of(path: Path) -> Any:
    record = read_run(path)
    assert record is not None
    assert record.standing is not None
    return record.standing.groups


def test_what_a_suite_is_made_with_is_what_it_is_judged_by(
    suite: FinishedSuite, answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups_of(suite.path).by == "drive"
    assert len(set(groups_of(suite.path).of.values())) == DRIVES
    command = Command(capsys)
    for by, groups, units in (
        ([], DRIVES, DRIVES),
        (["--group-by", "drive"], DRIVES, DRIVES),
        (["--group-by", "none"], None, 3 * DRIVES),
        (["--group-by", r"000(\d)|(\d)\."], 10, 10),
        (["--group-by", "auto"], None, 3 * DRIVES),
    ):
        judged = command.json("evaluate", suite.path, "--predictions", answers, *by)
        assert judged["groups"] == groups
        assert max(one["sources"] for one in judged["effects"]["by_class"]) <= units
        assert max(one["sources"] for one in judged["effects"]["by_type"]) <= units
    text = command.text("evaluate", suite.path, "--predictions", answers, "--max-drop", "weather=99")
    assert ("groups" in text, " sources\n" in text) == (True, False)
    few = command.json("evaluate", suite.path, "--predictions", answers, "--group-by", "label")
    assert few["groups"] == 2
    assert all(one["low"] is None and one["q"] is None for one in few["effects"]["by_type"])


def test_a_page_speaks_of_groups(suite: FinishedSuite, answers: Path, tmp_path: Path) -> None:
    files = suite.report(predictions=answers, out=tmp_path / "page", markdown=tmp_path / "page.md", no_edges=True)
    assert "groups like these 6" in (tmp_path / "page.md").read_text()
    assert "6 groups" in files.page.read_text()


def test_orders_take_a_variant_of_every_group_first(suite: FinishedSuite, answers: Path) -> None:
    for by, rounds in ((None, True), ("none", False)):
        table = csv.DictReader(io.StringIO(cf.evaluate(suite, answers, group_by=by)._order_text()))
        drives = [int(row["source"][2:]) % DRIVES for row in table][:DRIVES]
        assert (len(set(drives)) == DRIVES) is rounds


def test_studies_and_retraining_take_the_groups(
    suite: FinishedSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill = plan_drill(suite.path, "m:n", load_recipe("fine-tune"), None, 0.3, [0])
    sides = [
        {int(Path(one.file_name).parent.name[-4:]) % DRIVES for one in some}
        for some in (drill.lesson.originals, drill.lesson.held)
    ]
    assert sides[0].isdisjoint(sides[1])
    assert sides[0] | sides[1] == set(range(DRIVES))
    single = plan_drill(suite.path, "m:n", load_recipe("fine-tune"), None, 0.3, [0], "none")
    assert {row.unit for row in single.held} == {row.source for row in single.held}
    with pytest.raises(CounterfactoryError, match="class 'a' has sources of one group"):
        plan_drill(suite.path, "m:n", load_recipe("fine-tune"), None, 0.3, [0], "label")
    drawn = {}
    for by in ("drive", "none"):
        study = tmp_path / f"{by}.sqlite"
        Command(capsys)(
            "review",
            suite.path,
            "--study",
            study,
            "--group-by",
            by,
            "--sample",
            12,
            "--checks",
            0,
            "--export",
            tmp_path / by,
        )
        rows = csv.DictReader((tmp_path / by).read_text().splitlines())
        drawn[by] = [int(Path(row["image"]).parent.name[-4:]) % DRIVES for row in rows]
    assert [drawn["drive"].count(drive) for drive in range(DRIVES)] == [2] * DRIVES
    assert [drawn["none"].count(drive) for drive in range(DRIVES)] != [2] * DRIVES


def test_another_choice_paints_nothing_and_moves_no_byte(photos: Path, suite: FinishedSuite) -> None:
    before = {path: path.read_bytes() for path in suite.path.rglob("*.png")} | {
        Path("digest"): str(suite.digest).encode()
    }
    for by in ("none", r"([ab])/", None, "drive"):
        said = list[str]()
        again = make_suite(photos / "set.csv", suite.path, edits=1, group_by=by, warn=said.append)
        assert again.summary is not None
        assert (again.summary.painted, again.digest) == (0, before[Path("digest")].decode())
        assert groups_of(suite.path).by == (by or "auto")
        assert any(text.startswith("groups") for text in said) is (by in ("drive", r"([ab])/"))
    assert all(path.read_bytes() == data for path, data in before.items() if path.suffix)


def test_suites_keep_their_groups_when_they_are_split_and_merged(suite: FinishedSuite, tmp_path: Path) -> None:
    parts = [tmp_path / "a", tmp_path / "b"]
    split_suite(suite.path, parts, sorted({row.source for row in read_metadata(suite.path)})[:7])
    assert [len(groups_of(part).of) for part in parts] == [7, 11]
    merge_suites(parts, tmp_path / "one")
    assert groups_of(tmp_path / "one") == groups_of(suite.path)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("driv", "did you mean 'drive'"),
        ("hole", "'hole' is empty for 1 of 18"),
        (r"(a)/", "does not match 9 of 18"),
        (r"(x)/", "does not match 18 of 18"),
        (r"(\.)png", "one group"),
        (r"a/.*", "in parentheses"),
    ],
)
def test_what_names_no_groups_ends_before_anything_is_made(
    photos: Path,
    suite: FinishedSuite,
    answers: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    by: str,
    says: str,
) -> None:
    command = Command(capsys)
    status, _, told = command("generate", photos / "set.csv", "--out", tmp_path / "new", "--group-by", by)
    assert (status, says in told, (tmp_path / "new").exists()) == (2, True, False)
    before = groups_of(suite.path)
    for words in (("evaluate", suite.path, "--predictions", answers), ("review", suite.path)):
        status, _, told = command(*words, "--group-by", by)
        assert (status, told.count("error:")) == (2, 1)
    assert groups_of(suite.path) == before


def test_frames_are_said_first_and_count_as_one(tmp_path: Path) -> None:
    """Six pictures of one turning camera among others, where nobody said anything."""
    root, said = photographs(tmp_path / "photos", range(6)), list[str]()
    wide = Image.open(photographs(tmp_path / "wide", [99]) / "b/0099.png").resize((300, 200))
    for k in range(8):
        wide.crop((4 * k, 0, 4 * k + 180, 200)).save(root / "a" / f"frame_{k:05}.png")
    made = make_suite(root, tmp_path / "suite", warn=said.append, variants=1)
    assert said[0].startswith("groups")
    assert "8 of 14 sources" in said[0]
    assert (groups_of(made.path).by, set(groups_of(made.path).of.values())) == ("auto", {"a/frame_*"})
    assert len({row.unit for row in made.grouped()}) == len({row.unit for row in made.grouped("auto")}) == 7
    assert len({row.unit for row in made.grouped("none")}) == 14


def test_where_every_variant_is_rejected_one_sentence_says_so(
    suite: FinishedSuite, answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = [row.file_name for row in suite.rows if row.kind == "variant"]
    rejected = tmp_path / "rejected"
    split_suite(suite.path, [rejected, tmp_path / "rest"], sorted({row.source for row in suite.rows})[:17])
    there = {row.file_name for row in read_metadata(rejected)}
    command = Command(capsys)
    command.text("check", rejected, "--exclude", *(name for name in variants if name in there))
    assert "nothing to compare" in command.text("evaluate", rejected, "--predictions", answers)
    status, _, told = command("evaluate", rejected, "--predictions", answers, "--max-drop", "weather=5")
    assert (status, "are rejected" in told) == (2, True)
