"""Labels as text: what is no label at all, one Unicode form, whole numbers, and labels that look like one another.

A label that a person writes in two ways, or a program writes where there is none, is no class of its own. What is only
alike ("Bus" and "bus") stays apart: it is said, and never joined.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from numbers import Integral, Real

# What programs write where a cell is empty. Not "none" and not "NA": both are classes of published sets.
_NONE = re.compile(r"(?i:|-?nan|null|<na>|#?n/a)|None")
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")


def label_text(value: object) -> str | None:
    """A label as text in Unicode's composed form (NFC); None for what stands for no label: an empty text, nan, None,
    null, <NA>. A whole float is its number: 3.0 is "3".
    """
    if value is None or (isinstance(value, Real) and value != value):
        return None
    if isinstance(value, Real) and not isinstance(value, Integral) and float(value).is_integer():
        value = int(float(value))
    text = unicodedata.normalize("NFC", str(value))
    return None if _NONE.fullmatch(text.strip()) else text


def whole_number(text: str) -> str:
    """ "3" of "3.0", as a column of floats is written; another text as it is."""
    return _WHOLE.sub(r"\1", text) if _WHOLE.fullmatch(text) else text


def whole_numbers(labels: Collection[str | None]) -> list[str | None]:
    """The labels of one column, "3" for "3.0" where all are whole numbers."""
    if all(label is None or re.fullmatch(r"-?[0-9]+", whole_number(label)) for label in set(labels)):
        return [None if label is None else whole_number(label) for label in labels]
    return list(labels)


def fold_label(label: str) -> str:
    """What labels that look alike share: all but case, spaces, underscores, hyphens, leading zeros, letters' forms."""
    text = unicodedata.normalize("NFKC", label).casefold().strip()
    return re.sub(r"(?<![0-9.])0+(?=[0-9])", "", re.sub(r"[\s_]+|(?<=\w)-+(?=\w)", "", whole_number(text)))


def alike(texts: Iterable[str]) -> Iterator[list[str]]:
    """Those of different texts that look like one another, in groups."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(fold_label(text), []).append(text)
    return (group for group in groups.values() if len(group) > 1)
