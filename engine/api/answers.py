"""A model's answers as a caller names them, read and judged: a table, a folder of masks, scores in an array, labels by
picture, a data frame, or the model itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from unicodedata import normalize

import numpy as np

from ..asking.ask import ask_model
from ..asking.callables import wrap_callable
from ..asking.one_channel import tell_channel
from ..asking.opening_models import names_model, open_model
from ..asking.outputs import ANYTHING, UNSEEN, BoxAnswer, LabelAnswer, MapAnswer, ModelAnswer, ScoreAnswer, Wanted
from ..asking.score_scale import tell_scale
from ..asking.under_test import ModelUnderTest
from ..errors import CounterfactoryError
from ..files.reading import read_text
from ..judging.answer_census import pair_sources, settle_words
from ..judging.answer_labels import IMAGE_FOLDER, SET_NUMBERS, Vocabulary, read_names, read_vocabulary
from ..judging.box_census import BoxEvidence, box_notes, settle_boxes
from ..judging.detections import SURE, SeenBox, evaluate_boxes
from ..judging.evaluate import evaluate_labels, evaluate_masks
from ..judging.evaluation import Evaluation
from ..judging.failures import label_failures, mask_failures
from ..judging.mask_answers import AnswerTally, compare_masks, read_class_mask
from ..judging.order import VariantAnswer, fall_answers, label_answers
from ..judging.predictions import (
    COLUMNS,
    Prediction,
    Predictions,
    RowPredictions,
    load_predictions,
    match_predictions,
    read_predictions,
)
from ..report.album import add_scores
from ..sources.boxes import BoxForm
from ..sources.class_map import VOID
from ..sources.labels import label_text
from ..suite import PictureRow
from ..suite.images import open_png
from ..suite.paths import Folder
from ..suite.recorded import recorded_classes, recorded_numbers
from . import model_answers
from .box_files import json_boxes
from .networks_at_hand import CaptionEmbedding
from .options import AnyPath, Caller

# Names that a warning shows.
_SHOWN = 5
# What answers are called, and what of a suite judges them.
_KINDS: Mapping[type[ModelAnswer], tuple[str, Wanted]] = MappingProxyType(
    {
        BoxAnswer: ("boxes", "boxes"),
        MapAnswer: ("class maps", "maps"),
        ScoreAnswer: ("scores of classes", "labels"),
        LabelAnswer: ("labels", "labels"),
    }
)
# Originals of which nothing is said of chance.
_FEW = 20
# Files that say of a number what it stands for, as lines alone do not.
_NAMED = (".json", ".toml", ".yaml", ".yml", ".pbtxt")


@dataclass(frozen=True)
class Judged:
    """What the answers come to; `answers[i]` is the one to row i of a table's rows, None without one. A folder of masks
    has none. `notes` say how a model was asked; `name` is what the caller calls what answered, `digest` names all the
    answers of a model that was asked, `words` say what labels and numbers stand for.
    """

    rows: Sequence[PictureRow]
    evaluation: Evaluation
    answers: tuple[Prediction | None, ...] | None
    notes: tuple[str, ...] = ()
    name: str = ""
    digest: str = ""
    words: Vocabulary | None = None

    def scored_rows(self) -> list[PictureRow]:
        """The rows, with what the answers say of single pictures among their scores: confidence, or picture mIoU."""
        if self.answers is None:
            return add_scores(self.rows, self.evaluation.effects.measure, self.evaluation.outcomes)
        given = zip(self.rows, self.answers, strict=True)
        sure = {row.file_name: answer.confidence for row, answer in given if answer is not None}
        known = {name: confidence for name, confidence in sure.items() if confidence is not None}
        return add_scores(self.rows, "confidence", known)

    def failures(self) -> str:
        """The pictures that the model fails on, as CSV."""
        if self.answers is None:
            return mask_failures(self.rows, self.evaluation)
        return label_failures(self.rows, self.answers)

    def variant_answers(self) -> dict[str, VariantAnswer]:
        """How variants are answered, by `file_name`."""
        if self.answers is None:
            return fall_answers(self.rows, self.evaluation)
        return label_answers(self.rows, self.answers)


@dataclass(frozen=True)
class Given:
    """What a caller names, and how to read it: `classes` is a file that names a model's, or masks', numbers, or
    `IMAGE_FOLDER`; `preprocess` declares how pictures become a model's input, and `output` names the one that is its
    answer. With `fresh` what is kept of its answers is asked anew.
    """

    model: Any
    classes: Path | None = None
    preprocess: str | None = None
    output: str | None = None
    fresh: bool = False

    def require_model(self) -> None:
        """Raises CounterfactoryError for what is said of a model, where its answers are given."""
        uses = {
            "--preprocess says how pictures become a model's input": self.preprocess,
            "--output names one of a model's outputs": self.output,
            "--fresh asks a model anew": self.fresh,
        }
        for use, value in uses.items():
            if value:
                raise CounterfactoryError(f"{use}: give it with --model")


@dataclass(frozen=True)
class _Judging:
    """What answers are held against: the pictures of a suite's `rows`, and the file `classes`. `caller` is warned, and
    `embed` compares captions.
    """

    suite: Path
    rows: Sequence[PictureRow]
    classes: Path | None
    caller: Caller
    embed: CaptionEmbedding

    def composed(self) -> _Judging:
        """With labels in the form that answers are read in."""
        return replace(
            self,
            rows=[row if row.label is None else replace(row, label=normalize("NFC", row.label)) for row in self.rows],
        )


def judge(given: Given, suite: Path, rows: Sequence[PictureRow], caller: Caller) -> Judged:
    """Judge the answers that are given: a path to a table, to an array or to a folder of masks, of which `classes`
    names the numbers (without it the suite's record does; for labels see `read_vocabulary`); a mapping of pictures'
    `file_name` to labels; a data frame with the columns of such a table, or `file_name` in the place of `image`; an
    array of scores; or a model: its name (see `open_model`) or a callable.

    Warns of what is left out. Raises CounterfactoryError for answers that cannot be read or do not fit the suite.
    """
    embed = CaptionEmbedding(suite)
    judged = _judge(given, _Judging(suite, rows, given.classes, caller, embed))
    grouped = (f"edits are grouped by {embed.by}",) if embed.by is not None else ()
    return replace(judged, notes=(*judged.notes, *grouped))


def _judge(given: Given, on: _Judging) -> Judged:
    model = given.model
    named = _as_model(given, on.rows, on.suite)
    if named is not None:
        return _ask(named, on, given.fresh)
    path = Path(model) if isinstance(model, (str, PathLike)) else None
    name = model_answers.GIVEN if path is None else str(path)
    if path is not None and path.is_dir():
        return replace(_judge_masks(path, on), name=name)
    listed = model_answers.json_predictions(path) if path is not None and path.suffix == ".json" else None
    if path is not None and path.suffix == ".json" and listed is None:
        return replace(_judge_boxes(*json_boxes(path, on.rows, on.caller.warn), None, name, on), name=name)
    scores = model_answers.array_answers(model if path is None else path, on.rows, on.caller.warn)
    if scores is not None:
        return replace(_judge_scores(scores, None, name, on), name=name)
    table = listed or (load_predictions(path) if path is not None else _given(model))
    if path is not None and table.ignored:
        on.caller.warn(f"{path}: columns that are not read: {_some(table.ignored)}")
    on = on.composed()
    matched = match_predictions(table.answers, on.rows, table.digests)
    if matched.unmatched:
        first, more = matched.unmatched[0], len(matched.unmatched) - 1
        which = f"{first}, {more} more like it: their predictions are" if more else f"{first}: its prediction is"
        on.caller.warn(f"no picture of the suite is called {which} not counted")
    vocabulary = read_vocabulary(on.suite, on.rows, on.classes)
    pairs, record = pair_sources(on.rows, matched.labels), recorded_numbers(on.suite) or {}
    vocabulary, notes = settle_words(name, vocabulary, pairs, record, declared=on.classes is not None)
    matched = replace(matched, answers=tuple(answer and vocabulary.settle(answer) for answer in matched.answers))
    return replace(_judge_labels(matched, vocabulary, on), name=name, notes=notes)


def open_given_model(given: Given, suite: Path, rows: Sequence[PictureRow]) -> ModelUnderTest:
    """The model under test. Raises CounterfactoryError where answers are given in its place."""
    if (model := _as_model(given, rows, suite)) is None:
        raise CounterfactoryError(f"{given.model} is no model that can be asked: give one as evaluate --model takes it")
    return model


def _as_model(given: Given, rows: Sequence[PictureRow], suite: Path) -> ModelUnderTest | None:
    """The model under test; None where answers are given."""
    model = given.model
    if isinstance(model, ModelUnderTest):
        return model
    if isinstance(model, (str, PathLike)) and names_model(str(model)):
        labels = sorted({row.label for row in rows if row.label is not None})
        if given.classes is not None and str(given.classes) != IMAGE_FOLDER:
            labels = class_names(given.classes, suite) or []
        return open_model(str(model), given.preprocess, labels, given.output, suite_wants(rows))
    if isinstance(model, (Mapping, str, PathLike)) or hasattr(model, "columns") or not callable(model):
        given.require_model()
        return None
    return wrap_callable(model, given.preprocess, given.output)


def suite_wants(rows: Sequence[PictureRow]) -> frozenset[Wanted]:
    """What answers to a suite's pictures can be judged by."""
    has: dict[Wanted, bool] = {
        "labels": any(row.label is not None for row in rows),
        "maps": any(row.mask is not None for row in rows),
        "boxes": any(row.boxes for row in rows),
    }
    return frozenset(kind for kind, there in has.items() if there) or ANYTHING


def _ask(model: ModelUnderTest, on: _Judging, fresh: bool) -> Judged:
    """Ask the model about the suite's pictures, and judge what it answers."""
    wants, caller = suite_wants(on.rows), on.caller
    examine = partial(_examine, model, on.composed(), wants)
    asked = ask_model(
        model, on.suite, on.rows, caller.on_progress, caller.warn, wanted=wants, fresh=fresh, examine=examine
    )
    kept = f", {asked.kept} of {len(asked.answers)} answers were kept" if asked.kept else ""
    if model.digest is None:
        kept = f", answers are not kept: whether its {model.unknown or 'code'} is the same again cannot be told"
    reading = ", ".join(filter(None, (f"input {model.input}", model.outputs, asked.rule)))
    notes = (f"{model.name}: {reading}{kept}",)
    kind = _kind(model, asked.answers)
    if asked.rule:
        _require_two(model, kind, on)
    if kind is BoxAnswer:
        judged = _judge_boxes(model_answers.seen_boxes(asked.answers), "corners", model, model.name, on)
    elif kind is MapAnswer:
        numbers = recorded_numbers(on.suite)
        with TemporaryDirectory() as folder:
            model_answers.write_maps(
                Path(folder), asked.answers, None if on.classes is not None else model.classes, numbers
            )
            judged = _judge_masks(Path(folder), on, model.name)
    else:
        judged = _judge_scores(asked.answers, model, model.name, on)
    return replace(judged, notes=(*notes, *judged.notes), name=model.name, digest=asked.digest)


def _kind(model: ModelUnderTest, answers: Mapping[str, ModelAnswer]) -> type[ModelAnswer]:
    """The one kind of answer that a model gives. Raises CounterfactoryError for several."""
    kinds = {type(answer) for answer in answers.values()}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__.removesuffix("Answer").lower() for kind in kinds))
        raise CounterfactoryError(f"{model.name} gives pictures answers of different kinds: {names}")
    return kinds.pop() if kinds else LabelAnswer


def _examine(model: ModelUnderTest, on: _Judging, wants: frozenset[Wanted], answers: Mapping[str, ModelAnswer]) -> None:
    """Refuse what no further answer could mend, by the first answers, which are of all labels."""
    kind = _kind(model, answers)
    if (channel := tell_channel(answers)) is not None:
        if channel.text:
            _require_two(model, kind, on)
        answers = {picture: channel.settle(answer) for picture, answer in answers.items()}
    name, given = _KINDS[kind]
    if given not in wants:
        has = " and ".join(sorted(wants))
        raise CounterfactoryError(
            f"{model.name} answers {name}, and this suite has {has} to judge by: ask another model"
        )
    if kind is MapAnswer:
        return
    if kind is BoxAnswer:
        called = (on.suite, on.rows, on.classes, model.classes, model.named_by)
        vocabulary = read_vocabulary(*called, of_boxes=True)
        seen = model_answers.seen_boxes(answers).values()
        labels = [vocabulary.settle_text(box.label) for some in seen for box in some if box.score >= SURE]
        labels = [label for label in labels if not label.isdigit()]  # of numbers all answers are needed
    elif all(row.label is None or row.label.isdigit() for row in on.rows):
        return  # the same
    else:
        vocabulary, _ = _read_classes(answers, model, model.name, on)
        labels = [one.label for one in model_answers.label_predictions(answers, vocabulary, {}).values()]
    if 2 * sum(not vocabulary.knows(label) for label in labels) > len(labels):
        vocabulary.require_known(labels)


def _require_two(model: ModelUnderTest, kind: type[ModelAnswer], on: _Judging) -> None:
    """Raise CounterfactoryError for a suite of more than the two classes that one channel tells apart."""
    classes: set[Any] = {row.label for row in on.rows} - {None}
    if kind is MapAnswer and (classes := set(recorded_numbers(on.suite) or ())) == set():
        inside = Folder(on.suite)
        masks = [read_class_mask(inside.path(row.mask)) for row in on.rows[:_FEW] if row.mask is not None]
        classes = {number for mask in masks for number in np.unique(mask).tolist()} - {VOID}
    if len(classes) > 2:
        of = "pixel" if kind is MapAnswer else "picture"
        raise CounterfactoryError(
            f"{model.name} gives one number for a {of}, which tells two classes apart, and the suite has "
            f"{len(classes)}: ask for another output (--output), or another model"
        )


def _judge_masks(folder: Path, on: _Judging, name: str = "") -> Judged:
    tally, lines = AnswerTally(folder, on.suite, name, UNSEEN), class_names(on.classes, on.suite)
    names = recorded_numbers(on.suite) if on.classes is None else dict(enumerate(lines or ()))
    evaluation = evaluate_masks(on.rows, *compare_masks(folder, on.suite, on.rows, names, tally), on.embed)
    tally.settle(on.caller.warn)
    return Judged(on.rows, evaluation, None, tally.notes())


def _judge_boxes(
    seen: Mapping[str, tuple[SeenBox, ...]], form: BoxForm, model: ModelUnderTest | None, name: str, on: _Judging
) -> Judged:
    """Judge boxes, whose numbers were read by a form; a class number is said by the model's own names, or those of
    `classes`, or the set's.
    """
    own = None if model is None else model.classes
    by = "the model" if model is None else model.named_by
    vocabulary = read_vocabulary(on.suite, on.rows, on.classes, own, by, of_boxes=True)
    if lacking := vocabulary.missing():
        on.caller.warn(f"{vocabulary.listed} lacks labels of the suite, which no answer can name: {_some(lacking)}")
    counted = {row.file_name: seen[row.file_name] for row in on.rows if row.accepted and row.file_name in seen}
    counted, notes = settle_boxes(name, on.rows, counted, form, partial(_size, Folder(on.suite)))
    pairs, record = BoxEvidence(on.rows, counted).labels(), recorded_numbers(on.suite) or {}
    vocabulary, more = settle_words(name, vocabulary, pairs, record, of_boxes=True)
    boxes = {
        picture: tuple(replace(box, label=vocabulary.settle_text(box.label)) for box in some)
        for picture, some in counted.items()
    }
    called = [box.label for some in boxes.values() for box in some if box.score >= SURE]
    strange = vocabulary.require_known(called)
    by_set = vocabulary.listed == SET_NUMBERS and not any(label.isdigit() for _, label in pairs)
    note = (f"{name}: classes by {vocabulary.listed}",) if vocabulary.listed and not by_set else ()
    judged = replace(evaluate_boxes(on.rows, boxes, on.embed, vocabulary.of_set), strange=strange)
    return Judged(on.rows, judged, None, (*notes, *note, *more, *box_notes(name, boxes)))


def _size(suite: Folder, name: str) -> tuple[int, int]:
    """The (height, width) of a picture."""
    width, height = open_png(suite.path(name), lambda image: image.size)
    return height, width


def _judge_scores(answers: Mapping[str, ModelAnswer], model: ModelUnderTest | None, name: str, on: _Judging) -> Judged:
    """Judge scores of classes, or labels; what the classes are is said in a note."""
    on = on.composed()
    vocabulary, notes = _read_classes(answers, model, name, on)
    predictions = model_answers.label_predictions(answers, vocabulary, {row.file_name: row.label for row in on.rows})
    judged = _judge_labels(match_predictions(predictions, on.rows), vocabulary, on)
    if model is not None:
        size = max((len(answer.scores) for answer in answers.values() if isinstance(answer, ScoreAnswer)), default=0)
        notes += _chance(judged.evaluation, max(size, len(vocabulary.labels)))
    return replace(judged, notes=notes)


def _read_classes(
    answers: Mapping[str, ModelAnswer], model: ModelUnderTest | None, name: str, on: _Judging
) -> tuple[Vocabulary, tuple[str, ...]]:
    """What the labels, or the numbers of scores, are called, and sentences on that."""
    own = None if model is None else model.classes
    vocabulary = read_vocabulary(on.suite, on.rows, on.classes, own, "the model" if model is None else model.named_by)
    sizes = {len(answer.scores) for answer in answers.values() if isinstance(answer, ScoreAnswer)}
    if len(sizes) > 1:
        raise CounterfactoryError(
            f"{name} gives {' and '.join(map(str, sorted(sizes)))} scores for pictures: give one per class"
        )
    size, declared = max(sizes, default=None), own is not None or on.classes is not None
    # With one score more the first may be of the background.
    if size is not None and not vocabulary.numbers and size - len(vocabulary.folders) in (0, 1):
        vocabulary = read_vocabulary(on.suite, on.rows, Path(IMAGE_FOLDER))
    pairs = pair_sources(on.rows, [_top(answers.get(row.file_name)) for row in on.rows])
    record = recorded_numbers(on.suite) or {}
    vocabulary, notes = settle_words(name, vocabulary, pairs, record, size=size, declared=declared)
    if size is not None:
        return vocabulary, (_order(vocabulary, size, name), f"{name}: {tell_scale(answers.values()).text}", *notes)
    return vocabulary, notes if vocabulary.listed is None else (f"{name}: classes by {vocabulary.listed}", *notes)


def _top(answer: ModelAnswer | None) -> str | None:
    """What an answer says of a picture, in the model's own words."""
    if isinstance(answer, ScoreAnswer):
        return str(int(answer.scores.argmax()))
    return label_text(answer.label) if isinstance(answer, LabelAnswer) else None


def _chance(evaluation: Evaluation, classes: int) -> tuple[str, ...]:
    """The warning that a model guesses on the originals, by the guesses' own spread: mostly it was asked wrongly."""
    score = evaluation.originals.score
    luck = 1 / max(2, classes)
    if score.value is None or score.count < _FEW or score.value > luck + 2 * (luck * (1 - luck) / score.count) ** 0.5:
        return ()
    return (
        f"warning: right on {100 * score.value:.1f} % of the originals, which is no better than chance: check how "
        "pictures become the model's input (--preprocess) and the names of its classes (--classes): other orders "
        "of them, and numbers from 1, are no better",
    )


def _order(vocabulary: Vocabulary, size: int, name: str) -> str:
    """What the classes of so many scores are. Raises CounterfactoryError where that is not known, or does not fit."""
    if not vocabulary.numbers or (vocabulary.listed is None and size > vocabulary.numbers):
        raise CounterfactoryError(
            f"{name} gives {size} scores for a picture, and the suite's set has {len(vocabulary.folders)} labels: name "
            "what they are of by --classes FILE (a name on each line, or JSON)"
        )
    where = vocabulary.listed or f"ImageFolder's order: {_some(vocabulary.folders)}"
    if size < vocabulary.numbers:
        raise CounterfactoryError(
            f"{name} gives {size} scores for a picture, too few for the {vocabulary.numbers} classes of "
            f"{vocabulary.listed or 'the suite'}: name its own classes by --classes FILE (a name on each line, or JSON)"
        )
    return f"{name}: classes 0 to {size - 1} by {where}"


def _judge_labels(matched: RowPredictions, vocabulary: Vocabulary, on: _Judging) -> Judged:
    """Judge predictions that are in the labels' words."""
    if str(on.classes) == IMAGE_FOLDER:
        on.caller.warn(f"answers' numbers from 0 are ImageFolder's: {_some(vocabulary.folders)}")
    if lacking := vocabulary.missing():
        on.caller.warn(f"{vocabulary.listed} lacks labels of the suite, which no answer can name: {_some(lacking)}")
    counted = zip(on.rows, matched.labels, strict=True)
    strange = vocabulary.require_known([label for row, label in counted if row.accepted and label is not None])
    evaluation = evaluate_labels(on.rows, matched.labels, matched.measures(on.rows), on.embed)
    return Judged(on.rows, replace(evaluation, strange=strange), matched.answers, words=vocabulary)


def _given(predictions: Any) -> Predictions:
    """Answers that are no file."""
    if isinstance(predictions, Mapping):
        return model_answers.labelled(predictions)
    if hasattr(predictions, "columns") and hasattr(predictions, "to_dict"):
        return _framed(predictions)
    raise CounterfactoryError(
        "predictions are a path, a mapping of file_name to label, a data frame with the columns "
        f"{' and '.join(COLUMNS)}, an array, or a model that takes pictures and returns labels; got a "
        f"{type(predictions).__name__}"
    )


def _framed(frame: Any) -> Predictions:
    """The answers in a data frame; cells without a value are left out."""
    if "image" not in frame.columns and "file_name" in frame.columns:
        frame = frame.rename(columns={"file_name": "image"})
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise CounterfactoryError(f"the data frame of predictions lacks the column {missing[0]!r}")
    rows = (
        (f"{model_answers.GIVEN}, row {number}", {name: model_answers.plain_cell(value) for name, value in row.items()})
        for number, row in enumerate(frame.to_dict("records"))
    )
    return read_predictions(rows, model_answers.GIVEN)


def class_names(classes: AnyPath | None, suite: Path) -> list[str] | None:
    """The names of masks' numbers 0, 1, ...: the lines of the file `classes`, without one those in the suite's record;
    None where neither has any.
    """
    if classes is None:
        return recorded_classes(suite)
    if Path(classes).suffix.lower() in _NAMED:
        names = read_names(Path(classes))
        return [names.get(number, str(number)) for number in range(max(names) + 1)]
    return [line for line in read_text(Path(classes)).split("\n") if line.strip()]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" and so on" if len(names) > _SHOWN else "")
