"""CamVid in the three forms that people have: the original, Kaggle's split of it, and the SegNet tutorial's."""

from __future__ import annotations

from pathlib import Path

from ..errors import CounterfactoryError
from .class_map import load_class_map
from .listing import Listing, Problem, entry_of, finish, image_files, printable

_ORIGINAL = ("701_StillsRaw_full", "LabeledApproved_full")
_SPLITS = ("train", "val", "test")
# By the folder of masks: the ending that a mask's stem has and its image's has not, and the class map.
_FORMS = {"annot": ("", "camvid11"), "_labels": ("_L", "camvid")}


def is_camvid(root: Path) -> bool:
    """Whether folders of images and masks are named as in CamVid."""
    return bool(_folders(root))


def list_camvid(root: Path) -> Listing:
    """The images and masks below `root`. An image without a mask is a problem."""
    folders = _folders(root)
    if not folders:
        wanted = f"{' beside '.join(_ORIGINAL)}, train/ beside train_labels/, or train/ beside trainannot/"
        raise CounterfactoryError(f"{root} has no folders of CamVid: {wanted}")
    (class_map,) = {name for _, _, _, name in folders} if len({name for *_, name in folders}) == 1 else (None,)
    if class_map is None:
        raise CounterfactoryError(f"{root} has two forms of CamVid; move one of them out")
    listing = Listing("camvid", [], [], load_class_map(class_map))
    for images, masks, ending, _ in folders:
        files, problems = image_files(root / images)
        listing.problems += problems
        stems = {path.rpartition(".")[0]: path for path in image_files(root / masks)[0]}
        for path in files:
            mask = stems.get(path.rpartition(".")[0] + ending)
            if mask is None:
                reason = f"has no mask with the stem {Path(path).stem}{ending} in {masks}"
                listing.problems.append(Problem(printable(f"{images}/{path}"), reason))
            else:
                listing.entries.append(entry_of(root, f"{images}/{path}", mask=f"{root}/{masks}/{mask}"))
    return finish(listing)


def _folders(root: Path) -> list[tuple[str, str, str, str]]:
    """Folder of images, folder of masks, the ending of the masks' stems, class map."""
    images, masks = _ORIGINAL
    folders = [(images, masks, "_L", "camvid")] if (root / images).is_dir() and (root / masks).is_dir() else []
    for split in _SPLITS:
        for form, (ending, class_map) in _FORMS.items():
            if (root / split).is_dir() and (root / f"{split}{form}").is_dir():
                folders.append((split, f"{split}{form}", ending, class_map))
    return folders
