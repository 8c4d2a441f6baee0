"""What referees (models/referee.py) see in painted pictures, held against the labels, masks and boxes carried over.

    miou           mean IoU of the mask that a referee sees and the source's, over the classes that the source shows
    recall         how much of a class's pixels the referee sees, of the worst class; recall_NAME of each
    boxes          the share of the source's boxes that a referee finds: the same class, an IoU of half or more
    agreement      the share of the classifiers that say the source's label
    ensemble       the probability of the label, on average of the classifiers

Classes of less than a 250th of the mask are not counted: a few pixels more or less say nothing of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...english.label_names import short_name
from ...files.fill import fits
from ...models.referee import RefereeBox, Sight
from ...profile.referees import RefereeSettings
from ...schedule.overlap import in_chunks
from ...sources.shapes import Box as TrueBox
from ...sources.shapes import fit_boxes
from ...sources.source import Source, load_mask
from ...variant import Variant
from ..run import Painted, Recipe, Run, load_ahead

_LEAST_SHARE = 0.004
_LEAST_IOU = 0.5
_AHEAD = 8
_OF_LABELS = {"right", "probability"}
Opener = Callable[[RefereeSettings], Sight]


def consult_referees(run: Run, painted: Painted, open_sight: Opener) -> dict[Variant, dict[str, float]]:
    """The scores of painted pictures that make sense for their source; a referee is opened when it has work."""
    scores: dict[Variant, dict[str, float]] = {variant: {} for variant in painted}
    of_label: dict[Variant, list[Mapping[str, float]]] = {}
    with run.meter.stage("check"):
        for referee in run.profile.referees or ():
            judged = {variant: row for variant, row in painted.items() if _has_truth(variant.source, referee)}
            for variant, answer in _judge(run, judged, referee, open_sight).items():
                if referee.kind == "labels":
                    of_label.setdefault(variant, []).append(answer)
                else:
                    scores[variant] |= answer
    for variant, answers in of_label.items():
        for name, key in (("agreement", "right"), ("ensemble", "probability")):
            scores[variant][name] = round(sum(answer[key] for answer in answers) / len(answers), 6)
    return scores


def _has_truth(source: Source, referee: RefereeSettings) -> bool:
    if referee.kind == "masks":
        return source.mask_path is not None
    return bool(source.things) if referee.kind == "boxes" else _place(source.label, referee.classes) is not None


def _judge(run: Run, painted: Painted, referee: RefereeSettings, open_sight: Opener) -> dict[Variant, dict[str, float]]:
    digest, sight = referee.digest(), list[Sight]()
    keys = {v: run.keys.referee_key(row.image.sha256, v.source.key, digest) for v, row in painted.items()}

    def make(todo: list[Variant]) -> Generator[dict[Variant, dict[str, float]], None, None]:
        alike: dict[tuple[int, int], list[Variant]] = {}
        for variant in todo:
            alike.setdefault(variant.source.size, []).append(variant)
        for group in alike.values():
            pictures = load_ahead(group, lambda variant: run.suite.load_image(painted[variant]), _AHEAD)
            for part in in_chunks(pictures, referee.batch):
                if not sight:
                    with run.meter.loading(f"referee {referee.run}"):
                        sight.append(open_sight(referee))
                began = time.perf_counter()
                seen = sight[0](np.stack([pixels for _, pixels in part]))
                work = run.meter.work("check", f"referee {referee.run}")
                work.add(len(part), referee.batch, time.perf_counter() - began)
                yield {
                    variant: _scores(variant.source, pixels.shape[:2], answer, referee)
                    for (variant, pixels), answer in zip(part, seen, strict=True)
                }

    def sound(_: Variant, row: Any) -> bool:
        return fits(Mapping[str, float], row) and (referee.kind != "labels" or row.keys() >= _OF_LABELS)

    return run.recorded("check", keys, Recipe(make, sound))


def _scores(source: Source, size: tuple[int, ...], seen: Any, referee: RefereeSettings) -> dict[str, float]:
    height, width = size
    if referee.kind == "masks":
        return mask_scores(load_mask(source, (height, width)), seen, referee.classes)
    if referee.kind == "boxes":
        return box_scores(fit_boxes(source.things, *source.size, (height, width))[0], seen, referee.classes)
    place = _place(source.label, referee.classes)
    assert place is not None, "of sources with a label that the referee knows"
    return {"probability": float(seen[place]), "right": float(int(np.argmax(seen)) == place)}


def mask_scores(truth: NDArray[Any], seen: NDArray[Any], classes: Sequence[str]) -> dict[str, float]:
    """The scores of a mask [H, W]; none where the source's is in colours, or shows no class that is large enough."""
    if truth.ndim != 2:
        return {}
    shown = [c for c in range(len(classes)) if np.mean(truth == c) >= _LEAST_SHARE]
    if not shown:
        return {}
    labelled = truth < len(classes)  # pixels without a label count neither way
    both = [int(((truth == c) & (seen == c)).sum()) for c in shown]
    either = [int((((truth == c) | (seen == c)) & labelled).sum()) for c in shown]
    recalls = [hits / int((truth == c).sum()) for c, hits in zip(shown, both, strict=True)]
    scores = {"miou": float(np.mean(np.divide(both, either))), "recall": min(recalls)}
    for c, recall in zip(shown, recalls, strict=True):
        column = re.sub(r"\W+", "_", classes[c]).strip("_").lower()
        scores[f"recall_{column}"] = recall
    return {name: round(value, 6) for name, value in scores.items()}


def box_scores(truth: Sequence[TrueBox], seen: Sequence[RefereeBox], classes: Sequence[str]) -> dict[str, float]:
    """The share of boxes that are found, each by one of those that are seen; none where the crop left no box."""
    left, hits = list(seen), 0
    wanted = [box for box in truth if box.label in classes]
    for box in wanted:
        alike = [other for other in left if classes[other[4]] == box.label and _iou(box, other) >= _LEAST_IOU]
        if alike:
            left.remove(max(alike, key=lambda other: _iou(box, other)))
            hits += 1
    return {"boxes": round(hits / len(wanted), 6)} if wanted else {}


def _iou(box: TrueBox, seen: RefereeBox) -> float:
    across = min(box.x1, seen[2]) - max(box.x0, seen[0])
    down = min(box.y1, seen[3]) - max(box.y0, seen[1])
    both = max(0.0, across) * max(0.0, down)
    return both / (box.area + (seen[2] - seen[0]) * (seen[3] - seen[1]) - both)


def _place(label: str | None, classes: Sequence[str]) -> int | None:
    """The number of a label's class: by its name, or by the first of its words."""
    if label is None:
        return None
    return next((classes.index(name) for name in (label, short_name(label)) if name in classes), None)
