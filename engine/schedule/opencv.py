"""Switches off OpenCV's own threads while pictures are processed in several threads anyway."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from counterfactory.kernels.opencv import cv2


@contextmanager
def in_callers_threads() -> Generator[None, None, None]:
    """Within, OpenCV works in the thread that calls it; the process's setting comes back after.

    Its pool waits for work by spinning, which takes cores from networks and from our own threads: a small picture's
    edge map costs twice the processor time, and is not done sooner.
    """
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
