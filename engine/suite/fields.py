"""Reads the fields of plain data from a file of the suite, each with the type that is asked for.

Rows of Arrow and JSON are Python's dicts; records are built from their checked fields. An error says the file, the key
and what was found there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import CounterfactoryError

T = TypeVar("T")


class Fields:
    """The table `value` read from `where` (a file, and a place in it); errors end in `advice`.

    Every method takes a key and raises CounterfactoryError if it is missing or holds another type.
    """

    def __init__(self, value: object, where: str, advice: str, prefix: str = "") -> None:
        self.where, self._advice, self._prefix = where, advice, prefix
        if not isinstance(value, Mapping):
            raise self._wrong(prefix.removesuffix("."), value, "a table of keys and values")
        self._table: Mapping[str, Any] = value

    def __contains__(self, key: str) -> bool:
        """Whether the table has the key at all, be it null."""
        return key in self._table

    def text(self, key: str) -> str:
        """Text."""
        return self._of(key, str, "text")

    def text_or_none(self, key: str) -> str | None:
        """Text, or None where it is null."""
        return None if self._get(key) is None else self.text(key)

    def whole(self, key: str) -> int:
        """A whole number."""
        return self._of(key, int, "a whole number")

    def flag(self, key: str) -> bool:
        """True or false."""
        return self._of(key, bool, "true or false")

    def number(self, key: str) -> float:
        """A finite number."""
        value = self._get(key)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self._wrong(self._prefix + key, value, "a finite number")
        return float(value)

    def number_or_none(self, key: str) -> float | None:
        """A finite number, or None where it is null."""
        return None if self._get(key) is None else self.number(key)

    def table(self, key: str) -> Fields:
        """A table of keys and values."""
        return Fields(self._get(key), self.where, self._advice, f"{self._prefix}{key}.")

    def table_or_none(self, key: str) -> Fields | None:
        """A table, or None where it is null."""
        return None if self._get(key) is None else self.table(key)

    def tables(self, key: str) -> list[Fields]:
        """A list of tables."""
        items: list[Any] = self._of(key, list, "a list")
        return [Fields(item, self.where, self._advice, f"{self._prefix}{key}[{i}].") for i, item in enumerate(items)]

    def text_list(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        items: list[Any] = self._of(key, list, "a list")
        if not all(type(item) is str for item in items):
            raise self._wrong(self._prefix + key, items, "a list of texts")
        return tuple(items)

    def plain(self, key: str) -> dict[str, Any]:
        """A table as it is, for a caller that knows its keys."""
        return self._of(key, dict, "a table of keys and values")

    def numbers(self) -> dict[str, float]:
        """All of the table, as finite numbers; keys that are null are left out."""
        return {key: self.number(key) for key in self._table if self._table[key] is not None}

    def wholes(self) -> dict[str, int]:
        """All of the table, as whole numbers."""
        return {key: self.whole(key) for key in self._table}

    def texts(self) -> dict[str, str]:
        """All of the table, as texts."""
        return {key: self.text(key) for key in self._table}

    def label(self, key: str) -> str:
        """How an error names the value under a key: the file and the key."""
        return f"{self.where}: {self._prefix + key!r}"

    def refuse(self, key: str, wanted: str) -> CounterfactoryError:
        """The error that says that the key does not hold what is wanted."""
        return self._wrong(self._prefix + key, self._get(key), wanted)

    def _of(self, key: str, kind: type[T], called: str) -> T:
        value = self._get(key)
        if type(value) is not kind:  # not isinstance: true is an int to Python
            raise self._wrong(self._prefix + key, value, called)
        return value

    def _get(self, key: str) -> Any:
        if key not in self._table:
            raise CounterfactoryError(f"{self.where}: key {self._prefix + key!r} is missing; {self._advice}")
        return self._table[key]

    def _wrong(self, key: str, value: object, wanted: str) -> CounterfactoryError:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
        at = f"{key!r} should be" if key else "it should be"
        return CounterfactoryError(f"{self.where}: {at} {wanted}, found {shown}; {self._advice}")
