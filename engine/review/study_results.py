"""What a study says: how many pictures are valid, of which edits and classes, what that makes of a model's error rate,
how well the gate tells valid ones, and what each question and rater came to.

A picture is valid where people agree on the valid answer to every question that has one, and not valid where they agree
on the other answer to any. Where they agree on neither it is discarded, as long as answers are missing unfinished.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..suite import PictureRow
from ..suite.by_hand import Ruling
from .agreement import AGREE, Share, consensus, find_alpha, find_mean, find_share
from .answer_book import Rating
from .careless import RaterRecord, judge_raters
from .question_set import NUMBERS, SCALE
from .study import Slice, Study, StudyItem, slices

Outcome = Literal["valid", "invalid", "discarded", "unfinished"]


@dataclass(frozen=True)
class ReviewedPicture:
    """What people make of a variant, or of its edit number `edit`: `counts` are answers by what was asked, from yes to
    no or from 5 to 1, of the `raters`; `majority` is whether most call it valid, None where as many do not.
    """

    image: str
    edit: int | None
    outcome: Outcome
    majority: bool | None
    counts: Mapping[str, Mapping[int, int]]
    raters: tuple[str, ...]


@dataclass(frozen=True)
class Validity:
    """Of the pictures of a slice: `answered` by people, of which they agree on `valid.count`; `by_majority` counts
    those that were discarded, too.
    """

    of: str
    name: str
    answered: int
    discarded: int
    unfinished: int
    valid: Share
    by_majority: Share

    @property
    def discarded_share(self) -> float | None:
        """The share of the finished ones on which people do not agree."""
        finished = self.discarded + self.valid.count
        return self.discarded / finished if finished else None


@dataclass(frozen=True)
class QuestionResult:
    """What is answered where people agree (`share` of yes), or the mean of a scale; with `alpha` of all answers."""

    asked: str
    answers: int
    discarded: int
    share: Share
    alpha: float | None
    scale: bool


@dataclass(frozen=True)
class CorrectedError:
    """A model's `error` rate on accepted variants, and what is left of it where only valid ones count: `corrected` is
    error x validity of what is misclassified (DILLEMA, section III-C).
    """

    error: float
    pictures: int
    wrong: Share
    right: Share
    corrected: Share


@dataclass(frozen=True)
class GateResult:
    """How far the gate and people agree: `precision` is the share of accepted pictures that is valid, `recall` the
    share of valid ones that is accepted, None where no rejected picture was drawn.
    """

    precision: Share
    recall: Share | None


@dataclass(frozen=True)
class StudyResults:
    """All of it; `gone` pictures are answered and no longer in the suite, `remarks` are raters' own words: who, on what
    picture, to which question, and what.
    """

    pictures: tuple[ReviewedPicture, ...]
    validity: tuple[Validity, ...]
    questions: tuple[QuestionResult, ...]
    raters: tuple[RaterRecord, ...]
    left_out: tuple[str, ...]
    gate: GateResult | None
    corrected: CorrectedError | None
    gone: int
    notes: tuple[str, ...] = ()
    remarks: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True)
class SuiteFacts:
    """What results are held against: the suite's `rows`; whether the gate accepts a variant, by its scores alone; and
    whether a model answers it wrongly.
    """

    rows: Sequence[PictureRow]
    gate: Mapping[str, bool]
    wrong: Mapping[str, bool] | None = None


def find_results(
    study: Study, ratings: Sequence[Rating], facts: SuiteFacts, agree: float = AGREE, without: Iterable[str] = ()
) -> StudyResults:
    """What the answers come to, without those of some raters ("careless": of all that are)."""
    records = judge_raters(study, ratings)
    asked = set(without)
    left_out = {one.rater for one in records if one.rater in asked or (one.careless and "careless" in asked)}
    by_item = defaultdict[int, list[Rating]](list)
    for one in ratings:
        if one.rater not in left_out:
            by_item[one.item].append(one)
    rows = {row.file_name: row for row in facts.rows if row.kind == "variant"}
    there = {item.number for item in study.present(rows)}
    items = [item for item in study.items if item.kind == "variant" and by_item[item.number]]
    pictures = [_review(study, item, by_item[item.number], agree) for item in items if item.number in there]
    gone = len(items) - len(pictures)
    noted = [(item, one) for item in items if item.number in there for one in by_item[item.number] if one.note]
    return StudyResults(
        tuple(pictures),
        tuple(_validities(pictures, rows, facts)),
        tuple(_question_results(study, pictures, by_item, rows, agree)),
        tuple(records),
        tuple(sorted(left_out)),
        _gate(pictures, rows, facts.gate),
        _correct(pictures, rows, facts.wrong),
        gone,
        tuple(_notes(study, records, left_out, gone)),
        tuple((one.rater, item.image, one.asked, one.note) for item, one in noted),
    )


def _review(study: Study, item: StudyItem, answers: Sequence[Rating], agree: float) -> ReviewedPicture:
    values = defaultdict[str, list[int]](list)
    for one in answers:
        values[one.asked].append(one.value)
    outcomes, most = list[Outcome](), list[float]()
    for asked in item.asks:
        if (right := study.questions.question(asked).valid) is None:
            continue
        valid, given = NUMBERS[right], values[asked]
        agreed = consensus(given, study.plan.per_picture, agree)
        if agreed is not None:
            outcomes.append("valid" if agreed == valid else "invalid")
        else:
            outcomes.append("unfinished" if len(given) < study.plan.per_picture else "discarded")
        most.append(given.count(valid) / len(given) if given else 0.5)
    order: tuple[Outcome, ...] = ("invalid", "unfinished", "discarded", "valid")
    outcome: Outcome = next((one for one in order if one in outcomes), "unfinished")
    least = min(most, default=0.5)
    counts = {asked: dict(sorted(Counter(values[asked]).items(), reverse=True)) for asked in item.asks}
    raters = tuple(sorted({one.rater for one in answers}))
    return ReviewedPicture(item.image, item.edit, outcome, None if least == 0.5 else least > 0.5, counts, raters)


def _validities(
    pictures: Sequence[ReviewedPicture], rows: Mapping[str, PictureRow], facts: SuiteFacts
) -> Iterable[Validity]:
    """Of all, by verdict of the gate, by the model's answer, and by each slice, those of the least validity first."""
    wrong = facts.wrong or {}
    answer = {True: ["misclassified"], False: ["rightly classified"]}
    groups: dict[str, Callable[[ReviewedPicture], Sequence[str]]] = {
        "all": lambda _: ["all"],
        "gate": lambda one: ["accepted" if facts.gate.get(one.image) else "rejected"],
        "model": lambda one: answer[wrong[one.image]] if one.image in wrong else [],
        "type": lambda one: _slices(one, rows[one.image], "type"),
        "value": lambda one: _slices(one, rows[one.image], "value"),
        "class": lambda one: _slices(one, rows[one.image], "class"),
    }
    for of, names in groups.items():
        members = defaultdict[str, list[ReviewedPicture]](list)
        for one in pictures:
            for name in names(one):
                members[name].append(one)
        group = [_validity(of, name, some, rows) for name, some in members.items()]
        yield from sorted(group, key=lambda one: (2.0 if one.valid.value is None else one.valid.value, one.name))


def _slices(one: ReviewedPicture, row: PictureRow, by: Slice) -> list[str]:
    """A picture is in the slices of all its edits, a text edit in its own."""
    if one.edit is None or by == "class":
        return slices(row, by)
    edit = row.edits[one.edit]
    return [edit.type if by == "type" else edit.value]


def _validity(of: str, name: str, pictures: Sequence[ReviewedPicture], rows: Mapping[str, PictureRow]) -> Validity:
    counts = Counter(one.outcome for one in pictures)
    finished = [one for one in pictures if one.outcome != "unfinished" and one.majority is not None]
    majority = find_share((rows[one.image].unit, one.majority is True) for one in finished)
    valid, left = _valid_share(pictures, rows), (counts["discarded"], counts["unfinished"])
    return Validity(of, name, len(pictures), *left, valid, majority)


def _valid_share(pictures: Iterable[ReviewedPicture], rows: Mapping[str, PictureRow]) -> Share:
    return find_share(
        (rows[one.image].unit, one.outcome == "valid") for one in pictures if one.outcome in ("valid", "invalid")
    )


def _question_results(
    study: Study,
    pictures: Sequence[ReviewedPicture],
    by_item: Mapping[int, Sequence[Rating]],
    rows: Mapping[str, PictureRow],
    agree: float,
) -> Iterable[QuestionResult]:
    kept = {(one.image, one.edit) for one in pictures}
    items = [item for item in study.items if item.kind == "variant" and (item.image, item.edit) in kept]
    answers = defaultdict[str, dict[str, dict[str, int]]](lambda: defaultdict(dict))
    source = {str(item.number): rows[item.image].unit for item in items}
    for item in items:
        for one in by_item[item.number]:
            answers[one.asked][str(item.number)][one.rater] = one.value
    order = {one.name: place for place, one in enumerate(study.questions.questions)}
    for asked in sorted(answers, key=lambda asked: (order[asked.partition(":")[0]], asked)):
        units, scale = answers[asked], study.questions.question(asked).kind == "scale"
        given, discarded = sum(map(len, units.values())), 0
        if scale:
            means = [(source[unit], sum(of.values()) / len(of)) for unit, of in units.items()]
            share = find_mean(means, SCALE[0], SCALE[-1])
        else:
            agreed = {unit: consensus([*of.values()], study.plan.per_picture, agree) for unit, of in units.items()}
            share = find_share((source[unit], value == 1) for unit, value in agreed.items() if value is not None)
            finished = {unit for unit, of in units.items() if len(of) >= study.plan.per_picture}
            discarded = sum(agreed[unit] is None for unit in finished)
        yield QuestionResult(asked, given, discarded, share, find_alpha(units, ordered=scale), scale)


def _gate(
    pictures: Sequence[ReviewedPicture], rows: Mapping[str, PictureRow], accepts: Mapping[str, bool]
) -> GateResult | None:
    agreed = [one for one in pictures if one.outcome in ("valid", "invalid") and one.image in accepts]
    accepted = [one for one in agreed if accepts[one.image]]
    if not agreed:
        return None
    valid = [(rows[one.image].unit, accepts[one.image]) for one in agreed if one.outcome == "valid"]
    return GateResult(_valid_share(accepted, rows), find_share(valid) if len(accepted) < len(agreed) else None)


def _correct(
    pictures: Sequence[ReviewedPicture], rows: Mapping[str, PictureRow], wrong: Mapping[str, bool] | None
) -> CorrectedError | None:
    answered = [] if wrong is None else [is_wrong for name, is_wrong in wrong.items() if rows[name].accepted]
    if wrong is None or not answered:
        return None
    error = sum(answered) / len(answered)
    shares = [_valid_share((one for one in pictures if wrong.get(one.image) is which), rows) for which in (True, False)]
    return CorrectedError(error, len(answered), shares[0], shares[1], shares[0].times(error))


def _notes(study: Study, records: Sequence[RaterRecord], left_out: set[str], gone: int) -> Iterable[str]:
    if suspects := [one.rater for one in records if one.careless and one.rater not in left_out]:
        yield f"{', '.join(suspects)} may have answered without looking: --without careless leaves them out"
    if gone:
        yield f"{gone} reviewed pictures are no longer in the suite: their answers are kept and do not count"
    if study.plan.draw != "random" or study.plan.by is not None:
        of = study.plan.draw if study.plan.by is None else f"{study.plan.draw} by {study.plan.by}"
        yield f"the pictures were drawn so: {of}; shares are of these, not of the suite as a whole"
    if study.plan.per_picture < 2:
        yield "one rater answers each picture, so that nobody's judgement is confirmed by another's"


def follow_people(study: Study, results: StudyResults, gate: Mapping[str, bool]) -> list[tuple[str, Ruling, str]]:
    """Verdicts by hand that follow from what people agree on, with the answers and who gave them: variants that are not
    valid are excluded, and valid ones that the gate rejects are accepted.
    """
    rulings = list[tuple[str, Ruling, str]]()
    for one in results.pictures:
        parts = [
            f"{asked} {', '.join(f'{study.questions.word(asked, value)} x {count}' for value, count in of.items())}"
            for asked, of in one.counts.items()
        ]
        reason = f"reviewed by {', '.join(one.raters)}: {'; '.join(parts)}"
        if one.outcome == "invalid":
            rulings.append((one.image, "exclude", reason))
        elif one.outcome == "valid" and one.edit is None and not gate.get(one.image, True):
            rulings.append((one.image, "accept", reason))
    return rulings
