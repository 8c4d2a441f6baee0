"""Judges a detector: AP as COCO measures it, by pycocotools, and what edits do to the recall of single pictures.

From the boxes that a suite carried over and those that a model gave it makes an `Evaluation`. AP is of a set of
pictures and has no value for one, so edits are compared by what a picture has: the share of its things that are found,
and the share of the model's boxes that show nothing, both of boxes that the model is sure of and that overlap by half.
What the set ignores, and boxes of classes that it does not label, count in neither.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from ..packages import missing_package
from ..sources.shapes import Box
from ..suite import PictureRow
from ..variant import COMPARED, Kind
from .baselines import Names
from .effects import correct
from .evaluate import edit_types, edit_values, effects_of, evaluation_of, measure_of
from .evaluation import BoxScore, Effects, Evaluation, MeanScore, Measure, Side
from .insights import Embed, bags_of_words, find_insights
from .precision import precision_change, sort_matches
from .predictions import find_unanswered, require_answers

# Boxes of which a picture's recall and false alarms are: at least so sure, and so much of a thing's box.
SURE, OVERLAP = 0.5, 0.5
_MOST_BOXES = 100
# Of a pixel.
_DIGITS = 9
_KINDS: Mapping[Kind, str] = {"original": "originals", "control": "controls", "variant": "variants"}
_NONE = Effects(None, None, (), (), (), (), ())


@dataclass(frozen=True)
class SeenBox:
    """A box (x0, y0) to (x1, y1) in a picture's pixels that a model called `label`, and how sure it is, 0..1."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float
    label: str


def evaluate_boxes(
    rows: Sequence[PictureRow],
    answers: Mapping[str, Sequence[SeenBox]],
    embed: Embed = bags_of_words,
    named: Collection[str] = (),
) -> Evaluation:
    """Judge a detector by its boxes of pictures, by `file_name`; a picture without an entry is left out, one without
    boxes has an empty one. Classes are those of the suite's things; of others that the set has `named`, boxes are false
    alarms, and of all others they are counted in `unlabelled`. Rejected pictures are left out. Raises
    CounterfactoryError where the suite has no things, or pycocotools is not installed.
    """
    classes = tuple(sorted({box.label for row in rows for box in row.things}))
    if not classes:
        raise CounterfactoryError("this suite has no boxes: make one of a set with boxes (--task detection)")
    answered = [row.file_name in answers for row in rows]
    require_answers(rows, answered, "boxes", "; name pictures as metadata.parquet does")
    used = [row for row in rows if row.accepted and row.file_name in answers]
    seen = {box.label for row in used for box in answers[row.file_name]}
    counted = (*classes, *sorted(seen & set(named) - set(classes)))
    coco = _Coco(used, answers, classes, counted)
    sides = {kind: coco.score(_KINDS[kind], [row.kind == kind for row in used]) for kind in COMPARED}

    def side(kind: Kind) -> Side:
        score, by_class = sides[kind]
        return Side(MeanScore(score.pictures, score.ap), by_class, ())

    def measure(name: str, value: Callable[[BoxScore], float | None]) -> Measure:
        one, other, last = (MeanScore(sides[kind][0].pictures, value(sides[kind][0])) for kind in COMPARED)
        return Measure(name, one, other, last, _NONE)

    recalls, alarms = coco.outcomes()
    effects = effects_of(recalls, "recall")
    return evaluation_of(
        rows,
        side,
        recalls,
        measure="AP",
        classes=classes,
        effects=effects,
        sources=len({row.source for row in used if row.kind == "variant"}),
        measures=(
            measure("AP50", lambda score: score.ap50),
            measure("AR", lambda score: score.ar),
            measure_of("false alarms", alarms, effects_of(alarms, "false alarms")),
        ),
        unanswered=find_unanswered(rows, answered),
        boxes=tuple(score for names in (edit_types, edit_values) for score in coco.by_edit(names, effects)),
        insights=find_insights(coco.by_class(), effects.against, embed, "recall"),
        unlabelled=_count_sure(used, answers, seen - set(counted)),
    )


def _count_sure(
    rows: Sequence[PictureRow], answers: Mapping[str, Sequence[SeenBox]], classes: Collection[str]
) -> dict[str, int]:
    """How many boxes a model is sure of, by class, the commonest first."""
    boxes = (box for row in rows for box in answers[row.file_name] if box.label in classes and box.score >= SURE)
    return dict(sorted(Counter(box.label for box in boxes).items(), key=lambda one: (-one[1], one[0])))


class _Coco:
    """COCO's evaluation of pictures: matched once, and accumulated over any of them. `classes` are those of things, and
    begin those that are `counted`.
    """

    def __init__(
        self,
        rows: Sequence[PictureRow],
        answers: Mapping[str, Sequence[SeenBox]],
        classes: Sequence[str],
        counted: Sequence[str],
    ) -> None:
        self._rows, self._classes, self._counted = rows, classes, counted
        truths, seen = [], []
        for i, row in enumerate(rows):
            # An ignored box without a label is of every class.
            truths += [(i, box, name, 1.0) for box in row.boxes for name in ([box.label] if box.label else counted)]
            seen += [(i, box, box.label, box.score) for box in answers[row.file_name]]
        coco, evaluation = (_library(name) for name in ("coco", "cocoeval"))
        numbers = {name: number for number, name in enumerate(counted, start=1)}
        with contextlib.redirect_stdout(io.StringIO()):  # it prints
            sides = []
            for boxes in (truths, seen):
                index, known = coco.COCO(), [one for one in boxes if one[2] in numbers]
                index.dataset = {
                    "images": [{"id": i} for i in range(len(rows))],
                    "categories": [{"id": number} for number in numbers.values()],
                    "annotations": [
                        _entry(k, i, box, numbers[name], sure) for k, (i, box, name, sure) in enumerate(known, start=1)
                    ],
                }
                index.createIndex()
                sides.append(index)
            self._eval = evaluation.COCOeval(*sides, iouType="bbox")
            self._eval.computeIoU = partial(_overlaps, self._eval, self._eval.computeIoU)
            params = self._eval.params
            params.areaRng, params.areaRngLbl, params.maxDets = [[0, 1e10]], ["all"], [_MOST_BOXES]
            self._eval.evaluate()
        self._matches = list(self._eval.evalImgs)
        overlaps, count = len(params.iouThrs), len(rows)
        self._sorted = [sort_matches(self._matches[k * count : (k + 1) * count], overlaps) for k in range(len(counted))]

    def score(self, name: str, chosen: Sequence[bool]) -> tuple[BoxScore, dict[str, float | None]]:
        """AP, AP50 and AR of the pictures that are `chosen`, and AP by class."""
        places = [i for i, one in enumerate(chosen) if one]
        if not places:
            return BoxScore(name, 0, None, None, None), dict.fromkeys(self._classes)
        count = len(self._rows)
        # COCO's order is by class, then by picture: of some pictures' matches it makes what it would of them alone.
        self._eval.evalImgs = [self._matches[k * count + i] for k in range(len(self._counted)) for i in places]
        self._eval.params.imgIds = self._eval._paramsEval.imgIds = places
        with contextlib.redirect_stdout(io.StringIO()):
            self._eval.accumulate()
        precision = self._eval.eval["precision"][:, :, :, 0, 0]  # overlaps, recalls, classes
        recall = self._eval.eval["recall"][:, :, 0, 0]
        by_class = {name: _mean(precision[:, :, k]) for k, name in enumerate(self._classes)}
        return BoxScore(name, len(places), _mean(precision), _mean(precision[0]), _mean(recall)), by_class

    def by_edit(self, names: Names, effects: Effects) -> Iterator[BoxScore]:
        """The scores of the variants that carry each name, alone where edits alone lead, beside the baselines that
        effects are against: of sources with both.
        """
        rows, against = self._rows, effects.against
        plain = [i for i, row in enumerate(rows) if row.kind == against]
        sources = {rows[i].source for i in plain} if against else {row.source for row in rows}
        edited: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            if row.kind == "variant" and row.source in sources and not (effects.leads_alone and len(row.edits) > 1):
                for name in names(row):
                    edited.setdefault(name, []).append(i)
        known = sorted(edited)
        changes = [precision_change(name, self._sorted, rows, edited[name], plain) for name in known if against]
        corrected = correct([change for _, change in changes])
        for at, name in enumerate(known):
            chosen = set(edited[name])
            score, _ = self.score(name, [i in chosen for i in range(len(rows))])
            yield replace(score, before=changes[at][0], change=corrected[at]) if against else score

    def _hits(self) -> Iterator[tuple[str, int, int, int, int]]:
        """By class and picture that has either: both, its things, those that are found, and boxes that show nothing."""
        for match in filter(None, self._matches):
            sure = np.array(match["dtScores"]) >= SURE
            counts = sure & ~match["dtIgnore"][0].astype(bool)
            hits = int((match["dtMatches"][0][counts] > 0).sum())
            things = int((np.array(match["gtIgnore"]) == 0).sum())
            yield self._counted[match["category_id"] - 1], match["image_id"], things, hits, int(counts.sum()) - hits

    def by_class(self) -> list[tuple[str, list[tuple[PictureRow, float]]]]:
        """Each class with the pictures that show it, and the share of its things there that are found."""
        recalls: dict[str, list[tuple[PictureRow, float]]] = {name: [] for name in self._classes}
        for name, i, things, hits, _ in self._hits():
            if things:
                recalls[name].append((self._rows[i], hits / things))
        return list(recalls.items())

    def outcomes(self) -> tuple[list[tuple[PictureRow, float]], list[tuple[PictureRow, float]]]:
        """Of pictures with things the share of these that are found, of all the share of boxes that show nothing."""
        things, hits, alarms = Counter[int](), Counter[int](), Counter[int]()
        for _, i, count, right, false in self._hits():
            things[i] += count
            hits[i] += right
            alarms[i] += false
        recalls = [(row, hits[i] / things[i]) for i, row in enumerate(self._rows) if things[i]]
        # Where no box counts none is false.
        return recalls, [(row, alarms[i] / max(1, alarms[i] + hits[i])) for i, row in enumerate(self._rows)]


def _entry(number: int, image: int, box: Box | SeenBox, category: int, sure: float) -> dict[str, Any]:
    # Rounded, sides are what they were before a corner was added to them: overlaps may be at a threshold exactly.
    width, height = (max(0.0, round(side, _DIGITS)) for side in (box.x1 - box.x0, box.y1 - box.y0))
    entry = {"id": number, "image_id": image, "category_id": category, "score": sure, "area": width * height}
    ignored = None if isinstance(box, SeenBox) else box.ignored
    # COCO's mark is for what any number of boxes may cover.
    marks = {"iscrowd": int(ignored is not None), "single": ignored == "difficult"}
    return entry | marks | {"bbox": [box.x0, box.y0, width, height]}


def _overlaps(evaluation: Any, compute: Callable[[int, int], Any], image: int, category: int) -> Any:
    """COCO's overlaps of a picture's boxes of a class: with a crowd the share of a model's box that lies in it, with a
    single thing, also where it is ignored, the share of both.
    """
    single = [truth for truth in evaluation._gts[image, category] if truth["single"]]
    for truth in single:
        truth["iscrowd"] = 0
    overlaps = compute(image, category)
    for truth in single:
        truth["iscrowd"] = 1
    return overlaps


def _library(name: str) -> Any:
    try:
        return import_module(f"pycocotools.{name}")
    except ModuleNotFoundError as error:
        raise CounterfactoryError(missing_package(error) or str(error)) from error


def _mean(values: Any) -> float | None:
    """Of what COCO measured: -1 marks what has no truth."""
    known = values[values > -1]
    return float(known.mean()) if known.size else None
