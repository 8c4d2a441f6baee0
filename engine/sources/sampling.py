"""Which of a set's images are used: those of some classes, some of each class, or some of all, drawn by a seed.

An image's place in the draw is the hash of the seed and its name alone: the same images are drawn whatever order they
were found in, a larger draw holds the smaller one, and an image that is added elsewhere moves no other's place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..files.reading import read_text
from .listing import Entry

T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """Which images to use: those with a label in `classes`, or, in a set without labels, those that show one of them;
    None is all. Of these `per_class` images per label, or `sample` in all; None is every one. `seed` decides which.
    """

    classes: tuple[str, ...] | None = None
    per_class: int | None = None
    sample: int | None = None
    seed: int = 0


def parse_classes(text: str) -> tuple[str, ...]:
    """The classes in a file, one per line, or in a text such as "cat,dog". Raises CounterfactoryError where none is."""
    path = Path(text)
    names = read_text(path).split("\n") if path.is_file() else text.split(",")
    classes = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not classes:
        raise CounterfactoryError(f"{text!r} names no class; give a file with one per line, or names with commas")
    return classes


def require_known(classes: Iterable[str], class_names: Iterable[str]) -> None:
    """Raises CounterfactoryError for a class that the set does not have."""
    choices = sorted(set(class_names))
    for name in classes:
        if name not in choices:
            advice = nearest(name, choices) if len(choices) <= 40 else f"the set has {len(choices)}"
            raise CounterfactoryError(f"the set has no class {name!r}; {advice}")


def groups(entries: Sequence[Entry], selection: Selection) -> list[tuple[list[Entry], int]]:
    """The images that may be used, in the order of the draw, with how many of each group are wanted. Raises
    CounterfactoryError for a class that no label has, and for `per_class` where there are no labels.
    """
    labelled = any(entry.label is not None for entry in entries)
    if selection.classes is not None and labelled:
        require_known(selection.classes, (entry.label for entry in entries if entry.label is not None))
        wanted = set(selection.classes)
        entries = [entry for entry in entries if entry.label in wanted]
    if selection.per_class is not None and not labelled:
        raise CounterfactoryError("--per-class needs labels, and the set has none; --sample draws from all of it")
    count = selection.sample if selection.per_class is None else selection.per_class
    if count is None:
        return [(list(entries), len(entries))]

    def place(entry: Entry) -> bytes:
        return hashlib.sha256(f"{selection.seed}/{entry.name}".encode("utf-8", "surrogatepass")).digest()

    by_label: dict[str | None, list[Entry]] = {}
    for entry in entries:
        if selection.per_class is None or entry.label is not None:
            by_label.setdefault(None if selection.per_class is None else entry.label, []).append(entry)
    return [(sorted(group, key=place), count) for group in by_label.values()]


def draw(
    of_group: Sequence[tuple[list[Entry], int]], check: Callable[[Sequence[Entry]], Iterable[T | None]]
) -> list[T]:
    """The results of `check` for the images that are drawn. An image with the result None is unusable: the next one of
    its group takes its place, as long as there is one.
    """
    drawn: list[T] = []
    waiting = list(of_group)
    while waiting:
        results = iter(list(check([entry for entries, wanted in waiting for entry in entries[:wanted]])))
        left = []
        for entries, wanted in waiting:
            usable = [result for result in islice(results, len(entries[:wanted])) if result is not None]
            drawn += usable
            if len(usable) < wanted < len(entries):
                left.append((entries[wanted:], wanted - len(usable)))
        waiting = left
    return drawn
