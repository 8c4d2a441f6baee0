"""What a profile's file says beside another: `extends` names that one, and the file states the differences.

Tables are merged key by key; values, lists and lists of tables take the place of the parent's. `without` takes keys and
tables of the parent out first, by their dotted names. A parent is a profile by itself, checked as such: whatever is
wrong with the two together is the file's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.fill import nearest

EXTENDS, WITHOUT = "extends", "without"
# Its own: no two profiles have one name.
_NAME = "name"


def is_path(name: str) -> bool:
    """Whether a profile is named by its file."""
    return name.endswith(".toml") or "/" in name


def parent_of(table: Mapping[str, Any], path: Path, heirs: Sequence[Path], shipped: Mapping[str, Path]) -> Path | None:
    """The file of what the profile in `path` extends, None for nothing. `heirs` are the files that extend this one,
    the first first; `shipped` are the files of the profiles that have a name.

    Raises CounterfactoryError for a parent that there is not, or that extends this one.
    """
    if EXTENDS not in table:
        if WITHOUT in table:
            raise CounterfactoryError(f"{path}: {WITHOUT} takes keys out of what a profile {EXTENDS}: name that too")
        return None
    name = table[EXTENDS]
    if not isinstance(name, str):
        raise CounterfactoryError(f"{path}: '{EXTENDS}' should be the name or the file of a profile, found {name!r}")
    at_home = Path(name).expanduser() if name.startswith("~/") else Path(name)
    parent = path.parent / at_home if is_path(name) else shipped.get(name)
    if parent is None or not parent.exists():
        siblings = sorted(file.name for file in path.parent.glob("*.toml") if file.name != path.name)
        missing = "is no profile" if parent is None else f"names a file that there is not, {parent}"
        raise CounterfactoryError(f'{path}: {EXTENDS} = "{name}" {missing}; {nearest(name, [*shipped, *siblings])}')
    circle = [*heirs, path]
    if any(parent.samefile(file) for file in circle):
        way = " extends ".join(file.name for file in (*circle, parent))
        raise CounterfactoryError(
            f'{path}: {EXTENDS} = "{name}" goes round in a circle, {way}; {nearest(name, shipped)}'
        )
    return parent


def extend(parent: Mapping[str, Any], table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parent's table, whole, with the differences in `table`.

    Raises CounterfactoryError, which `where` begins, for a `without` of what the parent has not.
    """
    inherited = {key: value for key, value in parent.items() if key != _NAME}
    gone = table.get(WITHOUT, [])
    if not isinstance(gone, list) or not all(isinstance(key, str) for key in gone):
        raise CounterfactoryError(f"{where}: '{WITHOUT}' should be a list of keys, such as \"invert\", found {gone!r}")
    for key in gone:
        inherited = _removed(inherited, key, where)
    return _merged(inherited, {key: value for key, value in table.items() if key not in (EXTENDS, WITHOUT)})


def _removed(table: Mapping[str, Any], key: str, where: str, prefix: str = "") -> dict[str, Any]:
    first, _, rest = key.partition(".")
    inner = table.get(first)
    if rest and isinstance(inner, Mapping):
        return {**table, first: _removed(inner, rest, where, f"{prefix}{first}.")}
    if key not in table:
        near = nearest(key, table, prefix)
        raise CounterfactoryError(
            f"{where}: '{WITHOUT}' names {prefix + key!r}, which its parent does not have; {near}"
        )
    return {name: value for name, value in table.items() if name != key}


def _merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(parent)
    for key, value in child.items():
        inner = merged.get(key)
        merged[key] = _merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return merged
