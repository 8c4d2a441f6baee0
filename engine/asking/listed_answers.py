"""Answers that come picture by picture, in a list: some may be missing, and some are those of Hugging Face's pipelines,
for each picture a list of dicts of `label` and `score`, and of `box` for detection.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from .outputs import LabelAnswer, ModelAnswer, UnusableError, Wanted
from .placement import Placement
from .reading_outputs import read_outputs

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_LIKELIEST = 5
_NOTHING = "the model gave no answer"


def read_answers(
    outputs: Any, places: Sequence[Placement], wanted: frozenset[Wanted]
) -> list[ModelAnswer | UnusableError]:
    """As `read_outputs`; a picture whose answer is None, NaN or empty has an `UnusableError` in its place."""
    listed = _as_list(outputs)
    if listed is None or len(listed) != len(places):
        given = listed if isinstance(outputs, Iterator) else outputs
        return [_settled(answer) for answer in read_outputs(given, places, wanted)]
    sees = wanted == {"boxes"} or any(map(_holds_box, listed))
    told = [_converted(one, sees) for one in listed]
    rest = [number for number, one in enumerate(told) if not isinstance(one, (LabelAnswer, UnusableError))]
    # What several outputs in a tuple are is told by the tuple.
    same = isinstance(outputs, tuple) and all(map(operator.is_, told, listed))
    given = outputs if same else [told[number] for number in rest]
    answers = read_outputs(given, [places[number] for number in rest], wanted) if rest else []
    for number, answer in zip(rest, answers, strict=True):
        told[number] = _settled(answer)
    return told


def _as_list(outputs: Any) -> list[Any] | None:
    """What a list, a generator, a series or an array of objects holds; None for anything else."""
    if isinstance(outputs, np.ndarray):
        return outputs.tolist() if outputs.dtype == object and outputs.ndim == 1 else None
    if isinstance(outputs, (str, bytes, Mapping)) or hasattr(outputs, "detach") or hasattr(outputs, "ndim"):
        return None
    return list(outputs) if isinstance(outputs, Iterable) else None


def _converted(one: Any, sees: bool) -> Any:
    """A picture's answer in a form that is read; `sees` of a detector, which sees nothing in an empty list."""
    if sees and isinstance(one, (list, tuple)) and not one:
        return {"boxes": [], "scores": [], "labels": []}
    if _is_nothing(one):
        return UnusableError(_NOTHING)
    parts = [one] if isinstance(one, Mapping) and {"label", "score"} <= one.keys() else one
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Mapping) and "label" in part for part in parts):
        return one
    try:
        if _holds_box(parts):
            corners = [[float(part["box"][side]) for side in _SIDES] for part in parts]
            scores, labels = ([part[name] for part in parts] for name in ("score", "label"))
            return {"boxes": corners, "scores": scores, "labels": labels}
        ranked = sorted(((str(part["label"]), float(part["score"])) for part in parts), key=lambda pair: -pair[1])
        if not all(0 <= score <= 1 for _, score in ranked):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise CounterfactoryError(
            f"the model returned {str(parts[0])[:80]} for a picture: a pipeline's answers are dicts of label and "
            "score, from 0 to 1, and of box with xmin, ymin, xmax and ymax"
        ) from error
    return LabelAnswer(ranked[0][0], tuple(ranked[:_LIKELIEST]))


def _holds_box(one: Any) -> bool:
    return isinstance(one, (list, tuple)) and any(isinstance(part, Mapping) and "box" in part for part in one)


def _is_nothing(one: Any) -> bool:
    if one is None or type(one).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(one, Real):
        return math.isnan(one)
    text = one.strip() if isinstance(one, str) else one
    return isinstance(text, Sized) and not hasattr(text, "ndim") and not len(text)


def _settled(answer: ModelAnswer | UnusableError) -> ModelAnswer | UnusableError:
    """A label in Python's own text or whole number. Raises CounterfactoryError for what is neither."""
    if not isinstance(answer, LabelAnswer):
        return answer
    label: Any = answer.label.item() if hasattr(answer.label, "item") else answer.label
    if _is_nothing(label):
        return UnusableError(_NOTHING)
    if isinstance(label, str) or type(label) is int:
        return replace(answer, label=str(label) if isinstance(label, str) else label)
    if type(label) is float and label.is_integer():
        return LabelAnswer(int(label))
    raise CounterfactoryError(
        f"the model gave a picture {str(label)[:80]!r}, a {type(label).__name__}: a label is a text or a whole number"
    )
