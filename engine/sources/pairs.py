"""Images and masks that belong together by their names: by a pattern of the user's, in Cityscapes, SHIFT and CamVid."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CounterfactoryError
from .blobs import printable
from .class_map import load_class_map
from .listing import Listing, finish, image_files

_STEM = "{stem}"
_EXAMPLE = "write it as IMAGE=MASK, each with {stem} once: '{stem}_img.jpg={stem}_seg.png'"
CITYSCAPES = "leftImg8bit/{stem}_leftImg8bit.png=gtFine/{stem}_gtFine_labelIds.png"
_SHIFT_IMAGE = re.compile(r"(?P<stem>.+)_img_(?P<view>front|center|left_45|left_90|right_45|right_90|left_stereo)\.jpg")
# SHIFT has up to eight kinds of data in a folder, and many pictures of each; a million class folders are not walked.
_LOOKED_AT, _ENTERED = 20, 8
# CamVid's folders of images and of masks, the ending that a mask's stem has and its image's has not, and the class map:
# the original, Kaggle's split of it, and the SegNet tutorial's.
CAMVID = (
    ("701_StillsRaw_full", "LabeledApproved_full", "_L", "camvid"),
    *((split, f"{split}_labels", "_L", "camvid") for split in ("train", "val", "test")),
    *((split, f"{split}annot", "", "camvid11") for split in ("train", "val", "test")),
)


def list_pairs(root: Path, pattern: str) -> Listing:
    """The images and masks below `root` whose names differ as `pattern` says; {stem} may hold folders. What matches
    neither side is counted in a note. Raises CounterfactoryError for a pattern that is none or that no image matches.
    """
    image_side, equals, mask_side = pattern.partition("=")
    if not equals or image_side.count(_STEM) != 1 or mask_side.count(_STEM) != 1 or image_side == mask_side:
        raise CounterfactoryError(f"{pattern!r} is no pattern of pairs; {_EXAMPLE}")
    files, problems = image_files(root)
    images, masks = _stems(files, image_side), _stems(files, mask_side)
    # Where an image's side matches masks too, such as "{stem}.png" beside "{stem}_mask.png".
    paired = {masks[stem] for stem in images if stem in masks}
    images = {stem: path for stem, path in images.items() if path not in paired}
    if not images:
        first = f"; the first file there is {printable(files[0])}" if files else ""
        raise CounterfactoryError(f"no image in {root} matches {image_side!r} of --pairs{first}; {_EXAMPLE}")
    if not masks:
        raise CounterfactoryError(f"no mask in {root} matches {mask_side!r} of --pairs; {_EXAMPLE}")
    listing = Listing("pairs", problems)
    for stem, path in images.items():
        listing.add(root, path, masks.get(stem), f"has no mask {printable(mask_side.replace(_STEM, stem))}")
    used = {*images.values(), *masks.values()}
    listing.note_first([path for stem, path in masks.items() if stem not in images], "masks without an image")
    listing.note_first([path for path in files if path not in used], "files that --pairs does not match")
    return finish(listing)


def _stems(files: Sequence[str], side: str) -> dict[str, str]:
    """The files that one side of a pattern matches, by what they have for {stem}."""
    before, _, after = side.partition(_STEM)
    names = (path for path in files if path.startswith(before) and path.endswith(after))
    return {path[len(before) : len(path) - len(after)]: path for path in names if len(path) > len(before + after)}


def list_cityscapes(root: Path) -> Listing:
    """leftImg8bit/SPLIT/CITY/*_leftImg8bit.png with gtFine/SPLIT/CITY/*_gtFine_labelIds.png."""
    listing = list_pairs(root, CITYSCAPES)
    # Beside each mask lie colours, instances and polygons of the same annotation.
    listing.notes = [note for note in listing.notes if "does not match" not in note]
    listing.layout, listing.class_map = "cityscapes", load_class_map("cityscapes")
    return listing


def is_shift(root: Path) -> bool:
    """Whether a picture is named as SHIFT's are; only a few names and folders of each folder are looked at."""
    for _, folders, names in os.walk(root):
        if any(_SHIFT_IMAGE.fullmatch(name) for name in sorted(names)[:_LOOKED_AT]):
            return True
        folders[:] = sorted(folders)[:_ENTERED]
    return False


def list_shift(root: Path) -> Listing:
    """*_img_VIEW.jpg with *_semseg_VIEW.png, in the same folder or in folders of the same sequence elsewhere."""
    files, problems = image_files(root)
    masks: dict[str, list[str]] = {}
    for path in files:
        name = path.rpartition("/")[2]
        if "_semseg_" in name and name.endswith(".png"):
            masks.setdefault(name, []).append(path)
    listing = Listing("shift", problems, load_class_map("shift"))
    for path in files:
        if match := _SHIFT_IMAGE.fullmatch(path.rpartition("/")[2]):
            wanted = f"{match['stem']}_semseg_{match['view']}.png"
            listing.add(root, path, *_nearest_mask(path, wanted, masks.get(wanted, ())))
    return finish(listing)


def _nearest_mask(path: str, wanted: str, candidates: Sequence[str]) -> tuple[str | None, str]:
    """The mask for an image, or why there is none."""
    folder = path.rpartition("/")[0]
    here = f"{folder}/{wanted}" if folder else wanted
    if here in candidates:
        return here, ""
    sequence, parts = folder.rpartition("/")[2], folder.split("/")
    same = [mask for mask in candidates if mask.split("/")[-2:-1] == [sequence]]
    shared = [sum(part in mask.split("/") for part in parts) for mask in same]
    best = [mask for mask, count in zip(same, shared, strict=True) if count == max(shared)]
    if not best:
        return None, f"has no mask {printable(wanted)} in its folder or in a folder {sequence!r}"
    several = f"has {len(best)} masks {printable(wanted)}: {', '.join(map(printable, sorted(best)[:2]))}; keep one"
    return best[0] if len(best) == 1 else None, several


def list_camvid(root: Path) -> Listing:
    """The images and masks below `root`. An image without a mask is a problem."""
    folders = [row for row in CAMVID if all((root / folder).is_dir() for folder in row[:2])]
    if not folders:
        forms = "701_StillsRaw_full beside LabeledApproved_full, train/ beside train_labels/, or train/ beside"
        raise CounterfactoryError(f"{root} has no folders of CamVid: {forms} trainannot/")
    if len({class_map for *_, class_map in folders}) > 1:
        raise CounterfactoryError(f"{root} has two forms of CamVid; move one of them out")
    listing = Listing("camvid", class_map=load_class_map(folders[0][3]))
    for images, masks, ending, _ in folders:
        files, problems = image_files(root / images)
        listing.problems += problems
        of_stem = {path.rpartition(".")[0]: f"{masks}/{path}" for path in image_files(root / masks)[0]}
        for path in files:
            reason = f"has no mask with the stem {Path(path).stem}{ending} in {masks}"
            listing.add(root, f"{images}/{path}", of_stem.get(path.rpartition(".")[0] + ending), reason)
    return finish(listing)
