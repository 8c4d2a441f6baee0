"""The ledger: what goes in comes out, all or nothing, and a bad file is one clear sentence."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import ledger as ledger_module
from counterfactory.engine.suite.ledger import FORMAT, Ledger

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcäß ", max_size=4), inner, max_size=3),
    max_leaves=6,
)
key_texts = st.text("0123456789abcdef", min_size=1, max_size=6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def filled(path: Path, rows: int = 400) -> Path:
    ledger = Ledger(path)
    ledger.put("caption", {f"{i:064x}": {"text": "a red car drives on a wet road " * 5, "i": i} for i in range(rows)})
    ledger.close()
    return path


@settings(max_examples=12)
@given(
    puts=st.lists(
        st.tuples(st.sampled_from(["caption", "paint"]), st.dictionaries(key_texts, json_values, max_size=5))
    ),
    reopen=st.booleans(),
)
def test_returns_what_was_put_last(puts: list[tuple[str, dict[str, object]]], reopen: bool) -> None:
    oracle: dict[tuple[str, str], object] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger = Ledger(path)
        for stage, rows in puts:
            ledger.put(stage, rows)
            oracle.update({(stage, key): value for key, value in rows.items()})
        if reopen:
            ledger.close()
            ledger = Ledger(path)
        for stage in ("caption", "paint", "never"):
            expected = {key: value for (its, key), value in oracle.items() if its == stage}
            assert ledger.get(stage, [*expected, "not there"]) == expected
        ledger.close()


def test_get_takes_any_number_of_keys_and_keeps_their_order(path: Path) -> None:
    ledger = Ledger(path)
    keys = [f"{i * 7919 % 40_009:08x}" for i in range(40_000)]
    ledger.put("paint", {key: i for i, key in enumerate(keys) if i % 20 == 0})
    assert list(ledger.get("paint", keys).items()) == [(key, i) for i, key in enumerate(keys) if i % 20 == 0]
    assert ledger.get("paint", []) == {}
    assert ledger.get("paint", [keys[20], keys[20]]) == {keys[20]: 20}
    ledger.close()


def test_walk_goes_through_all_of_a_stage_and_lets_rows_be_put_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_PAGE", 3)
    ledger = Ledger(path)
    ledger.put("other", {"zz": 0})
    ledger.put("files", {f"{i:02}": i for i in range(10)})
    pages = []
    for page in ledger.walk("files"):
        pages.append(page)
        ledger.put("files", dict.fromkeys(page, "seen"))
    assert [list(page) for page in pages] == [["00", "01", "02"], ["03", "04", "05"], ["06", "07", "08"], ["09"]]
    assert [value for page in pages for value in page.values()] == list(range(10))
    assert set(ledger.get("files", [f"{i:02}" for i in range(10)]).values()) == {"seen"}
    assert list(ledger.walk("never")) == []
    ledger.close()


def test_a_put_that_fails_leaves_nothing(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put("paint", {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        ledger.put("paint", {"a": 2, "b": float("nan")})
    with pytest.raises(TypeError):
        ledger.put("paint", {"a": 2, "b": object()})
    assert ledger.get("paint", ["a", "b"]) == {"a": 1}
    ledger.close()


def test_a_full_disk_is_a_sentence_and_loses_nothing(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put("paint", {"a": 1})
    ledger._db.execute("PRAGMA max_page_count = 8")  # SQLite's own full disk
    with pytest.raises(CounterfactoryError, match="full; free some space and run the same command again"):
        ledger.put("paint", {f"{i:064x}": "x" * 500 for i in range(200)})
    ledger._db.execute("PRAGMA max_page_count = 1000000")
    ledger.put("paint", {"b": 2})
    assert ledger.get("paint", ["a", "b", f"{0:064x}"]) == {"a": 1, "b": 2}
    ledger.close()


def test_a_read_only_file_is_a_sentence(path: Path) -> None:
    ledger = Ledger(path)
    ledger._db.execute("PRAGMA query_only = ON")  # chmod does not bind root
    with pytest.raises(CounterfactoryError, match=r"ledger\.sqlite.*readonly.*allow writing there"):
        ledger.put("paint", {"a": 1})
    ledger.close()


def test_a_folder_in_its_place_is_a_sentence(path: Path) -> None:
    path.mkdir()
    with pytest.raises(CounterfactoryError, match="unable to open"):
        Ledger(path)


def cut_short(data: bytes) -> bytes:
    return data[: len(data) // 2]


def cut_within_the_header(data: bytes) -> bytes:
    return data[:60]


def noise(data: bytes) -> bytes:
    return bytes((i * 197 + 91) % 256 for i in range(len(data)))


def noise_inside(data: bytes) -> bytes:
    return data[:4096] + noise(data[: len(data) - 8192]) + data[-4096:]


def text(data: bytes) -> bytes:
    return b"this was once a ledger\n" * 40


@pytest.mark.parametrize("damage", [cut_short, cut_within_the_header, noise, noise_inside, text])
def test_a_damaged_file_is_a_sentence_and_stays(path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    bad = damage(filled(path).read_bytes())
    path.write_bytes(bad)
    with pytest.raises(CounterfactoryError, match=r"images are safe.*move ledger\.sqlite .*run the same command"):
        Ledger(path)
    assert path.read_bytes() == bad
    path.rename(path.with_name("aside.sqlite"))
    ledger = Ledger(path)
    assert ledger.get("caption", [f"{1:064x}"]) == {}
    ledger.close()


def test_damage_met_after_opening_is_the_same_sentence(path: Path) -> None:
    database = sqlite3.connect(filled(path))
    database.execute("UPDATE results SET value = '{\"text\": ' WHERE key = ?", [f"{1:064x}"])
    database.execute("UPDATE results SET value = CAST(x'ff80' AS TEXT) WHERE key = ?", [f"{2:064x}"])
    database.execute("UPDATE results SET value = '1,2' WHERE key = ?", [f"{3:064x}"])
    database.execute("UPDATE results SET value = '' WHERE key = ?", [f"{4:064x}"])
    database.commit()
    database.close()
    ledger = Ledger(path)
    for row in (1, 2, 3, 4):
        with pytest.raises(CounterfactoryError, match="images are safe"):
            ledger.get("caption", [f"{row:064x}"])
        with pytest.raises(CounterfactoryError, match="images are safe"):
            ledger.get("caption", [f"{row:064x}", f"{5:064x}"])
    assert ledger.get("caption", [f"{5:064x}"])
    ledger.close()


def test_an_empty_file_is_a_new_ledger(path: Path) -> None:
    path.touch()
    ledger = Ledger(path)
    ledger.put("paint", {"a": 1})
    ledger.close()


def test_a_newer_format_is_refused_unchanged(path: Path) -> None:
    database = sqlite3.connect(filled(path))
    database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    database.close()
    before = path.read_bytes()
    with pytest.raises(CounterfactoryError, match=f"newer.*format {FORMAT + 1}.*update Counterfactory"):
        Ledger(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_unchanged(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE results (name TEXT)")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(CounterfactoryError, match="not a ledger of Counterfactory"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_left_over_write_ahead_log_does_not_haunt_a_new_ledger(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put("paint", {"a": 1})
    log = path.with_name("ledger.sqlite-wal").read_bytes()
    ledger.close()
    path.unlink()
    path.with_name("ledger.sqlite-wal").write_bytes(log)
    ledger = Ledger(path)
    assert ledger.get("paint", ["a"]) == {}
    ledger.put("paint", {"b": 2})
    ledger.close()


def test_threads_share_it(path: Path) -> None:
    ledger = Ledger(path)

    def work(name: int) -> None:
        for i in range(20):
            ledger.put("paint", {f"{name}-{i}": [name, i]})
            assert ledger.get("paint", [f"{name}-{i}"])

    threads = [threading.Thread(target=work, args=[name]) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [f"{name}-{i}" for name in range(4) for i in range(20)]
    assert list(ledger.get("paint", keys)) == keys
    ledger.close()
    ledger.close()


def test_transactions_of_two_threads_do_not_mix(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path)
    real, begun, go_on = ledger._transaction, threading.Event(), threading.Event()

    @contextmanager
    def slow() -> Iterator[None]:
        with real():
            begun.set()
            assert go_on.wait(20)
            yield

    monkeypatch.setattr(ledger, "_transaction", slow)
    threads = [threading.Thread(target=ledger.put, args=["paint", {name: 1}]) for name in "ab"]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    threads[1].join(0.3)
    go_on.set()
    for thread in threads:
        thread.join()
    assert ledger.get("paint", ["a", "b"]) == {"a": 1, "b": 1}
    ledger.close()


PUT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from counterfactory.engine.suite.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
ledger.put("paint", {"a": 1})
ledger._db.execute("BEGIN IMMEDIATE")
ledger._db.execute("INSERT INTO results VALUES ('paint', 'b', '2')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_keeps_what_was_put_and_drops_what_was_not(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PUT_AND_DIE, path], env=os.environ, check=False)
    assert done.returncode == -9
    ledger = Ledger(path)
    assert ledger.get("paint", ["a", "b"]) == {"a": 1}
    ledger.close()


def test_rows_are_readable_by_other_tools(path: Path) -> None:
    database = sqlite3.connect(filled(path, 3))
    rows = database.execute("SELECT stage, key, value FROM results ORDER BY key").fetchall()
    database.close()
    assert [(stage, int(key, 16), json.loads(value)["i"]) for stage, key, value in rows] == [
        ("caption", i, i) for i in range(3)
    ]
