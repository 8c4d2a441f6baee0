"""Freed memory goes back to the system, also where pieces in use lie above it."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from counterfactory.engine.meter.memory import Memory
from counterfactory.engine.runtime.libc import give_back_freed


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap of another C library is left to itself")
def test_freed_pages_are_given_back() -> None:
    pieces = [np.ones(8 << 10, np.uint8) for _ in range(20_000)]  # 160 MB, each too small for a mapping of its own
    top = pieces[-1]  # in use, and above all others
    pieces.clear()
    held = Memory().taken()
    give_back_freed()
    assert held - Memory().taken() > 100e6
    assert top.all()


def test_another_c_library_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    give_back_freed()
