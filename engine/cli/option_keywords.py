"""The command line's options as the keywords of a verb, by the same names."""

from __future__ import annotations

from argparse import Namespace
from typing import Any


def keywords(args: Namespace, options: Any) -> dict[str, Any]:
    """What a command line says of each of a verb's options (a class of `api.options`)."""
    names: frozenset[str] = options.__optional_keys__
    return {name: getattr(args, name) for name in names}
