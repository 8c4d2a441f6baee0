"""Which variants to look at first: those that show the most failures that no earlier one has shown.

Of a failure it counts what fails: the class, the value of an edit, and the model's wrong answer. Models that answered
the suite say how likely each variant is to show which; a model that did not is thought to fail like them, more or less.
The order is greedy: next comes the variant with the largest expected number of failures that the variants before it
have most likely not shown (its gain; Nemhauser, Wolsey and Fisher, Math. Programming 14, 1978, bound what is lost by
greed). Where nothing was answered, it goes through classes and values evenly. Of sources that depend on each other a
variant of every group comes before a second one of any.

`apfd` says how soon an order shows failures: the average percentage of faults detected (Rothermel et al., ICSM 1999),
about 0.5 where each failure shows once and the order is drawn, 1 where all show at once.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ..suite import PictureRow
from .evaluation import Evaluation
from .failures import find_falls, list_pictures
from .predictions import Prediction

# Pictures that a rate of fewer is drawn to the next wider one by, and models that the rate counts as beside a picture's
# own answers.
_RATE, _OWN = 4.0, 1.0
# Wrong answers that nobody gave count as so many in a class, and those of the class as so many beside a picture's own.
_OTHER, _CLASS = 0.5, 0.5
_OVERALL = 0.2
_ANOTHER = ""

Failure = tuple[str, str, str]


@dataclass(frozen=True)
class VariantAnswer:
    """How a model answers a variant: how far it fails, 0..1, and its `wrong` answer, None where it is right."""

    fails: float
    wrong: str | None


def label_answers(rows: Sequence[PictureRow], answers: Sequence[Prediction | None]) -> dict[str, VariantAnswer]:
    """A classifier's answers to variants; where it says what it gives the true label, half counts of that."""
    given = {}
    for row, answer in zip(rows, answers, strict=True):
        if row.kind == "variant" and row.accepted and answer is not None:
            wrong = answer.label if answer.label != row.label else None
            fails = float(wrong is not None)
            fails = fails if answer.true is None else (fails + 1 - answer.true) / 2
            given[row.file_name] = VariantAnswer(fails, wrong)
    return given


def fall_answers(rows: Sequence[PictureRow], evaluation: Evaluation) -> dict[str, VariantAnswer]:
    """The same of masks or boxes: a variant fails as far as its outcome falls below its baseline's."""
    falls = find_falls(rows, evaluation)
    return {
        name: VariantAnswer(max(0.0, fall), evaluation.measure if fall > 0 else None) for name, fall in falls.items()
    }


@dataclass(frozen=True)
class OrderedVariant:
    """A variant in its place: how many failures it is expected to show that those before it do not, and how
    likely a model is to fail on it.
    """

    row: PictureRow
    gain: float
    risk: float


def order_variants(rows: Sequence[PictureRow], models: Sequence[Mapping[str, VariantAnswer]]) -> list[OrderedVariant]:
    """The accepted variants in the order to look at them; `models` are the answers of each, by `file_name`."""
    variants = sorted((row for row in rows if row.kind == "variant" and row.accepted), key=lambda row: row.file_name)
    risks = _risks(variants, models)
    shares = _shares(variants, models)
    shows = list[dict[Failure, float]]()
    for row, risk, of in zip(variants, risks, shares, strict=True):
        failures = product([_class(row)], dict.fromkeys(edit.value for edit in row.edits), of)
        shows.append({failure: risk * of[failure[2]] for failure in failures})
    left: dict[Failure, float] = defaultdict(lambda: 1.0)

    def gain(i: int) -> float:
        return sum(chance * left[failure] for failure, chance in shows[i].items())

    grouped, seen = any(row.unit != row.source for row in variants), Counter[str]()

    def place(i: int) -> tuple[int, float, float, int]:
        return seen[variants[i].unit], -gain(i), -risks[i], i

    # A gain never grows, and a group is never seen less, so that the best of old ones which is still the best is it.
    heap = [place(i) for i in range(len(variants))]
    heapq.heapify(heap)
    order = list[OrderedVariant]()
    while heap:
        i = heapq.heappop(heap)[-1]
        now = place(i)
        if heap and now > heap[0]:
            heapq.heappush(heap, now)
            continue
        seen[variants[i].unit] += grouped
        order.append(OrderedVariant(variants[i], -now[1], risks[i]))
        for failure, chance in shows[i].items():
            left[failure] *= 1 - chance
    return order


def order_text(places: Sequence[OrderedVariant], answers: Mapping[str, VariantAnswer]) -> str:
    """The order as CSV, with a model's wrong answers, how likely a variant fails, and the failures that it adds."""

    def cells(row: PictureRow) -> tuple[str, ...]:
        answer, place = answers.get(row.file_name), by_file[row.file_name]
        return (answer and answer.wrong) or "", f"{place.risk:.4f}", f"{place.gain:.4f}"

    by_file = {place.row.file_name: place for place in places}
    return list_pictures([place.row for place in places], ("wrong_answer", "risk", "new_failures"), cells)


def _class(row: PictureRow) -> str:
    return row.label or ""


def _risks(variants: Sequence[PictureRow], models: Sequence[Mapping[str, VariantAnswer]]) -> list[float]:
    """How likely another model fails on each variant: as often as these did on it, on its class under its edits, on its
    edits and on all, the less the more pictures are known.
    """
    sums, counts = defaultdict[Hashable, float](float), Counter[Hashable]()
    own: list[list[float]] = []
    for row in variants:
        fails = [model[row.file_name].fails for model in models if row.file_name in model]
        own.append(fails)
        for key in (None, *(key for edit in row.edits for key in (edit.value, (_class(row), edit.value)))):
            sums[key] += sum(fails)
            counts[key] += len(fails)

    def rate(key: Hashable, wider: float) -> float:
        return (sums[key] + _RATE * wider) / (counts[key] + _RATE)

    overall = rate(None, _OVERALL)
    risks = []
    for row, fails in zip(variants, own, strict=True):
        rates = [rate((_class(row), edit.value), rate(edit.value, overall)) for edit in row.edits]
        risks.append((sum(fails) + _OWN * max(rates, default=overall)) / (len(fails) + _OWN))
    return risks


def _shares(variants: Sequence[PictureRow], models: Sequence[Mapping[str, VariantAnswer]]) -> list[dict[str, float]]:
    """What a wrong answer to each variant is likely to be: as to it, or as to its class."""
    of_class: dict[str, Counter[str]] = defaultdict(Counter)
    wrongs = []
    for row in variants:
        answers = [model[row.file_name].wrong for model in models if row.file_name in model]
        wrongs.append([answer for answer in answers if answer is not None])
        of_class[_class(row)].update(wrongs[-1])
    shares = []
    for row, wrong in zip(variants, wrongs, strict=True):
        known = of_class[_class(row)]
        weights = {answer: _CLASS * count / (known.total() + _OTHER) for answer, count in known.items()}
        weights[_ANOTHER] = _CLASS * _OTHER / (known.total() + _OTHER)
        for answer in wrong:
            weights[answer] += 1
        total = sum(weights.values())
        shares.append({answer: weight / total for answer, weight in weights.items()})
    return shares


def failures_shown(row: PictureRow, answer: VariantAnswer) -> frozenset[Failure]:
    """The failures that a variant shows of a model: none where it is right."""
    if answer.wrong is None:
        return frozenset()
    return frozenset((_class(row), edit.value, answer.wrong) for edit in row.edits)


def apfd(shown: Sequence[Iterable[Hashable]]) -> float | None:
    """How soon an order shows failures, 0 to 1; `shown` are those of each variant in its order. None where none fails.

    1 - sum(first_i) / (n m) + 1 / (2 n), with the place from 1 of the first variant that shows failure i, of m failures
    and n variants.
    """
    first: dict[Hashable, int] = {}
    for place, failures in enumerate(shown, start=1):
        for failure in failures:
            first.setdefault(failure, place)
    count = len(shown)
    return 1 - sum(first.values()) / (count * len(first)) + 1 / (2 * count) if first else None
