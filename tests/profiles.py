"""Profiles of a test's own: one that comes with the package, and the differences."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any


def profile_with(folder: Path, base: str = "pocket", **tables: Any) -> Path:
    """A profile's file in `folder`: `base`, with the keys of `tables` in the place of its own, table in table; None
    leaves a key out.
    """
    shipped = files("counterfactory.engine").joinpath("profile", "profiles", f"{base}.toml")
    table = _merge(tomllib.loads(shipped.read_text(encoding="utf-8")), tables)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "profile.toml"
    path.write_text("\n".join(_lines(table, ())) + "\n", encoding="utf-8")
    return path


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return {key: value for key, value in merged.items() if value is not None}


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """TOML of a table: what is no table first. Strings, numbers and lists of JSON are TOML's too."""
    for key, value in table.items():
        if not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{key} = {json.dumps(value)}"
    for key, value in table.items():
        for one in value if _is_tables(value) else [value] if isinstance(value, Mapping) else []:
            name = ".".join((*path, key))
            yield f"[[{name}]]" if _is_tables(value) else f"[{name}]"
            yield from _lines(one, (*path, key))


def _is_tables(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(one, Mapping) for one in value)
