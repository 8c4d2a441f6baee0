"""Which of the folders that pictures lie in are their labels: the first ones, those below splits, or those that recur.

Sets of conditions repeat their classes below each: ImageNet-C lies as fog/3/n01440764/a.JPEG, Office-31 as
webcam/mug/a.jpg. Classes repeat as well what was done to each: mug/left/a.jpg. Where names and numbers do not tell one
from the other nothing is a label, and a sentence says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from ..errors import list_some
from .blobs import printable
from .class_map import SYNSET

SPLIT = re.compile(r"(train|training|val|valid|validation|dev|test|testing)(\d{4})?", re.IGNORECASE)
# Words of corruptions, weather, levels, views and recordings, none of which is a class where it recurs.
_CONDITION = re.compile(
    r"(?:.*[^a-z])?(noise|blur|snowy?|frost|foggy|fog|hazy?|haze|mist|rainy?|brightness|contrast|elastic|pixelated?|"
    r"jpeg|spatter|saturate|dark|dusk|dawn|day|night|sunny|cloudy|overcast|clear|clean|original|corrupted|level|"
    r"severity|intensity|strength|cam|camera|front|rear|back|left|right|top|side|view|indoors?|outdoors?|seq|sequence|"
    r"session|run|take|scene|domain|site|part|fold|batch|clip|video)(?:[^a-z].*)?",
    re.IGNORECASE,
)
_LEVEL = re.compile("0?[1-9]|10")
_IN_NAME = re.compile(rf"(?:.*_)?({SYNSET.pattern})(?![0-9])")
# Of pictures so many lie as deep as labels do; of folders so many recur.
_MOST, _RECUR = 0.9, 0.8
_SHOWN = 4

_Folders = Mapping[tuple[str, ...], int]


def label_folders(paths: Collection[str], *, first: bool = False) -> tuple[list[str], Callable[[str], str | None]]:
    """Sentences on which folders are labels, and what gives a path with "/" its label, None for none. Without folders
    it is the synset in a file's name, where all have one. `first` says that it is the first folder that is no split.
    """
    folders = Counter(tuple(path.split("/")[:-1]) for path in paths)
    if set(folders) == {()} and all(map(_IN_NAME.match, paths)):
        return ["labels are the synsets in the files' names"], lambda path: _IN_NAME.sub(r"\1", path)[:9]
    level, notes = _label_level(folders, 0, first)
    return notes, lambda path: path.split("/")[level] if level is not None and path.count("/") > level else None


def _label_level(folders: _Folders, at: int, first: bool = False) -> tuple[int | None, list[str]]:
    """The level of the labels, from level `at` on, None where it cannot be told, and sentences on it."""
    names = {folder[at] if len(folder) > at else "" for folder in folders}
    if names and all(map(SPLIT.fullmatch, names)):
        level, notes = _label_level(folders, at + 1, first)
        return level, [f"{', '.join(sorted(names))}: taken for splits of the set, not for classes", *notes]
    below = {folder: count for folder, count in folders.items() if len(folder) > at + 1}
    if first or all(map(SYNSET.fullmatch, names)) or sum(below.values()) < max(1, _MOST * sum(folders.values())):
        return at, []
    deeper, notes = _label_level(below, at + 1)
    outside, inner = _are_conditions(names), _recurring(below, at)
    if len(names) == 1 and (outside or deeper != at + 1):
        return deeper, notes
    if len(names) == 1 or not inner:
        return at, []
    both, inside = f"{_listed(inner)} recur below each of {_listed(names)}", _are_conditions(inner)
    if deeper == at + 1 and inside and outside:
        return None, [f"{both}, and are taken for conditions, not for classes: --layout folders takes the first ones"]
    if outside or all(map(SYNSET.fullmatch, inner)) or (inside and deeper != at + 1):
        return deeper, [f"{both}, which are taken for conditions, not for classes", *notes]
    if inside:
        return at, [f"{both}, and are not taken for classes"]
    if len(inner) > len(names):
        return deeper, [f"{both}, and are the labels: --layout folders takes {_listed(names)}", *notes]
    which = f"--layout folders takes {_listed(names)} as labels, one of these folders as SOURCES what lies in it"
    return None, [f"{both}, and nothing tells which are classes: {which}"]


def _recurring(folders: _Folders, at: int) -> set[str]:
    """The names of folders that are below most of several folders of a level, two or more; none where others are."""
    below: dict[tuple[str, ...], set[str]] = {}
    for folder in folders:
        below.setdefault(folder[: at + 1], set()).add(folder[at + 1])
    counts = Counter(name for names in below.values() for name in names if not SPLIT.fullmatch(name))
    common = {name for name, count in counts.items() if count > 1 and 2 * count >= len(below)}
    often = sum(counts[name] for name in common) >= _RECUR * counts.total()
    return common if len(common) > 1 and often else set()


def _are_conditions(names: Collection[str]) -> bool:
    return all(_CONDITION.fullmatch(name) or _LEVEL.fullmatch(name) for name in names)


def _listed(names: Collection[str]) -> str:
    return list_some([printable(name) for name in sorted(names)], _SHOWN)
