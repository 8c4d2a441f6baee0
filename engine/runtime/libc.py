"""What the C library is asked for: a thread's stack of signal handlers, and freed memory given back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _SignalStack(ctypes.Structure):
    """stack_t of sigaltstack(2)."""

    _fields_ = (("ss_sp", ctypes.c_void_p), ("ss_flags", ctypes.c_int), ("ss_size", ctypes.c_size_t))


@contextmanager
def signal_stack_kept() -> Iterator[None]:
    """Whatever stack the block gives this thread's signal handlers, the thread has the one from before afterwards.

    OpenVINO's CPU plugin gives the thread that loads it a stack, and the one from before when it is unloaded. Plugins
    that are unloaded in another order than the reverse (each core has one of its own) leave the thread a stack that is
    no longer there, and the next Ctrl-C kills the process (OpenVINO 2026.4.1).
    """
    if sys.platform != "linux":  # the only system where the plugin does so
        yield
        return
    libc = ctypes.CDLL(None)
    before = _SignalStack()
    libc.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        libc.sigaltstack(ctypes.byref(before), None)


def give_back_freed() -> None:
    """Return the free pages of this process's heap to the system; a few milliseconds.

    glibc keeps what was freed, in an arena of each thread, between pieces that are still in use: work whose arrays
    differ from call to call leaves more and more of it behind. Other C libraries are left to themselves.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # no glibc; no C library to ask at all, as on Windows
        return
    trim(ctypes.c_size_t(0))
