"""The verdict that thresholds make of a picture's scores, and the settings that hold the thresholds.

Verdicts are derived from scores whenever they are asked for: a new threshold generates nothing. `[check] min_NAME` is
the least that the score NAME may be, `max_NAME` the most. What a score means is said where it is made (check.py,
text_filters.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Protocol, Self

from ..edit import Edit
from ..tasks.names import LABEL
from ..variant import Kind
from .colours import colour_change
from .text_filters import TextThresholds, text_failure, text_meaning
from .validity import ValidPart, part_probabilities, valid_score

# What each score of a picture is, its least and its most; a threshold of the least rejects nothing. What can be named
# best comes first: the first score below its threshold is the reason.
_SCORES: Mapping[str, tuple[str, float, float]] = MappingProxyType(
    {
        "spread": ("a share", 0, 1),
        "exposed": ("a share", 0, 1),
        "sharp": ("a share", 0, 1),
        "changed": ("a share", 0, 1),
        "distinct": ("a share", 0, 1),
        "edit": ("a share", 0, 1),
        "recoloured": ("a share", 0, 1),
        "said_edits": ("a share", 0, 1),
        "label": ("a change of probability", -1, 1),
        "said_label": ("a share", 0, 1),
        "agreement": ("a share", 0, 1),
        "ensemble": ("a share", 0, 1),
        "boxes": ("a share", 0, 1),
        "miou": ("a share", 0, 1),
        "recall": ("a share", 0, 1),
        "layout": ("a share", 0, 1),
        "image_text": ("a cosine", -1, 1),
        "directional": ("a cosine", -1, 1),
        "image_image": ("a cosine", -1, 1),
        "source_text": ("a cosine", -1, 1),
        "nearer": ("a difference of cosines", -2, 2),
        "valid": ("a probability", 0, 1),
    }
)
# What it means that a score is too low, in words.
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "spread": "hardly anything but one grey level",
        "exposed": "mostly black or white",
        "sharp": "blurred against its source",
        "changed": "nearly the same as its source",
        "distinct": "nearly the same as another variant of its source",
        "edit": "an edit does not show",
        "recoloured": "a new colour does not show",
        "said_edits": "the captioner does not see all that was edited",
        "label": "the label may not show any more",
        "said_label": "the captioner does not see the label any more",
        "agreement": "the classifiers do not agree on the label",
        "ensemble": "the classifiers doubt the label",
        "boxes": "boxes have lost what they show",
        "miou": "what the referee sees has left the mask",
        "recall": "a class of the mask is hardly to be seen",
        "layout": "outlines have left the mask's",
        "image_text": "unlike its caption",
        "directional": "changed otherwise than its caption",
        "image_image": "unlike its source",
        "source_text": "the source does not show its caption",
        "nearer": "nearer to the caption than to the edited one",
        "valid": "all checks together doubt it",
    }
)
# Scores that every picture of a kind has; the others make no sense for some pictures, and are left out of them.
_OF_ALL = frozenset({"image_text", "image_image", "source_text", "spread", "exposed", "sharp"})
_OF_VARIANTS = frozenset({"edit", "directional", "nearer", "changed"})
_REASON = re.compile(r"(?:.*: )?(\w+) -?[\d.]+ is (?:below|above) -?[\d.]+", re.DOTALL)


class Measured(Protocol):
    """A picture of a suite, as far as its verdict needs it."""

    @property
    def kind(self) -> Kind: ...
    @property
    def label(self) -> str | None: ...
    @property
    def edits(self) -> Sequence[Edit]: ...
    @property
    def scores(self) -> Mapping[str, float]: ...
    @property
    def edit_scores(self) -> Sequence[float]: ...


@dataclass(frozen=True)
class CheckSettings(TextThresholds):
    """`batch` is the plan's; a variant is accepted if each score reaches its minimum, and its text passes.

    `label_prompt` is what a class is compared by, its name in place of "{label}"; `logit_scale` what CLIP multiplies
    likenesses by before its softmax. Cosines and `min_label`, a change of probability, are -1 to 1; `min_edit`, a
    probability, and `min_layout`, a share, 0 to 1. The least of a range rejects nothing, and None asks for no score.
    With `recaption` the captioner looks at painted pictures too (round_trip.py), for edits of the types, and for the
    label, that `recaption_of` names; None for all of it. `valid` are the parts of which the score "valid" is made
    (validity.py), None for no such score.
    """

    batch: int
    label_prompt: str
    logit_scale: float
    min_image_text: float
    min_directional: float
    min_image_image: float
    min_edit: float
    min_label: float
    min_layout: float
    min_source_text: float | None = None
    min_nearer: float | None = None
    min_spread: float | None = None
    min_exposed: float | None = None
    min_sharp: float | None = None
    min_changed: float | None = None
    min_distinct: float | None = None
    min_recoloured: float | None = None
    min_said_edits: float | None = None
    min_said_label: float | None = None
    min_agreement: float | None = None
    min_ensemble: float | None = None
    min_boxes: float | None = None
    min_miou: float | None = None
    min_recall: float | None = None
    min_valid: float | None = None
    recaption: bool | None = None
    recaption_of: tuple[str, ...] | None = None
    valid: tuple[ValidPart, ...] | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"[check] needs a batch of at least 1, got {self.batch}")
        if self.label_prompt.count(LABEL) != 1:
            raise ValueError(f"[check] label_prompt holds {LABEL} once, got {self.label_prompt!r}")
        if not self.logit_scale > 0:
            raise ValueError(f"[check] logit_scale must be positive, got {self.logit_scale}")
        for name, (what, least, most) in _SCORES.items():
            value = self.least(name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"[check] min_{name} is {what}, {least:g} to {most:g}, got {value}")
        self.check_ranges()
        if self.recaption_of is not None and not (self.recaption and self.recaption_of):
            raise ValueError(
                '[check] recaption_of names what the captioner looks for, types of edits and "label": it needs '
                "recaption = true, and at least one of them"
            )
        if self.min_valid is not None and not self.valid:
            raise ValueError("[check] min_valid needs [[check.valid]], the parts that make the score `valid`")
        names = [part.part for part in self.valid or ()]
        if len(set(names)) < len(names):
            raise ValueError(f"[[check.valid]] names each part once, found {', '.join(names)}")

    def least(self, score: str) -> float | None:
        """The minimum of a picture's score; None where it needs none."""
        value: float | None = getattr(self, f"min_{score}")
        return value

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds that there are by the settings' names, in the settings' order."""
        given = {name: getattr(self, name) for name in threshold_names()}
        return {name: float(value) for name, value in given.items() if value is not None}

    @property
    def strict(self) -> dict[str, float]:
        """Those of the thresholds that can reject something."""
        return {
            name: value for name, value in self.thresholds.items() if value != self.without(name).thresholds.get(name)
        }

    def without(self, name: str) -> Self:
        """The settings with a threshold that rejects nothing in place of the one of this name."""
        needed = any(field.name == name and field.default is MISSING for field in fields(self))
        changes: dict[str, Any] = {name: _SCORES[name.removeprefix("min_")][1] if needed else None}
        return replace(self, **changes)

    def reads(self, what: str) -> bool:
        """Whether the captioner looks at painted pictures for edits of a type, or for the "label"."""
        return bool(self.recaption) and (self.recaption_of is None or what in self.recaption_of)

    @property
    def measures(self) -> tuple[int, str, float]:
        """What decides scores; the rest are thresholds."""
        return self.batch, self.label_prompt, self.logit_scale


def threshold_names() -> tuple[str, ...]:
    """The settings that are thresholds: "min_" or "max_" and the name of a score."""
    return tuple(field.name for field in fields(CheckSettings) if field.name.startswith(("min_", "max_")))


def with_valid(kind: Kind, scores: Mapping[str, float], settings: CheckSettings) -> Mapping[str, float]:
    """The scores of a picture with "valid" by these settings; without it where they have no parts, and of what is no
    variant.
    """
    rest = {name: value for name, value in scores.items() if name != "valid"}
    found = valid_score(rest, settings.valid) if kind == "variant" and settings.valid else None
    return rest if found is None else rest | {"valid": found}


def verdict(row: Measured, settings: CheckSettings) -> str | None:
    """None if a picture's scores pass, else the reason for rejection, which names the edit or the label that failed.

    A control's caption changes nothing, so that there is no edit and no direction to hold it to; an original is what it
    is. Raises KeyError for a score that the picture should have and has not.
    """
    name = failing(row.scores, settings, row.kind)
    if name is None:
        return None
    if text := text_failure(row.scores, settings):
        return text[1]
    least = settings.thresholds[f"min_{name}"]
    return f"{_failure(row, name, settings)}{name} {row.scores[name]:.3f} is below {least:.3f}"


def failing(scores: Mapping[str, float], settings: CheckSettings, kind: Kind) -> str | None:
    """The name of the first score that fails, texts' first, what can be named best before the others; None if all pass.

    Raises KeyError for a score that a picture of this kind should have and has not.
    """
    if kind == "variant" and (text := text_failure(scores, settings)):
        return text[0]
    for name in _held_to(scores, kind):
        least = settings.least(name)
        if least is not None and scores[name] < least:
            return name
    return None


def failed_check(reason: str) -> str:
    """The name of the score that a `verdict`'s reason is about."""
    found = _REASON.fullmatch(reason)
    return found.group(1) if found else reason


def check_meaning(name: str) -> str | None:
    """What it means that a score fails, in words; None for a name that is no score's."""
    return _MEANINGS.get(name) or text_meaning(name)


def _held_to(scores: Mapping[str, float], kind: Kind) -> list[str]:
    """The scores that a picture's verdict needs."""
    if kind == "original":
        return []
    needed = _OF_ALL if kind == "control" else _OF_ALL | _OF_VARIANTS
    spared = _OF_VARIANTS | {"recoloured"} if kind == "control" else frozenset()
    return [name for name in _SCORES if name in needed or (name in scores and name not in spared)]


def _failure(row: Measured, name: str, settings: CheckSettings) -> str:
    """What it means that a score is too low, where a picture is held to something that can be named; of "valid" what
    its least probable part means.
    """
    edits = list(zip(row.edit_scores, row.edits, strict=True))
    if name == "recoloured":
        name, edits = "edit", [(score, edit) for score, edit in edits if colour_change(edit)] or edits
    elif name == "valid":
        parts = part_probabilities(row.scores, settings.valid or ())
        name = min(parts, key=lambda part: parts[part])
        if of_type := [(score, edit) for score, edit in edits if edit.type == name]:
            name, edits = "edit", of_type
    if name == "edit":
        _, edit = min(edits, key=lambda pair: pair[0])
        said = {"add": f"{edit.alternative!r} does not show", "remove": f"{edit.keyword!r} still shows"}
        return said.get(edit.kind, f"{edit.alternative!r} does not show in place of {edit.keyword!r}") + ": "
    if name in ("label", "said_label", "agreement", "ensemble"):
        return f"{row.label!r} may not show any more: "
    return f"{_MEANINGS.get(name, _MEANINGS['valid'])}: "
