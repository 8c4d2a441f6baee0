"""Claim: what people say of a sample of pictures holds for all of them, and raters who do not look are told apart.

A crowd with a known truth answers studies that are drawn from a suite of 5,000 variants of 1,000 sources, of which some
are valid, by source more or less. Raters err in 1 to 5 % of their answers; one in eight of them answers a fifth of the
pictures by chance. Counted is how often validity's interval, of what at least four of five raters agree on, holds the
whole suite's share; and the same by majority where people are of two minds about one picture in twenty, whichever way
is true.

Raters of 30 pictures each are ranked by suspicion: the area under the curve is the chance that a careless one comes
before a careful one, of DILLEMA's questions about the label and two more classes, of LANCE's five, and of one question
alone, beside what counting errors would come to if the truth were known. `--write` keeps the figures in
docs/people.json. The last line is JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from measure import DOCS, bench_parser, command_line, finish, keep_figures, machine, show
from simulated_suites import PAINTING, blank_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.review.answer_book import Rating
from counterfactory.engine.review.careless import RaterRecord, judge_raters
from counterfactory.engine.review.question_set import load_questions
from counterfactory.engine.review.study import Study, StudyPlan, draw_study
from counterfactory.engine.review.study_results import SuiteFacts, find_results
from counterfactory.engine.suite import PictureRow

_SOURCES, _VARIANTS, _RATERS, _EACH = 1_000, 5, 8, 5
_VALID = (0.827, 0.95, 0.99)
_CARELESS = "rater 0"
_TWO_MINDS, _BY_CHANCE = 0.05, 0.2
_CAREFUL = (0.01, 0.05)


def suite() -> list[PictureRow]:
    """The rows of the suite: originals, controls and variants of buses and cars."""
    edits, rows = (Edit("weather", "clear", "foggy"),), []
    for number in range(_SOURCES):
        label, at = ("bus", "car")[number % 2], f"images/{number}"
        original = f"originals/{number}/o.png"
        files: dict[str, Any] = {"file_name": original, "original": original, "control": f"{at}/c.png", "label": label}
        first = blank_row("original", str(number), **files)
        painted = replace(first, file_name=f"{at}/c.png", kind="control", painting=PAINTING)
        variant = replace(painted, kind="variant", edits=edits)
        rows += [first, painted]
        rows += [replace(variant, file_name=f"{at}/{k}.png", number=k) for k in range(_VARIANTS)]
    return rows


def answer(
    study: Study, valid: Mapping[str, bool], minds: set[str], rng: np.random.Generator, each: int
) -> list[Rating]:
    """The crowd's answers: `each` raters answer a picture, all of them the checks; rater 0 is careless. `valid` is the
    truth of the variants, and of `minds` careful raters say yes as often as no.
    """
    slips, ratings = rng.uniform(*_CAREFUL, _RATERS), []
    for item in study.items:
        raters = rng.permutation(_RATERS)[: each if item.kind == "variant" else _RATERS]
        truth = _truth(study, valid, Rating("", item.number, "", 0))
        for rater in raters.tolist():
            chance = rater == 0 and rng.random() < _BY_CHANCE
            for asked in item.asks:
                question = study.questions.question(asked)
                assert question is not None
                value = int(truth)
                if question.kind == "scale":
                    value = int(np.clip(np.rint((4 if truth else 2.5) + rng.normal(0, 0.7)), 1, 5))
                elif question.name == "ethics":
                    value = 0
                if rng.random() < slips[rater]:
                    value = int(rng.choice([other for other in question.values if other != value]))
                if chance or (item.image in minds and item.kind == "variant" and question.name == "label"):
                    value = int(rng.choice(question.values))
                ratings.append(Rating(f"rater {rater}", item.number, asked, value))
    return ratings


def coverage(rows: Sequence[PictureRow], share: float, trials: int, two_minds: float) -> tuple[float, float, float]:
    """How often the interval of what is agreed holds the truth, how often the one by majority does, and the share that
    is discarded.
    """
    held, discarded, gate = [0, 0], [], {row.file_name: True for row in rows if row.kind == "variant"}
    questions = load_questions("dillema")
    for trial in range(trials):
        rng = np.random.default_rng([trial, round(1000 * share)])
        of_source = rng.beta(20 * share, 20 * (1 - share), _SOURCES)
        valid = {name: bool(rng.random() < of_source[int(name.split("/")[1])]) for name in gate}
        minds = {name for name in gate if rng.random() < two_minds}
        valid |= {name: bool(rng.random() < 0.5) for name in minds}
        study = draw_study(rows, questions, StudyPlan(seed=trial))
        ratings = answer(study, valid, minds, rng, _EACH)
        whole = find_results(study, ratings, SuiteFacts(rows, gate), without=["careless"]).validity[0]
        truth = sum(valid.values()) / len(valid)
        for place, one in enumerate((whole.valid, whole.by_majority)):
            assert one.low is not None
            assert one.high is not None
            held[place] += one.low <= truth <= one.high
        discarded.append(whole.discarded_share or 0.0)
    return held[0] / trials, held[1] / trials, float(np.mean(discarded))


def area(
    rows: Sequence[PictureRow], questions: str, words: tuple[str, ...], trials: int
) -> tuple[float, float, float, float]:
    """The area under the curve of suspicion of raters with 30 pictures each; what it would be by their errors about the
    label, if the truth were known; and the shares of careless and of careful ones that are called careless.
    """
    rows = [replace(row, protected=words) for row in rows]
    names = [row.file_name for row in rows if row.kind == "variant"]
    records: dict[bool, list[RaterRecord]] = {True: [], False: []}
    errors: dict[bool, list[float]] = {True: [], False: []}
    for trial in range(trials):
        rng = np.random.default_rng([trial, 7])
        valid = {name: bool(rng.random() < 0.9) for name in names}
        study = draw_study(rows, load_questions(questions), StudyPlan(sample=27, checks=0.1, seed=trial))
        ratings = answer(study, valid, set(), rng, _RATERS)
        for record in judge_raters(study, ratings):
            records[record.rater == _CARELESS].append(record)
        wrong = Counter(one.rater for one in ratings if one.asked == "label" and one.value != _truth(study, valid, one))
        for rater in {one.rater for one in ratings}:
            errors[rater == _CARELESS].append(wrong[rater])
    suspicions = [[one.suspicion for one in group] for group in records.values()]
    called = [sum(one.careless for one in group) / len(group) for group in records.values()]
    return _area(*suspicions), _area(*errors.values()), called[0], called[1]


def _truth(study: Study, valid: Mapping[str, bool], one: Rating) -> int:
    item = study.by_number[one.item]
    return int({"variant": valid[item.image], "control": True, "other": False}[item.kind])


def _area(above: Sequence[float], below: Sequence[float]) -> float:
    left, right = np.array(above)[:, None], np.array(below)[None]
    return float(((left > right) + 0.5 * (left == right)).mean())


def main() -> None:
    parser = bench_parser(__doc__, write="docs/people.json")
    parser.add_argument("--trials", type=int, default=400, help="studies of each kind (%(default)s)")
    asked = parser.parse_args()
    rows = suite()
    clear = {share: coverage(rows, share, asked.trials, 0.0) for share in _VALID}
    minds = coverage(rows, _VALID[0], asked.trials, _TWO_MINDS)
    kinds = {"one question": ("dillema", ()), "dillema": ("dillema", ("road", "person")), "lance": ("lance", ())}
    areas = {name: area(rows, *kind, asked.trials) for name, kind in kinds.items()}
    cells = [(f"{share:.1%}", *(f"{value:.3f}" for value in of)) for share, of in clear.items()]
    cells.append((f"{_VALID[0]:.1%}, of two minds", *(f"{value:.3f}" for value in minds)))
    show("Intervals that hold the truth", ("valid", "agreed", "by majority", "discarded"), cells)
    lines = [(name, *(f"{value:.3f}" for value in of)) for name, of in areas.items()]
    columns = ("questions", "area", "truth known", "careless called so", "careful called so")
    show("Raters of 30 pictures", columns, lines)
    figures: dict[str, Any] = {"trials": asked.trials, "coverage": min(of[0] for of in clear.values())}
    figures["coverage_by_validity"] = {str(share): of[0] for share, of in clear.items()}
    figures["coverage_two_minds"] = dict(zip(("agreed", "majority", "discarded"), minds, strict=True))
    figures |= {"careless_auc": areas["dillema"][0], "careless_auc_lance": areas["lance"][0]}
    alone = "careless_auc_one_question"
    figures |= {alone: areas["one question"][0], f"{alone}_truth_known": areas["one question"][1]}
    figures["called_careless"] = {name: {"careless": of[2], "careful": of[3]} for name, of in areas.items()}
    if asked.write:
        keep_figures(DOCS / "people.json", {**figures, "machine": machine(), "command": command_line()})
    finish("what people say of a sample holds for the suite", **figures)


if __name__ == "__main__":
    main()
