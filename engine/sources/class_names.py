"""Names for labels that are numbers: class folders 0 to 999, a table's numbers, the outputs of a model.

A file of names is a class map (class_map.py), a text file with a name on each line, numbered from 0, or JSON: a list,
{"0": "tench"}, or {"0": ["n01440764", "tench"]} as torchvision's and Keras's users have it. Where a synset stands
before the name it is the label, since names of ImageNet's classes occur twice ("crane", "maillot").
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import read_text
from .rows import unprintable

_SHAPES = 'a list of names, or {"0": "tench", "1": "goldfish"}'
_SYNSET = re.compile(r"n\d{8}")


def is_synset(label: str) -> bool:
    """Whether a label is written as WordNet's synsets are."""
    return _SYNSET.fullmatch(label) is not None


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises CounterfactoryError where it is not JSON."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CounterfactoryError(f"{path} is not valid JSON: {error}") from error


def plain_names(path: Path) -> dict[int, str] | None:
    """The names by number of a file that is no class map: a .txt file, or a .json file without a table `classes`.

    None for a class map. Raises CounterfactoryError for a file that has no names, or none for a number.
    """
    if path.suffix.lower() == ".txt":
        return _number_names(path, read_text(path).rstrip().splitlines())
    if path.suffix.lower() != ".json":
        return None
    content = read_json(path)
    if isinstance(content, list):
        return _number_names(path, content)
    if not isinstance(content, dict) or "classes" in content:
        return None
    strange = next((key for key in content if not (key.isascii() and key.isdigit() and len(key) <= 5)), None)
    if strange is not None:
        raise CounterfactoryError(f"{path}: {strange[:40]!r} is no number of a class; it needs {_SHAPES}")
    return {int(key): _name(path, int(key), value) for key, value in content.items()}


def _number_names(path: Path, names: Sequence[Any]) -> dict[int, str]:
    if not names:
        raise CounterfactoryError(f"{path} has no names; it needs {_SHAPES}, or a text file with a name on each line")
    return {number: _name(path, number, name) for number, name in enumerate(names)}


def _name(path: Path, number: int, value: object) -> str:
    parts = value if isinstance(value, list) else [value]
    words = [part.strip() for part in parts if isinstance(part, str)]
    if not words or len(words) < len(parts) or not words[0] or unprintable(words[0]):
        raise CounterfactoryError(f"{path}: class {number} needs a name, found {str(value)[:40]!r}")
    first = words[0].split()[0]
    return first if is_synset(first) else words[0]
