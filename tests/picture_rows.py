"""Rows of metadata.parquet for tests that need some, and do not care of which suite."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from counterfactory.engine.edit import Edit
from counterfactory.engine.suite import Crop, Origin, Painting, PictureRow
from counterfactory.engine.suite.metadata import write_table
from counterfactory.engine.suite.row_spool import RowSpool

PAINTING = Painting(seed=7, steps=20, guidance_scale=7.5, guidance_start=0.25, guidance_stop=0.75)


def picture_row(index: int = 0, /, **changes: Any) -> PictureRow:
    """Row `index` of a suite of three variants a source, with the changes."""
    values: dict[str, Any] = {
        "file_name": f"images/bus/{index // 3:04}/{index:016x}.png",
        "sha256": f"{index:064x}",
        "kind": "variant",
        "source": f"bus/{index // 3:04}",
        "label": "bus",
        "mask": None,
        "original": f"originals/bus/{index // 3:04}/{index // 3:016x}.png",
        "control": None,
        "caption": "A red bus on a dry road.",
        "edited_caption": "A red bus on a snowy road.",
        "edits": (Edit("weather", "dry", "snowy"),),
        "number": index % 3,
        "painting": PAINTING,
        "scores": {"text": 0.25, "layout": 0.875},
        "reason": None,
        "origin": Origin(f"bus/{index // 3:04}.jpg", "a" * 64, 640, 480),
        "crop": Crop(80.0, 0.0, 480.0, 480.0),
        "source_key": "5" * 64,
        "key": f"{index:064x}",
        "known_world": True,
        "edit_scores": (0.625,),
    }
    if "edits" in changes:
        values["edit_scores"] = ()
    return PictureRow(**values | changes)


def original_row(index: int = 0, /, **changes: Any) -> PictureRow:
    """The original of source `index`."""
    values: dict[str, Any] = {
        "file_name": f"originals/bus/{index:04}/{index:016x}.png",
        "kind": "original",
        "edited_caption": "A red bus on a dry road.",
        "edits": (),
        "number": 0,
        "painting": None,
        "scores": {},
    }
    return picture_row(3 * index, **values | changes)


def control_row(index: int = 0, /, **changes: Any) -> PictureRow:
    """The control of source `index`."""
    name = f"images/bus/{index:04}/{index + 10**6:016x}.png"
    values: dict[str, Any] = {
        "file_name": name,
        "sha256": f"{index + 10**6:064x}",
        "kind": "control",
        "control": name,
        "edited_caption": "A red bus on a dry road.",
        "edits": (),
        "number": 0,
    }
    return picture_row(3 * index, **values | changes)


def written(folder: Path, rows: Iterable[PictureRow]) -> Path:
    """A folder with the rows' table and no images."""
    folder.mkdir(parents=True, exist_ok=True)
    with RowSpool(folder) as spool, (folder / "metadata.parquet").open("wb") as file:
        for row in rows:
            spool.add(row)
        write_table(spool, spool.score_names, file)
    return folder
