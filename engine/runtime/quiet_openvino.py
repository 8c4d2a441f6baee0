"""OpenVINO without its telemetry: every module imports the package from here.

Importing OpenVINO 2026.4.1 posts the system, the version and a persistent id, which it keeps in the home folder, to an
analytics service, unless the user has opted out; NNCF does the same. Neither does where the package openvino_telemetry
cannot be imported: an entry of None in sys.modules before their first import has that effect.
"""

from __future__ import annotations

import sys
from typing import Any, cast

cast("dict[str, Any]", sys.modules).setdefault("openvino_telemetry", None)

import openvino as ov  # noqa: E402 - after the line above

__all__ = ["ov"]
