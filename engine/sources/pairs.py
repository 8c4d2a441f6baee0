"""Images and masks that belong together by their names: by a pattern of the user's, in Cityscapes, in SHIFT."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ..errors import CounterfactoryError
from .class_map import load_class_map
from .listing import Listing, Problem, entry_of, finish, image_files, printable

_STEM = "{stem}"
_EXAMPLE = "write it as IMAGE=MASK, each with {stem} once: '{stem}_img.jpg={stem}_seg.png'"
CITYSCAPES = "leftImg8bit/{stem}_leftImg8bit.png=gtFine/{stem}_gtFine_labelIds.png"
_SHIFT_IMAGE = re.compile(r"(?P<stem>.+)_img_(?P<view>front|center|left_45|left_90|right_45|right_90|left_stereo)\.jpg")
# SHIFT has up to eight kinds of data in a folder, and many pictures of each; a million class folders are not walked.
_LOOKED_AT, _ENTERED = 20, 8


def list_pairs(root: Path, pattern: str) -> Listing:
    """The images and masks below `root` whose names differ as `pattern` says; {stem} may hold folders.

    What matches neither side is counted in a note, an image without its mask is a problem. Raises CounterfactoryError
    for a pattern that is none or that no image matches.
    """
    image_side, mask_side = _sides(pattern)
    files, problems = image_files(root)
    images = {stem: path for path in files if (stem := _stem_of(path, image_side)) is not None}
    masks = {stem: path for path in files if (stem := _stem_of(path, mask_side)) is not None}
    if not images:
        first = f"; the first file there is {printable(files[0])}" if files else ""
        raise CounterfactoryError(f"no image in {root} matches {image_side!r} of --pairs{first}; {_EXAMPLE}")
    if not masks:
        raise CounterfactoryError(f"no mask in {root} matches {mask_side!r} of --pairs; {_EXAMPLE}")
    listing = Listing("pairs", [], problems)
    for stem, path in images.items():
        if stem in masks:
            listing.entries.append(entry_of(root, path, mask=f"{root}/{masks[stem]}"))
        else:
            wanted = mask_side.replace(_STEM, stem)
            problems.append(Problem(printable(path), f"has no mask {printable(wanted)}"))
    lonely = [path for stem, path in masks.items() if stem not in images]
    _note(listing, lonely, "masks without an image")
    used = {*images.values(), *masks.values()}
    _note(listing, [path for path in files if path not in used], "files that --pairs does not match")
    return finish(listing)


def _note(listing: Listing, paths: list[str], what: str) -> None:
    if paths:
        listing.notes.append(f"{len(paths)} {what}, the first is {printable(paths[0])}")


def _sides(pattern: str) -> tuple[str, str]:
    image, equals, mask = pattern.partition("=")
    if not equals or image.count(_STEM) != 1 or mask.count(_STEM) != 1 or image == mask:
        raise CounterfactoryError(f"{pattern!r} is no pattern of pairs; {_EXAMPLE}")
    return image, mask


def _stem_of(path: str, side: str) -> str | None:
    before, _, after = side.partition(_STEM)
    if path.startswith(before) and path.endswith(after) and len(path) > len(before) + len(after):
        return path[len(before) : len(path) - len(after)]
    return None


def is_cityscapes(root: Path) -> bool:
    """Whether leftImg8bit/ and gtFine/ are there."""
    return (root / "leftImg8bit").is_dir() and (root / "gtFine").is_dir()


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
    listing = Listing("shift", [], problems, load_class_map("shift"))
    for path in files:
        match = _SHIFT_IMAGE.fullmatch(path.rpartition("/")[2])
        if match is None:
            continue
        mask, reason = _nearest_mask(path, f"{match['stem']}_semseg_{match['view']}.png", masks)
        if mask is None:
            problems.append(Problem(printable(path), reason))
        else:
            listing.entries.append(entry_of(root, path, mask=f"{root}/{mask}"))
    return finish(listing)


def _nearest_mask(path: str, wanted: str, masks: Mapping[str, list[str]]) -> tuple[str | None, str]:
    """The mask for an image, or why there is none."""
    folder = path.rpartition("/")[0]
    here = f"{folder}/{wanted}" if folder else wanted
    candidates = masks.get(wanted, [])
    if here in candidates:
        return here, ""
    sequence = folder.rpartition("/")[2]
    parts = folder.split("/")
    same = [mask for mask in candidates if mask.split("/")[-2:-1] == [sequence]]
    shared = [sum(part in mask.split("/") for part in parts) for mask in same]
    best = [mask for mask, count in zip(same, shared, strict=True) if count == max(shared)]
    if len(best) == 1:
        return best[0], ""
    if not best:
        return None, f"has no mask {printable(wanted)} in its folder or in a folder {sequence!r}"
    return None, f"has {len(best)} masks {printable(wanted)}: {', '.join(map(printable, sorted(best)[:2]))}; keep one"
