"""Hugging Face's `datasets`: a data set of the hub, or a folder that `save_to_disk` wrote. An optional library.

The first column of pictures is the image, another the mask if its name says so; ClassLabels are labels by their names;
`objects` are boxes, x, y, width, height. Pictures are decoded when they are used, not by `datasets`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..runtime.installing import DATASETS, pip_install
from .blobs import Cell
from .boxes import BoxCensus, BoxForm
from .labels import label_text, whole_numbers
from .listing import CAPTION, Entry, Listing, finish
from .objects import COLUMN, Objects, read_objects
from .shapes import things

PREFIX = "hf:"
_LABELS = ("label", "labels", "class", "fine_label")
_NUMBERED = 8
_MASK_WORD = re.compile(
    r".*masks?|(label(map|id)?|annot(ation)?|.*seg|segment(ation)?|semantic|panoptic|gt|(ground)?truth|trimap)s?"
)


def list_saved(root: Path, form: BoxForm | None = None) -> Listing:
    """The rows of a folder that `save_to_disk` wrote; `form` is what boxes are where they are no sizes."""
    return _list_rows(str(root), "name the folder of one of them as SOURCES", None, form)


def list_hub(text: str, form: BoxForm | None = None) -> Listing:
    """The rows of "hf:ID" or "hf:ID:SPLIT"; `form` as for `list_saved`."""
    name, _, split = text.removeprefix(PREFIX).partition(":")
    return _list_rows(text, f"name one of them, such as {PREFIX}{name}:train", (name, split or None), form)


def _list_rows(where: str, advice: str, of_hub: tuple[str, str | None] | None, form: BoxForm | None) -> Listing:
    """The rows of a data set: a name and a split of the hub, or else the folder `where`."""
    try:
        import datasets
    except ImportError as error:
        raise CounterfactoryError(f"this needs the library datasets: {pip_install(DATASETS)}") from error
    try:
        name, split = of_hub or (where, None)
        data_set = datasets.load_dataset(name, split=split) if of_hub else datasets.load_from_disk(name)
    except Exception as error:  # a network's, the hub's and the library's own, which raises nearly anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, ConnectionError):
            reason += "; without a network, name a folder that save_to_disk wrote elsewhere"
        raise CounterfactoryError(f"{where} cannot be opened by datasets: {reason}") from error
    if isinstance(data_set, datasets.DatasetDict):
        if len(data_set) != 1:
            raise CounterfactoryError(f"{where} has the splits {', '.join(data_set)}: {advice}")
        (data_set,) = data_set.values()
    features: Mapping[str, Any] = data_set.features
    pictures = [name for name, feature in features.items() if isinstance(feature, datasets.Image)]
    if not pictures:
        raise CounterfactoryError(f"{where} has no column of pictures, but {', '.join(features)}")
    # Of before and after, or of a picture and its depth, neither is a mask.
    images = [name for name in pictures if not _names_mask(name)] or pictures
    masks = [name for name in pictures if name != images[0] and _names_mask(name)]
    used = [images[0], *masks[:1]]
    columns = {name: data_set.select_columns([name]).cast_column(name, datasets.Image(decode=False)) for name in used}
    # A list is of several things, not of the picture.
    single = {name for name, feature in features.items() if not isinstance(feature, list | dict | datasets.Sequence)}
    column = next((name for name in _LABELS if name in single and name not in pictures), None)
    labels = [None] * len(data_set) if column is None else _texts(data_set[column], features[column])
    census, objects = BoxCensus.of(where, "sizes", form), Objects([()] * len(data_set))
    if COLUMN in features:
        objects = read_objects(features[COLUMN], data_set.with_format(None)[COLUMN], census)
    classes = {box.label for of_row in objects.boxes for box in things(of_row)}
    texts = [one if isinstance(one, str) else "" for one in data_set[CAPTION]] if CAPTION in single else []
    captions = [" ".join(one.split()) or None for one in texts] or [None] * len(data_set)
    listing = Listing("datasets", class_names=tuple(sorted(classes)), notes=objects.notes, boxes=census)
    for row, (label, of_row, text) in enumerate(zip(labels, objects.boxes, captions, strict=True)):
        if row in objects.problems:
            listing.skip(f"row {row}", objects.problems[row])
            continue
        cells = [Cell(where, table, row, name) for name, table in columns.items()]
        mask = cells[1] if len(cells) > 1 else None
        listing.entries.append(Entry(f"{row:0{_NUMBERED}d}", f"row {row}", cells[0], label, mask, of_row, caption=text))
    if unused := [
        name for name in features if name not in (*columns, column, COLUMN, *([CAPTION] if any(texts) else []))
    ]:
        listing.notes.append(f"columns that are not used: {', '.join(map(repr, unused))}")
    return finish(listing)


def _names_mask(column: str) -> bool:
    """Whether the name of a column of pictures is that of masks: "mask", "labelImage", "gt_semantic_seg"."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower())
    return any(map(_MASK_WORD.fullmatch, words))


def _texts(values: Any, feature: Any) -> list[str | None]:
    """Labels as text; a ClassLabel's -1 is none, and 3.0 the number 3 where all are whole."""
    names = getattr(feature, "names", None)
    if names is not None:
        return [None if value is None or value < 0 else str(names[value]) for value in values]
    return whole_numbers([label_text(value) for value in values])
