"""The folder of this user's caches, which may be deleted at any time and costs only time."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """The folder counterfactory/ in $XDG_CACHE_HOME or ~/.cache, which need not exist; None without a home."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if Path(folder).is_absolute():  # the standard has other paths ignored
        return Path(folder) / "counterfactory"
    try:
        return Path.home() / ".cache" / "counterfactory"
    except RuntimeError:
        return None
