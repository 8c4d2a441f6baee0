"""The tasks of the street worlds, in the very sentences and words that the pocket language models are trained on."""

from __future__ import annotations

from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..tasks.task import Task
from .wide.scene import CLASSES

_CLASSIFICATION = "classify the vehicle in the image"
_SEGMENTATION = "segment the street into sky, building, road, sidewalk, vegetation, vehicle and pedestrian"
_WORDS = "car bus truck person people nobody trees buildings road street sidewalk"
# The wider world's classes, and what its captions call things of them: none may come or go.
_WIDE_SEGMENTATION = f"segment the street into {', '.join(CLASSES[:-1])} and {CLASSES[-1]}"
_WIDE_WORDS = (
    "car sedan bus coach truck lorry van minivan person people man woman child kid nobody trees buildings houses road "
    "street sidewalk bicycle bike dog bench stoplight"
)
_WIDE_NAMES = ("traffic light", "traffic sign", "road sign")


def street_task(name: str, world: str = "streets") -> Task:
    """The street world's task "classification", "segmentation" or "detection"; the wider one's, if `world` is "wide".

    The language models were trained on no third sentence: detection is put as segmentation, whose words stay for boxes
    as well. Raises CounterfactoryError for another name.
    """
    if world == "wide":
        sentence, words = _WIDE_SEGMENTATION, (*_WIDE_WORDS.split(), *_WIDE_NAMES)
    else:
        sentence, words = _SEGMENTATION, tuple(_WORDS.split())
    tasks = {
        "classification": Task("classification", _CLASSIFICATION, (), True),
        "segmentation": Task("segmentation", sentence, words, True),
        "detection": Task("detection", sentence, words, True),
    }
    if name not in tasks:
        raise CounterfactoryError(
            f"the pocket models know no task {name!r}; {nearest(name, tasks)}; or bring your own in a task file"
        )
    return tasks[name]
