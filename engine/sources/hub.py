"""Hugging Face's `datasets`: a data set of the hub, or a folder that `save_to_disk` wrote. An optional library.

The first column of pictures is the image, a second one the mask; ClassLabels are labels by their names; `objects` with
`bbox` (x, y, width, height) and `category` are boxes. Pictures are decoded when they are used, not by `datasets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..runtime.installing import DATASETS, pip_install
from .blobs import Cell
from .boxes import Box
from .listing import Entry, Listing, finish

PREFIX = "hf:"
_LABELS = ("label", "labels", "class", "fine_label")
_NUMBERED = 8


def is_saved(root: Path) -> bool:
    """Whether `save_to_disk` wrote the folder."""
    files = ("dataset_info.json", "state.json")
    return (root / "dataset_dict.json").is_file() or all((root / name).is_file() for name in files)


def list_saved(root: Path) -> Listing:
    """The rows of a folder that `save_to_disk` wrote."""
    library = _library()
    try:
        data_set = library.load_from_disk(str(root))
    except Exception as error:  # the library raises nearly anything
        raise CounterfactoryError(f"{root} cannot be opened by datasets: {_first_line(error)}") from error
    return _listing(library, data_set, str(root), "name the folder of one of them as SOURCES")


def list_hub(text: str) -> Listing:
    """The rows of "hf:ID" or "hf:ID:SPLIT"."""
    name, _, split = text.removeprefix(PREFIX).partition(":")
    library = _library()
    try:
        data_set = library.load_dataset(name, split=split or None)
    except ConnectionError as error:
        raise CounterfactoryError(
            f"{text} cannot be opened by datasets: {_first_line(error)}; without a network, name a folder that "
            "save_to_disk wrote elsewhere"
        ) from error
    except Exception as error:  # a network's, the hub's and the library's own
        raise CounterfactoryError(f"{text} cannot be opened by datasets: {_first_line(error)}") from error
    return _listing(library, data_set, text, f"name one of them, such as {PREFIX}{name}:train")


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise CounterfactoryError(f"this needs the library datasets: {pip_install(DATASETS)}") from error
    return datasets


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _listing(library: Any, data_set: Any, where: str, advice: str) -> Listing:
    if isinstance(data_set, library.DatasetDict):
        if len(data_set) != 1:
            raise CounterfactoryError(f"{where} has the splits {', '.join(data_set)}: {advice}")
        (data_set,) = data_set.values()
    features: Mapping[str, Any] = data_set.features
    pictures = [name for name, feature in features.items() if isinstance(feature, library.Image)]
    if not pictures:
        raise CounterfactoryError(f"{where} has no column of pictures, but {', '.join(features)}")
    columns = {name: _leave_encoded(library, data_set, name) for name in pictures[:2]}
    labels = next((name for name in _LABELS if name in features and name not in pictures), None)
    of_row = [None] * len(data_set) if labels is None else _texts(library, data_set[labels], features[labels])
    things = _things(library, data_set, features) if "objects" in features else [()] * len(data_set)
    listing = Listing("datasets", class_names=tuple(sorted({box.label for of_it in things for box in of_it})))
    image, *mask = pictures[:2]
    for row, (label, boxes) in enumerate(zip(of_row, things, strict=True)):
        name = f"{row:0{_NUMBERED}d}"
        cells = [Cell(where, columns[column], row, column) for column in (image, *mask)]
        listing.entries.append(Entry(name, f"row {row}", cells[0], label, cells[1] if mask else None, boxes))
    used = {*pictures[:2], labels, "objects" if "objects" in features else None}
    if unused := [name for name in features if name not in used]:
        listing.notes.append(f"columns that are not used: {', '.join(map(repr, unused))}")
    return finish(listing)


def _leave_encoded(library: Any, data_set: Any, column: str) -> Any:
    return data_set.select_columns([column]).cast_column(column, library.Image(decode=False))


def _texts(library: Any, values: Any, feature: Any) -> list[str | None]:
    """Labels as text; a ClassLabel's -1 is none."""
    if isinstance(feature, library.ClassLabel):
        return [None if value is None or value < 0 else str(feature.names[value]) for value in values]
    return [None if value is None else str(value) for value in values]


def _things(library: Any, data_set: Any, features: Mapping[str, Any]) -> list[tuple[Box, ...]]:
    """The boxes of each row."""
    feature = features["objects"]
    inner = getattr(feature, "feature", feature)
    category = inner.get("category") if isinstance(inner, dict) else None
    names = getattr(getattr(category, "feature", category), "names", None)
    return [tuple(_boxes(value, names)) for value in data_set["objects"]]


def _boxes(value: Any, names: list[str] | None) -> list[Box]:
    # A Sequence of a struct comes as a dict of lists, a List of one as a list of dicts.
    kinds = value["category"] if isinstance(value, dict) else [row["category"] for row in value]
    sides = value["bbox"] if isinstance(value, dict) else [row["bbox"] for row in value]
    boxes = []
    for kind, (x, y, width, height) in zip(kinds, sides, strict=True):
        label = names[kind] if names is not None and isinstance(kind, int) else str(kind)
        boxes.append(Box(float(x), float(y), float(x + width), float(y + height), label))
    return boxes
