"""Painted pictures beside the truth, and the figures that the referee gives of them.

The same figures of the truth's own renderings say what the referee misses, those of the sources' what it imagines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.pocket.judges import Finding, Referee
from counterfactory.engine.pocket.worlds import Drawing

from .changes import Change, is_seen

# The figures of changes, by the names of these.
_SUCCESS = {
    "edit_success": ("weather", "time"),
    "weather_success": ("weather",),
    "time_success": ("time",),
    "colour_success": ("colour",),
}


@dataclass(frozen=True)
class Observed:
    """A picture uint8 [128, 128, 3] that was painted over a source, by captions in which `edits` are made.

    `scene` and `drawing` are the source's, `finding` is what the referee sees in the picture. An edit is the changes
    that it asks for, none where nobody can say; `target` is the drawing of the scene after all of them, None where one
    of them is not known.
    """

    source: str
    scene: Any
    drawing: Drawing
    edits: tuple[tuple[Change, ...], ...]
    picture: NDArray[np.uint8]
    finding: Finding
    target: Drawing | None

    @property
    def truth(self) -> Drawing:
        """What is known of the picture's outlines."""
        return self.drawing if self.target is None else self.target

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of all edits."""
        return tuple(change for edit in self.edits for change in edit)

    def edit_seen(self, number: int) -> bool | None:
        """Whether the referee sees all that an edit asks for; None where it cannot judge that."""
        answers = [is_seen(change, self.finding, self.truth.objects) for change in self.edits[number]]
        judged = [answer for answer in answers if answer is not None]
        return all(judged) if judged else None


def as_rendered(observed: Sequence[Observed], referee: Referee) -> list[Observed]:
    """The same with the truth's renderings in the place of pictures; those without are left out."""
    return _shown([(one, one.target) for one in observed if one.target is not None], referee)


def as_sources(observed: Sequence[Observed], referee: Referee) -> list[Observed]:
    """The same with the sources' renderings in the place of pictures."""
    return _shown([(one, one.drawing) for one in observed], referee)


def _shown(pairs: Sequence[tuple[Observed, Drawing]], referee: Referee) -> list[Observed]:
    if not pairs:
        return []
    findings = referee.inspect(np.stack([drawing.picture for _, drawing in pairs]))
    return [
        replace(one, picture=drawing.picture, finding=finding)
        for (one, drawing), finding in zip(pairs, findings, strict=True)
    ]


def edits_seen(observed: Sequence[Observed]) -> dict[str, list[bool]]:
    """Of every change that the referee can see, by its name, whether it sees it."""
    return _seen(observed, lambda change: change.name)


def _seen(observed: Sequence[Observed], name_of: Callable[[Change], str]) -> dict[str, list[bool]]:
    seen: dict[str, list[bool]] = {}
    for one in observed:
        for change in one.changes:
            if (hit := is_seen(change, one.finding, one.truth.objects)) is not None:
                seen.setdefault(name_of(change), []).append(hit)
    return seen


def edit_shares(observed: Sequence[Observed]) -> dict[str, float]:
    """How often the referee sees what was asked for, by kind; what was never asked for has no share."""
    seen = edits_seen(observed)
    hits = {key: [hit for name in names for hit in seen.get(name, [])] for key, names in _SUCCESS.items()}
    second = _seen(observed, lambda change: f"{change.name} {'first' if not change.number else 'second'}")
    hits["second_colour_success"] = second.get("colour second", [])
    return {key: float(np.mean(of_key)) for key, of_key in hits.items() if of_key}


def layout_confusion(observed: Sequence[Observed]) -> NDArray[np.int64]:
    """Pixels by the class of the source's mask and of the referee's, int64 [K, K]; no change moves an outline."""
    total = np.zeros((0, 0), np.int64)
    for one in observed:
        counts = confusion_matrix(one.drawing.mask, one.finding.mask, len(one.finding.vocabulary.classes))
        total = counts if not total.size else total + counts
    return total


def layout_kept(observed: Sequence[Observed]) -> dict[str, Any]:
    """`layout_miou` and `layout_iou_by_class` of the referee's masks against the sources'; none without a picture."""
    counts = layout_confusion(observed)
    if not counts.size:
        return {}
    by_class = iou(counts)
    names = observed[0].finding.vocabulary.classes
    return {
        "layout_miou": float(np.nanmean(by_class)),
        "layout_iou_by_class": {
            name: float(value) for name, value in zip(names, by_class, strict=True) if not np.isnan(value)
        },
    }


def painted_figures(observed: Sequence[Observed], referee: Referee) -> dict[str, Any]:
    """The figures of the pictures; `referee_truth` and `referee_source` are the same of the truth and the sources."""
    truth, sources = as_rendered(observed, referee), as_sources(observed, referee)
    return {
        **edit_shares(observed),
        "edits_measured": {name: len(hits) for name, hits in edits_seen(observed).items()},
        "variants_measured": len(observed),
        **layout_kept(observed),
        "referee_truth": edit_shares(truth) | layout_kept(truth),
        "referee_source": edit_shares(sources),
    }
