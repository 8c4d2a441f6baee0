"""A configuration that is read whole: each of its keys is understood, or touches no pixel, or is off, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

_BAD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class ConfigurationKeys:
    """The keys of a table. A key that is null is not there."""

    def __init__(self, table: Mapping[str, Any], without_pixels: Collection[str]) -> None:
        self._table = {key: value for key, value in table.items() if value is not None}
        self._read = set(without_pixels)

    def __call__(self, name: str, other: Any = None, to: Callable[[Any], Any] = lambda value: value) -> Any:
        """A key's value, or `other` where it is not there, as `to` reads it. Raises ValueError with its name for a
        value that `to` cannot read.
        """
        self._read.add(name)
        value = self._table.get(name, other)
        try:
            return to(value)
        except _BAD as error:
            raise ValueError(f"{name!r} is not understood: {value!r:.60}") from error

    def require_all(self) -> None:
        """Raises ValueError with the name of a key that was not read, unless it is off."""
        for name, value in self._table.items():
            if name not in self._read and value is not False:
                raise ValueError(f"{name!r} is not understood")
