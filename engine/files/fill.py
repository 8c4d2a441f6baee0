"""TOML tables into frozen dataclasses, strictly: every key is known, every field is there, every type is right.

A file or its parsed table fills a dataclass. Ranges are checked by the dataclass itself: a ValueError from its
`__post_init__` is raised again with the file's name in front.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from ..errors import CounterfactoryError
from .reading import read_text

T = TypeVar("T")

_KINDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}


def nearest(word: str, choices: Iterable[str], prefix: str = "") -> str:
    """The end of an error message about an unknown `word`: "did you mean …", or all the choices. `prefix` stands before
    each choice where the user writes it.
    """
    options = list(choices)
    close = difflib.get_close_matches(word.lower(), options, n=1, cutoff=0.5)
    return f"did you mean {prefix + close[0]!r}?" if close else f"choose from: {', '.join(options)}"


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file. Raises CounterfactoryError, naming the file, when it cannot be read or is no TOML."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # besides TOMLDecodeError: endless numbers, and lists in lists
        raise CounterfactoryError(f"{path} is not valid TOML: {error}") from error


def fill(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Build the dataclass `cls` from `table`, field by field.

    Fields may be str, int, float (which takes whole numbers too), bool, Literal, tuple[X, ...], tuple[X, Y], another
    dataclass or Mapping[str, X] (a table), and any of these with `| None`. Every field must be given, whatever its
    default, but for `| None`, which TOML cannot write: there, leaving it out says None. A mapping whose metadata names
    a `prefix` and `names` is gathered from keys of the table itself. `where` names the file in errors.
    Raises CounterfactoryError for an unknown key, a missing one, and a value of another type.
    """
    return _fill(cls, table, where, "")


def plain(settings: Any) -> dict[str, Any]:
    """A dataclass as the table that `fill` takes: mappings of one prefix are keys of the table itself."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if (before := field.metadata.get("prefix")) is not None:
            table |= {before + name: item for name, item in value.items()}
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            table[field.name] = plain(value)
        elif isinstance(value, tuple | list):
            table[field.name] = [plain(item) if dataclasses.is_dataclass(item) else item for item in value]
        else:
            table[field.name] = value
    return table


def _fill(cls: type[T], table: Mapping[str, Any], where: str, prefix: str) -> T:
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    hints, table = typing.get_type_hints(cls), _gather(fields.values(), table)
    for key in table:
        if key not in fields:
            raise CounterfactoryError(f"{where}: unknown key {prefix + key!r}; {nearest(key, _keys(fields), prefix)}")
    values = {}
    for name in fields:
        if name in table:
            values[name] = _value(hints[name], table[name], where, prefix + name)
        elif not _optional(hints[name]):
            raise CounterfactoryError(f"{where}: key {prefix + name!r} is missing ({_described(hints[name])})")
        else:
            values[name] = None
    try:
        return cls(**values)
    except (ValueError, CounterfactoryError) as error:
        table_name = f"[{prefix.removesuffix('.')}] " if prefix and not str(error).startswith("[") else ""
        raise CounterfactoryError(f"{where}: {table_name}{error}") from error


def _gather(fields: Iterable[dataclasses.Field[Any]], table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with its keys of one prefix as a mapping, for a field whose metadata names `prefix` and `names`."""
    gathered = dict(table)
    for field in fields:
        if (before := field.metadata.get("prefix")) is not None and field.name not in table:
            present = [name for name in field.metadata["names"] if gathered.get(before + name) is not None]
            gathered[field.name] = {name: gathered[before + name] for name in present}
            for name in field.metadata["names"]:
                gathered.pop(before + name, None)
    return gathered


def _keys(fields: Mapping[str, dataclasses.Field[Any]]) -> list[str]:
    """The keys that a table may have."""
    keys = []
    for name, field in fields.items():
        before = field.metadata.get("prefix")
        keys += [name] if before is None else [before + suffix for suffix in field.metadata["names"]]
    return keys


def _value(hint: Any, value: Any, where: str, key: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(_without_none(hint), value, where, key)
    if origin is Literal:
        return _literal(typing.get_args(hint), value, where, key)
    if origin is tuple:
        return _tuple(hint, value, where, key)
    if origin is Mapping:
        return _mapping(hint, value, where, key)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise _wrong(hint, value, where, key)
        return _fill(typing.cast("type[Any]", hint), value, where, key + ".")
    if hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if hint in _KINDS and hint is not float and type(value) is hint:  # not isinstance: true is an int to Python
        return value
    if hint not in _KINDS:
        raise TypeError(f"fill cannot make a {hint!r} for {key}")
    raise _wrong(hint, value, where, key)


def _literal(choices: tuple[Any, ...], value: Any, where: str, key: str) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    hint = nearest(str(value), [str(choice) for choice in choices])
    raise CounterfactoryError(f"{where}: {key!r} cannot be {value!r}; {hint}")


def _tuple(hint: Any, value: Any, where: str, key: str) -> tuple[Any, ...]:
    kinds = typing.get_args(hint)
    if not isinstance(value, list):
        raise _wrong(hint, value, where, key)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise _wrong(hint, value, where, key)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_value(kind, item, where, f"{key}[{i}]") for i, (kind, item) in pairs)


def _mapping(hint: Any, value: Any, where: str, key: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(hint, value, where, key)
    _, kind = typing.get_args(hint)
    return {name: _value(kind, item, where, f"{key}.{name}") for name, item in value.items()}


def _wrong(hint: Any, value: Any, where: str, key: str) -> CounterfactoryError:
    return CounterfactoryError(f"{where}: {key!r} should be {_described(hint)}, found {value!r}")


def _described(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _described(_without_none(hint))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, args))
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return f"a list, each item {_described(args[0])}"
    if origin is tuple:
        return f"a list of {len(args)}: " + ", ".join(map(_described, args))
    if origin is Mapping:
        return "a table"
    return "a table" if dataclasses.is_dataclass(hint) else _KINDS.get(hint, str(hint))


def _optional(hint: Any) -> bool:
    return typing.get_origin(hint) in (Union, types.UnionType) and type(None) in typing.get_args(hint)


def _without_none(hint: Any) -> Any:
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if len(kinds) != 1:
        raise TypeError(f"fill takes one type or None, got {hint!r}")
    return kinds[0]
