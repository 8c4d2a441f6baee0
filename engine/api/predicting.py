"""Whether a suite predicts the field: models are asked about the suite and about real pictures, and what edits do here
is held against what conditions do there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..asking.ask import AskedPicture, ask_model
from ..asking.outputs import UNSEEN, BoxAnswer, MapAnswer, ModelAnswer
from ..asking.preparation import Picture
from ..asking.under_test import ModelUnderTest
from ..errors import CounterfactoryError
from ..files.fill import plain
from ..files.reading import read_bytes
from ..judging.answer_labels import Vocabulary
from ..judging.confusion import confusion_matrix, mean_iou
from ..judging.effects import Effect, PictureOutcome, find_effects
from ..judging.transfer import Transfer, find_transfers
from ..sources.pixels import UnreadableError, read_mask, read_picture
from ..sources.real_pictures import RealPicture, read_real
from ..suite import read_metadata, require_finished
from ..suite.recorded import recorded_numbers
from .answers import Given, judge, open_given_model, suite_wants
from .model_answers import label_predictions, renumbering
from .options import Caller

_VOID = 255


@dataclass(frozen=True)
class ModelDrops:
    """What edits do to a model, by types and values: painted in the suite, and real."""

    name: str
    painted: tuple[Effect, ...]
    real: tuple[Effect, ...]


@dataclass(frozen=True)
class FieldPrediction:
    """Whether painted drops predict real ones, over all models; `pictures` of `places` are real."""

    measure: str
    models: tuple[ModelDrops, ...]
    transfers: tuple[Transfer, ...]
    pictures: int
    places: int

    def to_json(self) -> dict[str, Any]:
        data = plain(self)
        for one, transfer in zip(data["transfers"], self.transfers, strict=True):
            one["predicts"] = transfer.predicts
        return data


def predict_field(suite: Path, table: Path, models: Sequence[Given], caller: Caller) -> FieldPrediction:
    """Asks the models about a suite and the real pictures of a table.

    Raises CounterfactoryError for too few models, a table that cannot be used, and a model that answers boxes.
    """
    require_finished(suite)
    rows, real = read_metadata(suite), read_real(table)
    drops, measure = [], ""
    for given in models:
        opened = open_given_model(given, suite, rows)
        judged = judge(Given(opened, given.classes, fresh=given.fresh), suite, rows, caller)
        effects = judged.evaluation.effects
        # What is kept is new by now, where that was asked for.
        wants = suite_wants(rows)
        answers = ask_model(opened, suite, real, caller.on_progress, caller.warn, _read, wanted=wants).answers
        outcomes = _outcomes(opened, answers, real, suite, given.classes, judged.words)
        measure = effects.measure
        drops.append(
            ModelDrops(opened.name, (*effects.leading_types, *effects.leading_values), _real_effects(real, outcomes))
        )
    transfers = find_transfers([_values(one.painted) for one in drops], [_values(one.real) for one in drops])
    return FieldPrediction(measure, tuple(drops), transfers, len(real), len({one.source for one in real}))


def _values(effects: Sequence[Effect]) -> dict[str, float]:
    return {effect.name: effect.value for effect in effects if effect.value is not None}


def _real_effects(pictures: Sequence[RealPicture], outcomes: Mapping[str, float]) -> tuple[Effect, ...]:
    """What conditions do within places, against plain pictures, by type and by value."""

    def effects(value: bool) -> tuple[Effect, ...]:
        answered = [
            PictureOutcome(
                one.source, one.kind, outcomes[one.file_name],
                frozenset(edit.value if value else edit.type for edit in one.edits),
            )
            for one in pictures
            if one.file_name in outcomes
        ]  # fmt: skip
        return find_effects(answered, "original")

    return (*effects(False), *effects(True))


def _outcomes(
    model: ModelUnderTest,
    answers: Mapping[str, ModelAnswer],
    real: Sequence[RealPicture],
    suite: Path,
    classes: Path | None,
    words: Vocabulary | None,
) -> dict[str, float]:
    """1 for a right label and 0 for a wrong one, or a mask's mIoU, by file name; the suite told what `words` mean."""
    if any(isinstance(answer, BoxAnswer) for answer in answers.values()):
        raise CounterfactoryError(f"{model.name} answers boxes: real pictures are compared by labels or by masks")
    masks = {one.file_name: one.mask for one in real if one.mask is not None and one.file_name in answers}
    if any(isinstance(answer, MapAnswer) != (name in masks) for name, answer in answers.items()):
        raise CounterfactoryError(
            f"{model.name} answers {'labels' if masks else 'masks'}, and the real pictures have "
            f"{'masks' if masks else 'labels'}: give the other in their table"
        )
    if masks:
        numbers = recorded_numbers(suite)
        place = renumbering(None if classes is not None else model.classes, numbers)
        maps = {name: answer.numbers for name, answer in answers.items() if isinstance(answer, MapAnswer)}
        overlaps = {
            name: _overlap(masks[name], one if place is None else place[one], numbers) for name, one in maps.items()
        }
        return {name: overlap for name, overlap in overlaps.items() if overlap is not None}
    assert words is not None, "labels were judged on the suite"
    truths = {one.file_name: one.label for one in real}
    predictions = label_predictions(answers, words, truths)
    return {name: float(prediction.label == truths[name]) for name, prediction in predictions.items()}


def _overlap(mask: Path, numbers: NDArray[Any], names: Mapping[int, str] | None) -> float | None:
    """A picture's mIoU over the suite's class numbers, or the mask's own where the suite names none."""
    truth = _load(mask, read_mask)
    if truth.shape != numbers.shape:
        raise CounterfactoryError(
            f"{mask} is {list(truth.shape)}, its picture {list(numbers.shape)}: masks fit pictures"
        )
    count = (max(names) if names else int(truth[truth != _VOID].max(initial=0))) + 1
    counted = (truth != _VOID) & (truth < count) & (numbers != UNSEEN)
    return mean_iou(confusion_matrix(truth[counted], np.minimum(numbers[counted], count), count + 1)[:count])


def _read(picture: AskedPicture) -> Picture:
    assert isinstance(picture, RealPicture), "asked about real pictures"
    pixels: Picture = _load(picture.path, read_picture)
    return pixels


def _load(path: Path, read: Any) -> Any:
    try:
        return read(read_bytes(path))
    except OSError as error:
        raise CounterfactoryError(f"cannot read {path}: {error.strerror or error}") from error
    except UnreadableError as error:
        raise CounterfactoryError(f"{path}: {error}") from error
