"""Suites by somebody who means harm: whatever names and links they hold, nothing outside of them is touched or read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from picture_rows import picture_row

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.source import Source
from counterfactory.engine.suite import NewPicture, Suite, read_metadata
from counterfactory.engine.suite.images import encode_picture
from counterfactory.engine.suite.ledger import Ledger
from counterfactory.engine.suite.outcome import Outcome, Outcomes
from counterfactory.engine.suite.paths import checked_name
from counterfactory.engine.suite.verdicts import read_verdicts

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
]


@pytest.mark.parametrize("name", [*NAMES, None, 3, b"images/a.png"])
def test_names_that_are_refused(name: object) -> None:
    with pytest.raises(CounterfactoryError, match=r"^here is .*names no file below images or masks or originals"):
        checked_name(name, "here")


@pytest.mark.parametrize("name", [IMAGE, MASK, "images/a.png", "images/..a/b..png", "images/ä ö/=test=/...png"])
def test_names_that_are_taken(name: str) -> None:
    assert checked_name(name, "here") == name


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder beside the suite, with a picture that has a name of ours and one that does not."""
    folder = tmp_path / "victim"
    for name in ("secret.png", f"{KEY[:16]}.png", f"bus/1/{KEY[:16]}.png", f"{KEY[:16]}.png.77.tmp"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode_picture(PIXELS))
    return folder


@pytest.fixture
def suite_path(tmp_path: Path) -> Path:
    """A suite of one picture with a mask, in its table."""
    path = tmp_path / "suite"
    with Suite.open(path) as suite:
        made = suite.write_images("paint", [NewPicture(KEY, "bus/1", PIXELS, PIXELS[..., 0])])[KEY]
        names = {"file_name": made.image.path, "original": made.image.path, "mask": made.files[1].path}
        suite.write_metadata([picture_row(**names, sha256=made.image.sha256, source="bus/1")])
    return path


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files' bytes and times of access that a read would not leave alone if it were noted: of change."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()
    }


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
    before = everything(victim)
    for read in (read_metadata, read_verdicts):
        with pytest.raises(CounterfactoryError, match=rf"metadata\.parquet, row 1: '{column}' is .*use a suite that"):
            read(suite_path)
    assert everything(victim) == before


@pytest.mark.parametrize("stage", ["suite/files", "suite/open"])
@pytest.mark.parametrize("name", SOME)
def test_a_ledger_s_lists_of_files_touch_nothing_outside(suite_path: Path, victim: Path, stage: str, name: str) -> None:
    plant(suite_path, stage, {name: True} if stage == "suite/files" else {"batch": [name]})
    before = everything(victim)
    rows = read_metadata(suite_path)
    with pytest.raises(CounterfactoryError, match="nothing was touched"), Suite.open(suite_path) as suite:
        suite.write_metadata(rows)
    assert everything(victim) == before
    assert (suite_path / IMAGE).is_file()


@pytest.mark.parametrize("kind", ["image", "mask"])
@pytest.mark.parametrize("name", SOME)
def test_a_ledger_s_pictures_stay_inside(suite_path: Path, victim: Path, kind: str, name: str) -> None:
    with Suite.open(suite_path) as suite:
        row = suite.images("paint", [KEY])[KEY].to_json()
    row[kind] |= {"path": name}
    plant(suite_path, "paint", {KEY: row})
    before = everything(victim)
    told = rf"ledger\.sqlite, paint 0123456789abcdef: '{kind}\.path' is"
    with Suite.open(suite_path) as suite, pytest.raises(CounterfactoryError, match=told):
        suite.images("paint", [KEY])
    assert everything(victim) == before


@pytest.mark.parametrize("name", SOME)
def test_a_ledger_s_outcomes_stay_inside(suite_path: Path, name: str) -> None:
    sources = [Source("bus/1", "bus/1", Path("bus/1"), (8, 8), None, None, "digest", "key")]
    with Suite.open(suite_path) as suite:
        outcomes = Outcomes(suite, "x")
        outcomes.keep(sources, Outcome(1, 0, 0, 0, {name: 3}, (), ()), [picture_row(file_name=name)], finished=True)
        with pytest.raises(CounterfactoryError, match=r"ledger\.sqlite, shard .*'files' is "):
            outcomes.find(sources)
        with pytest.raises(CounterfactoryError, match=r"ledger\.sqlite, shard/rows .*, row 1: 'file_name' is "):
            list(outcomes.rows([sources]))


@pytest.mark.parametrize("value", [None, 3, "text", [], {"image": None, "mask": None}, {"image": {"path": IMAGE}}])
def test_a_ledger_s_nonsense_is_a_sentence(suite_path: Path, value: object) -> None:
    plant(suite_path, "paint", {KEY: value})
    told = r"ledger\.sqlite, paint 0123456789abcdef: .*move ledger\.sqlite"
    with Suite.open(suite_path) as suite, pytest.raises(CounterfactoryError, match=told):
        suite.images("paint", [KEY])


# Links


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
    before = everything(victim)
    painted = [NewPicture(KEY, "bus/1", PIXELS + np.uint8(9), PIXELS[..., 0])]
    tries: list[Callable[[Suite], object]] = [
        lambda _: read_metadata(suite_path),
        lambda suite: suite.images("paint", [KEY]),
        lambda suite: suite.write_images("paint", painted),
        lambda suite: suite.write_metadata([]),  # supersedes everything
    ]
    tries += [] if at.startswith("masks") else [lambda suite: suite.load_image(row)]
    for attempt in tries:
        with pytest.raises(CounterfactoryError, match=r"through a link, .*victim.*, outside of the suite; nothing was"):
            run_in(suite_path, attempt)
    assert everything(victim) == before


def run_in(suite_path: Path, attempt: Callable[[Suite], object]) -> None:
    with Suite.open(suite_path) as suite:
        attempt(suite)


def test_nothing_is_superseded_into_another_folder(suite_path: Path, victim: Path) -> None:
    (suite_path / "superseded").symlink_to(victim)
    before = everything(victim)
    with pytest.raises(CounterfactoryError, match="outside of the suite"):
        Suite.open(suite_path)
    (suite_path / "superseded").unlink()
    (suite_path / "superseded").mkdir()
    (suite_path / "superseded/images").symlink_to(victim)
    with Suite.open(suite_path) as suite, pytest.raises(CounterfactoryError, match="outside of the suite"):
        suite.write_metadata([])
    assert everything(victim) == before


@pytest.mark.parametrize("name", ["suite.lock", "ledger.sqlite", "ledger.sqlite-wal", "metadata.parquet", "run.json"])
def test_a_suite_s_own_files_are_no_links_out(suite_path: Path, victim: Path, name: str) -> None:
    link_away(suite_path / name, victim / "secret.png")
    before = everything(victim)
    with pytest.raises(CounterfactoryError, match=f"{name} is, through a link, .*outside of the suite"):
        Suite.open(suite_path)
    assert everything(victim) == before


def test_a_link_that_waits_where_a_file_is_written_aside_is_not_followed(
    suite_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 77)
    with Suite.open(suite_path) as suite:
        (suite_path / "metadata.parquet.77.tmp").symlink_to(victim / "secret.png")
        before = everything(victim)
        suite.write_metadata(read_metadata(suite_path))
    assert everything(victim) == before
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
    before = everything(victim)
    with Suite.open(suite_path) as suite:
        suite.write_metadata([])
    assert everything(victim) == before
    with sqlite3.connect(suite_path / "ledger.sqlite") as database:
        names = [name for (name,) in database.execute("SELECT key FROM results WHERE stage = 'suite/files'")]
    assert not [name for name in names if "elsewhere" in name]


def test_a_report_is_not_written_through_a_link(suite_path: Path, victim: Path) -> None:
    for at, to in (("report", "."), ("report/index.html", "secret.png"), ("report/pictures", ".")):
        path = suite_path / at
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(victim / to)
        before = everything(victim)
        assert main(["report", str(suite_path)]) == 2
        assert everything(victim) == before
        path.unlink()
