"""The folder of compiled networks: whole blobs or none, whatever happened to their files, and within its bound."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.blob_cache import LIMIT_BYTES, SWITCH, BlobCache, find_blob_cache

HEAD = 54  # bytes before a blob in its file
BLOB = bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    return BlobCache(tmp_path / "counterfactory" / "compiled")


def file_of(cache: BlobCache, key: str = "key") -> Path:
    return cache.folder / f"{key}.blob"


def test_what_is_kept_comes_back_in_another_run(cache: BlobCache) -> None:
    assert cache.load("key") is None
    assert cache.sizes() == []
    assert not cache.folder.exists(), "looking makes nothing"
    cache.store("key", BLOB)
    cache.store("other", b"")
    later = BlobCache(cache.folder)
    assert later.load("key") == BLOB
    assert later.load("other") == b""
    assert later.load("third") is None
    assert sorted(later.sizes()) == [HEAD, HEAD + len(BLOB)]
    assert cache.problem is later.problem is None
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    file_of(cache).rename(file_of(cache, "third"))
    assert later.load("third") is None, "a blob does not pass under another key"
    assert not file_of(cache, "third").exists()


def cut(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:size]


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        *map(cut, (0, 1, HEAD - 1, HEAD, HEAD + 1, -1)),
        *map(flipped, (0, HEAD - 1, HEAD, 5000, -2)),
        lambda data: data + b"\0",
        lambda data: bytes(len(data)),
        lambda data: data[:HEAD] + data,
    ],
)
def test_a_damaged_file_is_absent_and_made_again(cache: BlobCache, damage: Callable[[bytes], bytes]) -> None:
    cache.store("key", BLOB)
    file = file_of(cache)
    file.write_bytes(damage(file.read_bytes()))
    assert cache.load("key") is None
    assert not file.exists()
    assert cache.problem is None
    cache.store("key", BLOB)
    assert cache.load("key") == BLOB


def test_neither_links_nor_pipes_nor_folders_are_read(cache: BlobCache, tmp_path: Path) -> None:
    cache.store("key", BLOB)
    file, elsewhere = file_of(cache), tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert cache.load("key") is None
    kept = elsewhere.read_bytes()
    cache.store("key", b"new")  # takes the link's place and is not written through it
    assert cache.load("key") == b"new"
    assert elsewhere.read_bytes() == kept
    file.unlink()
    os.mkfifo(file)
    assert cache.load("key") is None
    file.unlink()
    file.mkdir()
    assert cache.load("key") is None
    assert cache.problem is None


def used_at(cache: BlobCache, **seconds: int) -> None:
    for key, second in seconds.items():
        os.utime(file_of(cache, key), (second, second))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = BlobCache(tmp_path / "compiled", limit_bytes=3 * (HEAD + 100))
    for key in "abc":
        cache.store(key, bytes(100))
    assert sum(cache.sizes()) == cache.limit_bytes, "just as much as may be"
    used_at(cache, a=1000, b=2000, c=3000)
    assert cache.load("a") is not None  # used now
    cache.store("d", bytes(100))
    assert [key for key in "abcd" if file_of(cache, key).exists()] == ["a", "c", "d"]
    used_at(cache, a=2**31, c=1000, d=2**31 + 1)
    cache.store("f", bytes(cache.limit_bytes - HEAD + 1))
    assert not file_of(cache, "f").exists(), "larger than the bound alone"
    cache.store("e", bytes(101))  # one byte too many: two go, never the newest, though it is the oldest by the clock
    assert [key for key in "acde" if file_of(cache, key).exists()] == ["d", "e"]


def test_what_killed_processes_left_goes_and_other_files_stay(cache: BlobCache) -> None:
    cache.folder.mkdir(parents=True, mode=0o700)
    stale, young, foreign = (cache.folder / name for name in ("a.blob.7.tmp", "b.blob.8.tmp", "notes.txt"))
    for file in (stale, young, foreign):
        file.write_bytes(b"half")
    for file in (stale, foreign):
        os.utime(file, (1000, 1000))
    cache.store("key", BLOB)
    assert sorted(cache.folder.iterdir()) == sorted([young, foreign, file_of(cache)])


def test_a_full_disk_leaves_nothing_half_written(cache: BlobCache) -> None:
    cache.store("small", b"small")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        cache.store("key", BLOB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    cache.report("something else")
    said = "compiled networks are not kept for the next run, which will compile them again: cannot write"
    assert str(cache.problem).startswith(said), "the first reason stands"
    assert list(cache.folder.iterdir()) == [file_of(cache, "small")]
    assert cache.load("small") == b"small"


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_write_to_is_unused(cache: BlobCache, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("key", BLOB)
    cache.folder.chmod(mode)
    assert cache.load("key") is None
    cache.store("other", BLOB)
    assert "other users may write" in str(cache.problem)
    assert len(cache.sizes()) == 1
    cache.folder.chmod(0o755)
    assert cache.refusal() is None
    assert cache.load("key") == BLOB
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert cache.load("key") is None
    assert "belongs to another user" in str(cache.refusal())


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_blob_cache() is None, "tests keep nothing"
    monkeypatch.setenv(SWITCH, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    usual = "counterfactory/compiled"
    for setting, folder in (("", usual), (None, usual), (tmp_path / "my", "my")):
        monkeypatch.delenv(SWITCH) if setting is None else monkeypatch.setenv(SWITCH, str(setting))
        found = find_blob_cache()
        assert found is not None
        assert (found.folder, found.limit_bytes) == (tmp_path / folder, LIMIT_BYTES)
    for wrong in ("on", "compiled/here"):
        monkeypatch.setenv(SWITCH, wrong)
        with pytest.raises(CounterfactoryError, match=f"{SWITCH}.*{wrong}"):
            find_blob_cache()


WRITER = """
import sys
from pathlib import Path
from counterfactory.engine.runtime.blob_cache import BlobCache
cache, byte = BlobCache(Path(sys.argv[1]), 3_000_000), bytes([int(sys.argv[2])])
for turn in range(60):
    cache.store(f"key{turn % 3}", byte * 1_000_000)
assert cache.problem is None, cache.problem
"""


def test_processes_share_a_folder(cache: BlobCache) -> None:
    """Two write other bytes under the same keys, and drop each other's, while this one reads: all of one, or none."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(cache.folder), str(i)]) for i in (1, 2)]
    found: list[bytes] = []
    while any(writer.poll() is None for writer in writers):
        found += filter(None, (cache.load(f"key{i}") for i in range(3)))
    assert [writer.returncode for writer in writers] == [0, 0]
    assert found
    assert all(len(blob) == 1_000_000 and len(set(blob)) == 1 for blob in found)
    assert not list(cache.folder.glob("*.tmp"))
