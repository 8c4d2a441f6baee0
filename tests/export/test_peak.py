"""The memory that an export is said to have held."""

from __future__ import annotations

import mmap
import sys
import time
from pathlib import Path

import pytest

from counterfactory.export.production.peak import PeakMemory

SIZE = 64 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells anonymous memory apart: unchecked elsewhere")
def test_a_peak_is_seen_after_it_passed_and_mapped_files_are_none(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(SIZE))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with PeakMemory() as peak:
            before = peak.bytes
            assert not any(mapped[begin] for begin in range(0, SIZE, 4096))  # every page is read
            time.sleep(0.1)
        assert peak.bytes - before < SIZE // 8
    with PeakMemory() as peak:
        before = peak.bytes
        held = bytearray(b"1" * SIZE)
        time.sleep(0.1)
        del held
        time.sleep(0.1)
        assert peak.bytes - before > 0.9 * SIZE
