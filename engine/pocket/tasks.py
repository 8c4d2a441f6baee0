"""The tasks of the street world, in the very sentences and words that the pocket language models are trained on."""

from __future__ import annotations

from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..tasks.task import Task

_CLASSIFICATION = "classify the vehicle in the image"
_SEGMENTATION = "segment the street into sky, building, road, sidewalk, vegetation, vehicle and pedestrian"
_WORDS = "car bus truck person people nobody trees buildings road street sidewalk"


def street_task(name: str) -> Task:
    """The street world's task "classification", "segmentation" or "detection", which is put as segmentation: the
    language models were trained on no third sentence. Raises CounterfactoryError for another name.
    """
    words = tuple(_WORDS.split())
    tasks = {
        "classification": Task("classification", _CLASSIFICATION, (), True),
        "segmentation": Task("segmentation", _SEGMENTATION, words, True),
        "detection": Task("detection", _SEGMENTATION, words, True),
    }
    if name not in tasks:
        advice = f"{nearest(name, tasks)}; or bring your own in a task file"
        raise CounterfactoryError(f"the pocket models know no task {name!r}; {advice}")
    return tasks[name]
