"""TensorRT and TensorRT-RTX as libraries: two modules of nearly one interface, of which a machine may have either.

Both are imported when they are asked for and never before, so that machines without them run everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ..errors import CounterfactoryError
from .installing import TENSORRT, TENSORRT_RTX, pip_install

# The library of an A10G, which TensorRT-RTX's support matrix does not list.
BOX_LIBRARY = "tensorrt"
LIBRARIES: Mapping[str, str] = MappingProxyType({BOX_LIBRARY: TENSORRT, "tensorrt_rtx": TENSORRT_RTX})


def load_library(name: str) -> Any:
    """The module `name`, one of `LIBRARIES`. Raises CounterfactoryError for another, and where it is not installed."""
    if name not in LIBRARIES:
        raise CounterfactoryError(f"plans are made by {' or '.join(LIBRARIES)}, asked for {name}")
    try:
        return import_module(name)
    except ImportError as error:
        raise CounterfactoryError(
            f"{name} cannot be imported ({error}); install it: {pip_install(LIBRARIES[name])} (docs/a10g.md)"
        ) from error


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
    """The library's last message, for an error that it caused."""
    return log.heard[-1] if log.heard else "the library gives no reason"
