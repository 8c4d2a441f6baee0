"""OpenVINO without its telemetry, imported when it is first used: every module takes the package from here.

Importing OpenVINO 2026.4.1 posts the system, the version and a persistent id, which it keeps in the home folder, to an
analytics service, unless the user has opted out; NNCF does the same. Neither does where the package openvino_telemetry
cannot be imported: an entry of None in sys.modules before their first import has that effect.

A profile that runs no network works where OpenVINO is not installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ..errors import CounterfactoryError
from ..packages import missing_package

if TYPE_CHECKING:
    import openvino as ov

__all__ = ["ov"]

cast("dict[str, Any]", sys.modules).setdefault("openvino_telemetry", None)


class _WhenUsed:
    """The package, for whoever takes something of it. Raises CounterfactoryError where it is not installed."""

    def __getattr__(self, name: str) -> Any:
        try:
            package = import_module("openvino")
        except ModuleNotFoundError as error:
            raise CounterfactoryError(missing_package(error) or str(error)) from error
        return getattr(package, name)


if not TYPE_CHECKING:
    ov = _WhenUsed()
