"""Suites by somebody who means harm: whatever names and links they hold, nothing outside of them is touched or read."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_cases import CASES, LEDGERS, HostileCase, equal_rows, hot_journal, long_values, make_good, run_case
from hostile_cases import rewrite_table as reword_table
from picture_rows import picture_row
from refusing import refusal
from session_records import costs, session_facts

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.fill import plain
from counterfactory.engine.files.reading import open_file, read_text
from counterfactory.engine.files.writing import (
    make_folder,
    move_file,
    open_to_append,
    place_below,
    remove_file,
    write_whole,
)
from counterfactory.engine.judging.recheck import recheck
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.source import Source
from counterfactory.engine.suite import NewPicture, Suite, read_metadata
from counterfactory.engine.suite.contents import write_record
from counterfactory.engine.suite.images import encode_picture
from counterfactory.engine.suite.ledger import Ledger
from counterfactory.engine.suite.metadata import open_table
from counterfactory.engine.suite.outcome import Outcome, Outcomes
from counterfactory.engine.suite.paths import checked_name
from counterfactory.engine.suite.recorded import recorded_classes, recorded_networks, recorded_profile
from counterfactory.engine.suite.run_record import RunRecord, read_run, write_run
from counterfactory.engine.suite.session_record import SessionRecord
from counterfactory.engine.suite.sql import connect, create
from counterfactory.engine.suite.verdicts import read_verdicts
from counterfactory.engine.tasks.user_task import load_interventions, load_task

KEY = "0123456789abcdef" * 4
IMAGE, MASK = f"images/bus/1/{KEY[:16]}.png", f"masks/bus/1/{KEY[:16]}.png"
PIXELS = np.zeros((8, 8, 3), np.uint8)
# All names are refused in one place, which the first test holds to; that every way comes by there, some of them show.
SOME = ["/etc/passwd", "../victim/secret.png", "images/../../victim/secret.png"]
NAMES = [
    *(*SOME, "", "/", "images", "images/", "images//a.png", "images/../ledger.sqlite", "images/./a.png"),
    *("images/a/..", "./images/a.png", "ledger.sqlite", "superseded/images/a.png", "C:/victim/secret.png"),
    *("images/C:/secret.png", "C:secret.png", "images\\..\\..\\victim\\secret.png", "\\\\server\\share\\a.png"),
    "images/a\x00.png",
    # No file system takes these.
    *(f"images/{'a' * 252}.png", f"images/{'é' * 126}.png", "images" + "/aa" * 1000),
]


@pytest.mark.parametrize("name", [*NAMES, None, 3, b"images/a.png"])
def test_names_that_are_refused(name: object) -> None:
    with refusal(r"^here is .*names no file below images or masks or originals"):
        checked_name(name, "here")


@pytest.mark.parametrize(
    "name", [IMAGE, MASK, "images/a.png", "images/..a/b..png", "images/ä ö/=test=/...png", f"images/{'a' * 251}.png"]
)
def test_names_that_are_taken(name: str) -> None:
    assert checked_name(name, "here") == name


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files' bytes and times of access that a read would not leave alone if it were noted: of change."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()
    }


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder beside the suite, with a picture that has a name of ours and one that does not; nothing changes it."""
    folder = tmp_path / "victim"
    for name in ("secret.png", f"{KEY[:16]}.png", f"bus/1/{KEY[:16]}.png", f"{KEY[:16]}.png.77.tmp"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode_picture(PIXELS))
    before = everything(folder)
    yield folder
    assert everything(folder) == before


@pytest.fixture
def suite_path(tmp_path: Path) -> Path:
    """A suite of one picture with a mask, in its table."""
    path = tmp_path / "suite"
    with Suite.open(path) as suite:
        made = suite.write_images("paint", [NewPicture(KEY, "bus/1", PIXELS, PIXELS[..., 0])])[KEY]
        names = {"file_name": made.image.path, "original": made.image.path, "mask": made.files[1].path}
        suite.write_metadata([picture_row(**names, sha256=made.image.sha256, source="bus/1")])
    return path


def rewrite_table(path: Path, **changes: Any) -> None:
    (line,) = pq.read_table(path / "metadata.parquet").to_pylist()
    pq.write_table(pa.Table.from_pylist([line | changes]), path / "metadata.parquet")


def plant(path: Path, stage: str, rows: Mapping[str, Any]) -> None:
    ledger = Ledger(path / "ledger.sqlite")
    ledger.put(stage, rows)
    ledger.close()


@pytest.mark.parametrize("column", ["file_name", "mask_file_name", "original_file_name", "control_file_name"])
@pytest.mark.parametrize("name", SOME)
def test_a_table_s_names_stay_inside(suite_path: Path, victim: Path, column: str, name: str) -> None:
    rewrite_table(suite_path, **{column: name})
    for read in (read_metadata, read_verdicts):
        with refusal(rf"metadata\.parquet, row 1: '{column}' is .*use a suite that"):
            read(suite_path)


@pytest.mark.parametrize("stage", ["suite/files", "suite/open"])
@pytest.mark.parametrize("name", SOME)
def test_a_ledger_s_lists_of_files_touch_nothing_outside(suite_path: Path, victim: Path, stage: str, name: str) -> None:
    plant(suite_path, stage, {name: True} if stage == "suite/files" else {"batch": [name]})
    rows = read_metadata(suite_path)
    with refusal("nothing was touched"), Suite.open(suite_path) as suite:
        suite.write_metadata(rows)
    assert (suite_path / IMAGE).is_file()


@pytest.mark.parametrize("kind", ["image", "mask"])
@pytest.mark.parametrize("name", SOME)
def test_a_ledger_s_pictures_stay_inside(suite_path: Path, victim: Path, kind: str, name: str) -> None:
    with Suite.open(suite_path) as suite:
        row = suite.images("paint", [KEY])[KEY].to_json()
    row[kind] |= {"path": name}
    plant(suite_path, "paint", {KEY: row})
    with Suite.open(suite_path) as suite, refusal(rf"ledger\.sqlite, paint 0123456789abcdef: '{kind}\.path' is"):
        suite.images("paint", [KEY])


@pytest.mark.parametrize("name", SOME)
def test_a_ledger_s_outcomes_stay_inside(suite_path: Path, name: str) -> None:
    sources = [Source("bus/1", "bus/1", Path("bus/1"), (8, 8), None, None, "digest", "key")]
    with Suite.open(suite_path) as suite:
        outcomes = Outcomes(suite, "x")
        outcomes.keep(sources, Outcome(1, 0, 0, 0, {name: 3}, (), ()), [picture_row(file_name=name)], finished=True)
        with refusal(r"ledger\.sqlite, shard .*'files' is "):
            outcomes.find(sources)
        with refusal(r"ledger\.sqlite, shard/rows .*, row 1: 'file_name' is "):
            list(outcomes.rows([sources]))


@pytest.mark.parametrize("value", [None, 3, "text", [], {"image": None, "mask": None}, {"image": {"path": IMAGE}}])
def test_a_ledger_s_nonsense_is_a_sentence(suite_path: Path, value: object) -> None:
    plant(suite_path, "paint", {KEY: value})
    with Suite.open(suite_path) as suite, refusal(r"ledger\.sqlite, paint 0123456789abcdef: .*move ledger\.sqlite"):
        suite.images("paint", [KEY])


def link_away(path: Path, victim: Path) -> None:
    """Put a link to the victim in the place of a file or folder."""
    if path.is_dir():
        path.rename(path.with_name("was"))
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(victim)


@pytest.mark.parametrize(
    ("at", "to"),
    [("images", "."), ("images/bus", "bus"), ("images/bus/1", "bus/1"), (IMAGE, "secret.png"), ("masks/bus", "bus")],
)
def test_links_out_of_the_suite_are_refused(suite_path: Path, victim: Path, at: str, to: str) -> None:
    with Suite.open(suite_path) as suite:
        row = suite.images("paint", [KEY])[KEY]
    link_away(suite_path / at, victim / to)
    painted = [NewPicture(KEY, "bus/1", PIXELS + np.uint8(9), PIXELS[..., 0])]
    tries: list[Callable[[Suite], object]] = [
        lambda _: read_metadata(suite_path),
        lambda suite: suite.images("paint", [KEY]),
        lambda suite: suite.write_images("paint", painted),
        lambda suite: suite.write_metadata([]),  # supersedes everything
    ]
    tries += [] if at.startswith("masks") else [lambda suite: suite.load_image(row)]
    for attempt in tries:
        told = r"through a link, .*victim.*, outside of the suite; nothing was"
        with refusal(told), Suite.open(suite_path) as suite:
            attempt(suite)


def test_nothing_is_superseded_into_another_folder(suite_path: Path, victim: Path) -> None:
    (suite_path / "superseded").symlink_to(victim)
    with refusal("outside of the suite"):
        Suite.open(suite_path)
    (suite_path / "superseded").unlink()
    (suite_path / "superseded").mkdir()
    (suite_path / "superseded/images").symlink_to(victim)
    with Suite.open(suite_path) as suite, refusal("outside of the suite"):
        suite.write_metadata([])


@pytest.mark.parametrize("name", ["suite.lock", "ledger.sqlite", "ledger.sqlite-wal", "metadata.parquet", "run.json"])
def test_a_suite_s_own_files_are_no_links_out(suite_path: Path, victim: Path, name: str) -> None:
    link_away(suite_path / name, victim / "secret.png")
    with refusal(f"{name} is, through a link, .*outside of the suite"):
        Suite.open(suite_path)


def test_a_link_that_waits_where_a_file_is_written_aside_is_not_followed(
    suite_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 77)
    with Suite.open(suite_path) as suite:
        (suite_path / "metadata.parquet.77.tmp").symlink_to(victim / "secret.png")
        suite.write_metadata(read_metadata(suite_path))
    assert not (suite_path / "metadata.parquet").is_symlink()


def test_a_suite_may_be_a_link_itself_and_hold_links_to_its_own_files(suite_path: Path, tmp_path: Path) -> None:
    (suite_path / "images/bus/1").rename(suite_path / "images/bus/2")
    (suite_path / "images/bus/1").symlink_to(suite_path / "images/bus/2")
    (tmp_path / "link").symlink_to(suite_path)
    with Suite.open(tmp_path / "link") as suite:
        assert list(suite.images("paint", [KEY])) == [KEY]
        suite.write_metadata(read_metadata(tmp_path / "link"))


def test_an_old_ledger_s_files_are_not_looked_for_outside(suite_path: Path, victim: Path) -> None:
    (suite_path / "images/elsewhere").symlink_to(victim)
    for file in suite_path.glob("ledger*"):
        file.unlink()
    with Suite.open(suite_path) as suite:
        suite.write_metadata([])
    with sqlite3.connect(suite_path / "ledger.sqlite") as database:
        names = [name for (name,) in database.execute("SELECT key FROM results WHERE stage = 'suite/files'")]
    assert not [name for name in names if "elsewhere" in name]


# The table of cases, each of which `tests/faults.py` runs as users do. Here what they hang on is asked for by itself.


@pytest.fixture
def here(suite_path: Path, tmp_path: Path) -> Path:
    """A folder as the cases expect it: a suite beside what is the user's."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "diary.txt").write_text("kept")
    return tmp_path


def test_a_hot_journal_is_not_played_back(here: Path) -> None:
    hot_journal(here)
    with refusal(r"journal is a journal, which we leave nowhere; nothing was touched"):
        Suite.open(here / "suite")
    assert (here / "outside" / "diary.txt").read_text() == "kept"
    with contextlib.closing(sqlite3.connect(here / "suite" / "ledger.sqlite")) as database:
        database.execute("SELECT count(*) FROM results").fetchone()
    assert not (here / "outside" / "diary.txt").exists(), "SQLite alone does it, or this proves nothing"


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("diary.txt"), Path.mkdir])
def test_nothing_of_a_ledger_is_a_link_or_a_pipe(
    here: Path, end: str, put: Callable[[Path], object], read_only: bool
) -> None:
    ledger = here / "suite" / "ledger.sqlite"
    ledger.with_name(f"ledger.sqlite{end}").unlink(missing_ok=True)
    put(ledger.with_name(f"ledger.sqlite{end}"))
    before = sorted(path.name for path in ledger.parent.iterdir())
    with refusal(r"nothing was touched: move ledger\.sqlite and what begins so out of"):
        connect(ledger, read_only=read_only)
    assert sorted(path.name for path in ledger.parent.iterdir()) == before


@pytest.mark.parametrize("name", LEDGERS)
def test_no_statement_runs_in_a_ledger_with_another_schema(here: Path, name: str) -> None:
    path = here / "suite" / "ledger.sqlite"
    LEDGERS[name](here)
    before = path.read_bytes()
    with refusal(r"ledger\.sqlite is damaged .*move ledger\.sqlite"):
        Ledger(path)
    assert path.read_bytes() == before


def test_views_and_triggers_are_denied_besides(tmp_path: Path) -> None:
    """Were the schema not looked at, SQLite would be told not to run it."""
    create(tmp_path / "a", "CREATE TABLE t (x); CREATE VIEW v AS SELECT x FROM t;"
           "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END;")  # fmt: skip
    with contextlib.closing(connect(tmp_path / "a")) as database:
        database.execute("SELECT x FROM t")
        for statement in ("SELECT * FROM v", "INSERT INTO t VALUES (1)", f"ATTACH '{tmp_path / 'b'}' AS b"):
            with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
                database.execute(statement)
    assert not (tmp_path / "b").exists()


def test_a_new_ledger_never_has_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at any point of its making, it is whole or absent: what could be played back does not come to be."""
    seen = list[list[str]]()
    real = os.replace

    def noted(*arguments: Any, **options: Any) -> None:
        seen.append([path.name for path in tmp_path.iterdir()])
        real(*arguments, **options)

    monkeypatch.setattr(os, "replace", noted)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert seen == [[f"ledger.sqlite.{os.getpid()}.tmp"]]
    assert (tmp_path / "ledger.sqlite").read_bytes()[18:20] == b"\2\2"
    ledger.put("stage", {"key": 1})
    assert not (tmp_path / "ledger.sqlite-journal").exists()
    ledger.close()


def test_a_check_that_changes_nothing_only_reads(suite_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suite, "open", lambda _: pytest.fail("it was opened to be written"))
    settings = load_profile("pocket").check
    reword_table(suite_path.parent, lambda _: {"kind": "original"})
    before = everything(suite_path)
    assert recheck(suite_path, settings).variants == 0
    assert everything(suite_path) == before


@pytest.mark.parametrize("at", ["report", "report/masks", "report/masks/bus"])
def test_no_link_below_a_suite_is_written_through(here: Path, at: str) -> None:
    (here / "suite" / at).parent.mkdir(parents=True, exist_ok=True)
    (here / "suite" / at).symlink_to(here / "outside")
    file = here / "suite" / "report" / "masks" / "bus" / "0.png"
    for write in (
        lambda: write_whole(file, b"x", below=here / "suite"),
        lambda: make_folder(file.parent, here / "suite"),
        lambda: move_file(here / "suite" / "run.json", file, here / "suite"),
        lambda: remove_file(here / "suite" / at / "diary.txt", here / "suite"),
    ):
        with refusal(f"{at} is a link, through which nothing is written; nothing was"):
            write()
    assert everything(here / "outside").keys() == {"diary.txt"}


def test_a_link_in_the_place_of_a_file_is_replaced(here: Path) -> None:
    (here / "suite" / "page").symlink_to(here / "outside" / "diary.txt")
    write_whole(here / "suite" / "page", "mine", below=here / "suite")
    assert not (here / "suite" / "page").is_symlink()
    assert (here / "outside" / "diary.txt").read_text() == "kept"


@pytest.mark.parametrize(
    "spelled", ["suite/r", "./suite/r", "suite/images/../r", "outside/../suite/r", "to/r", "{}/suite/r"]
)
def test_a_place_in_a_suite_is_known_however_it_is_spelled(
    here: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    monkeypatch.chdir(here)
    (here / "to").symlink_to("suite")
    for suite in (Path("suite"), here / "suite", here / "to"):
        assert place_below(Path(spelled.format(here)), suite) == (suite / "r", suite)
        assert place_below(Path("outside/r"), suite) == (Path("outside/r"), None)


@pytest.mark.parametrize("read", [read_text, load_task, load_interventions, read_run, read_metadata, open_table])
def test_what_is_no_file_is_not_read(here: Path, read: Callable[[Path], object]) -> None:
    """A pipe would be waited for, for ever, and a device read without an end."""
    path = here / "given.toml"
    names = {read_run: "run.json", read_metadata: "metadata.parquet", open_table: "metadata.parquet"}
    if read in names:
        path = here / "suite" / names[read]
    for put in (os.mkfifo, Path.mkdir):
        link_away(path, here / "outside")
        path.unlink()
        put(path)
        with pytest.raises(CounterfactoryError):
            read(here / "suite" if read in names else path)
        path.rmdir() if path.is_dir() else path.unlink()


def test_an_open_file_is_a_regular_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, fault in (
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "directory"),
        (Path("/dev/zero"), "not a"),
    ):
        with pytest.raises(OSError, match=fault):
            open_file(path)
    with pytest.raises(OSError, match="not a regular file"), open_file(tmp_path / "pipe"):
        pass
    with pytest.raises(OSError, match="device"):  # nobody reads it
        open_to_append(tmp_path / "pipe")


def test_parquet_that_grows_without_bound_is_refused(here: Path) -> None:
    path = here / "suite" / "metadata.parquet"
    good = path.read_bytes()
    for build in (partial(equal_rows, count=30_000), long_values):
        path.write_bytes(good)
        build(here)
        for read in (read_metadata, read_verdicts):
            with refusal(r"metadata\.parquet cannot be read \(.* bytes"):
                read(here / "suite")


@pytest.mark.parametrize("number", ["999999999999", "65536000", "9" * 5000])
def test_a_class_number_that_no_mask_holds_is_refused(here: Path, number: str) -> None:
    facts = session_facts(data={"classes": {number: "x"}})
    write_run(here / "suite", RunRecord((SessionRecord("1", "2026-11-23", True, facts, (), costs()),)))
    with refusal(r"run\.json: 'classes': no mask holds"):
        recorded_classes(here / "suite")


def test_networks_are_opened_where_the_package_has_them(here: Path) -> None:
    """A record that names others would have them run."""
    for folder, refused in (("pocket", False), (str(here / "suite"), True), ("none", True)):
        profile = load_profile("pocket")
        profile = replace(profile, models=replace(profile.models, folder=folder))
        facts = session_facts(profile=plain(profile))
        write_run(here / "suite", RunRecord((SessionRecord("1", "2026-11-23", True, facts, (), costs()),)))
        assert recorded_profile(here / "suite").models.folder == folder
        with refusal("a record may be anybody's; name") if refused else nullcontext():
            recorded_networks(here / "suite")


@pytest.mark.slow  # a suite is made, and commands run on it: half a minute
def test_the_table_of_cases_finds_no_harm_and_would_see_it(tmp_path: Path) -> None:
    make_good(tmp_path)
    run = {case.name: case for case in CASES}
    assert not [done for name in ("good", "escape sequences") for done in run_case(run[name], tmp_path) if done.faults]
    (tmp_path / "outside" / "new").symlink_to("../suite/run.json")
    harmful = HostileCase("x", lambda _: None, (("check", "suite", "--set", "check.min_changed=0.3"),), (2,))
    (done,) = run_case(replace(harmful, megabytes=1, holds=lambda _: False), tmp_path)
    assert [fault.partition(" ")[0] for fault in done.faults] == ["ended", "took", "what"]


def test_costs_that_add_up_to_no_number_are_a_sentence(tmp_path: Path) -> None:
    with refusal(r"run\.json would hold a number that is not finite"):
        write_record(tmp_path, {"totals": 1e308 * 10})
    assert not (tmp_path / "run.json").exists()
