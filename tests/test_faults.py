"""Parts of what `python tests/faults.py` tries: faults of a disk, and single bits of a suite's files."""

from __future__ import annotations

import shutil
from collections import Counter

import bit_flips
import file_faults
import pytest


def test_a_bit_is_told_or_harmless() -> None:
    tried, silent, came = bit_flips.run(90, seed=1)
    assert (tried, silent) == (90, 0)
    assert {name: came[name, "told"] > 0 for name in ("ledger.sqlite", "metadata.parquet", "run.json")} == {
        **dict.fromkeys(("ledger.sqlite", "metadata.parquet", "run.json"), True)
    }


@pytest.mark.slow
def test_no_single_bit_is_silent() -> None:
    tried, silent, _ = bit_flips.run(6000, seed=2)
    assert (tried, silent) == (6000, 0)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler builds the disk that fails")
def test_a_run_on_a_disk_that_fails_loses_nothing() -> None:
    faults = file_faults.run(45, seed=3)
    ended = Counter((fault.kind, fault.status) for fault in faults)
    assert [fault for fault in faults if fault.lost] == []
    assert ended["kill", -9] == ended["half a write and kill", -9] == 9, "nine of each were meant to be killed"
    assert ended["no space", 2] > 0 < ended["input/output error", 2]
    assert ended["short write", 0] == 9
