"""ImageNet's validation images in one folder, with the list that says what they show.

Four lists go around: the development kit's ground truth (the kit's own numbers, which its meta.mat explains), Kaggle's
LOC_val_solution.csv (synsets and boxes), and `NAME LABEL` lines with synsets or with numbers. The training images lie
in class folders by synset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import CounterfactoryError
from ..files.reading import read_text
from ..files.tables import Row, read_table
from .blobs import printable
from .listing import Listing, entry_of, finish, image_files
from .shapes import Box

_GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_LISTS = (_GROUND_TRUTH, "LOC_val_solution.csv")
_VAL = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")

_Truth = tuple[str, tuple[Box, ...]]


def is_flat(root: Path) -> bool:
    """Whether validation images lie in the folder itself, and a list of their labels there or beside it."""
    return root.is_dir() and _list_of(root) is not None and any(_VAL.fullmatch(path.name) for path in root.iterdir())


def list_flat(root: Path, labels: Path | None = None) -> Listing:
    """The images below `root` with a list's labels and boxes. Raises CounterfactoryError without one that is known."""
    truth_list = labels or _list_of(root)
    if truth_list is None:
        raise CounterfactoryError(f"{root} has none of {', '.join(_LISTS)}, nor its parent; name a list with --labels")
    files, problems = image_files(root)
    listing = Listing("imagenet-val", problems)
    truths = _read_truths(truth_list, listing)
    used: set[str] = set()
    for path in files:
        name = path.rpartition("/")[2]
        key = next((key for key in (path, name, name.rpartition(".")[0]) if key in truths), None)
        if key is None:
            listing.skip(path, f"{truth_list.name} says nothing about this image")
        else:
            used.add(key)
            listing.entries.append(replace(entry_of(root, path, truths[key][0]), boxes=truths[key][1]))
    listing.note_first([name for name in truths if name not in used], f"images of {truth_list.name} are not in {root}")
    return finish(listing)


def _list_of(root: Path) -> Path | None:
    return next((path for folder in (root, root.parent) for name in _LISTS if (path := folder / name).is_file()), None)


def _read_truths(path: Path, listing: Listing) -> dict[str, _Truth]:
    """Label and boxes by a file's name, with or without its suffix; unusable and contradictory lines are problems."""
    lines = [] if path.suffix.lower() == ".csv" else [line.strip() for line in read_text(path).splitlines()]
    numbered = list(enumerate((line for line in lines if line), start=1))
    if path.suffix.lower() == ".csv":
        table = read_table(path, required=["ImageId", "PredictionString"])
        rows = [(number, _solution(row)) for number, row in table]
    elif path.name == _GROUND_TRUTH or all(line.isdigit() for _, line in numbered[:10]):
        synsets = _kit_synsets(path)
        rows = [(number, _ground_truth(number, line, synsets)) for number, line in numbered]
    else:
        rows = [(number, _labelled_line(line)) for number, line in numbered]
    truths: dict[str, _Truth] = {}
    contradicted: set[str] = set()
    for number, row in rows:
        where = f"{path.name}:{number}"
        if isinstance(row, str):
            listing.skip(where, row)
            continue
        name, truth = row
        if (first := truths.setdefault(name, truth)) != truth:
            listing.skip(name, f"has two labels, {first[0]!r} and {truth[0]!r} ({where}); keep the right one")
            contradicted.add(name)
    return {name: truth for name, truth in truths.items() if name not in contradicted}


def _solution(row: Row | str) -> tuple[str, _Truth] | str:
    """ImageId,PredictionString: synset x0 y0 x1 y1, once for each box, the last pixels included."""
    if isinstance(row, str):
        return row
    words = row.get("PredictionString", "").split()
    if not words or len(words) % 5 or not all(word.isdigit() for i, word in enumerate(words) if i % 5):
        return "PredictionString is not made of synset x0 y0 x1 y1"
    boxes = [
        Box(float(x0), float(y0), float(x1) + 1, float(y1) + 1, synset)
        for synset, x0, y0, x1, y1 in zip(*(words[i::5] for i in range(5)), strict=True)
    ]
    return row["ImageId"], (words[0], tuple(boxes))


def _ground_truth(number: int, text: str, synsets: Mapping[int, str]) -> tuple[str, _Truth] | str:
    """A line for each image, in order: the development kit's number of its synset."""
    synset = synsets.get(int(text)) if text.isdigit() and len(text) < 6 else None
    wrong = f"{text[:40]!r} is no number of the development kit's synsets"
    return wrong if synset is None else (f"ILSVRC2012_val_{number:08d}", (synset, ()))


def _labelled_line(line: str) -> tuple[str, _Truth] | str:
    """NAME LABEL, or NAME,LABEL; the label may have spaces."""
    name, _, label = line.replace("\t", " ").replace(",", " ", 1).partition(" ")
    return (name, (label.strip(), ())) if label.strip() else f"{printable(line[:40])!r} is not a name and a label"


def _kit_synsets(path: Path) -> dict[int, str]:
    """Synsets by the development kit's numbers, from its meta.mat; those of leaves, as torchvision reads them."""
    from scipy.io import loadmat

    places = (path.with_name("meta.mat"), path.parent / "ILSVRC2012_devkit_t12" / "data" / "meta.mat")
    meta = next((place for place in places if place.is_file()), None)
    if meta is None:
        raise CounterfactoryError(
            f"{path} has the development kit's own numbers, which its meta.mat explains: put meta.mat beside it, or "
            "name another list with --labels (lines such as 'ILSVRC2012_val_00000001.JPEG n01751748')"
        )
    try:
        rows = np.atleast_1d(loadmat(meta, squeeze_me=True)["synsets"])
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in rows if int(row["num_children"]) == 0}
    except Exception as error:  # a broken file makes the reader raise nearly anything
        raise CounterfactoryError(f"{meta} is not the development kit's meta.mat ({error})") from error
