"""OpenCV's threads within and after."""

from __future__ import annotations

from contextlib import suppress

import cv2

from counterfactory.engine.schedule.opencv import in_callers_threads


def test_opencv_has_one_thread_within_and_its_own_after() -> None:
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(2)
        with suppress(KeyError), in_callers_threads():
            assert cv2.getNumThreads() == 1
            raise KeyError
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)
