"""Files beside photographs that are none: masks ("a_mask.png" beside "a.png", masks/a.png) and thumbnails.

A name alone loses no photograph: its partner has to be there, and some of each kind are opened. A mask has few colours,
fewer than its partner; a thumbnail is much smaller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..files.disk_list import DiskList
from .blobs import printable, read_blob
from .pixels import UnreadableError, commonest_share, fit, read_picture

_MASK = "mask|masks|seg|segm|segmentation|semseg|semantic|label|labels|labelids|gt|groundtruth|annotation|matte|trimap"
_THUMBNAIL = r"thumb|thumbs|thumbnail|thumbnails|tn|small|preview|previews|\d{2,4}x\d{2,4}"
_IMAGES = re.compile("images?|imgs?|photos?|pictures?|jpe?gs?|frames?|rgb|inputs?|originals?|full", re.IGNORECASE)
# Formats that masks are drawn in, beside photographs in others.
_DRAWN = (".png", ".bmp", ".gif", ".tif", ".tiff")
_OPENED = 8
# So much of a mask is in so few colours.
_MOST, _COLOURS = 0.8, 8
# Both of a thumbnail's sides are smaller than this, and its picture is the same as far as 16 x 16 pixels show.
_SMALLER, _SIDE, _ALIKE = 0.6, 16, 0.7

_Picture = NDArray[np.uint8]


def leave_aside(root: Path, files: DiskList[str]) -> tuple[DiskList[str], list[str]]:
    """The photographs among the image files below `root`, paths with "/", and a sentence on each kind of the others."""
    notes: list[str] = []
    left = files
    for words, is_one, what in ((_MASK, _is_mask, "masks"), (_THUMBNAIL, _is_thumbnail, "thumbnails")):
        partners = dict(_partners(left, words))
        # Files of one kind of name, such as *_mask.png, are one kind of thing.
        kinds: dict[str, list[str]] = {}
        for path, (_, kind) in partners.items():
            kinds.setdefault(kind, []).append(path)
        others = set[str]()
        for of_kind in kinds.values():
            looked_at = of_kind[:: -(-len(of_kind) // _OPENED)]
            seen = [_opened(root, path, partners[path][0], is_one) for path in looked_at]
            others.update(of_kind if 2 * sum(seen) > len(seen) else ())
        if others:
            first = min(others)
            left = DiskList(path for path in left if path not in others)
            advice = _advice(root, first, partners[first][0]) if what == "masks" else ""
            notes.append(
                f"{what} of other pictures are left out: {len(others)}, the first is {printable(first)} "
                f"beside {printable(partners[first][0])}: {advice}--layout folders takes them as photographs"
            )
    return left, notes


def _partners(files: Sequence[str], words: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each file that is named as one beside another, with the other and what tells their names apart."""
    drawn = sum(path.lower().endswith(_DRAWN) for path in files)
    named = re.compile(rf"(?:\b|_)(?:{words})", re.IGNORECASE)
    if drawn in (0, len(files)) and not any(map(named.search, files)):
        return  # a million names are not held for nothing
    # Photographs come first, so that of "a.jpg" and "a.png" the latter is the other.
    ordered = sorted(files, key=lambda path: (path.lower().endswith(_DRAWN), path))
    by_stem: dict[tuple[str, str], str] = {}
    for path in ordered:
        by_stem.setdefault(_split(path), path)
    siblings: dict[str, set[str]] = {}
    for folder, _ in by_stem:
        if _IMAGES.fullmatch(folder.rpartition("/")[2]):
            siblings.setdefault(folder.rpartition("/")[0], set()).add(folder)
    after = re.compile(rf"(?P<stem>.*?)(?:[ ._-]+\(?|\()(?P<word>{words})(?:[ ._-]?\(?\d{{1,3}}\)?)?\)?", re.IGNORECASE)
    before = re.compile(rf"(?P<word>{words})[ ._-]+(?P<stem>.+)", re.IGNORECASE)
    for path in ordered:
        folder, stem = _split(path)
        parent, _, name = folder.rpartition("/")
        matches = [match for match in (after.fullmatch(stem), before.fullmatch(stem)) if match is not None]
        places = [((folder, match["stem"]), match["word"].lower()) for match in matches]
        if re.fullmatch(words, name, re.IGNORECASE):
            stems = (stem, *(match["stem"] for match in matches))
            folders = (parent, *sorted(siblings.get(parent, ())))
            places += [((place, of), f"{name}/") for of in stems for place in folders]
        if path != by_stem[folder, stem] and path.lower().endswith(_DRAWN):
            places.append(((folder, stem), path.rpartition(".")[2]))
        partner = next(((by_stem[place], kind) for place, kind in places if place in by_stem), None)
        if partner is not None:
            yield path, partner


def _split(path: str) -> tuple[str, str]:
    """A file's folder, and its name without the suffix."""
    folder, _, name = path.rpartition("/")
    return folder, name.rpartition(".")[0]


def _opened(root: Path, path: str, partner: str, is_one: Callable[[_Picture, _Picture], bool]) -> bool:
    try:
        return is_one(read_picture(read_blob(f"{root}/{path}")), read_picture(read_blob(f"{root}/{partner}")))
    except UnreadableError:
        return False


def _is_mask(picture: _Picture, partner: _Picture) -> bool:
    share = commonest_share(picture, _COLOURS)
    return share >= _MOST and share > commonest_share(partner, _COLOURS)


def _is_thumbnail(picture: _Picture, partner: _Picture) -> bool:
    if any(side > _SMALLER * other for side, other in zip(picture.shape[:2], partner.shape[:2], strict=True)):
        return False
    small, large = (fit(one, (_SIDE, _SIDE)).mean(2).ravel() for one in (picture, partner))
    return bool(np.ptp(small) and np.ptp(large) and np.corrcoef(small, large)[0, 1] > _ALIKE)


def _advice(root: Path, mask: str, partner: str) -> str:
    """How to use masks as such, where one option says it of them all."""
    (folder, name), (of_folder, of_name) = (path.rpartition("/")[::2] for path in (mask, partner))
    stem = _split(partner)[1]
    if folder != of_folder:
        return "" if "/" in folder else f"--masks {printable(str(root / folder))} takes them as masks, "
    pattern = f"{{stem}}{of_name[len(stem) :]}={name.replace(stem, '{stem}', 1)}"
    return f"--pairs '{printable(pattern)}' takes them as masks, "
