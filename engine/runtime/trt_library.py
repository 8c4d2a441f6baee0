"""TensorRT and TensorRT-RTX as libraries: two modules of nearly one interface, of which a machine may have either.

Both are imported when they are asked for and never before, so that machines without them run everything else.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import CounterfactoryError

LIBRARIES = ("tensorrt_rtx", "tensorrt")
_INSTALL = {
    "tensorrt_rtx": "pip install tensorrt-rtx-cu12",
    "tensorrt": "pip install tensorrt-cu12",
}


def load_library(asked: str | None = None) -> Any:
    """The module `asked`; without a wish the first of `LIBRARIES` that is installed.

    Raises CounterfactoryError for any other name and for what is not installed.
    """
    if asked is not None and asked not in LIBRARIES:
        raise CounterfactoryError(f"plans are made by {' or '.join(LIBRARIES)}, asked for {asked}")
    reasons = []
    for name in (asked,) if asked else LIBRARIES:
        try:
            return import_module(name)
        except ImportError as error:
            reasons.append(f"{name} cannot be imported ({error}); install it: {_INSTALL[name]}")
    raise CounterfactoryError("; ".join(reasons))


def library_name(library: Any) -> str:
    """A compiler and its release as plans' keys have it, "tensorrt_rtx 1.7.1.116"."""
    return f"{library.__name__} {library.__version__}"


def listen(library: Any) -> Any:
    """A logger of `library` that prints nothing: errors and warnings are in its list `heard`, its notes in `noted`."""

    class Listener(library.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.heard: list[str] = []
            self.noted: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (library.ILogger.INTERNAL_ERROR, library.ILogger.ERROR, library.ILogger.WARNING):
                self.heard.append(message.strip())
            elif severity == library.ILogger.INFO:
                self.noted.append(message.strip())

    return Listener()


def last_heard(log: Any) -> str:
    """What the library said last, for an error that it caused."""
    return log.heard[-1] if log.heard else "the library gives no reason"
