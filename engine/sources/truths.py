"""What models of the built-in tasks are judged by: a label, a mask or boxes of each picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..errors import CounterfactoryError
from .listing import Entry
from .shapes import things
from .source import Source

NEEDED: Mapping[str, str] = MappingProxyType(
    {
        "classification": "labels (class folders, or --labels)",
        "segmentation": "masks (a folder masks/ beside images/, or --masks)",
        "detection": "boxes",
    }
)


def lacks(task: str, one: Entry | Source) -> bool:
    """Whether a picture has nothing that a model of the task is judged by."""
    if task == "classification":
        return one.label is None
    if task == "detection":
        return not things(one.boxes)
    return (one.mask if isinstance(one, Entry) else one.mask_path) is None


def without_truths(task: str, notes: Iterable[str] = ()) -> CounterfactoryError:
    """The error of a set none of whose pictures has any, with what was found in it."""
    told = "".join(f"{note}; " for note in notes)
    return CounterfactoryError(
        f"{task} needs {NEEDED[task]}, and no source has one: no model could be judged by the suite; {told}give them, "
        "or a task of your own (--task-file)"
    )
