"""Lists on the disk hold what lists in memory hold, and nearly nothing in memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from counterfactory.engine.api.options import Caller, EditOptions
from counterfactory.engine.api.read_inputs import read_request
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files import disk_list
from counterfactory.engine.files.disk_list import DiskList, repeated
from counterfactory.engine.sources.layouts import SetOptions, list_set

# What a source may take that is on the disk, in bytes; one in memory takes some 1,200.
A_SOURCE = 60


@dataclass(frozen=True, slots=True)
class Item:
    """An item with what it shares."""

    name: str
    where: Path
    shared: Any
    size: tuple[int, ...] = ()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and runs are short, so that few items fill several."""
    monkeypatch.setattr(disk_list, "_BLOCK", 4)
    monkeypatch.setattr(disk_list, "_RUN", 8)


NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3)), max_size=40)


@given(NUMBERS, st.slices(40), st.slices(40))
def test_it_is_the_list_of_its_items(items: list[tuple[int, str]], part: slice, inner: slice) -> None:
    on_disk = DiskList(items)
    assert list(on_disk) == items
    assert [on_disk[at] for at in range(-len(items), len(items))] == items + items
    assert list(on_disk[part]) == items[part]
    assert list(on_disk[part][inner]) == items[part][inner]
    assert on_disk == items
    assert on_disk != [*items, (0, "")]


@given(NUMBERS)
def test_ordered_items_are_sorted_and_stable(items: list[tuple[int, str]]) -> None:
    assert list(DiskList.ordered(items, lambda item: item[0])) == sorted(items, key=lambda item: item[0])


def test_what_items_share_stays_one_object() -> None:
    shared, other = {"a": 1}, object()
    items = [Item(f"{n}", Path(f"folder/{n}"), shared if n % 2 else other, (n, n)) for n in range(20)]
    again = list(DiskList(items))
    assert again == items
    assert all(one.shared is (shared if n % 2 else other) for n, one in enumerate(again))
    assert again[0] is not items[0], "it was kept in memory"


def test_a_part_takes_no_items() -> None:
    with pytest.raises(ValueError, match="takes no items"):
        DiskList([1, 2])[:1].append(3)  # type: ignore[attr-defined]


def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(CounterfactoryError, match="no space left on device; free some space"):
        DiskList(range(10))


@given(st.lists(st.text(max_size=2), max_size=50))
def test_repeated_texts_are_all_among_the_hashes(texts: list[str]) -> None:
    counts = Counter(texts)
    assert repeated(texts) == {hash(text) for text in texts if counts[text] > 1}


def grown(do: Callable[[int], object], few: int, many: int) -> float:
    """Bytes that stay in memory for each further one."""
    held = []
    for count in (few, many, few, many):  # the first two fill what is kept for later, as Python's table of names
        tracemalloc.start()
        try:
            result = do(count)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        del result
    return (held[3] - held[2]) / (many - few)


def links(folder: Path, count: int) -> Path:
    """So many pictures in two folders that are one file."""
    first = folder / "a" / "000000.jpg"
    for place in (first.parent, folder / "b"):
        place.mkdir(parents=True)
    Image.effect_noise((16, 16), 90).save(first)
    for number in range(1, count):
        os.link(first, folder / "ab"[number % 2] / f"{number:06d}.jpg")
    return folder


@pytest.mark.slow
def test_a_listing_and_sources_stay_on_the_disk(tmp_path: Path) -> None:
    """What stays of a source that is listed, read and taken into a request does not grow with the sources; in a process
    of its own, which holds nothing else.
    """
    command, environ = [sys.executable, __file__, str(tmp_path)], {**os.environ, "PYTHONHASHSEED": "0"}
    told = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout
    listed, read = map(float, told.split())
    assert listed < A_SOURCE
    assert read < A_SOURCE


def main(folder: Path) -> None:
    """Prints the bytes that stay of a file that is listed, and of a source that is read."""
    disk_list._BLOCK, disk_list._RUN = 64, 256
    few, many = 128, 512  # whole blocks, so that the last of a list holds no more of one than of the other
    folders = {count: links(folder / str(count), count) for count in (few, many)}
    silent = Caller.of(lambda _: None, lambda _: None)
    listed = grown(lambda count: list_set(str(folders[count]), SetOptions()), few, many)
    # All are links to one picture: as copies they would be a group, whose members stay in memory.
    options: EditOptions = {"profile": "light", "group_by": "none"}
    read = grown(lambda count: read_request(folders[count], options, silent), few, many)
    sys.stdout.write(f"{listed} {read}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
