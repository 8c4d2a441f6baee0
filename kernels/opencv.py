"""OpenCV, imported when something of it is first used: judging a suite and asking for help do without it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cv2 as cv2
else:

    class _Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("cv2"), name)

    cv2 = _Late()
