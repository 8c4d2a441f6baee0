"""The ledger: what goes in comes out, all or nothing, and a bad file is one clear sentence."""

import hashlib
import random
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusal

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


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with closing(Ledger(path)) as opened:
        yield opened


def filled(path: Path, rows: int = 400) -> Path:
    with closing(Ledger(path)) as ledger:
        text = "a red car drives on a wet road " * 5
        ledger.put("caption", {f"{i:064x}": {"text": text, "i": i} for i in range(rows)})
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


def test_get_takes_any_number_of_keys_and_keeps_their_order(ledger: Ledger) -> None:
    keys = [f"{i * 7919 % 40_009:08x}" for i in range(40_000)]
    ledger.put("paint", {key: i for i, key in enumerate(keys) if i % 20 == 0})
    assert list(ledger.get("paint", keys).items()) == [(key, i) for i, key in enumerate(keys) if i % 20 == 0]
    assert ledger.get("paint", []) == {}
    assert ledger.get("paint", [keys[20], keys[20]]) == {keys[20]: 20}


def test_walk_goes_through_all_of_a_stage_and_lets_rows_be_put_meanwhile(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_PAGE", 3)
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


def test_a_put_that_fails_leaves_nothing(ledger: Ledger) -> None:
    ledger.put("paint", {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        ledger.put("paint", {"a": 2, "b": float("nan")})
    with pytest.raises(TypeError):
        ledger.put("paint", {"a": 2, "b": object()})
    assert ledger.get("paint", ["a", "b"]) == {"a": 1}


def test_a_full_disk_is_a_sentence_and_loses_nothing(ledger: Ledger) -> None:
    ledger.put("paint", {"a": 1})
    ledger._db.execute("PRAGMA max_page_count = 8")  # SQLite's own full disk
    with refusal("full; free some space and run the same command again"):
        ledger.put("paint", {f"{i:064x}": "x" * 500 for i in range(200)})
    ledger._db.execute("PRAGMA max_page_count = 1000000")
    ledger.put("paint", {"b": 2})
    assert ledger.get("paint", ["a", "b", f"{0:064x}"]) == {"a": 1, "b": 2}


def test_a_read_only_file_is_a_sentence(ledger: Ledger, path: Path) -> None:
    ledger._db.execute("PRAGMA query_only = ON")  # chmod does not bind root
    with refusal(r"ledger\.sqlite.*readonly.*allow writing there"):
        ledger.put("paint", {"a": 1})
    with refusal("is no regular file; nothing was touched"):
        Ledger(path.parent)


NOISE = bytes((i * 197 + 91) % 256 for i in range(8192))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:60],  # within the header
        lambda data: NOISE,
        lambda data: data[:4096] + NOISE + data[4096 + len(NOISE) :],
        lambda data: b"this was once a ledger\n" * 40,
    ],
)
def test_a_damaged_file_is_a_sentence_and_stays(path: Path, damage: Callable[[bytes], bytes]) -> None:
    bad = damage(filled(path).read_bytes())
    path.write_bytes(bad)
    with refusal(r"images are safe.*move ledger\.sqlite .*run the same command"):
        Ledger(path)
    assert path.read_bytes() == bad
    path.rename(path.with_name("aside.sqlite"))
    with closing(Ledger(path)) as ledger:
        assert ledger.get("caption", [f"{1:064x}"]) == {}


def test_a_schema_that_is_no_text_is_a_sentence(path: Path) -> None:
    """SQLite's errors quote the schema, and Python fails to read the quotation."""
    whole = filled(path).read_bytes()
    for at in range(whole.index(b"tableresults"), 4096):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 128]) + whole[at + 1 :])
        with refusal(r"images are safe.*move ledger\.sqlite .*run the same command"):
            Ledger(path, read_only=True)


def test_a_row_that_its_digest_denies_is_not_there_and_is_mended_alone(path: Path) -> None:
    whole = rows_of(path)
    names = [f"{number:064x}" for number in range(8)]
    with closing(sqlite3.connect(path)) as database, database:
        (swapped,) = database.execute("SELECT value FROM results WHERE key = ?", [names[5]]).fetchone()
        values = {1: '{"text": ', 3: "1,2", 4: "", 6: swapped, 7: '{"i":7}'}  # the sixth is sound, of another row
        for number, value in values.items():
            database.execute("UPDATE results SET value = ? WHERE key = ?", [value, names[number]])
        database.execute("UPDATE results SET value = CAST(x'ff80' AS TEXT) WHERE key = ?", [names[2]])
        database.execute("UPDATE results SET stage = 'paint' WHERE key = ?", [f"{8:064x}"])
    damaged = {*names[1:5], *names[6:8], f"{8:064x}"}
    ledger = Ledger(path)
    sound = {key: value for key, value in whole.items() if key not in damaged}
    assert ledger.get("caption", list(whole)) == sound
    assert ledger.get("paint", list(whole)) == {}
    assert dict(pair for page in ledger.walk("caption") for pair in page.items()) == sound
    assert ledger.denied == 6 + 1 + 6  # by look-up; one stands where it was not written
    assert ledger.unsound() == 7
    ledger.ask_to_mend()
    ledger.close()
    ledger = Ledger(path)
    assert ledger.unsound() == 0
    assert ledger.get("caption", list(whole)) == sound
    ledger.put("caption", {names[1]: whole[names[1]]})
    ledger.close()
    assert rows_of(path) == sound | {names[1]: whole[names[1]]}


def test_rows_out_of_order_are_counted_and_found_again(path: Path) -> None:
    whole = rows_of(path)
    data = bytearray(path.read_bytes())
    at = data.rfind(f"{9:064x}".encode())
    data[at : at + 64] = f"{4_000:064x}".encode()  # the key in the page: no look-up by either finds the row
    path.write_bytes(data)
    ledger = Ledger(path)
    assert ledger.unsound() > 0
    ledger.mend()
    assert ledger.unsound() == 0
    kept = {key: value for key, value in whole.items() if key != f"{9:064x}"}
    assert ledger.get("caption", list(whole)) == kept
    ledger.close()


def test_a_ledger_of_format_1_is_read_and_given_digests(path: Path) -> None:
    whole = rows_of(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE results SET value = substr(value, 33)")
        database.execute("PRAGMA user_version = 1")
    before = path.read_bytes()
    ledger = Ledger(path, read_only=True)
    assert not ledger.has_digests
    assert ledger.get("caption", list(whole)) == whole
    ledger.close()
    assert path.read_bytes() == before
    ledger = Ledger(path)
    assert ledger.has_digests
    assert ledger.get("caption", list(whole)) == whole
    ledger.close()
    with closing(sqlite3.connect(path)) as database:
        key, value = database.execute("SELECT key, value FROM results").fetchone()
    # The form, written down by itself: BLAKE2b of stage, key and JSON with a zero byte between them.
    assert value[:32] == hashlib.blake2b(f"caption\0{key}\0{value[32:]}".encode(), digest_size=16).hexdigest()


def test_no_single_bit_of_a_ledger_gives_another_value(path: Path) -> None:
    whole, data, other, denied = rows_of(path, 12), path.read_bytes(), 0, 0
    for bit in random.Random(7).sample(range(8 * len(data)), 300):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            with closing(Ledger(path)) as ledger:
                values = ledger.get("caption", list(whole))
        except CounterfactoryError:
            continue
        other += any(value != whole[key] for key, value in values.items())
        denied += len(values) < len(whole)
    assert other == 0
    assert denied > 50


def rows_of(path: Path, rows: int = 400) -> dict[str, object]:
    """The rows of the ledger at `path`, which `filled` makes where there is none."""
    with closing(Ledger(path if path.exists() else filled(path, rows))) as ledger:
        return dict(pair for page in ledger.walk("caption") for pair in page.items())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (f"user_version = {FORMAT + 1}", f"newer.*format {FORMAT + 1}.*update Counterfactory"),
        ("application_id = 7", "not a ledger of Counterfactory"),
    ],
)
def test_a_newer_format_and_another_programs_database_are_refused_unchanged(path: Path, change: str, told: str) -> None:
    with closing(sqlite3.connect(filled(path))) as database:
        database.execute(f"PRAGMA {change}")
    before = path.read_bytes()
    with refusal(told):
        Ledger(path)
    assert path.read_bytes() == before


def test_transactions_of_two_threads_do_not_mix(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
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
