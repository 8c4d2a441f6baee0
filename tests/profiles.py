"""Profiles of a test's own: one that comes with the package, or a file, and the differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# stable-diffusion-v1-5's scheduler_config.json.
SCHEDULER = json.loads(
    (Path(__file__).parent / "export" / "published" / "stable-diffusion-v1-5.scheduler.json").read_text()
)


def profile_with(folder: Path, base: str | Path = "pocket", **tables: Any) -> Path:
    """A profile's file in `folder` that extends `base`, with the keys of `tables` in the place of its own, table in
    table; None leaves a key out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "profile.toml"
    gone = list(_left_out(tables, ()))
    start = {"extends": str(base), "name": Path(base).stem} | ({"without": gone} if gone else {})
    path.write_text("\n".join(_lines(start | tables, ())) + "\n", encoding="utf-8")
    return path


def _left_out(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in table.items():
        if value is None:
            yield ".".join((*path, key))
        elif isinstance(value, Mapping):
            yield from _left_out(value, (*path, key))


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """TOML of a table: what is no table first. Strings, numbers and lists of JSON are TOML's too."""
    for key, value in table.items():
        if value is not None and not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{key} = {json.dumps(value)}"
    for key, value in table.items():
        for one in value if _is_tables(value) else [value] if isinstance(value, Mapping) else []:
            name = ".".join((*path, key))
            yield f"[[{name}]]" if _is_tables(value) else f"[{name}]"
            yield from _lines(one, (*path, key))


def _is_tables(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(one, Mapping) for one in value)
