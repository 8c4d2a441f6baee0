"""Rows of metadata.parquet for tests that need some, and do not care of which suite."""

from __future__ import annotations

from typing import Any

from counterfactory.engine.edit import Edit
from counterfactory.engine.suite import VariantRow


def variant_row(number: int = 0, **changes: Any) -> VariantRow:
    """Row `number` of a suite of three variants a source, with the changes."""
    values: dict[str, Any] = {
        "file_name": f"images/bus/{number // 3:04}/{number:016x}.png",
        "sha256": f"{number:064x}",
        "source": f"bus/{number // 3:04}",
        "label": "bus",
        "mask": None,
        "caption": "A red bus on a dry road.",
        "edited_caption": "A red bus on a snowy road.",
        "edits": (Edit("weather", "dry", "snowy"),),
        "variant": number % 3,
        "seed": 7,
        "steps": 20,
        "guidance_scale": 7.5,
        "guidance_start": 0.25,
        "guidance_stop": 0.75,
        "scores": {"text": 0.25, "layout": 0.875},
        "reason": None,
        "source_key": "5" * 64,
        "variant_key": f"{number:064x}",
    }
    return VariantRow(**values | changes)
