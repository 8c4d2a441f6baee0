"""Which layout a data set has, by what lies in its folder; the layouts themselves are read by a module each.

A layout is recognised by names that its publisher gave. Where two would do, or none, the user names one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.tables import SUFFIXES as TABLES
from . import camvid, coco, hub, imagenet, pairs, shards, voc, yolo
from .listing import Listing, list_folder, list_table

ACCEPTED = (
    "accepted are a folder of images (class folders give labels), a folder with images/ and masks/, a .csv or .jsonl "
    "file with the columns image, label, mask, and the layouts of docs/data.md"
)

# Each lists a folder or a file; the order is that of recognition.
_LISTS: Mapping[str, Callable[[Path], Listing]] = {
    "datasets": hub.list_saved,
    "coco": coco.list_coco,
    "yolo": yolo.list_yolo,
    "voc": voc.list_voc,
    "cityscapes": pairs.list_cityscapes,
    "shift": pairs.list_shift,
    "camvid": camvid.list_camvid,
    "imagenet-val": imagenet.list_flat,
    "webdataset": shards.list_shards,
}
_RECOGNISES: Mapping[str, Callable[[Path], bool]] = {
    "datasets": hub.is_saved,
    "coco": coco.is_coco,
    "yolo": yolo.is_yolo,
    "voc": voc.is_voc,
    "cityscapes": pairs.is_cityscapes,
    "shift": pairs.is_shift,
    "camvid": camvid.is_camvid,
    "imagenet-val": imagenet.is_flat,
    "webdataset": shards.is_sharded,
}
LAYOUTS = ("folders", *_LISTS)
# The tables in Hugging Face's image folders.
_METADATA = ("metadata.csv", "metadata.jsonl")


def list_set(
    root: str,
    labels: Path | None,
    masks: Path | None,
    layout: str | None,
    pattern: str | None,
    split: str | None = None,
    depth: Path | None = None,
) -> Listing:
    """What the data set at `root` lists; for the options see `data_set.SetOptions`.

    Raises CounterfactoryError where nothing is there, a layout is not what was found, or options contradict each other.
    """
    if root.startswith(hub.PREFIX):
        _refuse_options("a data set of the hub", labels, masks, layout, pattern)
        if split is not None:
            raise CounterfactoryError(
                f"name the split behind the data set: {root.rstrip(':')}:{split}, without --split"
            )
        return hub.list_hub(root)
    path = Path(root)
    try:
        if not path.exists():
            raise CounterfactoryError(f"there is no {path}; {ACCEPTED}")
        if split is not None:
            return _split(path, split, labels, masks, layout, pattern)
        return _list_path(path, labels, masks, layout, pattern, depth)
    except OSError as error:
        raise CounterfactoryError(f"cannot read {error.filename or path}: {error.strerror}") from error


def _list_path(
    root: Path,
    labels: Path | None,
    masks: Path | None,
    layout: str | None,
    pattern: str | None,
    depth: Path | None,
) -> Listing:
    if pattern is not None:
        _refuse_options("--pairs", labels, masks, layout, None)
        if not root.is_dir():
            raise CounterfactoryError(f"--pairs is about a folder, and {root} is none")
        return pairs.list_pairs(root, pattern)
    if labels is not None and labels.suffix.lower() not in TABLES:
        return _truths(root, labels, masks)
    if layout not in (None, "folders"):
        _refuse_options(f"--layout {layout}", labels, masks, None, None)
        return _LISTS[layout](root)
    if layout is None and labels is None and masks is None:
        match = next((name for name, recognises in _RECOGNISES.items() if recognises(root)), None)
        if match is not None:
            return _LISTS[match](root)
    if root.is_dir():
        if labels is None:
            labels = next((root / name for name in _METADATA if (root / name).is_file()), None)
        return list_folder(root, masks, labels, depth)
    if root.suffix.lower() not in TABLES:
        raise CounterfactoryError(f"{root} is not a set of images; {ACCEPTED}")
    if labels is not None:
        raise CounterfactoryError(f"{root} has a label column of its own; leave {labels} out")
    return list_table(root, masks)


def _split(
    root: Path, split: str, labels: Path | None, masks: Path | None, layout: str | None, pattern: str | None
) -> Listing:
    _refuse_options("--split", labels, masks, None, pattern)
    if layout not in (None, "voc") or not voc.is_voc(root):
        raise CounterfactoryError(
            f"--split names a list of Pascal VOC's ImageSets/, and {root} is no such set; name the folder of a split "
            "as SOURCES, or for the hub hf:ID:SPLIT"
        )
    return voc.list_voc(root, split)


def _truths(root: Path, labels: Path, masks: Path | None) -> Listing:
    """A folder with ImageNet's kind of list: a text file without columns."""
    if labels.suffix.lower() != ".txt":
        raise CounterfactoryError(f"labels come in a .csv, .jsonl or .txt file, not in {labels}")
    if masks is not None:
        raise CounterfactoryError(f"{labels} is a list of labels; give --masks with a .csv or .jsonl file, or alone")
    return imagenet.list_flat(root, labels)


def _refuse_options(
    what: str, labels: Path | None, masks: Path | None, layout: str | None, pattern: str | None
) -> None:
    given = {"--labels": labels, "--masks": masks, "--layout": layout, "--pairs": pattern}
    for option, value in given.items():
        if value is not None:
            raise CounterfactoryError(f"{what} says where labels and masks lie; leave {option} {os.fspath(value)} out")
