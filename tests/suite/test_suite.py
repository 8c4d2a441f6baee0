"""The suite's folder: whole files or none, one process, and nothing lost whatever happens in between."""

import errno
import gc
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from picture_rows import picture_row
from refusing import refusal

from counterfactory.engine.schedule.overlap import write_behind
from counterfactory.engine.suite import NewPicture, PaintedRow, PictureRow, Suite, read_metadata
from counterfactory.engine.suite import suite as suite_module


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def pixels(number: int) -> NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, (16, 24, 3), np.uint8)


def painted(number: int, *, mask: bool = True) -> NewPicture:
    labels = np.random.default_rng(number).integers(0, 2**16, (16, 24)).astype(np.uint16)
    return NewPicture(key(number), f"bus/{number // 2:04}", pixels(number), labels if mask else None)


def listed(row: PaintedRow, number: int) -> PictureRow:
    files = {"file_name": row.image.path, "original": row.image.path, "mask": row.mask and row.mask.path}
    keys = {"sha256": row.image.sha256, "source_key": key(number // 2), "key": key(number)}
    return picture_row(number, **files, **keys, source=f"bus/{number // 2:04}", number=number % 2)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the ledger and the lock, by its path."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(("ledger", "suite.lock"))
    }


def test_a_batch_lies_where_it_should(tmp_path: Path) -> None:
    with Suite.open(tmp_path / "deep" / "suite") as suite:
        rows = suite.write_images("paint", [painted(0), painted(1), painted(2, mask=False)])
        assert suite.images("paint", [key(2), key(0), key(9)]) == {key(2): rows[key(2)], key(0): rows[key(0)]}
        assert rows[key(2)].mask is None
        for number in (0, 1):
            image, mask = rows[key(number)].files
            data = (suite.path / image.path).read_bytes()
            assert image.path == f"images/bus/0000/{key(number)[:16]}.png"
            assert mask.path == f"masks/bus/0000/{key(number)[:16]}.png"
            assert (image.bytes, image.sha256) == (len(data), hashlib.sha256(data).hexdigest())
            np.testing.assert_array_equal(suite.load_image(rows[key(number)]), pixels(number))
            stored = cv2.imread(str(suite.path / mask.path), cv2.IMREAD_UNCHANGED)
            np.testing.assert_array_equal(stored, painted(number).mask)
    assert len(contents(suite.path)) == 5
    suite.close()


@pytest.mark.parametrize("kind", ["image", "mask"])
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_a_vanished_or_shortened_file_is_noticed(tmp_path: Path, kind: str, harm: Any) -> None:
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(0), painted(1)])
        before = contents(tmp_path)
        harm(tmp_path / getattr(rows[key(0)], kind).path)
        assert list(suite.images("paint", [key(0), key(1)])) == [key(1)]
        suite.write_images("paint", [painted(0)])
        assert contents(tmp_path) == before


def test_a_changed_image_is_not_taken_for_ours(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        row = suite.write_images("paint", [painted(0)])[key(0)]
        path = tmp_path / row.image.path
        path.write_bytes(bytes(len(path.read_bytes())))
        with refusal("has changed since it was painted: delete it and run"):
            suite.load_image(row)
        path.unlink()
        with refusal("run the same command again, which repaints it"):
            suite.load_image(row)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """What a function of the suite's module is called with from now on."""
    calls, real = list[Any](), getattr(suite_module, name)
    monkeypatch.setattr(suite_module, name, lambda given: calls.append(given) or real(given))
    return calls


def test_pictures_written_just_now_are_read_but_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = counted(monkeypatch, "read_png")
    monkeypatch.setattr(suite_module, "_RECENT_BYTES", 2 * painted(0).pixels.nbytes)
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(number) for number in range(3)])
        for number, so_far in ((2, 0), (1, 0), (0, 1), (2, 1)):
            np.testing.assert_array_equal(suite.load_image(rows[key(number)]), painted(number).pixels)
            assert len(decoded) == so_far
    with Suite.open(tmp_path) as suite:
        np.testing.assert_array_equal(suite.load_image(rows[key(2)]), painted(2).pixels)
        assert len(decoded) == 2, "another run has only the file"


def write_table(suite: Suite, numbers: list[int]) -> None:
    rows = suite.images("paint", [key(number) for number in numbers])
    suite.write_metadata([listed(rows[key(number)], number) for number in numbers])


def image_files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.png")}


def test_images_are_superseded_and_come_back(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(number) for number in range(6)])
        write_table(suite, [0, 1, 2, 3, 4, 5])
        everything = contents(tmp_path)
        write_table(suite, [0, 2])
        parts = ((0, 2), (1, 3, 4, 5))
        kept, gone = ({file.path for number in some for file in rows[key(number)].files} for some in parts)
        assert image_files(tmp_path) == kept | {f"superseded/{name}" for name in gone}
        assert not (tmp_path / "images/bus/0002").exists()
        pictures = sorted(name for name in kept if name.startswith("images/"))
        assert [row.file_name for row in read_metadata(tmp_path)] == pictures
        # Known though superseded: nothing is to be painted again.
        assert len(suite.images("paint", [key(number) for number in range(6)])) == 6
        write_table(suite, [0, 1, 2, 3, 4, 5])
        assert contents(tmp_path) == everything
        assert not (tmp_path / "superseded").exists()


def test_no_table_lists_a_vanished_file(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(0), painted(1)])
        (tmp_path / rows[key(1)].files[1].path).unlink()
        with refusal("has vanished: run the same command again"):
            suite.write_metadata([listed(rows[key(number)], number) for number in (0, 1)])
    assert not (tmp_path / "metadata.parquet").exists()


def test_the_table_takes_rows_as_they_come_and_holds_none(tmp_path: Path) -> None:
    most = 0

    def alive() -> int:
        return sum(type(one) is PictureRow for one in gc.get_objects())

    def rows(made: dict[str, PaintedRow]) -> Iterator[PictureRow]:
        nonlocal most
        for number in reversed(range(12)):
            row = listed(made[key(number)], number)
            most = max(most, alive() - before)
            yield row
            del row

    with Suite.open(tmp_path) as suite:
        made = suite.write_images("paint", [painted(number) for number in range(12)])
        suite.write_metadata(listed(made[key(number)], number) for number in range(12))
        forward = contents(tmp_path)
        before = alive()
        suite.write_metadata(rows(made))
    assert contents(tmp_path) == forward
    assert most <= 2


def test_rows_that_fail_on_the_way_leave_the_old_table(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(0), painted(1)])
        write_table(suite, [0, 1])
        before = contents(tmp_path)

        def failing() -> Iterator[PictureRow]:
            yield listed(rows[key(1)], 1)
            raise OSError("the rows end here")

        with pytest.raises(OSError, match="the rows end here"):
            suite.write_metadata(failing())
        with pytest.raises(ValueError, match="two rows name"):
            suite.write_metadata([listed(rows[key(1)], 1)] * 2)
        assert contents(tmp_path) == before


def test_peoples_own_files_stay_where_they_are(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(0), painted(1)])
        names = ("images/bus/0000/mine.png", "images/notes.tmp", "masks/a.png.1.tmp", "draft.txt", "my draft.1.tmp")
        mine = [tmp_path / name for name in names]
        halves = [tmp_path / f"{name}.77.tmp" for name in ("draft", "metadata.parquet", rows[key(1)].image.path)]
        for file in (*mine, *halves):
            file.write_bytes(b"mine")
    for ledger in tmp_path.glob("ledger*"):  # the opening without one goes through all files
        ledger.unlink()
    with Suite.open(tmp_path) as suite:
        suite.write_images("paint", [painted(1)])
        write_table(suite, [1])
    assert all(file.read_bytes() == b"mine" for file in mine)
    assert not any(file.exists() for file in halves), "a killed process left them"
    assert (tmp_path / "superseded" / rows[key(0)].files[1].path).exists(), "a new ledger takes up the files of the old"


def test_a_writers_thread_beside_the_callers_changes_nothing(tmp_path: Path) -> None:
    batches = [[painted(2 * i), painted(2 * i + 1)] for i in range(6)]
    with Suite.open(tmp_path / "alone") as suite:
        for batch in batches:
            suite.write_images("paint", batch)
        write_table(suite, list(range(12)))
    seen: set[str] = set()
    with Suite.open(tmp_path / "together") as suite:

        def beside() -> Iterator[list[NewPicture]]:
            for turn, batch in enumerate(batches):
                yield batch
                suite.ledger.put("caption", {key(turn): f"caption {turn}"})
                assert list(suite.ledger.get("caption", [key(i) for i in range(6)])) == [
                    key(i) for i in range(turn + 1)
                ]
                for name, row in suite.images("paint", [key(number) for number in range(12)]).items():
                    assert row.image.path.endswith(f"{name[:16]}.png")
                    suite.load_image(row)  # whole, with the bytes on record, as soon as it is known
                    seen.add(name)
                write_table(suite, [number for number in range(12) if key(number) in seen])  # moves files meanwhile

        assert len(list(write_behind(beside(), lambda batch: suite.write_images("paint", batch), depth=2))) == 6
        assert len(suite.images("paint", [key(number) for number in range(12)])) == 12
        write_table(suite, list(range(12)))
    assert contents(tmp_path / "together") == contents(tmp_path / "alone")
    assert not any((tmp_path / "together").rglob("*.tmp"))


def test_one_batch_is_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves half is found by the one list of files of the open batch."""
    writing, go_on, real = threading.Event(), threading.Event(), os.replace

    def slow(*arguments: Any, **options: Any) -> None:
        writing.set()
        assert go_on.wait(20)
        real(*arguments, **options)

    with Suite.open(tmp_path) as suite:
        monkeypatch.setattr(os, "replace", slow)
        threads = [threading.Thread(target=suite.write_images, args=["paint", [painted(i)]]) for i in range(2)]
        threads[0].start()
        assert writing.wait(20)
        threads[1].start()
        threads[1].join(0.3)
        names = suite.ledger.get("suite/open", ["batch"])["batch"]
        go_on.set()
        for thread in threads:
            thread.join()
        assert [Path(name).name for name in names] == [f"{key(0)[:16]}.png"] * 2
        assert list(suite.images("paint", [key(0), key(1)])) == [key(0), key(1)]


def test_a_file_is_no_suite(tmp_path: Path) -> None:
    (tmp_path / "suite").write_text("")
    for name, told in (("suite", "is not a folder"), ("suite/inner", "cannot write .*suite/inner.*nothing is lost")):
        with refusal(told):
            Suite.open(tmp_path / name)


def test_somebodys_pictures_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0123456789abcdef.png").write_bytes(b"holiday")
    with refusal("that Counterfactory did not make"):
        Suite.open(tmp_path)
    assert contents(tmp_path) == {"images/0123456789abcdef.png": b"holiday"}
    assert not (tmp_path / "suite.lock").exists()
    (tmp_path / "images").rename(tmp_path / "mine")
    Suite.open(tmp_path).close()


def test_a_damaged_ledger_keeps_the_images_and_a_new_one_is_made(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        suite.write_images("paint", [painted(0)])
        write_table(suite, [0])
    before = contents(tmp_path)
    (tmp_path / "ledger.sqlite").write_bytes(b"noise" * 1000)
    for _ in range(2):  # the failed opening has let go of the lock
        with refusal("images are safe and stay"):
            Suite.open(tmp_path)
    assert contents(tmp_path) == before
    (tmp_path / "ledger.sqlite").rename(tmp_path / "aside")
    with Suite.open(tmp_path) as suite:
        assert suite.images("paint", [key(0)]) == {}
        suite.write_images("paint", [painted(0)])
        write_table(suite, [0])
    assert contents(tmp_path) == before | {"aside": b"noise" * 1000}


HOLD = """
import os, signal, sys
from pathlib import Path
from counterfactory.engine.suite import Suite
suite = Suite.open(Path(sys.argv[1]))
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


def test_a_second_process_is_refused_until_the_first_dies(tmp_path: Path) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], **pipes) as first:
        process = first.stdout.readline().strip()
        assert process
        with refusal(f"in use by process {process}: wait"):
            Suite.open(tmp_path)
        first.send_signal(signal.SIGKILL)
    assert (tmp_path / "suite.lock").read_text() == f"{process}\n"
    with Suite.open(tmp_path):
        assert (tmp_path / "suite.lock").read_text() == f"{os.getpid()}\n"
        with refusal(f"in use by process {os.getpid()}"):
            Suite.open(tmp_path)
        (tmp_path / "suite.lock").write_bytes(b"\xff\x00")
        with refusal("in use by another process"):
            Suite.open(tmp_path)
    assert (tmp_path / "suite.lock").read_text() == ""


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from counterfactory.engine.suite import Suite

first, second = pickle.load(sys.stdin.buffer)
suite = Suite.open(Path(sys.argv[1]))
suite.write_images("paint", first)
calls = 0
def dying(call):
    def wrapped(*arguments, **options):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return wrapped
name, at = sys.argv[2].split(":")
at = int(at)
if name == "commit":
    suite.ledger.put_stages = dying(suite.ledger.put_stages)
else:
    setattr(os, name, dying(getattr(os, name)))
suite.write_images("paint", second)
"""


@pytest.mark.parametrize("at", ["fsync:4", "replace:1", "replace:4", "commit:1", "commit:2"])
def test_a_kill_loses_the_open_batch_and_nothing_else(tmp_path: Path, at: str) -> None:
    with Suite.open(tmp_path / "whole") as suite:
        suite.write_images("paint", [painted(number) for number in range(4)])
        write_table(suite, [0, 1, 2, 3])
    folder = tmp_path / "killed"
    batches = pickle.dumps(([painted(0), painted(1)], [painted(2), painted(3)]))
    done = subprocess.run([sys.executable, "-c", KILLED, folder, at], input=batches, check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(folder.rglob("*.tmp")) == (not at.startswith("commit"))
    with Suite.open(folder) as suite:
        assert not any(folder.rglob("*.tmp"))
        rows = suite.images("paint", [key(number) for number in range(4)])
        assert list(rows) == [key(0), key(1)]
        write_table(suite, [0, 1])
        in_place = {name for name in image_files(folder) if not name.startswith("superseded/")}
        assert in_place == {file.path for row in rows.values() for file in row.files}
        suite.write_images("paint", [painted(2), painted(3)])
        write_table(suite, [0, 1, 2, 3])
    found = {name: data for name, data in contents(folder).items() if not name.startswith("superseded/")}
    assert found == contents(tmp_path / "whole")


def test_a_kill_between_moving_and_noting_it_is_mended(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        rows = suite.write_images("paint", [painted(0), painted(1)])
        write_table(suite, [0])
        suite.ledger.put("suite/files", {rows[key(1)].image.path: True})  # as if never noted
        write_table(suite, [0])
        write_table(suite, [0, 1])
        assert not (tmp_path / "superseded").exists()


# Full and read-only disks. Root ignores a folder's mode, so that the system calls fail on purpose.


def test_a_disk_that_fills_within_a_batch_loses_that_batch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.replace, count(1)

    def filling(*arguments: Any, **options: Any) -> None:
        if next(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **options)

    with Suite.open(tmp_path) as suite:
        suite.write_images("paint", [painted(0), painted(1)])
        with monkeypatch.context() as patch, refusal("no space left on device; free some space"):
            patch.setattr(os, "replace", filling)
            suite.write_images("paint", [painted(2), painted(3)])
        assert not any(tmp_path.rglob("*.tmp"))
        assert list(suite.images("paint", [key(number) for number in range(4)])) == [key(0), key(1)]


def test_opening_in_a_read_only_folder_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def read_only(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", read_only)
    with refusal(r"suite\.lock: read-only file system; allow writing there"):
        Suite.open(tmp_path)
