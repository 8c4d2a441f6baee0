"""The verdict that thresholds make of a picture's scores.

Verdicts are derived from scores whenever they are asked for: a new threshold generates nothing. `[check] min_NAME` is
the least that the score NAME may be, `max_NAME` the most (profile/scores.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...edit import Edit
from ...profile.check import CheckSettings, Failure
from ...profile.scores import SCORES, score_named
from ...variant import Kind
from .colours import colour_change
from .validity import part_probabilities, valid_score

_REASON = re.compile(r"(?:.*: )?(\w+) -?[\d.]+ is (?:below|above) -?[\d.]+", re.DOTALL)


class ScoredPicture(Protocol):
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


def with_valid(kind: Kind, scores: Mapping[str, float], settings: CheckSettings) -> Mapping[str, float]:
    """The scores of a picture, with "valid" added if it is a variant and the settings have parts for it."""
    rest = {name: value for name, value in scores.items() if name != "valid"}
    probability = valid_score(rest, settings.valid) if kind == "variant" and settings.valid else None
    return rest if probability is None else rest | {"valid": probability}


def verdict(row: ScoredPicture, settings: CheckSettings) -> str | None:
    """None if a picture's scores pass, else the reason for rejection, which names the edit or the label that failed.

    A control's caption changes nothing, so that there is no edit and no direction to hold it to; an original is what it
    is. Raises KeyError for a score that the picture should have and has not.
    """
    failure = first_failure(row.scores, settings, row.kind)
    if failure is None:
        return None
    meaning = failure.meaning if failure.score.of_text else _meaning(row, failure.score.name, settings)
    return f"{meaning}: {failure.comparison}"


def failing(scores: Mapping[str, float], settings: CheckSettings, kind: Kind) -> str | None:
    """The name of the first score that fails, texts' first, what can be named best before the others; None if all pass.

    Raises KeyError for a score that a picture of this kind should have and has not.
    """
    failure = first_failure(scores, settings, kind)
    return None if failure is None else failure.score.name


def first_failure(scores: Mapping[str, float], settings: CheckSettings, kind: Kind) -> Failure | None:
    """The first score that fails, in the order of `SCORES`."""
    if kind == "original":
        return None
    return next(settings.failures(scores, (row for row in SCORES if row.control or kind == "variant")), None)


def failed_check(reason: str) -> str:
    """The name of the score that a `verdict`'s reason is about."""
    match = _REASON.fullmatch(reason)
    return match.group(1) if match else reason


def check_meaning(name: str) -> str | None:
    """What it means that a score fails, in words; None for a name that is no score's."""
    score = score_named(name)
    return None if score is None else score.high if score.of_text else score.low


def _meaning(row: ScoredPicture, name: str, settings: CheckSettings) -> str:
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
        shown = {"add": f"{edit.alternative!r} does not show", "remove": f"{edit.keyword!r} still shows"}
        return shown.get(edit.kind, f"{edit.alternative!r} does not show in place of {edit.keyword!r}")
    if name in ("label", "said_label", "agreement", "ensemble"):
        return f"{row.label!r} may not show any more"
    return check_meaning(name) or check_meaning("valid") or name
