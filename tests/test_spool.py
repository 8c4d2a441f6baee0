"""Rows that wait on the disk: they come back as they went in, memory holds none, and nothing of them stays."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import Spool, Suite
from counterfactory.engine.suite import spool as spool_module
from counterfactory.engine.suite.draft import Draft

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
rows_of_anything = st.lists(st.dictionaries(st.text(max_size=4), plain, max_size=4), max_size=12)


# Spool


@settings(max_examples=50, deadline=None)
@given(first=rows_of_anything, then=rows_of_anything, block=st.integers(1, 64))
def test_rows_come_back_as_often_as_asked_whatever_the_block(
    first: list[dict[str, Any]], then: list[dict[str, Any]], block: int
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        Spool(Path(folder)) as spool,
    ):
        patch.setattr(spool_module, "_BLOCK", block)
        for row in first:
            spool.add(row)
        assert list(spool) == first
        for row in then:
            spool.add(row)
        assert list(spool) == list(spool) == [*first, *then]
        assert len(spool) == len(first) + len(then)


def test_a_reader_sees_what_was_there_when_it_began(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for i in range(3):
            spool.add({"i": i})
        got = []
        for row in spool:
            got.append(row["i"])
            spool.add({"i": "later"})
        assert got == [0, 1, 2]
        assert len(spool) == 6


def test_dataclasses_come_back_as_mappings(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.add({"edits": (Edit("weather", "dry", "snowy"),)})
        assert list(spool) == [{"edits": [{"type": "weather", "keyword": "dry", "alternative": "snowy"}]}]


def test_what_json_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.add({"i": 1})
        with pytest.raises(TypeError, match="plain data, got object"):
            spool.add({"i": object()})
        with pytest.raises(ValueError, match="JSON"):
            spool.add({"i": float("nan")})
        assert list(spool) == [{"i": 1}]


def test_threads_add_one_after_another(tmp_path: Path) -> None:
    inside = most = 0

    class Watched:
        """A file that notices two threads within it; what it counts is right only while there is one."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: bytes) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            time.sleep(0.0005)
            self._file.write(data)
            inside -= 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    with Spool(tmp_path) as spool:
        spool._file = Watched(spool._file)  # type: ignore[assignment] # is a file in all but its class

        def work(name: int) -> None:
            for i in range(50):
                spool.add({"name": name, "i": i})

        threads = [threading.Thread(target=work, args=[name]) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = list(spool)
    assert [[row["i"] for row in rows if row["name"] == name] for name in range(4)] == [list(range(50))] * 4
    assert most == 1


def test_it_shows_no_file_and_leaves_none(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        before = sorted(tmp_path.iterdir())
        with suite.spool() as rows:
            rows.add({"i": 1})
            assert list(rows) == [{"i": 1}]
            assert sorted(tmp_path.iterdir()) == before
        assert sorted(tmp_path.iterdir()) == before
        rows.close()


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            self._file.close()
            raise OSError(errno.ENOSPC, "No space left on device")

    with Spool(tmp_path) as spool:
        spool._file = Full(spool._file)  # type: ignore[assignment] # fails as a file does
        with pytest.raises(CounterfactoryError, match="no space left on device; free some space"):
            spool.add({"i": 1})


def test_a_folder_that_takes_no_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match="cannot write"):
        Spool(tmp_path / "gone")


# Draft


def table_row(number: int, **changes: Any) -> dict[str, Any]:
    row = {"file_name": f"{number}.png", "source": "s", "variant": number, "mask": None, "scores": {"text": 0.5}}
    return row | changes


sort_keys = st.lists(st.tuples(st.text("aAäz/\U0001f600 ", max_size=3), st.integers(-3, 10**12)), max_size=12)


@settings(max_examples=30, deadline=None)
@given(sort_keys)
def test_rows_leave_sorted_as_python_sorts(keys: list[tuple[str, int]]) -> None:
    rows = [table_row(i, source=source, variant=variant) for i, (source, variant) in enumerate(keys)]
    with tempfile.TemporaryDirectory() as folder, Draft(Path(folder)) as draft:
        for row in rows:
            draft.add(row)
        assert list(draft) == sorted(rows, key=lambda row: (row["source"], row["variant"], row["file_name"]))
        assert len(draft) == len(rows)


def test_files_can_be_asked_after(tmp_path: Path) -> None:
    with Draft(tmp_path) as draft:
        for number in range(1200):
            draft.add(table_row(number, mask=f"{number}.mask" if number % 2 else None))
        assert list(draft.files()) == sorted(
            [f"{i}.png" for i in range(1200)] + [f"{i}.mask" for i in range(1, 1200, 2)]
        )
        asked = [f"{i}.mask" for i in range(2000)]  # more than one statement takes
        assert draft.named(asked) == {f"{i}.mask" for i in range(1, 1200, 2)}
        assert draft.named([]) == set()


def test_rows_of_one_file_are_refused_and_one_mask_for_two_is_not(tmp_path: Path) -> None:
    with Draft(tmp_path) as draft:
        draft.add(table_row(0, mask="m"))
        draft.add(table_row(1, mask="m"))
        with pytest.raises(ValueError, match=r"two rows name 0\.png"):
            draft.add(table_row(0, source="t"))


def test_the_names_of_scores_are_gathered(tmp_path: Path) -> None:
    with Draft(tmp_path) as draft:
        assert draft.score_names == []
        for number, scores in enumerate([{"text": 1}, None, {"layout": 0.5, "text": 0}]):
            draft.add(table_row(number, scores=scores))
        assert draft.score_names == ["layout", "text"]


def test_a_drafts_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with Draft(tmp_path) as draft:
        draft._db.execute("PRAGMA max_page_count = 12")  # SQLite's own full disk

        def fill() -> None:
            for number in range(1000):
                draft.add(table_row(number, caption="x" * 500))

        with pytest.raises(CounterfactoryError, match=r"cannot use .*draft.*full; free some space"):
            fill()
    assert list(tmp_path.iterdir()) == []


# Kills


KILLED = """
import os, signal, sys
from pathlib import Path
from counterfactory.engine.suite import Suite
suite = Suite.open(Path(sys.argv[1]))
spool = suite.spool()
spool.add({"i": 1})
def rows():
    yield {"file_name": "images/a/0123456789abcdef.png", "source": "a", "label": None, "mask": None, "caption": "a",
        "edited_caption": "b", "edits": [], "variant": 0, "seed": 0, "steps": 1, "guidance_scale": 1.0, "scores": None,
        "verdict": "accepted", "reason": None, "source_key": "a", "variant_key": "b"}
    os.kill(os.getpid(), signal.SIGKILL)
suite.write_metadata(rows())
"""


def test_what_a_kill_leaves_is_gone_after_the_next_opening(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("draft.*.tmp"))
    # Where files cannot be nameless, a kill between making one and taking its name away leaves such a name.
    (tmp_path / "spool.ab_01xyz.77.tmp").write_bytes(b"half")
    others = [tmp_path / "spool.tmp", tmp_path / "draft.txt", tmp_path / "my draft.1.tmp"]
    for other in others:
        other.write_bytes(b"somebody's")
    with Suite.open(tmp_path):
        left = {path for path in tmp_path.iterdir() if not path.name.startswith(("ledger", "suite.lock"))}
    assert left == set(others)
