"""The verdict that thresholds make of a picture's scores, and the probability that a variant is valid.

Verdicts are derived from scores whenever they are asked for: a new threshold generates nothing. `[check] min_NAME` is
the least that the score NAME may be, `max_NAME` the most (profile/check.py).

"valid" is what the other scores, each on a scale of its own, come to. A variant is valid if each of its parts is: edits
of each type show, the label is kept, the layout is kept. One lost part is enough to lose it, and the least probable one
is the reason. Weights are fitted to variants that people have judged (judging/fit_valid.py), and are never negative: no
better score makes a variant less valid.

    valid = product over parts of 1 / (1 + exp(-(bias + sum of weight x score)))

Shares and probabilities enter by their log-odds, -6 to 6, all other scores as they are. A score that a picture does
not have adds nothing; a part of whose scores it has none is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ...profile.check import SCORES, CheckSettings, Failure, ValidPart, score_named
from ...suite import PictureRow
from ...suite.by_hand import EXCLUDED
from ...suite.verdicts import ScoredRow
from ...variant import Kind
from .colours import colour_change

_REASON = re.compile(r"(\w+) -?[\d.]+ is (?:below|above) -?[\d.]+")


def part_probabilities(scores: Mapping[str, float], parts: Sequence[ValidPart]) -> dict[str, float]:
    """The probability of each part that a picture has."""
    probabilities = {part.part: part.probability(scores) for part in parts}
    return {name: value for name, value in probabilities.items() if value is not None}


def valid_score(scores: Mapping[str, float], parts: Sequence[ValidPart]) -> float | None:
    """The probability that a variant with these scores is valid, 0..1; None where no part can be told."""
    probabilities = part_probabilities(scores, parts)
    return round(math.prod(probabilities.values()), 6) if probabilities else None


def with_valid(kind: Kind, scores: Mapping[str, float], settings: CheckSettings) -> Mapping[str, float]:
    """The scores of a picture, with "valid" added if it is a variant and the settings have parts for it."""
    if "valid" not in scores and not (kind == "variant" and settings.valid):
        return scores
    rest = {name: value for name, value in scores.items() if name != "valid"}
    probability = valid_score(rest, settings.valid) if kind == "variant" and settings.valid else None
    return rest if probability is None else rest | {"valid": probability}


def verdict(row: PictureRow | ScoredRow, settings: CheckSettings) -> str | None:
    """None if a picture's scores pass, else the reason for rejection, which names the edit or the label that failed.

    A control's caption changes nothing, so that there is no edit and no direction to hold it to; an original is what it
    is. Raises KeyError for a score that the picture should have and has not.
    """
    failure = failing(row.scores, settings, row.kind)
    if failure is None:
        return None
    meaning = failure.meaning if failure.score.of_text else _meaning(row, failure.score.name, settings)
    return f"{meaning}: {failure.comparison}"


def failing(scores: Mapping[str, float], settings: CheckSettings, kind: Kind) -> Failure | None:
    """The first score that fails, in the order of `SCORES`; None if all pass. Raises KeyError as `verdict` does."""
    if kind in ("original", "baseline"):
        return None
    return next(settings.failures(scores, (row for row in SCORES if row.control or kind == "variant")), None)


def failed_check(reason: str) -> str:
    """The name of the score that a `verdict`'s reason is about; what people excluded is all of one name."""
    if reason.startswith(EXCLUDED):
        return EXCLUDED
    match = _REASON.fullmatch(reason.rpartition(": ")[2])
    return match.group(1) if match else reason


def check_meaning(name: str) -> str | None:
    """What it means that a score fails, in words; None for a name that is no score's."""
    score = score_named(name)
    return None if score is None else score.high if score.of_text else score.low


def _meaning(row: PictureRow | ScoredRow, name: str, settings: CheckSettings) -> str:
    """What it means that a score is too low, by what can be named; of "valid" what its least probable part means."""
    edits = list(zip(row.edit_scores or [0.0] * len(row.edits), row.edits, strict=True))
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
