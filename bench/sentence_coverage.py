"""Of simulated suites: whether what a page says in its sentences is true, and what intervals hold where sources,
drives, labels, levels and models are not alike. For `effects.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
from measure import show
from numpy.typing import NDArray
from simulated_suites import TYPES, blank_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.compare import compare
from counterfactory.engine.judging.effects import (
    FEWEST_GROUPS,
    Effect,
    PictureOutcome,
    estimate_effects,
    find_effects,
    picture_weights,
)
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.judging.evaluation import Evaluation
from counterfactory.engine.judging.power import TOLD, sources_to_tell
from counterfactory.engine.judging.transfer import ALL, find_transfers
from counterfactory.engine.judging.within import Observations
from counterfactory.engine.report.findings import find_sentences
from counterfactory.engine.suite import PictureRow

# Values of a type, and variants of a source.
_VALUES, _VARIANTS = 3, 4
# How often models fail by themselves, on average.
_BASE = 0.1
_PILOTS = (12, 24, 50, 100, 400)
# Drives and frames of each on average, and how unequal these are: of a log-normal, its spread.
_DRIVES = ((5, 60, 0.0), (5, 60, 0.7), (10, 30, 0.0), (10, 30, 1.0), (20, 15, 0.0), (20, 15, 1.0), (50, 10, 0.0))
# How much an edit costs drives, and by how much it differs between them.
_COSTS = ((0.3, 0.26), (0.03, 0.03))
Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
# By how much oftener a picture fails, by its source's class and its edits.
Loss = Callable[[int, Sequence[Edit]], float]


def measure_sentences(draws: int) -> dict[str, Any]:
    """The figures of docs/truth.json that are of sentences and of pictures that are not alike. Whole pages take long:
    of them there are fewer.
    """
    pages = draws // 4
    figures = {
        "headline_is_alone": _headline_is_alone(pages),
        "do_little_false": _do_little_false(draws),
        "advised_power_least": _advised_power(draws),
        "most_of_all_false": _most_of_all_false(2 * pages),
        "coverage_unequal_least": _coverage_unequal(draws),
        "coverage_groups_least": _coverage_groups(draws),
        "coverage_labels_least": _coverage_labels(draws),
        "coverage_levels_least": _coverage_levels(draws),
        "coverage_two_models_least": _coverage_two_models(draws),
        "predicts_false": _predicts_false(pages),
    }
    rounded = {name: round(value, 4) for name, value in figures.items()}
    show("Sentences", ("figure", "share"), [(name, f"{100 * value:.1f} %") for name, value in rounded.items()])
    return {**rounded, "sentence_draws": draws}


def _page(rng: np.random.Generator, sources: int, loss: Loss, several: float = 0.0, classes: int = 1) -> Evaluation:
    """What is said of a model that fails by its sources and by edits: `several` is the share of variants that have two
    edits or three.
    """
    rows: list[PictureRow] = []
    wrong = []
    for g, base in enumerate(rng.beta(10 * _BASE, 10 * (1 - _BASE), sources).tolist()):
        label = g % classes
        rows.append(blank_row("control", str(g), label=str(label)))
        wrong.append(base)
        for number in range(_VARIANTS):
            count = int(rng.integers(2, 4)) if rng.random() < several else 1
            types = [TYPES[k] for k in rng.choice(len(TYPES), count, replace=False)]
            edits = tuple(Edit(type_, "x", str(rng.integers(_VALUES))) for type_ in types)
            rows.append(blank_row("variant", str(g), number, label=str(label), edits=edits))
            wrong.append(base + (1 - base) * loss(label, edits))
    fails = rng.random(len(rows)) < wrong
    return evaluate_labels(rows, ["other" if fail else row.label for row, fail in zip(rows, fails, strict=True)])


def _headline_is_alone(draws: int) -> float:
    """The least share of headline intervals that hold what the edit does alone, where edits destroy together."""

    def loss(_: int, edits: Sequence[Edit]) -> float:
        return min(1.0, 0.15 + 0.3 * (len(edits) - 1))

    rng, held = np.random.default_rng(3), []
    for size in (24, 100):
        pages = [_page(rng, size, loss, several=0.5) for _ in range(draws)]
        held += [_least_held([e.effects.leading_types for e in pages], dict.fromkeys(TYPES, -0.15 * (1 - _BASE)))]
    return min(held)


def _least_held(suites: Iterable[Sequence[Effect]], truth: dict[str, float]) -> float:
    """The least share of intervals that hold the truth: of names of one truth, which are drawn alike, together."""
    held: dict[float, list[bool]] = {}
    for effects in suites:
        for one in effects:
            if one.low is not None and one.high is not None and one.name in truth:
                held.setdefault(truth[one.name], []).append(one.low <= truth[one.name] <= one.high)
    return min(fmean(of) for of in held.values())


def _do_little_false(draws: int) -> float:
    """The largest share of pages that say that an edit does little which loses 5 points."""
    rng, shares = np.random.default_rng(4), []
    page = _page(rng, 6, lambda _, edits: 0.0)
    for size, part in ((100, 1), (300, 1), (1000, 2), (3000, 8)):
        false = 0
        for _ in range(draws // part):
            types = tuple(_suite(rng, size, np.full(size, TOLD / (1 - _BASE))))
            effects = replace(page.effects, by_type=types, by_type_alone=types, standouts=(), by_class=())
            little = [f for f in find_sentences(replace(page, effects=effects, insights=()), size) if f.certain]
            false += not types[2].clear and any(f.choices == (("type", TYPES[2]),) for f in little)
        shares.append(false / (draws // part))
    return max(shares)


def _most_of_all_false(draws: int) -> float:
    """The largest share of pages that single out a value or a class where all lose alike."""
    rng, shares = np.random.default_rng(5), []
    worlds: tuple[Loss, Loss] = (lambda _, edits: 0.33, lambda _, edits: 0.33 * (edits[0].type == "time"))
    for loss, size, part in ((worlds[0], 100, 1), (worlds[1], 100, 1), (worlds[0], 300, 2)):
        pages = [_page(rng, size, loss, classes=10) for _ in range(draws // part)]
        clear = [[one.clear for one in page.effects.standouts] + [one.clear for one in page.insights] for page in pages]
        shares.append(fmean(map(any, clear)))
    return max(shares)


def _observed(source: Ints, name: Ints, right: Floats, controls: Floats, drive: Any = None) -> Observations:
    """Variants of one edit each, and a control of each source, as `estimate_effects` takes them."""
    sources = np.concatenate([np.arange(len(controls)), source])
    varied = np.arange(len(sources)) >= len(controls)
    picture = np.arange(len(source)) + len(controls)
    outcome, weight = np.concatenate([controls, right]), picture_weights(sources, varied)
    group = None if drive is None else drive[sources]
    return Observations(sources, outcome, picture, name, int(name.max()) + 1, weight, group)


def _suite(
    rng: np.random.Generator, sources: int, loss: Floats, keep: Any = _VARIANTS, base: Any = None, drive: Any = None
) -> Sequence[Effect]:
    """The effects of four types, of which the third costs each source its own `loss`; of its variants it keeps some."""
    fails = rng.beta(10 * _BASE, 10 * (1 - _BASE), sources) if base is None else base
    source: Ints = np.repeat(np.arange(sources), keep).astype(np.int64)
    name = rng.integers(0, len(TYPES), len(source))
    wrong = fails[source] + (1 - fails[source]) * loss[source] * (name == 2)
    right, controls = (rng.random(len(of)) >= of for of in (wrong, fails))
    pictures = _observed(source, name, right.astype(float), controls.astype(float), drive)
    return estimate_effects(TYPES[: pictures.names], pictures)


def _advised_power(draws: int) -> float:
    """The least mean power, by the size of the pilot, of suites of the advised size."""
    rng, loss = np.random.default_rng(6), TOLD / (1 - _BASE)
    known: dict[int, float] = {}
    powers = []
    for pilot in _PILOTS:
        reached = []
        for _ in range(max(20, draws // 10)):
            time = _suite(rng, pilot, np.full(pilot, loss))[2]
            if time.low is not None:
                size = sources_to_tell(time, pilot, len(TYPES))
                # Powers of sizes that are alike are looked up.
                step = round(6 * np.log(size))
                if step not in known:
                    alike = int(np.exp(step / 6))
                    clear = [_suite(rng, alike, np.full(alike, loss))[2].clear for _ in range(max(40, draws // 8))]
                    known[step] = fmean(clear)
                reached.append(known[step])
        powers.append(fmean(reached))
    return min(powers)


def _coverage_unequal(draws: int) -> float:
    """Hard sources lose 60 points and keep two of six variants, easy ones lose none and keep all."""
    rng, held = np.random.default_rng(7), []
    for size in (24, 100, 300):
        suites = []
        for _ in range(draws):
            hard = rng.random(size) < 0.5
            suites.append(_suite(rng, size, 0.6 * hard, np.where(hard, 2, 6)))
        held.append(_least_held(suites, dict.fromkeys(TYPES, 0.0) | {TYPES[2]: -0.3 * (1 - _BASE)}))
    return min(held)


def _coverage_groups(draws: int) -> float:
    """Frames of drives that fail, and react, by the drive: 30 points on average, with a spread of 15, or 3 with one of
    2. Of four drives nothing is said, and nothing has to hold.
    """
    rng, held = np.random.default_rng(8), []
    for (mean, reach), (drives, frames, unequal) in product(_COSTS, _DRIVES):
        suites = [_drives(rng, drives, frames, unequal, (mean, reach)) for _ in range(draws)]
        held.append(_least_held(suites, dict.fromkeys(TYPES, 0.0) | {TYPES[2]: -mean * (1 - _BASE)}))
    few = [one for _ in range(draws // 10) for one in _drives(rng, FEWEST_GROUPS - 1, 25, 0.0, _COSTS[0])]
    return min(held) if all(one.low is None and not one.clear for one in few) else 0.0


def _drives(
    rng: np.random.Generator, drives: int, frames: int, unequal: float, cost: tuple[float, float]
) -> Sequence[Effect]:
    """The effects of a suite of drives; what fails is drawn symmetrically around a mean, which is the truth then."""
    sizes = np.maximum(1, np.rint(frames * np.exp(unequal * rng.standard_normal(drives) - unequal**2 / 2)))
    drive = np.repeat(np.arange(drives), sizes.astype(int))
    loss, base = (rng.uniform(m - s, m + s, drives) for m, s in (cost, (0.1, 0.1)))
    return _suite(rng, len(drive), loss[drive], base=base[drive], drive=drive)


def _coverage_labels(draws: int) -> float:
    """One class in ten loses 80 points, the others none."""
    rng, held = np.random.default_rng(9), []
    for size in (24, 100, 300):
        suites = [_suite(rng, size, 0.8 * (rng.random(size) < 0.1)) for _ in range(draws)]
        held.append(_least_held(suites, dict.fromkeys(TYPES, 0.0) | {TYPES[2]: -0.08 * (1 - _BASE)}))
    return min(held)


def _coverage_levels(draws: int) -> float:
    """One edit at five levels, of which each costs 8 points more, in every source."""
    rng, held = np.random.default_rng(10), []
    for size in (24, 100):
        suites = []
        for _ in range(draws):
            answers = []
            for g, base in enumerate(rng.beta(10 * _BASE, 10 * (1 - _BASE), size).tolist()):
                hard = base / _BASE
                answers.append(PictureOutcome(str(g), "control", float(rng.random() >= base)))
                for level in range(5):
                    wrong = min(1.0, base + 0.08 * level * hard)
                    right = float(rng.random() >= wrong)
                    answers.append(PictureOutcome(str(g), "variant", right, frozenset({str(level)})))
            suites.append(find_effects(answers, "control"))
        sure = rng.beta(10 * _BASE, 10 * (1 - _BASE), 200_000)
        truth = {str(k): float(np.mean(sure - np.minimum(1, sure + 0.08 * k * sure / _BASE))) for k in range(5)}
        held.append(_least_held(suites, truth))
    return min(held)


def _coverage_two_models(draws: int) -> float:
    """Two models that find the same sources hard, of which the second loses 10 points more by one edit."""
    rng, held = np.random.default_rng(11), []
    for size in (24, 100):
        gaps, breaks = [], []
        for _ in range(draws):
            rows: list[PictureRow] = []
            outcomes: tuple[dict[str, float], dict[str, float]] = ({}, {})
            for g, base in enumerate(rng.beta(10 * _BASE, 10 * (1 - _BASE), size).tolist()):
                some = [blank_row("control", str(g))]
                some += [blank_row("variant", str(g), k, edits=(Edit(TYPES[k], "x", "y"),)) for k in (2, 3)]
                for row in some:
                    luck, more = rng.random(), 0.1 / (1 - _BASE) * (row.edit_types[:1] == (TYPES[2],))
                    for model, its in enumerate(outcomes):
                        mine = luck if rng.random() < 0.7 else rng.random()
                        its[row.file_name] = float(
                            mine >= base + (1 - base) * (0.2 * (row.kind == "variant") + more * model)
                        )
                rows += some
            comparison = compare(rows, *outcomes, ("first", "second"))
            gaps.append([gap.effect for gap in comparison.by_type])
            breaks.append(comparison.breaks_by_type)
        truth = {TYPES[2]: -0.1, TYPES[3]: 0.0}
        held += [_least_held(some, truth) for some in (gaps, breaks)]
    return min(held)


def _predicts_false(draws: int) -> float:
    """The largest share of sets of models, alike in nothing, whose row over all values predicts."""
    rng, shares = np.random.default_rng(12), []
    hard = np.array([-0.5, -0.3, -0.1, 0.0])
    for models in (4, 10):
        named = 0
        for _ in range(draws):
            sides = (hard + rng.normal(0, 0.08, (models, 1)) + rng.normal(0, 0.05, (models, 4)) for _ in range(2))
            painted, real = ([{f"t: {k}": float(v) for k, v in enumerate(row)} for row in side] for side in sides)
            first = find_transfers(painted, real)[0]
            named += first.name == ALL and first.predicts
        shares.append(named / draws)
    return max(shares)
