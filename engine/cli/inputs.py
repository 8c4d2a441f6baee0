"""What a command line asks for, as `generate`, `plan` and `estimate` read it: the data set, the task and the settings.

Files are read and examined; no network is opened.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from ..errors import CounterfactoryError
from ..inputs import Inputs, usable_inputs
from ..meter.meter import Progress
from ..pocket.tasks import street_task
from ..profile.profile import Profile
from ..request import SUBJECTIVE, SuiteRequest
from ..sources.data_set import DataSet, SetOptions, read_set
from ..sources.domain import examiner
from ..sources.sampling import Selection, parse_classes
from ..tasks.interventions import load_interventions
from ..tasks.own_types import load_types
from ..tasks.task import builtin_task
from ..tasks.user_task import UserTask, load_task
from .terminal import Terminal

# Edits of a variant, the least and the most, where neither the command nor the profile says.
_EDITS = (1, 3)


def read_data(args: Namespace, profile: Profile, terminal: Terminal) -> DataSet:
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
        data = read_set(
            str(args.sources),
            options,
            lambda done, total: on_progress(Progress("read", done, total)),
            examiner(profile),
        )
    for problem in data.problems:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    for note in data.notes:
        terminal.warn(note)
    if not data.sources:
        raise CounterfactoryError(f"none of the {len(data.problems)} images in {args.sources} can be used")
    return data


def inputs_of(args: Namespace, profile: Profile, data: DataSet, terminal: Terminal) -> Inputs:
    """The sources of the set that a run can use; warns of what they lack and of those that are left out."""
    judged_by = None if args.task_file is not None else args.task or "classification"
    inputs = usable_inputs(profile, data.sources, allow_out_of_domain=args.allow_out_of_domain, judged_by=judged_by)
    for note in inputs.notes:
        terminal.warn(note)
    for problem in inputs.left_out:
        terminal.warn(f"skipped {problem.name}: {problem.reason}")
    return replace(inputs, record=data.record())


def request_of(args: Namespace, profile: Profile, data: DataSet) -> SuiteRequest:
    """What the command line asks of a suite; its files of types and interventions stand in the place of a task file's.

    Raises CounterfactoryError for files that are refused, and types that the profile's language model does not know.
    """
    user_task = _task(args, profile, data)
    types = user_task.types if args.types is None else load_types(args.types)
    if types and not profile.llm.converses:
        where: Path = args.types or args.task_file
        raise CounterfactoryError(
            f"the types of {where}: the language model of profile {profile.name} knows the types that it was trained on"
            " and no others; take a profile whose model converses, such as a10g"
        )
    interventions = user_task.interventions
    if args.interventions is not None:
        interventions = load_interventions(args.interventions, [type_.name for type_ in types])
    return SuiteRequest(
        task=user_task.task,
        variants=args.variants,
        controls=args.controls,
        edits=args.edits or profile.rewrite.edits or _EDITS,
        seed=args.seed,
        interventions=interventions,
        allow_ungrounded=args.allow_ungrounded,
        allow_out_of_domain=args.allow_out_of_domain,
        avoid=(*SUBJECTIVE, *args.avoid),
        types=types,
        levels=args.levels,
    )


def _task(args: Namespace, profile: Profile, data: DataSet) -> UserTask:
    """The user's task, or a built-in one about the set's own classes; the pocket models know the street world's."""
    if args.task_file is not None:
        return load_task(args.task_file)
    name = args.task or "classification"
    if not profile.llm.converses:
        task = street_task(name)
    elif name == "classification":
        task = builtin_task(name, sorted({source.label for source in data.sources if source.label is not None}))
    else:
        task = builtin_task(name, data.classes)
    return UserTask(task, (), None)
