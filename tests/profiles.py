"""Profiles of a test's own: one that comes with the package, or a file, and the differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterfactory.engine.profile.small import write_profile


def profile_with(folder: Path, base: str | Path = "pocket", **tables: Any) -> Path:
    """A profile's file in `folder` that extends `base` with `tables`, as `write_profile` has it."""
    return write_profile(folder / "profile.toml", str(base), tables)
