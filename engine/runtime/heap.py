"""Memory that a step of work has freed, given back to the system.

glibc keeps what was freed, in an arena of each thread, between pieces that are still in use: work whose arrays differ
from call to call leaves more and more of it behind. Other C libraries are left to themselves.
"""

from __future__ import annotations

import ctypes


def give_back_freed() -> None:
    """Return the free pages of this process's heap to the system; a few milliseconds, and nothing elsewhere."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # no glibc; no C library to ask at all, as on Windows
        return
    trim(ctypes.c_size_t(0))
