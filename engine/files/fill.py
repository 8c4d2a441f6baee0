"""Tables of TOML, JSON or Arrow into frozen dataclasses, strictly: every key is known, every field is there, every type
is right.

A file or its parsed table fills a dataclass. Ranges are checked by the dataclass itself: a ValueError from its
`__post_init__` is raised again with the file's name in front.
"""

from __future__ import annotations

import dataclasses
import difflib
import reprlib
import sys
import tomllib
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union

from ..errors import CounterfactoryError
from .reading import read_text

T = TypeVar("T")

_SHOWN = 80  # characters of a wrong value in an error
_EXACT = (str, int, bool)
_KINDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}


def nearest(word: str, choices: Iterable[str], prefix: str = "") -> str:
    """The end of an error message about an unknown `word`: the nearest choice, behind `prefix`, or all the choices."""
    options = list(choices)
    close = difflib.get_close_matches(word.lower(), options, n=1, cutoff=0.5)
    return f"did you mean {prefix + close[0]!r}?" if close else f"choose from: {', '.join(options)}"


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file. Raises CounterfactoryError, naming the file, when it cannot be read or is no TOML."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # besides TOMLDecodeError: endless numbers, and lists in lists
        raise CounterfactoryError(f"{path} is not valid TOML: {error}") from error


def fill(cls: type[T], table: Mapping[str, Any], where: str, advice: str = "") -> T:
    """Build the dataclass `cls` from `table`, field by field. Raises CounterfactoryError for an unknown key, a missing
    one, and a value of another type.

    Fields may be str, int, float (which takes whole numbers too), bool, Any, Literal, tuple[X, ...], tuple[X, Y],
    another dataclass or Mapping[str, X] (a table), and any of these with `| None`. Every field must be given, whatever
    its default, but for `| None`, which TOML cannot write: there, leaving it out says None; and but for a field whose
    metadata says what stands for it where it is `absent`. A mapping or a dataclass whose metadata names a `prefix` and
    `names` is gathered from keys of the table itself. `where` names the file in errors, which end in `advice`.
    """
    return _Filling(where, advice)._fill(cls, table, "")


def fill_record(cls: type[T], value: object, where: str, advice: str, shared: dict[Hashable, Any] | None = None) -> T:
    """`fill` from what a program of ours wrote: keys that no field has are passed over, errors end in `advice`. Lists
    and dataclasses within are those in `shared` that equal them, so that many records take little memory.
    """
    filled: T = _Filling(where, advice, others=True, shared=shared)._value(cls, value, "", "")
    return filled


def fill_value(hint: Any, value: object, where: str, advice: str) -> Any:
    """`fill_record` for a value of any type that a field may have."""
    return _Filling(where, advice, others=True)._value(hint, value, "", "")


def fits(hint: Any, value: object) -> bool:
    """Whether `fill_value` takes a value."""
    try:
        fill_value(hint, value, "", "")
    except CounterfactoryError:
        return False
    return True


def plain(settings: Any) -> dict[str, Any]:
    """A dataclass as the table that `fill` takes, without what is absent; fields with a prefix are keys of it."""
    table: dict[str, Any] = {}
    for name, (_, _, before, suffixes, absent) in _fields(settings.__class__).items():
        value = getattr(settings, name)
        if absent is not None and value is absent:
            continue
        if type(value) not in _EXACT:
            value = _plain_value(value)
        if before is None:
            table[name] = value
        else:
            items = dict.fromkeys(suffixes) if value is None else value
            table |= {before + suffix: item for suffix, item in items.items()}
    return table


def _plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain(value)
    return [_plain_value(item) for item in value] if isinstance(value, (tuple, list)) else value


class _Field(NamedTuple):
    """A field: its type but for None, whether that is allowed, and from its metadata the prefix, the names, and what
    stands for it where it is absent, None where it has to be given.
    """

    hint: Any
    optional: bool
    before: str | None
    names: tuple[str, ...]
    absent: Any


@cache  # hints are parsed anew at every call, which takes longer than to fill a row of 35 fields
def _fields(cls: type[Any]) -> dict[str, _Field]:
    hints, fields = typing.get_type_hints(cls), dict[str, _Field]()
    for field in dataclasses.fields(cls):
        hint, more = hints[field.name], field.metadata
        optional, names = type(None) in typing.get_args(hint), tuple(more.get("names", ()))
        if field.init:
            fields[field.name] = _Field(_without_none(hint), optional, more.get("prefix"), names, more.get("absent"))
    return fields


@dataclasses.dataclass(frozen=True)
class _Filling:
    """Fills dataclasses from a table in the file `where`; `others` allows keys that no field has."""

    where: str
    advice: str = ""
    others: bool = False
    shared: dict[Hashable, Any] | None = None

    def _fill(self, cls: type[T], table: Mapping[str, Any], prefix: str) -> T:
        fields = _fields(typing.cast("Any", cls))
        table = _gather(fields, table)
        if not self.others and (unknown := next((key for key in table if key not in fields), None)) is not None:
            known = ((name,) if of.before is None else map(of.before.__add__, of.names) for name, of in fields.items())
            advice = nearest(unknown, chain.from_iterable(known), prefix)
            raise self._error(f"unknown key {prefix + unknown!r}; {advice}")
        values = {}
        for name, field in fields.items():
            if name not in table and field.absent is not None:
                values[name] = field.absent
                continue
            if name not in table and not field.optional:
                raise self._error(f"key {prefix + name!r} is missing ({_described(field.hint)})")
            value, before = table.get(name), field.before
            if type(value) is field.hint and field.hint in _EXACT:
                values[name] = value  # as `_value` does, in a third of the time: most fields of rows by the 100,000
            elif field.optional and (value is None or (before is not None and not value)):
                values[name] = None
            else:
                key, joint = (name, ".") if before is None else (before, "")
                values[name] = self._value(field.hint, value, prefix + key, joint)
        try:
            return cls(**values)
        except (ValueError, CounterfactoryError) as error:
            table_name = f"[{prefix.removesuffix('.')}] " if prefix and not str(error).startswith("[") else ""
            raise self._error(f"{table_name}{error}") from error

    def _value(self, hint: Any, value: Any, key: str, joint: str = ".") -> Any:
        if type(value) is hint and hint in _EXACT:  # not isinstance: true is an int to Python
            return value
        if hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return float(value)
        origin = typing.get_origin(hint)
        if origin in (Union, types.UnionType):
            return None if value is None else self._value(_without_none(hint), value, key, joint)
        if origin is Literal:
            return self._literal(typing.get_args(hint), value, key)
        if origin is tuple:
            return self._tuple(hint, value, key)
        if origin is Mapping or dataclasses.is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise self._wrong(hint, value, key)
            if origin is None:
                return self._once(self._fill(typing.cast("type[Any]", hint), value, key + joint), key)
            kind, start = typing.get_args(hint)[1], key and key + joint
            return {name: self._value(kind, item, start + name) for name, item in value.items()}
        if hint is Any:
            return value
        if hint not in _KINDS:
            raise TypeError(f"fill cannot make a {hint!r} for {key}")
        raise self._wrong(hint, value, key)

    def _literal(self, choices: tuple[Any, ...], value: Any, key: str) -> Any:
        if any(type(choice) is type(value) and choice == value for choice in choices):
            return value
        hint = nearest(str(value), [str(choice) for choice in choices])
        raise self._error(f"{key!r} cannot be {_shown(value)}; {hint}")

    def _tuple(self, hint: Any, value: Any, key: str) -> tuple[Any, ...]:
        kinds = typing.get_args(hint)
        if isinstance(value, list) and len(kinds) == 2 and kinds[1] is Ellipsis:
            kinds = (kinds[0],) * len(value)
        if not isinstance(value, list) or len(kinds) != len(value):
            raise self._wrong(hint, value, key)
        pairs = enumerate(zip(kinds, value, strict=True))
        values: tuple[Any, ...] = self._once(tuple(self._value(k, item, f"{key}[{i}]") for i, (k, item) in pairs), key)
        return values

    def _once(self, value: Any, key: str) -> Any:
        return value if self.shared is None or not key else self.shared.setdefault(value, value)

    def _wrong(self, hint: Any, value: Any, key: str) -> CounterfactoryError:
        return self._error(f"{repr(key) if key else 'it'} should be {_described(hint)}, found {_shown(value)}")

    def _error(self, text: str) -> CounterfactoryError:
        return CounterfactoryError(f"{self.where}: {text}{'; ' if self.advice else ''}{self.advice}")


def _shown(value: object) -> str:
    text = reprlib.repr(value) if isinstance(value, (list, dict)) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _gather(fields: Mapping[str, _Field], table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with its keys of one prefix as a table, for a field whose metadata names `prefix` and `names`."""
    gathered = dict(table)
    for name, (_, _, before, suffixes, _) in fields.items():
        if before is not None and name not in table:
            keys = {suffix: gathered.pop(before + suffix, None) for suffix in suffixes}
            gathered[name] = {suffix: value for suffix, value in keys.items() if value is not None}
    return gathered


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
    return "a table" if origin is Mapping or dataclasses.is_dataclass(hint) else _KINDS.get(hint, str(hint))


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return hint
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if len(kinds) != 1:
        raise TypeError(f"fill takes one type or None, got {hint!r}")
    return kinds[0]
