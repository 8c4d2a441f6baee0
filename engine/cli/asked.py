"""What a command line asks for, as `generate`, `plan` and `estimate` read it: the data set, the task and the settings.

Files are read and examined; no network is opened.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ..config.profile import Profile
from ..config.worlds import examiner
from ..errors import CounterfactoryError
from ..meter.meter import Progress
from ..pocket.tasks import street_task
from ..sources.data_set import DataSet, SetOptions, read_set
from ..sources.sampling import Selection, parse_classes
from ..sources.source import Source
from ..tasks.interventions import load_interventions
from ..tasks.own_types import load_types
from ..tasks.settings import SUBJECTIVE, JourneySettings
from ..tasks.task import builtin_task
from ..tasks.user_task import UserTask, load_task
from .terminal import Terminal

# Edits of a variant, the least and the most, where neither the command nor the profile says.
_EDITS = (1, 3)
# What a built-in task's model is judged by: what it is called, and whether a source lacks it.
_TRUTHS: Mapping[str, tuple[str, Callable[[Source], bool]]] = MappingProxyType(
    {
        "classification": ("labels (class folders, or --labels)", lambda source: source.label is None),
        "segmentation": (
            "masks (a folder masks/ beside images/, or --masks)",
            lambda source: source.mask_path is None,
        ),
        "detection": ("boxes", lambda source: not source.boxes),
    }
)


def usable_sources(args: Namespace, profile: Profile, terminal: Terminal) -> DataSet:
    """The sources that the command line names, each examined, of which there is at least one; warns of each that cannot
    be used.
    """
    classes = None if args.classes is None else parse_classes(args.classes)
    selection = Selection(classes, args.per_class, args.sample, args.seed)
    options = SetOptions(
        labels=args.labels,
        masks=args.masks,
        layout=args.layout,
        pairs=args.pairs,
        class_map=args.class_map,
        split=args.split,
        selection=selection,
        depth=args.depth,
        depth_values=args.depth_values,
    )
    with terminal.progress() as on_progress:
        found = read_set(
            str(args.sources),
            options,
            lambda done, total: on_progress(Progress("read", done, total)),
            examiner(profile),
        )
    for problem in found.problems:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    for note in found.notes:
        terminal.warn(note)
    if not found.sources:
        raise CounterfactoryError(f"none of the {len(found.problems)} images in {args.sources} can be used")
    return found


def require_truths(args: Namespace, sources: Sequence[Source], terminal: Terminal) -> None:
    """Refuse a set without what a built-in task's model is judged by, and warn of sources that lack it."""
    if args.task_file is not None:
        return
    task = args.task or "classification"
    missing, lacks = _TRUTHS[task]
    without = [source for source in sources if lacks(source)]
    if not without:
        return
    if len(without) == len(sources):
        raise CounterfactoryError(
            f"{task} needs {missing}, and no source has one: no model could be judged by the suite; give them, or a "
            "task of your own (--task-file)"
        )
    terminal.warn(
        f"{len(without)} of {len(sources)} sources lack {missing}, the first is {without[0].name}: no model can be "
        "judged by their variants"
    )


def settings_of(args: Namespace, profile: Profile, found: DataSet) -> JourneySettings:
    """What the command line asks of a suite; its files of types and interventions stand in the place of a task file's.

    Raises CounterfactoryError for files that are refused, and types that the profile's language model does not know.
    """
    asked = _task(args, profile, found)
    types = asked.types if args.types is None else load_types(args.types)
    if types and not profile.llm.converses:
        where: Path = args.types or args.task_file
        raise CounterfactoryError(
            f"the types of {where}: the language model of profile {profile.name} knows the types that it was trained on"
            " and no others; take a profile whose model converses, such as a10g"
        )
    interventions = asked.interventions
    if args.interventions is not None:
        interventions = load_interventions(args.interventions, [type_.name for type_ in types])
    return JourneySettings(
        task=asked.task,
        variants=args.variants,
        controls=args.controls,
        edits=args.edits or profile.rewrite.edits or _EDITS,
        seed=args.seed,
        interventions=interventions,
        allow_ungrounded=args.allow_ungrounded,
        anything=args.anything,
        avoid=(*SUBJECTIVE, *args.avoid),
        types=types,
        levels=args.levels,
    )


def _task(args: Namespace, profile: Profile, found: DataSet) -> UserTask:
    """The user's task, or a built-in one about the set's own classes; the pocket models know the street world's."""
    if args.task_file is not None:
        return load_task(args.task_file)
    name = args.task or "classification"
    if not profile.llm.converses:
        task = street_task(name)
    elif name == "classification":
        task = builtin_task(name, sorted({source.label for source in found.sources if source.label is not None}))
    else:
        task = builtin_task(name, found.classes)
    return UserTask(task, (), None)
