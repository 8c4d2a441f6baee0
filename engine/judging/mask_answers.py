"""Reads the answers of a user's segmenter: a folder with a mask for each picture of the suite.

A mask lies under the name that its picture has in the suite: images/bus/0001/….png, originals/…. Truths are the masks
that the suite carried over. Classes are the numbers that the suite's record names, or else those that occur in either;
answers in other numbers are counted, and from a tenth of the pixels on they are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError, list_some
from ..files.reading import read_bytes
from ..sources.class_map import load_class_map, published
from ..sources.pixels import UnreadableError, read_mask
from ..suite import PictureRow
from ..suite.paths import Folder
from .confusion import Counts
from .predictions import require_answers

# Pixels that no data set counts.
VOID = 255
_MOST_CLASSES = 1024
_MOST_NUMBERS = 65_536
_BLACK_WHITE = (0, 255, 65_535)
# The share of pixels with numbers that are no class from which on no figure is given.
_TOO_MANY = 0.1
_SHOWN = 5
# Maps that are turned to be looked at, and what of a class is right then at least, and more than before.
_TURNED, _RIGHT, _BETTER = 20, 0.75, 0.25
_CALLED = {"cityscapes-trainids": "Cityscapes' trainIds", "cityscapes": "Cityscapes' labelIds"}

Pair = tuple[NDArray[Any], NDArray[Any]]
Turn = Callable[[NDArray[Any]], NDArray[Any]]


def compare_masks(
    folder: Path,
    suite: Path,
    rows: Sequence[PictureRow],
    names: Mapping[int, str] | Sequence[str] | None = None,
    tally: AnswerTally | None = None,
) -> tuple[Iterator[Counts | None], tuple[str, ...]]:
    """The confusion of each row's mask with the model's, None where there is none, and the classes' names.

    Confusions are made as they are asked for: those of 100,000 pictures in 150 classes do not fit into memory. They are
    int64 [C, C], or [C, C + 1] where the model answers numbers that are no class.

    Pixels that the truth marks 255 are not counted. `names` are those of class numbers, or of 0, 1, ...; without it
    classes go by their numbers. `tally` counts what is compared, accepted pictures alone. Rejected pictures need no
    mask. Raises CounterfactoryError for masks that are missing, of another size, coloured or unreadable, and for a
    suite without masks.
    """
    if all(row.mask is None for row in rows):
        raise CounterfactoryError(
            f"{suite} has no masks: judge labels by a table of predictions, or make the suite with --masks"
        )
    masked = [row for row in rows if row.mask is not None]
    answered = [(folder / row.file_name).is_file() for row in masked]
    tally = tally or AnswerTally(folder, suite)
    require_answers(masked, answered, f"mask in {tally.name}", "; name masks as metadata.parquet names pictures")
    if names is None:
        known, highest = _numbers(_pairs(folder, suite, rows), tally.unseen)
        tally.names = {number: str(number) for number in sorted(known)}
        names = {number: str(number) for number in range(highest + 1)}
    else:
        names = names if isinstance(names, Mapping) else dict(enumerate(names))
        tally.names = names
    tally.rows = rows
    return _confusions(_pairs(folder, suite, rows), rows, sorted(names), tally), tuple(names[n] for n in sorted(names))


def _confusions(
    pairs: Iterator[Pair | None], rows: Sequence[PictureRow], classes: Sequence[int], tally: AnswerTally
) -> Iterator[Counts | None]:
    size = len(classes)
    place = np.full(_MOST_NUMBERS, size, np.intp)
    place[list(classes)] = range(size)
    for row, pair in zip(rows, pairs, strict=True):
        if pair is None:
            yield None
            continue
        truth, answer = pair[0], tally.read_white(pair[1])
        truths, answers = (np.flatnonzero(np.bincount(array.ravel())) for array in (truth, answer))
        rank_of_truth, rank_of_answer = (_ranks(numbers) for numbers in (truths, answers))
        shape = (truths.size, answers.size)
        both = rank_of_truth[truth].ravel() * answers.size + rank_of_answer[answer].ravel()
        joint = np.bincount(both, minlength=shape[0] * shape[1]).reshape(shape)
        joint, truths = joint[truths != VOID], truths[truths != VOID]
        if row.accepted:
            tally.add(truths, answers, joint)
        joint, answers = joint[:, answers != tally.unseen], answers[answers != tally.unseen]
        counts = np.zeros((size + 1, size + 1), np.int64)
        np.add.at(counts, (place[truths][:, None], place[answers][None]), joint)
        yield counts[:size] if counts[:size, size].any() else counts[:size, :size]


@dataclass
class AnswerTally:
    """How often each number of the truth was answered by each number, over all pictures, and what that says of the
    answers in `folder` to `suite` as a whole. `name` is what to call them; `unseen` marks pixels that the model was not
    shown, `names` are those of the numbers that are classes.
    """

    folder: Path
    suite: Path
    name: str = ""
    unseen: int | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    rows: Sequence[PictureRow] = ()
    _joint: Counter[tuple[int, int]] = field(default_factory=Counter)
    _white: int = 0
    _unseen: int = 0

    def __post_init__(self) -> None:
        self.name = self.name or str(self.folder)

    def read_white(self, answer: NDArray[Any]) -> NDArray[Any]:
        """The answer, where white is class 1 if there are two classes, 0 and 1, and it is black and white."""
        unseen = answer == self.unseen
        white = (answer > 1) & ~unseen
        if not set(self.names) <= {0, 1} or not white.any() or not np.isin(answer[~unseen], _BLACK_WHITE).all():
            return answer
        self._white += 1
        return np.where(unseen, answer, white.astype(answer.dtype))

    def add(self, truths: NDArray[np.intp], answers: NDArray[np.intp], joint: Counts) -> None:
        """Adds a picture: `joint[i, j]` of its pixels have the number `truths[i]` and were answered `answers[j]`."""
        for i, j in zip(*np.nonzero(joint), strict=True):
            if answers[j] == self.unseen:
                self._unseen += int(joint[i, j])
            else:
                self._joint[int(truths[i]), int(answers[j])] += int(joint[i, j])

    def notes(self) -> tuple[str, ...]:
        """Sentences on what of the pictures was looked at, and on a model that sees nothing in them."""
        seen, answers = self._joint.total(), {answer for _, answer in self._joint}
        notes = [f"{self.name} looked at {100 * seen / (seen + self._unseen):.0f} % of the pixels, which count"]
        blind = f"warning: {self.name} answers every pixel of all pictures with {self._named(min(answers, default=0))}"
        return (*notes[: self._unseen > 0], *[blind][: len(answers) == 1])

    def settle(self, warn: Callable[[str], None]) -> None:
        """Warns of numbers that are no class. Raises CounterfactoryError where these are a tenth or more, where the
        answers are right in other numbers, and where there is nothing to tell apart.
        """
        truths, answers, unnamed = Counter[int](), Counter[int](), Counter[int]()
        for (truth, answer), count in self._joint.items():
            if truth in self.names:
                truths[truth] += count
                answers[answer] += count
            else:
                unnamed[truth] += count
        shown = [self._named(number) for number in truths]
        if len(shown) < 2:
            only = f"{shown[0]} alone" if shown else "nothing"
            raise CounterfactoryError(
                f"the masks of {self.suite} show {only}, so that a model that sees nothing could be right; make the "
                "suite of masks with two classes or more, and say by --class-map what their numbers are"
            )
        if self._white:
            warn(f"{self._white} masks in {self.name} are black and white: white is read as {self._named(1)}")
        if unnamed:
            warn(f"numbers in the suite's masks that have no name are not counted: {self._shares(unnamed)}")
        strange = {number: count for number, count in answers.items() if number not in self.names}
        share, cause = sum(strange.values()) / truths.total(), self._cause(truths) or self._turned()
        if cause is None and not strange:
            return
        have = f"{self.name} has numbers that are no class of the suite in {100 * share:.1f} % of the pixels"
        listed = f"{have}: {self._shares(strange)}" if strange else f"{self.name} has other numbers than the suite"
        if cause is not None or share >= _TOO_MANY:
            classes = list_some([self._named(number) for number in sorted(self.names)], _SHOWN)
            looks = f"; they look like {cause}" if cause else "; where they are classes, name all by --classes"
            raise CounterfactoryError(f"{listed}{looks}; write the numbers of the suite's masks, {classes}")
        warn(f"{listed}; they count as wrong")

    def _cause(self, truths: Counter[int]) -> str | None:
        """What the answers' numbers are, if by other numbers they are mostly right, and by their own they are not."""

        def agree(number_of: Mapping[int, int], among: Collection[int]) -> tuple[int, int]:
            right: Counter[int] = Counter()
            for (truth, answer), count in self._joint.items():
                if truth in among:
                    right[truth] += count * (number_of.get(answer) == truth)
            return sum(2 * count > truths[truth] for truth, count in right.items()), right.total()

        most, likeliest = 0, None
        for cause, number_of in _renumberings(self.names):
            # Other classes, such as what ADE20K counts for nothing, can be right by their own numbers alone.
            among = {truth for answer, truth in number_of.items() if answer >= 0 and truth in truths}
            own, (classes, pixels) = agree({number: number for number in self.names}, among), agree(number_of, among)
            half = sum(truths[truth] for truth in among) / 2
            if classes >= 2 and classes > own[0] and pixels > max(half, own[1], most):
                most, likeliest = pixels, cause
        return likeliest

    def _turned(self) -> str | None:
        """How the maps lie, where turned so nearly all of some of them is right, and as they lie much less is."""
        turns: dict[str, Turn] = {"transposed, [W, H]": np.transpose, "upside down": np.flipud, "mirrored": np.fliplr}
        own = self._recall(np.asarray)
        best, turn = max((self._recall(turn), called) for called, turn in turns.items()) if own < _RIGHT else (0.0, "")
        return f"maps that are {turn}" if best >= max(_RIGHT, own + _BETTER) else None

    def _recall(self, turn: Turn) -> float:
        """The mean over classes of the share of pixels that is right, in some of the maps, each turned."""
        rows, right, whole = [row for row in self.rows if row.accepted], Counter[int](), Counter[int]()
        for truth, answer in islice(filter(None, _pairs(self.folder, self.suite, rows)), _TURNED):
            turned = turn(self.read_white(answer))
            if turned.shape == truth.shape:
                for counts, numbers in ((whole, truth), (right, truth[turned == truth])):
                    counts.update({n: count for n, count in enumerate(np.bincount(numbers.ravel()).tolist()) if count})
        recalls = [right[number] / count for number, count in whole.items() if number in self.names]
        return sum(recalls) / max(1, len(recalls))

    def _named(self, number: int) -> str:
        name = self.names[number]
        return name if name == str(number) else f"{number} ({name})"

    def _shares(self, counts: Mapping[int, int]) -> str:
        whole, largest = self._joint.total(), sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return list_some([f"{number} ({100 * count / whole:.1f} %)" for number, count in largest], _SHOWN)


def _renumberings(names: Mapping[int, str]) -> Iterator[tuple[str, dict[int, int]]]:
    """Other numbers that classes of these names and numbers may have, and what to call them."""
    by_name = {name.strip().lower(): number for number, name in names.items()}
    for published_name in published("class_maps"):
        its = load_class_map(published_name)
        if its.numbers:
            pairs = {
                number: by_name.get(its.names[at].lower()) for number, at in its.numbers.items() if at in its.names
            }
            called = _CALLED.get(published_name, f"the numbers of the class map {published_name}")
            yield called, {number: at for number, at in pairs.items() if at is not None}
    ordered = sorted(names)
    yield "the classes' places, counted from 0", dict(enumerate(ordered))
    yield "the classes' places, counted from 1", dict(enumerate(ordered, start=1))
    if len(ordered) > 2:
        yield "numbers spread over 0 to 255", {round(i * 255 / (len(ordered) - 1)): n for i, n in enumerate(ordered)}
    yield "numbers from 1, where the suite's are from 0", {number + 1: number for number in names}
    yield "numbers from 0, where the suite's are from 1", {number - 1: number for number in names}


def _ranks(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """The place of each number among those that occur."""
    ranks = np.zeros(int(numbers[-1]) + 1, np.intp)
    ranks[numbers] = range(numbers.size)
    return ranks


def _pairs(folder: Path, suite: Path, rows: Sequence[PictureRow]) -> Iterator[Pair | None]:
    """Each row's truth and answer, None where one is missing."""
    inside = Folder(suite)
    for row in rows:
        file = folder / row.file_name
        if row.mask is None or not file.is_file():
            yield None
            continue
        truth, answer = read_class_mask(inside.path(row.mask)), read_class_mask(file)
        if truth.shape != answer.shape:
            raise CounterfactoryError(
                f"{file} is {answer.shape[1]} x {answer.shape[0]}, its picture {truth.shape[1]} x {truth.shape[0]}: "
                "write masks at the pictures' size"
            )
        yield truth, answer


def read_class_mask(file: Path) -> NDArray[Any]:
    """The class numbers [H, W] in a mask. Raises CounterfactoryError for what is none."""
    try:
        mask = read_mask(read_bytes(file))
    except OSError as error:
        raise CounterfactoryError(f"cannot read {file}: {error.strerror or error}") from error
    except UnreadableError as error:
        raise CounterfactoryError(f"{file}: {error}") from error
    if mask.ndim != 2:
        raise CounterfactoryError(f"{file} is coloured: write class numbers, one per pixel")
    return mask


def _numbers(pairs: Iterable[Pair | None], unseen: int | None) -> tuple[set[int], int]:
    """The truths' numbers, and the highest of truths and answers; black and white answers to 0 and 1 add none."""
    truths, answers, black_white = set[int](), set[int](), set[int]()
    for pair in filter(None, pairs):
        truth, answer = (set(np.flatnonzero(np.bincount(array.ravel())).tolist()) for array in pair)
        truths |= truth - {VOID}
        answer -= {unseen}
        (black_white if answer <= set(_BLACK_WHITE) else answers).update(answer)
    highest = max(truths | answers | (set() if truths <= {0, 1} else black_white) | {0})
    if highest >= _MOST_CLASSES:
        raise CounterfactoryError(f"masks hold class {highest}; at most {_MOST_CLASSES} classes are compared")
    return truths, highest
