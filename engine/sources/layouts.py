"""Which layout a data set has, by what lies in its folder; the layouts themselves are read by a module each.

A layout is recognised by names that its publisher gave. Where two would do, or none, the user names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.tables import SUFFIXES as TABLES
from . import coco, hub, imagenet, pairs, shards, voc, yolo
from .boxes import BoxForm
from .companions import companion_notes
from .depth import DepthValues
from .labelling_tools import TOOLS, is_tool, list_tool
from .listing import Listing, list_folder, list_remote, list_table
from .sampling import Selection
from .truths import lacks

ACCEPTED = (
    "accepted are a folder of images (class folders give labels), a folder with images/ and masks/, a .csv or .jsonl "
    "file with the columns image, label, mask, and the layouts of docs/data.md"
)


def _holds(*groups: Sequence[str]) -> Callable[[Path], bool]:
    """A test whether a folder holds all that one of the groups names."""
    return lambda root: any(all((root / name).exists() for name in names) for names in groups)


def _is_tool_s_file(layout: str, root: Path) -> bool:
    return root.is_file() and is_tool(layout, root)


# What recognises a folder or a file, and what lists it; the order is that of recognition.
_LAYOUTS: Mapping[str, tuple[Callable[[Path], bool], Callable[..., Listing]]] = {
    **{name: (partial(_is_tool_s_file, name), partial(list_tool, name)) for name in TOOLS},
    "datasets": (_holds(("dataset_dict.json",), ("dataset_info.json", "state.json")), hub.list_saved),
    "coco": (coco.is_coco, coco.list_coco),
    "yolo": (yolo.is_yolo, yolo.list_yolo),
    "voc": (voc.is_voc, voc.list_voc),
    "cityscapes": (_holds(("leftImg8bit", "gtFine")), pairs.list_cityscapes),
    "shift": (pairs.is_shift, pairs.list_shift),
    "camvid": (_holds(*(folders for *folders, _, _ in pairs.CAMVID)), pairs.list_camvid),
    "imagenet-val": (imagenet.is_flat, imagenet.list_flat),
    "webdataset": (shards.is_sharded, shards.list_shards),
}
_SPLIT = {"voc": (voc.is_voc, voc.list_voc), "yolo": (yolo.is_yolo, yolo.list_yolo)}
LAYOUTS = ("folders", *_LAYOUTS)
# Those whose boxes are four numbers, which may be others than the layout's.
_BOXED = ("datasets", "coco", "yolo", "voc")
# The tables in Hugging Face's image folders.
_METADATA = ("metadata.csv", "metadata.jsonl")


@dataclass(frozen=True)
class SetOptions:
    """A user's options for a data set: `labels` is a file about a folder's images, which then lists the set's images;
    `masks` a folder of masks with the images' stems; `layout` one of `LAYOUTS`, None to recognise it; `pairs` a pattern
    such as "{stem}_img.jpg={stem}_seg.png"; `class_map` a file or a published map's name; `split` a list of Pascal
    VOC's ImageSets/, or a split of YOLO's; `depth` a folder of depth maps with the images' stems, and `depth_values`
    the meaning of their numbers; `boxes` what the four numbers of a box are, None where they are the layout's; `task`
    the built-in task that the set is for, None for another; `group_by` what sources are grouped by (`SourceGroups`).
    """

    labels: Path | None = None
    masks: Path | None = None
    layout: str | None = None
    pairs: str | None = None
    class_map: str | None = None
    split: str | None = None
    selection: Selection = field(default_factory=Selection)
    depth: Path | None = None
    depth_values: DepthValues = "distance"
    boxes: BoxForm | None = None
    task: str | None = None
    group_by: str | None = None

    def refuse(self, what: str, *names: str) -> None:
        """Raises CounterfactoryError where one of the options `names` is given although `what` decides it."""
        for name in names:
            if (value := getattr(self, name)) is not None:
                raise CounterfactoryError(f"{what} says where labels and masks lie; leave --{name} {value} out")


def list_set(root: str, options: SetOptions) -> Listing:
    """What the data set at `root` lists. Raises CounterfactoryError for another layout, and options that contradict."""
    if root.startswith(hub.PREFIX):
        options.refuse("a data set of the hub", "labels", "masks", "layout", "pairs")
        if options.split is not None:
            named = f"{root.rstrip(':')}:{options.split}"
            raise CounterfactoryError(f"name the split behind the data set: {named}, without --split")
        return hub.list_hub(root, options.boxes)
    if "://" in root:
        options.refuse("a folder of an object store", "labels", "masks", "layout", "pairs", "split", "depth", "boxes")
        return list_remote(root)
    path = Path(root)
    try:
        if not path.exists():
            raise CounterfactoryError(f"there is no {path}; {ACCEPTED}")
        listing = _list_path(path, options)
        if options.task == "detection" and listing.layout == "folders":
            listing = _with_boxes(path, options, listing)
    except OSError as error:
        raise CounterfactoryError(f"cannot read {error.filename or path}: {error.strerror}") from error
    if options.boxes is not None and (listing.boxes is None or listing.layout in TOOLS):
        none = f"the layout {listing.layout} has no such: leave it out"
        raise CounterfactoryError(f"--boxes is about boxes of {', '.join(_BOXED)}; {none}")
    return listing


def _recognised(root: Path) -> str | None:
    return next((name for name, (recognises, _) in _LAYOUTS.items() if recognises(root)), None)


def _with_boxes(root: Path, options: SetOptions, listing: Listing) -> Listing:
    """A folder's pictures without boxes by the files of labels beside them, if there are any that are read."""
    if {options.layout, options.labels, options.masks} != {None} or not all(
        lacks("detection", entry) for entry in listing.entries
    ):
        return listing
    layout = "voc" if voc.has_files(root) else next((name for name in TOOLS if is_tool(name, root)), None)
    if layout is not None:
        listing = _list_path(root, replace(options, layout=layout))
        listing.notes.insert(0, f"boxes are those of {layout} files that lie there (--layout {layout})")
        return listing
    listing.notes += companion_notes(root)
    return listing


def _list_path(root: Path, options: SetOptions) -> Listing:
    labels, masks, layout = options.labels, options.masks, options.layout
    if options.split is not None:
        options.refuse("--split", "labels", "masks", "pairs")
        lists = next((_SPLIT[name][1] for name in _SPLIT if layout in (None, name) and _SPLIT[name][0](root)), None)
        if lists is None:
            of = layout or _recognised(root) or "folders"
            raise CounterfactoryError(
                f"--split names a list of Pascal VOC's ImageSets/ or a split of YOLO's, and {root} is read as {of}; "
                "name the folder of a split as SOURCES, or for the hub hf:ID:SPLIT"
            )
        return lists(root, options.split, options.boxes)
    if options.pairs is not None:
        options.refuse("--pairs", "labels", "masks", "layout")
        if not root.is_dir():
            raise CounterfactoryError(f"--pairs is about a folder, and {root} is none")
        return pairs.list_pairs(root, options.pairs)
    if labels is not None and labels.suffix.lower() not in TABLES:
        if labels.suffix.lower() != ".txt":
            raise CounterfactoryError(f"labels come in a .csv, .tsv, .jsonl or .txt file, not in {labels}")
        if masks is not None:
            advice = "give --masks with a .csv or .jsonl file, or alone"
            raise CounterfactoryError(f"{labels} is a list of labels; {advice}")
        return imagenet.list_flat(root, labels)
    if layout not in (None, "folders"):
        options.refuse(f"--layout {layout}", "labels", "masks")
    elif layout is None and labels is None and masks is None:
        layout = _recognised(root)
    if layout is not None and layout in _LAYOUTS:
        lists = _LAYOUTS[layout][1]
        return lists(root, form=options.boxes) if layout in _BOXED else lists(root)
    if root.is_dir():
        metadata = next((root / name for name in _METADATA if (root / name).is_file()), None)
        return list_folder(root, masks, labels or metadata, options.depth, options.boxes, every=layout is not None)
    if root.suffix.lower() not in TABLES:
        raise CounterfactoryError(f"{root} is not a set of images; {ACCEPTED}")
    if labels is not None:
        raise CounterfactoryError(f"{root} has a label column of its own; leave {labels} out")
    return list_table(root, masks, options.boxes)
