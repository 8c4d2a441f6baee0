"""The most memory that a process held while something ran, files that are mapped left out.

Pages of a mapped file are the system's to drop when memory is short; what a process cannot do without is its anonymous
memory. Linux keeps a peak of both together only (VmHWM), so that the anonymous part is read again and again; what
lasts less than a reading's distance may be missed. Other systems give the peak of both.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from counterfactory.engine.meter.memory import Memory

_STATUS = Path("/proc/self/status")
_PAUSE_S = 0.01


class PeakMemory:
    """A context that reads the process's memory a hundred times a second, from a thread of its own."""

    def __init__(self) -> None:
        self._bytes = _anonymous_bytes() or 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        now = _anonymous_bytes()
        self._bytes = max(self._bytes, now or 0)
        return Memory().peak() if now is None else self._bytes

    def _watch(self) -> None:
        while not self._done.wait(_PAUSE_S):
            self._bytes = max(self._bytes, _anonymous_bytes() or 0)


def _anonymous_bytes() -> int | None:
    """Resident memory that no file stands behind; None on systems that do not say."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return None
