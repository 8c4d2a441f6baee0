"""The command line as a user meets it: what is accepted, exit statuses, one sentence for every mistake."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from conftest import MadeSuite, Street, made_profile
from PIL import Image
from report_pages import Reader
from session_records import costs, session_facts
from streets import save_picture

from counterfactory.engine.api import finished
from counterfactory.engine.journey import Journey
from counterfactory.engine.language.open_llm import open_llm
from counterfactory.engine.models import model_pool
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.suite import RunRecord, Suite, read_metadata, read_run
from counterfactory.engine.suite.session_record import SessionRecord

pytestmark = pytest.mark.usefixtures("shared_plans")


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--edits", "0", "1..3 is needed"),
        ("--variants", "-1", "above 0"),
        ("--task", "detection", "detection needs boxes"),
        ("--task", "detecton", "invalid choice"),
        ("--profile", "pockt", "pocket"),
        ("--task-file", "missing.toml", "missing.toml"),
        ("--interventions", "missing.txt", "missing.txt"),
        ("--unknown", "1", "--unknown"),
    ],
)
def test_generate_refuses(option: str, value: str, told: str, street: Street, tmp_path: Path, run: Command) -> None:
    run.refuses(told, "generate", street.root, "--out", tmp_path / "new", option, value)
    assert not (tmp_path / "new").exists()


def test_generate_refuses_a_suite_among_its_sources(street: Street, run: Command) -> None:
    run.refuses("among its sources", "generate", street.root, "--out", street.root / "suite")


def test_generate_names_the_first_source_that_no_model_could_be_judged_by(
    tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "flat" / "a.png")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journey, "run", stopped)
    (tmp_path / "flat" / "bus").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "flat" / "bus" / "b.png")
    _, _, err = run("generate", tmp_path / "flat", "--out", tmp_path / "suite", "--allow-out-of-domain")
    assert "1 of 2 sources lack labels (class folders, or --labels), the first is a" in err
    (tmp_path / "task.toml").write_text('name = "n"\nsentence = "s"\nprotect = []\nprotect_label = false\n')
    _, _, err = run("generate", tmp_path / "flat", "--out", tmp_path / "s", "--task-file", tmp_path / "task.toml")
    assert "lack" not in err


@pytest.mark.parametrize("sources", ["nowhere", "empty", "letter.txt"])
def test_generate_says_what_it_takes(sources: str, tmp_path: Path, run: Command) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "letter.txt").write_text("Dear model,")
    status, _, err = run("generate", tmp_path / sources, "--out", tmp_path / "suite")
    assert status == 2
    assert err.count("\n") == 1
    assert ".csv" in err


def test_generate_needs_one_usable_image(tmp_path: Path, run: Command) -> None:
    (tmp_path / "set" / "bus").mkdir(parents=True)
    (tmp_path / "set" / "bus" / "a.png").write_text("no image")
    said = run.refuses("skipped bus/a", "generate", tmp_path / "set", "--out", tmp_path / "suite")
    assert "none of the 1 images" in said


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (KeyboardInterrupt(), 130, "run the same command again"),
        (OSError(28, "No space left on device", "/data/report.png"), 2, "/data/report.png: No space left on device"),
    ],
)
def test_what_stops_a_command(
    error: BaseException, status: int, told: str, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise error

    monkeypatch.setattr(finished, "open", stopped)
    found, out, err = run("report", tmp_path)
    assert (found, out) == (status, "")
    assert told in err


def test_check_derives_verdicts_from_stored_scores(made_suite: MadeSuite, run: Command) -> None:
    images = {path: path.read_bytes() for path in made_suite.path.rglob("*.png")}
    assert run.json("check", made_suite.path, "--set", "check.image_text=0.65") == {
        "variants": 6,
        "accepted": 3,
        "accepted_before": 5,
        "controls": 0,
        "controls_accepted": 0,
        "controls_accepted_before": 0,
        "checks": [{"check": "image_text", "before": 1, "now": 3, "newly_rejected": 2, "newly_accepted": 0}],
        "turned": 2,
        "thresholds": made_profile().check.thresholds | {"min_image_text": 0.65},
    }
    rows = read_metadata(made_suite.path)
    for row in rows:
        assert row.accepted == (row.kind == "original" or row.scores["image_text"] >= 0.65)
    assert {path: path.read_bytes() for path in made_suite.path.rglob("*.png")} == images


def test_check_corrects_the_costs_on_record(made_suite: MadeSuite, run: Command) -> None:
    before = read_run(made_suite.path)
    assert run("check", made_suite.path, "--set", "check.image_text=0.85")[0] == 0
    found = json.loads((made_suite.path / "run.json").read_text())
    assert (found["standing"]["accepted"], found["standing"]["rejected"]) == (1, 5)
    assert found["totals"]["device_hours_per_1k_accepted"] == {"core": pytest.approx(2 * 36 / 3600 * 1000)}
    after = read_run(made_suite.path)
    assert after.sessions == before.sessions, "what was done stays as it was"
    assert after.profile["check"]["min_image_text"] == 0.85
    assert after.profile["name"] == "mine"


def test_check_by_itself_keeps_the_suite_s_verdicts(made_suite: MadeSuite, run: Command) -> None:
    """They follow from its own thresholds, which no profile of the package has, and later from the last check's."""
    table = (made_suite.path / "metadata.parquet").read_bytes()
    for thresholds in ([], ["--set", "check.image_text=0.65"], []):
        found = run.json("check", made_suite.path, *thresholds)
        if not thresholds:
            assert found["accepted"] == found["accepted_before"]
            assert (made_suite.path / "metadata.parquet").read_bytes() == table
        table = (made_suite.path / "metadata.parquet").read_bytes()
    assert found["thresholds"]["min_image_text"] == 0.65


def test_a_profile_overrides_the_suite_s_and_an_option_overrides_both(made_suite: MadeSuite, run: Command) -> None:
    found = run.json("check", made_suite.path, "--profile", "pocket")
    assert found["thresholds"] == load_profile("pocket").check.thresholds
    assert found["accepted"] == 6
    options = ("--profile", "pocket", "--set", "check.image_text=0.55", "--json")
    found = json.loads(run("check", made_suite.path, *options)[1])
    assert (found["thresholds"]["min_image_text"], found["accepted"]) == (0.55, 4)


def test_the_report_shows_what_a_check_decided(made_suite: MadeSuite, run: Command) -> None:
    def shown() -> int:
        assert run("report", made_suite.path)[0] == 0
        page = Reader((made_suite.path / "report" / "index.html").read_text())
        return sum(frame["reason"] is None for frame in page.frames)

    assert shown() == 5
    assert run("check", made_suite.path, "--set", "check.image_text=0.65")[0] == 0
    assert shown() == 3


def test_the_report_shows_edges_as_the_suite_s_painter_had_them(
    made_suite: MadeSuite, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def detector(profile: Any) -> None:
        asked.append(profile.name)

    monkeypatch.setattr("counterfactory.engine.api.pages.edge_detector", detector)
    for options in ([], ["--profile", "pocket"], ["--no-edges"]):
        assert run("report", made_suite.path, *options)[0] == 0
    assert asked == [made_profile().name, "pocket"]


def made_by(check: dict[str, Any] | None) -> str:
    """A record of one session, whose profile has no more than the settings `check`, or not even those."""
    facts = session_facts(profile={} if check is None else {"check": check})
    return json.dumps({"format": 4} | RunRecord((SessionRecord("a", "", True, facts, (), costs()),)).to_json())


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "has no run.json"),
        ("", "is not valid JSON"),
        ("[]", "should be a table"),
        ("{}", "is not a record of sessions"),
        ("[" * 100_000, "is not valid JSON"),
        (made_by(None), "does not say how the suite was made"),
        (made_by({"batch": 8}), "is missing"),
        (made_by({"batch": "much"}), "'batch' should be"),
    ],
    ids=["missing", "empty", "list", "no profile", "deep", "null", "part", "another type"],
)
def test_a_suite_without_its_record_needs_a_profile(
    record: str | None, message: str, made_suite: MadeSuite, run: Command
) -> None:
    path = made_suite.path / "run.json"
    path.unlink()
    if record is not None:
        path.write_text(record)
    for command in (("check", made_suite.path), ("report", made_suite.path)):
        assert "--profile" in run.refuses(message if command[0] == "check" else "", *command)
    status, _, err = run("report", made_suite.path, "--no-edges")
    assert (status, "masks are shown without their classes' names: " in err) == (
        0,
        record is not None and "sessions" not in record,
    )
    assert run("report", made_suite.path, "--profile", "pocket")[0] == 0
    if record is None:
        assert run("check", made_suite.path, "--profile", "pocket")[0] == 0


def test_thresholds_of_edits_are_replayed_and_the_reason_names_the_edit(made_suite: MadeSuite, run: Command) -> None:
    found = run.json("check", made_suite.path, "--set", "check.edit=0.8")
    assert (found["accepted"], found["thresholds"]["min_edit"]) == (0, 0.8)
    reasons = {row.reason for row in read_metadata(made_suite.path) if row.kind == "variant"}
    assert reasons == {"'foggy' does not show in place of 'clear': edit 0.750 is below 0.800"}


def test_check_reads_what_it_writes_under_its_lock(
    made_suite: MadeSuite, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends just before the lock is taken adds rows; they must not be lost."""
    rows = read_metadata(made_suite.path)
    with Suite.open(made_suite.path) as suite:
        suite.write_metadata(rows[:4])
    opened = Suite.open

    def late(path: Path) -> Suite:
        with opened(path) as suite:
            suite.write_metadata(rows)
        return opened(path)

    monkeypatch.setattr(Suite, "open", late)
    assert run("check", made_suite.path)[0] == 0
    assert len(read_metadata(made_suite.path)) == len(rows) == 9


def test_check_refuses_a_suite_in_use(made_suite: MadeSuite, run: Command) -> None:
    with Suite.open(made_suite.path):
        run.refuses("in use", "check", made_suite.path)


def test_evaluate_counts_a_user_s_answers(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    lines = ["image,prediction,confidence,split"]
    for row in made_suite.rows:  # right on originals, wrong on every second variant
        answer = "tram" if row.kind == "variant" and row.number else row.label
        lines.append(f"{f'{row.source}.png' if row.kind == 'original' else row.file_name},{answer},0.5,test")
    (tmp_path / "p.csv").write_text("\n".join([*lines, "images/stranger.png,bus,0.5,test"]))
    asked = ("--predictions", tmp_path / "p.csv", "--failures", tmp_path / "f.csv")
    status, out, err = run("evaluate", made_suite.path, *asked, "--json")
    found = json.loads(out)
    assert status == 0
    assert err.count("\n") == 2
    assert "p.csv: columns that are not read: split\n" in err
    assert "no picture of the suite is called images/stranger.png: its prediction is not counted\n" in err
    assert "1 rejected variant is not counted" in found["notes"]
    assert [(m["name"], m["variants"]) for m in found["beside"]] == [("confidence", {"count": 5, "value": 0.5})]
    assert (tmp_path / "f.csv").read_text().count("tram") == 2
    assert found["originals"]["score"] == {"count": 3, "value": 1.0}
    assert found["controls"]["score"] == {"count": 0, "value": None}
    assert found["variants"]["score"] == {"count": 5, "value": 0.6}
    assert found["excluded"] == 1
    assert found["effects"]["against"] == "original"
    (weather,) = found["effects"]["by_type"]
    assert weather["low"] < weather["value"] < weather["high"]
    out = run.text("evaluate", made_suite.path, "--predictions", tmp_path / "p.csv")
    assert "60.0 %" in out
    assert "no control has an answer" in out
    assert max(map(len, out.splitlines())) <= 80


def test_evaluate_as_a_step_of_a_test(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    lines = [f"{r.file_name},{'tram' if r.kind == 'variant' and r.number else r.label}" for r in made_suite.rows]
    (tmp_path / "p.csv").write_text("\n".join(["image,prediction", *lines]))
    asked = ("evaluate", made_suite.path, "--predictions", tmp_path / "p.csv")
    out = run.text(*asked, "--fail-under", "50", "--max-drop", "weather=5")
    assert "cannot tell weather costs at most 5 points" in out
    assert "kept        accuracy of the variants is at least 50 %" in out
    found = run.json(*asked, "--fail-under", "61%", "--junit", tmp_path / "j.xml", status=3)
    assert [finding["outcome"] for finding in found["limits"]] == ["broken"]
    assert 'failures="1"' in (tmp_path / "j.xml").read_text()
    for options, told in (
        (("--junit", tmp_path / "k.xml"), "give --max-drop, --fail-under or --max-regression"),
        (("--max-drop", "wether=5"), "did you mean 'weather'"),
        (("--classes", tmp_path / "j.xml"), "no class in"),
    ):
        run.refuses(told, *asked, *options)


def test_evaluate_says_first_which_pictures_have_no_answer(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    variants = [row for row in made_suite.rows if row.kind == "variant" and row.accepted]
    rows = [row for row in made_suite.rows if row not in variants[3:]]
    (tmp_path / "p.csv").write_text("image,prediction\n" + "".join(f"{r.file_name},{r.label}\n" for r in rows))
    asked = ("evaluate", made_suite.path, "--predictions", tmp_path / "p.csv")
    status, out, _ = run(*asked)
    said = f"judged on 3 of 5 variants: 2 have no answer, the first is {variants[3].file_name}"
    assert (status, " ".join(out.split())[: len(said)]) == (0, said)
    result = run.json(*asked)
    assert result["notes"][0] == said
    assert result["unanswered"] == [{"kind": "variant", "count": 2, "of": 5, "first": variants[3].file_name}]
    assert (result["variants"]["score"], result["strange"]) == ({"count": 3, "value": 1.0}, [])


def test_evaluate_holds_a_segmenter_s_numbers_to_the_record(
    made_suite: MadeSuite, tmp_path: Path, run: Command
) -> None:
    """Many that are no class are refused, few are warned of."""
    for name, shift in (("many", slice(None)), ("few", slice(1))):
        for row in made_suite.rows:
            mask = np.array(Image.open(made_suite.path / str(row.mask)))
            mask[shift, shift] += 100
            save_picture(tmp_path / name / row.file_name, mask)
    strange = "has numbers that are no class of the suite in 100.0 % of the pixels"
    run.refuses(strange, "evaluate", made_suite.path, "--predictions", tmp_path / "many")
    status, out, err = run("evaluate", made_suite.path, "--predictions", tmp_path / "few")
    assert (status, "pooled mIoU" in out) == (0, True)
    assert "they count as wrong" in " ".join(err.split())


def test_evaluate_reads_numbers_as_the_user_says(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    """Of the record's bus, car, tram and truck, or of a list; on the page a list of labels names no mask's number."""
    for name, order in (("folders", "bus car tram truck"), ("list", "truck zebra car bus")):
        names = order.split()
        lines = [f"{row.file_name},{names.index(str(row.label))}.0" for row in made_suite.rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["image,prediction", *lines]))
    (tmp_path / "names.txt").write_text("truck\nzebra\ncar\nbus\n")
    asked = ("evaluate", made_suite.path, "--predictions")
    run.refuses(
        "fit ImageFolder's order (bus, car, tram, truck): add --classes imagefolder, or",
        *asked,
        tmp_path / "folders.csv",
    )
    for table, classes in (("folders", "imagefolder"), ("list", tmp_path / "names.txt")):
        assert run.json(*asked, tmp_path / f"{table}.csv", "--classes", classes)["variants"]["score"]["value"] == 1
    given = ("--predictions", tmp_path / "list.csv", "--classes", tmp_path / "names.txt", "--no-edges")
    assert run("report", made_suite.path, *given)[0] == 0
    assert "zebra" not in (made_suite.path / "report" / "index.html").read_text()


def test_evaluate_takes_a_folder_of_masks(made_suite: MadeSuite, tmp_path: Path, run: Command) -> None:
    for row in made_suite.rows:
        mask = np.asarray(Image.open(made_suite.path / str(row.mask)))
        answer = mask if row.kind == "original" else np.zeros_like(mask)
        save_picture(tmp_path / "masks" / row.file_name, answer)
    (tmp_path / "names.txt").write_text("\n".join(EMBEDDED.classes))
    asked = ("--predictions", tmp_path / "masks", "--classes", tmp_path / "names.txt", "--max-drop", "weather=5")
    # A segmenter that sees sky alone has certainly lost more than 5 points.
    found = run.json("evaluate", made_suite.path, *asked, status=3)
    assert (found["measure"], found["classes"]) == ("pooled_miou", list(EMBEDDED.classes))
    assert found["originals"]["score"]["value"] == 1
    assert found["effects"]["by_type"][0]["value"] < -0.5
    assert run("report", made_suite.path, *asked[:4], "--no-edges")[0] == 0
    page = (made_suite.path / "report" / "index.html").read_text()
    shown = [frame["scores"].get("picture mIoU") for frame in Reader(page).frames]
    assert sum(score is not None and 0 < score < 1 for score in shown) == 5
    assert '<option value="score:picture mIoU">lowest picture mIoU first</option>' in page
    assert 'class="legend"' in page
    assert "pooled mIoU, originals to variants" in page


@pytest.mark.parametrize("command", [("check",), ("report",), ("evaluate", "--predictions", "p.csv")])
def test_commands_on_a_folder_that_is_no_suite(command: tuple[str, ...], tmp_path: Path, run: Command) -> None:
    run.refuses("holds no finished suite", command[0], tmp_path, *command[1:])
    assert list(tmp_path.iterdir()) == []


def test_a_suite_without_a_variant_is_no_success(street: Street, tmp_path: Path, run: Command) -> None:
    """No caption names a fox, so that nothing would hold the label true."""
    fox = tmp_path / "sources" / "fox"
    fox.mkdir(parents=True)
    picture = next((street.root / "images").rglob("*.png"))
    (fox / "one.png").write_bytes(picture.read_bytes())
    status, out, err = run("generate", fox.parent, "--out", tmp_path / "suite", "--variants", "1")
    assert status == 1
    assert "look at it with" not in out
    assert "no variant was made: its caption names nothing that it is labelled with ('fox')" in " ".join(err.split())


def test_generate_reports_what_it_skips_and_goes_on(
    street: Street, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(SWITCH, str(tmp_path / "file" / "compiled"))
    monkeypatch.setattr(model_pool, "open_llm", open_llm)  # something is opened, whatever ran before
    bus = street.root / "images" / "bus"
    bus.mkdir(exist_ok=True)
    (bus / "empty.png").touch()
    (bus / "text.png").write_text("not an image")
    Image.fromarray(np.zeros((1, 1), np.uint8)).save(bus / "dot.png")
    args = ("generate", street.root, "--out", tmp_path / "suite", "--variants", "1", "--sample", "2", "--json")
    status, out, err = run(*args)
    assert status == 1
    found: dict[str, Any] = json.loads(out)
    named = {problem["name"] for problem in found["problems"]}
    # Pictures that are drawn are opened, and no others.
    assert named == {"bus/text.png", "bus/dot.png"}
    assert all(problem["reason"] in err for problem in found["problems"])
    assert found["cache_problem"].startswith("compiled networks are not kept")
    assert found["cache_problem"] in err
    rows = read_metadata(tmp_path / "suite")
    assert sum(row.kind == "variant" for row in rows) == found["variants"] > 0
    assert len(rows) - found["sources"] == found["painted"]
    taken = [edit.type for row in rows if row.kind == "variant" and row.accepted for edit in row.edits]
    assert Counter(taken) == {one["type"]: one["edits"] for one in found["edits"]}
    before = (tmp_path / "suite" / "metadata.parquet").read_bytes()
    again = json.loads(run(*args)[1])
    assert (again["painted"], again["reused"]) == (0, found["painted"])
    assert again["cache_problem"] is None, "nothing was opened"
    assert (tmp_path / "suite" / "metadata.parquet").read_bytes() == before


@pytest.mark.slow
def test_the_demo_shows_a_suite(tmp_path: Path, run: Command) -> None:
    out = run.text("demo", "--out", tmp_path / "demo", "--sources", "3", "--variants", "2")
    assert out.startswith("cost")
    assert max(map(len, out.splitlines())) <= max(80, len(str(tmp_path)) + 40)
    for name in ("index.html", "contact_sheet.png", "suite/metadata.parquet", "sources/images"):
        assert (tmp_path / "demo" / name).exists()
    finding = json.loads((tmp_path / "demo" / "report.json").read_text())["findings"][0]["sentence"]
    assert finding in " ".join(out[out.index("sheet ") :].split()), "what was found, and where to see it, stand last"
    assert out.splitlines()[-1].split(maxsplit=2) == ["look", "at", str(tmp_path / "demo" / "index.html")]
