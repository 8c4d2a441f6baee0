"""Which raters answer without looking, by the answers of the others and by checks whose answers are known.

A rater is a mixture: a share of the items is answered by chance, all questions of an item at once, the rest as a
careful rater would, who gives the true answer but for slips. The others' answers tell how likely each answer is the
true one, each as far as they are careful themselves (as Dawid and Skene, Applied Statistics 28, 1979), and how likely
there is none, so that whoever is alone in a dispute is not accused; a check's is known. `suspicion` is the logarithm of
how much likelier a fifth by chance is than none; 3 says twenty times.
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
_FEW = 3  # known answers
_SLIP, _ONE_OFF = 0.03, 0.4  # of a careful rater's answers; of those on a scale, one off
_DISPUTED, _NO_TRUTH = 0.05, -1  # items without a true answer


@dataclass(frozen=True)
class RaterRecord:
    """A rater's answers: to how many items; how many of `checks` known ones are `right`; whether of the known ones of a
    kind, three or more, half are wrong; `suspicion` and the median seconds per item.
    """

    rater: str
    items: int
    right: int
    checks: int
    failed: bool
    suspicion: float
    seconds: float

    @property
    def careless(self) -> bool:
        """Whether so many answers by chance are twenty times likelier than none, or checks are failed."""
        return self.failed or self.suspicion > SUSPECT


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
        by_kind = defaultdict[str, list[bool]](list)
        for answers in items.values():
            for one in answers:
                item = study.by_number[one.item]
                if (right := study.right_answer(item, one.asked)) is not None:
                    by_kind[item.kind].append(one.value == right)
        known = [right for some in by_kind.values() for right in some]
        failed = any(len(some) >= _FEW and 2 * sum(some) <= len(some) for some in by_kind.values())
        times = sorted(sum(one.seconds for one in answers) for answers in items.values())
        records.append(
            RaterRecord(rater, len(items), sum(known), len(known), failed, suspicions[rater], times[len(times) // 2])
        )
    return sorted(records, key=lambda record: (-record.suspicion, record.rater))


def _usual_answers(study: Study, ratings: Sequence[Rating]) -> dict[str, dict[int, float]]:
    """How often each answer is given to each question."""
    counts = defaultdict[str, dict[int, float]](dict)
    for one in ratings:
        question = study.questions.question(one.asked)
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
        scale, values = question.kind == "scale", question.values
        right = study.right_answer(study.by_number[one.item], one.asked)
        if right is not None:
            likely = {right: 1.0}
        else:
            likely = {truth: (1 - _DISPUTED) * share for truth, share in usual[question.name].items()}
            likely |= {_NO_TRUTH: _DISPUTED}
            for rater, value in by_unit[one.item, one.asked].items():
                if rater != one.rater:
                    chance = (1 - trust[rater]) / len(values)
                    for truth in likely:
                        likely[truth] *= chance + trust[rater] * _given(value, truth, values, scale)
        total = sum(likely.values())
        careful *= sum(share / total * _given(one.value, truth, values, scale) for truth, share in likely.items())
        by_chance *= 1 / len(values)
    return log((1 - _BY_CHANCE) * careful + _BY_CHANCE * by_chance) - log(careful)


def _given(value: int, truth: int, values: Sequence[int], scale: bool) -> float:
    """How likely a careful rater gives an answer."""
    if truth == _NO_TRUTH:
        return 1 / len(values)
    sides = [side for side in (truth - 1, truth + 1) if scale and side in values]
    slip = _SLIP / len(values)
    if value in sides:
        return slip + (1 - _SLIP) * _ONE_OFF / 2
    return slip + (1 - _SLIP) * (1 - _ONE_OFF / 2 * len(sides)) * (value == truth)
