"""Profiles of a test's own: one that comes with the package, or a file, and the differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from counterfactory.engine.profile.small import write_profile

# stable-diffusion-v1-5's scheduler_config.json.
SCHEDULER = json.loads(
    (Path(__file__).parent / "export" / "published" / "stable-diffusion-v1-5.scheduler.json").read_text()
)


def profile_with(folder: Path, base: str | Path = "pocket", **tables: Any) -> Path:
    """A profile's file in `folder` that extends `base` with `tables`, as `write_profile` has it."""
    return write_profile(folder / "profile.toml", str(base), tables)
