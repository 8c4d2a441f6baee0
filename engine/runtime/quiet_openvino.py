"""OpenVINO without its telemetry: whoever needs the package imports it from here.

Importing OpenVINO 2026.4.1 posts the system, the version and a persistent id, which it keeps in the home folder, to an
analytics service, unless the user has opted out; NNCF does the same. Both leave it where the package
openvino_telemetry cannot be imported, which an entry of None for it sees to, if it is there before their first import.
"""

from __future__ import annotations

import sys
from typing import Any, cast

cast("dict[str, Any]", sys.modules).setdefault("openvino_telemetry", None)

import openvino as ov  # noqa: E402 - after the line above

__all__ = ["ov"]
