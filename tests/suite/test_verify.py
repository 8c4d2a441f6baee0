"""Every byte of a suite is compared with what was recorded of it, and a crash leaves the old pair of records or the new
one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import corruptions
import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import MadeSuite, made_profile
from hostile_cases import rewrite_table
from refusing import refusal

from counterfactory.engine.judging.recheck import recheck
from counterfactory.engine.suite import NewPicture, Provenance, Suite, read_metadata, read_run
from counterfactory.engine.suite.contents import suite_digest
from counterfactory.engine.suite.run_record import count_verdicts
from counterfactory.engine.suite.verdicts import read_verdicts
from counterfactory.engine.suite.verify import verify_suite

STRICT = made_profile().check.having(min_image_text=0.75)


def rot(path: Path) -> None:
    """Another byte in the middle of a file, at the same size and time."""
    data, status = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "suite.lock"]
    return {str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def digest_by_hand(suite: Path) -> str:
    """The digest as its page says it, by none of our code: of what sha256sum would print, and of the table."""
    table = pq.read_table(suite / "metadata.parquet").to_pylist()
    names = {row[f"{name}file_name"] for row in table for name in ("", "mask_", "original_", "control_")} - {None}
    lines = [f"{hashlib.sha256((suite / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(names)]
    files = hashlib.sha256("".join(lines).encode()).hexdigest()
    whole = hashlib.sha256((suite / "metadata.parquet").read_bytes()).hexdigest()
    return hashlib.sha256(f"{files}\n{whole}\n".encode()).hexdigest()


def test_a_sound_suite_is_named_by_its_digest_and_nothing_is_written(made_suite: MadeSuite) -> None:
    before = everything(made_suite.path)
    verification = verify_suite(made_suite.path)
    assert (verification.sound, verification.faults, verification.notes) == (True, (), ())
    pictures = list(made_suite.path.rglob("*.png"))
    assert (verification.files, verification.bytes) == (len(pictures), sum(one.stat().st_size for one in pictures))
    assert verification.digest == digest_by_hand(made_suite.path) == suite_digest(made_suite.path)
    assert everything(made_suite.path) == before


def test_the_same_suite_has_the_same_digest_wherever_and_however_it_was_written(
    made_suite: MadeSuite, tmp_path: Path
) -> None:
    digest, noted = suite_digest(made_suite.path), list[str]()
    shutil.copytree(made_suite.path, tmp_path / "copy", copy_function=shutil.copyfile)
    verification = verify_suite(tmp_path / "copy")
    assert (verification.digest, verification.faults) == (digest, ())
    with Suite.open(tmp_path / "copy") as suite:  # in another order, all at once, beside the old files
        suite.write_metadata(reversed(read_metadata(made_suite.path)), lambda one: noted.append(one.digest))
    assert noted == [digest]
    recheck(made_suite.path, STRICT)
    assert suite_digest(made_suite.path) not in (None, digest)
    assert verify_suite(made_suite.path).digest == digest_by_hand(made_suite.path)


@pytest.mark.parametrize("kind", ["images", "originals", "masks"])
@pytest.mark.parametrize("harm", [rot, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_a_picture_that_is_not_as_written_is_named_alone(
    made_suite: MadeSuite, kind: str, harm: Callable[[Path], object]
) -> None:
    path = sorted((made_suite.path / kind).rglob("*.png"))[1]
    name, before = str(path.relative_to(made_suite.path)), everything(made_suite.path)
    harm(path)
    verification = verify_suite(made_suite.path)
    assert [fault.file for fault in verification.faults] == [name]
    assert "generate" in verification.faults[0].remedy
    assert verification.digest is None
    after = everything(made_suite.path)
    assert {one for one in before if before[one] != after.get(one)} == {name}
    with Suite.open(made_suite.path) as suite:  # which a run takes for missing now, and no other
        stored = {row.key: row for row in made_suite.rows if name in (row.file_name, row.mask)}
        kept = {row.key for row in made_suite.rows} - stored.keys()
        found = {key for top in ("images", "originals") for key in suite.images(top, [*stored, *kept])}
        # A mask comes back from another of its source.
        assert found == (kept | stored.keys() if kind == "masks" else kept)
    if kind == "masks":
        assert path.read_bytes() == before[name][0]


def test_a_table_that_names_another_picture_than_the_ledger_is_named(made_suite: MadeSuite) -> None:
    """Table and record go together, as where somebody wrote both."""
    assert made_suite.path.name == "suite"
    rewrite_table(made_suite.path.parent, lambda row: {"sha256": "0" * 64} if row["kind"] == "variant" else {})
    faults = [one for one in verify_suite(made_suite.path).faults if "it has another digest of " in one.fault]
    assert [one.file for one in faults] == ["metadata.parquet"] * sum(row.kind == "variant" for row in made_suite.rows)


def test_a_superseded_picture_is_verified_too(made_suite: MadeSuite) -> None:
    with Suite.open(made_suite.path) as suite:
        suite.write_metadata(made_suite.rows[:2], lambda contents: suite.write_run(
            suite.read_run().with_contents(contents)))  # fmt: skip
    assert verify_suite(made_suite.path).sound
    path = sorted((made_suite.path / "superseded").rglob("*.png"))[0]
    rot(path)
    (fault,) = verify_suite(made_suite.path).faults
    assert fault.file == str(path.relative_to(made_suite.path))


def test_rows_of_the_ledger_and_of_kept_answers_are_verified(made_suite: MadeSuite) -> None:
    (made_suite.path / "predictions").mkdir()
    shutil.copy(made_suite.path / "ledger.sqlite", made_suite.path / "predictions" / "a.sqlite")
    assert verify_suite(made_suite.path).sound
    for name in ("ledger.sqlite", "predictions/a.sqlite"):
        with closing(sqlite3.connect(made_suite.path / name)) as database, database:
            database.execute("UPDATE results SET value = replace(value, '128', '129') WHERE stage = 'originals'")
            database.execute("UPDATE results SET value = substr(value, 2) WHERE stage = 'images'")
        (fault,) = verify_suite(made_suite.path).faults
        assert fault.file == name
        assert "6 " in fault.fault
        (made_suite.path / name).unlink()
        if name == "ledger.sqlite":
            shutil.copy(made_suite.path / "predictions" / "a.sqlite", made_suite.path / name)


def test_a_file_whose_row_is_lost_is_told_and_looked_at_by_the_next_run(made_suite: MadeSuite) -> None:
    row = made_suite.rows[1]
    with closing(sqlite3.connect(made_suite.path / "ledger.sqlite")) as database, database:
        database.execute("DELETE FROM results WHERE stage = 'suite/files' AND key = ?", [row.file_name])
    faults = verify_suite(made_suite.path).faults
    assert [(fault.file, fault.fault) for fault in faults] == [("ledger.sqlite", "it has lost rows of 1 files")]
    with Suite.open(made_suite.path) as suite:
        file = made_suite.path / row.file_name
        assert not suite.holds({row.file_name: file.stat().st_size}, [file.stat().st_mtime_ns])
        assert suite.images("images", [row.key]) == {}
    with Suite.open(made_suite.path) as suite:
        assert suite.holds({row.file_name: file.stat().st_size}, [file.stat().st_mtime_ns])


@pytest.mark.parametrize(
    ("name", "word"),
    [("run.json", "its own digest"), ("metadata.parquet", "names by its digest"), ("by_hand.json", "")],
)
def test_records_are_verified(made_suite: MadeSuite, name: str, word: str) -> None:
    picture = next(row.file_name for row in made_suite.rows if row.kind == "variant")
    recheck(made_suite.path, STRICT, [(picture, "exclude", "a face")])
    assert verify_suite(made_suite.path).sound
    path = made_suite.path / name
    data = path.read_bytes()
    changed = {"run.json": (b'"wall_s": 36.0', b'"wall_s": 37.0'), "by_hand.json": (b"a face", b"a fact")}
    path.write_bytes(data.replace(*changed[name], 1) if name in changed else data.replace(b"foggy", b"soggy"))
    assert path.read_bytes() != data
    (fault,) = verify_suite(made_suite.path).faults
    assert fault.file == name
    assert word in fault.fault
    if name != "by_hand.json":
        with refusal(word):
            recheck(made_suite.path, STRICT)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_refused_before_anything_is_written(
    made_suite: MadeSuite, text: str
) -> None:
    path = made_suite.path / "run.json"
    path.write_text(path.read_text().replace("36.0", text))
    before = everything(made_suite.path)
    with refusal(rf"not valid JSON: {text} is not a finite number.*move it out of the folder"):
        recheck(made_suite.path, STRICT)
    after = everything(made_suite.path)
    assert {name for name in before if before[name][0] != after[name][0]} <= {"ledger.sqlite"}


def as_older(suite: Path) -> None:
    """The suite as a version without digests of rows, files and records left it."""
    with closing(sqlite3.connect(suite / "ledger.sqlite")) as database, database:
        database.execute("UPDATE results SET value = substr(value, 33)")
        database.execute("UPDATE results SET value = 'true' WHERE stage = 'suite/files'")
        database.execute("UPDATE results SET stage = 'paint' WHERE stage = 'images'")
        database.execute("UPDATE results SET stage = 'original' WHERE stage = 'originals'")
        database.execute("DELETE FROM results WHERE stage = 'suite/open' AND key = 'digests'")
        database.execute("PRAGMA user_version = 1")
    record = json.loads((suite / "run.json").read_text())
    del record["sha256"], record["standing"]["contents"]
    (suite / "run.json").write_text(json.dumps(record | {"format": 4}))


def test_an_older_suite_is_said_to_be_so_and_gets_digests_when_it_is_opened(made_suite: MadeSuite) -> None:
    as_older(made_suite.path)
    verification = verify_suite(made_suite.path)
    assert (verification.faults, verification.digest) == ((), None)
    for name in ("ledger.sqlite", "run.json"):
        assert f"{name} is of an older version" in " ".join(verification.notes)
    recheck(made_suite.path, STRICT)
    verification = verify_suite(made_suite.path)
    assert (verification.faults, verification.notes) == ((), ())
    assert verification.digest == digest_by_hand(made_suite.path)
    rot(sorted((made_suite.path / "masks").rglob("*.png"))[0])
    assert len(verify_suite(made_suite.path).faults) == 1


def test_a_suite_in_use_is_not_verified_and_one_that_may_not_be_written_is(
    made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Suite.open(made_suite.path), refusal("in use"):
        verify_suite(made_suite.path)
    opened = os.open

    def read_only(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system", str(path))
        return opened(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", read_only)
    assert verify_suite(made_suite.path).sound


def test_a_file_whose_time_moved_alone_is_read_once_and_kept(
    made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = next(row.key for row in made_suite.rows if row.kind == "variant")
    read: list[str] = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: read.append(name) or real(file, name))
    with Suite.open(made_suite.path) as suite:
        assert list(suite.images("images", [key])) == [key]
        assert read == []
        image = suite.images("images", [key])[key].image
        os.utime(made_suite.path / image.path, ns=(1, 1))
        for _ in range(2):
            assert list(suite.images("images", [key])) == [key]
            assert len(read) == 1
        rot(made_suite.path / image.path)  # at the time that was noted: nobody looks, but `verify`
        os.utime(made_suite.path / image.path, ns=(2, 2))
        assert list(suite.images("images", [key])) == []


@pytest.mark.parametrize("job", ["check", pytest.param("table", marks=pytest.mark.slow)])
def test_a_crash_at_any_file_operation_leaves_the_old_pair_or_the_new_one(
    made_suite: MadeSuite, tmp_path: Path, job: str
) -> None:
    """The process dies at its k-th call that changes the disk, for every k."""
    rows = read_metadata(made_suite.path)[:-1]

    def work(suite: Path) -> None:
        if job == "check":
            recheck(suite, STRICT)
        else:
            with Suite.open(suite) as opened:
                record = opened.read_run()
                opened.write_metadata(rows, lambda contents: opened.write_run(
                    record.with_verdicts(rows, {}).with_contents(contents)))  # fmt: skip

    def pair(suite: Path) -> tuple[Any, ...]:
        record = read_run(suite)
        assert record.standing is not None
        counts = count_verdicts(read_verdicts(suite).rows)
        assert counts == {name: getattr(record.standing, name) for name in counts}
        for row in read_metadata(suite):
            assert all((suite / name).is_file() for name in row.files)
        return (suite_digest(suite), *counts.values())

    old = pair(made_suite.path)
    shutil.copytree(made_suite.path, tmp_path / "done")
    work(tmp_path / "done")
    new = pair(tmp_path / "done")
    assert new != old
    seen = []
    for step in range(1, 100):
        suite = tmp_path / f"{step}"
        shutil.copytree(made_suite.path, suite)
        status = os.waitpid(fork_and_die(lambda suite=suite: work(suite), step), 0)[1]
        seen.append(pair(suite))
        assert seen[-1] in (old, new)
        work(suite)
        assert pair(suite) == new
        assert verify_suite(suite).sound
        shutil.rmtree(suite)
        if status == 0:
            break
    assert {old, new} == set(seen)
    assert status == 0
    assert step > 5


def fork_and_die(work: Callable[[], None], step: int) -> int:
    """Runs `work` in a process of its own that dies at its `step`-th call; its number."""
    if child := os.fork():
        return child
    left = step
    try:
        for name in ("replace", "fsync", "unlink", "mkdir", "rmdir"):
            real = getattr(os, name)

            def counted(*args: Any, real: Any = real, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    os._exit(9)
                return real(*args, **kwargs)

            setattr(os, name, counted)
        work()
        os._exit(0)
    finally:
        os._exit(70)


@pytest.mark.parametrize(("count", "seed"), [(6, 5), pytest.param(30, 6, marks=pytest.mark.slow)])
def test_random_corruption_is_found_or_harmless(count: int, seed: int) -> None:
    assert corruptions.run(count, seed) == (count, 0, 0)


def test_a_picture_is_written_again_with_the_bytes_that_it_had(tmp_path: Path) -> None:
    pixels = np.full((8, 8, 3), 7, np.uint8)
    older = NewPicture("ab" * 32, "bus/1", pixels, pixels[..., 0])
    marked = replace(older, provenance=Provenance("ab" * 32, "algorithmicallyEnhanced"))
    other = replace(marked, key="cd" * 32)
    with Suite.open(tmp_path) as suite:
        # One of an older version, whose pictures say nothing of themselves, and one of today's.
        for first, again in ((older, marked), (other, other)):
            (row,) = suite.write_images("paint", [first]).values()
            before = {file.path: (tmp_path / file.path).read_bytes() for file in row.files}
            assert (b"algorithmicallyEnhanced" in before[row.image.path]) == (first is other)
            rot(tmp_path / row.image.path)
            suite.write_images("paint", [again])
            assert {file.path: (tmp_path / file.path).read_bytes() for file in row.files} == before
