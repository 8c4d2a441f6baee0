"""Whether a model gives a picture the same answer as before, but for the last digits of its arithmetic."""

from __future__ import annotations

import numpy as np

from .outputs import BoxAnswer, Detection, LabelAnswer, MapAnswer, ModelAnswer, ScoreAnswer, UnusableError

# How far scores may be apart, as a share of the largest; the share of a map's pixels; scores and pixels of boxes.
_SHARE, _SCORE, _PIXELS = 1e-3, 0.02, 1.0
# Boxes of less come and go with the last digit.
_SURE = 0.05


def alike(new: ModelAnswer | UnusableError, old: ModelAnswer | UnusableError) -> bool:
    """Whether two answers to a picture are one; two failures are."""
    if type(new) is not type(old) or isinstance(new, UnusableError):
        return type(new) is type(old)
    if isinstance(new, ScoreAnswer) and isinstance(old, ScoreAnswer):
        same = new.scores.shape == old.scores.shape
        return same and bool(np.abs(new.scores - old.scores).max() <= _SHARE * np.abs(old.scores).max())
    if isinstance(new, MapAnswer) and isinstance(old, MapAnswer):
        numbers, before = new.numbers, old.numbers
        return numbers.shape == before.shape and bool((numbers != before).mean() < _SHARE)
    if isinstance(new, BoxAnswer) and isinstance(old, BoxAnswer):
        return _within(new.boxes, old.boxes) and _within(old.boxes, new.boxes)
    if isinstance(new, LabelAnswer) and isinstance(old, LabelAnswer):
        moved = (abs(score - before) for (_, score), (_, before) in zip(new.ranked, old.ranked, strict=False))
        return new.label == old.label and max(moved, default=0.0) <= _SCORE
    return False


def _within(some: tuple[Detection, ...], others: tuple[Detection, ...]) -> bool:
    """Whether each of some boxes is among the others."""
    sure = [box for box in some if box.score >= _SURE]
    return all(any(_is_one(box, other) for other in others) for box in sure)


def _is_one(box: Detection, other: Detection) -> bool:
    moved = (box.x0 - other.x0, box.y0 - other.y0, box.x1 - other.x1, box.y1 - other.y1)
    same = box.label == other.label and abs(box.score - other.score) <= _SCORE
    return same and max(map(abs, moved)) <= _PIXELS
