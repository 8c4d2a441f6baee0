"""Which of a set's images are used: those of some classes, some of each class, or some of all, drawn by a seed.

An image's place in the draw is the hash of the seed and its name alone: the same images are drawn whatever order they
were found in, a larger draw holds the smaller one, and an image that is added elsewhere moves no other's place.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TypeVar

from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
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


def groups(entries: Sequence[Entry], selection: Selection) -> list[tuple[Sequence[Entry], int]]:
    """The images that may be used, in the order of the draw, with how many of each group are wanted. Raises
    CounterfactoryError for a class that no label has, and for `per_class` where there are no labels.
    """
    labelled = any(entry.label is not None for entry in entries)
    if selection.classes is not None and labelled:
        require_known(selection.classes, (entry.label for entry in entries if entry.label is not None))
        wanted = set(selection.classes)
        entries = DiskList(entry for entry in entries if entry.label in wanted)
    if selection.per_class is not None and not labelled:
        raise CounterfactoryError("--per-class needs labels, and the set has none; --sample draws from all of it")
    count = selection.sample if selection.per_class is None else selection.per_class
    if count is None:
        return [(entries, len(entries))]

    each = selection.per_class is not None
    sizes = Counter(entry.label if each else "" for entry in entries if entry.label is not None or not each)
    number_of = {label: number for number, label in enumerate(sizes)}

    def place(entry: Entry) -> tuple[int, bytes]:
        name = f"{selection.seed}/{entry.name}".encode("utf-8", "surrogatepass")
        return number_of[entry.label if each else ""], hashlib.sha256(name).digest()

    used = DiskList.ordered((entry for entry in entries if entry.label is not None or not each), place)
    ends = accumulate(sizes.values())
    return [(used[end - size : end], count) for end, size in zip(ends, sizes.values(), strict=True)]


def draw(
    of_group: Sequence[tuple[Sequence[Entry], int]], check: Callable[[Sequence[Entry]], Iterable[T | None]]
) -> Iterator[T]:
    """The results of `check` for images that are drawn; for one with None the next of its group takes its place."""
    waiting = list(of_group)
    while waiting:
        asked = [entries[:wanted] for entries, wanted in waiting]
        results = iter(check(asked[0] if len(asked) == 1 else DiskList(chain.from_iterable(asked))))
        left = []
        for entries, wanted in waiting:
            usable = 0
            for result in islice(results, len(entries[:wanted])):
                if result is not None:
                    usable += 1
                    yield result
            if usable < wanted < len(entries):
                left.append((entries[wanted:], wanted - usable))
        waiting = left
