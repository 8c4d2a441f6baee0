"""What a verb was asked for, read: the data set, the usable sources, and the request to make of them.

Files are read and examined; no network is opened.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
from ..files.fill import nearest
from ..inputs import Inputs, usable_inputs
from ..meter.meter import Progress
from ..packages import installed
from ..pocket.tasks import street_task
from ..profile.profile import Profile, load_profile
from ..profile.runtime import PHOTOGRAPHS
from ..request import SUBJECTIVE, SuiteRequest
from ..runtime.installing import ENGINE, pip_install
from ..sources.boxes import FORMS
from ..sources.data_set import DataSet, SetOptions, read_listing, read_set
from ..sources.depth import DEPTH_VALUES
from ..sources.domain import examiner
from ..sources.edited_pairs import list_edited
from ..sources.layouts import LAYOUTS
from ..sources.sampling import Selection, parse_classes
from ..stages.rewrite.menu_edits import in_turns, values_of
from ..tasks.task import builtin_task, label_warnings, withheld_note
from ..tasks.user_task import Interventions, UserTask, load_interventions, load_task, load_types, parse_interventions
from .grouping import group_set
from .options import AnyPath, Caller, EditOptions, SourceOptions, names_in, path_or_none, span_of, words_in

# Edits of a variant, the least and the most, where neither the caller nor the profile says, and of a painter's menu:
# values of a menu are few, and more of them in one picture tell less of each.
_EDITS, _ALONE = (1, 3), (1, 1)
# The profile where nobody names one: of rendered streets, and of all other pictures.
_STREETS, _OTHERS = "pocket", "light"
# And of pictures that are there.
_GIVEN = "given"
# What changes a profile as the caller says.
Adapt = Callable[[Profile], Profile]


@dataclass(frozen=True)
class Asked:
    """A request, the profile and the inputs to make it of, and the data set that they are of."""

    profile: Profile
    request: SuiteRequest
    inputs: Inputs
    data: DataSet


def profile_of(options: SourceOptions) -> Profile:
    """The profile that options name, the streets' where they name none."""
    profile = load_profile(fspath(options.get("profile") or _STREETS))
    if profile.given:
        raise CounterfactoryError(
            f"profile {profile.name} paints nothing: counterfactory import makes a suite of pictures that are there"
        )
    return profile.without_captioner if options.get("given_captions") and profile.captioned else profile


def read_data(
    sources: AnyPath, options: SourceOptions, caller: Caller, whole: int | None = None, task: str | None = None
) -> tuple[Profile, DataSet]:
    """The sources that the options name, each examined, of which there is at least one, and the profile to make a suite
    of them with: where no one is named, that which suits the sources, which is said first. Warns of each source that
    cannot be used, and says what masks hold. `whole` is as for `read_set`, `task` that of `SetOptions`; pictures that
    are not read are taken to be what the models know.
    """
    profile = profile_of(options)
    data = _read_set(sources, profile, options, caller, whole, task)
    if whole is None or options.get("group_by") is not None:  # without looks there are no sequences
        data = group_set(data, options.get("group_by"), caller.warn)
    if not options.get("profile") and not options.get("allow_out_of_domain") and data.sources:
        profile = _suiting(profile, data, caller)
    if profile.models.world == PHOTOGRAPHS:  # whatever another profile's models know
        data = replace(data, sources=DiskList(replace(source, known_world=None) for source in data.sources))
    elif whole is not None:
        known = (replace(source, known_world=source.known_world is not False) for source in data.sources)
        data = replace(data, sources=DiskList(known))
    _warn_of_set(data, fspath(sources), caller)
    return profile, data


def _warn_of_set(data: DataSet, root: str, caller: Caller) -> None:
    """Say what has to be known of a data set, of which something can be used."""
    caller.warn_skipped(data.problems)
    caller.warn_all(data.all_notes)
    if not data.sources:
        raise CounterfactoryError(f"none of the {len(data.problems)} images in {root} can be used")


def read_pairs(pairs: AnyPath, options: EditOptions, caller: Caller, adapt: Adapt) -> Asked:
    """As `read_request`, of originals with the pictures that are given of them."""
    profile = load_profile(fspath(options.get("profile") or _GIVEN))
    if not profile.given:
        raise CounterfactoryError(
            f'profile {profile.name} paints by itself: counterfactory import takes one with [painter] kind = "given"'
        )
    root, class_map = Path(pairs), options.get("class_map")
    class_map = None if class_map is None else fspath(class_map)
    chosen = SetOptions(class_map=class_map, selection=_selection(options), group_by=options.get("group_by"))
    try:
        listing = list_edited(root, path_or_none(options.get("masks")))
    except OSError as error:
        raise CounterfactoryError(f"cannot read {error.filename or root}: {error.strerror}") from error
    data = read_listing(listing, str(root), chosen, _reading(caller), examiner(profile))
    data = group_set(data, options.get("group_by"), caller.warn)
    _warn_of_set(data, str(root), caller)
    asked = _asked(adapt(profile), data, options, caller)
    most = Counter[str]()
    for source in asked.inputs.sources:
        most |= Counter(picture.kind for picture in source.given.pictures) if source.given is not None else {}
    request = replace(asked.request, variants=max(1, most["variant"]), controls=most["control"])
    return replace(asked, request=request)


def _suiting(streets: Profile, data: DataSet, caller: Caller) -> Profile:
    """The profile that most sources suit: the streets' where its models know them and are installed."""
    examined = Counter(source.known_world for source in data.sources if source.known_world is not None)
    strange, count = examined[False], examined.total()
    others = "other photographs take --profile light, which changes weather and light alone"
    if 2 * strange < count and installed("openvino"):
        caller.warn(f"painter    {streets.name} paints rendered streets anew, which the sources look like; {others}")
        return streets
    if 2 * strange < count:
        why = f"the sources look like rendered streets, but what paints those is not installed ({pip_install(ENGINE)})"
    else:
        why = f"{strange} of {count} sources are no rendered streets, all that {streets.name} knows"
    caller.warn(
        f"painter    {_OTHERS} changes the weather and the light of any photograph, by rule: {why}; other colours and "
        "surroundings take --profile cpu (weights to download) or a10g (a GPU): counterfactory doctor --profile NAME"
    )
    return load_profile(_OTHERS)


def _read_set(
    sources: AnyPath, profile: Profile, options: SourceOptions, caller: Caller, whole: int | None, task: str | None
) -> DataSet:
    """The sources that the options name, each examined with the profile's eyes."""
    class_map, layout = options.get("class_map"), options.get("layout")
    depth_values, boxes = options.get("depth_values", "distance"), options.get("boxes")
    chosen = (("layout", layout, LAYOUTS), ("depth_values", depth_values, DEPTH_VALUES), ("boxes", boxes, FORMS))
    for name, value, choices in chosen:
        if value is not None and value not in choices:
            raise CounterfactoryError(f"no {name} {value!r}; {nearest(value, choices)}")
    asked = SetOptions(
        labels=path_or_none(options.get("labels")),
        masks=path_or_none(options.get("masks")),
        layout=layout,
        pairs=options.get("pairs"),
        class_map=None if class_map is None else fspath(class_map),
        split=options.get("split"),
        selection=_selection(options),
        depth=path_or_none(options.get("depth")),
        depth_values=depth_values,
        boxes=boxes,
        task=task,
        group_by=options.get("group_by"),
    )
    return read_set(fspath(sources), asked, _reading(caller), examiner(profile), whole)


def _reading(caller: Caller) -> Callable[[int, int], None]:
    return lambda done, total: caller.on_progress(Progress("read", done, total))


def _selection(options: SourceOptions) -> Selection:
    named, per_class, sample = options.get("classes"), options.get("per_class"), options.get("sample")
    if per_class is not None and sample is not None:
        raise CounterfactoryError("per_class and sample contradict: give one")
    classes = None
    if named is not None:
        given = parse_classes(fspath(named)) if isinstance(named, (str, PathLike)) else names_in(named)
        classes = tuple(unicodedata.normalize("NFC", name) for name in given)
    return Selection(classes, per_class, sample, options.get("seed", 0))


def read_request(sources: AnyPath, options: EditOptions, caller: Caller, adapt: Adapt = lambda same: same) -> Asked:
    """What the options ask for, of the sources that a run can use; warns of what they lack, of those that are left out
    and of doubtful labels. `adapt` makes the caller's changes to the profile.
    """
    profile, data = read_data(sources, options, caller, task=_judged_by(options))
    return _asked(adapt(profile), data, options, caller)


def _asked(profile: Profile, data: DataSet, options: EditOptions, caller: Caller) -> Asked:
    request = _request_of(profile, data, options, caller)
    allow, judged_by = request.allow_out_of_domain, _judged_by(options)
    inputs = usable_inputs(profile, data.sources, allow_out_of_domain=allow, judged_by=judged_by)
    warn_of(inputs, caller)
    if options.get("depth") is not None and not profile.reads_depth:
        caller.warn(f"--depth: profile {profile.name} has no hint of kind depth from files, so nothing follows them")
    labels, by_rule = list(dict.fromkeys(source.label for source in data.sources)), profile.by_rule or profile.given
    shown = (name for source in inputs.sources for name in (source.label, *source.classes) if name is not None)
    caller.warn_all(withheld_note(shown) if not profile.given else ())
    caller.warn_all(label_warnings(request.task, labels, by_rule=by_rule))
    if profile.by_rule and request.interventions is not None:
        values_of(request.interventions, profile.painter_kind)  # refuses before anything is made
    if profile.by_menu:
        taking = in_turns(inputs.sources, request, profile.rewrite.types, profile.painter_kind)
        inputs = replace(inputs, sources=DiskList(taking))
    return Asked(profile, request, replace(inputs, record=data.record(), groups=data.groups), data)


def _judged_by(options: EditOptions) -> str | None:
    """The built-in task whose model the suite is for, None for a task of the user's own."""
    return None if options.get("task_file") is not None else options.get("task") or "classification"


def warn_of(inputs: Inputs, caller: Caller) -> None:
    """Say what has to be known of the sources before anything is made of them."""
    caller.warn_all(inputs.notes)
    caller.warn_skipped(inputs.left_out)


def _request_of(profile: Profile, data: DataSet, options: EditOptions, caller: Caller) -> SuiteRequest:
    """Raises CounterfactoryError for files that are refused or contradict, and types that the profile's language model
    does not know.
    """
    user_task = _task(profile, data, options)
    given, task_file = options.get("types"), options.get("task_file")
    if given is not None and user_task.types:
        raise _contradiction("types", fspath(given), task_file)
    types = user_task.types if given is None else load_types(Path(given))
    if types and not profile.llm.converses:
        model = f"the language model of profile {profile.name} knows the types that it was trained on and no others"
        if profile.by_rule:
            model = f"profile {profile.name} has no language model"
        raise CounterfactoryError(
            f"the types of {fspath(given or task_file or '')}: {model}; take a profile whose model converses, such as "
            "a10g"
        )
    edits, levels, severity = options.get("edits"), options.get("levels"), options.get("severity")
    if levels is not None and severity is not None:
        raise CounterfactoryError(f"--severity {severity} and --levels {levels} contradict: give one")
    usual = profile.rewrite.edits or (_ALONE if profile.by_menu else _EDITS)
    return SuiteRequest(
        task=user_task.task,
        variants=options.get("variants", 5),
        controls=controls_of(profile, options, caller),
        edits=usual if edits is None else span_of(edits),
        seed=options.get("seed", 0),
        interventions=_interventions(user_task, options, [type_.name for type_ in types]),
        allow_ungrounded=options.get("allow_ungrounded", False),
        allow_out_of_domain=options.get("allow_out_of_domain", False),
        avoid=(*SUBJECTIVE, *words_in(options.get("avoid", ()))),
        types=types,
        levels=levels or 1,
        severity=profile.severity if levels is None and severity is None else severity,
        baseline=baseline_of(profile, options),
    )


def controls_of(profile: Profile, options: SourceOptions, caller: Caller) -> int:
    """The controls of a source; none where the painter draws into the source itself, which a control would be again."""
    named = options.get("controls")
    if profile.painter_kind != "light":
        return 1 if named is None else named
    if named:
        caller.warn(f"profile {profile.name} makes no controls: each would be its source again, which is in the suite")
    return 0


def baseline_of(profile: Profile, options: SourceOptions) -> Literal["light"] | None:
    """The baseline that options name beside a profile's painter."""
    named = options.get("baseline")
    if named is not None and named != "light":
        raise CounterfactoryError(f"there is no baseline {named!r} but 'light'")
    if named is not None and profile.painter_kind == "light":
        raise CounterfactoryError(f"--baseline light goes with another painter: {profile.name} draws it already")
    return named


def _interventions(user_task: UserTask, options: EditOptions, own: Sequence[str]) -> Interventions | None:
    given = options.get("interventions")
    if given is None:
        return user_task.interventions
    if user_task.interventions is not None:
        named = fspath(given) if isinstance(given, (str, PathLike)) else "those given"
        raise _contradiction("interventions", named, options.get("task_file"))
    if isinstance(given, (str, PathLike)):
        return load_interventions(Path(given), own)
    return parse_interventions(_interventions_text(given), "interventions", own)


def _interventions_text(values: Mapping[str, Sequence[str]]) -> str:
    """Values by type as a file of interventions has them."""
    for value in (value for of_type in values.values() for value in of_type):
        if odd := re.search("[,;#\n]", value):
            raise CounterfactoryError(f"interventions: the value {value!r} holds {odd[0]!r}; words are needed")
    return "\n".join(f"{type_}: {', '.join(of_type)}" for type_, of_type in values.items())


def _contradiction(key: str, given: str, task_file: AnyPath | None) -> CounterfactoryError:
    return CounterfactoryError(
        f"--{key} {given} and the key {key!r} of {fspath(task_file or '')} contradict: leave one of them out"
    )


def _task(profile: Profile, data: DataSet, options: EditOptions) -> UserTask:
    """The user's task, or a built-in one about the set's own classes; the pocket models know the street world's."""
    file, named = options.get("task_file"), options.get("task")
    if file is not None:
        if named is not None:
            raise CounterfactoryError(f"the task {named!r} and the task file {fspath(file)} contradict: give one")
        return load_task(Path(file))
    name = named or "classification"
    if not (profile.llm.converses or profile.by_rule):
        task = street_task(name)
    elif name == "classification":
        task = builtin_task(name, sorted({source.label for source in data.sources if source.label is not None}))
    else:
        task = builtin_task(name, data.classes)
    return UserTask(task, (), None)
