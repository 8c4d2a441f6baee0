"""The sources of a run: those that its models, its profile and its task can use, decided once for every command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import CounterfactoryError
from .files.disk_list import DiskList
from .profile.image import ImageSettings, lost_share
from .profile.profile import Profile
from .sources.domain import drop_out_of_domain
from .sources.shapes import MIN_VISIBLE, fit_boxes
from .sources.source import Problem, Source
from .sources.source_groups import SourceGroups
from .sources.truths import NEEDED, lacks, without_truths
from .stages.maps.draw_maps import without_maps
from .stages.paint.protect import without_masks

# Of a picture's area: what a photograph's edges can do without.
_MUCH = 0.1
# Beyond this a photograph is mostly made of what lies between its pixels.
_ENLARGED = 4


@dataclass(frozen=True)
class Inputs:
    """The sources to make a suite of, those that are left out and why, the record of the data set that they are of, and
    its groups of sources that depend on each other.

    `notes` are what has to be said before anything is painted.
    """

    sources: Sequence[Source]
    left_out: tuple[Problem, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    groups: SourceGroups = field(default_factory=SourceGroups)
    notes: tuple[str, ...] = ()

    @property
    def out_of_domain(self) -> int:
        """Sources that the models do not know, and that are taken all the same."""
        return sum(source.known_world is False for source in self.sources)


def usable_inputs(
    profile: Profile, sources: Sequence[Source], *, allow_out_of_domain: bool, judged_by: str | None = None
) -> Inputs:
    """The sources that can be used: that the models know, with what the profile's hints and [protect] need.

    `judged_by` is the built-in task whose model the suite is for, None for a task of the user's own. Raises
    CounterfactoryError where none is left, where at least half are out of the models' domain, and where no source has
    what a model of the task is judged by.
    """
    notes = [] if judged_by is None else _require_truths(judged_by, sources)
    known, strange = drop_out_of_domain(profile, sources, allow=allow_out_of_domain)
    reasons = without_maps(profile, known)
    shown = DiskList(source for source in known if source not in reasons) if reasons else known
    reasons |= without_masks(profile.protect, shown)
    if not (profile.captioned or profile.by_rule):
        reasons |= without_captions(shown)
    elif profile.captioned and any(source.caption is not None for source in known):
        notes.append(
            f"the set's captions are not used: profile {profile.name} writes its own; --given-captions takes them"
        )
    left_out = [*strange, *(Problem(source.name, reason) for source, reason in reasons.items())]
    used = DiskList(source for source in known if source not in reasons) if reasons else known
    return Inputs(used, tuple(left_out), notes=(*notes, *lost_lines(used, profile.image)))


def without_captions(sources: Sequence[Source]) -> dict[Source, str]:
    """The sources that bring no caption, and why that matters. Raises CounterfactoryError where none brings one."""
    silent = [source for source in sources if source.caption is None]
    if silent and len(silent) == len(sources):
        raise CounterfactoryError(
            "no network captions pictures here, and no source brings a caption: give the table a column 'caption', or "
            "take a profile with a table [caption]"
        )
    return dict.fromkeys(silent, "it brings no caption, and no network writes one")


def _require_truths(task: str, sources: Sequence[Source]) -> list[str]:
    """Refuse a set without what a built-in task's model is judged by; a note where some sources lack it."""
    without = [source.name for source in sources if lacks(task, source)]
    if without and len(without) == len(sources):
        raise without_truths(task)
    if not without:
        return []
    lacking = f"{len(without)} of {len(sources)} sources lack {NEEDED[task]}, the first is {without[0]}"
    if task == "detection":
        return [f"{lacking}: their variants tell of false alarms and nothing else"]
    return [f"{lacking}: no model can be judged by their variants"]


def lost_lines(sources: Sequence[Source], image: ImageSettings) -> list[str]:
    """What cropping to the sizes to paint at takes from sources, boxes and more than a little of a picture, and which
    are enlarged to much more than they show.
    """
    lines, first, counts = list[str](), "", Counter[str]()
    most, largest = (0.0, ""), (0.0, "", (0, 0))
    for source in sources:
        size, target = source.size, image.size_for(*source.size)
        dropped = fit_boxes(source.boxes, *size, target)[1]
        if dropped and not first:
            first = f"{dropped[0].label} in {source.name}"
        counts["boxes"] += len(source.things)
        counts["dropped"] += len(dropped)
        share, scale = lost_share(*size, target), max(target[0] / size[0], target[1] / size[1])
        counts["much"] += share > _MUCH
        counts["tiny"] += scale > _ENLARGED
        most = max(most, (share, source.name))
        largest = max(largest, (scale, source.name, size), key=lambda of: of[0])
    if counts["dropped"]:
        lines.append(
            f"{counts['dropped']} of {counts['boxes']} boxes keep less than {100 * MIN_VISIBLE:.0f} % of their area in "
            f"the crop and are left out, the first is {first}"
        )
    if counts["much"]:
        lines.append(
            f"{counts['much']} of {len(sources)} sources lose more than {100 * _MUCH:.0f} % of their area to the crop, "
            f"{most[1]} most ({100 * most[0]:.0f} %): [image] of the profile says which sizes there are"
        )
    if counts["tiny"]:
        scale, name, (height, width) = largest
        lines.append(
            f"{counts['tiny']} of {len(sources)} sources are enlarged more than {_ENLARGED} times, {name} most "
            f"({width} x {height}, {scale:.0f} times): such pictures show little of a photograph"
        )
    return lines
