"""Which raters answer without looking, by the answers of the others and by checks whose answers are known.

A rater is a mixture: a share of the items is answered by chance, all questions of an item at once, the rest as a
careful rater would. What a careful one would answer is told by the others, each as far as they are careful themselves,
and by the known answer, which weighs more than all of them. `suspicion` is the logarithm of how much likelier a fifth
by chance is than none; 3 says twenty times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from .answer_book import Rating
from .study import Study

SUSPECT = 3.0
_BY_CHANCE = 0.2
_ROUNDS = 3
# Votes of a known answer; and those of what everybody answers, which stand for others where there are none.
_KNOWN, _PRIOR = 8.0, 0.6
_SLIP = 0.03  # a careful rater's own


@dataclass(frozen=True)
class RaterRecord:
    """A rater's answers: to how many items; how many of `checks` known ones are `right`; `suspicion` and the median
    seconds per item.
    """

    rater: str
    items: int
    right: int
    checks: int
    suspicion: float
    seconds: float

    @property
    def careless(self) -> bool:
        """Whether so many answers by chance are twenty times likelier than none."""
        return self.suspicion > SUSPECT


def judge_raters(study: Study, ratings: Sequence[Rating]) -> list[RaterRecord]:
    """A record per rater, the most suspicious first."""
    by_unit = defaultdict[tuple[int, str], dict[str, int]](dict)
    by_rater = defaultdict[str, dict[int, list[Rating]]](lambda: defaultdict(list))
    for one in ratings:
        by_unit[one.item, one.asked][one.rater] = one.value
        by_rater[one.rater][one.item].append(one)
    usual = _usual_answers(study, ratings)
    trust = dict.fromkeys(by_rater, 1.0)
    suspicions = dict.fromkeys(by_rater, 0.0)
    for _ in range(_ROUNDS):
        suspicions = {
            rater: sum(_suspicion(study, answers, by_unit, usual, trust) for answers in items.values())
            for rater, items in by_rater.items()
        }
        trust = {rater: 1 / (1 + exp(min(value, 50.0) - log(9))) for rater, value in suspicions.items()}
    records = []
    for rater, items in by_rater.items():
        known = [
            one.value == right
            for answers in items.values()
            for one in answers
            if (right := study.right_answer(study.by_number[one.item], one.asked)) is not None
        ]
        times = sorted(sum(one.seconds for one in answers) for answers in items.values())
        records.append(
            RaterRecord(rater, len(items), sum(known), len(known), suspicions[rater], times[len(times) // 2])
        )
    return sorted(records, key=lambda record: (-record.suspicion, record.rater))


def _usual_answers(study: Study, ratings: Sequence[Rating]) -> dict[str, dict[int, float]]:
    """How often each answer is given to each question."""
    counts = defaultdict[str, dict[int, float]](dict)
    for one in ratings:
        question = study.questions.question(one.asked)
        assert question is not None, "the book gives answers to the study's questions alone"
        shares = counts[question.name] or dict.fromkeys(question.values, 0.5)
        counts[question.name] = shares | {one.value: shares[one.value] + 1}
    return {
        name: {value: count / sum(shares.values()) for value, count in shares.items()}
        for name, shares in counts.items()
    }


def _suspicion(
    study: Study,
    answers: Sequence[Rating],
    by_unit: dict[tuple[int, str], dict[str, int]],
    usual: dict[str, dict[int, float]],
    trust: dict[str, float],
) -> float:
    """What one item's answers add."""
    careful = by_chance = 1.0
    for one in answers:
        question = study.questions.question(one.asked)
        assert question is not None
        prior = usual[question.name]
        votes = {value: _PRIOR * share for value, share in prior.items()}
        for rater, value in by_unit[one.item, one.asked].items():
            if rater != one.rater:
                _vote(votes, value, trust[rater], question.kind == "scale")
        right = study.right_answer(study.by_number[one.item], one.asked)
        if right is not None:
            votes[right] += _KNOWN
        share = votes[one.value] / sum(votes.values())
        careful *= (1 - _SLIP) * share + _SLIP / len(votes)
        by_chance *= 1 / len(votes)
    return log((1 - _BY_CHANCE) * careful + _BY_CHANCE * by_chance) - log(careful)


def _vote(votes: dict[int, float], value: int, weight: float, near: bool) -> None:
    """Adds a vote; on a scale half of it goes to the answers beside it."""
    sides = [side for side in (value - 1, value + 1) if near and side in votes]
    votes[value] += weight * (1 - 0.25 * len(sides))
    for side in sides:
        votes[side] += 0.25 * weight
